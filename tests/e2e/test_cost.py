"""What a request and its answer cost, counted in instructions: on any machine the same, where a time is not."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BARE, BUILD, PRELOAD, ParallelSuite, Sandbox, in_parallel, require_build  # noqa: E402

SAMPLER = BUILD / "tests/bench/sampler"
PAIRS = 9 * 64  # of a send and a receive in each of its samples

setUpModule = require_build
load_tests = ParallelSuite.load(2)


class Instructions(unittest.TestCase):
    def count(self, sandbox, how, samples):
        result = sandbox.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", SAMPLER, "exchange", 0],
                             how, stdin=b"?" * samples)
        self.assertEqual(result.status, 0, result)
        return int(re.search(r"Collected : (\d+)", result.stderr)[1])

    def more(self, policy):
        """How many more a guarded pair takes than a bare one, without start and end."""
        sandbox = Sandbox(self)
        sandbox.policy(policy)
        few, many, few_bare, many_bare = in_parallel(
            (lambda how=how, samples=samples: self.count(sandbox, how, samples))
            for how in (PRELOAD, BARE) for samples in (1, 7))
        return ((many - few) - (many_bare - few_bare)) / (6 * PAIRS)

    def test_an_untracked_descriptor_costs_next_to_nothing(self):
        self.assertLess(self.more("[elsewhere]\nmatch = 127.0.0.99:1\n"), 40)

    def test_a_kept_connection_goes_the_short_way(self):
        for keys in ("", "response_timeout = 10s\n", "slow_call = 1s\n", "failure_rate = 0\n"):
            with self.subTest(keys):
                more = self.more(f"[all]\nmatch = 127.0.0.1:*\n{keys}")
                self.assertTrue(200 < more < 700, f"{more} (the long way takes above 900)")


if __name__ == "__main__":
    unittest.main()
