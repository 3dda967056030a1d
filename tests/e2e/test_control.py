"""What operators do to live circuits: limits on connections, forced circuits, reloaded policies, modes and scopes."""
import errno
import json
import os
import pwd
import signal
import socket
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PRELOAD, PYTHON, RUN, SOCKFUSE, ParallelSuite, Sandbox, Server, Session,  # noqa: E402
                      answer_http, answer_status, eventually, flapping, in_parallel, reset_after_request)

load_tests = ParallelSuite.load(4)
ME = pwd.getpwuid(os.getuid()).pw_name


class Control(unittest.TestCase):
    def start(self, *servers, clock=True):
        self.sandbox = Sandbox(self, clock=clock)
        self.server = servers[0] if servers else None
        for server in servers:
            self.addCleanup(server.stop)

    def guard(self, *servers, **keys):
        self.sandbox.guard(*servers, **{"failure_rate": "0%", **keys})

    def client(self, how=RUN, options=(), env=None):
        argv = [PYTHON, CLIENTS / "sockets.py"]
        if options:
            argv = [SOCKFUSE, "run", "-p", self.sandbox.policy_path, *options, "--", *argv]
            how = "command"
        client = Session(self.sandbox, argv, how=how, env=env)
        client.ask(do="drop")  # it has started, so it is attached
        return client

    def call(self, client, server=None, **more):
        return client.ask(do="call", port=(server or self.server).port, **more)

    def circuit(self, server=None):
        return self.sandbox.circuit(server or self.server)

    def does(self, *words, status=0):
        """Runs a command; returns its output."""
        result = self.sandbox.sockfuse(*words)
        self.assertEqual(result.status, status, (words, result.stdout, result.stderr))
        return result.stdout + result.stderr

    def processes(self):
        (policy,) = self.sandbox.status()
        return {process["pid"]: process for process in policy["processes"]}


class Bulkhead(Control):
    def guard(self, *servers, **keys):
        # A connection that is held and never asks for anything looks like a server that should have spoken.
        super().guard(*servers, **{"success": "connect", **keys})

    def hold(self, client):
        return client.ask(do="hold", port=self.server.port)

    def test_one_connection_too_many_over_all_processes_is_refused_at_once(self):
        self.start(Server())
        self.guard(self.server, max_connections=3)
        first, second, third = self.client(), self.client(PRELOAD), self.client()
        self.assertEqual([self.hold(first), self.hold(second), self.hold(second)], ["connected"] * 3)
        for blocking in True, False:
            self.assertEqual(self.call(third, blocking=blocking), "ECONNREFUSED")
        self.assertEqual(self.server.connections, 3)
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["connections"], circuit["max_connections"]), ("closed", 3, 3))
        self.assertEqual(circuit["refused_by"], {"open": 0, "half-open": 0, "bulkhead": 2, "forced": 0, "fleet": 0})
        self.assertEqual(circuit["counters"]["refused"], 2)
        self.assertIn("3/3", self.does("status"))
        (event,) = [event for event in self.sandbox.events() if event["event"] == "refused"]
        self.assertEqual((event["reason"], event["pid"]), ("bulkhead", third.pid))

        self.assertEqual(second.ask(do="ask"), ["answered"] * 2, "what is within goes on")
        self.assertEqual(first.ask(do="drop"), "closed")
        self.assertEqual(self.call(third), "answered")
        self.assertEqual(self.call(third), "answered", "it gave its own place back")
        self.assertEqual(self.circuit()["connections"], 2)

    def test_after_kill_9_the_places_come_back(self):
        self.start(Server())
        self.guard(self.server, max_connections=4)
        holder, other = self.client(), self.client()
        self.assertEqual([self.hold(holder) for _ in range(3)] + [self.hold(other)], ["connected"] * 4)
        self.assertEqual(self.call(other), "ECONNREFUSED")
        os.kill(holder.pid, signal.SIGKILL)
        # A zombie until somebody waits for it; and the places were counted anew a moment ago.
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        self.assertTrue(eventually(lambda: self.call(other) == "answered"))
        self.assertEqual([self.hold(other) for _ in range(4)], ["connected"] * 3 + ["ECONNREFUSED"])
        self.assertEqual(self.circuit()["connections"], 4)

    def test_an_end_by_exit_gives_the_places_back(self):
        self.start(Server())
        self.guard(self.server, max_connections=1)
        for _ in range(3):
            client = self.client()
            self.assertEqual(self.hold(client), "connected")
            self.assertEqual(client.close(), 0)
        self.assertEqual(self.circuit()["refused_by"]["bulkhead"], 0)

    def test_twenty_processes_share_ten_places(self):
        self.start(Server(), clock=False)
        self.guard(self.server, max_connections=10)
        clients = [self.client(PRELOAD) for _ in range(20)]
        results = in_parallel([lambda client=client: self.hold(client) for client in clients])
        self.assertEqual((results.count("connected"), results.count("ECONNREFUSED")), (10, 10))
        self.assertEqual(self.server.connections, 10)
        in_parallel([client.close for client in clients])
        self.assertEqual(self.hold(self.client()), "connected")

    def test_the_bulkhead_is_asked_before_a_probe_leaves(self):
        self.start(Server(flapping(answer_http, reset_after_request, answer_http)))
        rules = {"failure_threshold": 1, "reset_timeout": "10s", "success": "answer"}
        self.guard(self.server, max_connections=2, **rules)
        holder, client = self.client(), self.client()
        self.assertEqual(self.hold(holder), "connected")
        self.assertEqual(self.call(client), "ECONNRESET")
        self.assertEqual(self.circuit()["state"], "open")
        self.guard(self.server, max_connections=1, **rules)
        self.does("reload")
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.call(client), "ECONNREFUSED")
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["probe_due"]), ("open", True), "nobody took the probe's lease")
        self.assertEqual(circuit["refused_by"]["bulkhead"], 1)
        holder.ask(do="drop")
        self.assertEqual(self.call(client), "answered")
        self.assertEqual(self.circuit()["state"], "closed")


class Forced(Control):
    def test_open_refuses_in_running_processes_at_once_and_auto_gives_back(self):
        self.start(Server())
        self.guard(self.server)
        clients = [self.client(), self.client(PRELOAD)]
        for client in clients:
            self.assertEqual(self.call(client), "answered")
        out = self.does("open", self.server.destination)
        self.assertEqual(out, f"{self.server.destination}: forced open, was closed; reached 2 programs\n")
        for client in clients:
            for blocking in True, False:
                self.assertEqual(self.call(client, blocking=blocking), "ECONNREFUSED")
        self.assertEqual(self.server.connections, 2)
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["forced"], circuit["retry_in_ms"]), ("open", "open", None))
        self.assertEqual(circuit["refused_by"], {"open": 0, "half-open": 0, "bulkhead": 0, "forced": 4, "fleet": 0})
        self.assertEqual(circuit["counters"]["refused"], 4)
        self.assertIn("open (forced)", self.does("status"))
        self.sandbox.clock.advance_seconds(3600)
        self.assertEqual(self.call(clients[0]), "ECONNREFUSED", "no pause ends it")
        self.assertEqual(self.does("auto", self.server.destination),
                         f"{self.server.destination}: given back, now closed, was forced open; reached 2 programs\n")
        for client in clients:
            self.assertEqual(self.call(client), "answered")
        self.assertIsNone(self.circuit()["forced"])

    def test_close_ends_an_open_circuit_and_keeps_it_closed(self):
        self.start(Server(reset_after_request))
        self.guard(self.server, failure_threshold=2)
        client = self.client()
        self.assertEqual([self.call(client) for _ in range(3)], ["ECONNRESET", "ECONNRESET", "ECONNREFUSED"])
        self.assertEqual(self.does("close", self.server.destination),
                         f"{self.server.destination}: forced closed, was open; reached 1 program\n")
        self.assertEqual([self.call(client) for _ in range(5)], ["ECONNRESET"] * 5)
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["forced"]), ("closed", "closed"), circuit)
        self.assertEqual((circuit["counters"]["failed"], circuit["counters"]["opened"]), (7, 1), circuit)
        self.assertIn("closed (forced)", self.does("status"))
        self.server.behaviour = answer_http
        self.assertEqual(self.call(client), "answered")
        self.does("auto", self.server.destination)
        self.server.behaviour = reset_after_request
        self.assertEqual([self.call(client) for _ in range(3)], ["ECONNRESET", "ECONNRESET", "ECONNREFUSED"])

    def test_the_journal_says_who_did_it(self):
        self.start(Server(reset_after_request))
        self.guard(self.server, failure_threshold=1)
        self.assertEqual(self.call(self.client()), "ECONNRESET")
        self.does("close", self.server.destination)
        self.does("auto", self.server.destination)
        close, forced, auto = [event for event in self.sandbox.events() if event["event"] in ("close", "forced")]
        self.assertEqual((close["from"], close["to"], close["reason"], close["program"]),
                         ("open", "closed", "forced", "sockfuse"))
        self.assertEqual((forced["forced"], forced["from"], forced["to"]), ("closed", "open", "closed"))
        self.assertEqual((forced["user"], forced["program"], forced["destination"]),
                         (ME, "sockfuse", self.server.destination))
        self.assertEqual(forced["pid"], close["pid"])
        self.assertEqual((auto["forced"], auto["to"]), (None, "closed"))
        self.assertNotEqual(auto["pid"], forced["pid"])
        self.assertIn(f"forced closed, by {ME}", self.does("events"))

    def test_behind_sudo_the_journal_names_the_caller(self):
        self.start(Server())
        self.guard(self.server)
        result = self.sandbox.sockfuse("open", "-p", self.sandbox.policy_path, self.server.destination,
                                       env={"SUDO_USER": "alice"})
        self.assertEqual(result.status, 1, (result, "nobody runs under it"))
        (event,) = self.sandbox.events()
        self.assertEqual(event["user"], "alice as root" if os.getuid() == 0 else ME)

    def test_before_the_first_call_it_can_be_forced_too(self):
        self.start(Server())
        self.guard(self.server)
        self.assertIn("No policy is in use", self.does("open", self.server.destination, status=1))
        self.assertIn("the first one that starts obeys",
                      self.does("open", "-p", self.sandbox.policy_path, self.server.destination, status=1))
        self.assertEqual(self.call(self.client()), "ECONNREFUSED")
        self.assertEqual(self.server.connections, 0)
        self.does("close", self.server.destination)
        self.assertEqual(self.call(self.client()), "answered")

    def test_a_destination_that_only_a_wide_pattern_takes_can_be_forced(self):
        self.start(Server())
        self.sandbox.policy("[local]\nmatch = 127.0.0.0/8:*\n")
        client = self.client()
        self.assertIn("name a destination", self.does("open", "local", status=1))
        self.assertEqual(self.does("open", self.server.destination),
                         f"{self.server.destination} (local): forced open, was closed; reached 1 program\n")
        self.assertEqual(self.call(client), "ECONNREFUSED")

    def test_every_kind_of_destination_can_be_named(self):
        servers = [Server(), Server(family=socket.AF_INET6), Server(family=socket.AF_UNIX)]
        self.start(*servers)
        self.guard(*servers, f"localhost:{servers[0].port}")
        names = [server.destination for server in servers] + [f"LOCALHOST:{servers[0].port}"]
        client = self.client()
        self.assertEqual(client.ask(do="call", host="localhost", port=servers[0].port), "answered")
        for name in names:
            self.does("open", name)
        self.assertEqual([circuit["forced"] for circuit in self.sandbox.circuits()], ["open"] * 4)
        self.assertEqual(client.ask(do="call", host="localhost", port=servers[0].port), "ECONNREFUSED")
        self.assertEqual(client.ask(do="call", host="::1", port=servers[1].port), "ECONNREFUSED")
        self.assertEqual(client.ask(do="call", host=servers[2].path, port=0), "ECONNREFUSED")
        for name in names:
            self.does("auto", name)
        self.assertEqual(client.ask(do="call", host=servers[2].path, port=0), "answered")

    def test_a_targets_name_stands_for_all_its_circuits(self):
        self.start(Server(), Server(address="127.0.0.2"), Server(address="127.0.0.3"))
        one, two = Server(), Server(address="127.0.0.2")
        for server in one, two:
            self.addCleanup(server.stop)
        self.sandbox.policy(f"[pair]\nmatch = {one.destination} 127.0.0.2:*\n"
                            f"[other]\nmatch = {self.server.destination}\n")
        client = self.client()
        everywhere = [{"port": one.port}, {"host": "127.0.0.2", "port": two.port}, {"port": self.server.port}]
        self.assertEqual([client.ask(do="call", **where) for where in everywhere], ["answered"] * 3)
        self.assertEqual(len(self.does("open", "pair").splitlines()), 2)
        self.assertEqual([client.ask(do="call", **where) for where in everywhere],
                         ["ECONNREFUSED", "ECONNREFUSED", "answered"])
        self.does("auto", "pair")
        self.assertEqual([client.ask(do="call", **where) for where in everywhere], ["answered"] * 3)

    def test_it_acts_on_every_policy_that_has_the_destination_and_p_narrows(self):
        self.start(Server())
        paths = []
        for name in "first", "second":
            self.sandbox.policy_path = os.path.join(self.sandbox.folder, f"{name}.policy")
            self.guard(self.server)
            paths.append(self.sandbox.policy_path)
        clients = []
        for path in paths:
            self.sandbox.policy_path = path
            clients.append(self.client())
        self.assertEqual([self.call(client) for client in clients], ["answered"] * 2)
        self.does("open", "-p", paths[1], self.server.destination)
        self.assertEqual([self.call(client) for client in clients], ["answered", "ECONNREFUSED"])
        self.assertEqual(len(self.does("open", self.server.destination).splitlines()), 2)
        self.assertEqual([self.call(client) for client in clients], ["ECONNREFUSED"] * 2)
        self.does("auto", "-p", paths[0], self.server.destination)
        self.assertEqual([self.call(client) for client in clients], ["answered", "ECONNREFUSED"])

    def test_requests_on_kept_connections_are_refused_too_but_where_they_are_allowed(self):
        for existing, result in ("refuse", "ECONNRESET"), ("allow", "answered"):
            with self.subTest(existing):
                self.start(Server())
                self.guard(self.server, existing=existing)
                client = self.client()
                client.ask(do="hold", port=self.server.port)
                self.assertEqual(client.ask(do="ask"), ["answered"])
                self.does("open", self.server.destination)
                before = self.server.requests
                self.assertEqual(client.ask(do="ask"), [result])
                self.assertEqual(self.server.requests, before + (existing == "allow"))

    def test_what_can_not_be_forced_is_said(self):
        self.start(Server())
        self.sandbox.policy(f"[mine]\nmatch = {self.server.destination}\nscope = process\n"
                            "[plain]\nmatch = 192.0.2.1:80\n[silent]\nmatch = 192.0.2.2:80\nmode = off\n")
        client = self.client()
        self.assertEqual(self.call(client), "answered")
        self.assertIn("scope = process", self.does("open", self.server.destination, status=1))
        self.assertIn("scope = process", self.does("open", "mine", status=1))
        self.assertEqual(self.call(client), "answered")
        self.assertIn("no policy in use has such", self.does("open", "192.0.2.9:80", status=1))
        self.assertIn("no policy in use has such", self.does("close", "nothing", status=1))
        self.assertRegex(self.does("open", "192.0.2.2:80", status=1), rf"not reached: pid {client.pid} .*mode = off")
        self.assertIn("DEST is missing", self.does("open", status=2))
        self.assertIn("was not forced", self.does("auto", "192.0.2.1:80"))
        self.does("open", "192.0.2.1:80")
        self.assertIn("already", self.does("open", "192.0.2.1:80"))

    def test_on_open_gives_each_errno_to_blocking_and_non_blocking_programs(self):
        self.start()
        ports = {name: number for number, name in enumerate(
            ("ECONNREFUSED", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "ECONNRESET", "ECONNABORTED", "EACCES",
             "EPERM"), 1)}
        self.sandbox.policy("\n".join(f"[{name}]\nmatch = 127.0.0.1:{port}\non_open = {name}\n"
                                      for name, port in ports.items()))
        client = self.client()
        for name in ports:
            self.does("open", name)
        for name, port in ports.items():
            for blocking in True, False:
                with self.subTest(name=name, blocking=blocking):
                    self.assertIn(name, errno.errorcode.values())
                    self.assertEqual(client.ask(do="call", port=port, blocking=blocking), name)


class Reload(Control):
    def edit(self, **keys):
        self.guard(self.server, **keys)

    def test_running_processes_take_the_edited_policy_and_circuits_keep_their_state(self):
        self.start(Server(reset_after_request))
        self.guard(self.server, failure_threshold=5, reset_timeout="10s")
        run, preloaded = self.client(), self.client(PRELOAD)
        self.assertEqual([self.call(run), self.call(preloaded), self.call(run)], ["ECONNRESET"] * 3)
        before = self.circuit()
        old = self.processes()
        self.assertEqual({process["current"] for process in old.values()}, {True})

        self.edit(failure_threshold=4, reset_timeout="30s")
        self.assertEqual({process["current"] for process in self.processes().values()}, {False})
        self.assertIn("earlier version", self.does("status"))
        self.assertRegex(self.does("reload"),
                         r"0 of 2 programs run it now\n  2 take it with their next call: pid \d+")
        after = self.circuit()
        self.assertEqual((after["consecutive_failures"], after["counters"]), (3, before["counters"]))
        self.assertEqual(self.call(preloaded), "ECONNRESET")
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["retry_in_ms"]), ("open", 30_000), "the new settings count")
        self.assertEqual(self.call(run), "ECONNREFUSED")
        (policy,) = self.sandbox.status()
        for pid, process in self.processes().items():
            self.assertTrue(process["current"], process)
            self.assertEqual(process["policy_revision"], policy["policy_revision"])
            self.assertNotEqual(process["policy_revision"], old[pid]["policy_revision"])
        # An open circuit stays open, whatever is reloaded.
        self.edit(failure_threshold=100, reset_timeout="1s")
        self.does("reload", "-p", self.sandbox.policy_path)
        self.sandbox.clock.advance_seconds(29)
        self.assertEqual(self.call(run), "ECONNREFUSED")
        self.sandbox.clock.advance_seconds(1)
        self.server.behaviour = answer_http
        self.assertEqual(self.call(run), "answered")

    def test_new_targets_are_guarded_and_former_ones_left_alone(self):
        self.start(Server(reset_after_request), Server(reset_after_request))
        other = Server(reset_after_request)
        self.addCleanup(other.stop)
        self.guard(self.server, failure_threshold=1)
        client = self.client()
        self.assertEqual([self.call(client, other) for _ in range(3)], ["ECONNRESET"] * 3)
        self.guard(other, failure_threshold=1)
        self.does("reload")
        self.assertEqual([self.call(client, other) for _ in range(3)], ["ECONNRESET"] + ["ECONNREFUSED"] * 2)
        self.assertEqual([self.call(client) for _ in range(3)], ["ECONNRESET"] * 3)

    def test_a_connection_goes_on_under_the_policy_it_was_begun_under(self):
        self.start(Server())
        self.guard(self.server, failure_threshold=1)
        client = self.client()
        client.ask(do="hold", port=self.server.port)
        for round_ in range(5):
            self.edit(failure_threshold=2 + round_)
            self.does("reload")
            self.assertEqual(self.call(client), "answered")
            self.assertEqual(client.ask(do="ask"), ["answered"])
        client.ask(do="drop")
        self.assertEqual(self.circuit()["in_flight"], 0)
        self.assertEqual(self.circuit()["counters"]["succeeded"], 10)

    def test_the_next_request_on_a_kept_connection_goes_by_the_edited_policy(self):
        self.start(Server())
        self.guard(self.server, failure_threshold=1)
        client = self.client()
        client.ask(do="hold", port=self.server.port)
        self.assertEqual(client.ask(do="ask"), ["answered"])
        self.edit(mode="open")
        self.does("reload")
        self.assertEqual(client.ask(do="ask"), ["ECONNRESET"], "no new connection was needed to take it")
        self.assertEqual({process["current"] for process in self.processes().values()}, {True})

        client.ask(do="hold", port=self.server.port)
        self.edit(mode="off")
        self.does("reload")
        self.assertIn("mode = off", self.does("open", self.server.destination, status=1))
        client.ask(do="hold", port=self.server.port)
        self.assertEqual(client.ask(do="ask")[-1], "answered")

    def test_a_kept_connection_is_guarded_again_when_its_target_is(self):
        self.start(Server())
        self.guard(self.server)
        client = self.client()
        client.ask(do="hold", port=self.server.port)
        for mode, succeeded in (("enforce", 1), ("off", 1), ("enforce", 2), ("off", 2), ("observe", 3)):
            self.edit(mode=mode)
            self.does("reload")
            self.assertEqual(client.ask(do="ask"), ["answered"])
            self.assertEqual(self.circuit()["counters"]["succeeded"], succeeded, mode)
        self.edit(mode="open")
        self.does("reload")
        self.assertEqual(client.ask(do="ask"), ["ECONNRESET"])

    def test_an_error_leaves_everything_as_it_is(self):
        self.start(Server(reset_after_request))
        self.guard(self.server, failure_threshold=2)
        client = self.client()
        self.assertEqual(self.call(client), "ECONNRESET")
        revision = self.processes()[client.pid]["policy_revision"]
        with open(self.sandbox.policy_path, "a", encoding="utf-8") as file:
            file.write("failure_treshold = 9\nmode = sometimes\n")
        out = self.does("reload", status=1)
        self.assertIn(f"{self.sandbox.policy_path}:7: error: unknown key `failure_treshold`", out)
        self.assertIn(f"{self.sandbox.policy_path}:8: error:", out)
        self.assertIn("nothing is changed", out)
        self.assertEqual(self.call(client), "ECONNRESET")
        self.assertEqual(self.call(client), "ECONNREFUSED")
        process = self.processes()[client.pid]
        self.assertEqual((process["policy_revision"], process["current"]), (revision, None))
        self.assertEqual([event for event in self.sandbox.events() if event["event"] == "reload"], [])
        os.unlink(self.sandbox.policy_path)
        self.assertIn("nothing is changed", self.does("reload", status=1))

    def test_the_journal_says_who_reloaded(self):
        self.start(Server())
        self.guard(self.server)
        self.client()
        self.assertTrue(eventually(lambda: self.sandbox.status()[0]["segment"]))
        self.edit(failure_threshold=7)
        self.does("reload")
        (event,) = [event for event in self.sandbox.events() if event["event"] == "reload"]
        (policy,) = self.sandbox.status()
        self.assertEqual((event["user"], event["program"]), (ME, "sockfuse"))
        self.assertEqual(event["policy_revision"], policy["policy_revision"])

    def test_processes_with_options_take_the_file_beneath_them(self):
        self.start(Server(reset_after_request))
        self.guard(self.server, failure_threshold=2)
        plain = self.client()
        own = self.client(options=("-o", "failure_threshold=3"))
        self.assertEqual([self.call(client) for client in (plain, own)], ["ECONNRESET"] * 2)
        self.edit(failure_threshold=100, on_open="ETIMEDOUT")
        out = self.does("reload")
        self.assertIn(f"{self.sandbox.policy_path} + options: failure_threshold=3: ", out)
        self.assertEqual([self.call(plain) for _ in range(3)], ["ECONNRESET"] * 3)
        self.assertEqual([self.call(own) for _ in range(3)], ["ECONNRESET", "ECONNRESET", "ETIMEDOUT"])
        for policy in self.sandbox.status():
            (process,) = policy["processes"]
            self.assertEqual((process["takes_reload"], process["current"]), (True, True))

    def test_targets_on_the_command_line_stay_behind_the_files(self):
        self.start(Server(reset_after_request), Server(reset_after_request))
        extra = Server(reset_after_request)
        self.addCleanup(extra.stop)
        self.guard(self.server, failure_threshold=50)
        client = self.client(options=("-t", extra.destination))
        self.assertEqual(self.call(client), "ECONNRESET")
        self.edit(failure_threshold=1)
        self.does("reload", "-p", self.sandbox.policy_path)
        for server in self.server, extra:
            self.assertEqual([self.call(client, server) for _ in range(2)], ["ECONNRESET", "ECONNREFUSED"])

    def test_programs_without_a_policy_file_have_nothing_to_take(self):
        self.start(Server())
        argv = [SOCKFUSE, "run", "-t", self.server.destination, "--", PYTHON, CLIENTS / "sockets.py"]
        client = Session(self.sandbox, argv, how="command")
        self.assertEqual(self.call(client), "answered")
        self.assertIn("no policy file is in use", self.does("reload", status=1))
        (policy,) = json.loads(self.sandbox.sockfuse("status", "--json").stdout)
        (process,) = policy["processes"]
        self.assertEqual((process["takes_reload"], process["current"]), (False, True))

    def test_a_forks_child_takes_it_whoever_was_asked_first(self):
        self.start(Server(reset_after_request))
        self.guard(self.server, failure_threshold=50)
        client = self.client()
        self.assertEqual(self.call(client), "ECONNRESET")
        self.edit(failure_threshold=2)
        self.does("reload")
        self.assertEqual(client.ask(do="fork", port=self.server.port), "ECONNRESET")
        self.assertEqual(self.circuit()["state"], "open", "the child knew")
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.assertTrue(self.processes()[client.pid]["current"])
        self.edit(failure_threshold=3)
        self.does("reload")
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.assertEqual(client.ask(do="fork", port=self.server.port), "ECONNREFUSED")

    def test_a_process_that_starts_later_runs_what_the_file_says_then(self):
        self.start(Server())
        self.guard(self.server, failure_threshold=3)
        first = self.client()
        self.assertEqual(self.call(first), "answered")
        self.edit(failure_threshold=4)
        self.does("reload")
        self.edit(failure_threshold=5)
        later = self.client(PRELOAD)
        self.assertEqual([self.call(later) for _ in range(3)], ["answered"] * 3)
        self.assertEqual(self.call(first), "answered")
        processes = self.processes()
        self.assertTrue(processes[later.pid]["current"], "what was handed over before it started is older")
        self.assertFalse(processes[first.pid]["current"])

    def test_scopes_and_names_follow_the_new_policy(self):
        self.start(Server(reset_after_request))
        plain = f"[plain]\nmatch = {self.server.destination}\nfailure_threshold = 100\nfailure_rate = 0\n"
        self.sandbox.policy(plain)
        first, second = self.client(), self.client()
        call = {"do": "call", "host": "localhost", "port": self.server.port}
        self.assertEqual(first.ask(**call), "ECONNRESET")
        # By name, which nobody had to remember before.
        self.sandbox.policy(f"[by name]\nmatch = localhost:{self.server.port}\nfailure_threshold = 2\n" + plain)
        self.does("reload")
        self.assertEqual([first.ask(**call) for _ in range(3)], ["ECONNRESET", "ECONNRESET", "ECONNREFUSED"])
        self.assertEqual(self.circuit(f"localhost:{self.server.port}")["state"], "open")
        # Each for itself: the other process's circuit is its own, and closed.
        self.sandbox.policy(f"[mine]\nmatch = 127.0.0.1:{self.server.port}\nfailure_threshold = 1\nscope = process\n")
        self.does("reload")
        for client in first, second:
            self.assertEqual([client.ask(**call) for _ in range(2)], ["ECONNRESET", "ECONNREFUSED"])
        # And together again.
        self.sandbox.policy(f"[ours]\nmatch = 127.0.0.1:{self.server.port}\nfailure_threshold = 2\n")
        self.does("reload")
        self.assertEqual([first.ask(**call), second.ask(**call)], ["ECONNRESET"] * 2)
        self.assertEqual([first.ask(**call), second.ask(**call)], ["ECONNREFUSED"] * 2)

    def test_a_new_fallbacks_name_is_resolved(self):
        self.start(Server(), Server())
        spare = Server()
        self.addCleanup(spare.stop)
        self.guard(self.server)
        client = self.client()
        self.assertEqual(self.call(client), "answered")
        self.edit(fallback=f"localhost:{spare.port}")
        self.does("reload")
        self.does("open", self.server.destination)
        self.assertEqual(self.call(client), "answered")
        self.assertEqual((self.server.connections, spare.connections), (1, 1))

    def test_threads_that_call_meanwhile_notice_nothing(self):
        self.start(Server(), clock=False)
        self.guard(self.server)
        clients = [self.client(PRELOAD), self.client()]
        for client in clients:
            client.send(do="threads", number=8, count=150, port=self.server.port)
        stop = threading.Event()

        def edit():
            for number in range(200):
                if stop.is_set():
                    return
                self.edit(failure_threshold=2 + number)
                self.does("reload")
        editor = threading.Thread(target=edit)
        editor.start()
        results = [client.receive() for client in clients]
        stop.set()
        editor.join()
        self.assertEqual(results, [{"answered": 1200}] * 2)
        self.does("reload")
        for client in clients:
            self.assertEqual(self.call(client), "answered")
        self.assertEqual({process["current"] for process in self.processes().values()}, {True})
        circuit = self.circuit()
        self.assertEqual((circuit["counters"]["succeeded"], circuit["counters"]["refused"]), (2402, 0))

    def test_a_process_without_a_descriptor_left_takes_it_too(self):
        self.start(Server())
        self.guard(self.server)
        client = self.client()
        self.edit(failure_threshold=9)
        self.does("reload")
        self.assertEqual(client.ask(do="hold", port=self.server.port, starving=True), "connected")
        self.assertTrue(self.processes()[client.pid]["current"])

    def test_what_was_spoiled_on_the_way_is_not_taken(self):
        self.start(Server())
        self.guard(self.server)
        client = self.client()
        self.assertEqual(self.call(client), "answered")
        revision = self.processes()[client.pid]["policy_revision"]
        path = self.sandbox.segment_path()
        end = os.path.getsize(path)  # of the tables: what is handed over lies behind it
        self.edit(failure_threshold=9)
        for spoil in (lambda file, size: file.truncate(end), lambda file, size: file.truncate(size - 65536),
                      lambda file, size: (file.seek(end), file.write(bytes(size - end))),
                      lambda file, size: [(file.seek(at), file.write(b"\x01")) for at in range(end + 200, size, 65536)]):
            self.does("reload")
            size = os.path.getsize(path)
            with open(path, "r+b") as file:
                spoil(file, size)
            self.assertEqual(self.call(client), "answered")
            self.assertEqual(self.processes()[client.pid]["policy_revision"], revision)
        self.does("reload")
        self.assertEqual(self.call(client), "answered")
        self.assertTrue(self.processes()[client.pid]["current"])

    def test_when_nobody_is_reached_that_is_said_and_is_1(self):
        self.start(Server())
        self.guard(self.server)
        self.assertIn("nothing to reload", self.does("reload", status=1))
        self.assertIn("no program runs under it", self.does("reload", "-p", self.sandbox.policy_path, status=1))
        self.assertIn("unexpected word", self.does("reload", "x", status=2))
        self.sandbox.policy("[x\n")
        self.does("reload", "-p", self.sandbox.policy_path, status=1)


class Modes(Control):
    def test_each_target_of_a_policy_has_its_own_mode(self):
        servers = {mode: Server(reset_after_request) for mode in ("enforce", "observe", "off", "open", "closed")}
        self.start(*servers.values())
        self.sandbox.policy("[defaults]\nfailure_threshold = 2\nfailure_rate = 0\n" + "".join(
            f"[{mode}]\nmatch = {server.destination}\nmode = {mode}\n" for mode, server in servers.items()))
        client = self.client()
        reset, refused = "ECONNRESET", "ECONNREFUSED"
        expected = {"enforce": [reset] * 2 + [refused] * 2, "open": [refused] * 4}
        for number, (mode, server) in enumerate(servers.items()):
            blocking = number % 2 == 0
            self.assertEqual([self.call(client, server, blocking=blocking) for _ in range(4)],
                             expected.get(mode, [reset] * 4), mode)
        self.assertEqual([server.connections for server in servers.values()], [2, 4, 4, 0, 4])
        observed = self.circuit(servers["observe"])
        self.assertEqual((observed["state"], observed["counters"]["refused"]), ("open", 2))
        self.assertEqual(self.circuit(servers["open"])["refused_by"]["open"], 4)
        self.assertEqual(self.circuit(servers["closed"])["counters"]["failed"], 4)
        self.assertNotIn(servers["off"].destination,
                         [circuit["destination"] for circuit in self.sandbox.circuits()
                          if circuit["counters"]["admitted"]])

    def test_observe_counts_what_it_let_through_by_what_became_of_it(self):
        script = [reset_after_request, reset_after_request, answer_http, reset_after_request,
                  answer_status("503 Service Unavailable"), answer_status("404 Not Found"), answer_http]
        self.start(Server(flapping(*script)))
        self.guard(self.server, mode="observe", failure_threshold=2, reset_timeout="10s")
        client = self.client()
        results = [self.call(client, blocking=number % 2 == 0) for number in range(len(script))]
        self.assertEqual(results, ["ECONNRESET"] * 2 + ["answered", "ECONNRESET"] + ["answered"] * 3)
        circuit = self.circuit()
        counters = circuit["counters"]
        self.assertEqual((circuit["state"], counters["opened"]), ("open", 1), circuit)
        self.assertEqual((counters["admitted"], counters["refused"]), (7, 5))
        self.assertEqual((counters["succeeded"], counters["failed"], counters["business"], counters["late"]),
                         (2, 4, 1, 0))
        self.assertEqual(self.sandbox.failures(self.server), {"reset": 3, "http-503": 1})
        self.assertEqual(circuit["last_failure"]["kind"], "http-503")
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.call(client), "answered")
        self.assertEqual(self.circuit()["state"], "closed", "it probes and closes as it would")

    def test_with_scope_process_each_process_has_its_own_circuit(self):
        self.start(Server(reset_after_request))
        self.guard(self.server, failure_threshold=2, scope="process", reset_timeout="10s")
        first, second = self.client(), self.client(PRELOAD)
        expected = ["ECONNRESET"] * 2 + ["ECONNREFUSED"]
        self.assertEqual([self.call(first, blocking=False) for _ in range(3)], expected)
        self.assertEqual([self.call(second) for _ in range(3)], expected)
        self.assertEqual(first.ask(do="fork", port=self.server.port), "ECONNREFUSED", "a child starts with a copy")
        self.sandbox.clock.advance_seconds(10)
        self.server.behaviour = answer_http
        self.assertEqual([self.call(first), self.call(first), self.call(second)], ["answered"] * 3)

    def test_a_target_can_have_one_circuit_for_all_or_one_for_each_address(self):
        self.start(Server(reset_after_request), Server(address="127.0.0.2"))
        good = Server(address="127.0.0.2", port=self.server.port)
        self.addCleanup(good.stop)
        everywhere = [{"host": host, "port": self.server.port} for host in ("127.0.0.1", "127.0.0.2")]
        for circuit, circuits, last in (("target", ["both"], "ECONNREFUSED"),
                                        ("address", [self.server.destination, good.destination], "answered"),
                                        ("destination", [self.server.destination, good.destination], "answered")):
            for blocking in True, False:
                with self.subTest(circuit=circuit, blocking=blocking):
                    self.sandbox.policy_path = os.path.join(self.sandbox.folder, f"{circuit}-{blocking}.policy")
                    self.sandbox.policy(f"[both]\nmatch = 127.0.0.0/24:{self.server.port}\ncircuit = {circuit}\n"
                                        "failure_threshold = 1\n")
                    client = self.client()
                    results = [client.ask(do="call", blocking=blocking, **where) for where in everywhere]
                    self.assertEqual(results, ["ECONNRESET", last])
                    self.assertEqual(sorted(found["destination"] for found in self.sandbox.circuits()), circuits)


if __name__ == "__main__":
    unittest.main()
