"""How scripts/test counts: by what no version of cmocka words in another way."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BARE, ROOT, Sandbox  # noqa: E402

PROGRAM = r"""
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>
static void passes(void **state) { (void)state; printf("a line without an end"); }
static void fails(void **state) { (void)state; assert_int_equal(1, 2); }
static void is_passed_over(void **state) { (void)state; skip(); }
static void ends_the_program(void **state) { (void)state; fflush(NULL); _exit(0); }
static int is_not_set_up(void **state) { (void)state; return -1; }
int main(int count, char **words)
{
    (void)words;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes), cmocka_unit_test(is_passed_over), cmocka_unit_test(passes), cmocka_unit_test(passes),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(fails), cmocka_unit_test_setup(passes, is_not_set_up), cmocka_unit_test(ends_the_program),
        cmocka_unit_test(passes),
    };
    int failed = cmocka_run_group_tests_name("tests", tests, NULL, NULL);
    return count > 1 ? failed + cmocka_run_group_tests_name("others", others, NULL, NULL) : failed;
}
"""
# As cmocka writes it in 1.1.5 and in 1.1.7.
OLDER = "1..4\nok 1 - passes\nnot ok 2 # SKIP is_passed_over\nhalf a lineok 3 - passes\nnot ok 4 - fails\n# 0x1 != 0x2\n"
NEWER = "TAP version 13\n" + OLDER.replace("not ok 2", "ok 2")


class Counting(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def count(self, output, status):
        """Passed, failed, skipped."""
        path = os.path.join(self.sandbox.folder, "output")
        with open(path, "w", encoding="utf-8") as file:
            file.write(output)
        script = f"source <(sed -n '/^count_cmocka() {{/,/^}}/p' {ROOT}/scripts/test); count_cmocka {path} {status}"
        result = self.sandbox.run(["bash", "-c", script], BARE)
        self.assertEqual((result.stderr, result.status), ("", 0))
        return tuple(map(int, result.stdout.split()))

    def test_the_words_of_either_version(self):
        for output in OLDER, NEWER:
            self.assertEqual(self.count(output, 1), (2, 1, 1))

    def test_the_words_of_the_version_that_is_installed(self):
        program = os.path.join(self.sandbox.folder, "program")
        subprocess.run(["cc", "-x", "c", "-", "-o", program, "-lcmocka"], input=PROGRAM.encode(), check=True)
        for words, expected in (([], (3, 0, 1)), (["more"], (3, 4, 1))):
            result = self.sandbox.run([program, *words], BARE, {"CMOCKA_MESSAGE_OUTPUT": "TAP"})
            self.assertEqual(self.count(result.stdout, result.status), expected, result)

    def test_a_program_that_says_nothing_or_ends_badly_is_one_failure(self):
        self.assertEqual(self.count("", 0), (0, 1, 0))
        self.assertEqual(self.count("Segmentation fault\n", 139), (0, 1, 0))
        self.assertEqual(self.count("1..1\nok 1 - passes\n", 1), (1, 1, 0))


if __name__ == "__main__":
    unittest.main()
