"""What must hold when processes die, hang, fork or start others: leases, overdue calls, tracked connections."""
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, CLIENTS, PRELOAD, PYTHON, REFUSED_BY_CURL, RESET_BY_CURL, RUN, BlackHole,  # noqa: E402
                      ParallelSuite, Sandbox, Server, Session, answer_http, answer_when, asleep, end_after_request,
                      eventually, flapping, reset_after_request, stay_silent)

load_tests = ParallelSuite.load(6)


class Hold(unittest.TestCase):
    def start(self, *servers, clock=True, **policy):
        self.sandbox = Sandbox(self, clock=clock)
        self.server = servers[0]
        for server in servers:
            self.addCleanup(server.stop)
        self.sandbox.guard(*servers, **policy)

    def curl(self, *options, server=None):
        return self.sandbox.run(["curl", "-sS", *options, (server or self.server).url])

    def hanging_curl(self):
        """A curl without a timeout whose call has reached the server."""
        before = self.server.connections
        process = self.sandbox.popen(["curl", "-sS", self.server.url], stdout=subprocess.PIPE)
        self.assertTrue(eventually(lambda: self.server.connections == before + 1))
        return process

    def circuit(self):
        return self.sandbox.circuit(self.server)

    def trip(self):
        """Opens a circuit whose failure_threshold is 1; the server resets its first connection."""
        self.assertEqual(self.curl().status, RESET_BY_CURL)
        self.assertEqual(self.circuit()["state"], "open")


class Leases(Hold):
    def probing(self):
        self.start(Server(flapping(reset_after_request, stay_silent)), failure_threshold=1, reset_timeout="10s",
                   probe_timeout="5s")
        self.trip()
        self.sandbox.clock.advance_seconds(10)
        process = self.hanging_curl()
        self.assertTrue(eventually(lambda: self.circuit()["state"] == "half-open"), self.circuit())
        self.assertEqual(self.circuit()["in_flight"], 1)
        self.assertEqual(self.curl().status, REFUSED_BY_CURL, "one probe at a time")
        self.assertEqual(self.server.connections, 2)
        return process

    def test_after_kill_9_of_a_probing_process_the_next_call_probes_at_once(self):
        process = self.probing()
        self.server.behaviour = answer_http
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # It is a zombie now: kill(pid, 0) would still find it.
        self.assertEqual(self.curl().stdout, ANSWER.decode())
        self.assertEqual(self.server.connections, 3)
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["consecutive_failures"]), ("closed", 0), circuit)
        self.assertEqual((circuit["counters"]["probes_succeeded"], circuit["counters"]["probes_failed"]), (1, 0))

    def test_a_killed_probe_is_no_step_of_the_back_off(self):
        process = self.probing()
        process.kill()
        process.wait()
        self.server.behaviour = reset_after_request
        self.assertEqual(self.curl().status, RESET_BY_CURL)
        circuit = self.circuit()
        self.assertEqual(circuit["state"], "open", circuit)
        self.assertEqual(circuit["retry_in_ms"], 20_000, circuit)

    def test_a_hanging_probe_loses_its_lease_at_probe_timeout(self):
        process = self.probing()
        self.sandbox.clock.advance(5_000_000_000 - 1)
        self.assertEqual(self.curl().status, REFUSED_BY_CURL)
        self.assertEqual(self.circuit()["state"], "half-open")
        self.sandbox.clock.advance(1)
        self.assertEqual(self.curl().status, REFUSED_BY_CURL)
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["probe_due"]), ("open", False), circuit)
        self.assertEqual(circuit["counters"]["probes_failed"], 1, circuit)
        self.assertEqual(circuit["retry_in_ms"], 20_000, circuit)
        self.assertEqual(self.server.connections, 2)
        self.assertIsNone(process.poll(), "the program that hangs is left alone")
        self.server.behaviour = answer_http
        self.sandbox.clock.advance_seconds(20)
        self.assertEqual(self.curl().status, 0)
        self.assertEqual(self.circuit()["state"], "closed")

    def test_the_answer_to_a_probe_that_lost_its_lease_closes_the_circuit(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.start(Server(flapping(reset_after_request, answer_when(gate))), failure_threshold=1, reset_timeout="10s",
                   probe_timeout="5s")
        self.trip()
        self.sandbox.clock.advance_seconds(10)
        process = self.hanging_curl()
        self.sandbox.clock.advance_seconds(5)
        self.assertEqual(self.curl().status, REFUSED_BY_CURL)
        gate.set()
        self.assertEqual(process.wait(20), 0, "the program gets its answer")
        circuit = self.circuit()
        self.assertEqual(circuit["state"], "closed", circuit)
        counted = [circuit["counters"][name] for name in ("probes_failed", "probes_succeeded", "late")]
        self.assertEqual(counted, [1, 1, 0], circuit)

    def test_an_answer_to_a_call_from_before_the_opening_is_late_and_closes_nothing(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.start(Server(flapping(answer_when(gate), reset_after_request)), failure_threshold=1)
        process = self.hanging_curl()
        self.trip()
        gate.set()
        self.assertEqual(process.wait(20), 0)
        circuit = self.circuit()
        self.assertEqual(circuit["state"], "open", circuit)
        self.assertEqual((circuit["counters"]["late"], circuit["counters"]["succeeded"]), (1, 0), circuit)

    def test_a_probe_that_the_program_gives_up_soon_returns_its_permit(self):
        self.start(Server(flapping(reset_after_request, stay_silent)), failure_threshold=1, reset_timeout="10s",
                   abandon_after="50s")
        self.trip()
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.curl("--max-time", "0.5").status, 28)
        circuit = self.circuit()
        self.assertNotEqual(circuit["state"], "closed")
        self.assertEqual(circuit["counters"]["probes_failed"], 0, circuit)
        self.server.behaviour = answer_http
        self.assertEqual(self.curl().status, 0, "no new pause: a cancelled probe proves nothing")
        self.assertEqual(self.circuit()["state"], "closed")

    def test_two_successes_close_when_two_are_asked_for(self):
        self.start(Server(flapping(reset_after_request, answer_http)), failure_threshold=1, reset_timeout="10s",
                   success_threshold=2)
        self.trip()
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.curl().status, 0)
        self.assertEqual(self.circuit()["state"], "half-open")
        self.assertEqual(self.curl().status, 0)
        self.assertEqual(self.circuit()["state"], "closed")

    def test_three_probes_at_once_when_three_are_allowed(self):
        self.start(Server(flapping(reset_after_request, stay_silent)), failure_threshold=1, reset_timeout="10s",
                   half_open_max_calls=3)
        self.trip()
        self.sandbox.clock.advance_seconds(10)
        for _ in range(3):
            self.hanging_curl()
        self.assertEqual(self.curl().status, REFUSED_BY_CURL)
        self.assertEqual(self.server.connections, 4)


class Overdue(Hold):
    def hang(self, count, argv):
        processes = [self.sandbox.popen(argv, PRELOAD) for _ in range(count)]
        self.assertTrue(eventually(lambda: self.in_flight() == count, 30), self.sandbox.circuits())
        return processes

    def in_flight(self):
        return sum(circuit["in_flight"] for circuit in self.sandbox.circuits())

    def test_32_processes_that_hang_on_a_black_hole_open_the_circuit_while_they_hang(self):
        self.start(BlackHole(), failure_threshold=5, connect_timeout="10s")
        processes = self.hang(32, ["nc", self.server.address, self.server.port])
        self.sandbox.clock.advance(10_000_000_000 - 1)
        self.assertEqual(self.circuit()["state"], "closed")
        self.sandbox.clock.advance(1)
        new = self.sandbox.run(["nc", "-v", "-w", "30", self.server.address, self.server.port])
        self.assertEqual(new.status, 1)
        self.assertIn("Connection refused", new.stderr)
        self.assertLess(new.seconds, 15)
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["probe_due"]), ("open", False), circuit)
        self.assertEqual(set(self.sandbox.failures(self.server)), {"connect-timeout"}, circuit)
        self.assertGreaterEqual(circuit["counters"]["failed"], 5, circuit)
        self.assertEqual([process.poll() for process in processes], [None] * 32, "the old ones still hang")
        for process in processes:
            process.kill()
            process.wait()
        self.assertTrue(eventually(lambda: self.in_flight() == 0), self.circuit())
        after = self.circuit()
        self.assertEqual((after["state"], after["counters"]["failed"]), ("open", circuit["counters"]["failed"]), after)

    def test_calls_that_wait_for_an_answer_open_the_circuit_at_response_timeout(self):
        self.start(Server(stay_silent), failure_threshold=3, response_timeout="4s")
        processes = self.hang(8, ["curl", "-sS", self.server.url])
        self.assertTrue(eventually(lambda: self.server.requests == 8 and all(map(asleep, processes))))
        self.sandbox.clock.advance_seconds(4)
        self.assertEqual(self.curl("--max-time", "30").status, REFUSED_BY_CURL)
        self.assertEqual(set(self.sandbox.failures(self.server)), {"response-timeout"})
        self.assertEqual(self.circuit()["state"], "open")
        self.assertEqual(self.server.connections, 8)
        self.assertEqual([process.poll() for process in processes], [None] * 8)

    def test_without_a_response_timeout_a_long_poll_is_never_overdue(self):
        self.start(Server(stay_silent), failure_threshold=1)
        processes = self.hang(4, ["curl", "-sS", self.server.url])
        self.assertTrue(eventually(lambda: self.server.requests == 4 and all(map(asleep, processes))))
        self.sandbox.clock.advance_seconds(3600)
        self.server.behaviour = answer_http
        self.assertEqual(self.curl().status, 0)
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("closed", 0), circuit)


class Families(Hold):
    """Processes that fork, start others, become daemons, have threads or no standard descriptors."""

    def around(self, how, behaviour, said, failures):
        self.start(Server(behaviour), clock=False, failure_threshold=100, failure_rate=0)
        process = self.sandbox.popen([PYTHON, CLIENTS / "around.py", how, self.server.address, self.server.port],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"connected\n")
        self.assertEqual(self.circuit()["in_flight"], 1)
        process.stdin.write(b"\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"done\n")
        circuit = self.circuit()
        self.assertEqual((circuit["in_flight"], self.sandbox.failures(self.server)), (1, {}), circuit)
        process.stdin.write(b"\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline().decode().strip(), said)
        self.assertEqual(process.wait(20), 0)
        circuit = self.circuit()
        self.assertEqual((circuit["in_flight"], self.sandbox.failures(self.server)), (0, failures), circuit)
        self.assertEqual(circuit["counters"]["succeeded"], 0 if failures else 1, circuit)
        self.assertEqual(circuit["counters"]["neutral"], 0, circuit)

    def test_pythons_subprocess_leaves_an_open_connection_tracked(self):
        self.around("run_subprocess", reset_after_request, "ConnectionResetError", {"reset": 1})

    def test_pythons_subprocess_does_no_harm_to_a_healthy_connection(self):
        self.around("run_subprocess", answer_http, "answered", {})

    def test_a_forked_child_that_closes_its_copies_settles_nothing(self):
        self.around("fork_and_close", end_after_request, "end of stream", {"early-close": 1})

    def test_a_forked_child_that_exits_settles_nothing(self):
        self.around("fork_and_exit", reset_after_request, "ConnectionResetError", {"reset": 1})

    def test_a_forked_child_that_is_killed_settles_nothing(self):
        self.around("fork_and_die", answer_http, "answered", {})

    def test_the_close_of_one_duplicate_is_not_the_end(self):
        self.around("close_one_of_two", reset_after_request, "ConnectionResetError", {"reset": 1})

    def test_a_connection_may_move_to_the_highest_number(self):
        self.around("move_to_the_highest_number", reset_after_request, "ConnectionResetError", {"reset": 1})

    def test_a_connection_outlives_threads(self):
        self.around("threads_come_and_go", end_after_request, "end of stream", {"early-close": 1})

    def test_a_daemon_is_guarded_after_two_forks_and_without_descriptors(self):
        self.start(Server(flapping(answer_http, reset_after_request)), clock=False, failure_threshold=1)

        def daemon(name):
            path = os.path.join(self.sandbox.folder, name)
            began = self.sandbox.run([PYTHON, CLIENTS / "daemon_get.py", self.server.url, path])
            self.assertEqual(began.output, ("", "", 0))
            self.assertTrue(eventually(lambda: os.path.exists(path), 20))
            with open(path, encoding="utf-8") as file:
                pid, result = file.read().split("\n", 1)
            return int(pid), result

        self.assertEqual(daemon("healthy")[1], ANSWER.decode())
        pid, result = daemon("reset")
        self.assertIn("ConnectionResetError", result)
        circuit = self.circuit()
        self.assertEqual(circuit["last_failure"]["pid"], pid, circuit)
        self.assertEqual(circuit["state"], "open")
        self.assertIn("Connection refused", daemon("refused")[1])
        self.assertEqual(self.server.connections, 2)

    def test_threads_share_the_circuit_of_their_process(self):
        self.start(Server(reset_after_request), clock=False, failure_threshold=100, failure_rate=0)
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        session.send(url=self.server.url, timeout=10, threads=50, at=time.monotonic())
        self.assertEqual([session.receive()["errno"] for _ in range(50)], [errno.ECONNRESET] * 50)
        circuit = self.circuit()
        self.assertEqual((circuit["consecutive_failures"], circuit["failures"]["reset"]), (50, 50), circuit)
        self.assertEqual(circuit["in_flight"], 0)

    def test_programs_without_standard_descriptors_are_guarded_on_numbers_0_to_2(self):
        self.start(Server(flapping(answer_http, reset_after_request)), clock=False, failure_threshold=100,
                   failure_rate=0)
        path = os.path.join(self.sandbox.folder, "answer")
        script = 'exec "$@" <&- >&- 2>&-'
        result = self.sandbox.run(["sh", "-c", script, "sh", "curl", "-sS", "-o", path, self.server.url])
        self.assertEqual(result.status, 0)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), ANSWER)
        result = self.sandbox.run(["sh", "-c", script, "sh", "curl", "-sS", "-o", path, self.server.url])
        self.assertEqual(result.status, RESET_BY_CURL)
        circuit = self.circuit()
        self.assertEqual((circuit["counters"]["succeeded"], self.sandbox.failures(self.server)), (1, {"reset": 1}))

    def test_a_restarted_application_finds_its_circuit_open(self):
        self.start(Server(reset_after_request), clock=False, failure_threshold=1)
        self.trip()
        for _ in range(3):
            self.assertEqual(self.curl().status, REFUSED_BY_CURL)
        self.assertEqual(self.server.connections, 1)
        self.assertEqual(self.circuit()["counters"]["refused"], 3)

    def test_a_unix_socket_and_ipv6_have_circuits_of_their_own(self):
        unix = Server(reset_after_request, socket.AF_UNIX)
        self.start(Server(answer_http, socket.AF_INET6), unix, clock=False, failure_threshold=1)
        self.assertEqual(self.curl().status, 0)
        command = ["curl", "-sS", "--unix-socket", unix.path, "http://localhost/"]
        self.assertEqual(self.sandbox.run(command).status, RESET_BY_CURL)
        self.assertEqual(self.sandbox.run(command, RUN).status, REFUSED_BY_CURL)
        self.assertEqual(self.sandbox.circuit(unix)["state"], "open")
        self.assertEqual(self.circuit()["state"], "closed")


if __name__ == "__main__":
    unittest.main()
