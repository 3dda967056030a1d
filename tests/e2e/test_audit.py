"""`sockfuse audit`: after how long real programs give up, found out on purpose.

What is to give up does so long before the limit, and what is never to waits for one that is short: nothing here depends
on the machine's pace.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (PYTHON, SOCKFUSE, ParallelSuite, Redis, Sandbox, Server, Terminal, answer_http,  # noqa: E402
                      eventually, over_tls, reset_after_request)

load_tests = ParallelSuite.load(6)
SHORT, LONG = "1s", "20s"

CALLER = """import sys, urllib.request
url, seconds, tries = sys.argv[1], float(sys.argv[2]) or None, int(sys.argv[3])
for _ in range(tries):
    try:
        urllib.request.urlopen(url, timeout=seconds).read()
        break
    except OSError as error:
        print(error)
else:
    sys.exit(4)
"""

# A server whose workers call, each with another patience, the last with none.
FORKING = """import os, sys, time, urllib.request
for patience in (0.1, 0.2, None):
    if os.fork() == 0:
        while True:
            try:
                urllib.request.urlopen(sys.argv[1], timeout=patience).read()
            except OSError:
                pass
            time.sleep(0.2)
while True:
    time.sleep(1)
"""


class Audited(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def server(self, behaviour=answer_http, **keywords):
        server = Server(behaviour, **keywords)
        self.addCleanup(server.stop)
        return server

    def audit(self, *words, stdin=b""):
        return self.sandbox.run([SOCKFUSE, "audit", *words], how="command", stdin=stdin, timeout=120)

    def found(self, *words, status=0, **keywords):
        """The rows by fault, and the whole object."""
        result = self.audit("--json", *words, **keywords)
        self.assertEqual(result.status, status, result)
        self.assertEqual(os.listdir(self.sandbox.state), [], "the circuits of its runs are removed")
        whole = json.loads(result.stdout)
        return {row["fault"]: row for row in whole["results"]}, whole

    def python(self, text, *words):
        return [PYTHON, "-c", text, *map(str, words)]


class Programs(Audited):
    def test_curl_by_its_longest_time_meets_each_fault_and_the_server_sees_none_of_them(self):
        server = self.server()
        rows, whole = self.found("--limit", LONG, "--", "curl", "-sS", "-m", "0.5", server.url)
        self.assertEqual({fault: (row["result"], row["exit_status"], row["tries"]) for fault, row in rows.items()},
                         {"hang": ("gave-up", 28, 1), "silence": ("gave-up", 28, 1), "refuse": ("told", 7, 1),
                          "reset": ("told", 56, 1), "http-503": ("told", 0, 1)})
        for fault in ("hang", "silence"):
            self.assertTrue(300 <= rows[fault]["gave_up"]["longest_ms"] < 15000, rows[fault])
        self.assertEqual(whole["without_fault"]["destinations"],
                         [{"destination": server.destination, "calls": 1, "http": True}])
        self.assertEqual((whole["runs_planned"], whole["runs_made"], whole["beyond_limit"]), (5, 5, False))
        self.assertEqual(server.connections, 1)

    def test_what_has_no_timeout_stands_first_and_makes_the_exit_status_1(self):
        server = self.server()
        result = self.audit("--limit", SHORT, "--faults", "hang,silence,http-503", "--", "curl", "-sS",
                            "--connect-timeout", "0.3", server.url)
        self.assertEqual(result.status, 1, result)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], r"\ADESTINATION +FAULT +WHAT CAME OF IT +RAN +EXIT\Z")
        self.assertRegex(lines[1], rf"\A{server.destination} +silence +never \(1\.0s\) +\S+s  -\Z")
        self.assertRegex(lines[2], rf"\A{server.destination} +hang +gave up after \S+s +\S+s  28\Z")
        self.assertRegex(lines[3], rf"\A{server.destination} +http-503 +got 503 +\S+s  0\Z")
        self.assertEqual(lines[4:], ["", "Waited beyond 1.0s: 1 of the 3 that met their fault."])
        self.assertRegex(result.stderr, r"\Asockfuse: 1 destination; 3 runs of at most \S+s follow, \S+s in all\n\Z")

    def test_python_tries_again_three_times(self):
        server = self.server()
        rows, _ = self.found("--limit", LONG, "--", *self.python(CALLER, server.url, 0.3, 4))
        for fault in ("hang", "silence"):
            self.assertEqual((rows[fault]["result"], rows[fault]["gave_up"]["count"], rows[fault]["exit_status"]),
                             ("gave-up", 4, 4), rows[fault])
            self.assertRegex(rows[fault]["text"], r"\Agave up after .*, retried 3 times\Z")
        self.assertEqual(rows["refuse"]["text"], "was refused, retried 3 times")
        self.assertEqual(rows["http-503"]["text"], "got 503, retried 3 times")

    def test_python_as_it_comes_never_gives_up(self):
        server = self.server()
        rows, whole = self.found("--limit", SHORT, "--faults", "silence", "--", *self.python(CALLER, server.url, 0, 4),
                                 status=1)
        self.assertEqual((rows["silence"]["result"], rows["silence"]["stopped"], whole["beyond_limit"]),
                         ("never", True, True))
        self.assertGreaterEqual(rows["silence"]["hung"]["shortest_ms"], 1000)

    def test_who_gives_up_and_begins_again_without_an_end_goes_on(self):
        server = self.server()
        rows, _ = self.found("--limit", SHORT, "--faults", "silence", "--",
                             *self.python(CALLER, server.url, 0.1, 1000000), status=1)
        self.assertEqual(rows["silence"]["result"], "goes-on", rows)
        self.assertRegex(rows["silence"]["text"], r"\Agave up after .*, retried \d+ times; goes on\Z")

    def test_psql_gives_up_by_its_time_to_connect_and_speaks_no_http(self):
        """No database need answer: what it does without a fault is to fail."""
        server = self.server(reset_after_request)
        rows, _ = self.found("--force", "--limit", LONG, "--faults", "silence,http-503", "--", "psql", "-w", "-c", "",
                             f"host=127.0.0.1 port={server.port} user=a dbname=a sslmode=disable connect_timeout=2")
        self.assertEqual((rows["silence"]["result"], rows["silence"]["exit_status"]), ("gave-up", 2))
        self.assertEqual((rows["http-503"]["result"], rows["http-503"]["text"]),
                         ("left-out", "left out: no HTTP was seen"))

    def test_node_by_a_signal_of_abortion(self):
        server = self.server()
        rows, _ = self.found("--limit", LONG, "--faults", "silence", "--", "node", "-e",
                             f"fetch('{server.url}', {{signal: AbortSignal.timeout(900)}}).then(r => r.text())"
                             ".catch(e => process.exit(3))")
        row = rows["silence"]
        self.assertEqual((row["result"], row["gave_up"]["count"], row["exit_status"]), ("gave-up", 1, 3), row)

    def test_redis_cli_has_no_timeout_and_on_a_path_only_a_refusal_can_be_played(self):
        redis = Redis()
        self.addCleanup(redis.stop)
        rows, _ = self.found("--limit", SHORT, "--faults", "silence,refuse", "--", "redis-cli", "-p", redis.port, "get",
                             "a", status=1)
        self.assertEqual((rows["silence"]["result"], rows["refuse"]["result"]), ("never", "told"))
        result = self.audit("--limit", SHORT, "--", "redis-cli", "-s", redis.path, "get", "a")
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.stdout, rf"(?m)^unix:{redis.path} +refuse +was refused, retried once ")
        self.assertIn(f"Not played to unix:{redis.path}: hang, silence, reset, http-503 (it is a UNIX socket)",
                      result.stdout)

    def test_a_forking_server_is_seen_whole_and_ended_whole(self):
        server = self.server()
        rows, whole = self.found("--limit", "2s", "--faults", "silence,refuse", "--", *self.python(FORKING, server.url),
                                 status=1)
        silence = rows["silence"]
        self.assertEqual((whole["endless"], silence["result"], silence["hung"]["count"]), (True, "never", 1), silence)
        self.assertGreaterEqual(silence["gave_up"]["count"], 2, silence)
        self.assertEqual((rows["refuse"]["result"], rows["refuse"]["stopped"]), ("told", True))
        self.assertEqual(subprocess.run(["pgrep", "-f", server.url], check=False, capture_output=True).stdout, b"")

    def test_the_kernels_patience_is_not_the_programs(self):
        server = self.server()
        code = ("import socket, sys\ns = socket.socket()\n"
                "s.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 700)\n"
                "s.connect(('127.0.0.1', int(sys.argv[1])))\n")
        rows, _ = self.found("--limit", LONG, "--faults", "hang", "--", *self.python(code, server.port))
        self.assertEqual((rows["hang"]["result"], rows["hang"]["kernel_gave_up"]["count"]), ("by-kernel", 1), rows)
        self.assertRegex(rows["hang"]["text"], r"\Athe kernel gave up after \S+\Z")

    def test_a_status_can_not_be_played_inside_tls(self):
        server = self.server(over_tls(answer_http), secure=True)
        rows, _ = self.found("--limit", LONG, "--faults", "http-503,reset", "--", "curl", "-sSk", server.url)
        self.assertEqual((rows["reset"]["result"], rows["http-503"]["result"]), ("told", "not-played"), rows)
        self.assertEqual(rows["http-503"]["text"], "was reset instead: it speaks TLS or HTTP/2")


class Destinations(Audited):
    def test_each_destination_is_by_name_and_has_runs_of_its_own(self):
        server, other = self.server(), self.server(address="127.0.0.2")
        text = CALLER + "urllib.request.urlopen(sys.argv[4], timeout=0.2).read()\n"
        words = self.python(text, f"http://localhost:{server.port}/", 0.3, 1, other.url)
        _, whole = self.found("--limit", LONG, "--faults", "silence", "--", *words)
        self.assertEqual({row["destination"]: row["exit_status"] for row in whole["results"]},
                         {f"localhost:{server.port}": 4, other.destination: 1})
        _, whole = self.found("--limit", LONG, "--faults", "refuse", "-t", other.destination, "--", *words)
        self.assertEqual([row["destination"] for row in whole["results"]], [other.destination])
        self.sandbox.guard(server, mode="off", inject="hang")
        _, whole = self.found("--limit", LONG, "--faults", "refuse", "-p", self.sandbox.policy_path, "--", *words)
        self.assertEqual([row["destination"] for row in whole["results"]], [server.destination])

    def test_a_destination_that_is_not_called_again_has_given_up_nothing(self):
        server = self.server()
        result = self.audit("--limit", LONG, "--", "sh", "-c", "test -e was || curl -s $0; touch was", server.url)
        self.assertEqual(result.status, 125, result)
        self.assertEqual(len(re.findall(r"(?m) not called in this run ", result.stdout)), 5, result.stdout)
        self.assertTrue(result.stdout.endswith("\nNo fault was met.\n"), result.stdout)

    def test_who_waits_for_a_greeting_without_blocking_can_not_be_reset(self):
        server = self.server(lambda server, sock, number: sock.sendall(b"hello\n"))
        code = ("import select, socket, sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
                "s.setblocking(False)\nsys.exit(not select.select([s], [], [], 0.5)[0])\n")
        rows, _ = self.found("--limit", LONG, "--faults", "reset,silence", "--", *self.python(code, server.port),
                             status=0)
        self.assertEqual((rows["reset"]["text"], rows["silence"]["result"]),
                         ("met silence instead: it sent nothing", "gave-up"))


    def test_an_abstract_name_is_a_destination_like_a_path(self):
        name = f"audited-{os.getpid()}-{self.id()}"[:100]
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind("\0" + name)
        listener.listen(8)
        code = "import socket, sys\nsocket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1])\n"
        rows, _ = self.found("--limit", LONG, "--faults", "refuse,silence", "--", *self.python(code, name))
        self.assertEqual((rows["refuse"]["destination"], rows["refuse"]["result"], rows["silence"]["result"]),
                         (f"unix:@{name}", "told", "left-out"), rows)

    def test_what_there_was_no_room_to_see_is_counted(self):
        """More destinations than circuits, and a fault that can be played to none of them: no run follows."""
        code = ("import socket\nkept = []\nfor _ in range(260):\n    kept.append(socket.create_server(('127.0.0.1', 0)))\n"
                "    socket.create_connection(kept[-1].getsockname()).close()\n")
        words = ("--limit", LONG, "--faults", "http-503", "--", *self.python(code))
        _, whole = self.found("--json", *words, status=125)
        bare = whole["without_fault"]
        self.assertEqual(len(bare["destinations"]) + bare["calls_unseen"], 260)
        self.assertGreaterEqual(bare["calls_unseen"], 4)
        result = self.audit(*words)
        self.assertRegex(result.stderr, r"(?m)^sockfuse: \d+ calls without a fault were not seen: there was no room")
        self.assertRegex(result.stdout, r"\nNo fault was met\.\n\d+ calls without a fault were not seen: there was no "
                                        r"room\.\n\Z")


class Without(Audited):
    """What keeps an audit from saying anything is said, with exit status 125."""

    def refused(self, *words, status=125):
        result = self.audit(*words)
        self.assertEqual((result.status, result.stdout), (status, ""), result)
        return result.stderr

    def test_a_program_that_fails_by_itself_is_not_judged(self):
        server = self.server()
        told = self.refused("--", "sh", "-c", "curl -s $0; echo what it says >&2; exit 7", server.url)
        self.assertIn("sockfuse: sh fails without any fault, exit status 7\n", told)
        self.assertIn("sockfuse:   what it says\n", told)
        self.assertIn("killed by signal 9 without any fault", self.refused("--", "sh", "-c", "kill -9 $$"))
        self.assertEqual(server.connections, 1)

    def test_a_server_that_nobody_asks_calls_nobody(self):
        told = self.refused("--limit", "100ms", "--", "sleep", "60")
        self.assertIn("has to be asked", told)
        self.assertIn("longer --limit", told, "or it is slow to begin")

    def test_who_calls_nobody_or_can_not_be_started_or_needs_a_terminal(self):
        self.assertIn("true called nobody", self.refused("--", "true"))
        self.assertIn("nosuchprogram", self.refused("--", "nosuchprogram", status=127))
        self.assertIn("can't be executed", self.refused("--", "/etc/passwd", status=126))
        self.assertIn("/dev/tty", self.refused("--", "sh", "-c", "read line </dev/tty"))
        self.assertIn("each run reads a file from its beginning", self.refused("--", "sh", "-c", "read line"))
        self.assertIn("CMD is missing", self.refused())
        for words in (["--limit", "3"], ["--limit", "0s"], ["--faults", "delay 2s"], ["--faults", "http-200"],
                      ["--faults", ","], ["-t", "nonsense"], ["-p", "missing"], ["--no-such-option"]):
            self.refused(*words, "true")
        self.assertEqual(os.listdir(self.sandbox.state), [])

    def test_nothing_is_started_where_its_circuits_can_not_be_kept(self):
        server = self.server()
        with open(self.sandbox.state, "w", encoding="ascii") as file:
            file.write("no folder")
        told = self.refused("--", "curl", "-s", server.url)
        self.assertIn("curl is not started: ", told)
        self.assertNotIn("--strict", told, "which nobody has given")
        self.assertEqual(server.connections, 0)


class Runs(Audited):
    def test_each_run_reads_a_file_from_its_begin_and_what_they_write_is_shown_on_demand(self):
        server, path = self.server(), os.path.join(self.sandbox.folder, "input")
        with open(path, "w", encoding="ascii") as file:
            file.write(server.url + "\n")
        command = "read url; echo it said; curl -s -m 0.3 $url >/dev/null"
        for verbose, said in ((["-v"], 3), ([], 0)):
            with open(path, "rb") as file:
                process = self.sandbox.popen([SOCKFUSE, "audit", "--limit", LONG, "--faults", "hang,refuse", *verbose,
                                              "--", "sh", "-c", command], how="command", stdin=file,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err.count(b"it said")), (0, said), err)
            self.assertRegex(out.decode(), rf"(?m)^{server.destination} +hang +gave up after \S+ +\S+  28$")
        self.assertEqual(server.connections, 2)

    def test_what_a_command_leaves_behind_is_seen_and_ended(self):
        server = self.server()
        rows, whole = self.found("--limit", LONG, "--faults", "silence", "--", "sh", "-c",
                                 "setsid sh -c 'sleep 0.2; curl -s -m 0.3 $0' $0 & true", server.url)
        self.assertEqual((rows["silence"]["result"], whole["endless"]), ("gave-up", False), whole)
        rows, whole = self.found("--limit", SHORT, "--faults", "silence", "--", "sh", "-c",
                                 "setsid sh -c 'trap : TERM; curl -s $0; sleep 60; sleep 60' $0 & true", server.url,
                                 status=1)
        self.assertEqual((rows["silence"]["result"], rows["silence"]["exit_status"], whole["endless"]),
                         ("never", 0, True), whole)
        self.assertEqual(subprocess.run(["pgrep", "-f", server.url], check=False, capture_output=True).stdout, b"")

    def test_who_is_killed_while_it_waits_has_given_up_nothing(self):
        server = self.server()
        rows, _ = self.found("--limit", LONG, "--faults", "silence", "--", "sh", "-c",
                             "timeout 1 curl -s $0; true", server.url)
        self.assertEqual((rows["silence"]["result"], rows["silence"]["killed"]["count"]), ("killed", 1), rows)

    def test_an_interruption_ends_the_run_and_what_was_found_is_printed(self):
        server = self.server()
        process = self.sandbox.popen([SOCKFUSE, "audit", "--limit", "60s", "--faults", "refuse,silence", "--", "curl",
                                      "-s", server.url], how="command", stdout=subprocess.PIPE)
        self.assertTrue(eventually(lambda: [call for call in json.loads(
            self.sandbox.sockfuse("calls", "--json").stdout) if call["waited_ms"] >= 100], 30, 0.1))
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=30)[0].decode()
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertRegex(out, rf"{server.destination} +refuse +was refused ")
        self.assertNotIn("silence", out)
        self.assertIn("\nInterrupted: 1 of 2 runs were made.\n", out)
        self.assertEqual(os.listdir(self.sandbox.state), [])
        self.assertEqual(subprocess.run(["pgrep", "-f", server.url], check=False, capture_output=True).stdout, b"")

    def test_a_terminal_shows_how_far_it_is_and_then_the_table_alone(self):
        server = self.server()
        terminal = Terminal(self, self.sandbox)
        terminal.command(SOCKFUSE, "audit", "--limit", SHORT, "--faults", "silence,refuse", "--", "curl", "-s",
                         server.url)
        terminal.wait_for("run 1 of 2 ")
        screen = terminal.wait_for("Waited beyond 1.0s")
        self.assertNotIn("run 1 of 2 ", screen)
        self.assertRegex(screen, rf"(?m)^{server.destination} +silence +never \(1\.0s\) +\S+  -$")

    def test_a_storm_is_counted_though_not_all_of_it_is_kept(self):
        """Many times more outcomes than the journal has room for, by more processes than processors."""
        server = self.server()
        code = ("import os, socket, sys\nfor _ in range(15):\n    if os.fork() == 0:\n        break\n"
                "while True:\n    s = socket.socket()\n"
                "    try: s.connect(('127.0.0.1', int(sys.argv[1])))\n    except OSError: pass\n    s.close()\n")
        rows, _ = self.found("--limit", SHORT, "--faults", "refuse", "--", *self.python(code, server.port))
        row = rows["refuse"]
        self.assertEqual((row["result"], row["stopped"]), ("told", True), row)
        self.assertGreaterEqual(row["tries"], row["told"]["count"], row)
        if row["outcomes_lost"]:
            self.assertGreater(row["tries"], row["told"]["count"], row)

    def test_the_command_ends_with_an_audit_that_is_killed(self):
        server = self.server()
        process = self.sandbox.popen([SOCKFUSE, "audit", "--faults", "silence", "--", "curl", "-s", server.url],
                                     how="command")
        self.assertTrue(eventually(lambda: json.loads(self.sandbox.sockfuse("calls", "--json").stdout), 30, 0.1))
        process.kill()
        process.wait(30)
        self.assertTrue(eventually(lambda: not json.loads(self.sandbox.sockfuse("calls", "--json").stdout), 30, 0.1))
        self.assertEqual(self.sandbox.sockfuse("forget", "--ended").status, 0)
        self.assertEqual(os.listdir(self.sandbox.state), [])

    def test_closed_descriptors_are_not_taken_for_others(self):
        server = self.server()
        for closed, status, said in (("<&-", 0, "told"), (">&-", 125, ""), ("2>&-", 0, "told")):
            result = self.sandbox.run(["sh", "-c", f'"$@" {closed}', "sh", SOCKFUSE, "audit", "--json", "--faults",
                                       "refuse", "--", "curl", "-s", server.url], how="command")
            self.assertEqual(result.status, status, result)
            self.assertIn(said, result.stdout)

    def test_a_full_disk_is_said(self):
        server = self.server()
        with open("/dev/full", "w", encoding="ascii") as full:
            process = self.sandbox.popen([SOCKFUSE, "audit", "--faults", "refuse", "--", "curl", "-s", server.url],
                                         how="command", stdout=full, stderr=subprocess.PIPE)
            err = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 125, "1 says that something waited beyond the limit")
        self.assertIn(b"standard output can't be written", err)


if __name__ == "__main__":
    unittest.main()
