"""`sockfuse run` and the policies that programs get: exit statuses, warnings, bad policies, modes."""
import os
import shutil
import signal
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, BARE, IDLE, PRELOAD, REFUSED_BY_CURL, RESET_BY_CURL, RUN, SOCKFUSE,  # noqa: E402
                      ParallelSuite, Sandbox, Server, answer_http, end_after_request, reset_after_request, stay_silent)

load_tests = ParallelSuite.load(4)
BAD_POLICY = "[defaults]\nfailure_threshold = 3\n\n[payments]\nmatch = 127.0.0.1:443\nreset_timeuot = 10s\n"


class Run(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def serve(self, behaviour=answer_http, **keywords):
        server = Server(behaviour, **keywords)
        self.addCleanup(server.stop)
        return server

    def guard(self, behaviour=answer_http, **policy):
        self.server = self.serve(behaviour)
        self.sandbox.guard(self.server, **policy)
        return self.server

    def curl(self, *options, how=RUN, env=None):
        return self.sandbox.run(["curl", "-sS", *options, self.server.url], how, env)

    def program(self, name, source, *flags):
        path = os.path.join(self.sandbox.folder, name)
        subprocess.run(["gcc", "-x", "c", "-", "-o", path, *flags], input=source, text=True, check=True)
        return path


class ExitStatus(Run):
    """As env(1) has it: 125 sockfuse failed, 126 can't be executed, 127 not found; else the program's own."""

    def test_the_programs_status_is_its_own(self):
        self.guard()
        for status in (0, 1, 7, 125, 126, 127, 255):
            self.assertEqual(self.sandbox.run(["sh", "-c", f"exit {status}"]).output, ("", "", status))

    def test_a_signal_that_ends_the_program_is_its_own(self):
        self.guard()
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGPIPE):
            self.assertEqual(self.sandbox.run(["sh", "-c", f"kill -{int(number)} $$"]).status, -number)

    def test_the_program_has_the_pid_of_run(self):
        self.guard()
        process = self.sandbox.popen(["sh", "-c", "echo $$"], stdout=subprocess.PIPE)
        self.assertEqual(int(process.stdout.readline()), process.pid)

    def test_a_program_that_is_not_found_is_127(self):
        self.guard()
        result = self.sandbox.run(["no-such-program-anywhere"])
        self.assertEqual((result.status, result.stdout), (127, ""))
        self.assertRegex(result.stderr, r"\Asockfuse: .*no-such-program-anywhere.*\n\Z")

    def test_a_file_that_is_no_program_is_126(self):
        self.guard()
        result = self.sandbox.run(["/etc/passwd"])
        self.assertEqual((result.status, result.stdout), (126, ""))
        self.assertRegex(result.stderr, r"(?m)\Asockfuse: .*/etc/passwd")

    def test_run_without_a_policy_is_125(self):
        self.assertEqual(self.sandbox.sockfuse("run", "-p", "/nonexistent/policy", "--", "true").status, 125)

    def test_run_without_a_program_is_125(self):
        self.guard()
        self.assertEqual(self.sandbox.sockfuse("run", "-p", self.sandbox.policy_path).status, 125)

    def test_an_unknown_option_is_125(self):
        self.assertEqual(self.sandbox.sockfuse("run", "--no-such-option", "--", "true").status, 125)

    def test_options_of_the_program_are_its_own(self):
        self.guard()
        for words in (["--", "printf", "%s\n", "-p"], ["printf", "%s\n", "-p"]):
            result = self.sandbox.sockfuse("run", "-p", self.sandbox.policy_path, *words)
            self.assertEqual(result.output, ("-p\n", "", 0))


class BadPolicy(Run):
    def setUp(self):
        super().setUp()
        self.server = self.serve()
        self.sandbox.policy(BAD_POLICY)

    def test_run_refuses_to_start_and_says_where_and_what_is_meant(self):
        result = self.curl()
        self.assertEqual((result.status, result.stdout), (125, ""))
        self.assertIn(f"{self.sandbox.policy_path}:6:", result.stderr)
        self.assertIn("reset_timeuot", result.stderr)
        self.assertIn("reset_timeout", result.stderr, "the nearest known key")
        self.assertEqual(self.server.connections, 0)

    def test_under_a_bare_preload_the_program_runs_unguarded_with_one_line(self):
        result = self.curl(how=PRELOAD)
        self.assertEqual((result.status, result.stdout), (0, ANSWER.decode()))
        self.assertRegex(result.stderr, r"\Asockfuse: [^\n]+\n\Z")
        self.assertIn(f"{self.sandbox.policy_path}:6:", result.stderr)

    def test_so_it_is_with_a_policy_that_is_missing_unreadable_or_no_text(self):
        folder = os.path.join(self.sandbox.folder, "folder.policy")
        os.mkdir(folder)
        binary = os.path.join(self.sandbox.folder, "binary.policy")
        with open(binary, "wb") as file:
            file.write(os.urandom(4096))
        for path in ("/nonexistent/a.policy", folder, binary, "/dev/null/x"):
            with self.subTest(path):
                result = self.curl(how=PRELOAD, env={"SOCKFUSE_POLICY": path})
                self.assertEqual((result.status, result.stdout), (0, ANSWER.decode()))
                self.assertRegex(result.stderr, r"\Asockfuse: [^\n]+\n\Z")
                refused = self.sandbox.sockfuse("run", "-p", path, "--", "true")
                self.assertEqual(refused.status, 125)
                self.assertRegex(refused.stderr, r"\Asockfuse: ")

    def test_a_state_folder_that_can_not_be_made_leaves_the_program_unguarded_with_one_line(self):
        self.sandbox.guard(self.server)
        result = self.curl(how=PRELOAD, env={"SOCKFUSE_STATE": "/proc/no/such/folder"})
        self.assertEqual((result.status, result.stdout), (0, ANSWER.decode()))
        self.assertRegex(result.stderr, r"\Asockfuse: [^\n]+\n\Z")


class Warnings(Run):
    """`run` starts what it can't guard all the same, and says so beforehand."""

    def preloaded(self, argv, env=None):
        """Without the second engine, which guards most of these: test_notify.py."""
        return self.sandbox.run([SOCKFUSE, "run", "-p", self.sandbox.policy_path, "--engine", "preload", "--", *argv],
                                "command", env)

    def unguarded(self, argv, *words):
        self.guard()
        result = self.preloaded(argv)
        self.assertEqual(result.status, 3, result)
        first = result.stderr.splitlines()[0]
        self.assertRegex(first, r"\Asockfuse: ")
        for word in words:
            self.assertRegex(first, word)
        return result

    SOURCE = "int main(void) { return 3; }"

    def test_a_static_program(self):
        self.unguarded([self.program("static", self.SOURCE, "-static")], "static")

    def test_a_static_pie_program(self):
        self.unguarded([self.program("static-pie", self.SOURCE, "-static-pie")], "static")

    def test_a_script_whose_interpreter_is_static(self):
        interpreter = self.program("interpreter", self.SOURCE, "-static")
        script = os.path.join(self.sandbox.folder, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#! {interpreter} -x\nnothing\n")
        os.chmod(script, 0o755)
        self.unguarded([script], "static", "interpreter")

    def test_a_set_user_id_program(self):
        program = self.program("set-user-id", self.SOURCE)
        shutil.chown(program, "nobody")
        os.chmod(program, 0o755 | stat.S_ISUID)
        self.unguarded([program], "(?i)set-user-id|setuid")

    def test_a_static_program_found_through_path(self):
        self.program("found-by-path", self.SOURCE, "-static")
        self.guard()
        path = self.sandbox.folder + ":" + os.environ["PATH"]
        result = self.preloaded(["found-by-path"], {"PATH": path})
        self.assertEqual(result.status, 3)
        self.assertIn("static", result.stderr)

    def test_ordinary_programs_and_scripts_start_without_a_word(self):
        self.guard()
        script = os.path.join(self.sandbox.folder, "script")
        for interpreter in ("#!/bin/sh", "#!/usr/bin/env sh", "#! /bin/sh -e", ""):
            with open(script, "w", encoding="ascii") as file:
                file.write(f"{interpreter}\nexit 3\n")
            os.chmod(script, 0o755)
            if interpreter:
                self.assertEqual(self.sandbox.run([script]).output, ("", "", 3), interpreter)
        self.assertEqual(self.sandbox.run([self.program("plain", self.SOURCE)]).output, ("", "", 3))


class WhichPolicy(Run):
    """SOCKFUSE_POLICY; else by the program's name from the folders of policies."""

    def setUp(self):
        super().setUp()
        self.server = self.serve(reset_after_request)
        self.config = os.path.join(self.sandbox.folder, "config")
        os.makedirs(os.path.join(self.config, "sockfuse"))

    def file(self, name, threshold):
        path = os.path.join(self.config, "sockfuse", name)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"[{self.server.destination}]\nfailure_threshold = {threshold}\n")
        return path

    def threshold(self, path):
        result = self.sandbox.sockfuse("status", "-p", path, "--json")
        self.assertEqual(result.status, 0, result.stderr)
        self.sandbox.policy_path = path
        circuits = [circuit for circuit in self.sandbox.circuits() if circuit["counters"]["admitted"]]
        return circuits[0]["failure_threshold"] if circuits else None

    def preloaded(self, argv, **env):
        return self.sandbox.run(argv, IDLE, {"XDG_CONFIG_HOME": self.config, **env})

    def test_a_program_gets_the_policy_of_its_name(self):
        curl, wget = self.file("curl.policy", 11), self.file("wget.policy", 12)
        self.preloaded(["curl", "-sS", self.server.url])
        self.assertEqual(self.threshold(curl), 11)
        self.assertIsNone(self.threshold(wget))
        self.preloaded(["wget", "-q", "-t", "1", "-O", "-", self.server.url])
        self.assertEqual(self.threshold(wget), 12)

    def test_one_preload_for_a_whole_tree_gives_each_program_its_own(self):
        curl, nc = self.file("curl.policy", 11), self.file("nc.policy", 13)
        script = (f"curl -sS {self.server.url}; "
                  f"echo x | nc -N {self.server.address} {self.server.port}; true")
        self.preloaded(["sh", "-c", script])
        self.assertEqual((self.threshold(curl), self.threshold(nc)), (11, 13))

    def test_a_program_without_a_policy_of_its_own_gets_the_default(self):
        curl, default = self.file("curl.policy", 11), self.file("default.policy", 14)
        self.preloaded(["wget", "-q", "-t", "1", "-O", "-", self.server.url])
        self.assertEqual((self.threshold(default), self.threshold(curl)), (14, None))

    def test_sockfuse_policy_goes_before_all(self):
        curl = self.file("curl.policy", 11)
        self.sandbox.guard(self.server, failure_threshold=15)
        named = self.sandbox.policy_path
        self.preloaded(["curl", "-sS", self.server.url], SOCKFUSE_POLICY=named)
        self.assertEqual((self.threshold(named), self.threshold(curl)), (15, None))

    def test_a_program_that_no_policy_names_is_left_alone(self):
        self.file("wget.policy", 12)
        bare = self.sandbox.run(["curl", "-sS", self.server.url], BARE)
        self.assertEqual(self.preloaded(["curl", "-sS", self.server.url]).output, bare.output)
        self.assertFalse(os.path.exists(self.sandbox.state) and os.listdir(self.sandbox.state))

    def test_two_names_of_one_file_are_two_policies(self):
        self.sandbox.guard(self.server, failure_threshold=2)
        link = os.path.join(self.sandbox.folder, "link.policy")
        os.symlink(self.sandbox.policy_path, link)
        for _ in range(2):
            self.assertEqual(self.curl(how=PRELOAD).status, RESET_BY_CURL)
        self.assertEqual(self.curl().status, REFUSED_BY_CURL)
        other = {"SOCKFUSE_POLICY": os.path.join(self.sandbox.folder, ".", "link.policy")}
        self.assertEqual([self.curl(how=PRELOAD, env=other).status for _ in range(3)],
                         [RESET_BY_CURL, RESET_BY_CURL, REFUSED_BY_CURL])


class OnTheSpot(Run):
    """`run -t PATTERN -o KEY=VALUE`: no file needed."""

    def run_on_the_spot(self, *options):
        return self.sandbox.sockfuse("run", "-t", self.server.destination, *options, "--", "curl", "-sS",
                                     self.server.url)

    def test_runs_with_the_same_targets_share_their_circuits(self):
        self.server = self.serve(reset_after_request)
        options = "-o", "failure_threshold=2", "-o", "recovery_timeout = 10s"
        for _ in range(2):
            self.assertEqual(self.run_on_the_spot(*options).status, RESET_BY_CURL)
        self.assertEqual(self.run_on_the_spot("-o", "reset_timeout=10000ms", *options[:2]).status, REFUSED_BY_CURL)
        self.assertEqual(self.run_on_the_spot(*options[:2]).status, RESET_BY_CURL, "other options, other circuits")
        self.assertEqual(self.server.connections, 3)

    def test_a_bad_value_is_125(self):
        self.server = self.serve()
        for option in ("failure_threshold=many", "no_such_key=1", "reset_timeout=10"):
            result = self.run_on_the_spot("-o", option)
            self.assertEqual((result.status, result.stdout), (125, ""), option)
            self.assertIn(option.split("=")[0], result.stderr)

    def test_options_go_over_the_file(self):
        self.guard(reset_after_request, failure_threshold=50, failure_rate=0)
        command = ["run", "-p", self.sandbox.policy_path, "-o", "failure_threshold=1", "--", "curl", "-sS",
                   self.server.url]
        self.assertEqual(self.sandbox.sockfuse(*command).status, RESET_BY_CURL)
        self.assertEqual(self.sandbox.sockfuse(*command).status, REFUSED_BY_CURL)


class Modes(Run):
    def trip(self, times, **policy):
        self.guard(reset_after_request, **policy)
        return [self.curl().status for _ in range(times)]

    def test_observe_counts_and_never_refuses(self):
        self.assertEqual(self.trip(4, failure_threshold=2, mode="observe"), [RESET_BY_CURL] * 4)
        self.assertEqual(self.server.connections, 4)
        circuit = self.sandbox.circuit(self.server)
        counters = circuit["counters"]
        self.assertEqual(counters["admitted"], 4, circuit)
        # An open circuit would have refused the later ones: their outcomes are late.
        self.assertEqual(counters["failed"] + counters["late"], 4, circuit)

    def test_off_does_not_even_count(self):
        self.assertEqual(self.trip(3, failure_threshold=1, mode="off"), [RESET_BY_CURL] * 3)
        self.assertEqual(sum(circuit["counters"]["failed"] for circuit in self.sandbox.circuits()), 0)

    def test_closed_never_refuses(self):
        self.assertEqual(self.trip(3, failure_threshold=1, mode="closed"), [RESET_BY_CURL] * 3)

    def test_open_always_refuses(self):
        self.guard(answer_http, mode="open")
        self.assertEqual(self.curl().status, REFUSED_BY_CURL)
        self.assertEqual(self.server.connections, 0)

    def test_scope_process_keeps_circuits_to_each_process(self):
        self.assertEqual(self.trip(3, failure_threshold=1, scope="process"), [RESET_BY_CURL] * 3)

    def test_on_open_chooses_the_error(self):
        self.guard(answer_http, mode="open", on_open="ETIMEDOUT")
        result = self.sandbox.run(["nc", "-v", self.server.address, self.server.port])
        self.assertIn("Connection timed out", result.stderr)

    def test_success_connect_is_enough_for_one_way_protocols(self):
        self.guard(end_after_request, failure_threshold=1, success="connect")
        for _ in range(3):
            self.sandbox.run(["nc", "-N", "-w", "5", self.server.address, self.server.port], stdin=b"<13>a line\n")
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("closed", 0), circuit)
        self.assertEqual(circuit["counters"]["succeeded"], 3, circuit)

    def test_kinds_that_are_not_listed_do_not_count(self):
        self.guard(reset_after_request, failure_threshold=1, failures="refused connect-timeout")
        self.assertEqual([self.curl().status for _ in range(3)], [RESET_BY_CURL] * 3)
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "closed")

    def test_a_program_that_gives_up_sooner_than_abandon_after_has_cancelled(self):
        self.guard(stay_silent, failure_threshold=1, abandon_after="50s")
        self.assertEqual(self.curl("--max-time", "1").status, 28)
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("closed", 0), circuit)
        self.assertEqual(circuit["counters"]["neutral"], 1, circuit)


class Words(Run):
    """What the commands say: help and versions go to stdout, errors to stderr."""

    def test_every_command_explains_itself(self):
        for words in (["-h"], ["--version"], *([name, "-h"] for name in ("run", "check", "status", "events"))):
            result = self.sandbox.run([SOCKFUSE, *words], BARE)
            self.assertEqual((result.status, result.stderr), (0, ""), words)
            self.assertIn("sockfuse", result.stdout)


if __name__ == "__main__":
    unittest.main()
