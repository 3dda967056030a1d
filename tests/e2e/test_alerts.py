"""Alerts: which events start the command, what it is told, how often, and what the journal says of one that fails."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (PRELOAD, PYTHON, ROOT, SOCKFUSE, ParallelSuite, Server, answer_http, asleep,  # noqa: E402
                      eventually, reset, stay_silent)
from test_agent import FAST, Agents  # noqa: E402
from test_everybody import Users  # noqa: E402
from test_fleet import Hosts  # noqa: E402

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


def kept(path):
    """What was kept, one text each."""
    texts = []
    for name in os.listdir(path + ".of"):
        if not name.startswith("."):
            with open(os.path.join(path + ".of", name), encoding="utf-8") as file:
                texts.append(file.read())
    return texts


def recorded(path):
    """[(variables, event)] in the order of events."""
    found = []
    for text in kept(path):
        variables, _, event = text.partition("\n\n")
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

    def sicken(self):
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
        self.start(Server(lambda server, sock, number: sock.recv(65536) and reset(sock)), alert_every="1s")
        self.curl(56)
        variables, event = self.await_told("open")
        (opened,) = [event for event in self.sandbox.events() if event["event"] == "open"]
        more = {"host": socket.gethostname(), "alert": "open", "left_out": 0, "left_out_on": [], "fleet_unasked": None,
                "text": event["text"]}
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
        self.sicken()
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
            self.sicken()
            self.heal()
        self.sandbox.clock.advance_seconds(60)
        for _ in range(2):  # none of the former two lies within a minute
            self.sicken()
            self.heal()
        self.looks()
        self.assertEqual(self.kinds(), [])
        self.sicken()
        _, event = self.await_told("flapping")
        self.assertIn(" flaps, 3 openings in 1m: failure-threshold, 1 failure (refused)", event["text"])
        self.assertEqual(event["event"], "open")

    def test_a_probe_that_fails_and_an_operators_word_are_told_where_they_are_asked_for(self):
        self.start(Server(up=False), alert_on="probe-failed forced", alert_every="1s")
        self.curl(7)
        self.sicken()
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
        process = self.sandbox.popen(["curl", "-sS", self.server.url], PRELOAD)
        self.assertTrue(eventually(lambda: self.server.requests and asleep(process), 60))
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


    def test_health_checks_that_hang_keep_no_alert_from_being_sent(self):
        servers = [Server(up=False) for _ in range(12)]
        for server in servers:
            self.addCleanup(server.stop)
        self.command = recorder(self.sandbox.folder)
        hang = recorder(self.sandbox.folder, '#!/bin/sh\n: > "$0.of/$$"\nexec sleep 1000\n')
        self.sandbox.guard(*servers, failure_threshold=1, alert=self.command, alert_on="open forced", alert_every="1s",
                           health_check=f"command {hang}", health_timeout="1m")
        self.sandbox.popen(["sleep", "100"])
        self.agent(*FAST)
        self.sandbox.run(["curl", "-s", *(server.url for server in servers)])
        self.await_told(*12 * ["open"])
        self.assertTrue(eventually(lambda: len(os.listdir(hang + ".of")) == 12, 60))
        self.sandbox.clock.advance_seconds(1)
        self.sandbox.sockfuse("open", servers[0].destination)
        self.await_told(*12 * ["open"], "forced")


class Failing(Alerts):
    def failure(self, text, mode=0o755, said=None, limit="10m", **result):
        """What the journal says of a command of that text, of which it tells once."""
        self.setUp()
        path = os.path.join(self.sandbox.folder, "bad")
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, mode)
        self.start(Server(up=False), path, alert_timeout=limit, alert_on="open close")
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
        self.failure("#!/bin/sh\nexec sleep 1000\n", limit="300ms", reason="timed-out")
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
        self.sicken()
        self.await_told("close", "open")
        self.heal()
        self.looks()
        self.assertEqual(self.kinds(), ["close", "open"])
        program.kill()


class AsTheirUsers(Users):
    """Root's agent, and what policies of others name."""

    def setUp(self):
        super().setUp()
        self.server = Server(up=False)
        self.addCleanup(self.server.stop)
        self.said = os.path.join(self.sandbox.folder, "agent.said")

    def policy(self, uid, command, name="own.policy", **keys):
        """A policy of that user's, under which a circuit opens."""
        path = os.path.join(self.sandbox.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[db]\nmatch = {self.server.destination}\nfailure_threshold = 1\nalert = {command}\n" +
                       "".join(f"{key} = {value}\n" for key, value in keys.items()))
        os.chown(path, uid, -1)
        return path

    def open(self, uid, path):
        self.as_user(uid, SOCKFUSE, "run", "-p", path, "--", "curl", "-s", self.server.url)

    def agent(self, *words):
        """One of root's; only for some, so that it takes nothing of the tests beside."""
        with open(self.said, "ab") as said:
            return self.sandbox.popen([SOCKFUSE, "agent", *FAST, *words], how="command", stderr=said,
                                      env={"SOCKFUSE_STATE": None, "SECRET": "of the agent's"})

    def says(self):
        with open(self.said, encoding="utf-8") as file:
            return file.read()

    def failures(self, uid):
        events = self.as_user(uid, SOCKFUSE, "events", "--json").stdout.split("\n")
        return [event for event in (json.loads(line) for line in events if line) if event["event"] == "alert"]

    def test_it_runs_as_the_user_whose_policy_names_it_and_with_nothing_of_roots(self):
        uid = self.user()
        command = recorder(self.sandbox.folder, "#!/bin/sh\n{ grep -E '^(Uid|Gid|NoNewPrivs|CapEff):' /proc/self/status "
                           "| tr '\\t' '='; cat /etc/shadow; env; echo; cat; } > $0.of/.$$ 2>/dev/null\n"
                           "mv $0.of/.$$ $0.of/$$\n", uid)
        path = self.policy(uid, command)
        self.open(uid, path)
        agent = self.agent("--user", str(uid))
        self.assertTrue(eventually(lambda: recorded(command), 60))
        agent.terminate()
        self.assertEqual(agent.wait(60), 0)
        ((variables, event),) = recorded(command)
        facts = {name: value for name, value in variables.items() if not name.startswith("SOCKFUSE_ALERT")}
        self.assertEqual(facts.pop("PWD", "/"), "/")
        facts.pop("_", None)
        facts.pop("OLDPWD", None)
        facts.pop("SHLVL", None)
        self.assertEqual(facts, {
            "Uid:": "=".join(4 * [str(uid)]), "Gid:": "=".join(4 * ["65534"]), "NoNewPrivs:": "1", "CapEff:": 16 * "0",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SHELL": "/bin/sh",
            "LANG": "C.UTF-8", "SOCKFUSE": "off", "HOME": "/", "USER": str(uid), "LOGNAME": str(uid)})
        self.assertEqual((event["target"], event["alert"]), ("db", "open"))
        self.assertEqual(self.failures(uid), [])

    def test_a_file_that_others_can_write_or_that_is_not_the_users_is_refused_with_a_word(self):
        uid, other = self.user(), self.user()

        def swap(path):
            os.unlink(path)
            return path

        def another(path):
            os.rename(path, path + ".of-another")
            os.chown(path + ".of-another", other, -1)
            os.symlink(path + ".of-another", path)
        spoils = ((lambda path: os.chmod(path, 0o646), "the policy's file can be written by others"),
                  (another, "the policy's file belongs to another user"),
                  (lambda path: os.mkfifo(swap(path)), "the policy's file is no plain file"),
                  (swap, "the policy's file is not there"),
                  (lambda path: os.symlink("/etc/shadow", swap(path)), "the policy's file can't be opened"),
                  (lambda path: self.policy(uid, "none", os.path.basename(path)),
                   "the policy's file has no `alert` for it"))
        command = recorder(self.sandbox.folder)
        expected = {}
        for number, (spoil, why) in enumerate(spoils):
            path = self.policy(uid, command, f"{number}.policy")
            self.open(uid, path)
            spoil(path)
            expected[path] = ("not-trusted", why)
        self.agent("--user", str(uid))
        self.assertTrue(eventually(lambda: len(self.failures(uid)) == len(expected), 60), self.failures(uid))
        self.assertEqual({event["policy"]: (event["reason"], event["said"]) for event in self.failures(uid)}, expected)
        self.assertEqual(recorded(command), [])

    def test_a_mail_that_would_need_more_rights_is_not_waited_for(self):
        uid = self.user()
        sendmail = recorder(self.sandbox.folder)
        os.chmod(sendmail, 0o2755)
        script = os.path.join(self.sandbox.folder, "alert-mail")  # users may be kept from where the tests lie
        shutil.copy(SCRIPTS / "alert-mail", script)
        path = self.policy(uid, f"{script} -s {sendmail} ops@a.example")
        self.open(uid, path)
        self.agent("-p", path)
        self.assertTrue(eventually(lambda: self.failures(uid), 60), self.says())
        (event,) = self.failures(uid)
        self.assertEqual((event["exit_status"], event["said"]),
                         (1, f"alert-mail: {sendmail} needs more rights than root's agent"[:63]))

    def test_an_alert_of_o_or_of_no_file_is_never_executed(self):
        uid = self.user()
        command = recorder(self.sandbox.folder, uid=uid)
        self.as_user(uid, SOCKFUSE, "run", "-t", self.server.destination, "-o", f"alert={command}", "-o",
                     "failure_threshold=1", "--", "curl", "-s", self.server.url)
        self.agent("--user", str(uid))
        self.assertTrue(eventually(lambda: self.failures(uid), 60), self.says())
        (event,) = self.failures(uid)
        self.assertEqual((event["reason"], event["said"]), ("not-trusted", "a policy without a file can't name one"))
        self.assertEqual(recorded(command), [])

    def test_others_alerts_go_out_while_one_users_events_pour_and_his_commands_hang(self):
        hostile, calm = self.user(), self.user()
        pour = os.path.join(self.sandbox.folder, "pour.policy")
        with open(pour, "w", encoding="utf-8") as file:
            file.write("[defaults]\nfailure_threshold = 1\nreset_timeout = 1ms\nreset_timeout_max = 1ms\njitter = 0%\n"
                       "alert = sleep 1000\nalert_every = 1s\nalert_timeout = 10m\nalert_on = open probe-failed\n"
                       "capacity = 512 circuits\n[127.0.0.1:1-400]\n")
        os.chown(pour, hostile, -1)
        program = ("import socket, itertools\nfor i in itertools.count():\n"
                   "    s = socket.socket()\n    s.connect_ex(('127.0.0.1', 1 + i % 400))\n    s.close()\n")
        crowd = [self.sandbox.popen([SOCKFUSE, "run", "-p", pour, "--", PYTHON, "-c", program], how="command",
                                    env={"SOCKFUSE_STATE": None}, user=hostile, group=hostile, extra_groups=[])
                 for _ in range(2)]
        command = recorder(self.sandbox.folder, uid=calm)
        path = self.policy(calm, command, alert_every="1s")
        self.as_user(calm, SOCKFUSE, "run", "-p", path, "--", "true")
        agent = self.agent("-p", pour, "-p", path)

        def commands():
            return subprocess.run(["pgrep", "-u", str(hostile), "-x", "sleep"], capture_output=True, text=True,
                                  check=False).stdout.split()
        self.assertTrue(eventually(lambda: len(commands()) == 8, 60), commands())
        self.open(calm, path)
        self.assertTrue(eventually(lambda: recorded(command), 60))
        self.assertEqual(len(commands()), 8)
        with open(f"/proc/{agent.pid}/status", encoding="utf-8") as file:
            (resident,) = [int(line.split()[1]) for line in file if line.startswith("VmRSS")]
        self.assertLess(resident, 65536, "KiB")
        for process in crowd:
            process.kill()
        agent.kill()
        for pid in commands():
            os.kill(int(pid), signal.SIGKILL)


class Scripts(Alerts):
    """The installed ones, against what they are for."""

    def opened(self, command, **keys):
        self.start(Server(up=False), command, **keys)
        self.curl(7)

    def test_a_webhook_gets_the_event(self):
        got = []

        def take(server, sock, number):
            del server, number
            request = b""
            while b"\r\n\r\n" not in request:
                request += sock.recv(65536)
            head, _, body = request.partition(b"\r\n\r\n")
            length = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")).split()[1])
            while len(body) < length:
                body += sock.recv(65536)
            got.append((head.decode(), json.loads(body)))
            sock.sendall(b"HTTP/1.1 204 Well\r\nConnection: close\r\n\r\n")
        hook = Server(take)
        self.addCleanup(hook.stop)
        self.opened(f"{SCRIPTS}/alert-webhook {hook.url}hook -H X-Of:us")
        self.assertTrue(eventually(lambda: got, 60), self.failures())
        ((head, event),) = got
        self.assertTrue(head.startswith("POST /hook HTTP/1.1\r\n"), head)
        self.assertIn("\r\nContent-Type: application/json\r\n", head)
        self.assertIn("\r\nX-Of: us" if "X-Of: us" in head else "\r\nX-Of:us", head)
        self.assertEqual((event["event"], event["alert"], event["destination"]),
                         ("open", "open", self.server.destination))
        self.assertIn(" is open: failure-threshold", event["text"])
        self.assertEqual(self.ends(self.daemon), 0)
        self.assertEqual(self.failures(), [])

    def test_a_webhook_that_is_not_there_or_says_no_is_a_failure(self):
        hook = Server(lambda server, sock, number: sock.recv(65536) and
                      sock.sendall(b"HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n"))
        self.addCleanup(hook.stop)
        self.opened(f"{SCRIPTS}/alert-webhook {hook.url}")
        self.assertTrue(eventually(self.failures, 60))
        (event,) = self.failures()
        self.assertEqual((event["reason"], event["exit_status"]), ("exit-status", 22))
        self.assertIn("500", event["said"])

    def test_a_mail_goes_to_sendmail(self):
        sendmail = recorder(self.sandbox.folder, '#!/bin/sh\n{ echo "$*"; cat; } > "$0.of/.$$" && '
                                                 'mv "$0.of/.$$" "$0.of/$$"\n')
        self.opened(f"{SCRIPTS}/alert-mail -s {sendmail} -f root@a.example ops@a.example on-call@a.example")
        self.assertTrue(eventually(lambda: kept(sendmail), 60), self.failures())
        words, _, mail = kept(sendmail)[0].partition("\n")
        self.assertEqual(words, "-i -- ops@a.example on-call@a.example")
        head, _, body = mail.partition("\n\n")
        headers = dict(line.split(": ", 1) for line in head.split("\n"))
        self.assertEqual((headers["From"], headers["To"]), ("root@a.example", "ops@a.example, on-call@a.example"))
        self.assertIn(f": {self.server.destination} is open: failure-threshold", headers["Subject"])
        self.assertEqual(json.loads(body.strip().split("\n")[-1])["alert"], "open")
        self.assertEqual(self.ends(self.daemon), 0)
        self.assertEqual(self.failures(), [])

    def test_a_mail_goes_to_a_server(self):
        said = []

        def take(server, sock, number):
            del server, number
            file = sock.makefile("rwb")

            def answer(line):
                file.write(line + b"\r\n")
                file.flush()
            answer(b"220 mail")
            for line in file:
                said.append(line.decode().rstrip("\r\n"))
                if said[-1] == "DATA":
                    answer(b"354 go on")
                    for part in file:
                        said.append(part.decode().rstrip("\r\n"))
                        if said[-1] == ".":
                            break
                answer(b"221 bye" if said[-1] == "QUIT" else b"250 good")
                if said[-1] == "QUIT":
                    return
        mail = Server(take)
        self.addCleanup(mail.stop)
        self.opened(f"{SCRIPTS}/alert-mail -u smtp://{mail.destination} -f a@a.example b@a.example c@a.example")
        self.assertTrue(eventually(lambda: "QUIT" in said, 60), (said, self.failures()))
        self.assertEqual([line.split(" SIZE")[0] for line in said if line.startswith(("MAIL", "RCPT"))],
                         ["MAIL FROM:<a@a.example>", "RCPT TO:<b@a.example>", "RCPT TO:<c@a.example>"])
        self.assertTrue(any(line.startswith("Subject: sockfuse on ") for line in said), said)

    def test_a_line_goes_to_the_systems_log(self):
        path = os.path.join(self.sandbox.folder, "log")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.bind(path)
            log.settimeout(60)
            self.opened(f"{SCRIPTS}/alert-log -u {path} --socket-errors=on", alert_every="1s")
            line = log.recv(4096).decode()
            self.assertTrue(line.startswith("<28>"), line)  # daemon.warning
            self.assertIn(f" sockfuse: {self.server.destination} is open: failure-threshold", line)
            self.heal()
            line = log.recv(4096).decode()
            self.assertTrue(line.startswith("<29>"), line)  # daemon.notice
            self.assertIn(" is closed again: ", line)


class OfFleet(Hosts):
    def keys(self):
        self.command = recorder(self.folder)
        return f"alert = {self.command}\nalert_on = open close probe-failed\nalert_every = 1s\n"

    def told(self):
        return [event["alert"] for _, event in recorded(self.command)]

    def test_what_many_hosts_see_is_told_by_one(self):
        hosts = self.hosts[:4]
        self.service.down()
        self.fail_on(*hosts)
        self.assertTrue(eventually(lambda: all(host.is_held() for host in hosts), 60), [host.says() for host in hosts])
        self.assertTrue(eventually(lambda: self.told() == ["open"], 60), self.told())
        self.service.up()

        def all_are_closed():
            for host in hosts:
                host.call()
            return all(host.status()["state"] == "closed" and not host.is_held() for host in hosts)
        self.assertTrue(eventually(all_are_closed, 60), [host.status() for host in hosts])
        self.assertTrue(eventually(lambda: "close" in self.told(), 60), self.told())
        for host in self.hosts:  # what still waits is told by those that end
            host.agent.terminate()
        for host in self.hosts:
            self.assertEqual(host.agent.wait(60), 0, host.says())
        self.assertEqual(self.told(), ["open", "close"])
        self.assertEqual([event["fleet_unasked"] for _, event in recorded(self.command)], [None, None])


if __name__ == "__main__":
    unittest.main()
