"""The scenarios by which circuit breakers are explained, each with an unmodified client that uses only urllib.

Real servers, the real preload; where the story waits for a pause to end, the test moves the circuits' clock.
"""
import errno
import json
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PYTHON, ParallelSuite, Sandbox, Server, Session, answer_http, answer_late,  # noqa: E402
                      answer_status, answer_when, flapping, reset_after_request, stay_silent)

CLIENT = CLIENTS / "urllib_session.py"
ENOUGH = 20  # for calls that are answered; the others' own timeouts run out
load_tests = ParallelSuite.load(4)


class OneProcess:
    """Every call is made by one long-lived client."""

    def __init__(self, sandbox):
        self.session = Session(sandbox, [PYTHON, CLIENT])

    def call(self, url, timeout):
        return self.session.ask(url=url, timeout=timeout)


class ProcessPerCall:
    """Every call is made by a client that starts, calls and ends: the circuits are in no process."""

    def __init__(self, sandbox):
        self.sandbox = sandbox

    def call(self, url, timeout):
        return json.loads(self.sandbox.run([PYTHON, CLIENT, url, timeout]).stdout)


class Article(unittest.TestCase):
    """What the three stories have in common: a client, and assertions in their words."""

    def start(self, client, *servers, **policy):
        self.sandbox = Sandbox(self, clock=True)
        for server in servers:
            self.addCleanup(server.stop)
        self.sandbox.guard(*servers, **policy)
        self.client = client(self.sandbox)
        self.server = servers[0]

    def answered(self, status=200):
        result = self.client.call(self.server.url, ENOUGH)
        self.assertEqual(result["status"], status, result)

    def timed_out(self, timeout):
        result = self.client.call(self.server.url, timeout)
        self.assertIn("timed out", result["error"] or "", result)
        self.assertGreaterEqual(result["seconds"], timeout)

    def refused(self, timeout):
        """The call fails as a refused one does, at once, and the server sees nothing of it."""
        before = self.server.connections if self.server._acceptor else None
        counted = self.sandbox.counters(self.server)["refused"]
        result = self.client.call(self.server.url, timeout)
        self.assertEqual(result["errno"], errno.ECONNREFUSED, result)
        self.assertIn("Connection refused", result["error"])
        self.assertLess(result["seconds"], 5)
        self.assertEqual(self.sandbox.counters(self.server)["refused"], counted + 1)
        if before is not None:
            self.assertEqual(self.server.connections, before, "the server saw a call that was to be refused")

    def circuit_is(self, state, failures=None, probe_due=None):
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual(circuit["state"], state, circuit)
        if failures is not None:
            self.assertEqual(circuit["consecutive_failures"], failures, circuit)
        if probe_due is not None:
            self.assertIs(circuit["probe_due"], probe_due, circuit)
        return circuit


class ThresholdAndPause(Article):
    """First story: threshold 3, pause 10 s; calls that reach the server: 1, 4, 4, 5, 5, 6, 7."""

    def story(self, client):
        timeout = 0.5
        self.start(client, Server(flapping(answer_status("404 Not Found"), stay_silent)),
                   failure_threshold=3, reset_timeout="10s", backoff_multiplier=1)
        self.answered(status=404)
        self.assertEqual(self.server.connections, 1)
        self.circuit_is("closed", failures=0)
        for failures in (1, 2):
            self.timed_out(timeout)
            self.circuit_is("closed", failures=failures)
        self.timed_out(timeout)
        self.assertEqual(self.server.connections, 4)
        circuit = self.circuit_is("open", probe_due=False)
        self.assertEqual(circuit["failures"]["response-timeout"], 3)
        self.assertEqual(circuit["retry_in_ms"], 10_000)
        self.refused(timeout)
        self.assertEqual(self.server.connections, 4)

        self.pause_is_over_at(10)
        self.timed_out(timeout)
        self.assertEqual(self.server.connections, 5)
        circuit = self.circuit_is("open", probe_due=False)
        self.assertEqual(circuit["counters"]["probes_failed"], 1)
        self.assertEqual(circuit["retry_in_ms"], 10_000, "a failed probe is followed by a full pause")
        self.refused(timeout)
        self.assertEqual(self.server.connections, 5)

        self.server.behaviour = answer_http
        self.pause_is_over_at(10)
        self.answered()
        self.assertEqual(self.server.connections, 6)
        circuit = self.circuit_is("closed", failures=0, probe_due=False)
        self.assertEqual(circuit["counters"]["probes_succeeded"], 1)
        self.answered()
        self.assertEqual(self.server.connections, 7)
        self.circuit_is("closed", failures=0)
        self.assertEqual(self.sandbox.counters(self.server)["opened"], 2)

    def pause_is_over_at(self, seconds):
        """Blocked one nanosecond before the end of the pause; the next call is the probe at it."""
        self.sandbox.clock.advance(seconds * 1_000_000_000 - 1)
        self.refused(0.5)
        self.circuit_is("open", probe_due=False)
        self.sandbox.clock.advance(1)
        self.circuit_is("open", probe_due=True)

    def test_three_timeouts_open_and_a_probe_closes_in_one_process(self):
        self.story(OneProcess)

    def test_three_timeouts_open_and_a_probe_closes_with_a_process_for_each_call(self):
        self.story(ProcessPerCall)

    def test_a_failed_probe_doubles_the_pause_when_no_multiplier_is_given(self):
        self.start(OneProcess, Server(stay_silent), failure_threshold=3, reset_timeout="10s")
        for _ in range(3):
            self.timed_out(0.4)
        self.pause_is_over_at(10)
        self.timed_out(0.4)
        self.pause_is_over_at(20)
        self.timed_out(0.4)
        self.pause_is_over_at(40)
        self.server.behaviour = answer_http
        self.answered()
        self.circuit_is("closed", failures=0)

    def test_jitter_only_lengthens_the_pause(self):
        self.start(OneProcess, Server(reset_after_request), failure_threshold=1, reset_timeout="10s", jitter="50%")
        self.assertEqual(self.client.call(self.server.url, 2)["errno"], errno.ECONNRESET)
        rest = self.sandbox.circuit(self.server)["retry_in_ms"]
        self.assertGreaterEqual(rest, 10_000)
        self.assertLessEqual(rest, 15_000)
        self.sandbox.clock.advance_seconds(10)
        self.sandbox.clock.advance(-1)
        self.refused(2)


class NobodyListens(Article):
    """Second story: threshold 3, pause 1 s; the dependency is gone, then late, then flapping."""

    def refused_by_the_peer(self, timeout):
        result = self.client.call(self.server.url, timeout)
        self.assertEqual(result["errno"], errno.ECONNREFUSED, result)

    def gone(self, client):
        timeout = 0.5
        self.start(client, Server(answer_http, up=False), failure_threshold=3, reset_timeout="1s")
        for failures in (1, 2, 3):
            self.refused_by_the_peer(timeout)
            circuit = self.sandbox.circuit(self.server)
            self.assertEqual(circuit["failures"]["refused"], failures)
            self.assertEqual(circuit["counters"]["refused"], 0)
        self.circuit_is("open", probe_due=False)
        self.refused(timeout)
        self.server.up()
        self.refused(timeout)
        self.assertEqual(self.server.connections, 0, "the server is back, but the pause is not over")
        self.sandbox.clock.advance_seconds(1)
        result = self.client.call(self.server.url, ENOUGH)
        self.assertEqual((result["status"], result["body"]), (200, "hello from the server\n"), result)
        circuit = self.circuit_is("closed", failures=0)
        self.assertEqual(circuit["counters"]["probes_succeeded"], 1)
        self.assertEqual(self.server.connections, 1)

    def test_three_refused_attempts_open_and_the_fifth_call_reads_the_answer_in_one_process(self):
        self.gone(OneProcess)

    def test_three_refused_attempts_open_and_the_fifth_call_reads_the_answer_with_a_process_for_each_call(self):
        self.gone(ProcessPerCall)

    def late(self, client):
        timeout = 0.3
        healthy = Server(answer_http)
        self.start(client, Server(answer_late(5)), healthy, failure_threshold=3, reset_timeout="1s")

        def beside(calls):
            self.assertEqual(self.client.call(healthy.url, ENOUGH)["status"], 200)
            self.assertEqual(healthy.connections, calls)

        for number in (1, 2, 3):
            self.timed_out(timeout)
            beside(number)
        circuit = self.circuit_is("open")
        self.assertEqual(self.sandbox.failures(self.server), {"response-timeout": 3}, circuit)
        self.refused(timeout)
        beside(4)
        self.sandbox.clock.advance_seconds(1)
        self.server.behaviour = answer_http
        self.answered()
        beside(5)
        self.circuit_is("closed", failures=0)
        circuit = self.sandbox.circuit(healthy)
        self.assertEqual((circuit["state"], circuit["consecutive_failures"]), ("closed", 0))
        self.assertEqual(circuit["counters"]["failed"], 0)
        self.assertEqual(circuit["counters"]["refused"], 0)
        self.assertEqual(circuit["counters"]["opened"], 0)
        self.assertEqual(circuit["counters"]["succeeded"], 5)

    def test_late_answers_open_their_own_circuit_and_not_the_healthy_one_beside_it(self):
        self.late(OneProcess)

    def test_late_answers_open_their_own_circuit_with_a_process_for_each_call(self):
        self.late(ProcessPerCall)

    def test_a_flapping_server_below_the_threshold_never_opens(self):
        self.start(OneProcess, Server(answer_http), failure_threshold=3, reset_timeout="1s")
        for up, failures in ((True, 0), (True, 0), (False, 1), (False, 2), (True, 0)):
            if up:
                self.server.up()
                self.answered()
            else:
                self.server.down()
                self.refused_by_the_peer(2)
            self.circuit_is("closed", failures=failures)
        counters = self.sandbox.counters(self.server)
        self.assertEqual((counters["succeeded"], counters["failed"], counters["opened"]), (3, 2, 0))

    def test_a_flapping_server_at_the_threshold_opens_and_comes_back(self):
        self.start(ProcessPerCall, Server(answer_http), failure_threshold=2, reset_timeout="1s")
        self.answered()
        self.answered()
        self.server.down()
        self.refused_by_the_peer(2)
        self.refused_by_the_peer(2)
        self.circuit_is("open", probe_due=False)
        self.server.up()
        self.refused(2)
        self.sandbox.clock.advance_seconds(1)
        self.answered()
        self.circuit_is("closed", failures=0)
        self.assertEqual(self.server.connections, 3)


class Herd(Article):
    """Third story: threshold 5, pause 30 s; whoever waits for the end of the pause, one connection is made."""

    def trip(self):
        self.gate = threading.Event()
        self.addCleanup(self.gate.set)
        self.start(OneProcess, Server(reset_after_request), failure_threshold=5, reset_timeout="30s")
        for _ in range(5):
            self.assertEqual(self.client.call(self.server.url, 5)["errno"], errno.ECONNRESET)
        self.circuit_is("open", probe_due=False)
        self.assertEqual(self.server.connections, 5)
        self.server.behaviour = answer_when(self.gate)
        self.sandbox.clock.advance_seconds(30)
        self.circuit_is("open", probe_due=True)

    def one_probe_and_the_rest_refused(self, results):
        """While the probe waits for its answer all others have been refused; then it closes the circuit."""
        for result in results:
            self.assertEqual(result["errno"], errno.ECONNREFUSED, result)
        self.assertEqual(self.server.connections, 6, "exactly one connection reaches the server")
        circuit = self.circuit_is("half-open")
        self.assertEqual(circuit["in_flight"], 1)
        self.assertEqual(circuit["counters"]["refused"], len(results))
        self.gate.set()

    def told_once(self, **transitions):
        """Whoever raced for a transition, the journal tells it once."""
        kinds = [event["event"] for event in self.sandbox.events()]
        self.assertEqual({kind: kinds.count(kind.replace("_", "-")) for kind in transitions}, transitions, kinds)

    def test_of_200_threads_at_the_end_of_the_pause_one_reaches_the_server(self):
        self.trip()
        session = self.client.session
        session.send(url=self.server.url, timeout=60, threads=200, at=time.monotonic() + 0.5)
        self.one_probe_and_the_rest_refused([session.receive() for _ in range(199)])
        self.assertEqual(session.receive()["status"], 200)
        self.circuit_is("closed", failures=0)
        self.told_once(open=1, half_open=1, close=1)
        self.answered()
        self.assertEqual(self.server.connections, 7)

    def processes(self):
        """32 clients that are up, as a destination shows that no target names. To attach changes no circuit."""
        nobody = Server(up=False)
        self.addCleanup(nobody.stop)
        sessions = [Session(self.sandbox, [PYTHON, CLIENT]) for _ in range(32)]
        for session in sessions:
            self.assertEqual(session.ask(url=nobody.url, timeout=1)["errno"], errno.ECONNREFUSED)
        return sessions

    def test_of_32_processes_at_the_end_of_the_pause_one_reaches_the_server(self):
        self.trip()
        sessions = self.processes()
        self.circuit_is("open", probe_due=True)
        finished = threading.Semaphore(0)
        results = []

        def ask(session, at):
            session.send(url=self.server.url, timeout=60, threads=1, at=at)
            results.append(session.receive())
            finished.release()

        at = time.monotonic() + 0.5
        threads = [threading.Thread(target=ask, args=(session, at)) for session in sessions]
        for thread in threads:
            thread.start()
        for _ in range(31):
            self.assertTrue(finished.acquire(timeout=60), f"{len(results)} of 31 refusals")
        self.one_probe_and_the_rest_refused(list(results))
        for thread in threads:
            thread.join(60)
        self.assertEqual(results[-1]["status"], 200)
        self.circuit_is("closed", failures=0)
        self.told_once(open=1, half_open=1, close=1)

    def test_of_32_processes_that_fail_at_the_same_moment_one_opens_the_circuit(self):
        self.start(OneProcess, Server(reset_after_request), failure_threshold=5, reset_timeout="30s")
        sessions = self.processes()
        at = time.monotonic() + 0.5
        for session in sessions:
            session.send(url=self.server.url, timeout=60, threads=1, at=at)
        errors = [session.receive()["errno"] for session in sessions]
        reset, refused = errors.count(errno.ECONNRESET), errors.count(errno.ECONNREFUSED)
        self.assertEqual(reset + refused, 32, errors)
        self.assertGreaterEqual(reset, 5)
        counters = self.circuit_is("open", probe_due=False)["counters"]
        self.assertEqual((counters["admitted"], counters["refused"], counters["opened"]), (reset, refused, 1), counters)
        self.assertEqual((counters["failed"], counters["late"]), (5, reset - 5), "what came after the fifth was late")
        self.assertEqual(self.server.connections, reset)
        self.told_once(open=1, half_open=0, close=0)

    def test_of_200_threads_whose_probe_fails_none_other_reaches_the_server(self):
        self.trip()
        self.server.behaviour = flapping(*[reset_after_request] * 6)
        session = self.client.session
        session.send(url=self.server.url, timeout=60, threads=200, at=time.monotonic() + 0.5)
        errors = sorted(session.receive()["errno"] for _ in range(200))
        self.assertEqual(errors, [errno.ECONNRESET] + [errno.ECONNREFUSED] * 199)
        self.assertEqual(self.server.connections, 6)
        circuit = self.circuit_is("open", probe_due=False)
        self.assertEqual(circuit["counters"]["probes_failed"], 1)
        self.assertEqual(circuit["counters"]["opened"], 2)
        self.told_once(open=2, half_open=1, close=0)


if __name__ == "__main__":
    unittest.main()
