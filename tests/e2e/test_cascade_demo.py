"""`make cascade`: what it tells is what happened, its picture is drawn, and it leaves nothing behind."""
import os
import re
import signal
import subprocess
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, ROOT, ParallelSuite, Sandbox, eventually  # noqa: E402

load_tests = ParallelSuite.load(2)
ROW = re.compile(r"(?m)^  (\S.*?) +(\d+) of (\d+) +[\d.]+ m?s +([\d.]+) (m?s) +(\d+) s$")
PICTURE = ROOT / "scripts/cascade/cascade.svg"
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture):
    return ["".join(text.itertext()) for text in xml.etree.ElementTree.fromstring(picture).iter(f"{SVG}text")]


class Cascade(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.build = os.path.join(self.sandbox.folder, "build")
        os.mkdir(self.build)
        for name in ("sockfuse", "libsockfuse.so"):
            os.symlink(BUILD / name, os.path.join(self.build, name))

    def start(self, outage):
        environment = {**os.environ, "BUILD": self.build, "TMPDIR": self.sandbox.folder, "OUTAGE": str(outage)}
        process = subprocess.Popen(["/usr/bin/python3", "-B", ROOT / "scripts/cascade"], env=environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def left(self):
        """Programs that the demonstration started, and its folders."""
        own = os.path.join(self.sandbox.folder, "sockfuse-cascade.").encode()
        found = [name for name in os.listdir(self.sandbox.folder) if name.startswith("sockfuse-cascade.")]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:
                continue
            if own in words:
                found.append(words)
        return found

    def test_a_shared_circuit_keeps_workers_free_and_the_other_page_alive(self):
        process = self.start(7)
        said, complaints = process.communicate(timeout=300)
        self.assertEqual((process.returncode, complaints), (0, ""), said)
        rows = {title: (int(served), int(of), float(p99) / (1000 if unit == "ms" else 1), int(wasted))
                for title, served, of, p99, unit, wasted in ROW.findall(said)}
        self.assertEqual(len(rows), 3, said)
        without, shared = rows["without sockfuse"], rows["sockfuse: shared circuits"]
        self.assertLess(shared[2], without[2])
        self.assertLess(shared[3], without[3])
        self.assertRegex(said, r"(?m)^root: 127\.0\.0\.1:\d+ \(payments\), connected and silent; ")
        self.assertRegex(said, r"shop\.py \(\d+ of 32 workers wait\)")
        with open(os.path.join(self.build, "cascade/cascade.svg"), encoding="ascii") as file:
            shown = texts(file.read())
        for title, (served, of, _, wasted) in rows.items():
            at = shown.index(title)
            self.assertEqual(shown[at + 1], f"{served * 100 // of} % served")
            self.assertTrue(shown[at + 2].endswith(f", {wasted} s of workers wasted"), shown)
        self.assertEqual(self.left(), [])

    def test_interrupted_it_takes_its_programs_with_it(self):
        process = self.start(60)
        eventually(lambda: any(b"visitors.py" in words for words in self.left() if isinstance(words, bytes)) or None)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertEqual(self.left(), [])


class Readme(unittest.TestCase):
    def test_its_first_screen_has_the_pictures_figures(self):
        with open(ROOT / "README.md", encoding="utf-8") as file:
            first = file.read().split("\n## ")[0]
        self.assertIn("(scripts/cascade/cascade.svg)", first)
        with open(PICTURE, encoding="ascii") as file:
            shown = texts(file.read())
        for title in ("without sockfuse", "sockfuse: shared circuits"):
            at = shown.index(title)
            self.assertIn(shown[at + 1].removesuffix(" served"), first)
            self.assertIn(re.search(r"(\d+) s of workers", shown[at + 2]).group(1) + " s", first)


if __name__ == "__main__":
    unittest.main()
