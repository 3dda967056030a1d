"""`sockfuse replay`: recorded outcomes through the circuit's own code under other policies."""
import json
import os
import re
import resource
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import PYTHON, SOCKFUSE, ParallelSuite, Sandbox, Server  # noqa: E402

load_tests = ParallelSuite.load(4)

CALL = """import socket, sys
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        connection.recv(1)
except OSError:
    pass
"""


def outcome(at_ms, verdict="failure", elapsed_ms=100, **members):
    """The line of one call's end, so many milliseconds after the start."""
    event = {"time": f"2026-02-02T02:40:{at_ms // 1000 % 60:02d}.{at_ms % 1000:03d}Z",
             "mono_ns": 10**12 + at_ms * 10**6, "pid": 7, "program": "worker", "target": "shop",
             "destination": "10.0.0.1:80", "event": "outcome", "verdict": verdict,
             "kind": "reset" if verdict == "failure" else None, "reason": None, "errno": None, "http_status": None,
             "elapsed_ms": elapsed_ms, "slow": False, "overdue": False, "came": False, "late": False, **members}
    return json.dumps(event)


class Recorded(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def path(self, name):
        return os.path.join(self.sandbox.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def policy(self, name, **keys):
        return self.write(name, "[shop]\nmatch = 10.0.0.0/8:80\n" + "".join(
            f"{key} = {value}\n" for key, value in {"failure_rate": 0, **keys}.items()))

    def replay(self, lines, *policies, status=0):
        events = self.write("events", "".join(line + "\n" for line in lines))
        words = [word for policy in policies for word in ("-p", policy)]
        result = self.sandbox.sockfuse("replay", "--json", *words, events)
        self.assertEqual(result.status, status, result)
        return json.loads(result.stdout)

    def test_policies_stand_side_by_side(self):
        lines = [outcome(1000 * i) for i in range(1, 6)] + [outcome(1000 * i, "success") for i in range(6, 9)]
        found = self.replay(lines, self.policy("a", failure_threshold=2), self.policy("b", failure_threshold=4),
                            self.policy("c", failure_threshold=9))
        (circuit,) = found["circuits"]
        self.assertEqual((circuit["calls"], circuit["failed"], circuit["target"]), (8, 5, "shop"))
        self.assertEqual([(at["openings"], at["detect_ms"], at["leaked"], at["refused"], at["refused_wrongly"],
                           at["false_openings"]) for at in circuit["replayed"]],
                         [(1, 1100, 1, 6, 3, 0), (1, 3100, 3, 4, 3, 1), (0, None, 4, 0, 0, 0)])
        self.assertEqual([at["openings"] for at in found["total"]], [1, 1, 0])
        text = self.sandbox.sockfuse("replay", "-p", self.path("a"), "-p", self.path("b"), self.path("events")).stdout
        self.assertRegex(text, r"\n +RECORDED +a +b\n  openings +0 +1 +1\n  time to detect +- +1\.1s +3\.1s\n")
        self.assertRegex(text, r"\n  false openings +- +0 +1\n")
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)

    def test_an_answers_retry_after_is_replayed_and_max_connections_is_said_not_to_be(self):
        lines = [outcome(1000 * i, retry_after_ms=30000 if i == 3 else 0) for i in range(1, 4)]
        lines += [outcome(1000 * i, "success") for i in range(4, 60)]
        found = self.replay(lines, self.policy("a", failure_threshold=3, reset_timeout="5s", jitter="0%"),
                            self.policy("b", failure_threshold=3, reset_timeout="5s", jitter="0%", retry_after="no",
                                        max_connections=9))
        self.assertEqual([at["refused"] for at in found["circuits"][0]["replayed"]], [30, 5])
        self.assertRegex(" ".join(found["notes"]), r"/b has max_connections for 1 of the 1 circuits: it is not replayed")

    def test_a_failure_that_has_an_outcome_too_is_one_call(self):
        lines = []
        for i in range(1, 4):
            lines += [outcome(1000 * i), outcome(1000 * i, event="failure")]
        (circuit,) = self.replay(lines, self.policy("a", failure_threshold=3))["circuits"]
        self.assertEqual((circuit["calls"], circuit["failures_alone"], circuit["replayed"][0]["openings"]), (3, False, 1))

    def test_failures_alone_say_so_and_judge_no_rate(self):
        lines = [outcome(1000 * i, event="failure") for i in range(1, 30)]
        found = self.replay(lines, self.policy("a", failure_threshold=0, failure_rate="10%", minimum_calls=1))
        self.assertEqual(found["circuits"][0]["replayed"][0]["openings"], 0)
        self.assertIn("no outcome but failures was recorded", " ".join(found["notes"]))

    def test_what_is_no_event_is_told_by_its_line(self):
        lines = [outcome(1000), "nonsense", "", outcome(2000), "{}"]
        policy = self.policy("a")
        found = self.replay(lines, policy, status=1)
        self.assertEqual((found["bad_lines"], found["circuits"][0]["calls"]), (2, 2))
        result = self.sandbox.sockfuse("replay", "-p", policy, self.path("events"))
        self.assertIn(f"{self.path('events')}:2: no event", result.stderr)
        self.assertIn(f"{self.path('events')}:5: no event", result.stderr)

    def test_a_last_line_that_was_cut_is_left_out(self):
        events = self.write("events", outcome(1000) + "\n" + outcome(2000)[:90])
        result = self.sandbox.sockfuse("replay", "--json", "-p", self.policy("a"), events)
        self.assertEqual((result.status, result.stderr), (0, ""))
        self.assertIn("the last line was cut, and is left out", json.loads(result.stdout)["notes"])

    def test_a_policy_that_the_recording_names_and_that_can_not_be_used_is_told(self):
        broken, gone = self.write("broken", "[shop]\nmatch = 10.0.0.0/8:80\nno_such_key = 1\n"), self.path("gone")
        good = self.policy("good", failure_threshold=1)
        for policy, told in ((broken, f"{broken}:3: error: "), (gone, f"{gone}: No such file or directory")):
            lines = [outcome(1000, policy=policy, owner="root"),
                     outcome(2000, policy=policy, owner="root", destination="10.0.0.2:80")]
            found = self.replay(lines, status=1)
            self.assertEqual([(circuit["calls"], circuit["replayed"]) for circuit in found["circuits"]], [(1, [])] * 2)
            result = self.sandbox.sockfuse("replay", self.path("events"))
            self.assertEqual(result.status, 1)
            self.assertEqual(result.stderr.count(told), 1, result)
            self.assertRegex(result.stdout, r"\n +RECORDED\n  openings +0\n")
            # Beside one that can be used: what is not known of a circuit is no figure.
            found = self.replay([*lines, outcome(3000, policy=good, owner="root", destination="10.0.0.3:80")], status=1)
            self.assertEqual([len(circuit["replayed"]) for circuit in found["circuits"]], [0, 0, 1])
            self.assertEqual([at["openings"] for at in found["total"]], [1])
            self.assertIn("of 2 of the 3 circuits the policy can't be used: what it would have done is not told",
                          found["notes"])
            text = self.sandbox.sockfuse("replay", self.path("events")).stdout
            self.assertEqual(len(re.findall(r"(?m)^  openings +0 +-$", text)), 2, text)

    def test_what_is_no_recording_is_no_cut_one(self):
        policy = self.policy("a")
        for text, told in (("nonsense", ":1: no event"), (outcome(1000)[:90], ":1: no event"),
                           (outcome(1000) + "\nnonsense", ":2: no event")):
            result = self.sandbox.sockfuse("replay", "-p", policy, self.write("events", text))
            self.assertEqual(result.status, 1, (text, result))
            self.assertIn(told, result.stderr)

    def test_a_line_without_an_end_is_not_held(self):
        most = 128 << 20
        for words in (("replay", "-p", self.policy("a")), ("report", "-o", self.path("page.html"))):
            result = self.sandbox.run([SOCKFUSE, *words, "/dev/zero"], "command",
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
            self.assertEqual((result.status, result.stdout), (1, ""), words)
            self.assertIn("/dev/zero:1: no event: the line is longer than any event", result.stderr)
        self.assertFalse(os.path.exists(self.path("page.html")))
        events = self.write("events", outcome(1000, policy="/" + "\x01" * 8000) + "\n")
        self.assertEqual(self.sandbox.sockfuse("replay", "-p", self.policy("a"), events).status, 0)

    def opening(self, at_ms, **members):
        return outcome(at_ms, None, event="open", **{"from": "closed", "to": "open", "pause_ms": 1000, **members})

    def test_an_opening_by_rate_was_to_detect_since_the_first_failure_in_its_window(self):
        rate = {"reason": "failure-rate", "window": {"calls": 20, "failed": 3, "slow": 0}}
        lines = [outcome(1000), outcome(2000), outcome(3000), outcome(3500, "success"), outcome(4000),
                 outcome(4500, "success"), self.opening(4500, **rate)]
        (circuit,) = self.replay(lines, self.policy("a"))["circuits"]
        self.assertEqual((circuit["recorded"]["detect_ms"], circuit["recorded"]["detect_longest_ms"]), (2600, 2600))
        # What lies before the recording, or was slow where failures alone were recorded, is not known.
        (circuit,) = self.replay(lines[4:], self.policy("a"))["circuits"]
        self.assertEqual((circuit["recorded"]["openings"], circuit["recorded"]["detect_ms"]), (1, None))
        text = self.sandbox.sockfuse("replay", "-p", self.path("a"), self.path("events")).stdout
        self.assertRegex(text, r"\n  time to detect +- ")

    def test_refusals_are_known_when_their_pause_has_ended(self):
        policy = self.policy("a")
        opened = [outcome(1000), self.opening(1000, reason="failure-threshold", failures=1, refused=10)]
        half = outcome(3000, None, event="half-open", reason="pause-ended", refused=14, **{"from": "open", "to": "half-open"})
        closed = outcome(4000, None, event="close", reason="probe-succeeded", refused=15,
                         **{"from": "half-open", "to": "closed"})
        for lines, known, least, text in ((opened, None, False, "-"), ([*opened, half], 4, True, ">= 4"),
                                          ([*opened, half, closed], 5, False, "5")):
            (circuit,) = self.replay(lines, policy)["circuits"]
            recorded = circuit["recorded"]
            self.assertEqual((recorded["refused"], recorded["refused_at_least"]), (known, least))
            result = self.sandbox.sockfuse("replay", "-p", policy, self.path("events"))
            self.assertRegex(result.stdout, rf"\n  refused +{text} +\d")

    def test_standard_input_and_what_it_can_not_do(self):
        policy = self.policy("a", failure_threshold=1)
        result = self.sandbox.run([SOCKFUSE, "replay", "--json", "-p", policy, "-"], "command",
                                  stdin=outcome(1000).encode() + b"\n")
        self.assertEqual(json.loads(result.stdout)["total"][0]["openings"], 1)
        for words, status in (([], 2), (["a", "b"], 2), (["-p", policy, "/nowhere"], 1),
                              (["-p", "/nowhere", self.write("events", "")], 1)):
            self.assertEqual(self.sandbox.sockfuse("replay", *words).status, status, words)
        result = self.sandbox.sockfuse("replay", self.write("events", outcome(1000) + "\n"))
        self.assertEqual(result.status, 1)
        self.assertIn("names no policy that can be read here", result.stderr)
        result = self.sandbox.sockfuse("replay", "-p", policy, self.write("empty", ""))
        self.assertEqual((result.status, result.stdout), (0, "No outcome of any call is recorded there.\n"))

    def test_a_clock_that_began_anew_goes_on(self):
        lines = [outcome(1000), outcome(2000)]
        lines += [outcome(30_000 + 1000 * i, mono_ns=5 * 10**9 + i * 10**9) for i in range(3)]
        found = self.replay(lines, self.policy("a", failure_threshold=5))
        (made,) = found["circuits"][0]["replayed"][0]["transitions"]
        self.assertEqual((made["mono_ns"], made["detect_ms"], made["time"]), (7 * 10**9, 31_100, "2026-02-02T02:40:32.000Z"))

    def test_names_drive_no_terminal(self):
        events = self.write("events", outcome(1000, target="a\x1b[2J", destination="10.0.0.1:80\x1b[2J") + "\n")
        result = self.sandbox.sockfuse("replay", "-p", self.policy("a"), events)
        self.assertEqual(result.status, 0)
        self.assertNotIn("\x1b", result.stdout)

    def test_a_large_recording_needs_little_memory(self):
        count, policy, mark = 100_000, self.policy("a"), outcome(0)
        before, after = mark.split(str(10**12))
        with open(self.path("events"), "w", encoding="utf-8") as file:
            file.writelines(f"{before}{10**12 + i * 10**7}{after}\n" for i in range(count))
        most = 128 << 20
        result = self.sandbox.run([SOCKFUSE, "replay", "--json", "-p", policy, self.path("events")], "command",
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
        self.assertEqual(json.loads(result.stdout)["circuits"][0]["calls"], count, result.stderr)


class Live(unittest.TestCase):
    """What was done in a run is what its own policy does in a replay."""

    def record(self, **keys):
        self.sandbox = Sandbox(self, clock=True)
        state = {"good": True}
        server = Server(lambda server, sock, number: (sock.recv(65536), state["good"] and sock.sendall(b"hello")))
        self.addCleanup(server.stop)
        self.sandbox.guard(server, failure_threshold=3, reset_timeout="60s", **keys)
        for verdicts in ("gbbgbbb", "b", "+b", "++b", "++++g", "gbgbbb", "+gb", "bbg"):
            self.sandbox.clock.advance_seconds(60 * verdicts.count("+"))
            for verdict in verdicts.replace("+", ""):
                state["good"] = verdict == "g"
                self.sandbox.clock.advance_seconds(3)
                argv = ["curl", "-s", "--http0.9", server.url] if verdict == "g" else [PYTHON, "-c", CALL, server.port]
                self.sandbox.run(argv)

    def transitions(self):
        return [event for event in self.sandbox.events() if event["event"] in ("open", "half-open", "close")]

    def replay(self, *words):
        events = os.path.join(self.sandbox.folder, "events")
        with open(events, "w", encoding="utf-8") as file:
            file.write(self.sandbox.sockfuse("events", "--json").stdout)
        result = self.sandbox.sockfuse("replay", "--json", *words, events)
        self.assertEqual(result.status, 0, result)
        return json.loads(result.stdout)

    def assert_the_same(self, found):
        (circuit,) = found["circuits"]
        (own,) = circuit["replayed"]
        recorded = self.transitions()
        self.assertGreater(len(recorded), 5)
        self.assertEqual([(made["from"], made["to"], made["reason"], made.get("failures")) for made in own["transitions"]],
                         [(made["from"], made["to"], made["reason"], made.get("failures")) for made in recorded])
        for made, was in zip(own["transitions"], recorded):
            self.assertLess(abs(made["mono_ns"] - was["mono_ns"]), 1_000_000, (made, was))
        for figure in ("openings", "leaked", "probes", "probes_failed"):
            self.assertEqual(own[figure], circuit["recorded"][figure], figure)
        self.assertGreater(circuit["recorded"]["refused"], 0)
        self.assertIn("refused when this was recorded", " ".join(found["notes"]))

    def test_a_recording_of_all_outcomes(self):
        self.record(record="all")
        self.assert_the_same(self.replay())
        self.assert_the_same(self.replay("-p", self.sandbox.policy_path))

    def test_a_recording_of_failures_alone(self):
        self.record()
        found = self.replay()
        self.assert_the_same(found)
        self.assertGreater(found["circuits"][0]["inferred"], 0)

    def test_a_recording_under_observe_misses_nothing(self):
        self.record(record="all", mode="observe")
        other = os.path.join(self.sandbox.folder, "enforced")
        with open(self.sandbox.policy_path, encoding="utf-8") as file, open(other, "w", encoding="utf-8") as copy:
            copy.write(file.read().replace("observe", "enforce"))
        found = self.replay("-p", other, "-p", self.sandbox.policy_path)
        (circuit,) = found["circuits"]
        self.assertEqual(*[[(made["to"], made["mono_ns"]) for made in at["transitions"]] for at in circuit["replayed"]])
        self.assertEqual([made["to"] for made in circuit["replayed"][0]["transitions"]],
                         [made["to"] for made in self.transitions()])
        self.assertGreater(circuit["replayed"][0]["refused"], 0)


if __name__ == "__main__":
    unittest.main()
