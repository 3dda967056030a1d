"""A guest's manners: what a program would have read of its own sockets it still reads, in every process of a family."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BARE, CLIENTS, PYTHON, ParallelSuite, Sandbox, Server, answer_http  # noqa: E402

load_tests = ParallelSuite.load(4)


class Manners(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def test_waiting_errors_are_left_to_the_program_and_to_processes_that_share_the_socket(self):
        self.sandbox.policy("[127.0.0.1:*]\nfailure_threshold = 1000\n[unix:/tmp/sf-pending-*]\n")
        command = [PYTHON, str(CLIENTS / "pending_errors.py")]
        bare, guarded = self.sandbox.run(command, BARE), self.sandbox.run(command)
        self.assertIn("ECONNRESET", bare.stdout)
        self.assertIn("closed by the parent: ECONNREFUSED", bare.stdout)
        self.assertEqual(guarded.stdout, bare.stdout)
        self.assertEqual((guarded.status, guarded.stderr), (bare.status, bare.stderr))

    def test_a_forked_worker_that_starts_a_program_before_its_first_call_is_guarded(self):
        server = Server(answer_http, up=False)
        self.addCleanup(server.stop)
        self.sandbox.guard(server, failure_threshold=3)
        self.sandbox.run([PYTHON, str(CLIENTS / "prefork.py"), str(server.port), "4"])
        counters = self.sandbox.circuit(server)["counters"]
        self.assertEqual((counters["failed"], counters["refused"]), (3, 1), counters)


if __name__ == "__main__":
    unittest.main()
