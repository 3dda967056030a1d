"""`sockfuse observe -o` and `--suggest`: files that can't be written, and what can't be written into one."""
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import ParallelSuite, Sandbox, Server, answer_http  # noqa: E402

load_tests = ParallelSuite.load(4)

CALL = "import sys, urllib.request\nfor url in sys.argv[1:]: urllib.request.urlopen(url).read()\n"


class Files(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def path(self, name):
        return os.path.join(self.sandbox.folder, name)

    def observe(self, *words):
        return self.sandbox.sockfuse("observe", *words)

    def test_a_file_that_can_not_be_written_is_told_before_the_command_starts(self):
        ran = self.path("ran")
        for option in ("-o", "--suggest"):
            for file in ("/nonexistent/table", self.sandbox.folder, "/proc/table"):
                result = self.observe("--force", option, file, "--", "touch", ran)
                self.assertEqual(result.status, 125, (option, file, result))
                self.assertIn(f"{file} can't be written", result.stderr)
                self.assertIn("touch is not started", result.stderr)
                self.assertFalse(os.path.exists(ran), (option, file))

    def test_what_is_looked_at_before_leaves_nothing_and_keeps_what_was_there(self):
        path = self.path("table")
        with open(path, "w", encoding="ascii") as file:
            file.write("former")
        before = sorted(os.listdir(self.sandbox.folder))
        result = self.observe("-o", path, "--suggest", self.path("made"), "--", "sh", "-c", 'cat "$1"; ls "$2"', "sh",
                              path, self.sandbox.folder)
        self.assertEqual(result.status, 0, result)
        self.assertTrue(result.stdout.startswith("former"), result)
        self.assertFalse([name for name in result.stdout.removeprefix("former").split()
                          if name.startswith(("table.", "made"))], (before, result))

    def test_a_table_that_can_no_longer_be_written_goes_to_standard_error_and_the_status_is_the_commands(self):
        folder = self.path("folder")
        for option in ("-o", "--suggest"):
            os.mkdir(folder)
            server = Server(answer_http)
            self.addCleanup(server.stop)
            result = self.observe(option, os.path.join(folder, "file"), "--", "sh", "-c",
                                  '"$2" -c "$3" "$4"; rmdir "$1"; exit 7', "sh", folder, sys.executable, CALL, server.url)
            self.assertEqual(result.status, 7, result)
            self.assertIn(f"{folder}/file can't be written", result.stderr)
            self.assertRegex(result.stderr, rf"\n{server.destination} +1 +1 ")

    def test_a_name_that_no_pattern_can_be_is_told_for_what_it_is(self):
        name, path = self.path("new\nline"), self.path("made")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
            listener.listen()
            result = self.observe("--suggest", path, "--", sys.executable, "-c",
                                  "import socket, sys\ns = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
                                  "s.send(b'x')", name)
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.stderr, r"--suggest \S+: not written, for [^\n]*can't be written as a pattern: "
                                        r"unix:/\S*new\\x0aline")
        self.assertNotIn("no call was seen", result.stderr)
        self.assertFalse(os.path.exists(path))

    def test_one_is_one(self):
        server, path = Server(answer_http), self.path("made")
        self.addCleanup(server.stop)
        self.assertEqual(self.observe("--suggest", path, "--", sys.executable, "-c", CALL, server.url).status, 0)
        with open(path, encoding="utf-8") as file:
            made = file.read()
        self.assertIn("# left: 1 connection was seen, 20 are wanted", made)
        self.assertIn("# left: 1 answer was seen, 100 are wanted", made)
        self.assertIn("# left: no outage was seen to heal, 3 are wanted", made)
        server.down()
        self.observe("--suggest", path, "--force", "--", sys.executable, "-c", CALL, server.url)
        with open(path, encoding="utf-8") as file:
            self.assertIn("\n# 1 failure had not healed when this was written.\n", file.read())


if __name__ == "__main__":
    unittest.main()
