"""`check`, `status`, `events` and SOCKFUSE_LOG, as an operator uses them while real programs run."""
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (PRELOAD, RUN, SOCKFUSE, ParallelSuite, Sandbox, Server, answer_http, eventually,  # noqa: E402
                      flapping, reset_after_request, stay_silent)

load_tests = ParallelSuite.load(4)
COUNTERS = {"admitted", "succeeded", "failed", "neutral", "business", "late", "refused", "probes_succeeded",
            "probes_failed", "opened", "slow"}
RFC3339 = r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z\Z"


class Commands(unittest.TestCase):
    def start(self, behaviour, clock=True, **policy):
        self.sandbox = Sandbox(self, clock=clock)
        self.server = Server(behaviour)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **policy)

    def curl(self, how=RUN, env=None):
        return self.sandbox.run(["curl", "-sS", self.server.url], how, env)

    def a_whole_life(self, env=None):
        """Two resets open, a refusal, the pause, a failed probe, a longer pause, a probe that closes."""
        self.start(flapping(reset_after_request, reset_after_request, reset_after_request, answer_http),
                   failure_threshold=2, reset_timeout="10s")
        for seconds in (0, 0, 0, 10, 20):
            self.sandbox.clock.advance_seconds(seconds)
            self.curl(env=env)


class Status(Commands):
    def test_a_circuit_has_all_fields_that_others_may_rely_on(self):
        self.a_whole_life()
        (policy,) = self.sandbox.status()
        self.assertEqual(policy["policy"], os.path.realpath(self.sandbox.policy_path))
        self.assertTrue(os.path.exists(policy["segment"]))
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual(circuit["target"], self.server.destination)
        self.assertLessEqual(COUNTERS, set(circuit["counters"]))
        self.assertLessEqual({"state", "probe_due", "consecutive_failures", "failure_threshold", "retry_in_ms",
                              "in_flight", "failures", "last_failure"}, set(circuit))
        counters = circuit["counters"]
        self.assertEqual((counters["admitted"], counters["succeeded"], counters["failed"], counters["refused"],
                          counters["opened"], counters["probes_succeeded"], counters["probes_failed"]),
                         (4, 1, 3, 1, 2, 1, 1), counters)
        last = circuit["last_failure"]
        self.assertEqual((last["kind"], last["errno"], last["program"]), ("reset", "ECONNRESET", "curl"))
        self.assertRegex(last["time"], RFC3339)
        self.assertGreater(last["pid"], 1)
        self.assertGreaterEqual(last["elapsed_ms"], 0)

    def test_all_targets_are_shown_from_the_start(self):
        self.start(answer_http)
        self.sandbox.policy("[one]\nmatch = 127.0.0.1:1\n[two]\nmatch = 127.0.0.1:2\n")
        self.sandbox.run(["true"])
        text = self.sandbox.sockfuse("status", "-p", self.sandbox.policy_path)
        self.assertEqual((text.status, text.stderr), (0, ""))
        self.assertRegex(text.stdout, r"(?s)one.*two")

    def test_it_shows_people_what_is_open_and_who_is_attached(self):
        self.start(flapping(reset_after_request), failure_threshold=1)
        waiting = Server(stay_silent)
        self.addCleanup(waiting.stop)
        self.sandbox.guard(self.server, waiting, failure_threshold=1)
        self.curl()
        process = self.sandbox.popen(["curl", "-sS", waiting.url], PRELOAD)
        self.assertTrue(eventually(lambda: waiting.connections == 1))
        shown = self.sandbox.sockfuse("status", "-p", self.sandbox.policy_path).stdout
        self.assertRegex(shown, rf"{re.escape(self.server.destination)}.*open")
        self.assertIn(waiting.destination, shown)
        self.assertIn(str(process.pid), shown)
        self.assertNotIn("\x1b", shown, "no colours but on a terminal")

    def test_to_look_changes_nothing(self):
        self.start(reset_after_request, failure_threshold=1, reset_timeout="10s")
        self.curl()
        self.sandbox.clock.advance_seconds(10)
        before = self.sandbox.status()
        for _ in range(3):
            self.assertEqual(self.sandbox.status(), before)
        self.assertTrue(self.sandbox.circuit(self.server)["probe_due"])


class Events(Commands):
    def check(self, events):
        kinds = [event["event"] for event in events]
        self.assertEqual([kind for kind in kinds if kind in ("open", "half-open", "close")],
                         ["open", "half-open", "open", "half-open", "close"], kinds)
        for event in events:
            self.assertRegex(event["time"], RFC3339)
            self.assertEqual(event["destination"], self.server.destination)
            self.assertEqual(event["program"], "curl")
            self.assertGreater(event["pid"], 1)
            self.assertGreater(event["mono_ns"], 0)
            if event["event"] in ("open", "half-open", "close"):
                self.assertLessEqual({"from", "to", "reason"}, set(event))
        steps = [(event["from"], event["to"]) for event in events if event["event"] in ("open", "half-open", "close")]
        self.assertEqual(steps, [("closed", "open"), ("open", "half-open"), ("half-open", "open"),
                                 ("open", "half-open"), ("half-open", "closed")])

    def test_the_journal_tells_a_whole_life_once(self):
        self.a_whole_life()
        events = self.sandbox.events()
        self.check(events)
        self.assertEqual(sum(event["event"] == "failure" for event in events), 3)
        self.assertEqual(sorted(events, key=lambda event: event["mono_ns"]), events)

    def test_the_log_has_each_transition_as_a_line_of_json(self):
        log = os.path.join(Sandbox(self).folder, "log")
        self.a_whole_life({"SOCKFUSE_LOG": log})
        with open(log, encoding="utf-8") as file:
            self.check([json.loads(line) for line in file])

    def test_the_log_may_be_stderr(self):
        self.start(reset_after_request, failure_threshold=1)
        result = self.curl(env={"SOCKFUSE_LOG": "stderr"})
        lines = [line for line in result.stderr.splitlines() if line.startswith("{")]
        self.assertEqual([json.loads(line)["event"] for line in lines if '"open"' in line][:1], ["open"], result)

    def test_followed_events_come_as_they_happen(self):
        self.start(reset_after_request, failure_threshold=1)
        self.sandbox.run(["true"])
        follower = self.sandbox.popen([SOCKFUSE, "events", "-f", "--json", "-p",
                                       self.sandbox.policy_path], "command", stdout=subprocess.PIPE)
        self.curl()
        seen = []
        while "open" not in seen:
            seen.append(json.loads(follower.stdout.readline())["event"])
        self.assertIsNone(follower.poll())

    def test_people_read_one_line_an_event(self):
        self.a_whole_life()
        result = self.sandbox.sockfuse("events", "-p", self.sandbox.policy_path)
        self.assertEqual((result.status, result.stderr), (0, ""))
        self.assertEqual(len(result.stdout.splitlines()), len(self.sandbox.events()))


class Check(Commands):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def check(self, text, *words):
        self.sandbox.policy(text)
        return self.sandbox.sockfuse("check", *words, self.sandbox.policy_path)

    def test_a_good_policy_is_0(self):
        result = self.check("[defaults]\nfailure_threshold = 3\n[pay]\nmatch = 127.0.0.1:443 [::1]:443 unix:/run/*.s\n")
        self.assertEqual((result.status, result.stderr), (0, ""))

    def test_each_fault_is_told_with_its_place(self):
        cases = {
            "[a:1]\nfailure_treshold = 3\n": (2, "failure_threshold"),
            "[a:1]\nreset_timeout = 10\n": (2, "unit|10s"),
            "[a:1]\nmode = enforced\n": (2, "enforce"),
            "[a:1]\n\n[a:1]\n": (3, "a:1"),
            "failure_threshold = 3\n": (1, "section|defaults"),
            "[a:1]\nhalf_open_max_calls = -1\n": (2, "half_open_max_calls|-1"),
            "[a:1]\nmatch = 10.0.0.0/33:80\n": (2, "10.0.0.0/33"),
            "[a:99999]\n": (1, "99999"),
        }
        for text, (line, word) in cases.items():
            with self.subTest(text):
                result = self.check(text)
                self.assertEqual(result.status, 1, result)
                self.assertRegex(result.stderr + result.stdout, rf"{self.sandbox.policy_path}:{line}:.*({word})")

    def test_match_says_which_target_takes_a_destination(self):
        result = self.check("[first]\nmatch = 10.0.3.0/24:8000-8099\n[rest]\nmatch = 10.0.0.0/8:*\n", "--match",
                            "10.0.3.7:8080")
        self.assertEqual(result.status, 0, result)
        self.assertIn("first", result.stdout)
        result = self.check("[first]\nmatch = 10.0.3.0/24:8000-8099\n", "--match", "10.0.4.7:8080")
        self.assertNotIn("first", result.stdout.replace(self.sandbox.policy_path, ""))

    def test_a_missing_file_is_1(self):
        result = self.sandbox.sockfuse("check", "/nonexistent/policy")
        self.assertEqual(result.status, 1)
        self.assertRegex(result.stderr, r"\Asockfuse: .*/nonexistent/policy")


if __name__ == "__main__":
    unittest.main()
