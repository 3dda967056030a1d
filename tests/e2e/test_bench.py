"""`make bench` tells what it promises, in one run. Its times are for whoever reads them: a busy machine judges none."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, ROOT, require_build  # noqa: E402

TIMED = ("send + recv, untracked descriptor", "send + recv, tracked connection", "connect refused", "redis-benchmark")
COUNTED = ("system calls of send + recv, untracked", "system calls of send + recv, tracked",
           "system calls of a refusal")


class Bench(unittest.TestCase):
    def test_one_run_compares_bare_and_guarded_and_no_system_call_is_added(self):
        require_build()
        environment = {**os.environ, "BUILD": str(BUILD), "ROUNDS": "1"}
        result = subprocess.run([ROOT / "scripts/bench"], env=environment, stdin=subprocess.DEVNULL, timeout=300,
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result)
        rows = [re.split(r" {2,}", line) for line in result.stdout.splitlines()]
        for name in TIMED:
            with self.subTest(name):
                (row,) = [row for row in rows if row[0].startswith(name)]
                bare, guarded, ratio = (float(word) for word in row[1:4])
                self.assertGreater(min(bare, guarded, ratio), 0, row)
        for name in COUNTED:
            with self.subTest(name):
                (row,) = [row for row in rows if row[0].startswith(name)]
                if "strace" not in row[-1]:
                    self.assertEqual(row[-1], "yes", row)


if __name__ == "__main__":
    unittest.main()
