"""scripts/demo: what it tells is what happens, and it leaves nothing behind, also when it is interrupted."""
import glob
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, ROOT, ParallelSuite, Sandbox, eventually  # noqa: E402

load_tests = ParallelSuite.load(2)
ROW = re.compile(r" +(?P<at>[\d.]+) s   (?P<what>\S.*?) +(?P<ms>[\d.]+) ms   (?P<says>\S.*?) +(?P<server>\d+)   "
                 r"(?P<circuit>\S+)")
PAUSE = re.compile(r" +the pause has (?P<seconds>[\d.]+) s to go")
GAVE_UP, REFUSED, ANSWERED = "gave up: timeout", "connection refused", "answer 200"
# What each call is, what curl says of it, and the circuit after it.
STORY = [("waits 1", GAVE_UP, "closed"), ("waits 2", GAVE_UP, "closed"), ("waits 3", GAVE_UP, "open"),
         *((f"refused {number}", REFUSED, "open") for number in range(1, 5)),
         ("the probe fails", GAVE_UP, "open"), ("refused again", REFUSED, "open"),
         ("the probe succeeds", ANSWERED, "closed"), ("and all is well", ANSWERED, "closed")]
# The server's own count after each of them: only those that reach it count, in a black hole none does.
SILENT = [1, 2, 3, 3, 3, 3, 3, 4, 4, 5, 6]
BLACK_HOLE = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]


def times(rows):
    """When each call began, and when it ended, in seconds."""
    at = {row["what"]: float(row["at"]) for row in rows}
    return at, {row["what"]: at[row["what"]] + float(row["ms"]) / 1000 for row in rows}


class Demo(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.folders = {}
        # Where it may write, and where its segment would be if it did not keep it with the rest.
        for name in ("TMPDIR", "XDG_RUNTIME_DIR"):
            self.folders[name] = os.path.join(self.sandbox.folder, name)
            os.mkdir(self.folders[name], 0o700)

    def start(self):
        """The demo over the build under test, with the compiler and flags that the tests themselves run with."""
        environment = {**os.environ, **self.folders, "HOME": self.sandbox.home, "BUILD": str(BUILD)}
        process = subprocess.Popen([ROOT / "scripts" / "demo"], env=environment, cwd=self.sandbox.folder, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        """Whatever goes wrong in a test, nothing of the demo outlives it."""
        process.kill()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        process.communicate()

    def processes(self):
        """Those that live of the demo's: each inherits the name of the folder."""
        mark = f"TMPDIR={self.folders['TMPDIR']}".encode()
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(path.split("/")[2]))
            except OSError:
                pass  # gone meanwhile
        return found

    def assert_nothing_is_left(self):
        self.assertTrue(eventually(lambda: not self.processes()), f"processes: {self.processes()}")
        for folder in self.folders.values():
            self.assertEqual(os.listdir(folder), [])

    @staticmethod
    def machine_was_late(out):
        """Whether a call that was to be refused began after the pause: it is a probe then, and the demo fails."""
        rows = [row.groupdict() for row in map(ROW.fullmatch, out.splitlines()) if row]
        rows = rows[len(STORY):] or rows  # of the chapter in which it ended
        if not rows:
            return False
        at, end = times(rows)
        name = rows[-1]["what"]
        opened, pause = ("the probe fails", 4) if name == "refused again" else ("waits 3", 2)
        return name.startswith("refused") and at[name] - end[opened] >= pause - 0.2

    def check(self, lines, counts):
        """One chapter: its rows, its pauses, and when the calls came."""
        rows = [row.groupdict() for row in map(ROW.fullmatch, lines) if row]
        self.assertEqual([(row["what"], row["says"], row["circuit"]) for row in rows], STORY)
        self.assertEqual([int(row["server"]) for row in rows], counts)
        for row in rows:
            if row["says"] == GAVE_UP:
                self.assertTrue(950 <= float(row["ms"]) < 3000, f"curl --max-time 1: {row}")
        # Two of the five may meet a busy machine.
        self.assertLess(statistics.median(float(row["ms"]) for row in rows if row["says"] == REFUSED), 200)
        at, end = times(rows)
        first, second = (float(pause["seconds"]) for pause in map(PAUSE.match, lines) if pause)
        self.assertTrue(0 <= first <= 2.2, "two seconds and a tenth by chance")
        self.assertTrue(0 <= second <= 4.4, "twice as long")
        # What is printed is cut to a tenth.
        self.assertGreaterEqual(at["the probe fails"] - end["waits 3"], 2 - 0.2, "it waits for the pause")
        self.assertGreaterEqual(at["the probe succeeds"] - end["the probe fails"], 4 - 0.2, "twice as long")

    def test_it_tells_the_whole_story_of_both_dead_servers_and_leaves_nothing_behind(self):
        for _ in range(3):
            began = time.monotonic()
            demo = self.start()
            out, err = demo.communicate(timeout=100)
            self.assert_nothing_is_left()
            if demo.returncode == 0 or not self.machine_was_late(out):
                break
        seconds = time.monotonic() - began
        self.assertEqual((demo.returncode, err), (0, ""), out)
        titles = r"(?m)^(?:1\. .*|2\. .*|What sockfuse tells of it.*|and sockfuse events .*)$"
        _, silent, black_hole, status, events = re.split(titles, out)
        self.check(silent.splitlines(), SILENT)
        self.check(black_hole.splitlines(), BLACK_HOLE)
        for kind in ("response-timeout", "connect-timeout"):
            self.assertRegex(status, rf"(?m)^  demo-server  127\.0\.0\.1:\d+ +closed +0/3 +0 +6 +4 +5  {kind}, ")
        self.assertEqual(re.findall(r"(?m)^\S+Z +(open|half-open|close) ", events),
                         ["open", "half-open", "open", "half-open", "close"])
        self.assertNotIn("\x1b", out, "no colours but on a terminal")
        took = re.search(r"\nThat took ([\d.]+) s\.\n\Z", out)
        self.assertLessEqual(float(took[1]), seconds)
        self.assertLess(float(took[1]), 60)

    def test_interrupted_before_a_black_hole_it_leaves_nothing_either(self):
        for _ in range(3):
            demo = self.start()
            out = ""
            for line in demo.stdout:
                out += line
                if "\n2. A black hole" in out and "waits 1" in line:
                    break
            else:
                if self.machine_was_late(out):
                    continue
            break
        self.assertIn("waits 1", line, f"it ends before: {out}")
        self.assertTrue(self.processes())
        demo.terminate()
        self.assertEqual(demo.wait(20), 130)
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()
