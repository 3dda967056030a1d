"""What a hostile user does in his own folder while root's commands look there: nothing crashes them, keeps them, drives
root's terminal, or makes them read or write anything that is not that user's."""
import fcntl
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import CLIENTS, PYTHON, SOCKFUSE, ParallelSuite, Terminal  # noqa: E402
from test_everybody import DESTINATION, Users  # noqa: E402

load_tests = ParallelSuite.load(4)
# Another build of the command to try, with a sanitizer in it.
COMMAND = os.environ.get("SOCKFUSE_COMMAND", str(SOCKFUSE))
SEED = int(os.environ.get("SEED", "1"))
SECONDS = 8
# What nobody who was kept from an end would meet, on a busy machine either.
TOO_LONG = 60
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# The name of its policy in a segment's header (src/segment/layout.h).
IDENTITY_AT = 512
DENIED = "The policy can't be read now"
# All that top knows, but for its end.
KEYS = ("Down", "Up", "j", "k", "PageDown", "Home", "End", "o", "c", "a", "y", "Enter", "Escape", "s", "S", "r", "3", "/",
        "BSpace", "?", "n", "Space", "C-l", "1", "0", "m")
SECRET = "5ecret-that-only-root-may-read"


class HostileUsers(Users):
    def setUp(self):
        super().setUp()
        self.uid = self.user()
        self.others = os.path.join(self.sandbox.folder, "others")
        os.mkdir(self.others, 0o755)
        for name in "secret", "x.segment":
            with open(os.path.join(self.others, name), "w", encoding="utf-8") as file:
                file.write(f"[{SECRET}]\n{SECRET} = {SECRET}\n")
            os.chmod(file.name, 0o600)
        self.start(self.uid)
        self.start(self.uid, "-t", DESTINATION)
        (self.folder,) = {os.path.dirname(policy["segment"]) for policy in self.of(self.uid)}
        for end in ".pristine", ".away":
            self.addCleanup(shutil.rmtree, self.folder + end, ignore_errors=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=True)

    def snapshot(self):
        """What must stay as it is."""
        found = {}
        for folder, _, names in os.walk(self.others):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    found[path] = (os.lstat(path).st_mode, os.lstat(path).st_mtime_ns,
                                   hashlib.sha256(file.read()).hexdigest())
        return found

    def says(self, *words):
        """A command of root's about that user's circuits; returns its output and status."""
        process = subprocess.Popen([COMMAND, *words, "--user", str(self.uid)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.sandbox.environment("command", {"SOCKFUSE_STATE": None,
                                                                            "ASAN_OPTIONS": "detect_leaks=0"}))
        try:
            out, err = process.communicate(timeout=TOO_LONG)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"{words}: still runs after {TOO_LONG} s")
        self.assertIn(process.returncode, (0, 1), (words, err))
        for text in out.decode("utf-8"), err.decode("utf-8"):
            self.assertIsNone(CONTROL.search(text), (words, text))
            self.assertNotIn(SECRET, text, words)
        return out.decode("utf-8"), process.returncode

    def top(self):
        """`top` on a terminal, and its exit status behind it."""
        screen = Terminal(self, self.sandbox, width=120, env={"SOCKFUSE_STATE": None, "ASAN_OPTIONS": "detect_leaks=0"})
        screen.command("sh", "-c", f"{COMMAND} top --interval 100ms --user {self.uid}; echo ended with $?")
        screen.wait_for("calls/s")
        return screen

    def quit(self, screen):
        self.assertEqual(screen.asked("alternate_on"), "1", screen.screen())
        self.assertNotRegex(screen.screen(), CONTROL)
        self.assertNotIn(SECRET, screen.screen())
        screen.keys("Escape", "q")  # wherever it is, back to the list
        screen.wait_for("ended with 0")

    def test_root_goes_on_whatever_is_scribbled_exchanged_and_cut(self):
        os.rename(self.folder, self.folder + ".pristine")
        before = self.snapshot()
        script = shutil.copy(CLIENTS / "scribbler.py", self.sandbox.folder)
        hostile = [subprocess.Popen([PYTHON, script, self.folder, str(SEED), self.others, how],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    user=self.uid, group=self.uid, extra_groups=[]) for how in ("files", "map", "map")]
        for process in hostile:
            self.assertEqual(process.stdout.readline(), b"begun\n")
        screen = self.top()
        chance, end, tried = random.Random(SEED), time.monotonic() + SECONDS, 0
        while time.monotonic() < end or tried < 40:
            words = chance.choice((["status"], ["status", "--json"], ["events"], ["events", "--json"],
                                   ["open", DESTINATION], ["close", DESTINATION], ["auto", DESTINATION], ["reload"],
                                   ["open", "--for", "1h", DESTINATION], ["forget", DESTINATION],
                                   ["forget", "--ended"], ["status", "-p", self.sandbox.policy_path]))
            out, _ = self.says(*words)
            screen.keys(*chance.choices(KEYS, k=5))
            tried += 1
            if words == ["status", "--json"]:
                json.loads(out)
            elif words == ["events", "--json"]:
                for line in out.splitlines():
                    json.loads(line)
        self.quit(screen)
        for process in hostile:
            self.assertIsNone(process.poll(), process.stderr.read() if process.poll() is not None else None)
            process.stdin.close()
            process.wait(TOO_LONG)
            for pipe in process.stdout, process.stderr:
                pipe.close()
        self.assertEqual(self.snapshot(), before)
        subprocess.run(["rm", "-rf", self.folder], check=True)
        os.rename(self.folder + ".pristine", self.folder)
        self.assertEqual(len(self.of(self.uid)), 2, "as soon as he leaves it alone")

    # one at a time, each as it stands

    def segment(self):
        """The path of the policy's own segment."""
        (path,) = (policy["segment"] for policy in self.of(self.uid) if policy["policy"] == self.sandbox.policy_path)
        return path

    def name_policy(self, path):
        """Has the segment say that it is that policy's."""
        segment = self.segment()
        with open(segment, "r+b") as file:
            file.seek(IDENTITY_AT)
            file.write(os.fsencode(path) + b"\0")
        return segment

    def test_a_policy_is_read_with_the_rights_of_the_segments_user(self):
        secret = os.path.join(self.others, "secret")
        self.name_policy(secret)
        out, status = self.says("status", "-p", secret)
        self.assertIn(DENIED, out)
        self.assertEqual(status, 0)
        self.assertEqual(self.says("reload", "-p", secret)[1], 1)
        self.assertEqual(self.says("open", "-p", secret, DESTINATION), ("", 1))
        os.chown(secret, self.uid, -1)  # what he can read himself is his
        process = self.root("reload", "-p", secret, "--user", str(self.uid))
        self.assertIn(SECRET, process.stderr)

    def test_groups_are_the_users_too(self):
        """Root's own groups are not his."""
        secret = os.path.join(self.others, "secret")
        os.chmod(secret, 0o640)
        self.name_policy(secret)
        self.assertIn(DENIED, self.says("status", "-p", secret)[0])

    def test_what_is_no_regular_file_is_no_policy_of_anothers(self):
        pipe = os.path.join(self.sandbox.folder, "pipe")
        os.mkfifo(pipe, 0o666)
        os.chmod(pipe, 0o666)
        for path in pipe, "/dev/zero", "/dev/tty", self.sandbox.folder:
            with self.subTest(path):
                self.name_policy(path)
                self.assertIn("can't be read with that user's rights", self.says("status")[0])
                with open(self.segment_of(path), "r+b") as file:
                    file.seek(IDENTITY_AT)
                    file.write(os.fsencode(self.sandbox.policy_path) + b"\0")

    def segment_of(self, path):
        (found,) = (policy["segment"] for policy in self.of(self.uid) if policy["policy"] == path)
        return found

    def test_what_only_looks_like_a_segment_is_left_out(self):
        segment = self.segment()
        for name, make in (("a", lambda path: os.symlink(segment, path)), ("b", os.mkfifo), ("c", os.mkdir),
                           ("d", lambda path: os.symlink("/dev/zero", path)),
                           ("e", lambda path: shutil.copyfile(os.path.join(self.others, "secret"), path))):
            make(os.path.join(self.folder, name + ".segment"))
        found = self.of(self.uid)
        self.assertEqual(len(found), 2)
        os.link(segment, os.path.join(self.folder, "f.segment"))  # both names are of a file with a second one
        self.assertEqual([policy["policy"] for policy in self.of(self.uid)], [f"patterns: {DESTINATION}"])
        os.unlink(os.path.join(self.folder, "f.segment"))
        os.chmod(segment, 0o622)
        self.assertEqual([policy["policy"] for policy in self.of(self.uid)], [f"patterns: {DESTINATION}"])
        os.chmod(segment, 0o600)
        os.chown(segment, self.uid + 1, -1)
        self.assertEqual([policy["policy"] for policy in self.of(self.uid)], [f"patterns: {DESTINATION}"])

    def test_a_folder_that_leads_elsewhere_or_is_open_to_others_is_none(self):
        os.chmod(self.folder, 0o722)
        self.assertEqual(self.of(self.uid), [])
        os.chmod(self.folder, 0o700)
        self.assertEqual(len(self.of(self.uid)), 2)
        away = self.folder + ".away"
        os.rename(self.folder, away)
        os.symlink(away, self.folder)
        self.assertEqual(self.of(self.uid), [])
        os.unlink(self.folder)
        os.rename(away, self.folder)
        os.chown(self.folder, self.uid + 1, -1)
        self.assertEqual(self.of(self.uid), [])

    def test_a_lock_that_is_never_given_back_keeps_nobody(self):
        with open(self.segment(), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            result = self.root("reload", "--user", str(self.uid))
        self.assertIn("another command hands a policy over, and does not come to an end", result.stderr)
        self.assertEqual((result.stdout, result.status), ("", 1))


if __name__ == "__main__":
    unittest.main()
