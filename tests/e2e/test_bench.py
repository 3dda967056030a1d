"""`make bench`: what it makes of figures, and that it runs. Its times are for whoever reads them, and judged by nobody
here: a busy machine has its own.
"""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, ROOT, ParallelSuite, Sandbox, require_build  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "bench"))
from figures import NotMeasured, Table, alternate  # noqa: E402
from sampling import Sampler, sample, system_calls  # noqa: E402

SAMPLER = str(BUILD / "tests/bench/sampler")
TIMED = ("send + recv, descriptor of no target", "send + recv, kept connection", "connect + close",
         "connect that is refused", "start and end of true",
         "ab -c 10: nginx", "  HAProxy in between", "  nginx stream in between",
         "wrk -c 20: nginx", "  HAProxy in between", "  nginx stream in between",
         "redis-benchmark -c 20: redis", "  HAProxy in between", "  nginx stream in between")
GROWN = {"processes attached": "40", "circuits known": "256", "targets in the policy": "40",
         "descriptors open": "4,000", "connections held": "40", "sockets with a dup": "40", "calls just overdue": "40",
         "attempts pending": "40", "holders": "40", "patterns in a match": "40"}
FLEETS = ("40 hosts: commands a second", "40 hosts: an opening", "40 hosts: a healing")
COUNTED = ("send + recv, descriptor of no target: calls", "send + recv, kept connection: calls",
           "refusal, with socket and close: calls")

load_tests = ParallelSuite.load(4)


class Figures(unittest.TestCase):
    """Made of planted figures."""

    def setUp(self):
        self.lines = []
        self.table = Table(self.lines.append)
        self.table.head("what", "bare", "with")

    def row(self):
        return re.split(r" {2,}", self.lines[-1])

    def test_a_machine_with_two_speeds_shows_in_no_ratio(self):
        clocks = iter([1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 2, 2])
        pairs = alternate(lambda: 100 * next(clocks), lambda: 110 * next(clocks), 6)
        self.table.ratios("a call", pairs, most=1.2)
        self.assertEqual(self.row()[3:], ["1.100", "1.100 - 1.100", "1.2 or less", "yes"])

    def test_what_goes_up_all_the_time_hits_both_alike(self):
        now = iter(range(1000, 2000))
        self.table.ratios("a call", alternate(lambda: next(now), lambda: next(now), 100))
        self.assertEqual(self.row()[3], "1.000")

    def test_the_spread_is_the_middle_half_of_the_pairs_ratios(self):
        self.table.ratios("a call", [(100, 100 + ratio) for ratio in (9, 1, 5, 3, 7)])
        self.assertEqual(self.row(), ["a call", "100", "105", "1.050", "1.030 - 1.070", "-", "-"])

    def test_there_is_no_ratio_to_nothing(self):
        with self.assertRaises(NotMeasured):
            self.table.ratios("commands a second", [(3, 4), (0, 4)])

    def test_half_a_pair_that_is_far_out_moves_nothing(self):
        self.table.ratios("a call", [(100, 101)] * 5 + [(100, 5000), (9000, 101)])
        self.assertEqual(self.row()[3:5], ["1.010", "1.010 - 1.010"])

    def test_it_judges_what_is_wanted_and_counts_what_is_not_as_wanted(self):
        for wanted, verdict in (({"most": 1.1}, "yes"), ({"most": 1.09}, "NO"), ({"least": 1.1}, "yes"),
                                ({"least": 1.11}, "NO"), ({"most_more": 10}, "yes"), ({"most_more": 9}, "NO"),
                                ({}, "-")):
            with self.subTest(wanted):
                self.table.ratios("a call", [(100, 110)] * 3, **wanted)
                self.assertEqual(self.row()[-1], verdict)
        self.assertEqual(self.table.end(), "bench: 3 of 6 figures not as wanted")

    def test_a_count_is_judged_to_a_call(self):
        for guarded, verdict in ((5.0, "yes"), (5.04, "yes"), (5.2, "NO"), (3.0, "yes")):
            self.table.count("calls", 3.0, guarded, 2)
            self.assertEqual(self.row()[-1], verdict)

    def test_a_head_without_rows_is_not_printed(self):
        self.table.head("something else", "few", "many")
        self.table.not_measured("a call", "there is no wrk")
        self.assertEqual([line.split("  ")[0] for line in self.lines], ["", "something else", "a call"])
        self.assertEqual(self.table.end(), "")


class Measuring(unittest.TestCase):
    def setUp(self):
        require_build()
        self.sandbox = Sandbox(self)
        self.env = self.sandbox.environment("bench")

    def test_what_a_machine_cannot_do_is_no_figure(self):
        many = [SAMPLER, "descriptors", "100000000"]
        with self.assertRaisesRegex(NotMeasured, "Too many open files"):
            sample((many, self.env), (many, self.env), 1)

    def test_system_calls_are_counted_to_the_call(self):
        try:
            count = system_calls([SAMPLER, "refusal", "0"], self.env, 64)
        except NotMeasured as why:
            self.skipTest(str(why))
        self.assertAlmostEqual(count, 3, delta=0.05)

    def test_a_sampler_ends_with_whoever_asked_it(self):
        with Sampler([SAMPLER, "exchange", "0"], self.env) as sampler:
            sampler.hear()
            self.assertGreater(sampler(), 0)
        self.assertEqual(sampler.process.returncode, 0)


class Run(unittest.TestCase):
    def test_one_run_prints_every_row_and_no_system_call_is_added(self):
        require_build()
        sandbox = Sandbox(self)
        temporary = os.path.join(sandbox.folder, "temporary")
        os.mkdir(temporary)
        environment = {**os.environ, "BUILD": str(BUILD), "ROUNDS": "1", "OTHERS": "40", "SLICE": "0.02",
                       "TMPDIR": temporary}
        for name in ("ONLY", "AGAINST"):
            environment.pop(name, None)
        result = subprocess.run([ROOT / "scripts/bench"], env=environment, cwd=sandbox.folder, timeout=400,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertIn(result.returncode, (0, 1), result)
        self.assertEqual(result.returncode, len(result.stderr.splitlines()), result)
        self.assertEqual(os.listdir(temporary), [])
        self.check(result.stdout)

    def check(self, output):
        rows = output.splitlines()
        for name in TIMED:
            while rows and not rows[0].startswith(name):
                rows.pop(0)
            self.assertTrue(rows, f"{name}: {output}")
            self.assert_measured(rows.pop(0))
        for name in COUNTED:
            (row,) = [row for row in rows if row.startswith(name)]
            if "not measured" not in row:
                self.assertEqual(row.split()[-1], "yes", row)
        for name, count in GROWN.items():
            (row,) = [row for row in rows if f" / {count} {name} " in row]
            self.assert_measured(row)
        for name in FLEETS:
            (row,) = [row for row in rows if row.startswith(name)]
            self.assert_measured(row)

    def assert_measured(self, row):
        """Two figures, a ratio, and its spread."""
        columns = re.split(r" {2,}", row.strip())
        figures = [float(word.replace(",", "")) for word in (*columns[1:4], *columns[4].split(" - "))]
        self.assertGreater(min(figures), 0, row)
        self.assertTrue(figures[3] <= figures[2] <= figures[4], row)


if __name__ == "__main__":
    unittest.main()
