"""How programs give up, in every way that they have, and what that is to the circuit.

A wait of `abandon_after` or more is a timeout of the peer; a shorter one is the program's own affair. The limit is set
far below, or far above, what the clients wait, so that nothing here depends on the machine's pace.
"""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PYTHON, RUN, BlackHole, ParallelSuite, Sandbox, Server, answer_http,  # noqa: E402
                      eventually, flapping, stay_silent)
from matrix.programs import JAVA  # noqa: E402

load_tests = ParallelSuite.load(6)
CONNECT, ANSWER, GREETING = "connect", "answer", "greeting"
KINDS = {CONNECT: "connect-timeout", ANSWER: "response-timeout", GREETING: "response-timeout"}
PATIENT, IMPATIENT = {"abandon_after": "50ms"}, {"abandon_after": "50s"}
NEUTRAL = None

# way: what it is in each phase, if the wait was long; KINDS where nothing is said.
WAYS = {
    "close": {}, "closerange": {}, "close_from_three": {}, "dup2_over_it": {}, "shutdown_and_close": {},
    "close_the_last_of_two": {}, "close_a_file_over_it": {},
    "exit_1": {}, "raw_exit_1": {},
    # Who ends its side without having asked anything waits for nothing.
    "half_close_and_close": {GREETING: NEUTRAL},
    # Workers that are restarted while they wait in a blocking pop are no failure of the peer.
    "exit_0": {ANSWER: NEUTRAL, GREETING: NEUTRAL}, "raw_exit_0": {ANSWER: NEUTRAL, GREETING: NEUTRAL},
}


class Base(unittest.TestCase):
    def start(self, phase, clock=False, **keys):
        self.server = BlackHole() if phase == CONNECT else Server(stay_silent)
        self.addCleanup(self.server.stop)
        self.sandbox = Sandbox(self, clock=clock)
        self.sandbox.guard(self.server, **{"failure_threshold": 9, **keys})

    def expect(self, kind, count=1):
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual(self.sandbox.failures(self.server), {kind: count} if kind else {}, circuit)
        counters = circuit["counters"]
        self.assertEqual((counters["succeeded"], circuit["in_flight"]), (0, 0), circuit)
        self.assertEqual(counters["admitted"], counters["failed"] + counters["neutral"], circuit)

class Ways(Base):
    """An unmodified Python, by each of its ways."""

    def give_up(self, way, phase):
        result = self.sandbox.run([PYTHON, CLIENTS / "giving_up.py", way, phase, self.server.address, self.server.port,
                                   0.1])
        self.assertEqual(result.stderr, "")

    def after_a_long_wait(self, way, phase):
        self.start(phase, **PATIENT)
        self.give_up(way, phase)
        self.expect(WAYS[way].get(phase, KINDS[phase]))

    def after_a_short_wait(self, way, phase):
        self.start(phase, **IMPATIENT)
        self.give_up(way, phase)
        self.expect(NEUTRAL)


for manner in WAYS:
    for moment in KINDS:
        setattr(Ways, f"test_{manner}_after_a_long_wait_for_{moment}",
                lambda self, way=manner, phase=moment: self.after_a_long_wait(way, phase))
    setattr(Ways, f"test_{manner}_after_a_short_wait_is_no_failure",
            lambda self, way=manner: self.after_a_short_wait(way, ANSWER))


class Spare(Base):
    """A connection that is opened in reserve and closed unused, as node's fetch does after an abort."""

    def close_unused(self, first):
        self.start(GREETING, **PATIENT)
        script = ("import socket, sys, time; place = sys.argv[1], int(sys.argv[2])\n"
                  f"first = socket.create_connection(place)\n{first}\n"
                  "spare = socket.create_connection(place); time.sleep(0.1); spare.close()")
        self.server.behaviour = flapping(answer_http, stay_silent)
        result = self.sandbox.run([PYTHON, "-c", script, self.server.address, self.server.port])
        self.assertEqual(result.stderr, "")

    def test_it_is_no_failure_where_the_process_has_spoken_first_and_was_answered(self):
        self.close_unused("first.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); first.recv(4096)")
        self.assertEqual(self.sandbox.failures(self.server), {})
        self.assertEqual(self.sandbox.counters(self.server)["succeeded"], 1)

    def test_it_is_a_wait_for_a_greeting_where_nobody_has_spoken(self):
        self.close_unused("")
        self.assertEqual(self.sandbox.failures(self.server)["response-timeout"], 2)


class Unseen(Base):
    """Ends at which no code of ours runs: nobody may be charged, and the call must not stay in flight."""

    def unseen(self, way, phase):
        self.start(phase, **PATIENT)
        self.sandbox.run([PYTHON, CLIENTS / "giving_up.py", way, phase, self.server.address, self.server.port, 0.1])
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((self.sandbox.failures(self.server), circuit["in_flight"]), ({}, 0), circuit)

    def test_a_process_that_is_killed_tells_nothing(self):
        for phase in (CONNECT, ANSWER):
            with self.subTest(phase):
                self.unseen("die", phase)

    def test_a_process_that_becomes_another_program_tells_nothing(self):
        for phase in (CONNECT, ANSWER):
            with self.subTest(phase):
                self.unseen("exec_another", phase)


class Curl(Base):
    def test_its_own_timeout_counts_from_abandon_after_on(self):
        for phase in (CONNECT, ANSWER):
            for keys, kind in ((PATIENT, KINDS[phase]), (IMPATIENT, NEUTRAL)):
                with self.subTest(phase=phase, **keys):
                    self.start(phase, **keys)
                    self.assertEqual(self.sandbox.run(["curl", "-sS", "-m", "1", self.server.url]).status, 28)
                    self.expect(kind)

    def test_as_built_in_a_wait_of_more_than_a_second_is_a_timeout(self):
        for phase in (ANSWER, CONNECT):
            self.start(phase)
            self.sandbox.run(["curl", "-sS", "-m", "1.5", self.server.url])
            self.expect(KINDS[phase])


class Wget(Base):
    def test_each_of_its_jumps_out_of_connect_is_a_timeout_and_then_it_is_refused(self):
        """siglongjmp from a SIGALRM handler out of a blocking connect, several times in one process."""
        self.start(CONNECT, failure_threshold=3, **PATIENT)
        result = self.sandbox.run(["wget", "-nv", "-O", "-", "--waitretry", "0", "--retry-connrefused", "-t", "5", "-T",
                                   "0.5", self.server.url])
        self.assertEqual(result.status, 4, result)
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual(circuit["state"], "open", circuit)
        self.assertEqual(self.sandbox.failures(self.server), {"connect-timeout": 3})
        self.assertEqual(circuit["counters"]["refused"], 2, circuit)

    def test_its_jump_out_of_a_short_connect_is_no_failure(self):
        self.start(CONNECT, **IMPATIENT)
        self.sandbox.run(["wget", "-nv", "-O", "-", "-t", "1", "-T", "0.2", self.server.url])
        self.expect(NEUTRAL)


class Bash(Base):
    """/dev/tcp: what is written goes through stdio, unseen; the descriptor ends by dup2 or close."""

    def bash(self, end, keys):
        self.start(ANSWER, **keys)
        script = (f"exec 3<>/dev/tcp/{self.server.address}/{self.server.port}; "
                  f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; read -t 0.3 line <&3; {end}; true")
        self.assertEqual(self.sandbox.run(["bash", "-c", script]).output, ("", "", 0))

    def test_it_closes_what_did_not_answer(self):
        self.bash("exec 3>&-", PATIENT)
        self.expect("response-timeout")

    def test_it_puts_another_file_over_what_did_not_answer(self):
        self.bash("exec 3</dev/null", PATIENT)
        self.expect("response-timeout")

    def test_it_ends_well_with_the_connection_open_and_that_is_no_failure(self):
        self.bash(":", PATIENT)
        self.expect(NEUTRAL)

    def test_it_closes_soon(self):
        self.bash("exec 3>&-", IMPATIENT)
        self.expect(NEUTRAL)


class Node(Base):
    """An abort closes what waits for an answer; what still connects stays open for ten seconds more."""

    def abort(self, milliseconds=1500):
        process = self.sandbox.popen(["node", CLIENTS / "abort.js", self.server.url, milliseconds], RUN,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"TimeoutError\n")
        return process

    def test_its_aborted_attempt_is_overdue_while_it_stays_open(self):
        self.start(CONNECT, clock=True, connect_timeout="10s", **IMPATIENT)
        process = self.abort()
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((self.sandbox.failures(self.server), circuit["in_flight"]), ({}, 1), circuit)
        self.sandbox.clock.advance_seconds(10)
        self.sandbox.run(["curl", "-sS", "-m", "1", self.server.url])
        self.assertEqual(self.sandbox.failures(self.server), {"connect-timeout": 1})
        process.stdin.close()
        process.wait(20)
        self.assertEqual(self.sandbox.failures(self.server), {"connect-timeout": 1}, "once")

    def test_its_aborted_attempt_ends_with_the_process_at_the_latest(self):
        self.start(CONNECT, **PATIENT)
        process = self.abort()
        process.stdin.close()
        self.assertEqual(process.wait(20), 0)
        self.expect("connect-timeout")

    def test_its_aborted_request_is_a_response_timeout_at_once(self):
        self.start(ANSWER, **PATIENT)
        process = self.abort()
        self.assertTrue(eventually(lambda: self.sandbox.failures(self.server)))
        self.assertIsNone(process.poll())
        self.assertEqual(self.sandbox.failures(self.server), {"response-timeout": 1})

    def test_its_request_that_is_aborted_soon_is_no_failure(self):
        self.start(ANSWER, **IMPATIENT)
        process = self.abort()
        self.assertTrue(eventually(lambda: self.sandbox.counters(self.server)["neutral"]))
        process.stdin.close()
        process.wait(20)
        self.assertEqual(self.sandbox.failures(self.server), {})


class Java(Base):
    """Socket.close by another thread: shutdown and dup2 under the one that waits; that is the program, not the peer."""

    def close_asynchronously(self, phase, keys, kind):
        self.start(phase, **keys)
        process = self.sandbox.popen(["java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", JAVA.get().folder,
                                      "AsyncClose", phase, self.server.address, self.server.port, 1500], RUN,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"Socket closed\n")
        name = "failed" if kind else "neutral"
        self.assertTrue(eventually(lambda: self.sandbox.counters(self.server)[name]), self.sandbox.circuit(self.server))
        self.assertIsNone(process.poll())
        self.expect(kind)
        process.stdin.close()
        self.assertEqual(process.wait(20), 0)
        self.expect(kind)

    def test_an_attempt_that_is_closed_late_is_a_connect_timeout(self):
        self.close_asynchronously(CONNECT, PATIENT, "connect-timeout")

    def test_an_attempt_that_is_closed_soon_is_no_failure(self):
        self.close_asynchronously(CONNECT, IMPATIENT, NEUTRAL)

    def test_a_read_that_is_closed_late_is_a_response_timeout(self):
        self.close_asynchronously(ANSWER, PATIENT, "response-timeout")

    def test_a_read_that_is_closed_soon_is_no_failure(self):
        self.close_asynchronously(ANSWER, IMPATIENT, NEUTRAL)


if __name__ == "__main__":
    unittest.main()
