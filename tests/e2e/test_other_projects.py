"""Tests of other projects give the same results under the library: a short part of what `make suites` runs."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "suites"))
from fixtures import ParallelSuite  # noqa: E402
from compare import compare  # noqa: E402
from cpython import SHORT  # noqa: E402

load_tests = ParallelSuite.load(2)


class OtherProjects(unittest.TestCase):
    def same(self, suite):
        if suite.missing():
            self.skipTest(suite.missing())
        comparison = compare(suite)
        self.assertTrue(comparison.holds, "\n".join(comparison.report()))

    def test_pythons_sockets(self):
        self.same(SHORT[0])

    def test_pythons_asyncio_servers_and_clients(self):
        self.same(SHORT[1])


if __name__ == "__main__":
    unittest.main()
