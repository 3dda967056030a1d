"""The failure rate and the slow-call rate: real clients whose calls fail now and then, or take long.

Servers answer by a script, one connection a call; where a window has to pass, the test moves the circuits' clock.
"""
import errno
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PYTHON, ParallelSuite, Sandbox, Server, Session, answer_http, answer_late,  # noqa: E402
                      reset_after_request)

load_tests = ParallelSuite.load(4)


def every(period, other, usual=answer_http):
    """Each connection whose number is a multiple of the period is treated otherwise."""
    return lambda server, sock, number: (usual if number % period else other)(server, sock, number)


class Rates(unittest.TestCase):
    def start(self, behaviour, clients=1, **policy):
        self.sandbox = Sandbox(self, clock=True)
        self.server = Server(behaviour)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **policy)
        self.clients = [Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"]) for _ in range(clients)]

    def call(self, number=0):
        return self.clients[number % len(self.clients)].ask(url=self.server.url, timeout=10)

    def calls(self, count):
        for number in range(count):
            self.assertNotEqual(self.call(number)["errno"], errno.ECONNREFUSED, number)

    def refused(self):
        before = self.server.connections
        self.assertEqual(self.call()["errno"], errno.ECONNREFUSED)
        self.assertEqual(self.server.connections, before)

    def window(self):
        return self.sandbox.circuit(self.server)["window"]

    def opening(self):
        (event,) = [event for event in self.sandbox.events() if event["event"] == "open"]
        return event["reason"], event["window"]

    def test_every_second_call_fails_and_the_built_in_rate_opens(self):
        self.start(every(2, reset_after_request))
        self.calls(19)
        self.assertEqual(self.window(), {"calls": 19, "failed": 9, "slow": 0, "failure_rate": 47.3,
                                         "slow_call_rate": 0.0})
        self.calls(1)
        self.refused()
        self.assertEqual(self.opening(), ("failure-rate", {"calls": 20, "failed": 10, "slow": 0}))
        self.assertIsNone(self.window())
        shown = self.sandbox.sockfuse("status", "-p", self.sandbox.policy_path).stdout
        self.assertIn("50% of 20", shown)
        shown = self.sandbox.sockfuse("events", "-p", self.sandbox.policy_path).stdout
        self.assertRegex(shown, r"failure-rate, 10 of 20 calls failed \([a-z, 0-9-]+\), pause 10s")

    def test_every_third_call_fails_and_that_is_not_enough(self):
        self.start(every(3, reset_after_request))
        self.calls(40)
        self.assertEqual(self.window()["failed"], 13)
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "closed")
        self.assertIn("32% of 40", self.sandbox.sockfuse("status", "-p", self.sandbox.policy_path).stdout)

    def test_four_processes_share_one_window(self):
        self.start(every(2, reset_after_request), clients=4)
        self.calls(20)
        self.refused()
        self.assertEqual(self.opening(), ("failure-rate", {"calls": 20, "failed": 10, "slow": 0}))

    def test_what_is_one_window_old_does_not_count(self):
        self.start(every(2, reset_after_request), window="60s")
        self.calls(19)
        self.sandbox.clock.advance_seconds(60)
        self.assertEqual(self.window()["calls"], 0)
        self.calls(19)
        self.assertEqual(self.window()["calls"], 19)
        self.calls(2)  # the 20th of them is answered, and a success is no time to judge
        self.refused()

    def test_the_last_ten_calls_however_long_they_take(self):
        self.start(every(2, reset_after_request), window="10 calls", failure_rate="50%")
        for _ in range(9):
            self.calls(1)
            self.sandbox.clock.advance_seconds(3600)
        self.calls(1)
        self.refused()
        self.assertEqual(self.opening(), ("failure-rate", {"calls": 10, "failed": 5, "slow": 0}))

    def test_slow_answers_reach_the_program_and_open_the_circuit(self):
        self.start(answer_late(0.1), slow_call="50ms", slow_call_rate="80%", minimum_calls=5)
        for _ in range(5):
            self.assertEqual(self.call()["status"], 200)
        self.refused()
        self.assertEqual(self.opening(), ("slow-call-rate", {"calls": 5, "failed": 0, "slow": 5}))
        counters = self.sandbox.counters(self.server)
        self.assertEqual((counters["succeeded"], counters["slow"], counters["failed"]), (5, 5, 0))

    def test_quick_answers_are_not_slow(self):
        self.start(answer_http, slow_call="5s", slow_call_rate="1%", minimum_calls=1)
        self.calls(10)
        self.assertEqual(self.window(), {"calls": 10, "failed": 0, "slow": 0, "failure_rate": 0.0,
                                         "slow_call_rate": 0.0})

    def test_after_the_pause_the_window_begins_empty(self):
        self.start(every(2, reset_after_request), jitter="0%")
        self.calls(20)
        self.refused()
        self.sandbox.clock.advance_seconds(10)
        self.calls(1)  # the 21st is answered
        self.assertEqual(self.window()["calls"], 0)
        self.calls(19)
        self.assertEqual(self.window()["calls"], 19)
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "closed")

    def test_without_rates_there_is_no_window(self):
        self.start(every(2, reset_after_request), failure_rate="0")
        self.calls(40)
        self.assertIsNone(self.window())
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "closed")


if __name__ == "__main__":
    unittest.main()
