"""No name on a command line, in a policy or of a program can drive the terminal of who reads the output."""
import json
import os
import re
import shutil
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (LIBRARY, SOCKFUSE, ParallelSuite, Sandbox, Server, answer_http, eventually,  # noqa: E402
                      stay_silent)

load_tests = ParallelSuite.load(4)
# Sets a window's title, turns red by both forms of CSI, goes to the line's beginning, ends the line, deletes.
EVIL = "a\x1b]0;t\x07\x1b[31m\u009b1m\rb\nFORGED\x7fd\x08"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
COMMANDS = ("run", "check", "status", "events", "calls", "top", "open", "close", "auto", "reload", "report")


class HostileNames(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.folder = os.path.join(self.sandbox.folder, EVIL)
        os.mkdir(self.folder)
        self.policy = os.path.join(self.folder, EVIL + ".policy")
        self.good = "[127.0.0.1:1]\n"

    def write(self, text):
        with open(self.policy, "w", encoding="utf-8") as file:
            file.write(text)

    def says(self, *words, env=None, stdin=b""):
        result = self.sandbox.run([SOCKFUSE, *words], "command", env, stdin=stdin)
        for text in (result.stdout, result.stderr):
            self.assertNotRegex(text, CONTROL, words)
            self.assertNotRegex(text, "(?m)^FORGED", words)
        return result

    def test_files_that_are_not_there(self):
        missing = os.path.join(self.folder, "x")
        for words in (("check", missing), ("run", "-p", missing, "true"), ("status", "-p", missing),
                      ("events", "-p", missing), ("report", missing), ("report", "-o", os.path.join(missing, "y")),
                      ("report", "--trace", os.path.join(missing, "y")), ("reload", "-p", missing),
                      ("open", "-p", missing, "a:1"),
                      ("close", "-p", missing, "a:1"), ("auto", "-p", missing, "a:1"),
                      ("run", "-t", "127.0.0.1:1", "--log", os.path.join(missing, "y"), "true")):
            self.says(*words)

    def test_words_that_mean_nothing(self):
        for command in COMMANDS:
            for word in (EVIL, "--" + EVIL, "-" + EVIL, "--help=" + EVIL, "--p" + EVIL, "-\x1b", "-\udc9b"):
                self.says(command, word)
            self.says(command, "-t", "127.0.0.1:1", EVIL)
            self.says(command, "--match", EVIL, self.policy)
        for word in (EVIL, "-" + EVIL, "--" + EVIL):
            self.says(word)
            self.says("help", word)
        for words in (("run", "-t", EVIL, "true"), ("run", "-t", "a:1", "-o", EVIL, "true"),
                      ("run", "-t", "a:1", "-o", EVIL + "=1", "true"), ("run", "-t", "127.0.0.1:1", EVIL),
                      ("run", EVIL), ("events", "--since", EVIL), ("report", "--since", EVIL),
                      ("open", "--for", EVIL, "a:1"),
                      ("open", EVIL + ":1"), ("calls", EVIL), ("calls", "--older", EVIL),
                      ("top", "--sort", EVIL), ("top", "--interval", EVIL), ("top", EVIL), ("check", "--for", EVIL),
                      ("check", "--for", "/" + EVIL)):
            self.says(*words)

    def test_folders_that_the_environment_names(self):
        for name in ("SOCKFUSE_STATE", "SOCKFUSE_CLOCK", "XDG_CONFIG_HOME", "SOCKFUSE_POLICY", "PATH"):
            for words in (("status",), ("events",), ("calls",), ("run", "-t", "127.0.0.1:1", "true"),
                          ("check", "--for", "true"),
                          ("open", "a:1"), ("reload",)):
                self.says(*words, env={name: self.folder})

    def test_policies_with_such_a_name(self):
        self.write(self.good)
        self.assertEqual(self.says("check", self.policy).status, 0)
        self.assertEqual(self.says("check", "-v", self.policy).status, 0)
        for words in (("--match", "127.0.0.1:1"), ("--match", "127.0.0.2:1")):
            self.says("check", *words, self.policy)
        self.assertEqual(self.says("run", "-p", self.policy, "true").status, 0)
        for words in (("status",), ("status", "-p", self.policy), ("events",), ("events", "-p", self.policy),
                      ("calls",), ("calls", "-p", self.policy)):
            self.assertEqual(self.says(*words).status, 0, words)
        for words in (("reload",), ("reload", "-p", self.policy), ("open", "-p", self.policy, "127.0.0.1:1"),
                      ("close", "127.0.0.1:1"), ("auto", "127.0.0.1:1")):
            self.assertEqual(self.says(*words).status, 1, (words, "nobody runs under it"))
        for text in self.says("status", "--json").stdout, self.says("status", "-p", self.policy, "--json").stdout:
            self.assertEqual(json.loads(text)[0]["policy"], os.path.realpath(self.policy))
        for line in self.says("events", "--json").stdout.splitlines():
            json.loads(line)

    def test_policies_with_such_a_text(self):
        evil = EVIL.replace("\n", "").replace("\r", "")
        for text in (evil, f"[{evil}]\n", f"[a]\nmatch = {evil}\n", f"[a:1]\n{evil} = 1\n", f"[a:1]\nmode = {evil}\n",
                     f"[127.0.0.1:1]\nfallback = {evil}:1\n", f"[unix:/{evil}]\n"):
            self.write(text)
            for words in (("check", self.policy), ("check", "-v", self.policy), ("run", "-p", self.policy, "true"),
                          ("check", "--match", "unix:/" + evil, self.policy), ("reload", "-p", self.policy)):
                self.says(*words)

    def test_programs_with_such_a_name(self):
        program = shutil.copy("/usr/bin/curl", os.path.join(self.folder, EVIL))
        server = Server(answer_http)
        self.addCleanup(server.stop)
        self.sandbox.guard(server, record="all")
        env = {"PATH": self.folder + ":/usr/bin:/bin"}
        for word in (program, EVIL):
            self.assertEqual(self.says("run", "-p", self.sandbox.policy_path, word, "-s", "-o", "/dev/null", server.url,
                                       env=env).status, 0)
            self.says("check", "--for", word, env=env)
        self.says("status")
        self.says("events")
        names = [json.loads(line)["program"] for line in self.says("events", "--json").stdout.splitlines()]
        self.assertTrue(names)

    def test_calls_of_such_a_program_to_such_a_place(self):
        program = shutil.copy("/usr/bin/curl", os.path.join(self.folder, EVIL + '"\\l'))
        server = Server(stay_silent, family=socket.AF_UNIX, file=EVIL)
        self.addCleanup(server.stop)
        self.write("[unix:/*]\n")
        self.sandbox.popen([SOCKFUSE, "run", "-p", self.policy, "--", program, "-s", "--unix-socket", server.path,
                            "http://a/"], how="command")
        self.assertTrue(eventually(lambda: server.requests == 1, 30))
        (call,) = json.loads(self.says("calls", "--json").stdout)
        self.assertTrue(call["destination"].startswith("unix:/"))
        for words in ((), (call["destination"],), (call["target"],)):
            self.assertIn("answer", self.says("calls", *words).stdout)
        self.assertIn("root: ", self.says("calls", "--tree").stdout)
        self.assertEqual(json.loads(self.says("calls", "--tree", "--json").stdout)["root"]["calls"], 1)
        for line in self.says("calls", "--dot").stdout.splitlines():
            # Of a label's own quotes each stands behind a backslash, and each backslash of its own is two.
            self.assertRegex(line, r'\A[^"]*("([^"\\]|\\\\|\\"|\\n)*"[^"]*)*\Z')
        follower = self.sandbox.popen([SOCKFUSE, "calls", "-f", "--older", "0ms"], how="command", stdout=-1)
        self.assertNotRegex(follower.stdout.readline().decode(), CONTROL)

    def test_a_bad_policy_is_told_by_the_library_as_safely(self):
        self.write("[a:1]\nmode = x\n")
        result = self.sandbox.run(["true"], "command", {"LD_PRELOAD": LIBRARY, "SOCKFUSE_POLICY": self.policy})
        self.assertIn("unguarded", result.stderr)
        self.assertNotRegex(result.stderr, CONTROL)
        self.assertEqual(result.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
