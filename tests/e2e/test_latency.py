"""How long calls have waited, as `status` tells it, beside what the programs themselves have measured."""
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PYTHON, ParallelSuite, Sandbox, Server, Session, answer_late,  # noqa: E402
                      answer_status, eventually, printed_on_a_terminal, stay_silent)

load_tests = ParallelSuite.load(4)

DELAY = 0.3
# Its requests go by turns to where the answer is late and to where it is not; prints how long each took, in us.
BY_TURNS = """import http.client, sys, time
places = [http.client.HTTPConnection("127.0.0.1", int(port)) for port in sys.argv[1:]]
for turn in range(10):
    began = time.monotonic()
    places[turn % len(places)].request("GET", "/")
    places[turn % len(places)].getresponse().read()
    print(turn % len(places), int((time.monotonic() - began) * 1e6))
"""
MANY = """import os, socket, sys
for worker in range(64):
    if os.fork() == 0:
        for turn in range(4):
            with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
                for request in range(25):
                    connection.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
                    connection.recv(65536)
        os._exit(0)
for worker in range(64):
    os.wait()
"""
# One connection; two more from its own port and to its own place, which the kernel has no room for.
NO_ADDRESS = """import socket, sys
def bound(port):
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made
first = bound(0)
first.connect(("127.0.0.1", int(sys.argv[1])))
for turn in range(2):
    with bound(first.getsockname()[1]) as second:
        print(second.connect_ex(("127.0.0.1", int(sys.argv[1]))))
"""


class Latency(unittest.TestCase):
    def server(self, *behaviour, **keywords):
        server = Server(*behaviour, **keywords)
        self.addCleanup(server.stop)
        return server

    def latency(self, server):
        return self.sandbox.circuit(server)["latency"]

    def status(self, *words, status=0):
        result = self.sandbox.sockfuse("status", *words)
        self.assertEqual(result.status, status, result)
        return result.stdout

    def test_curl_has_measured_the_same(self):
        self.sandbox = Sandbox(self)
        server = self.server(answer_late(DELAY))
        self.sandbox.guard(server)
        result = self.sandbox.run(["curl", "-s", "-o", "/dev/null", "-w", "%{time_starttransfer}", server.url])
        self.assertEqual(result.status, 0, result)
        measured = float(result.stdout) * 1e6
        latency = self.latency(server)
        self.assertEqual((latency["connect"]["count"], latency["first_byte"]["count"]), (1, 1))
        self.assertLess(latency["first_byte"]["p50_us"], measured * 1.02)
        self.assertGreater(latency["first_byte"]["p50_us"], DELAY * 1e6 / 2)
        self.assertLess(latency["connect"]["p50_us"], measured)
        self.assertEqual((latency["last_minute"]["count"], latency["last_minute"]["calls"]), (1, 1))
        self.assertGreaterEqual(latency["waited_ms"], latency["first_byte"]["p50_us"] // 1100)

    def test_a_late_destination_is_told_from_one_that_is_not(self):
        self.sandbox = Sandbox(self)
        late, prompt = self.server(answer_late(DELAY)), self.server()
        self.sandbox.guard(late, prompt)
        result = self.sandbox.run([PYTHON, "-c", BY_TURNS, late.port, prompt.port])
        self.assertEqual(result.status, 0, result)
        waits = [[], []]
        for line in result.stdout.splitlines():
            place, took = line.split()
            waits[int(place)].append(int(took))
        for server, measured in ((late, waits[0]), (prompt, waits[1])):
            latency = self.latency(server)
            self.assertEqual(latency["first_byte"]["count"], 5)
            self.assertLess(latency["first_byte"]["p99_us"], max(measured) * 1.02)
            self.assertLessEqual(latency["max_us"], max(measured))
        self.assertGreater(self.latency(late)["first_byte"]["p50_us"], DELAY * 1e6 / 2)

    def test_the_last_minute_goes_by(self):
        self.sandbox = Sandbox(self, clock=True)
        server = self.server()
        self.sandbox.guard(server)
        self.assertEqual(self.sandbox.run(["curl", "-s", server.url]).status, 0)
        self.assertEqual(self.latency(server)["last_minute"]["calls"], 1)
        self.assertRegex(self.status(), rf"(?m)^  LAST MINUTE +CALLS/S +P50 +P95 +MAX\n"
                                        rf"  {re.escape(server.destination)} +0\.1( +[\d.]+[mu]?s){{3}}$")
        self.sandbox.clock.advance_seconds(62)
        self.assertEqual((self.latency(server)["last_minute"]["calls"], self.latency(server)["last_minute"]["p50_us"]),
                         (0, None))
        self.assertEqual(self.latency(server)["first_byte"]["count"], 1)
        self.assertNotIn("LAST MINUTE", self.status())

    def test_a_call_that_hangs_has_waited_until_its_limit_and_got_no_answer(self):
        self.sandbox = Sandbox(self, clock=True)
        server = self.server(stay_silent)
        self.sandbox.guard(server, response_timeout="2s")
        process = self.sandbox.popen(["curl", "-s", "--max-time", "100", server.url])
        self.assertTrue(eventually(lambda: self.sandbox.sockfuse("calls").stdout.count("answer") == 1, 30))
        self.sandbox.clock.advance_seconds(7)
        self.sandbox.run(["curl", "-s", "--max-time", "0.1", server.url])
        latency = self.latency(server)
        self.assertEqual(latency["first_byte"]["count"], 0)
        self.assertGreaterEqual(latency["last_minute"]["max_us"], 2000000)
        self.assertIsNone(latency["last_minute"]["p50_us"])
        process.kill()

    def test_a_page_tells_all_of_one_circuit(self):
        self.sandbox = Sandbox(self, clock=True)
        server, other = self.server(answer_status("503 Service Unavailable")), self.server()
        self.sandbox.policy(f"[shop]\nmatch = {server.destination}\nfailure_threshold = 2\nresponse_timeout = 5s\n"
                            f"[other]\nmatch = {other.destination}\n")
        for place in (server, server, other):
            self.sandbox.run(["curl", "-s", place.url])
        for wanted in (server.destination, "shop"):
            page = self.status(wanted)
            self.assertNotIn(other.destination, page)
            for part in (r"State +open \(ended\), for 0ms, next probe in 1\d\.\ds", r"Calls +2, succeeded 0",
                         r"failed 2 \(2 http\)", r"Last failure +http-503, 0ms ago, pid \d+ \(curl\)",
                         r"First byte +P50 \S+, P95 \S+, P99 \S+, of 2 answers", r"# +\d+\n",
                         r"Last events\n(.*\n)*.*open", r"failure_threshold = 2\n", r"response_timeout = 5s\n"):
                self.assertRegex(page, part)
        self.assertEqual([circuit["destination"] for policy in json.loads(self.status("--json", "shop"))
                          for circuit in policy["circuits"]], [server.destination])
        self.assertIn("no policy in use", self.sandbox.sockfuse("status", "nobody:1").stderr)
        self.assertEqual(self.status("nobody:1", status=1), "")

    def test_a_fault_on_this_side_is_told_with_its_reason(self):
        self.sandbox = Sandbox(self)
        server = self.server()
        self.sandbox.guard(server)
        process = self.sandbox.popen([PYTHON, "-c", NO_ADDRESS, str(server.port)])
        self.assertEqual(process.wait(60), 0)
        (fault,) = self.sandbox.circuit(server)["local_faults"]
        self.assertEqual((fault["errno"], fault["count"], fault["pid"]), ("EADDRNOTAVAIL", 2, process.pid))
        self.assertRegex(fault["program"], "^python3")
        self.assertRegex(fault["last"], r"^\d{4}-.*Z$")
        reason = rf"2 x EADDRNOTAVAIL in pid {process.pid} \(python3\S*\), \S+ ago: the fault is on this side\n"
        self.assertRegex(self.status(), rf"\n  note: {re.escape(server.destination)}: {reason}")
        self.assertRegex(self.status(server.destination), rf"\n  Local faults +{reason}")

    def test_an_outage_that_lasts_is_told_and_so_is_the_last_one(self):
        self.sandbox = Sandbox(self, clock=True)
        server = self.server(up=False)
        self.sandbox.guard(server, failure_threshold=2)
        for _ in range(5):
            self.sandbox.run(["curl", "-s", server.url])
        self.sandbox.clock.advance_seconds(4)
        outage = self.sandbox.circuit(server)["outage"]
        self.assertEqual({key: outage[key] for key in ("lasted_ms", "refused", "probes", "probes_failed", "cause")},
                         {"lasted_ms": 4000, "refused": 3, "probes": 0, "probes_failed": 0,
                          "cause": {"reason": "failure-threshold", "failures": 2, "kinds": {"refused": 2},
                                    "window": {"calls": 2, "failed": 2, "slow": 0}, "injected": False}})
        told = r"3 refused, {}; cause: failure-threshold, 2 failures \(refused\)\n"
        self.assertRegex(self.status(server.destination), r"\n  Outage +for 4.0s, since \d{4}-\S+Z\n +"
                         + told.format("0 probes"))
        self.sandbox.clock.advance_seconds(6)
        server.up()
        self.sandbox.run(["curl", "-s", server.url])
        self.assertIsNone(self.sandbox.circuit(server)["outage"])
        self.assertRegex(self.status(server.destination), r"\n  Last outage +10.0s, since \S+\n +"
                         + told.format("1 probe"))

    def test_one_line_and_a_status_are_for_who_watches(self):
        self.sandbox = Sandbox(self, clock=True)
        self.assertRegex(self.status("--check"), r"\AOK: 0 circuits in use\n\Z")
        server = self.server(up=False)
        self.sandbox.guard(server, failure_threshold=1)
        client = Session(self.sandbox, [PYTHON, CLIENTS / "sockets.py"])
        self.assertTrue(eventually(lambda: "OK: 1 circuit, all closed" in self.status("--check"), 30))
        client.ask(do="call", port=server.port)
        self.assertEqual(self.status("--check", status=1),
                         f"OPEN: 1 circuit, 1 not closed: {server.destination}\n")
        self.assertEqual(self.sandbox.sockfuse("status", "--check", "--json").status, 2)
        client.close()
        self.assertEqual(self.status("--check"), "OK: 0 circuits in use\n")
        with open(self.sandbox.segment_path(), "r+b") as segment:
            segment.truncate(100)
        self.assertRegex(self.status("--check", status=2), r"\AUNKNOWN: .*\n\Z")

    def test_a_policy_that_nobody_runs_any_more_is_no_alarm(self):
        """Though its circuits are open by themselves, by its own word, or an operator's."""
        self.sandbox = Sandbox(self, clock=True)
        for settings, word in (({"failure_threshold": 1}, None), ({"mode": "open"}, None), ({}, "open")):
            with self.subTest(settings=settings, word=word):
                server = self.server(up=False)
                self.sandbox.guard(server, **settings)
                client = Session(self.sandbox, [PYTHON, CLIENTS / "sockets.py"])
                client.ask(do="call", port=server.port)
                if word is not None:
                    self.assertEqual(self.sandbox.sockfuse(word, server.destination).status, 0)
                self.assertIn(f"not closed: {server.destination}", self.status("--check", status=1))
                client.close()
                self.assertEqual(self.status("--check"), "OK: 0 circuits in use\n")
                self.assertEqual(self.status("--check", "-p", self.sandbox.policy_path), "OK: 0 circuits in use\n")

    def on_a_terminal(self, columns):
        return printed_on_a_terminal(self.sandbox, "status", columns=columns, env={"TERM": "dumb"})

    def test_the_worst_comes_first_and_what_does_not_fit_beside_comes_below(self):
        self.sandbox = Sandbox(self, clock=True)
        well, bad = self.server(), self.server(up=False)
        self.sandbox.policy(f"[well]\nmatch = {well.destination}\n"
                            f"[bad]\nmatch = {bad.destination}\nfailure_threshold = 2\n")
        client = Session(self.sandbox, [PYTHON, CLIENTS / "sockets.py"])
        for server in (well, bad, bad, bad):
            client.ask(do="call", port=server.port)
        wide = self.status()
        self.assertLess(wide.index(f"bad     {bad.destination}"), wide.index(f"well    {well.destination}"))
        self.assertEqual(wide.count("TARGET"), 1)
        narrow = self.on_a_terminal(60)
        self.assertTrue(all(len(line) <= 60 for line in narrow.splitlines() if "policy" not in line), narrow)
        self.assertGreater(narrow.count("TARGET  DESTINATION"), 1)
        self.assertEqual(self.on_a_terminal(200).count("TARGET"), 1)
        for name in ("STATE", "CALLS", "FAILED", "REFUSED", "LAST FAILURE"):
            self.assertEqual(len(re.findall(rf"(?m)(?<=  ){name}(?=$|  )", narrow)), 1, narrow)

    def test_64_processes_write_while_one_reads(self):
        self.sandbox = Sandbox(self)
        server = self.server()
        self.sandbox.guard(server)
        process = self.sandbox.popen([PYTHON, "-c", MANY, str(server.port)])
        counts = []
        while process.poll() is None:
            for circuit in self.sandbox.circuits():
                counts.append(circuit["latency"]["first_byte"]["count"])
                latency = circuit["latency"]["last_minute"]
                self.assertLessEqual(latency["p50_us"] or 0, latency["p95_us"] or 0)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(counts, sorted(counts))
        circuit = self.sandbox.circuit(server)
        # Of a busy connection's calls some stand for others.
        self.assertEqual(circuit["counters"]["succeeded"], 6400)
        self.assertTrue(3200 < circuit["latency"]["first_byte"]["count"] < 12800, circuit)
        self.assertTrue(1 <= circuit["most_waiting"] <= 64, circuit)
        self.assertEqual(circuit["latency"]["connect"]["count"], 256)


if __name__ == "__main__":
    unittest.main()
