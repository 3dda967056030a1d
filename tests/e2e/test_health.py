"""Health checks: made while a circuit is open, by the agent alone; what they may decide, and what not."""
import os
import signal
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (LIBRARY, REFUSED_BY_CURL, RESET_BY_CURL, SOCKFUSE, ParallelSuite, Server, eventually,  # noqa: E402
                      heads, http_answer, reset, stay_silent)
from test_agent import FAST, Agents  # noqa: E402
from test_everybody import Users  # noqa: E402

load_tests = ParallelSuite.load(6)
PAUSE = 10


class Peer:
    """A server that knows the agent from programs: what it answers to either, and how often each has come."""

    def __init__(self):
        self.is_ill, self.says_ill = True, True
        self.programs = self.agents = 0

    def __call__(self, server, sock, number):
        for head in heads(server, sock):
            if b"sockfuse-agent" in head:
                self.agents += 1
                self.head = head
                sock.sendall(http_answer("500 Ill" if self.says_ill else "204 Well", b"", close=True))
                return
            self.programs += 1
            if self.is_ill:
                reset(sock)
                return
            sock.sendall(http_answer(close=True))
            return

    def set(self, is_ill):
        self.is_ill = self.says_ill = is_ill


class Health(Agents):
    def start(self, server, check, agent=True, **keys):
        self.server = server
        self.addCleanup(server.stop)
        self.sandbox.guard(server, failure_threshold=1, reset_timeout=f"{PAUSE}s", health_check=check, **keys)
        # A program that goes on: without any nobody is helped by a check.
        self.sandbox.popen(["sleep", "100"])
        self.daemon = self.agent(*FAST) if agent else None

    def curl(self):
        return self.sandbox.run(["curl", "-sS", self.server.url]).status

    def circuit(self):
        return self.sandbox.circuit(self.server)

    def opened(self, status=RESET_BY_CURL):
        self.assertEqual(self.curl(), status)
        self.assertEqual(self.circuit()["state"], "open")

    def held(self):
        return [event for event in self.sandbox.events() if event["event"] == "held"]

    def await_held(self, held="unprobed"):
        self.assertTrue(eventually(lambda: self.circuit()["held"] == held, 60), (self.circuit(), self.held()))

    def await_probe(self):
        self.assertTrue(eventually(lambda: self.circuit()["probe_due"], 60), (self.circuit(), self.held()))

    def advance(self, count, checks=2):
        """Some seconds go by, in which one more check is made: `count()` says how many there were."""
        before = count()
        self.sandbox.clock.advance_seconds(checks)
        self.assertTrue(eventually(lambda: count() > before, 60), self.held())

    def counting(self, body):
        """A command that counts how often it was started, and then does that."""
        path, log = (os.path.join(self.sandbox.folder, name) for name in ("check", "checks"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho $$ >> {log}\n{body}\n")
        os.chmod(path, 0o755)
        open(log, "w", encoding="utf-8").close()

        def count():
            with open(log, encoding="utf-8") as file:
                return len(file.read().split())
        self.log = log
        return f"command {path}", count


class Checks(Health):
    def test_no_call_is_spent_on_probing_while_it_fails_and_the_next_one_probes_when_it_passes(self):
        peer = Peer()
        self.start(Server(peer), "http:///health?deep=1")
        self.opened()
        self.await_held()
        self.assertIn(b"GET /health?deep=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n", peer.head)
        for _ in range(8):
            self.advance(lambda: peer.agents)
            self.assertEqual(self.curl(), REFUSED_BY_CURL)
        self.assertEqual(peer.programs, 1, "the one that opened it")
        self.assertEqual(self.server.connections, 1 + peer.agents, "and all others are the agent's")
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["held"], circuit["probe_due"], circuit["retry_in_ms"]),
                         ("open", "unprobed", False, None))
        self.assertEqual(circuit["counters"]["admitted"], 1, "checks count nowhere")
        status = self.sandbox.sockfuse("status").stdout
        self.assertIn("open, check fails", status)
        explained = " ".join(self.sandbox.sockfuse("explain", self.server.destination).stdout.split())
        self.assertIn("In the way its health check fails: the agent has kept calls from probing it", explained)
        self.assertEqual(self.sandbox.sockfuse("status", "--check").status, 1)
        peer.set(is_ill=False)
        self.advance(lambda: peer.agents)
        self.assertEqual(self.curl(), REFUSED_BY_CURL, "once is not enough")
        self.advance(lambda: peer.agents)
        self.await_probe()
        self.assertEqual(self.curl(), 0)
        self.assertEqual(self.circuit()["state"], "closed")
        begun, ended = self.held()
        self.assertEqual((begun["held"], begun["reason"], begun["http_status"], begun["program"]),
                         ("unprobed", "check-failed", 500, "sockfuse-agent"))
        self.assertEqual((ended["held"], ended["reason"]), (None, "check-passed"))
        made = peer.agents
        self.sandbox.clock.advance_seconds(60)
        self.use("-t", "127.0.0.1:1")  # a look or more goes by
        self.assertEqual(self.curl(), 0)
        self.assertEqual(peer.agents, made, "and none while it is closed")

    def test_what_a_check_says_is_heard_at_once_and_lets_nothing_else_be_looked_at(self):
        """Looks, which ask the folder for its time, are far apart."""
        self.start(Server(Peer()), "http:///health", agent=False)
        self.opened()
        path = os.path.join(self.sandbox.folder, "trace")
        self.agent("-o", "look_every=10s", before=("strace", "-o", path))
        self.await_held()
        with open(path, encoding="utf-8") as file:
            _, _, after = file.read().partition("WIFEXITED")
        self.assertEqual(("epoll_wait" in after, "statx" in after), (True, False))

    def test_a_pause_is_over_as_soon_as_it_passes(self):
        for family, check in ((socket.AF_INET, "connect"), (socket.AF_UNIX, "connect")):
            with self.subTest(family):
                self.setUp()
                server = Server(family=family, up=False)
                self.start(server, check, health_interval="1s")
                call = ["curl", "-sS", self.server.url] if family == socket.AF_INET else \
                    ["curl", "-sS", "--unix-socket", server.path, "http://a/"]
                self.assertEqual(self.sandbox.run(call).status, 7)
                self.await_held()
                self.assertEqual(self.held()[0]["errno"], "ECONNREFUSED")
                server.up()
                self.advance(lambda: server.connections, 1)
                self.advance(lambda: server.connections, 1)
                self.await_probe()
                self.assertEqual(self.sandbox.run(call).status, 0)
                self.assertEqual(self.circuit()["state"], "closed")
                self.assertEqual(server.connections, 3, "two of the agent's, and the probe")
                self.ends(self.daemon)

    def test_its_own_connections_are_not_guarded_where_the_library_is_preloaded_into_all(self):
        server = Server(up=False)
        self.start(server, "connect", agent=False, health_rise=100)
        self.daemon = self.agent(*FAST, env={"LD_PRELOAD": str(LIBRARY), "SOCKFUSE_POLICY": self.sandbox.policy_path})
        self.opened(7)
        self.await_held()
        server.up()
        for _ in range(3):
            self.advance(lambda: server.connections)
        counters = self.circuit()["counters"]
        self.assertEqual((counters["admitted"], counters["failed"], counters["refused"]), (1, 1, 0), counters)

    def test_a_name_is_resolved_and_one_of_its_addresses_has_to_pass(self):
        server = Server(up=False)
        self.start(server, "connect", agent=False)
        self.sandbox.guard(f"localhost:{server.port}", failure_threshold=1, health_check="connect")
        self.sandbox.popen(["sleep", "100"])
        self.daemon = self.agent(*FAST)
        self.assertEqual(self.sandbox.run(["curl", "-sS", f"http://localhost:{server.port}/"]).status, 7)
        named = f"localhost:{server.port}"
        self.assertTrue(eventually(lambda: self.sandbox.circuit(named)["held"] == "unprobed", 60))
        server.up()
        self.advance(lambda: server.connections)
        self.advance(lambda: server.connections)
        self.assertTrue(eventually(lambda: self.sandbox.circuit(named)["probe_due"], 60))


class WrongChecks(Health):
    def test_one_that_says_ill_for_ever_or_flaps_delays_by_its_patience_and_no_more(self):
        for body in "exit 3", "[ $(($(wc -l < ../checks) % 2)) = 0 ] || exit 3":
            with self.subTest(body):
                self.setUp()
                peer = Peer()
                check, count = self.counting(body.replace("..", self.sandbox.folder))
                self.start(Server(peer), check, health_patience=2)
                self.opened()
                peer.is_ill = False
                self.await_held()
                self.assertEqual(self.held()[0]["exit_status"], 3)
                for _ in range(9):
                    self.advance(count)
                self.assertEqual(self.curl(), REFUSED_BY_CURL)
                self.advance(count)
                self.await_probe()
                self.assertEqual(self.curl(), 0)
                self.assertEqual(self.circuit()["state"], "closed")
                self.assertEqual([event["reason"] for event in self.held()], ["check-failed", "patience-over"])
                self.ends(self.daemon)

    def test_unless_it_is_told_otherwise_it_has_patience_for_five_pauses(self):
        peer = Peer()
        check, count = self.counting("exit 3")
        self.start(Server(peer), check)
        self.opened()
        peer.is_ill = False
        self.await_held()
        for _ in range(5 * PAUSE // 2 - 1):
            self.advance(count)
        self.assertEqual(self.curl(), REFUSED_BY_CURL)
        self.advance(count)
        self.await_probe()
        self.assertEqual(self.curl(), 0)
        self.assertEqual([event["reason"] for event in self.held()], ["check-failed", "patience-over"])

    def test_one_that_says_well_for_ever_does_not_undo_the_back_off(self):
        check, count = self.counting("exit 0")
        self.start(Server(up=False), check)
        before = 0
        self.opened(7)
        for wanted in 2, 4, 8:
            self.assertTrue(eventually(lambda first=before + 1: count() >= first, 60))
            for _ in range(wanted - 1):
                self.assertFalse(self.circuit()["probe_due"])
                self.advance(count)
            self.await_probe()
            self.assertEqual(count() - before, wanted)
            before = count()
            self.assertEqual(self.curl(), 7)
            self.assertEqual(self.circuit()["state"], "open")
        pauses = [event["pause_ms"] for event in self.sandbox.events() if event["event"] == "open"]
        self.assertEqual(pauses, [10000, 20000, 40000, 60000])

    def test_one_that_hangs_is_ended_and_has_failed(self):
        check, count = self.counting("exec sleep 1000")
        self.start(Server(up=False), check, health_timeout="100ms")
        self.opened(7)
        self.await_held()
        self.assertEqual(self.held()[0]["errno"], "ETIMEDOUT")
        with open(self.log, encoding="utf-8") as file:
            pid = int(file.read().split()[0])
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        self.assertEqual(count(), 1)

    def test_a_peer_that_is_silent_or_slow_has_failed(self):
        def drip(server, sock, number):
            del number
            sock.recv(65536)
            while not server.stopping.wait(0.05):
                sock.sendall(b"H")
        for behaviour, error, timeout in ((stay_silent, "ETIMEDOUT", "300ms"), (drip, "EPROTO", "1m")):
            with self.subTest(error):
                self.setUp()
                peer = Server(behaviour)
                self.addCleanup(peer.stop)
                self.start(Server(up=False), f"http://127.0.0.1:{peer.port}/", health_timeout=timeout)
                self.opened(7)
                self.await_held()
                self.assertEqual(self.held()[0]["errno"], error)
                self.ends(self.daemon)

    def test_a_command_that_is_killed_or_can_not_be_executed_has_failed(self):
        for body, status in (("kill -9 $$", 128 + signal.SIGKILL), (None, 127)):
            with self.subTest(status):
                self.setUp()
                check = self.counting(body)[0] if body else "command /nowhere/check"
                self.start(Server(up=False), check)
                self.opened(7)
                self.await_held()
                self.assertEqual(self.held()[0]["exit_status"], status)
                self.ends(self.daemon)


class Ends(Health):
    def hold(self):
        peer = Peer()
        check, _ = self.counting("[ -e hang ] && exec sleep 1000; exit 1")
        self.start(Server(peer), check)
        self.opened()
        self.await_held()
        peer.is_ill = False
        return peer

    def test_an_agent_that_is_killed_holds_nothing_for_longer_than_some_seconds(self):
        self.hold()
        self.assertEqual(self.ends(self.daemon, signal.SIGKILL), -signal.SIGKILL)
        self.sandbox.clock.advance_seconds(PAUSE)
        self.assertEqual(self.circuit()["held"], None)
        self.assertEqual(self.curl(), 0)
        self.assertEqual(self.circuit()["state"], "closed")
        self.assertEqual(self.held()[-1]["reason"], "ran-out")

    def test_one_that_is_frozen_neither_and_it_goes_on_when_it_wakes(self):
        peer = self.hold()
        self.daemon.send_signal(signal.SIGSTOP)
        self.sandbox.clock.advance_seconds(PAUSE)
        self.assertEqual(self.curl(), 0)
        self.assertEqual(self.circuit()["state"], "closed")
        self.daemon.send_signal(signal.SIGCONT)
        peer.is_ill = True
        self.opened()
        self.await_held()

    def test_one_that_ends_in_order_lets_go_at_once(self):
        self.hold()
        self.assertEqual(self.ends(self.daemon), 0)
        self.assertEqual(self.circuit()["held"], None)
        self.assertEqual(self.held()[-1]["reason"], "given-up")

    def test_an_operators_word_goes_before_it(self):
        self.hold()
        self.sandbox.sockfuse("close", "-p", self.sandbox.policy_path, self.server.destination)
        self.assertEqual(self.curl(), 0)

    def test_nothing_is_checked_where_no_program_runs(self):
        peer = Peer()
        self.start(Server(peer), "http:///", agent=False)
        self.opened()
        for process in self.sandbox._started:
            process.kill()
            process.wait(60)
        agent = self.agent(*FAST)
        self.sandbox.clock.advance_seconds(60)
        self.ends(agent)  # it looks once more
        self.assertEqual((peer.agents, self.held()), (0, []))


class AsTheirUser(Users):
    def test_a_check_of_another_users_policy_is_made_as_that_user(self):
        uid = self.user()
        seen = os.path.join(self.sandbox.folder, "seen")
        open(seen, "w", encoding="utf-8").close()
        os.chown(seen, uid, -1)
        script = os.path.join(self.sandbox.folder, "check")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{{ grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapEff):' /proc/self/status; env; "
                       f"ls /proc/self/fd; cat /etc/shadow; }} > {seen} 2>&1\nexit 1\n")
        os.chmod(script, 0o755)
        server = Server(up=False)
        self.addCleanup(server.stop)
        self.sandbox.policy(f"[db]\nmatch = {server.destination}\nfailure_threshold = 1\n"
                            f"health_check = command {script}\n")
        self.serve(uid)
        self.as_user(uid, SOCKFUSE, "run", "-p", self.sandbox.policy_path, "--", "curl", "-sS", server.url)
        agent = self.sandbox.popen([SOCKFUSE, "agent", *FAST, "--user", uid], how="command",
                                   env={"SOCKFUSE_STATE": None, "SECRET": "of the agent's"})

        def circuit():
            return self.of(uid)[0]["circuits"][0]
        self.assertTrue(eventually(lambda: circuit()["held"] == "unprobed", 60), circuit())
        agent.terminate()
        self.assertEqual(agent.wait(60), 0)
        with open(seen, encoding="utf-8") as file:
            said = file.read()
        self.assertIn("\t".join(["Uid:", *4 * [str(uid)]]), said)
        self.assertIn("\t".join(["Gid:", *4 * ["65534"]]), said)
        self.assertRegex(said, r"(?m)^Groups:\s*65534 *$")
        self.assertRegex(said, r"(?m)^NoNewPrivs:\t1$")
        self.assertRegex(said, r"(?m)^CapEff:\t0+$")
        self.assertNotIn("SECRET", said)
        self.assertNotIn("root:", said)
        self.assertIn(f"SOCKFUSE_DESTINATION={server.destination}\n", said)
        self.assertIn("SOCKFUSE_TARGET=db\n", said)
        self.assertIn(f"SOCKFUSE_PORT={server.port}\n", said)
        self.assertIn("SOCKFUSE=off\n", said)


class Trust(Health):
    def refused(self, check, spoil, **result):
        """The circuit opens under a good policy; then its file is no more what it was."""
        self.start(Server(up=False), check, agent=False)
        self.opened(7)
        spoil(self.sandbox.policy_path)
        agent = self.agent(*FAST)
        self.await_held()
        (event,) = self.held()
        self.assertEqual({key: event[key] for key in result}, result)
        self.ends(agent)

    def test_a_command_and_a_url_are_the_files_and_it_has_to_be_to_be_trusted(self):
        def replaced(make):
            def spoil(path):
                os.unlink(path)
                make(path)
            return spoil
        spoils = [replaced(lambda path: None), replaced(os.mkfifo), lambda path: os.chmod(path, 0o646)]
        if os.getuid() == 0:  # a program that has given up root's rights has root's segment, and can't have this
            spoils += [lambda path: os.chown(path, 65534, -1), lambda path: os.chmod(path, 0o664)]
        for spoil in spoils:
            self.setUp()
            check, count = self.counting("exit 0")
            self.refused(check, spoil, exit_status=126)
            self.assertEqual(count(), 0)
        peer = Peer()
        server = Server(peer)
        self.addCleanup(server.stop)
        self.setUp()
        self.refused(f"http://{server.destination}/", spoils[-1], errno="EPERM")
        self.assertEqual(peer.agents, 0)


class Policies(Health):
    def test_check_says_what_can_not_be_checked(self):
        said = {
            "health_check = https://a/": "TLS is not spoken here; `command curl",
            "health_check = http://a:x/": "no URL that can be asked for",
            "health_check = http://a b/": "no URL that can be asked for",
            "health_check = command": "which? Write `command /path/of/a/script`",
            "health_check = conect": "expected `connect`, `http://HOST/PATH`",
            "health_check = connect\ncircuit = target": "there is no destination to connect to",
            "health_check = connect\nmode = observe": "does nothing with `mode = observe`",
            "health_check = connect\nscope = process": "the agent sees no such circuit",
            "health_rise = 3": "`health_rise` does nothing without `health_check`",
            "health_check = connect\nhealth_interval = 20s": "the pause is over first",
        }
        for keys, expected in said.items():
            self.sandbox.policy(f"[db]\nmatch = 127.0.0.1:*\n{keys}\n")
            result = self.sandbox.sockfuse("check", self.sandbox.policy_path)
            self.assertIn(expected, " ".join((result.stdout + result.stderr).split()), keys)
        self.sandbox.policy("[db]\nmatch = 127.0.0.1:*\nhealth_check =  command  a   b\n")
        shown = self.sandbox.sockfuse("check", "-v", self.sandbox.policy_path).stdout
        self.assertIn("command a b", shown)
        self.assertIn("health_patience", shown)


if __name__ == "__main__":
    unittest.main()
