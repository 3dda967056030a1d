"""`sockfuse explain`: why a circuit is as it is, what comes next, and what stands in the way."""
import json
import os
import re
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import PYTHON, ParallelSuite, Sandbox, Server, asleep, eventually, stay_silent  # noqa: E402
from fixtures.storm import WORDS, storm  # noqa: E402

load_tests = ParallelSuite.load(4)

# A line for each word: a call to that URL's server, which it answers, refuses or is silent to.
CALLS = """import socket, sys
for number in sys.argv[1:]:
    try:
        with socket.create_connection(("127.0.0.1", int(number)), timeout=20) as connection:
            connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            connection.recv(1)
    except OSError:
        pass
"""
PREFORKING = """import os, socket, sys, time
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        connection.recv(1)
        time.sleep(100)
time.sleep(100)
"""


class Explain(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self, clock=True)

    def server(self, answers=None):
        server = Server(answers) if answers else Server()
        self.addCleanup(server.stop)
        return server

    def refusing(self):
        """The destination of a server that has gone."""
        server = Server()
        server.stop()
        return server

    def explain(self, what, status=0):
        result = self.sandbox.sockfuse("explain", "--json", getattr(what, "destination", what))
        self.assertEqual(result.status, status, result)
        return json.loads(result.stdout)

    def text(self, what, status=0, **keywords):
        result = self.sandbox.sockfuse("explain", getattr(what, "destination", what), **keywords)
        self.assertEqual(result.status, status, result)
        return result.stdout

    def call(self, *servers):
        return self.sandbox.run([PYTHON, "-c", CALLS, *(str(server.port) for server in servers)])

    def test_what_opened_it_is_told_with_all_that_led_to_it(self):
        good, bad = self.server(), self.refusing()
        self.sandbox.guard(bad, failure_threshold=3)
        self.sandbox.run(["curl", "-s", bad.url])
        self.sandbox.clock.advance_seconds(2)
        self.call(bad)
        self.sandbox.clock.advance_seconds(1.5)
        self.sandbox.run(["curl", "-s", bad.url])
        self.call(bad)
        (circuit,) = self.explain(bad)
        opening = circuit["opening"]
        self.assertEqual((circuit["state"], opening["reason"], opening["failures"], opening["goes_on"]),
                         ("open", "failure-threshold", 3, True))
        self.assertEqual([(piece["kind"], piece["errno"], piece["phase"], piece["address"], piece["overdue"])
                          for piece in opening["evidence"]],
                         [("refused", "ECONNREFUSED", "connect", bad.destination, False)] * 3)
        self.assertEqual([piece["program"] for piece in opening["evidence"]][::2], ["curl", "curl"])
        times = [piece["counted_ns"] for piece in opening["evidence"]]
        self.assertEqual([times[1] - times[0], times[2] - times[1]], [2_000_000_000, 1_500_000_000])
        self.assertEqual(opening["settings"]["failure_threshold"], 3)
        self.assertEqual((opening["one_less"]["opens"], opening["one_less"]["mono_ns"]), (True, times[1]))
        self.assertEqual(opening["one_more"], {"failure_threshold": 4, "opens": False})
        text = self.text(bad)
        self.assertIn(": 3 calls failed in a row (failure_threshold = 3)\n", text)
        self.assertEqual(len(re.findall(r"(?m)^    \d\d:\d\d:\d\d\.\d{3} +\d+ +\S+ +connect +refused +ECONNREFUSED ",
                                        text)), 3)
        self.assertRegex(text, r"\n  One less +failure_threshold = 2: opened 1\.5s earlier, at ")
        self.assertRegex(text, r"\n  One more +failure_threshold = 4: not yet open then; the next call")
        self.assertRegex(text, r"\n  Next +a probe in 10\.0s, by the first process that asks; none runs")
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)
        self.assertEqual(good.requests, 0)

    def test_the_evidence_outlives_the_probes_that_fail(self):
        bad = self.refusing()
        self.sandbox.guard(bad, failure_threshold=2)
        self.call(bad, bad)
        for _ in range(6):
            self.sandbox.clock.advance_seconds(61)
            self.call(bad)
        (circuit,) = self.explain(bad)
        self.assertEqual((len(circuit["opening"]["evidence"]), circuit["probes_failed"], len(circuit["probe_failures"])),
                         (2, 6, 4))
        self.assertEqual(circuit["last_transition"]["reason"], "probe-failed")
        self.assertRegex(self.text(bad), r"\n  Probes +6 failed since then; the last ones:\n")

    def test_calls_that_were_under_way_tell_what_one_more_had_come_to(self):
        server = self.server(stay_silent)
        self.sandbox.guard(server, failure_threshold=2, response_timeout="2s")
        process = self.sandbox.popen([PYTHON, "-c", PREFORKING, str(server.port), "4"])
        self.assertTrue(eventually(lambda: server.requests == 4 and asleep(process), 30))
        self.sandbox.clock.advance_seconds(3)
        self.call(server)
        (circuit,) = self.explain(server)
        opening = circuit["opening"]
        self.assertEqual([(piece["kind"], piece["overdue"], piece["phase"]) for piece in opening["evidence"]],
                         [("response-timeout", True, "answer")] * 2)
        self.assertEqual(circuit["late_failures"], 2)
        self.assertEqual((opening["one_more"]["failure_threshold"], opening["one_more"]["opens"]), (3, True))
        self.assertRegex(self.text(server), r"\n  Next +a probe in 9\.0s, by the first of 5 processes that asks; if")

    def test_a_circuit_that_never_opened_says_what_it_knows(self):
        answered, bad = self.server(), self.refusing()
        self.sandbox.guard(answered, bad, failure_threshold=3)
        self.call(answered, bad)
        self.assertRegex(self.text(answered), r"last answered\s+less\s+than\s+1s\s+ago\n", "it is known to the second")
        self.sandbox.clock.advance_seconds(7)
        (circuit,) = self.explain(answered)
        self.assertEqual((circuit["state"], circuit["opening"], circuit["calls"], circuit["failed"],
                          circuit["answered_s_ago"]), ("closed", None, 1, 0, 7))
        self.assertRegex(self.text(answered), r"\n  Failures +0 of 3 in a row now; 0 of 1 calls in all; last answered "
                                              r"7s ago\n  Opened +never\n  Next +calls pass; 3 failures in a row open ")
        (circuit,) = self.explain(bad)
        self.assertEqual([piece["kind"] for piece in circuit["recent_failures"]], ["refused"])
        self.assertRegex(self.text(bad), r"\n  Failures +1 of 3 in a row now; 1 of 1 calls in all; never seen to answer")

    def test_nobody_has_called_it(self):
        self.sandbox.guard("127.0.0.1:1")
        self.sandbox.run(["true"])
        result = self.sandbox.sockfuse("explain", "-p", self.sandbox.policy_path, "127.0.0.1:1")
        self.assertRegex(result.stdout, r"\n  Opened +never: nobody has called it\n")

    def test_an_opening_by_a_rate_tells_the_windows_numbers(self):
        calls = []
        server = self.server(lambda server, sock, number: (sock.recv(65536), calls.append(number),
                                                           len(calls) in (1, 3) and sock.sendall(b"hello")))
        self.sandbox.guard(server, failure_threshold=0, failure_rate="50%", minimum_calls=5)
        self.call(*[server] * 5)
        (circuit,) = self.explain(server)
        opening = circuit["opening"]
        self.assertEqual((opening["reason"], opening["window"]), ("failure-rate", {"calls": 5, "failed": 3, "slow": 0}))
        self.assertEqual([piece["kind"] for piece in opening["evidence"]], ["early-close"] * 3)
        text = " ".join(self.text(server).split())
        self.assertIn("3 of the last 5 calls (60%) failed (failure_rate = 50%,", text)
        self.assertIn("One such call less", text)

    def test_a_probe_that_is_under_way_and_its_overrun(self):
        server = self.server(stay_silent)
        self.sandbox.guard(server, failure_threshold=1, probe_timeout="5s")
        self.sandbox.run(["curl", "-s", "--max-time", "0.6", server.url])
        self.sandbox.clock.advance_seconds(10)
        prober = self.sandbox.popen(["curl", "-s", "--max-time", "100", server.url])
        self.assertTrue(eventually(lambda: server.requests == 2 and asleep(prober), 30))
        self.sandbox.clock.advance_seconds(1)
        self.assertRegex(self.text(server), rf"\n  Next +the end of the probe that curl\[{prober.pid}\] has made for 1\.0s")
        self.sandbox.clock.advance_seconds(9)
        self.sandbox.run(["curl", "-s", "--max-time", "5", server.url])
        self.assertEqual(self.explain(server)[0]["last_transition"]["reason"], "probe-timeout")
        self.assertRegex(self.text(server), r"\n  Probes +1 failed since then\n(.*\n)* +the last one had no answer in time")

    def test_what_stands_in_the_way_is_told(self):
        server, observed = self.server(stay_silent), self.refusing()
        self.sandbox.policy(f"[busy]\nmatch = {server.destination}\nmax_connections = 1\n"
                            f"[seen]\nmatch = {observed.destination}\nmode = observe\nfailure_threshold = 1\n")
        process = self.sandbox.popen(["curl", "-s", "--max-time", "100", server.url])
        self.assertTrue(eventually(lambda: server.requests == 1 and asleep(process), 30))
        self.sandbox.clock.advance_seconds(40)
        self.assertEqual({obstacle["what"] for obstacle in self.explain(server)[0]["in_the_way"]},
                         {"bulkhead", "response_timeout"})
        self.call(observed, observed)
        self.assertIn("mode = observe: it refuses nothing", self.text(observed))
        self.sandbox.sockfuse("open", "--for", "5m", server.destination)
        (circuit,) = self.explain(server)
        self.assertEqual((circuit["state"], circuit["own_state"], circuit["forced"]), ("open", "closed", "open"))
        text = self.text(server)
        self.assertRegex(text, r"\n  State +open \(forced\); its own state: closed")
        self.assertRegex(text, r"\n  Next +in 5m00s, or with sockfuse auto, it goes by its own rules again\n")
        self.assertRegex(text, r"\n  In the way +\S+ forced it open 0ms ago: its own state decides nothing\n")

    def test_failures_of_one_address_that_do_not_count_are_told(self):
        good, bad = self.server(), self.refusing()
        self.sandbox.policy(f"[shop]\nmatch = {good.destination} {bad.destination}\ncircuit = target\n")
        self.call(good, bad, good, bad, bad)
        (obstacle,) = [at for at in self.explain("shop")[0]["in_the_way"] if at["what"] == "address"]
        self.assertEqual(obstacle["text"], "1 failure did not count, for another of its addresses answers "
                                           f"(failing: {bad.destination})")

    def test_each_policy_that_has_it_is_told(self):
        bad = self.refusing()
        for threshold in (1, 5):
            self.sandbox.policy_path = os.path.join(self.sandbox.folder, f"{threshold}.policy")
            self.sandbox.guard(bad, failure_threshold=threshold)
            self.call(bad)
        self.assertEqual(sorted(circuit["state"] for circuit in self.explain(bad)), ["closed", "open"])
        self.assertEqual(self.text(bad).count("\n  State "), 2)

    def test_times_are_of_the_readers_zone_and_in_json_of_utc(self):
        bad = self.refusing()
        self.sandbox.guard(bad, failure_threshold=1)
        self.call(bad)
        hour = int(self.explain(bad)[0]["opening"]["time"][11:13])
        self.assertRegex(self.text(bad, env={"TZ": "XYZ-3"}), rf"\n  Opened +(\S+ )?{(hour + 3) % 24:02d}:")

    def test_what_can_not_be_seen_is_said(self):
        result = self.sandbox.sockfuse("explain", "10.0.0.1:80")
        self.assertEqual((result.status, result.stdout), (1, ""))
        self.assertIn("no policy in use has such a circuit", result.stderr)
        self.assertEqual(self.sandbox.sockfuse("explain").status, 2)
        self.assertEqual(self.sandbox.sockfuse("explain", "a:1", "b:1").status, 2)
        server = self.server(stay_silent)
        self.sandbox.guard(server)
        self.sandbox.popen(["curl", "-s", "--max-time", "100", server.url])
        self.assertTrue(eventually(lambda: server.requests == 1, 30))
        with open(self.sandbox.segment_path(), "r+b") as file:
            file.seek(8)
            file.write(struct.pack("<I", 1000))
        result = self.sandbox.sockfuse("explain", "--json", server.destination)
        self.assertEqual((result.status, json.loads(result.stdout)), (1, []))
        self.assertIn("newer build", result.stderr)

    def test_a_folder_that_can_not_be_read_is_said(self):
        with open(self.sandbox.state, "w", encoding="ascii") as file:
            file.write("no folder")
        result = self.sandbox.sockfuse("explain", "a:1")
        self.assertEqual(result.status, 1)
        self.assertIn("can't be read", result.stderr)

    def test_names_drive_no_terminal(self):
        bad = self.refusing()
        self.sandbox.guard(bad, failure_threshold=1)
        program = os.path.join(self.sandbox.folder, "a\x1b[2J")
        os.symlink("/usr/bin/curl", program)
        self.sandbox.run([program, "-s", bad.url])
        self.assertNotIn("\x1b", self.text(bad))
        self.assertEqual(len(self.explain(bad)[0]["opening"]["evidence"]), 1)


class Storm(unittest.TestCase):
    def test_a_segment_that_64_processes_write(self):
        sandbox, server = Sandbox(self), Server(lambda server, sock, number: sock.recv(65536))
        self.addCleanup(server.stop)
        sandbox.guard(server, failure_threshold=5, reset_timeout="10ms", reset_timeout_max="10ms")
        storm(self, sandbox, server, WORDS)
        self.assertTrue(eventually(lambda: len(sandbox.status()[0]["processes"]) == 64, 60))
        self.assertTrue(eventually(lambda: sandbox.counters(server)["opened"] > 0, 60))
        for _ in range(10):
            result = sandbox.sockfuse("explain", "--json", server.destination)
            self.assertEqual((result.status, result.stderr), (0, ""))
            (circuit,) = json.loads(result.stdout)
            for piece in circuit["opening"]["evidence"] if circuit["opening"] else []:
                self.assertEqual((piece["address"], piece["program"]), (server.destination, os.path.basename(sys.executable)))
            self.assertEqual(sandbox.sockfuse("explain", server.destination).status, 0)


if __name__ == "__main__":
    unittest.main()
