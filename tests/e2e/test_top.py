"""`sockfuse top` on a real terminal, over real programs."""
import glob
import json
import os
import re
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, CLIENTS, PRELOAD, PYTHON, REFUSED_BY_CURL, ROOT, SOCKFUSE, ParallelSuite, Sandbox,  # noqa: E402
                      Server, Session, Terminal, answer_http, asleep, eventually, reset_after_request, services,
                      stay_silent)
from fixtures.storm import storm  # noqa: E402

load_tests = ParallelSuite.load(4)


def shown_colours(screen):
    """Which foreground colours were set: 31 red, 32 green, 33 yellow."""
    return {int(number) for numbers in re.findall("\x1b\\[([0-9;]*)m", screen)
            for number in numbers.split(";") if number and 30 <= int(number) <= 37}


class Top(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self, clock=True)

    def server(self, behaviour):
        server = Server(behaviour)
        self.addCleanup(server.stop)
        return server

    def hang(self, server, count=1):
        """curl, which waits for the server's answer."""
        before = server.requests
        process = self.sandbox.popen(["curl", "-s", "--max-time", "100", server.url], PRELOAD)
        self.assertTrue(eventually(lambda: server.requests == before + count and asleep(process), 30))
        return process

    def terminal(self, *words, width=80, height=24, env=None, until="calls/s"):
        terminal = Terminal(self, self.sandbox, width, height, env)
        terminal.command(SOCKFUSE, "top", "--interval", "100ms", *words)
        terminal.wait_for(until)
        return terminal

    def pid(self, terminal):
        (pid,) = services.children(terminal.shell)
        return pid


class Page(Top):
    def test_what_hangs_and_what_is_open_live(self):
        silent, broken, fresh = self.server(stay_silent), self.server(reset_after_request), self.server(answer_http)
        self.sandbox.policy(f"[defaults]\njitter = 0%\nfailure_threshold = 1\nresponse_timeout = 5s\n"
                            f"[shop]\nmatch = {silent.destination}\n[{broken.destination}]\n")
        process = self.hang(silent)
        self.sandbox.run(["curl", "-s", broken.url])
        terminal = self.terminal()
        terminal.wait_for_line(f">{broken.destination}", r"open +10\.0s")
        self.sandbox.clock.advance_seconds(3)
        terminal.wait_for(" 7.0s ")  # the pause counts down
        terminal.wait_for_line(f" {silent.destination}", r"closed +1 +3\.0s")
        terminal.keys("Down")
        terminal.wait_for(f">{silent.destination}")
        terminal.wait_for_line(f"curl[{process.pid}]", r" 3\.0s of 5\.0s +answer +curl")
        terminal.wait_for(f"{silent.destination} [shop] ─")
        self.sandbox.clock.advance_seconds(2)
        self.assertIn("1 overdue, the oldest 5.0s", terminal.wait_for("1 overdue"))
        self.assertIn("OVERDUE", terminal.line_of(f"curl[{process.pid}]"))
        # A segment that is made meanwhile, and one that is gone.
        other = os.path.join(self.sandbox.folder, "other.policy")
        with open(other, "w", encoding="ascii") as file:
            file.write(f"[{fresh.destination}]\n")
        self.sandbox.run([SOCKFUSE, "run", "-p", other, "--", "curl", "-s", fresh.url], "command")
        terminal.wait_for(fresh.destination)
        terminal.wait_for_line(f" {fresh.destination}", "closed, ended .*█$")
        self.assertEqual(self.sandbox.sockfuse("forget", "-p", other).status, 0)
        terminal.wait_for(fresh.destination, gone=True)
        process.kill()
        process.wait(10)
        terminal.wait_for("0 calls wait")
        self.pid(terminal)  # it lives

    def test_what_a_command_under_observe_does_is_shown_meanwhile(self):
        """No policy is in use but that which observe makes for it."""
        silent, broken = self.server(stay_silent), self.server(reset_after_request)
        observe = self.sandbox.popen([SOCKFUSE, "observe", "--", "sh", "-c",
                                      f"curl -s {broken.url}; exec curl -s --max-time 100 {silent.url}"], "command",
                                     stderr=subprocess.PIPE)
        self.addCleanup(observe.stderr.close)
        self.assertTrue(eventually(lambda: silent.requests == 1 and asleep(observe), 30))
        terminal = self.terminal()
        terminal.wait_for_line(f"{silent.destination}", r"closed, observed +1 +0ms")
        terminal.wait_for_line(f"{broken.destination}", r"closed, observed ")
        self.sandbox.clock.advance_seconds(7)
        terminal.wait_for("1 call waits, the oldest 7.0s")
        terminal.keys("/", silent.destination, "Enter")
        (curl,) = services.children(observe.pid)
        terminal.wait_for_line(f"curl[{curl}]", r" 7\.0s +answer +curl")
        os.kill(curl, signal.SIGTERM)
        self.assertIn(silent.destination, observe.communicate(timeout=30)[1].decode())
        terminal.wait_for("No policy is in use")

    def test_keys_sizes_and_the_end(self):
        server = self.server(stay_silent)
        self.sandbox.policy(f"[{server.destination}]\n[127.0.0.9:1]\n[127.0.0.8:*]\n")
        self.hang(server)
        terminal = Terminal(self, self.sandbox)
        terminal.command("stty", "-g")
        settings = terminal.line_of(":")
        terminal.command(SOCKFUSE, "top", "--interval", "100ms", "--sort", "name")
        terminal.wait_for("by name, every 100ms")
        self.assertEqual((terminal.asked("alternate_on"), terminal.asked("cursor_flag")), ("1", "0"))
        self.assertEqual(len(terminal.lines()), 24)
        terminal.keys("?")
        terminal.wait_for("Ctrl-L draws the page anew")
        terminal.keys("x", "/", "0.9:")
        terminal.wait_for("/0.9:")
        terminal.wait_for(server.destination, gone=True)
        terminal.keys("Enter", "Escape")
        terminal.wait_for(server.destination)
        terminal.keys("s")
        terminal.wait_for("most waiting")
        terminal.resize(120, 40)
        terminal.wait_for("IN ROW")
        terminal.resize(30, 5)
        terminal.wait_for("too small")
        terminal.resize(40, 8)
        terminal.wait_for("DESTINATION")
        terminal.resize(200, 50)
        self.assertIn("LAST FAILURE", terminal.wait_for("test.policy ─"))
        terminal.keys("q")
        terminal.wait_for("ready$")
        self.assertEqual((terminal.asked("alternate_on"), terminal.asked("cursor_flag")), ("0", "1"))
        terminal.command("clear")
        terminal.command("sh", "-c", "echo status $?; stty -g")
        terminal.wait_for("status 0")  # until then the settings may still stand there from before
        terminal.wait_for(settings.strip())

    def test_a_sparkline_grows_with_each_look(self):
        good, bad = self.server(answer_http), self.server(reset_after_request)
        self.sandbox.guard(good, bad, failure_threshold=1)
        self.sandbox.run(["true"])
        terminal = self.terminal()
        for server, colour in (good, 32), (bad, 31), (bad, 33):  # it succeeds, fails and opens, is refused
            self.sandbox.run(["curl", "-s", server.url])
            terminal.wait_for_line(server.destination, f"\x1b\\[{colour}m[▁-█]", coloured=True)

    def test_only_what_was_asked_for(self):
        one, other = self.server(answer_http), self.server(answer_http)
        self.sandbox.policy(f"[{one.destination}]\n[{other.destination}]\n[mail]\nmatch = 127.0.0.9:1\n")
        self.sandbox.run(["true"])
        screen = self.terminal(other.destination, "mail", until="127.0.0.9:1").screen()
        self.assertIn(other.destination, screen)
        self.assertNotIn(one.destination, screen)
        self.assertIn("No policy in use has such a circuit", self.terminal("nobody", until="No policy").screen())


class Forcing(Top):
    def test_a_circuit_is_forced_open_closed_and_given_back_after_two_questions(self):
        server, beside = self.server(answer_http), self.server(answer_http)
        self.sandbox.guard(server, beside)
        client = Session(self.sandbox, [PYTHON, CLIENTS / "sockets.py"])
        self.assertEqual(client.ask(do="call", port=server.port), "answered")
        terminal = self.terminal(server.destination)
        terminal.keys("o")
        terminal.wait_for("For how long?")
        terminal.keys("1", "0", "m", "Enter")
        screen = terminal.wait_for("Sure?")
        self.assertIn("Every call to it fails at once. For 10m00s.", screen)
        self.assertIn(f"1 program runs under its policy, and obeys with the next call: pid {client.pid}", screen)
        self.assertIsNone(self.sandbox.circuit(server)["forced"], "not before the second answer")
        terminal.keys("n")
        terminal.wait_for("Sure?", gone=True)
        self.assertIsNone(self.sandbox.circuit(server)["forced"])
        terminal.keys("o", "Enter", "y")
        terminal.wait_for(f"{server.destination}: forced open, was closed; reached 1 program")
        terminal.keys("x")
        terminal.wait_for("open, forced")
        before = server.connections
        self.assertEqual(self.sandbox.run(["curl", "-s", server.url]).status, REFUSED_BY_CURL)
        self.assertNotEqual(client.ask(do="call", port=server.port), "answered")
        self.assertEqual(server.connections, before)
        self.assertEqual(client.ask(do="call", port=beside.port), "answered")
        terminal.keys("c", "Enter", "y")
        terminal.wait_for("forced closed, was forced open; reached 1 program")
        terminal.keys("x", "a", "Enter", "y")
        terminal.wait_for("given back, now closed, was forced closed; reached 1 program")
        self.assertEqual(client.ask(do="call", port=server.port), "answered")
        self.assertEqual([event["event"] for event in self.sandbox.events() if event["event"] == "forced"],
                         ["forced"] * 3)

    def test_one_circuit_alone_is_forced(self):
        """Another policy in use has a circuit of the same name."""
        server = self.server(answer_http)
        self.sandbox.guard(server)
        self.sandbox.run(["curl", "-s", server.url])
        other = os.path.join(self.sandbox.folder, "another.policy")
        with open(other, "w", encoding="ascii") as file:
            file.write(f"[{server.destination}]\n")
        self.sandbox.run([SOCKFUSE, "run", "-p", other, "--", "curl", "-s", server.url], "command")
        terminal = self.terminal()
        terminal.keys("/", "another", "Enter", "o", "Enter")
        terminal.wait_for("No program runs under its policy now")
        terminal.keys("y")
        terminal.wait_for("no program runs under")
        forced = {policy["policy"]: policy["circuits"][0]["forced"]
                  for policy in json.loads(self.sandbox.sockfuse("status", "--json").stdout)}
        self.assertEqual(forced, {os.path.realpath(other): "open", os.path.realpath(self.sandbox.policy_path): None})


class Terminals(Top):
    def setUp(self):
        super().setUp()
        self.silent = self.server(stay_silent)
        self.sandbox.guard(self.silent)
        self.hang(self.silent)

    def test_signals_leave_it_as_it_was(self):
        terminal = Terminal(self, self.sandbox, width=120)
        terminal.command("stty", "-g")
        settings = terminal.line_of(":").strip()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT):
            terminal.command("clear")
            terminal.command(SOCKFUSE, "top")
            terminal.wait_for("calls/s")
            os.kill(self.pid(terminal), number)
            terminal.wait_for("ready$")
            terminal.command("sh", "-c", "stty -g")
            terminal.wait_for(settings)
            self.assertEqual((terminal.asked("alternate_on"), terminal.asked("cursor_flag")), ("0", "1"), number)

    def test_it_stops_and_goes_on(self):
        terminal = Terminal(self, self.sandbox, width=120)
        terminal.command("stty", "-g")
        settings = terminal.line_of(":").strip()
        terminal.command("clear")
        terminal.command(SOCKFUSE, "top", "--interval", "100ms")
        terminal.wait_for("1 call waits")
        terminal.keys("C-z")
        terminal.wait_for("Stopped")
        self.assertEqual(terminal.asked("alternate_on"), "0")
        terminal.command("sh", "-c", "stty -g")
        terminal.wait_for(settings)
        terminal.resize(100, 30)
        terminal.command("fg")
        terminal.wait_for("calls/s")
        self.assertEqual(terminal.asked("alternate_on"), "1")
        os.kill(self.pid(terminal), signal.SIGSTOP)  # that nobody can take
        terminal.wait_for("Stopped")
        terminal.command("clear")
        terminal.command("fg")
        terminal.wait_for("1 call waits")
        self.assertEqual((terminal.asked("alternate_on"), len(terminal.lines())), ("1", 30))
        terminal.keys("q")
        terminal.wait_for("ready$")
        terminal.command("sh", "-c", "stty -g")
        terminal.wait_for(settings)

    def test_an_exit_status_tells_the_signal(self):
        terminal = Terminal(self, self.sandbox)
        terminal.command("sh", "-c", f"{SOCKFUSE} top; echo it was $?")
        terminal.wait_for("calls/s")
        (shell,) = services.children(terminal.shell)
        (pid,) = services.children(shell)
        os.kill(pid, signal.SIGTERM)
        terminal.wait_for("it was 143")

    def test_without_colours(self):
        for env in ({"NO_COLOR": "1"}, {"TERM": "vt100"}):
            terminal = self.terminal(env=env)
            self.sandbox.clock.advance_seconds(2)
            terminal.wait_for("calls/s")
            self.assertEqual(shown_colours(terminal.screen(coloured=True)), set())
            self.assertRegex(terminal.screen(), rf"(?m)^>{self.silent.destination}")
        self.assertTrue({32, 33} & shown_colours(self.terminal().screen(coloured=True)))

    def test_without_utf8(self):
        terminal = self.terminal(env={"LC_ALL": "C", "TERM": "vt100"})
        terminal.wait_for(f"-- {self.silent.destination} ---")
        self.assertTrue(terminal.screen().isascii())

    def test_what_is_no_such_terminal_is_told_what_to_use(self):
        terminal = Terminal(self, self.sandbox, width=120, env={"TERM": "dumb"})
        terminal.command(SOCKFUSE, "top")
        self.assertIn("'sockfuse status'", terminal.wait_for("TERM=dumb: on this kind"))
        terminal.command(SOCKFUSE, "top", "-p", "/nowhere/x.policy")
        terminal.wait_for("sockfuse: /nowhere/x.policy: ")
        for arguments in ({}, {"env": {"TERM": "xterm"}}):
            result = self.sandbox.run([SOCKFUSE, "top"], "command", **arguments)
            self.assertEqual((result.status, result.stdout), (1, ""))
            self.assertIn("it needs a terminal", result.stderr)
            self.assertIn("sockfuse status", result.stderr)
        for words in (["--interval", "soon"], ["--interval", "1ms"], ["--sort", "best"], ["--olden"]):
            self.assertEqual(self.sandbox.sockfuse("top", *words).status, 2, words)


class Segments(Top):
    def test_what_can_not_be_read_is_said_in_the_page(self):
        server = self.server(answer_http)
        self.sandbox.guard(server)
        self.sandbox.run(["curl", "-s", server.url])
        self.sandbox.popen(["sleep", "100"])
        self.assertTrue(eventually(lambda: self.sandbox.status()[0]["processes"], 30))
        path = self.sandbox.segment_path()
        with open(path, "rb") as file:
            whole = file.read()
        terminal = self.terminal()
        terminal.wait_for(server.destination)
        for change, told in ((lambda file: (file.seek(8), file.write(struct.pack("<I", 1000))), "newer build"),
                             (lambda file: file.write(b"\xff" * 4096), ".segment")):
            with open(path, "r+b") as file:
                change(file)
            terminal.wait_for(told)
            terminal.wait_for(server.destination, gone=True)
            with open(path, "r+b") as file:
                file.write(whole[:4096])
            terminal.wait_for(server.destination)
        with open(path, "r+b") as file:
            file.truncate(1000)
        terminal.wait_for(".segment")
        os.unlink(path)
        terminal.wait_for("No policy is in use")
        os.rename(self.sandbox.state, self.sandbox.state + ".away")
        with open(self.sandbox.state, "w", encoding="ascii") as file:
            file.write("no folder")
        terminal.wait_for("can't be read")
        terminal.keys("n")
        terminal.wait_for("Notes")
        terminal.keys("x", "q")
        terminal.wait_for("ready$")

    def test_while_64_processes_write(self):
        server = self.server(answer_http)
        self.sandbox.guard(server)
        storm(self, self.sandbox, server)
        terminal = self.terminal(width=120)
        terminal.wait_for(server.destination)
        for _ in range(20):
            terminal.keys("Down", "?", "x", "s")
            self.assertIn("sockfuse top", terminal.screen())
        terminal.keys("q")
        terminal.wait_for("ready$")

    def test_names_drive_no_terminal(self):
        evil = "a\x1b]0;t\x07\x1b[31m\u009b1m\r\x08.policy"
        path = os.path.join(self.sandbox.folder, evil)
        with open(path, "w", encoding="utf-8") as file:
            file.write("[127.0.0.9:1]\n")
        self.sandbox.run([SOCKFUSE, "run", "-p", path, "--", "true"], "command")
        terminal = self.terminal(width=200)
        self.assertIn(r"\x1b", terminal.wait_for("127.0.0.9:1"))
        self.assertNotEqual(terminal.asked("pane_title"), "t")


@unittest.skipUnless(os.geteuid() == 0, "only root can be several users")
class Everybody(Top):
    def test_root_sees_and_forces_other_users_circuits(self):
        uid = 1_000_000 + os.getpid() % 100_000 * 10 + 7
        os.chmod(self.sandbox.folder, 0o755)
        os.mkdir(self.sandbox.state, 0o700)
        os.chown(self.sandbox.state, uid, uid)
        server = self.server(answer_http)
        self.sandbox.guard(server)
        os.chmod(self.sandbox.clock.path, 0o644)
        self.sandbox.popen(["sleep", "100"], user=uid, group=uid, extra_groups=[])
        terminal = self.terminal(width=120)
        terminal.wait_for(f"(user {uid})")
        terminal.keys("o", "Enter", "y")
        terminal.wait_for("forced open, was closed; reached 1 program")


class WithoutCurses(unittest.TestCase):
    def test_a_build_without_it_says_how_to_get_it(self):
        sandbox = Sandbox(self)
        own = os.path.join(sandbox.folder, "sockfuse")
        objects = [str(BUILD / os.path.relpath(path, ROOT))[:-1] + "o"
                   for room in ("view", "cli", "base", "breaker", "policy", "segment", "guard", "notify")
                   for path in glob.glob(str(ROOT / "src" / room / "*.c")) if not path.endswith("top_terminal.c")]
        libraries = [subprocess.run(["cc", f"-print-file-name={name}"], check=True, capture_output=True,
                                    text=True).stdout.strip() for name in ("libbsd.a", "libmd.a")]
        if os.path.exists(objects[0][:-1] + "gcno"):  # they count
            libraries.append("-lgcov")
        subprocess.run(["cc", "-std=gnu11", "-Isrc", "-fno-lto", "src/cli/top_terminal.c", *objects, *libraries,
                        "-o", own], check=True, cwd=ROOT)
        result = sandbox.run([own, "top"], "command")
        self.assertEqual((result.status, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"without ncurses.*libncurses-dev.*sockfuse status")
        self.assertEqual(sandbox.run([own, "status"], "command").status, 0)


if __name__ == "__main__":
    unittest.main()
