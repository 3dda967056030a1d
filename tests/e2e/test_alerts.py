"""Alerts: which events start the command, what it is told, how often, and what the journal says of one that fails."""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (PRELOAD, PYTHON, ROOT, SOCKFUSE, ParallelSuite, Server, answer_http,
                      eventually, reset,  # noqa: E402
                      stay_silent)
from test_agent import FAST, Agents  # noqa: E402
from test_everybody import Users  # noqa: E402

load_tests = ParallelSuite.load(6)
SCRIPTS = ROOT / "src/alerts"
EVERY = 300

# Keeps what it was told in a file of its own, which is there when it is whole.
RECORD = """#!/bin/sh
{ env; echo; cat; } > "$0.of/.$$" && mv "$0.of/.$$" "$0.of/$$"
"""


def recorder(folder, text=RECORD, uid=-1):
    """An executable file of that text, and the folder where it keeps what it was told."""
    path = os.path.join(folder, f"record{len(os.listdir(folder))}")
    os.mkdir(path + ".of")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)
    os.chown(path + ".of", uid, -1)
    return path


def recorded(path):
    """[(variables, event)] in the order of events."""
    found = []
    for name in os.listdir(path + ".of"):
        if name.startswith("."):
            continue
        with open(os.path.join(path + ".of", name), encoding="utf-8") as file:
            variables, _, event = file.read().partition("\n\n")
        found.append((dict(line.split("=", 1) for line in variables.split("\n")), json.loads(event)))
    return sorted(found, key=lambda one: (one[1]["time"], one[1]["mono_ns"]))


class Alerts(Agents):
    def start(self, server, command=None, agent=True, **keys):
        self.server = server
        self.addCleanup(server.stop)
        self.command = command or recorder(self.sandbox.folder)
        self.sandbox.guard(server, failure_threshold=1, reset_timeout="10s", reset_timeout_max="10s",
                           alert=self.command, **keys)
        self.daemon = self.agent(*FAST) if agent else None

    def curl(self, status=None):
        result = self.sandbox.run(["curl", "-sS", self.server.url])
        if status is not None:
            self.assertEqual(result.status, status, result)

    def fail(self):  # pylint: disable=arguments-differ
        self.server.down()
        self.sandbox.clock.advance_seconds(10)
        self.curl(7)

    def heal(self):
        self.server.up()
        self.sandbox.clock.advance_seconds(10)
        self.curl(0)

    def told(self):
        return recorded(self.command)

    def kinds(self):
        return [event["alert"] for _, event in self.told()]

    def await_told(self, *kinds):
        self.assertTrue(eventually(lambda: self.kinds() == list(kinds), 60),
                        (self.kinds(), self.says(), self.sandbox.events()))
        return self.told()[-1]

    def looks(self):
        """Some looks go by: what is to be done for what has happened is done."""
        path = recorder(self.sandbox.folder)
        policy = os.path.join(self.sandbox.folder, f"{os.path.basename(path)}.policy")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(f"[127.0.0.1:1]\nalert = {path}\nalert_on = forced\n")
        self.use("-p", policy)
        self.sandbox.run([SOCKFUSE, "run", "-p", policy, "--", "curl", "-s", "http://127.0.0.1:1/"], how="command")
        self.sandbox.sockfuse("open", "-p", policy, "127.0.0.1:1")
        self.assertTrue(eventually(lambda: recorded(path), 60), self.says())

    def failures(self):
        return [event for event in self.sandbox.events() if event["event"] == "alert"]


class Telling(Alerts):
    def test_it_is_told_the_event_as_json_and_the_facts_as_variables(self):
        self.start(Server(lambda server, sock, number: reset(sock)), alert_every="1s")
        self.curl(56)
        variables, event = self.await_told("open")
        (opened,) = [event for event in self.sandbox.events() if event["event"] == "open"]
        more = {"host": socket.gethostname(), "alert": "open", "left_out": 0, "left_out_on": [], "text": event["text"]}
        self.assertEqual(event, {**{key: value for key, value in opened.items() if key != "owner"}, **more})
        destination = self.server.destination
        self.assertEqual(event["text"], f"{destination} is open: failure-threshold, 1 failure (reset), pause 10s")
        self.assertEqual({key: value for key, value in variables.items() if key.startswith("SOCKFUSE")}, {
            "SOCKFUSE": "off", "SOCKFUSE_ALERT": "open", "SOCKFUSE_ALERT_TEXT": event["text"],
            "SOCKFUSE_ALERT_TARGET": destination, "SOCKFUSE_ALERT_DESTINATION": destination,
            "SOCKFUSE_ALERT_PROGRAM": "curl", "SOCKFUSE_ALERT_PID": str(opened["pid"]),
            "SOCKFUSE_ALERT_TIME": opened["time"], "SOCKFUSE_ALERT_HOST": socket.gethostname(),
            "SOCKFUSE_ALERT_POLICY": self.sandbox.policy_path, "SOCKFUSE_ALERT_LEFT_OUT": "0",
            "SOCKFUSE_ALERT_LEFT_OUT_ON": "", "SOCKFUSE_ALERT_STATE": "open"})
        self.server.behaviour = answer_http
        self.heal()
        variables, event = self.await_told("open", "close")
        self.assertIn(f"{destination} is closed again: probe-succeeded, outage of", event["text"])
        self.assertEqual(variables["SOCKFUSE_ALERT_STATE"], "closed")
        self.assertEqual(self.ends(self.daemon), 0)
        self.assertEqual(self.failures(), [])

    def test_what_comes_within_alert_every_waits_and_the_last_one_says_how_many_were_left_out(self):
        self.start(Server(up=False), alert_on="open close")
        self.curl(7)
        self.await_told("open")
        self.heal()
        self.fail()
        self.heal()
        self.looks()
        self.assertEqual(self.kinds(), ["open"])
        self.sandbox.clock.advance_seconds(EVERY - 30 - 1)
        self.looks()
        self.assertEqual(self.kinds(), ["open"])
        self.sandbox.clock.advance_seconds(1)
        variables, event = self.await_told("open", "close")
        self.assertEqual((event["left_out"], event["left_out_on"]), (2, ["open", "close"]))
        self.assertEqual((variables["SOCKFUSE_ALERT_LEFT_OUT"], variables["SOCKFUSE_ALERT_LEFT_OUT_ON"]),
                         ("2", "open close"))
        self.assertTrue(event["text"].endswith("; left out before it: 2 (open close)"), event["text"])
        self.sandbox.clock.advance_seconds(2 * EVERY)
        self.looks()
        self.assertEqual(self.kinds(), ["open", "close"], "and nothing is told twice")

    def test_flapping_is_so_many_openings_in_so_long(self):
        self.start(Server(up=False), alert_on="flapping", flapping="3 openings in 1m", alert_every="1s")
        for _ in range(2):
            self.fail()
            self.heal()
        self.sandbox.clock.advance_seconds(60)
        for _ in range(2):  # none of the former two lies within a minute
            self.fail()
            self.heal()
        self.looks()
        self.assertEqual(self.kinds(), [])
        self.fail()
        _, event = self.await_told("flapping")
        self.assertIn(" flaps, 3 openings in 1m: failure-threshold, 1 failure (refused)", event["text"])
        self.assertEqual(event["event"], "open")

    def test_a_probe_that_fails_and_an_operators_word_are_told_where_they_are_asked_for(self):
        self.start(Server(up=False), alert_on="probe-failed forced", alert_every="1s")
        self.curl(7)
        self.fail()
        _, event = self.await_told("probe-failed")
        self.assertIn(" is still open: probe-failed: refused (ECONNREFUSED) after", event["text"])
        self.sandbox.clock.advance_seconds(1)
        for count, word in enumerate(("open", "close", "auto"), 2):
            self.sandbox.sockfuse(word, self.server.destination)
            self.await_told("probe-failed", *(count - 1) * ["forced"])
            self.sandbox.clock.advance_seconds(1)
        variables, event = self.told()[1]
        self.assertIn(": forced open, by ", event["text"])
        self.assertEqual(variables["SOCKFUSE_ALERT_USER"], event["user"])

    def test_a_call_that_hangs_past_its_time_is_told_while_it_hangs(self):
        self.start(Server(stay_silent), alert_on="overdue", response_timeout="5s", failure_rate="0%")
        self.sandbox.popen(["curl", "-sS", self.server.url], PRELOAD)
        self.assertTrue(eventually(lambda: self.server.requests, 60))
        self.sandbox.clock.advance_seconds(6)
        _, event = self.await_told("overdue")
        self.assertIn(" has a call that hangs: response-timeout, still hangs after 6s", event["text"])

    def test_a_command_for_each_circuit_and_for_targets_of_the_command_line_too(self):
        self.start(Server(up=False))
        other = Server(up=False)
        self.addCleanup(other.stop)
        self.sandbox.run([SOCKFUSE, "run", "-p", self.sandbox.policy_path, "-t", other.destination, "--", "curl", "-s",
                          other.url], how="command")
        self.curl(7)
        self.await_told("open", "open")
        self.assertEqual({event["destination"] for _, event in self.told()},
                         {self.server.destination, other.destination})


class Failing(Alerts):
    def failure(self, text, mode=0o755, said=None, **result):
        """What the journal says of a command of that text, of which it tells once."""
        self.setUp()
        path = os.path.join(self.sandbox.folder, "bad")
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, mode)
        self.start(Server(up=False), path, alert_timeout="300ms", alert_on="open close")
        self.curl(7)
        self.assertTrue(eventually(self.failures, 60), self.says())
        self.heal()
        self.looks()
        (event,) = self.failures()
        self.assertEqual({key: event[key] for key in ("alert", *result)}, {"alert": "open", **result})
        if said is not None:
            self.assertEqual(event["said"], said)
        self.sandbox.clock.advance_seconds(EVERY)
        self.assertTrue(eventually(lambda: len(self.failures()) == 2, 60))
        self.assertEqual(self.failures()[1]["alert"], "close")
        shown = self.sandbox.sockfuse("events").stdout
        self.assertIn("of open failed: ", " ".join(shown.split()))
        self.assertEqual(self.ends(self.daemon), 0)

    def test_one_that_ends_with_an_error_says_how_it_begins_to_say(self):
        self.failure("#!/bin/sh\necho; echo 'no route: \x1b[31m' >&2; echo more; exit 3\n", reason="exit-status",
                     exit_status=3, signal=None, errno=None, said="no route: \x1b[31m")

    def test_one_that_is_killed_hangs_or_floods(self):
        self.failure("#!/bin/sh\nkill -9 $$\n", reason="signal", signal=9, exit_status=None)
        self.failure("#!/bin/sh\nexec sleep 1000\n", reason="timed-out")
        self.failure("#!/bin/sh\nexec yes\n", reason="said-too-much")

    def test_one_that_is_not_there_or_no_program(self):
        self.failure(None, reason="not-executed", errno="ENOENT")
        self.failure("#!/bin/sh\n", mode=0o644, reason="not-executed", errno="EACCES")
        self.failure("echo a shell would take this\n", reason="not-executed", errno="ENOEXEC")

    def test_what_one_leaves_behind_ends_with_it(self):
        left = os.path.join(self.sandbox.folder, "left")
        self.start(Server(up=False), recorder(self.sandbox.folder, "#!/bin/sh\n(setsid sleep 1000 & echo $! > "
                                              f"{left}.new; mv {left}.new {left}) &\nwait\n" + RECORD[10:]))
        self.curl(7)
        self.await_told("open")
        with open(left, encoding="utf-8") as file:
            pid = int(file.read())
        self.assertTrue(eventually(lambda: not os.path.exists(f"/proc/{pid}"), 60))
        self.assertEqual(self.failures(), [])

    def test_one_that_reads_nothing_has_not_failed(self):
        ended = recorder(self.sandbox.folder, "#!/bin/sh\n: > $0.of/read-nothing\n")
        self.start(Server(up=False), ended)
        self.curl(7)
        self.assertTrue(eventually(lambda: os.listdir(ended + ".of"), 60))
        self.assertEqual(self.ends(self.daemon), 0)
        self.assertEqual(self.failures(), [])

    def test_it_never_overlaps_itself_for_one_circuit(self):
        hold = os.path.join(self.sandbox.folder, "hold")
        os.mkfifo(hold)
        self.start(Server(up=False), recorder(self.sandbox.folder, RECORD + f"cat {hold}\n"), alert_every="1s")
        self.curl(7)
        self.await_told("open")
        self.heal()
        self.looks()
        self.assertEqual(self.kinds(), ["open"])
        with open(hold, "w", encoding="utf-8"):
            pass
        self.await_told("open", "close")
        with open(hold, "w", encoding="utf-8"):
            pass
        self.assertEqual(self.ends(self.daemon), 0)


class Restarting(Alerts):
    def test_one_that_starts_again_tells_nothing_again_and_what_happened_meanwhile(self):
        self.start(Server(up=False), alert_every="1s")
        self.curl(7)
        self.await_told("open")
        self.assertEqual(self.ends(self.daemon, signal.SIGKILL), -signal.SIGKILL)
        self.heal()
        self.daemon = self.agent(*FAST)
        self.await_told("open", "close")
        for by, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
            self.assertEqual(self.ends(self.daemon, by), status)
            self.daemon = self.agent(*FAST)
        self.looks()
        self.assertEqual(self.kinds(), ["open", "close"])

    def test_what_waits_is_told_when_it_ends(self):
        self.start(Server(up=False))
        self.curl(7)
        self.await_told("open")
        self.heal()
        self.looks()
        self.assertEqual(self.ends(self.daemon), 0)
        self.assertEqual(self.kinds(), ["open", "close"])

    def test_of_two_agents_one_tells(self):
        self.start(Server(up=False), alert_every="1s")
        self.agent(*FAST)
        for _ in range(4):
            self.curl(7)
            self.assertTrue(eventually(lambda: self.kinds()[-1:] == ["open"], 60))
            self.heal()
            self.assertTrue(eventually(lambda: self.kinds()[-1:] == ["close"], 60))
            self.server.down()
            self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.kinds(), 4 * ["open", "close"])

    def test_a_policy_that_is_reloaded_counts_from_then_on(self):
        self.start(Server(up=False), alert_on="close", alert_every="1s")
        program = self.sandbox.popen(["sleep", "100"])
        self.curl(7)
        self.looks()
        self.heal()
        self.await_told("close")
        with open(self.sandbox.policy_path, encoding="utf-8") as file:
            text = file.read()
        self.sandbox.policy(text.replace("alert_on = close", "alert_on = open"))
        self.assertEqual(self.sandbox.sockfuse("reload", "-p", self.sandbox.policy_path).status, 0)
        self.fail()
        self.await_told("close", "open")
        self.heal()
        self.looks()
        self.assertEqual(self.kinds(), ["close", "open"])
        program.kill()


if __name__ == "__main__":
    unittest.main()
