"""Whose circuits are they? Those of one user to each user, those of all to root, who trusts nothing of what he finds in
another's folder."""
import itertools
import json
import os
import pwd
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import SOCKFUSE, ParallelSuite, Sandbox, eventually  # noqa: E402

load_tests = ParallelSuite.load(4)
NOBODY = next((entry for entry in pwd.getpwall() if entry.pw_name == "nobody"), None)
DESTINATION = "127.0.0.1:9"
numbers = itertools.count(1_000_000 + os.getpid() % 100_000 * 10)


class Users(unittest.TestCase):
    """Users who are in no list, with numbers that nobody has, each with a folder of circuits of his own in /tmp."""

    def setUp(self):
        if os.getuid() != 0:
            self.skipTest("only root can be several users")
        self.sandbox = Sandbox(self)
        os.chmod(self.sandbox.folder, 0o755)
        self.sandbox.policy(f"[{DESTINATION}]\n")

    def user(self):
        uid = next(numbers)
        for place in ("/dev/shm", "/tmp"):
            self.addCleanup(shutil.rmtree, f"{place}/sockfuse-{uid}", ignore_errors=True)
        return uid

    def as_user(self, uid, *argv, env=None, timeout=60):
        """Runs a program as that user; where the circuits are follows from the user alone."""
        return self.sandbox.run([str(word) for word in argv], "command", {"SOCKFUSE_STATE": None, **(env or {})},
                                timeout=timeout, user=uid, group=uid, extra_groups=[])

    def start(self, uid, *words):
        result = self.as_user(uid, SOCKFUSE, "run", *(words or ("-p", self.sandbox.policy_path)), "--", "true")
        self.assertEqual(result.status, 0, result)

    def serve(self, uid):
        """Starts a program of that user's that goes on, and waits until it is attached."""
        self.served = self.sandbox.popen([SOCKFUSE, "run", "-p", self.sandbox.policy_path, "--", "sleep", "100"],
                                         how="command", env={"SOCKFUSE_STATE": None}, user=uid, group=uid,
                                         extra_groups=[])
        self.assertTrue(eventually(lambda: [policy for policy in self.of(uid) if policy["processes"]]))

    def root(self, *words, env=None):
        """A command of root's, without a folder that is named."""
        return self.sandbox.sockfuse(*words, env={"SOCKFUSE_STATE": None, **(env or {})})

    def shown(self, *words):
        result = self.root("status", "--json", *words)
        self.assertIn(result.status, (0, 1), result)  # another user of this machine's may be hostile
        return json.loads(result.stdout)

    def of(self, uid, *words):
        words = words or ("--user", str(uid))
        return [policy for policy in self.shown(*words) if policy["user"] == str(uid)]


class Everybody(Users):
    def test_root_is_shown_all_users_circuits_and_whose_each_is(self):
        one, other = self.user(), self.user()
        self.start(one)
        self.start(other, "-t", DESTINATION)
        for uid, policy in (one, self.sandbox.policy_path), (other, f"patterns: {DESTINATION}"):
            (found,) = [found for found in self.shown() if found["user"] == str(uid)]
            self.assertEqual(found["policy"], policy)
            self.assertIn(f"/sockfuse-{uid}/", found["segment"])
            self.assertEqual(len(found["circuits"]), 1)
        text = self.root("status").stdout
        self.assertIn(f"{self.sandbox.policy_path} (user {one})\n", text)
        self.assertIn(f"patterns: {DESTINATION} (user {other})\n", text)

    def test_one_user_or_the_caller_alone(self):
        one, other = self.user(), self.user()
        for uid in one, other:
            self.start(uid)
        self.assertEqual({policy["user"] for policy in self.shown("--user", str(one))}, {str(one)})
        self.assertEqual(self.of(one, "--user", str(other)), [])
        self.assertEqual({policy["user"] for policy in self.shown("--mine")} - {"root"}, set())
        self.assertEqual(self.of(one, "--mine", "-p", self.sandbox.policy_path), [])

    def test_others_are_shown_their_own_and_told_who_sees_more(self):
        one, other = self.user(), self.user()
        for uid in one, other:
            self.start(uid)
        result = self.as_user(one, SOCKFUSE, "status", "--json")
        self.assertEqual([policy["user"] for policy in json.loads(result.stdout)], [str(one)])
        for words in ("--user", str(one)), ("--mine",):
            self.assertEqual(self.as_user(one, SOCKFUSE, "status", "--json", *words).stdout, result.stdout)
        for command in ("status",), ("events",), ("open", DESTINATION), ("reload",), ("forget", "--ended"):
            result = self.as_user(one, SOCKFUSE, *command, "--user", str(other))
            self.assertEqual((result.stdout, result.status), ("", 1))
            self.assertIn(f"--user {other}: only root", result.stderr)
        self.assertIn("no such user", self.root("status", "--user", "nobody-of-that-name").stderr)

    def test_a_user_is_named_by_name(self):
        if NOBODY is None or any(os.path.exists(f"{place}/sockfuse-{NOBODY.pw_uid}") for place in ("/dev/shm", "/tmp")):
            self.skipTest("no user nobody, or one with circuits")
        for place in ("/dev/shm", "/tmp"):
            self.addCleanup(shutil.rmtree, f"{place}/sockfuse-{NOBODY.pw_uid}", ignore_errors=True)
        self.start(NOBODY.pw_uid)
        for name in "nobody", str(NOBODY.pw_uid):
            self.assertEqual([policy["user"] for policy in self.shown("--user", name)], ["nobody"])

    def test_root_forces_and_gives_back_any_users_circuits(self):
        one, other = self.user(), self.user()
        for uid in one, other:
            self.serve(uid)
        policy = ("-p", self.sandbox.policy_path)
        result = self.root("open", *policy, DESTINATION)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.stdout, "".join(f"{DESTINATION} (user {uid}): forced open, was closed; reached 1 "
                                                "program\n" for uid in (one, other)))
        self.assertEqual([self.of(uid)[0]["circuits"][0]["forced"] for uid in (one, other)], ["open"] * 2)
        self.assertEqual(self.root("auto", *policy, "--user", str(one), DESTINATION).stdout,
                         f"{DESTINATION} (user {one}): given back, now closed, was forced open; reached 1 program\n")
        self.assertEqual([self.of(uid)[0]["circuits"][0]["forced"] for uid in (one, other)], [None, "open"])
        result = self.as_user(other, SOCKFUSE, "events", "--json")
        self.assertEqual([(event["event"], event["user"], event["owner"])
                          for event in map(json.loads, result.stdout.splitlines())],
                         [("forced", "root", str(other))])
        self.addCleanup(self.root, "forget", "--mine", *policy)
        result = self.root("close", *policy, "--mine", DESTINATION)
        self.assertEqual((result.stdout, result.status), (f"{DESTINATION}: forced closed, was closed\n", 1))
        self.assertEqual(self.of(other)[0]["circuits"][0]["forced"], "open")

    def test_root_reloads_and_forgets_any_users_policies(self):
        one = self.user()
        self.serve(one)
        result = self.root("reload", "-p", self.sandbox.policy_path)
        self.assertRegex(result.stdout, rf"\A{self.sandbox.policy_path} \(user {one}\): revision ")
        self.assertEqual(result.status, 0, result)
        result = self.root("forget", "-p", self.sandbox.policy_path)
        self.assertIn(f"{self.sandbox.policy_path} (user {one}): running programs use it: ", result.stderr)
        self.assertEqual((result.stdout, result.status), ("", 1))
        self.served.kill()
        self.served.wait(10)
        self.assertTrue(eventually(lambda: not self.of(one)[0]["processes"]))
        result = self.root("forget", "-p", self.sandbox.policy_path)
        self.assertEqual((result.stdout, result.status),
                         (f"{self.sandbox.policy_path} (user {one}): forgotten, with 0 circuits\n", 0))
        self.assertEqual(self.of(one), [])

    def test_every_event_says_whose_circuit_it_was(self):
        one, other = self.user(), self.user()
        for uid in one, other:
            self.start(uid)
            self.as_user(uid, SOCKFUSE, "open", DESTINATION)
        owners = [json.loads(line)["owner"]
                  for line in self.root("events", "--json", "-p", self.sandbox.policy_path).stdout.splitlines()]
        self.assertEqual(owners, [str(one), str(other)])
        lines = self.root("events", "-p", self.sandbox.policy_path).stdout.splitlines()
        self.assertEqual([line.rpartition(" (user ")[2] for line in lines], [f"{one})", f"{other})"])

    def test_a_folder_that_is_named_holds_whoevers_files(self):
        one = self.user()
        state = os.path.join(self.sandbox.folder, "state")
        os.mkdir(state, 0o700)
        os.chown(state, one, one)
        self.assertEqual(self.as_user(one, SOCKFUSE, "run", "-p", self.sandbox.policy_path, "true",
                                      env={"SOCKFUSE_STATE": state}).status, 0)
        env = {"SOCKFUSE_STATE": state}
        (policy,) = json.loads(self.root("status", "--json", env=env).stdout)
        self.assertEqual(policy["user"], str(one))
        self.assertEqual(self.root("open", DESTINATION, env=env).stdout,
                         f"{DESTINATION} (user {one}): forced open, was closed\n")
        self.assertEqual(json.loads(self.root("status", "--json", "--mine", env=env).stdout), [])
        self.assertEqual(subprocess.run(["find", state, "!", "-user", str(one)], capture_output=True, text=True,
                                        check=True).stdout, "")


if __name__ == "__main__":
    unittest.main()
