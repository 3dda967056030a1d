"""`sockfuse calls`: who waits for whom, since when; and what `status` says while calls hang."""
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, CLIENTS, PYTHON, ROOT, SOCKFUSE, BlackHole, ParallelSuite, Sandbox, Server,  # noqa: E402
                      asleep, eventually, printed_on_a_terminal, services, stay_silent)
from fixtures.storm import storm  # noqa: E402

load_tests = ParallelSuite.load(4)

CONNECT_AND_WAIT = """import socket, sys, time
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    connection.recv(1)
"""
MEMBERS = {"pid", "pid_is_local", "thread", "program", "user", "target", "destination", "phase", "since", "waited_ms",
           "limit_ms", "overdue", "charged", "probe", "policy", "owner"}


# One thread for each port, which tells who it is and waits for an answer.
THREADS = """import socket, sys, threading
def wait(port):
    print(port, threading.get_native_id(), flush=True)
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        connection.sendall(b"?")
        connection.recv(1)
for port in sys.argv[1:]:
    threading.Thread(target=wait, args=[port]).start()
"""


class Calls(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self, clock=True)

    def silent(self):
        server = Server(stay_silent)
        self.addCleanup(server.stop)
        return server

    def calls(self, *words, status=0):
        result = self.sandbox.sockfuse("calls", "--json", *words)
        self.assertEqual(result.status, status, result)
        return json.loads(result.stdout)

    def text(self, *words, status=0):
        result = self.sandbox.sockfuse("calls", *words)
        self.assertEqual(result.status, status, result)
        return result.stdout

    def hang(self, server, *, phase="answer", program=None, count=1):
        """A program that waits for the server, once it does."""
        argv = program or ["curl", "-s", "--max-time", "100", server.url]
        process = self.sandbox.popen(argv)
        self.assertTrue(eventually(lambda: len([call for call in self.calls() if call["phase"] == phase
                                                and call["destination"] == server.destination]) == count, 30),
                        self.calls())
        return process

    def test_a_call_is_shown_with_its_wait_and_its_limit(self):
        server = self.silent()
        self.sandbox.policy(f"[shop]\nmatch = {server.destination}\nresponse_timeout = 2s\n")
        process = self.hang(server)
        self.sandbox.clock.advance_seconds(1.5)
        (call,) = self.calls()
        self.assertEqual(set(call), MEMBERS)
        self.assertEqual((call["pid"], call["thread"], call["program"], call["target"], call["destination"],
                          call["phase"], call["waited_ms"], call["limit_ms"], call["overdue"], call["pid_is_local"]),
                         (process.pid, process.pid, "curl", "shop", server.destination, "answer", 1500, 2000, False,
                          True))
        self.assertRegex(call["since"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
        title, line = self.text().splitlines()
        self.assertEqual(title.split(), ["SINCE", "LIMIT", "PHASE", "PID", "PROGRAM", "DESTINATION", "TARGET"])
        self.assertEqual(line.split(), ["1.5s", "2.0s", "answer", str(process.pid), "curl", server.destination, "shop"])
        self.sandbox.clock.advance_seconds(0.5)
        (call,) = self.calls()
        self.assertEqual((call["overdue"], call["charged"]), (True, False))
        self.assertIn("  OVERDUE  ", self.text())

    def test_the_thread_that_waits_is_named_where_it_is_known(self):
        first, second, third = self.silent(), self.silent(), self.silent()
        self.sandbox.guard(first, second, third)
        ports = [str(server.port) for server in (first, second, third, third)]
        process = self.sandbox.popen([PYTHON, "-c", THREADS, *ports], stdout=subprocess.PIPE, text=True)
        threads = dict(process.stdout.readline().split() for _ in ports)
        self.assertTrue(eventually(lambda: [call["phase"] for call in self.calls()] == ["answer"] * 4, 30))
        # Each is in its recv a moment after its request is known.
        wanted = {first.destination: int(threads[ports[0]]), second.destination: int(threads[ports[1]]),
                  third.destination: None}
        self.assertTrue(eventually(lambda: {call["destination"]: call["thread"] for call in self.calls()} == wanted,
                                   30), (self.calls(), threads))
        title, *lines = self.text().splitlines()
        at = title.split().index("TID") - title.split().index("PID")
        self.assertEqual(at, 1)
        self.assertRegex("\n".join(lines), rf"answer +{process.pid} +{wanted[first.destination]} +")
        # What is left out of the list was counted all the same.
        self.assertEqual([call["thread"] for call in self.calls(third.destination)], [None, None])
        self.hang(first, program=[PYTHON, "-c", THREADS.replace(").start()", ").run()"), ports[0]], count=2)
        alone = [call for call in self.calls() if call["pid"] != process.pid]
        self.assertEqual([call["thread"] for call in alone], [alone[0]["pid"]], "of one thread")

    def test_each_phase_is_told(self):
        hole, mute, silent = BlackHole(), self.silent(), self.silent()
        self.addCleanup(hole.stop)
        self.sandbox.guard(hole, mute, silent, connect_timeout="3s")
        self.hang(hole, phase="connect")
        self.sandbox.clock.advance_seconds(1)
        self.hang(mute, phase="greeting",
                  program=[sys.executable, "-c", CONNECT_AND_WAIT, mute.address, str(mute.port)])
        self.sandbox.clock.advance_seconds(1)
        self.hang(silent)
        self.sandbox.clock.advance_seconds(1)
        self.assertEqual([(call["phase"], call["waited_ms"], call["limit_ms"], call["overdue"])
                          for call in self.calls()],
                         [("connect", 3000, 3000, True), ("greeting", 2000, None, False),
                          ("answer", 1000, None, False)])

    def test_one_destination_one_target_and_long_waits_can_be_asked_for(self):
        first, second = self.silent(), self.silent()
        self.sandbox.policy(f"[shop]\nmatch = {first.destination}\n[{second.destination}]\n")
        self.hang(first)
        self.sandbox.clock.advance_seconds(5)
        self.hang(second)
        self.sandbox.clock.advance_seconds(1)
        for words, wanted in ((["shop"], [first]), ([first.destination], [first]), ([second.destination], [second]),
                              (["--older", "1s"], [first, second]), (["--older", "1001ms"], [first]),
                              (["--older", "7s"], [])):
            self.assertEqual([call["destination"] for call in self.calls(*words)],
                             [server.destination for server in wanted], words)
        self.assertEqual(self.text("--older", "7s"), "No calls in flight.\n")
        result = self.sandbox.sockfuse("calls", "ship")
        self.assertEqual((result.status, result.stdout), (1, ""))
        self.assertIn("ship: no policy in use has a circuit", result.stderr)

    def test_the_longest_wait_comes_first_whichever_program_was_started_first(self):
        server = self.silent()
        self.sandbox.guard(server)
        late = self.sandbox.popen(["sh", "-c", f"read go; exec curl -s --max-time 100 {server.url}"],
                                  stdin=subprocess.PIPE)
        first = self.hang(server)
        self.sandbox.clock.advance_seconds(1)
        late.stdin.write(b"go\n")
        late.stdin.close()
        self.assertTrue(eventually(lambda: [call["phase"] for call in self.calls()] == ["answer"] * 2, 30))
        self.assertEqual([call["pid"] for call in self.calls()], [first.pid, late.pid])

    def test_a_call_that_was_charged_at_its_limit_is_shown_as_long_as_it_hangs(self):
        server = self.silent()
        self.sandbox.guard(server, response_timeout="2s", failure_threshold=2)
        first = self.hang(server)
        self.sandbox.clock.advance_seconds(9.7)
        self.hang(server, count=2)
        calls = self.calls()
        self.assertEqual([(call["pid"] == first.pid, call["waited_ms"], call["overdue"], call["charged"])
                          for call in calls], [(True, 9700, True, True), (False, 0, False, False)])
        circuit = self.sandbox.circuit(server)
        self.assertEqual((circuit["state"], circuit["in_flight"], circuit["waiting"], circuit["overdue"],
                          circuit["oldest_ms"]), ("closed", 1, 2, 1, 9700))
        self.assertRegex(self.sandbox.sockfuse("status").stdout, r" closed +1/2 +2, 1 overdue +9\.7s ")
        first.send_signal(signal.SIGKILL)
        first.wait(10)
        self.assertEqual([call["waited_ms"] for call in self.calls()], [0])
        circuit = self.sandbox.circuit(server)
        self.assertEqual((circuit["waiting"], circuit["overdue"]), (1, 0))

    def test_an_answer_ends_the_wait(self):
        answered = threading.Event()
        server = Server(lambda server, sock, number: (sock.recv(65536), answered.wait(60), sock.sendall(b"hello")))
        self.addCleanup(server.stop)
        self.sandbox.guard(server)
        process = self.hang(server)
        answered.set()
        process.wait(30)
        self.assertEqual(self.calls(), [])
        self.assertEqual(self.text(), "No calls in flight.\n")
        self.assertEqual(self.sandbox.circuit(server)["oldest_ms"], None)

    def test_nothing_in_use(self):
        self.assertIn("No policy is in use", self.text())
        self.assertEqual(self.calls(), [])
        self.sandbox.policy("[127.0.0.1:1]\n")
        self.assertIn("is not in use", self.text("-p", self.sandbox.policy_path))
        self.assertEqual(self.calls("-p", self.sandbox.policy_path), [])

    def test_a_circuits_page_has_its_own_calls(self):
        """The destination has come to another section: it has two circuits, and a page of each."""
        server = self.silent()
        for count, target in ((1, "before"), (2, "after")):
            self.sandbox.policy(f"[{target}]\nmatch = {server.destination}\n")
            self.hang(server, count=count)
        for target in ("before", "after"):
            page = self.sandbox.sockfuse("status", target).stdout
            self.assertEqual(len(re.findall(r"(?m)^ +\S+ +answer +\d+ +curl ", page)), 1, page)
            self.assertRegex(page, r"\n  In flight\n +SINCE ")
            self.assertRegex(page, r"\n  Waited +\S+ in all; a call counts when it is over, or beyond its limit\n")

    def test_a_policy_that_is_not_there_is_a_mistake(self):
        for words in ([], ["-f"], ["--tree"], ["--json"]):
            result = self.sandbox.sockfuse("calls", *words, "-p", "/nowhere/misspelt.policy")
            self.assertEqual((result.status, result.stdout), (1, ""), words)
            self.assertIn("/nowhere/misspelt.policy: can't read", result.stderr)

    def test_so_it_is_of_what_has_happened(self):
        page = os.path.join(self.sandbox.folder, "page.html")
        for words in (["events"], ["events", "-f"], ["events", "--json"], ["report", "-o", page], ["report", "--trace", page]):
            result = self.sandbox.sockfuse(*words, "-p", "/nowhere/misspelt.policy")
            self.assertEqual((result.status, result.stdout), (1, ""), words)
            self.assertIn("/nowhere/misspelt.policy: can't read", result.stderr)
            self.assertFalse(os.path.exists(page), words)

    def test_what_happened_under_a_policy_outlives_its_file(self):
        server = self.silent()
        self.sandbox.guard(server)
        self.hang(server)
        os.unlink(self.sandbox.policy_path)
        result = self.sandbox.sockfuse("events", "-p", self.sandbox.policy_path)
        self.assertEqual((result.status, result.stderr), (0, ""))

    def test_what_can_not_be_read_is_said(self):
        with open(self.sandbox.state, "w", encoding="ascii") as file:
            file.write("no folder")
        self.sandbox.policy("[a:1]\n")
        for words in (["calls"], ["calls", "--tree"], ["explain", "a:1"], ["report", "--trace", "-"],
                      ["observe", "-p", self.sandbox.policy_path], ["events"], ["status", "--check"]):
            result = self.sandbox.sockfuse(*words)
            self.assertEqual(result.status, 2 if "--check" in words else 1, (words, result))
            self.assertIn("can't be read", result.stderr, words)

    def test_another_builds_segment_is_said(self):
        server = self.silent()
        self.sandbox.guard(server)
        self.hang(server)
        with open(self.sandbox.segment_path(), "r+b") as file:
            file.seek(8)
            file.write(struct.pack("<I", 1000))
        result = self.sandbox.sockfuse("calls", "--json")
        self.assertEqual((result.status, json.loads(result.stdout)), (1, []))
        self.assertIn("newer build", result.stderr)
        for words in (["calls", "--tree"], ["explain", server.destination], ["report", "--trace", "-"],
                      ["observe", "-p", self.sandbox.policy_path], ["events"]):
            result = self.sandbox.sockfuse(*words)
            self.assertEqual(result.status, 1, (words, result))
            self.assertIn("newer build", result.stderr, words)

    def test_what_each_process_keeps_to_itself_is_said(self):
        server = self.silent()
        self.sandbox.guard(server, scope="process")
        self.sandbox.popen(["curl", "-s", server.url])
        self.assertTrue(eventually(lambda: server.requests == 1, 30))
        result = self.sandbox.sockfuse("calls", "-p", self.sandbox.policy_path)
        self.assertIn("scope = process", result.stderr)
        self.assertNotIn("curl", result.stdout)

    def test_bad_words(self):
        for words in (["--older", "soon"], ["a:1", "b:1"], ["--olden"]):
            self.assertEqual(self.sandbox.sockfuse("calls", *words).status, 2, words)

    def test_completion_offers_what_is_in_use_and_nothing_that_a_shell_would_act_on(self):
        server = self.silent()
        self.sandbox.policy(f"[shop]\nmatch = {server.destination}\n[sh$(id)]\nmatch = 127.0.0.9:1\n")
        self.hang(server)
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_sockfuse "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"; printf "%s\\n" "${COMPREPLY[@]}"')

        def offered(*words):
            return self.sandbox.run(["bash", "--norc", "-c", script, "bash", ROOT / "src/completion/sockfuse.bash",
                                     SOCKFUSE, "calls", *words], "command").stdout.split()
        self.assertEqual(offered("sh"), ["shop"])
        self.assertEqual(set(offered("127")), {server.destination, "127.0.0.9:1"})
        self.assertEqual(offered("127.0.0.1", ":", str(server.port)[:2]), [str(server.port)])
        self.assertEqual(offered("127.0.0.1", ":"), [str(server.port)])
        self.assertEqual(offered("--ol"), ["--older"])


class Following(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self, clock=True)
        self.server = Server(stay_silent)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, response_timeout="60s")

    def waiting(self):
        """How many wait for an answer, in the segment's eyes: the server may have a request before it is noted there."""
        calls = json.loads(self.sandbox.sockfuse("calls", "--json").stdout or "[]")
        return sum(call["phase"] == "answer" for call in calls)

    def hang(self):
        before = self.waiting()
        process = self.sandbox.popen(["curl", "-s", "--max-time", "100", self.server.url])
        self.assertTrue(eventually(lambda: self.waiting() > before and asleep(process), 30))
        return process

    def follow(self, *words, **keywords):
        return self.sandbox.popen([SOCKFUSE, "calls", "-f", *words], how="command", stdout=-1, **keywords)

    def test_each_call_is_told_once_when_it_has_waited_so_long(self):
        first = self.hang()
        follower = self.follow("--older", "2s")
        self.sandbox.clock.advance_seconds(2)
        line = follower.stdout.readline().decode()
        self.assertRegex(line, rf"\A\d{{4}}-\S+Z  curl \(pid {first.pid}\) waits for {self.server.destination}: "
                               r"answer, 2\.0s of 1m00s\n\Z")
        second = self.hang()
        self.sandbox.clock.advance_seconds(3)
        self.assertIn(f"(pid {second.pid})", follower.stdout.readline().decode())

    def test_lines_of_json(self):
        process = self.hang()
        self.sandbox.clock.advance_seconds(1)
        call = json.loads(self.follow("--json").stdout.readline())
        self.assertEqual((call["pid"], call["waited_ms"], set(call)), (process.pid, 1000, MEMBERS))

    def test_it_ends_when_nobody_reads(self):
        follower = self.follow()
        follower.stdout.close()
        follower.wait(30)

    def test_a_terminal_shows_a_page_of_its_width_again_and_again(self):
        for _ in range(4):
            self.hang()
        self.sandbox.clock.advance_seconds(61)
        master, terminal = os.openpty()
        self.addCleanup(os.close, master)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 50, 0, 0))
        self.sandbox.popen([SOCKFUSE, "calls", "-f"], how="command", env={"TERM": "xterm"}, stdout=terminal)
        os.close(terminal)
        seen = b""
        while seen.count(b"\x1b[H") < 3:
            seen += os.read(master, 65536)
        page = seen.split(b"\x1b[H")[1].decode().replace("\r\n", "\n")
        self.assertIn("\x1b[31m", page)
        lines = re.sub("\x1b\\[[0-9;]*[mKJ]", "", page).split("\n")
        self.assertEqual(lines[0], "4 calls in flight, 4 overdue, the oldest 1m01s")
        self.assertEqual(lines[4:], ["... and 3 lines more", ""])
        self.assertTrue(all(len(line) <= 50 for line in lines), lines)

    def test_status_shows_overdue_calls_in_red_on_a_terminal(self):
        self.hang()
        well = re.escape(f"{self.server.destination}  \x1b[32mclosed\x1b[0m")
        self.assertRegex(printed_on_a_terminal(self.sandbox, "status"), well)
        self.sandbox.clock.advance_seconds(61)
        ill = (re.escape(f"{self.server.destination}  \x1b[31mclosed\x1b[0m") + ".* " +
               re.escape("\x1b[31m1, 1 overdue\x1b[0m") + " +" + re.escape("\x1b[31m1m01s\x1b[0m"))
        self.assertRegex(printed_on_a_terminal(self.sandbox, "status"), ill)


class SixWorkers(services.PhpFpm):
    workers = 6


class Programs(unittest.TestCase):
    """By what name a program is shown, and that of real servers each worker's call is."""

    def setUp(self):
        self.sandbox = Sandbox(self)
        self.server = Server(stay_silent)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server)

    def shown(self, program, count=1):
        def calls():
            return [(call["program"], call["phase"]) for call in json.loads(
                self.sandbox.sockfuse("calls", "--json").stdout)]
        wanted = [(program, "answer")] * count
        self.assertTrue(eventually(lambda: calls() == wanted, 30), (calls(), wanted))
        return json.loads(self.sandbox.sockfuse("calls", "--json").stdout)

    def script(self, first_line):
        path = os.path.join(self.sandbox.folder, "nightly")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!{first_line}\nimport urllib.request\nurllib.request.urlopen('{self.server.url}')\n")
        os.chmod(path, 0o755)
        return path

    def test_a_script_has_its_own_name(self):
        self.sandbox.popen([self.script(PYTHON)])
        self.shown("nightly")

    def test_so_has_one_that_env_starts(self):
        self.sandbox.popen([self.script("/usr/bin/env python3")])
        self.shown("nightly")

    def test_a_file_without_a_first_line_is_its_interpreters(self):
        self.sandbox.popen([sys.executable, CLIENTS / "urllib_get.py", self.server.url, "0"])
        self.shown(os.path.basename(sys.executable))

    @unittest.skipUnless(os.geteuid() == 0, "such services are started by root")
    def test_workers_of_gunicorn(self):
        service = services.Gunicorn(self, self.sandbox, self.server.destination)
        service.ask_beside(service.workers)
        calls = self.shown("gunicorn", service.workers)
        self.assertEqual(len({call["pid"] for call in calls}), service.workers)
        self.assertLessEqual({call["pid"] for call in calls}, set(services.children(service.process.pid)))

    @unittest.skipUnless(os.geteuid() == 0, "such services are started by root")
    def test_workers_of_php_fpm_that_have_dropped_their_rights(self):
        service = services.PhpFpm(self, self.sandbox, self.server.destination)
        service.ask_beside(service.workers)
        calls = self.shown(os.path.basename(service.argv()[0]), service.workers)
        self.assertEqual({(call["user"], call["owner"]) for call in calls}, {(service.user, "root")})

    @unittest.skipUnless(os.geteuid() == 0, "such services are started by root")
    def test_six_workers_of_php_fpm_that_are_stuck_beyond_their_limit_do_not_look_healthy(self):
        self.sandbox = Sandbox(self, clock=True)
        self.sandbox.guard(self.server, response_timeout="2s")
        service = SixWorkers(self, self.sandbox, self.server.destination)
        service.ask_beside(6)
        self.shown(os.path.basename(service.argv()[0]), 6)
        self.sandbox.clock.advance_seconds(20)
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["waiting"], circuit["overdue"], circuit["oldest_ms"]),
                         ("closed", 6, 6, 20000))
        self.assertRegex(self.sandbox.sockfuse("status").stdout, r" closed +0/5 +6, 6 overdue +20\.0s ")
        self.assertRegex(self.sandbox.sockfuse("status", self.server.destination).stdout, "6 overdue")
        self.assertEqual(self.sandbox.sockfuse("status", "--check").stdout,
                         "OK: 1 circuit, all closed; 6 calls wait, 6 overdue\n")
        on_a_terminal = printed_on_a_terminal(self.sandbox, "status")
        self.assertIn("\x1b[31mclosed\x1b[0m", on_a_terminal)
        self.assertIn("\x1b[31m6, 6 overdue\x1b[0m", on_a_terminal)

    @unittest.skipUnless(os.geteuid() == 0, "such services are started by root")
    def test_workers_of_nginx(self):
        service = services.Nginx(self, self.sandbox, self.server.destination)
        service.ask_beside(3)
        self.shown("nginx", 3)

    def test_node(self):
        self.sandbox.popen(["node", CLIENTS / "http_get.js", self.server.url, "0"])
        self.shown("node")


class Storm(unittest.TestCase):
    def test_a_segment_that_64_processes_write(self):
        sandbox, server = Sandbox(self), Server()
        self.addCleanup(server.stop)
        sandbox.guard(server)
        storm(self, sandbox, server)
        self.assertTrue(eventually(lambda: len(sandbox.status()[0]["processes"]) == 64, 60))
        seen = 0
        for _ in range(20):
            result = sandbox.sockfuse("calls", "--json")
            self.assertEqual((result.status, result.stderr), (0, ""))
            for call in json.loads(result.stdout):
                self.assertEqual(call["destination"], server.destination)
                self.assertIn(call["phase"], ("connect", "greeting", "answer"))
                self.assertIsNone(call["limit_ms"] if call["phase"] == "answer" else None)
                self.assertLess(call["waited_ms"], 120_000)
                seen += 1
        self.assertGreater(seen, 0)
        self.look_otherwise(sandbox, server)

    def look_otherwise(self, sandbox, server):
        """What others make of the same segment is whole, and no more than can be."""
        page = os.path.join(sandbox.folder, "page.html")
        for _ in range(3):
            result = sandbox.sockfuse("calls", "--tree", "--json")
            self.assertEqual((result.status, result.stderr), (0, ""))
            self.assertLessEqual(sum(wait["calls"] for wait in json.loads(result.stdout)["waits"]), 64)
            result = sandbox.sockfuse("observe", "-p", sandbox.policy_path, "--json")
            self.assertEqual((result.status, result.stderr), (0, ""))
            (circuit,) = json.loads(result.stdout)["policies"][0]["circuits"]
            self.assertLessEqual(circuit["most_waiting"], 64)
            self.assertLess(circuit["latency"]["waited_ms"], circuit["counters"]["admitted"] * 120_000)
            result = sandbox.sockfuse("report", "--trace", "-")
            self.assertEqual((result.status, result.stderr), (0, ""))
            json.loads(result.stdout)
            result = sandbox.sockfuse("report", "-o", page)
            if os.path.exists(os.path.join(BUILD, "report.html")):
                self.assertEqual((result.status, result.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
