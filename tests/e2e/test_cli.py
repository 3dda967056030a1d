"""The command line as its users type it: words and options, what programs are given, what is shown, and how it ends."""
import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (LIBRARY, PYTHON, RUN, SOCKFUSE, ParallelSuite, Sandbox, Server,  # noqa: E402
                      answer_http, eventually, printed_on_a_terminal, reset_after_request, stay_silent)

load_tests = ParallelSuite.load(4)
NOBODY = 65534
SOURCE = "int main(void) { return 3; }"


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def sockfuse(self, *words, **keywords):
        return self.sandbox.sockfuse(*words, **keywords)

    def serve(self, behaviour=answer_http):
        server = Server(behaviour)
        self.addCleanup(server.stop)
        return server

    def closed_port(self):
        """A port of this test's own that refuses."""
        server = self.serve()
        server.down()
        return server

    def fails(self, result, status, *patterns):
        """It says what is wrong on stderr, as sockfuse, and nothing on stdout."""
        self.assertEqual((result.status, result.stdout), (status, ""), result)
        self.assertRegex(result.stderr, r"\Asockfuse: ")
        for pattern in patterns:
            self.assertRegex(result.stderr, pattern)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.sandbox.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def program(self, name, *flags, source=SOURCE):
        path = os.path.join(self.sandbox.folder, name)
        subprocess.run(["gcc", "-x", "c", "-", "-o", path, *flags], input=source, text=True, check=True)
        return path

    def given(self, *options, env=None, command=("/usr/bin/env", "-0")):
        """What the program finds in its environment."""
        result = self.sockfuse("run", *options, "--", *command, env=env)
        self.assertEqual((result.status, result.stderr), (0, ""))
        return dict(word.split("=", 1) for word in result.stdout.split("\0") if word)


class Words(CommandLine):
    def test_an_unknown_command_is_told_the_nearest(self):
        for word, meant in (("statsu", "status"), ("stat", "status"), ("ru", "run"), ("event", "events"),
                            ("chekc", "check")):
            self.fails(self.sockfuse(word), 2, rf"'{word}'.*'{meant}'")
        for word in ("frobnicate", "", "x"):
            self.fails(self.sockfuse(word), 2, rf"unknown command '{word}'; 'sockfuse -h'")

    def test_an_unknown_option_is_told_with_the_way_to_the_help(self):
        for command in ("status", "events", "check"):
            self.fails(self.sockfuse(command, "--no-such-option"), 2, "--no-such-option", f"sockfuse {command} -h")
        self.fails(self.sockfuse("run", "-x", "true"), 125, "'x'", "sockfuse run -h")
        self.fails(self.sockfuse("-x"), 2, "'-x'")
        self.fails(self.sockfuse("--json", "status"), 2, "behind the command")

    def test_words_that_no_command_takes_are_refused(self):
        self.fails(self.sockfuse("status", "some.policy"), 1, "some.policy.*-p FILE")
        self.fails(self.sockfuse("status", "some.policy", "other"), 2, "other")
        self.fails(self.sockfuse("events", "some.policy"), 2, "some.policy.*-p FILE")
        self.fails(self.sockfuse("status", "-p"), 2, "argument")

    def test_help_lists_every_command_and_each_explains_itself(self):
        listed = self.sockfuse("-h")
        self.assertEqual((listed.status, listed.stderr), (0, ""))
        commands = re.findall(r"(?m)^  ([a-z]+) +\S", listed.stdout)
        self.assertGreaterEqual(set(commands), {"run", "check", "status", "events"})
        for command in commands:
            if command == "sockfuse":
                continue
            own = self.sockfuse(command, "-h")
            self.assertEqual((own.status, own.stderr), (0, ""), command)
            self.assertRegex(own.stdout, rf"\AUsage: sockfuse {command} ")
            self.assertEqual(self.sockfuse("help", command).output, own.output)
            self.assertEqual(self.sockfuse(command, "--help").output, own.output)
            version = self.sockfuse(command, "--version")
            self.assertRegex(version.stdout, r"\Asockfuse \d+\.\d+\.\d+\n\Z")
        self.assertEqual(self.sockfuse("help").output, listed.output)
        self.assertEqual(self.sockfuse("--help").output, listed.output)
        self.fails(self.sockfuse("help", "frobnicate"), 2, "frobnicate")

    def test_bare_it_shows_the_status_or_the_help_when_there_is_nothing_to_show(self):
        self.assertEqual(self.sockfuse().output, self.sockfuse("-h").output)
        server = self.closed_port()
        self.sandbox.guard(server)
        self.sandbox.run(["true"])
        bare, named = (re.sub(r"end \S+ ago", "", self.sockfuse(*words).stdout) for words in ((), ("status",)))
        self.assertIn("No process is attached", bare)
        self.assertEqual(bare, named)
        self.assertIn(server.destination, self.sockfuse().stdout)

    def test_messages_bear_one_name_however_it_was_called(self):
        link = os.path.join(self.sandbox.folder, "fuse")
        os.symlink(SOCKFUSE, link)
        result = self.sandbox.run([link, "status", "-x"], "command")
        self.assertRegex(result.stderr, r"\Asockfuse: ")


class Environment(CommandLine):
    """What `run` gives to the program."""

    def test_the_library_by_its_real_path_and_the_policy_by_its_name(self):
        self.sandbox.policy("[127.0.0.1:1]\n")
        link = os.path.join(self.sandbox.folder, "link.policy")
        os.symlink("test.policy", link)
        found = self.given("-p", ".//link.policy")
        self.assertEqual(found["LD_PRELOAD"], str(LIBRARY))
        self.assertEqual(found["SOCKFUSE_POLICY"], os.path.join(os.path.realpath(self.sandbox.folder), "link.policy"))
        self.assertNotIn("SOCKFUSE_TARGETS", found)
        self.assertNotIn("SOCKFUSE_OPTIONS", found)
        self.assertNotIn("SOCKFUSE_LOG", found)

    def test_nothing_else_is_changed(self):
        self.sandbox.policy("[127.0.0.1:1]\n")
        before = self.sandbox.environment("command", {"ODD": "a b'\"$\n=é", "EMPTY": ""})
        found = self.given("-p", "test.policy", env={"ODD": "a b'\"$\n=é", "EMPTY": ""})
        for name in ("LD_PRELOAD", "SOCKFUSE_POLICY", "SOCKFUSE_RUN"):
            del found[name]
        self.assertEqual(found, before)

    def test_targets_and_options_on_the_spot(self):
        found = self.given("-t", "127.0.0.1:1", "-t", "127.0.0.1:2  [::1]:3", "-o", "failure_threshold=2", "-o",
                           "failures = refused reset")
        self.assertEqual(found["SOCKFUSE_TARGETS"], "127.0.0.1:1 127.0.0.1:2 [::1]:3")
        self.assertEqual(found["SOCKFUSE_OPTIONS"], "failure_threshold=2\nfailures = refused reset")
        self.assertNotIn("SOCKFUSE_POLICY", found)

    def test_a_file_and_targets_together(self):
        self.sandbox.policy("[127.0.0.1:1]\n")
        found = self.given("-p", "test.policy", "-t", "127.0.0.1:2")
        self.assertEqual((found["SOCKFUSE_POLICY"], found["SOCKFUSE_TARGETS"]),
                         (os.path.realpath(self.sandbox.policy_path), "127.0.0.1:2"))

    def test_the_library_goes_before_other_preloads_and_only_once(self):
        other = self.program("other.so", "-shared", "-fPIC")
        copy = shutil.copy(LIBRARY, self.sandbox.folder)
        foreign = self.program("notlibsockfuse.so", "-shared", "-fPIC")
        found = self.given("-t", "127.0.0.1:1", env={"LD_PRELOAD": foreign})
        self.assertEqual(found["LD_PRELOAD"], f"{LIBRARY}:{foreign}")
        for before in (other, f"{other}:{LIBRARY}", f"{LIBRARY} {other}", f":{other}: ", f"{other}:{copy}"):
            found = self.given("-t", "127.0.0.1:1", command=("env", "-0"), env={"LD_PRELOAD": before})
            self.assertEqual(found["LD_PRELOAD"], f"{LIBRARY}:{other}", before)
        self.assertEqual(self.given("-t", "127.0.0.1:1", env={"LD_PRELOAD": ""})["LD_PRELOAD"], str(LIBRARY))

    def test_a_run_inside_a_run_has_its_own_policy(self):
        self.sandbox.policy("[127.0.0.1:1]\n")
        found = self.given("-t", "127.0.0.1:2", "-o", "jitter=0%", command=(SOCKFUSE, "run", "-p", "test.policy",
                                                                           "env", "-0"))
        self.assertEqual(found["SOCKFUSE_POLICY"], os.path.realpath(self.sandbox.policy_path))
        self.assertNotIn("SOCKFUSE_TARGETS", found)
        self.assertNotIn("SOCKFUSE_OPTIONS", found)
        self.assertEqual(found["LD_PRELOAD"], str(LIBRARY))
        found = self.given("-p", "test.policy", command=(SOCKFUSE, "run", "-t", "127.0.0.1:2", "env", "-0"))
        self.assertNotIn("SOCKFUSE_POLICY", found)
        self.assertEqual(found["SOCKFUSE_TARGETS"], "127.0.0.1:2")

    def test_a_run_inside_a_run_that_names_no_policy_keeps_the_outer_one(self):
        inner = (SOCKFUSE, "run", "env", "-0")
        found = self.given("-t", "127.0.0.1:2", "-o", "jitter=0%", command=inner)
        self.assertEqual((found["SOCKFUSE_TARGETS"], found["SOCKFUSE_OPTIONS"]), ("127.0.0.1:2", "jitter=0%"))
        self.sandbox.policy("[127.0.0.1:1]\n")
        found = self.given("-p", "test.policy", command=inner)
        self.assertEqual(found["SOCKFUSE_POLICY"], os.path.realpath(self.sandbox.policy_path))

    def test_paths_mean_the_same_after_the_program_has_changed_its_folder(self):
        with open(os.path.join(self.sandbox.folder, "now"), "wb") as file:
            file.write(bytes(8))
        found = self.given("-t", "127.0.0.1:1", "--log", "the.log",
                           env={"SOCKFUSE_STATE": "here", "SOCKFUSE_CLOCK": "now"})
        for name, word in (("STATE", "here"), ("LOG", "the.log"), ("CLOCK", "now")):
            self.assertEqual(found["SOCKFUSE_" + name], os.path.join(self.sandbox.folder, word))
        found = self.given("-t", "127.0.0.1:1", env={"SOCKFUSE_LOG": "other.log"})
        self.assertEqual(found["SOCKFUSE_LOG"], os.path.join(self.sandbox.folder, "other.log"))
        for words, env in ((("--log", "stderr"), {}), ((), {"SOCKFUSE_LOG": "stderr"})):
            self.assertEqual(self.given("-t", "127.0.0.1:1", *words, env=env)["SOCKFUSE_LOG"], "stderr")

    def test_the_programs_words_arrive_as_they_are(self):
        words = ["a b", "", "'\"\\$(x)`y`*?", "é\n\t", "-p", "--", "-h", "--version", "-t"]
        for separator in (("--",), ()):
            result = self.sockfuse("run", "-t", "127.0.0.1:1", *separator, "printf", "%s\\0", *words)
            self.assertEqual(result.output, ("".join(word + "\0" for word in words), "", 0))

    def test_the_first_word_that_is_no_option_is_the_program(self):
        result = self.sockfuse("run", "-t", "127.0.0.1:1", "echo", "-p", "x", "--log")
        self.assertEqual(result.output, ("-p x --log\n", "", 0))


class Refusals(CommandLine):
    """Exit status 125: whatever is wrong is said before the program starts."""

    def fails_to_run(self, *patterns, options=("-t", "127.0.0.1:1"), env=None, sockfuse=SOCKFUSE):
        mark = os.path.join(self.sandbox.folder, "mark")
        result = self.sandbox.run([sockfuse, "run", *options, "--", "touch", mark], "command", env)
        self.fails(result, 125, *patterns)
        self.assertFalse(os.path.exists(mark), "the program was started")

    def test_no_policy_anywhere(self):
        self.fails_to_run("no policy for touch", "-p FILE", "-t HOST:PORT", options=())

    def test_a_policy_with_errors_is_told_line_by_line(self):
        self.sandbox.policy("[a:1]\nfoo = 1\nreset_timeout = 3\n")
        name = re.escape(self.sandbox.policy_path)
        self.fails_to_run(rf"(?m)^sockfuse: {name}:2: error: .*foo",
                          rf"(?m)^sockfuse: {name}:3: error: .*reset_timeout",
                          options=("-p", self.sandbox.policy_path))

    def test_warnings_of_a_policy_are_told_and_the_program_starts(self):
        self.sandbox.policy("# nothing yet\n")
        result = self.sockfuse("run", "-p", self.sandbox.policy_path, "echo", "started")
        self.assertEqual((result.status, result.stdout), (0, "started\n"))
        self.assertRegex(result.stderr, rf"\Asockfuse: {re.escape(self.sandbox.policy_path)}(:\d+)?: warning: .*\n\Z")

    def test_a_pattern_or_an_option_that_is_none(self):
        self.fails_to_run("nonsense", options=("-t", "nonsense"))
        self.fails_to_run("KEY=VALUE", "-o reset_timeout=30s", options=("-t", "a:1", "-o", "reset_timeout"))
        self.fails_to_run("KEY=VALUE", options=("-t", "a:1", "-o", "a=1\nb=2"))
        self.fails_to_run("more than 64", "policy file", options=("-t", " ".join(f"a:{port}" for port in range(1, 66))))

    def starts_unguarded_or_not_at_all(self, *patterns, state):
        """With one line that says where and why; without the library, which would say it again."""
        result = self.sockfuse("run", "-t", "127.0.0.1:1", "--", "printenv", "LD_PRELOAD", env={"SOCKFUSE_STATE": state})
        self.assertEqual((result.stdout, result.status), ("", 1))
        for pattern in ("unguarded", "SOCKFUSE_STATE", "--strict", *patterns):
            self.assertRegex(result.stderr, rf"\Asockfuse: .*{pattern}.*\n\Z")
        self.fails_to_run(*patterns, "SOCKFUSE_STATE", options=("--strict", "-t", "127.0.0.1:1"),
                          env={"SOCKFUSE_STATE": state})

    def test_a_state_folder_that_can_not_be_used(self):
        self.starts_unguarded_or_not_at_all("/proc/none", "no such file", state="/proc/none")
        self.write("file", "")
        self.starts_unguarded_or_not_at_all("file", "not a folder", state=os.path.join(self.sandbox.folder, "file"))
        open_to_all = os.path.join(self.sandbox.folder, "open")
        os.mkdir(open_to_all)
        os.chmod(open_to_all, 0o777)
        self.starts_unguarded_or_not_at_all("open", "700", state=open_to_all)

    def test_a_state_folder_that_this_user_may_not_write(self):
        os.chmod(self.sandbox.folder, 0o755)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", SOCKFUSE, "run", "-t", "127.0.0.1:1"]
        result = self.sandbox.run([*as_nobody, "--strict", "echo"], "command")
        self.fails(result, 125, re.escape(self.sandbox.state), "SOCKFUSE_STATE")
        result = self.sandbox.run([*as_nobody, "echo", "started"], "command")
        self.assertEqual((result.stdout, result.status), ("started\n", 0))
        self.assertRegex(result.stderr, rf"\Asockfuse: {re.escape(self.sandbox.state)}.*permission denied.*\n\Z")

    def test_circuits_of_the_process_alone_need_no_state_folder(self):
        result = self.sockfuse("run", "-t", "127.0.0.1:1", "-o", "scope=process", "echo", "started",
                               env={"SOCKFUSE_STATE": "/proc/none"})
        self.assertEqual(result.output, ("started\n", "", 0))

    def test_a_log_may_be_a_pipe_that_nobody_reads_yet(self):
        pipe = os.path.join(self.sandbox.folder, "pipe")
        os.mkfifo(pipe)
        result = self.sockfuse("run", "-t", "127.0.0.1:1", "--log", pipe, "echo", "started", timeout=10)
        self.assertEqual(result.output, ("started\n", "", 0))

    def test_a_log_that_can_not_be_written(self):
        self.fails_to_run("/proc/none", "stderr", options=("-t", "127.0.0.1:1", "--log", "/proc/none"))

    def copied(self, folder, library=True):
        """A copy of the command in a folder of its own."""
        folder = os.path.join(self.sandbox.folder, folder)
        os.mkdir(folder)
        shutil.copy(SOCKFUSE, folder)
        if library:
            shutil.copy(LIBRARY, folder)
        return os.path.join(folder, "sockfuse")

    def test_a_library_that_is_missing(self):
        installed = "/usr/local/lib/sockfuse/libsockfuse.so"
        if os.path.exists(installed):
            self.skipTest(f"{installed} is installed")
        self.fails_to_run("libsockfuse.so", "make", sockfuse=self.copied("alone", library=False))

    def test_a_library_that_is_none(self):
        sockfuse = self.copied("broken")
        self.write("broken/libsockfuse.so", "no library\n")
        self.fails_to_run("broken/libsockfuse.so", "make", sockfuse=sockfuse)

    def test_a_library_whose_path_the_loader_can_not_be_told(self):
        for folder in ("a blank", "a:colon"):
            self.fails_to_run(re.escape(f"{folder}/libsockfuse.so"), "blank", sockfuse=self.copied(folder))

    def test_a_library_beside_an_installed_command_is_found(self):
        os.makedirs(os.path.join(self.sandbox.folder, "lib", "sockfuse"))
        shutil.copy(LIBRARY, os.path.join(self.sandbox.folder, "lib", "sockfuse"))
        sockfuse = self.copied("bin", library=False)
        result = self.sandbox.run([sockfuse, "run", "-t", "127.0.0.1:1", "printenv", "LD_PRELOAD"], "command")
        self.assertEqual(result.output, (f"{self.sandbox.folder}/lib/sockfuse/libsockfuse.so\n", "", 0))

    def test_a_program_that_is_not_found_leaves_no_circuits_behind(self):
        self.fails(self.sockfuse("run", "-t", "127.0.0.1:1", "no-such-program"), 127, "no-such-program")
        self.assertFalse(os.path.exists(self.sandbox.state) and os.listdir(self.sandbox.state))

    def test_a_program_along_path_that_may_not_be_executed_is_126(self):
        self.write("plain", "")
        self.fails(self.sockfuse("run", "-t", "127.0.0.1:1", "plain", env={"PATH": self.sandbox.folder}), 126, "plain")
        self.fails(self.sockfuse("run", "-t", "127.0.0.1:1", self.sandbox.folder), 126)
        self.fails(self.sockfuse("run", "-t", "127.0.0.1:1", ""), 127)


class Unguarded(CommandLine):
    """What the library can't guard is started all the same, after a line that says why; where the second engine is not
    to guard it, that is: tests/e2e/test_notify.py."""

    def warns(self, argv, *patterns, env=None, before=()):
        result = self.sandbox.run([*before, SOCKFUSE, "run", "-t", "127.0.0.1:1", "--engine", "preload", "--", *argv],
                                  "command", env)
        self.assertEqual((result.status, result.stdout), (3, ""), result)
        self.assertRegex(result.stderr, r"\Asockfuse: .*not be guarded")
        for pattern in patterns:
            self.assertRegex(result.stderr.splitlines()[0], pattern)
        return result

    def test_a_go_program_is_known_by_its_build_information(self):
        source = "__attribute__((section(\".go.buildinfo\"), used)) static char info[32]; " + SOURCE
        self.warns([self.program("go", source=source)], "Go")

    def test_a_set_group_id_program(self):
        path = self.program("set-group-id")
        os.chown(path, -1, NOBODY)
        os.chmod(path, 0o755 | stat.S_ISGID)
        self.warns([path], "set-group-ID")

    def test_a_set_user_id_program_of_the_user_is_guarded(self):
        path = self.program("own")
        os.chmod(path, 0o755 | stat.S_ISUID)
        self.assertEqual(self.sockfuse("run", "-t", "127.0.0.1:1", path).output, ("", "", 3))

    def test_set_user_id_means_nothing_without_new_privileges(self):
        path = self.program("set-user-id")
        os.chown(path, NOBODY, -1)
        os.chmod(path, 0o755 | stat.S_ISUID)
        result = self.sandbox.run(["setpriv", "--no-new-privs", SOCKFUSE, "run", "-t", "127.0.0.1:1", path], "command")
        self.assertEqual(result.output, ("", "", 3))

    def test_a_program_with_file_capabilities(self):
        path = self.program("capable")
        # struct vfs_ns_cap_data, revision 2, effective, CAP_NET_RAW permitted
        os.setxattr(path, "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
        self.assertEqual(self.sockfuse("run", "-t", "127.0.0.1:1", path).output, ("", "", 3), "root has them anyhow")
        os.chmod(self.sandbox.folder, 0o755)
        state = os.path.join(self.sandbox.folder, "nobody")
        os.mkdir(state, 0o700)
        os.chown(state, NOBODY, NOBODY)
        self.warns([path], "capabilities", env={"SOCKFUSE_STATE": state},
                   before=["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"])

    def test_scripts_are_followed_to_their_interpreter(self):
        static = self.program("static", "-static")
        middle = self.write("middle", f"#!{static}\n", 0o755)
        outer = self.write("outer", f"#! {middle} -x\n", 0o755)
        self.warns([outer], "static is statically linked")
        by_path = self.write("by-path", "#!/usr/bin/env static\n", 0o755)
        path = f"{self.sandbox.folder}:/usr/bin:/bin"
        self.warns([by_path], "static is statically linked", env={"PATH": path})
        emptied = self.write("emptied", "#!/usr/bin/env -S -i sh\nexit 3\n", 0o755)
        self.warns([emptied], "env -i")

    def test_the_dynamic_loader_by_its_own_name_is_guarded(self):
        loader = re.search(r"\S*ld-linux\S*", subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True,
                                                           check=True).stdout).group()
        result = self.sockfuse("run", "-t", "127.0.0.1:1", loader, "/bin/sh", "-c", "exit 3")
        self.assertEqual(result.output, ("", "", 3))

    def test_a_library_that_is_switched_off(self):
        result = self.sockfuse("run", "-t", "127.0.0.1:1", "echo", "started", env={"SOCKFUSE": "off"})
        self.assertEqual((result.status, result.stdout), (0, "started\n"))
        self.assertRegex(result.stderr, r"\Asockfuse: SOCKFUSE=off .*unguarded")

    def test_a_clock_that_is_none(self):
        result = self.sockfuse("run", "-t", "127.0.0.1:1", "echo", "started", env={"SOCKFUSE_CLOCK": "/dev/null"})
        self.assertEqual((result.status, result.stdout), (0, "started\n"))
        self.assertRegex(result.stderr, r"\Asockfuse: SOCKFUSE_CLOCK: /dev/null")


class Discovery(CommandLine):
    """`run` without -p and -t takes the policy that bears the program's name."""

    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.sandbox.home, ".config", "sockfuse")
        os.makedirs(self.folder)

    def policy(self, name):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write("[127.0.0.1:1]\n")
        return path

    def found(self, *command, env=None):
        return self.given(command=command, env=env).get("SOCKFUSE_POLICY")

    def test_a_program_is_known_by_its_name_without_folders(self):
        own, default = self.policy("env.policy"), self.policy("default.policy")
        self.assertEqual(self.found("env", "-0"), own)
        self.assertEqual(self.found("/usr/bin/env", "-0"), own)
        self.assertEqual(self.found("sh", "-c", "env -0"), default)

    def test_sockfuse_policy_goes_before_all(self):
        self.policy("env.policy")
        self.sandbox.policy("[127.0.0.1:1]\n")
        self.assertEqual(self.found("env", "-0", env={"SOCKFUSE_POLICY": self.sandbox.policy_path}),
                         os.path.realpath(self.sandbox.policy_path))

    def test_a_script_is_known_by_its_own_name_then_by_its_interpreter(self):
        script = self.write("job", "#!/usr/bin/env sh\nenv -0\n", 0o755)
        default = self.policy("default.policy")
        self.assertEqual(self.found(script), default)
        shell = self.policy("sh.policy")
        self.assertEqual(self.found(script), shell)
        own = self.policy("job.policy")
        self.assertEqual(self.found(script), own)


class Status(CommandLine):
    def calls(self, *servers, count=1, how=RUN):
        for server in servers:
            for _ in range(count):
                self.sandbox.run(["curl", "-sS", server.url], how)

    def rows(self, *words, env=None):
        """The table's rows below its title, by the columns' titles."""
        result = self.sockfuse("status", *words, env=env)
        self.assertEqual((result.status, result.stderr), (0, ""))
        lines = result.stdout.splitlines()
        title = next(line for line in lines if "STATE" in line)
        names = re.findall(r"\S+(?: \S+)*", title)
        rows = []
        for line in lines[lines.index(title) + 1:]:
            if not re.match(r" +[^A-Z ]", line):
                break
            rows.append((re.split(r" {2,}", line.strip()), line))
        return names, rows, result.stdout

    def test_it_says_so_when_nothing_is_in_use(self):
        result = self.sockfuse("status")
        self.assertEqual((result.status, result.stderr), (0, ""))
        self.assertRegex(result.stdout, rf"(?s)No policy is in use.*{re.escape(self.sandbox.state)}.*sockfuse run")
        self.assertEqual(self.sockfuse("status", "--json").output, ("[]\n", "", 0))
        self.assertFalse(os.path.exists(self.sandbox.state), "to look makes nothing")

    def test_a_policy_that_is_not_in_use_yet_shows_its_targets(self):
        self.sandbox.policy("[pay]\nmatch = 127.0.0.1:1 127.0.0.1:2\n[wild]\nmatch = *.example.com:443\n")
        result = self.sockfuse("status", "-p", self.sandbox.policy_path)
        self.assertEqual((result.status, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"(?s)pay +127.0.0.1:1 +closed.*pay +127.0.0.1:2 +closed.*wild +no calls yet.*"
                                        r"Not in use")
        (policy,) = json.loads(self.sockfuse("status", "-p", self.sandbox.policy_path, "--json").stdout)
        self.assertIsNone(policy["segment"])
        self.assertEqual([circuit["destination"] for circuit in policy["circuits"]], ["127.0.0.1:1", "127.0.0.1:2"])

    def test_a_policy_that_is_nowhere_is_an_error(self):
        self.fails(self.sockfuse("status", "-p", "/nonexistent/a.policy"), 1, "/nonexistent/a.policy")
        self.fails(self.sockfuse("status", "-p", os.path.join(self.sandbox.folder, "none.policy")), 1, "none.policy")

    def test_every_literal_target_is_a_row_before_its_first_call(self):
        self.sandbox.policy("""
[net]
match = 10.1.0.0/16:80
[one]
match = 127.0.0.1:1 [::1]:2 10.1.2.3:80 db.internal:5432 unix:/run/a.sock unix:@abstract
[wide]
match = unix:/run/*.sock 127.0.0.1:8000-8010 *:99
[whole]
match = 192.0.2.0/24:*
circuit = target
[by-address]
match = other.internal:5432
circuit = address
""")
        self.sandbox.run(["true"])
        shown = [(circuit["target"], circuit["destination"]) for circuit in self.sandbox.circuits()]
        literal = ("127.0.0.1:1", "[::1]:2", "db.internal:5432", "unix:/run/a.sock", "unix:@abstract")
        self.assertEqual(shown, [*(("one", name) for name in literal), ("whole", "whole")])
        for circuit in self.sandbox.circuits():
            self.assertEqual((circuit["state"], circuit["counters"]["admitted"], circuit["last_failure"],
                              circuit["failures"], circuit["retry_in_ms"]), ("closed", 0, None, {}, None))
        _, rows, text = self.rows("-p", self.sandbox.policy_path)
        self.assertEqual([row[0][0] for row in rows], ["net"] + ["one"] * 5 + ["wide", "whole", "by-address"])
        self.assertEqual(text.count("no calls yet"), 3)

    def test_a_circuit_stands_in_the_row_of_its_target(self):
        self.sandbox = Sandbox(self, clock=True)
        server = self.closed_port()
        self.sandbox.guard(server, failure_threshold=3)
        self.calls(server, count=2)
        self.sandbox.clock.advance_seconds(0.25)
        names, rows, _ = self.rows("-p", self.sandbox.policy_path)
        self.assertEqual(names, ["DESTINATION", "STATE", "FAILURES", "WAITING", "CALLS", "FAILED", "REFUSED",
                                 "LAST FAILURE"])
        ((cells, line),) = rows
        self.assertEqual(cells[:-1], [server.destination, "closed", "2/3", "0", "2", "2", "0"])
        self.assertRegex(line, r"refused, 250ms ago$")
        self.calls(server, count=3)
        names, ((cells, line),), _ = self.rows("-p", self.sandbox.policy_path)
        self.assertIn("RETRY IN", names)
        self.assertEqual(cells[1:3] + cells[4:8], ["open", "3/3", "0", "3", "3", "2"])
        self.assertEqual(cells[3], "10.0s")

    def test_a_pause_that_is_over_is_shown_as_a_probe_that_is_due(self):
        self.sandbox = Sandbox(self, clock=True)
        server = self.closed_port()
        self.sandbox.guard(server, failure_threshold=1, reset_timeout="10s")
        self.calls(server)
        self.sandbox.clock.advance_seconds(2.5)
        self.assertEqual(self.sandbox.circuit(server)["retry_in_ms"], 7500)
        self.sandbox.clock.advance(1)
        self.assertEqual(self.sandbox.circuit(server)["retry_in_ms"], 7500, "rounded up: never over before it is over")
        self.sandbox.clock.advance(-1)
        _, ((cells, line),), _ = self.rows("-p", self.sandbox.policy_path)
        self.assertEqual((cells[1], cells[3]), ("open", "7.5s"))
        self.assertRegex(line, r"refused, 2\.5s ago$")
        self.sandbox.clock.advance_seconds(7.5)
        circuit = self.sandbox.circuit(server)
        self.assertEqual((circuit["state"], circuit["probe_due"], circuit["retry_in_ms"]), ("open", True, 0))
        _, ((cells, _),), _ = self.rows("-p", self.sandbox.policy_path)
        self.assertEqual(cells[1], "open, probe due")

    def test_json_has_every_kind_that_occurred_and_no_other(self):
        refuses, resets = self.closed_port(), self.serve(reset_after_request)
        self.sandbox.guard(refuses, resets, failures="refused")
        self.calls(refuses, resets, count=2)
        self.assertEqual(self.sandbox.circuit(refuses)["failures"], {"refused": 2})
        circuit = self.sandbox.circuit(resets)
        self.assertEqual(circuit["neutral"], {"unlisted": 2}, circuit)
        self.assertEqual(self.sandbox.circuit(refuses)["neutral"], {})

    def test_runs_with_options_are_shown_with_them(self):
        server = self.closed_port()
        for option in "failure_threshold=7", "failure_threshold=9", "failure_threshold = 9", None:
            self.sockfuse("run", "-t", server.destination, *(("-o", option) if option else ()), "--", "curl", "-sS",
                          server.url)
        found = {policy["policy"]: policy for policy in json.loads(self.sockfuse("status", "--json").stdout)}
        name = f"patterns: {server.destination}"
        self.assertEqual(set(found), {name, f"{name} + options: failure_threshold=7",
                                      f"{name} + options: failure_threshold=9"})
        for threshold, calls, options in (5, 1, ""), (7, 1, " + options: failure_threshold=7"), (
                9, 2, " + options: failure_threshold=9"):
            policy = found[name + options]
            (circuit,) = policy["circuits"]
            self.assertEqual((circuit["failure_threshold"], circuit["counters"]["failed"]), (threshold, calls))
            self.assertEqual((policy["file"], policy["patterns"]), (None, [server.destination]))
            self.assertEqual(policy["options"], {"failure_threshold": str(threshold)} if options else {})
        self.assertEqual([name for name in os.listdir(self.sandbox.state) if not name.endswith(".segment")], [])

    def test_p_narrows_also_to_runs_with_further_targets(self):
        server, other = self.closed_port(), self.closed_port()
        self.sandbox.guard(server)
        self.sandbox.run(["true"])
        self.sockfuse("run", "-p", self.sandbox.policy_path, "-t", other.destination, "--", "true")
        self.sockfuse("run", "-t", other.destination, "--", "true")
        self.assertEqual(len(json.loads(self.sockfuse("status", "--json").stdout)), 3)
        longer = shutil.copy(self.sandbox.policy_path, self.sandbox.policy_path + ".old")
        self.sockfuse("run", "-p", longer, "--", "true")
        narrowed = self.sandbox.status()
        self.assertEqual(len(narrowed), 2)
        self.assertEqual({tuple(circuit["destination"] for circuit in policy["circuits"]) for policy in narrowed},
                         {(server.destination,), (server.destination, other.destination)})

    def test_modes_are_shown_as_what_the_next_call_meets(self):
        for mode, state, text in (("observe", "open", "open, observed"), ("open", "open", "open, by mode"),
                                  ("closed", "closed", "closed, by mode"), ("off", "closed", "off")):
            with self.subTest(mode):
                server = self.closed_port()
                self.sandbox.guard(server, failure_threshold=1, mode=mode)
                self.calls(server, count=2)
                circuit = self.sandbox.circuit(server)
                self.assertEqual((circuit["mode"], circuit["state"]), (mode, state))
                _, rows, _ = self.rows("-p", self.sandbox.policy_path)
                self.assertIn(text, [cells for cells, _ in rows if cells[0] == server.destination][0])
                self.assertEqual(circuit["retry_in_ms"] is None, mode != "observe")

    def test_circuits_that_each_process_keeps_are_not_shown_as_if_nobody_called(self):
        server = self.closed_port()
        self.sandbox.guard(server, scope="process")
        self.calls(server)
        self.assertEqual(self.sandbox.circuit(server)["scope"], "process")
        _, ((cells, _),), text = self.rows("-p", self.sandbox.policy_path)
        self.assertEqual(cells[1], "kept by each process")
        self.assertNotIn("Not in use", text)

    def test_a_policy_file_that_is_gone_or_broken_leaves_the_limits_that_were_in_force(self):
        server = self.closed_port()
        self.sandbox.guard(server, failure_threshold=3)
        self.calls(server)
        for text in ("[x:1]\nnonsense = 1\n", None):
            if text is not None:
                self.sandbox.policy(text)
            else:
                os.unlink(self.sandbox.policy_path)
            circuit = self.sandbox.circuit(server)
            self.assertEqual((circuit["failure_threshold"], circuit["mode"], circuit["consecutive_failures"]),
                             (3, "enforce", 1))
            _, ((cells, _),), text = self.rows("-p", self.sandbox.policy_path)
            self.assertEqual(cells[2], "1/3")
            self.assertIn("can't be read now", text)

    def test_circuits_that_the_policy_names_no_more_come_last(self):
        first, second = self.closed_port(), self.closed_port()
        self.sandbox.guard(first, failure_threshold=3)
        self.calls(first)
        self.sandbox.guard(second)
        shown = [(circuit["destination"], circuit["failure_threshold"], circuit["ended"])
                 for circuit in self.sandbox.circuits()]
        self.assertEqual(shown, [(second.destination, 5, None), (first.destination, 3, "programs")])

    def test_the_processes_that_are_attached_are_listed(self):
        waiting = self.serve(stay_silent)
        self.sandbox.guard(waiting)
        process = self.sandbox.popen(["curl", "-sS", waiting.url])
        self.assertTrue(eventually(lambda: waiting.connections == 1))
        (policy,) = self.sandbox.status()
        ((attached),) = policy["processes"]
        self.assertEqual((attached["pid"], attached["program"]), (process.pid, "curl"))
        self.assertRegex(attached["attached"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
        self.assertRegex(attached["policy_revision"], r"\A[0-9a-f]{16}\Z")
        self.assertEqual(policy["circuits"][0]["in_flight"], 1)
        shown = self.sockfuse("status").stdout
        self.assertRegex(shown, rf"(?m)^ +{process.pid}  curl +\d+")
        self.assertNotIn("earlier version", shown)
        self.sandbox.guard(waiting, failure_threshold=9)
        self.assertRegex(self.sockfuse("status").stdout, rf"(?m)^ +{process.pid}  curl .*earlier version")
        process.kill()
        process.wait()
        self.assertEqual(self.sandbox.status()[0]["processes"], [])
        self.assertIn("No process is attached", self.sockfuse("status").stdout)

    def test_colour_is_for_terminals_only_and_never_with_no_color(self):
        server = self.closed_port()
        self.sandbox.guard(server, failure_threshold=1)
        self.calls(server)
        for env, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                              ({"TERM": "dumb"}, False)):
            shown = printed_on_a_terminal(self.sandbox, "status", env=env)
            self.assertIn(server.destination, shown)
            self.assertEqual("\x1b[" in shown, coloured, env)
        self.assertNotIn("\x1b", self.sockfuse("status", env={"TERM": "xterm"}).stdout)

    def test_a_segment_that_can_not_be_used_is_told_and_the_others_are_shown(self):
        server = self.closed_port()
        self.sandbox.guard(server)
        self.calls(server)
        with open(os.path.join(self.sandbox.state, "a-bad-0123456789abcdef.segment"), "wb") as file:
            file.write(b"nonsense")
        result = self.sockfuse("status")
        self.assertEqual(result.status, 1)
        self.assertIn(server.destination, result.stdout)
        self.assertRegex(result.stderr, r"\Asockfuse: .*a-bad-0123456789abcdef\.segment")
        self.assertEqual(len(json.loads(self.sockfuse("status", "--json").stdout)), 1)


class Events(CommandLine):
    def start(self):
        self.server = self.closed_port()
        self.sandbox.guard(self.server, failure_threshold=2)

    def call(self, count=1, **keywords):
        for _ in range(count):
            self.sandbox.run(["curl", "-sS", self.server.url], **keywords)

    def kinds(self, *words):
        result = self.sockfuse("events", "--json", *words)
        self.assertEqual((result.status, result.stderr), (0, ""))
        return [json.loads(line)["event"] for line in result.stdout.splitlines()]

    def test_it_says_so_when_nothing_is_in_use(self):
        result = self.sockfuse("events")
        self.assertEqual((result.status, result.stdout), (0, ""))
        self.assertIn("No policy is in use", result.stderr)
        self.assertEqual(self.sockfuse("events", "--json").output, ("", "", 0))

    def test_since_takes_spans_and_times(self):
        self.start()
        self.call()
        time.sleep(0.02)
        between = time.time()
        time.sleep(0.2)
        self.call(2)
        everything = self.kinds()
        self.assertEqual(everything, ["failure", "failure", "open", "refused"])
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(between)) + f"{between % 1:.6f}"[1:] + "Z"
        self.assertEqual(self.kinds("--since", stamp), everything[1:])
        self.assertEqual(self.kinds("--since", "1h"), everything)
        self.assertEqual(self.kinds("--since", "0s"), [])
        # A span ends when the command begins, which may be a while after this line.
        self.assertTrue(eventually(lambda: self.kinds("--since", f"{time.time() - between:.3f}s") == everything[1:]))
        for word in ("yesterday", "5", "5 minutes", ""):
            self.fails(self.sockfuse("events", "--since", word), 2, "--since", "5m")

    def test_the_journals_of_all_policies_are_one_story(self):
        servers = [self.closed_port(), self.closed_port()]
        order = (0, 1, 1, 0, 1)
        for number in order:
            self.sockfuse("run", "-t", servers[number].destination, "--", "curl", "-sS", servers[number].url)
        lines = self.sockfuse("events", "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["destination"] for line in lines],
                         [servers[number].destination for number in order])

    def test_p_narrows(self):
        self.start()
        self.call()
        other = self.closed_port()
        self.sockfuse("run", "-t", other.destination, "--", "curl", "-sS", other.url)
        self.assertEqual(len(self.kinds()), 2)
        self.assertEqual(len(self.kinds("-p", self.sandbox.policy_path)), 1)

    def follow(self, *words, **keywords):
        keywords.setdefault("stdout", subprocess.PIPE)
        return self.sandbox.popen([SOCKFUSE, "events", "-f", "--json", *words], "command", stderr=subprocess.PIPE,
                                  bufsize=0, **keywords)

    def line(self, stream):
        """The next line of what a follower says; it must come in time."""
        self.assertTrue(select.select([stream], [], [], 30)[0], "nothing came")
        return stream.readline()

    def next_event(self, follower):
        return json.loads(self.line(follower.stdout))["event"]

    def test_following_may_begin_before_the_first_program_starts(self):
        self.start()
        follower = self.follow()
        time.sleep(0.2)
        self.call()
        self.assertEqual(self.next_event(follower), "failure")

    def test_following_goes_on_when_the_segment_is_made_anew(self):
        self.start()
        self.call()
        follower = self.follow()
        self.assertEqual(self.next_event(follower), "failure")
        shutil.rmtree(self.sandbox.state)
        self.call(2)
        self.assertEqual([self.next_event(follower) for _ in range(3)],
                         ["failure", "failure", "open"])

    def test_following_tells_each_event_once(self):
        self.start()
        self.sandbox.run(["true"])  # the segment stands, so that it is opened anew while it is followed
        follower = self.follow()
        for _ in range(3):
            self.call()
            time.sleep(0.45)
        self.assertEqual([self.next_event(follower) for _ in range(4)], ["failure", "failure", "open", "refused"])
        time.sleep(0.45)
        follower.send_signal(signal.SIGINT)
        self.assertEqual(follower.communicate(timeout=30), (b"", b""), "nothing twice, and it ends quietly")

    def test_events_that_were_overwritten_before_they_could_be_read_are_told(self):
        self.start()
        self.sandbox.policy(f"[defaults]\njournal = 64 events\n\n[{self.server.destination}]\nfailure_threshold = 0\n"
                            "failure_rate = 0%\n")
        name = os.path.join(self.sandbox.folder, "followed")
        with open(name, "wb") as followed:
            follower = self.follow(stdout=followed)

        def told():
            with open(name, encoding="utf-8") as file:
                return sum(line.endswith("\n") for line in file)
        self.call()
        self.assertTrue(eventually(lambda: told() == 1))
        follower.send_signal(signal.SIGSTOP)
        many = 400
        self.sandbox.run([PYTHON, "-c", "import socket, sys\n"
                          f"for _ in range({many}): socket.socket().connect_ex(('127.0.0.1', int(sys.argv[1])))",
                          self.server.port])
        follower.send_signal(signal.SIGCONT)

        def missed():
            """In its place among the events stands which ones are missing."""
            with open(name, encoding="utf-8") as file:
                return [event for event in map(json.loads, file) if event["event"] == "missed"]
        self.assertTrue(eventually(lambda: missed() and told() - len(missed()) + sum(
            event["missed"] for event in missed()) == 1 + many), (told(), missed()))
        first = missed()[0]
        self.assertEqual(first["from"], 2)
        self.assertEqual(first["missed"], first["to"] - first["from"] + 1)
        self.assertEqual((first["journal"], first["policy"]), (64, os.path.realpath(self.sandbox.policy_path)))
        # For people it is said apart.
        follower = self.sandbox.popen([SOCKFUSE, "events", "-f"], "command", stderr=subprocess.PIPE, bufsize=0,
                                      stdout=subprocess.PIPE)
        self.line(follower.stdout)
        follower.send_signal(signal.SIGSTOP)
        self.sandbox.run([PYTHON, "-c", "import socket, sys\n"
                          "for _ in range(200): socket.socket().connect_ex(('127.0.0.1', int(sys.argv[1])))",
                          self.server.port])
        follower.send_signal(signal.SIGCONT)
        self.assertRegex(self.line(follower.stderr).decode(), rf"\Asockfuse: {re.escape(first['policy'])}: events "
                         r"\d+ to \d+ were overwritten before they could be read: journal = 64 events is too small\n")

    def test_following_ends_quietly_when_nobody_reads_any_more(self):
        self.start()
        self.call()
        follower = self.follow()
        self.next_event(follower)
        follower.stdout.close()
        self.assertTrue(eventually(lambda: follower.poll() is not None, 10), "it goes on for nobody")
        self.assertEqual(follower.stderr.read(), b"")


class Output(CommandLine):
    """Whatever becomes of stdout, it ends as good Unix tools do."""

    def setUp(self):
        super().setUp()
        # More than a pipe holds: the reader is gone before the last byte is written.
        self.sandbox.policy("".join(f"[127.0.0.1:{port}]\n" for port in range(1, 2001)))
        self.sandbox.run(["true"])

    def shell(self, script, **keywords):
        return self.sandbox.run(["bash", "-c", script.replace("sockfuse", str(SOCKFUSE))], "command", **keywords)

    def test_head_ends_it_quietly(self):
        for command in ("status", "status --json"):
            result = self.shell(f"sockfuse {command} | head -n 1; echo ${{PIPESTATUS[0]}}")
            self.assertEqual((result.stderr, result.stdout.splitlines()[-1]), ("", "141"))
            result = self.shell(f"trap '' PIPE; sockfuse {command} | head -n 1; echo ${{PIPESTATUS[0]}}")
            self.assertEqual((result.stderr, result.stdout.splitlines()[-1]), ("", "1"))

    def test_a_full_disk_is_an_error(self):
        self.sandbox.run(["curl", "-s", "http://127.0.0.1:1/"])
        for command in ("status", "status --json", "-h", "--version", "status -h", "events", "events -f", "events --json",
                        "report"):
            result = self.shell(f"sockfuse {command} >/dev/full")
            self.assertEqual(result.status, 1, command)
            self.assertRegex(result.stderr, r"\Asockfuse: standard output.*No space left")

    def test_a_closed_stdout_is_an_error(self):
        result = self.shell("sockfuse status >&-")
        self.assertEqual(result.status, 1)
        self.assertRegex(result.stderr, r"\Asockfuse: standard output")

    def test_two_thousand_targets_are_shown_in_a_moment(self):
        taken = []
        while len(taken) < 5 and (not taken or taken[-1] >= 5):  # again, if the machine was busy
            result = self.sockfuse("status", "--json")
            taken.append(result.seconds)
            self.assertEqual(len(json.loads(result.stdout)[0]["circuits"]), 2000)
        self.assertLess(min(taken), 5)


if __name__ == "__main__":
    unittest.main()
