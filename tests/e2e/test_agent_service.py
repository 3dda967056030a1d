"""The agent as a service: a real systemd starts what is installed, and what the units take away it does not need."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, Clock, ParallelSuite, Sandbox, Server, ServiceManager, asleep, eventually,  # noqa: E402
                      stay_silent)
from test_everybody import numbers  # noqa: E402

load_tests = ParallelSuite.load(4)
NAME = "sockfuse-agent.service"
EXPOSURE_MOST = 3.5
# Not what else a machine starts first; a clock; and where its messages can be read without a journal.
APART = """[Unit]
DefaultDependencies=no
[Service]
Environment=SOCKFUSE_CLOCK=/tmp/clock
StandardError=append:/run/said
"""
SETTINGS = "/etc/sockfuse/agent.conf"
POLICY = "/etc/sockfuse/app.policy"
CHECK = """#!/bin/sh
echo "$(id -u) $(id -G) $(sed -n 's/^NoNewPrivs:.//p' /proc/self/status)" >>/tmp/checked
"""


def unit(whose):
    with open(BUILD / f"systemd/{whose}.service", encoding="utf-8") as file:
        return file.read()


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
class Units(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def analyze(self, whose, *words):
        """Of the unit, but for what it names, which is not installed here."""
        path = os.path.join(self.sandbox.folder, NAME)
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub("(?m)^Documentation=.*", "", unit(whose)).replace("=/usr/local/bin/sockfuse ", "=/bin/true "))
        done = subprocess.run(["systemd-analyze", *words, path], check=False, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "XDG_RUNTIME_DIR": self.sandbox.folder})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_systemd_has_nothing_to_say_against_them(self):
        self.analyze("system", "verify")
        self.analyze("user", "--user", "verify")

    def test_roots_is_little_exposed(self):
        exposure = re.search(r"exposure level for \S+: ([0-9.]+)", self.analyze("system", "security", "--offline=true"))
        self.assertLessEqual(float(exposure[1]), EXPOSURE_MOST)


class Service(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.manager = ServiceManager(self, self.sandbox)
        self.server = Server(stay_silent)
        self.addCleanup(self.server.stop)
        self.assertTrue(eventually(self.manager.is_up, 100))
        self.clock = Clock(str(self.manager.root / "tmp/clock"))
        self.addCleanup(self.clock.close)
        os.chmod(self.manager.root / "tmp/clock", 0o644)
        self.uid = next(numbers)

    def write(self, path, text, mode=0o644):
        place = self.manager.root / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        place.chmod(mode)

    def do(self, *words):
        out, err, status = self.manager.run(*words)
        self.assertEqual((err, status), ("", 0), (words, self.said()))
        return out

    def said(self):
        try:
            return (self.manager.root / "run/said").read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def begin(self, *more):
        """With drop-ins; READY has come when this returns."""
        self.write(f"/etc/systemd/system/{NAME}.d/apart.conf", "\n".join((APART, *more)) + "\n")
        self.do("systemctl", "daemon-reload")
        self.do("systemctl", "start", NAME)
        self.assertEqual(self.manager.shows(NAME, "ActiveState", "SubState"), ["active", "running"])

    def main(self):
        return int(self.manager.shows(NAME, "MainPID")[0])

    def log_in(self):
        """As a session begins: with a folder of the user's own, that was not there when the agent was started."""
        with open(self.manager.root / "etc/passwd", "a", encoding="ascii") as file:
            file.write(f"user{self.uid}:x:{self.uid}:{self.uid}::/:/bin/sh\n")
        self.home = f"/run/user/{self.uid}"
        self.do("mkdir", "-p", self.home)
        self.do("mount", "-t", "tmpfs", "-o", f"mode=700,uid={self.uid},gid={self.uid}", "tmpfs", self.home)

    def hang(self):
        """A call of the user's that nobody answers."""
        before = self.server.requests
        process = self.manager.popen("setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", "sockfuse",
                                     "run", "-p", POLICY, "--", "curl", "-s", self.server.url,
                                     env={"XDG_RUNTIME_DIR": self.home, "SOCKFUSE_CLOCK": "/tmp/clock"})
        self.assertTrue(eventually(lambda: self.server.requests > before and asleep(process), 60), self.said())

    def circuit(self):
        out, _, _ = self.manager.run("sockfuse", "status", "--json", "--user", str(self.uid),
                                     env={"SOCKFUSE_CLOCK": "/tmp/clock"})
        (policy,) = json.loads(out)
        return policy["circuits"][0]

    def settings(self, text):
        self.write(SETTINGS, f"[agent]\n{text}\n")

    def test_what_is_installed_does_its_work_with_what_is_left_to_it(self):
        self.settings("look_every = 20ms")
        self.write("/etc/sockfuse/check", CHECK, 0o755)
        self.write(POLICY, "[defaults]\nfailure_threshold = 1\nresponse_timeout = 5s\nreset_timeout = 1h\n"
                           "reset_timeout_max = 1h\nhealth_check = command /etc/sockfuse/check\nhealth_rise = 1\n"
                           f"[{self.server.destination}]\n")
        self.begin()
        status = self.do("grep", "-E", "^(CapBnd|CapEff|NoNewPrivs|Seccomp):", f"/proc/{self.main()}/status").split()
        fields = dict(zip(status[::2], status[1::2]))
        self.assertEqual((fields["NoNewPrivs:"], fields["Seccomp:"]), ("1", "2"))
        self.assertEqual(bin(int(fields["CapEff:"], 16)).count("1"), 5)
        self.log_in()
        self.hang()
        self.assertEqual(self.circuit()["state"], "closed")
        self.clock.advance_seconds(6)
        self.assertTrue(eventually(lambda: self.circuit()["state"] == "open", 60), (self.circuit(), self.said()))
        self.assertTrue(eventually(lambda: self.clock.advance_seconds(2) or self.circuit()["probe_due"], 60, 0.2),
                        (self.circuit(), self.said()))
        checked = (self.manager.root / "tmp/checked").read_text(encoding="ascii").splitlines()
        self.assertEqual(set(checked), {f"{self.uid} {self.uid} 1"})
        self.assertNotRegex(self.said(), "denied|permitted|only looked at")

    def test_systemd_hears_of_a_reload_and_starts_anew_what_was_killed_and_what_hangs(self):
        self.settings("look_every = 20ms")
        self.begin("WatchdogSec=2s", "RestartSec=0")
        self.settings("look_every = never")
        self.do("systemctl", "reload", NAME)
        self.assertTrue(eventually(lambda: "stay as they were" in self.said(), 60), self.said())
        self.assertEqual(self.manager.shows(NAME, "ActiveState", "NRestarts"), ["active", "0"])
        self.settings("look_every = 20ms")
        for how, count in (("KILL", "1"), ("STOP", "2")):
            self.do("kill", f"-{how}", str(self.main()))
            self.assertTrue(eventually(lambda: self.manager.shows(NAME, "NRestarts", "ActiveState") == [count, "active"], 90),
                            (how, self.said()))
        self.do("systemctl", "stop", NAME)
        self.assertEqual(self.manager.shows(NAME, "ActiveState", "Result"), ["inactive", "success"])

    def test_the_unit_of_a_user_serves_with_his_rights_alone(self):
        self.write(POLICY, "[defaults]\nfailure_threshold = 1\nresponse_timeout = 5s\nreset_timeout = 1h\n"
                           f"reset_timeout_max = 1h\n[{self.server.destination}]\n")
        self.settings("look_every = 20ms")
        self.log_in()
        # Not by a user's manager, which needs a session: by root's, as that user.
        self.write(f"/etc/systemd/system/{NAME}", unit("user"))
        self.begin(f"User={self.uid}", f"Environment=XDG_RUNTIME_DIR={self.home}")
        self.hang()
        self.clock.advance_seconds(6)
        self.assertTrue(eventually(lambda: self.circuit()["state"] == "open", 60), (self.circuit(), self.said()))


if __name__ == "__main__":
    unittest.main()
