"""Whom commands reach: forces that end by themselves, several destinations, and who has not taken an edited policy."""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import PRELOAD, PYTHON, SOCKFUSE, ParallelSuite, Server, eventually, stay_silent  # noqa: E402
from test_control import Control  # noqa: E402

load_tests = ParallelSuite.load(4)
# Calls again and again, as a service under load does.
BUSY = """import socket, sys, time
while True:
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5) as s:
            s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            s.recv(100)
    except OSError:
        pass
    time.sleep(0.02)
"""


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(") ")[2][0] == "T"


class Ends(Control):
    def forced_events(self):
        return [event for event in self.sandbox.events() if event["event"] == "forced"]

    def test_a_force_for_a_time_ends_by_itself_and_that_is_noted_once(self):
        self.start(Server())
        self.guard(self.server)
        clients = [self.client(), self.client()]
        self.assertEqual(self.does("open", "--for", "10m", self.server.destination),
                         f"{self.server.destination}: forced open for 10m, was closed; reached 2 programs\n")
        self.assertEqual(self.circuit()["forced_ends_in_ms"], 600000)
        self.sandbox.clock.advance_seconds(48)
        self.assertIn("open (forced, 9m12s left)", self.does("status"))
        self.assertEqual([self.call(client) for client in clients], ["ECONNREFUSED"] * 2)
        self.sandbox.clock.advance_seconds(551.999)
        self.assertEqual((self.circuit()["forced"], self.circuit()["forced_ends_in_ms"]), ("open", 1))
        self.assertEqual(self.call(clients[0]), "ECONNREFUSED")
        self.sandbox.clock.advance_seconds(0.001)
        # Nobody has called since, and it is over all the same.
        circuit = self.circuit()
        self.assertEqual((circuit["state"], circuit["forced"], circuit["forced_ends_in_ms"]), ("closed", None, None))
        self.assertEqual(len(self.forced_events()), 1)
        self.sandbox.clock.advance_seconds(60)
        self.assertEqual([self.call(client) for client in clients * 2], ["answered"] * 4)
        given, ended = self.forced_events()
        self.assertEqual((given["forced"], given["for_ms"], given["reason"]), ("open", 600000, "forced"))
        self.assertEqual((ended["forced"], ended["user"], ended["reason"], ended["from"], ended["to"]),
                         (None, None, "force-ended", "open", "closed"))
        self.assertEqual((ended["pid"], ended["ended_ago_ms"]), (clients[0].pid, 60000))
        out = self.does("events")
        self.assertIn("forced open for 10m, by ", out)
        self.assertIn("given back, closed, its time was over 1m ago", out)

    def test_a_request_on_a_kept_connection_is_the_first_call_after_the_end_too(self):
        self.start(Server())
        self.guard(self.server)
        client = self.client()
        client.ask(do="hold", port=self.server.port)
        self.assertEqual(client.ask(do="ask"), ["answered"])
        self.does("close", "--for", "1m", self.server.destination)
        self.sandbox.clock.advance_seconds(60)
        self.assertEqual([client.ask(do="ask") for _ in range(3)], [["answered"]] * 3)
        self.assertEqual([event["reason"] for event in self.forced_events()], ["forced", "force-ended"])

    def test_another_word_before_the_end_takes_its_place(self):
        self.start(Server())
        self.guard(self.server)
        client, where = self.client(), self.server.destination
        self.does("open", "--for", "10m", where)
        self.sandbox.clock.advance_seconds(60)
        self.assertIn("forced open, was forced open for 9m00s more", self.does("open", where))
        self.sandbox.clock.advance_seconds(3600)
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.assertIn("is forced open already; reached 1 program", self.does("open", where))
        self.assertIn("forced closed for 90s, was forced open;", self.does("close", "--for", "1.5m", where))
        self.assertEqual(self.call(client), "answered")
        self.does("open", "--for", "1m", where)
        self.assertIn("given back, now closed, was forced open for 1m00s more", self.does("auto", where))
        self.assertEqual(self.call(client), "answered")
        self.sandbox.clock.advance_seconds(3600)
        self.assertEqual(self.call(client), "answered")
        self.assertNotIn("force-ended", [event["reason"] for event in self.forced_events()])

    def test_what_is_no_time_is_said(self):
        self.start(Server())
        self.guard(self.server)
        self.assertIn("no unit", self.does("open", "--for", "10", "a:1", status=2))
        self.assertIn("too short", self.does("close", "--for", "0s", "a:1", status=2))
        self.assertIn("too long", self.does("open", "--for", "366d", "a:1", status=2))
        self.assertIn("--for is for open and close", self.does("auto", "--for", "1m", "a:1", status=2))


class Reached(Control):
    def test_several_destinations_have_a_line_each_and_one_that_is_named_twice_is_done_once(self):
        servers = [Server(), Server(), Server()]
        self.start(*servers)
        self.sandbox.policy(f"[pair]\nmatch = {servers[0].destination} {servers[1].destination}\n"
                            f"[single]\nmatch = {servers[2].destination}\n")
        client = self.client()
        first, second, third = (server.destination for server in servers)
        out = self.does("open", first, "pair", third, first, third)
        self.assertEqual(sorted(line.split(" ")[0] for line in out.splitlines()), sorted([first, second, third]), out)
        self.assertEqual([self.call(client, server) for server in servers], ["ECONNREFUSED"] * 3)
        self.assertEqual([event["event"] for event in self.sandbox.events()].count("forced"), 3)
        out = self.does("auto", first, "192.0.2.1:1", third, status=1)
        self.assertIn("192.0.2.1:1: no policy in use has such", out)
        self.assertEqual([self.call(client, server) for server in servers], ["answered", "ECONNREFUSED", "answered"])

    def test_who_has_ended_is_not_reached_and_who_is_stopped_is_named(self):
        self.start(Server())
        self.guard(self.server)
        stopped, dead = self.client(), self.client()
        self.assertEqual([self.call(client) for client in (stopped, dead)], ["answered"] * 2)
        dead.process.kill()
        dead.process.wait()
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            self.assertTrue(eventually(lambda: is_stopped(stopped.pid)))  # it has to get a processor for it
            self.assertRegex(self.does("open", self.server.destination),
                             rf"reached 1 program\n  1 is stopped, and obeys when it goes on: pid {stopped.pid} ")
            self.guard(self.server, failure_threshold=9)
            self.assertRegex(self.does("reload"), r"0 of 1 program runs? it now\n  1 is stopped, and takes it with its "
                                                  rf"next call when it goes on: pid {stopped.pid} ")
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        self.assertEqual(self.call(stopped), "ECONNREFUSED")
        self.assertTrue(self.processes()[stopped.pid]["current"])
        stopped.process.kill()
        stopped.process.wait()
        for words in ("auto", self.server.destination), ("reload",), ("close", self.server.destination):
            self.assertIn("no program runs under", self.does(*words, status=1))

    def test_what_the_file_says_since_reaches_nobody_before_a_reload(self):
        self.start(Server())
        self.guard(self.server)
        client, where = self.client(), self.server.destination
        self.assertEqual(self.call(client), "answered")
        self.sandbox.policy(f"[renamed]\nmatch = {where}\n")
        out = self.does("open", "renamed", status=1)
        self.assertIn(f"{where}: not reached: pid {client.pid} (", out)
        self.assertIn("for the policy that it runs has no such target (sockfuse reload brings it the file's)", out)
        self.assertNotIn("; reached", out)
        self.assertEqual(self.call(client), "answered")
        # By the destination the circuit is meant that the program has, whatever the file calls it.
        self.assertIn(f"{where}: forced open, was closed; reached 1 program\n", self.does("open", where))
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.does("auto", where)
        self.assertEqual(self.call(client), "answered")

    def test_a_mode_or_scope_of_the_edited_file_does_not_count_before_a_reload(self):
        self.start(Server())
        self.guard(self.server)
        client, where = self.client(), self.server.destination
        for line in ("mode = off", "scope = process", "circuit = target", "this is no line"):
            self.sandbox.policy(f"[web]\nmatch = {where}\n{line}\n")
            self.assertIn(f"{where}: forced open, was closed; reached 1 program\n", self.does("open", where), line)
            self.assertEqual(self.call(client), "ECONNREFUSED", line)
            self.assertIn("given back, now closed, was forced open; reached 1 program\n", self.does("auto", where))
            self.assertEqual(self.call(client), "answered", line)

    def test_a_destination_that_only_the_running_policy_takes_can_be_forced_before_its_first_call(self):
        self.start(Server())
        self.guard(self.server)
        client = self.client()
        self.sandbox.policy("[other]\nmatch = 127.0.0.1:9\n")
        self.assertIn("reached 1 program\n", self.does("open", self.server.destination))
        self.assertEqual(self.call(client), "ECONNREFUSED")

    def test_what_was_handed_over_counts_for_who_takes_it_with_his_next_call(self):
        self.start(Server())
        self.guard(self.server)
        client, where = self.client(), self.server.destination
        self.sandbox.policy(f"[renamed]\nmatch = {where}\n")
        self.assertIn("1 takes it with its next call", self.does("reload"))
        self.assertIn(f"{where} (renamed): forced open, was closed; reached 1 program\n", self.does("open", "renamed"))
        self.assertEqual(self.call(client), "ECONNREFUSED")

    def test_a_command_that_is_guarded_itself_is_nobody_who_is_reached(self):
        self.start(Server())
        self.guard(self.server)
        under = dict(how=PRELOAD, env={"SOCKFUSE_POLICY": self.sandbox.policy_path})
        where, policy = self.server.destination, self.sandbox.policy_path

        def does(*words):
            result = self.sandbox.run([SOCKFUSE, *words], **under)
            return result.status, result.stdout + result.stderr

        status, out = does("open", "-p", policy, where)
        self.assertEqual(status, 1, out)
        self.assertIn("no program runs under ", out)
        status, out = does("reload", "-p", policy)
        self.assertEqual(status, 1, out)
        self.assertEqual(json.loads(does("status", "--json")[1])[0]["processes"], [])
        does("auto", where)
        status, out = does("forget", "--ended")
        self.assertIn("forgotten", out)

    def test_a_name_whose_addresses_have_a_circuit_each_is_told_so(self):
        self.start()
        self.sandbox.policy("[web]\nmatch = localhost:8\ncircuit = address\n")
        self.client()
        self.assertIn("localhost:8: each of its addresses has a circuit of its own", self.does("open", "localhost:8",
                                                                                              status=1))

    def test_many_that_are_not_reached_for_one_reason_take_one_line(self):
        self.start(Server())
        self.guard(self.server)
        for _ in range(3):
            self.client()
        self.sandbox.policy("[other]\nmatch = 127.0.0.1:9\n")
        lines = self.does("open", "other", status=1).splitlines()
        self.assertEqual(len([line for line in lines if "not reached: " in line]), 1, lines)

    def test_who_takes_an_edited_policy_within_the_second_runs_it_and_the_rest_is_named(self):
        self.start(Server(), clock=False)
        silent = Server(stay_silent)
        self.addCleanup(silent.stop)
        self.guard(self.server, silent)
        busy = self.sandbox.popen([PYTHON, "-c", BUSY, self.server.port])
        idle, waiting = self.client(), self.client()
        self.assertTrue(eventually(lambda: self.server.requests > 0))
        waiting.send(do="call", port=silent.port)
        self.assertTrue(eventually(lambda: self.circuit(silent)["in_flight"] == 1))
        for threshold in range(10, 20):  # on a busy machine a second may be too short for it
            self.guard(self.server, silent, failure_threshold=threshold)
            out = self.does("reload")
            if "1 of 3" in out:
                break
        self.assertIn("1 of 3 programs runs it now\n  2 take it with their next call: pid ", out)
        self.assertIn(f"{idle.pid} (python3)", out)
        self.assertIn(f"{waiting.pid} (python3, in a call)", out)
        self.assertNotIn(str(busy.pid), out)
        self.assertTrue(self.processes()[busy.pid]["current"])


if __name__ == "__main__":
    unittest.main()
