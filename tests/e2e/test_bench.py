"""`make bench` tells what it promises, in one run, and judges it. Its times are for whoever reads them: a busy machine
judges none, so what it makes of figures is tested with stand-ins for everything that measures.
"""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, LIBRARY, ROOT, SOCKFUSE, ParallelSuite, Sandbox, require_build  # noqa: E402

TIMED = ("send + recv, untracked descriptor", "send + recv, tracked connection", "connect refused", "redis-benchmark")
GROWN = ("processes attached", "circuits known", "connections held", "calls just overdue", "attempts pending",
         "a dup before connect", "descriptors open", "holders", "targets in the policy", "patterns in one match")
COUNTED = ("system calls of send + recv, untracked", "system calls of send + recv, tracked",
           "system calls of a refusal")

load_tests = ParallelSuite.load(4)
# Each is told by its environment which policy it runs under, and by SLOW which figures are to be bad.
HEAD = """#!/bin/sh
slow() { case " $SLOW " in *" $1 "*) true ;; *) false ;; esac; }
policy=${SOCKFUSE_POLICY##*/}
"""
PROGRAMS = {
    "pair": "case $policy in untracked) slow pair && echo 106 || echo 104 ;; tracked) echo 120 ;; *) echo 100 ;; esac",
    "refusal": "case $policy in open) slow refusal && echo 60 || echo 4 ;; *) echo 100 ;; esac",
    "growth": "case $1 in targets) slow growth && echo 100 400 4.000 3.50 4.50 && exit ;; esac\n"
              "echo 100 104 1.040 0.95 1.10",
    "startup": "case $2 in ?*) slow startup && echo 3000000 || echo 900000 ;; *) echo 600000 ;; esac",
}
TOOLS = {
    # strace -f -c -o FILE [sockfuse run -p POLICY --] PROGRAM BATCHES: 64 operations a batch, and some for the start.
    "strace": """
for batches; do :; done
case $* in *refusal*) each=3 ;; *) each=2 ;; esac
case $* in */open\\ *) slow calls || each=2 ;; esac
echo "100.00 0.1 1 $((90 + batches * 64 * each)) total" >"$4"
""",
    "redis-server": "echo Ready to accept connections; exec sleep 100",
    "redis-benchmark": """case $policy in tracked) slow redis && rate=970.0 || rate=990.0 ;; *) rate=1000.0 ;; esac
echo '"test","rps"'; echo "\\"GET\\",\\"$rate\\""
""",
}
COLUMNS = re.compile(r"(?m)^(?P<what>\S.{45}) +(\S+) +(\S+) +(\S+)   .{22} (?P<verdict>yes|NO|-)$")


class Judge(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.build, self.tools, self.temporary = (os.path.join(self.sandbox.folder, name)
                                                  for name in ("build", "tools", "temporary"))
        programs = os.path.join(self.build, "tests", "bench")
        for folder in (programs, self.tools, self.temporary):
            os.makedirs(folder)
        for path in (SOCKFUSE, LIBRARY):
            os.symlink(path, os.path.join(self.build, path.name))
        for folder, scripts in ((programs, PROGRAMS), (self.tools, TOOLS)):
            for name, script in scripts.items():
                self.write(os.path.join(folder, name), HEAD + script)

    @staticmethod
    def write(path, script):
        with open(path, "w", encoding="ascii") as file:
            file.write(script)
        os.chmod(path, 0o755)

    def bench(self, *slow):
        """What it printed, its rows' verdicts, what it said on stderr, and its exit status."""
        environment = self.sandbox.environment("bench", {
            "BUILD": self.build, "ROUNDS": "1", "MAKE": "true", "SLOW": " ".join(slow), "TMPDIR": self.temporary})
        environment["PATH"] = f"{self.tools}:{environment['PATH']}"
        result = subprocess.run([ROOT / "scripts" / "bench"], env=environment, cwd=self.sandbox.folder, text=True,
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        self.assertEqual(os.listdir(self.temporary), [])
        rows = [row["verdict"] for row in COLUMNS.finditer(result.stdout)]
        self.assertEqual(len(rows), 19, f"everything is printed: {result}")
        self.assertEqual([number for number, row in enumerate(rows) if row == "-"], [1, 18], "that are only told")
        return rows, result.stderr, result.returncode

    def test_when_all_is_as_wanted_it_ends_well(self):
        rows, err, status = self.bench()
        self.assertNotIn("NO", rows)
        self.assertEqual((err, status), ("", 0))

    def test_one_figure_that_is_not_as_wanted_makes_it_fail_after_everything_is_printed(self):
        rows, err, status = self.bench("startup")
        self.assertEqual([number for number, verdict in enumerate(rows) if verdict == "NO"], [3])
        self.assertEqual((err, status), ("bench: 1 of 17 figures not as wanted\n", 1))

    def test_it_says_how_many_are_not_as_wanted(self):
        rows, err, status = self.bench("pair", "refusal", "startup", "calls", "growth", "redis")
        self.assertEqual([number for number, verdict in enumerate(rows) if verdict == "NO"], [0, 2, 3, 6, 15, 17])
        self.assertEqual((err, status), ("bench: 6 of 17 figures not as wanted\n", 1))


class Run(unittest.TestCase):
    def test_one_run_compares_bare_and_guarded_and_no_system_call_is_added(self):
        require_build()
        environment = {**os.environ, "BUILD": str(BUILD), "ROUNDS": "1", "OTHERS": "40"}
        result = subprocess.run([ROOT / "scripts/bench"], env=environment, stdin=subprocess.DEVNULL, timeout=300,
                                capture_output=True, text=True, check=False)
        self.assertIn(result.returncode, (0, 1), result)
        rows = [re.split(r" {2,}", line) for line in result.stdout.splitlines()]
        for name in TIMED:
            with self.subTest(name):
                (row,) = [row for row in rows if row[0].startswith(name)]
                bare, guarded, ratio = (float(word) for word in row[1:4])
                self.assertGreater(min(bare, guarded, ratio), 0, row)
        for name in GROWN:
            with self.subTest(name):
                (row,) = [row for row in rows if row[0].endswith(name) or f"{name} (" in row[0]]
                small, large, ratio = (float(word) for word in row[1:4])
                self.assertGreater(min(small, large, ratio), 0, row)
        for name in COUNTED:
            with self.subTest(name):
                (row,) = [row for row in rows if row[0].startswith(name)]
                if "strace" not in row[-1]:
                    self.assertEqual(row[-1], "yes", row)


if __name__ == "__main__":
    unittest.main()
