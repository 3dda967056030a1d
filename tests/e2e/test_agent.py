"""The agent: how it starts, what it finds, what an idle second costs, how it ends."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, SOCKFUSE, ParallelSuite, Sandbox, eventually  # noqa: E402

load_tests = ParallelSuite.load(4)
DAEMON = BUILD / "sockfuse-agent"
FAST = ("-o", "look_every=20ms")


class Agents(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self, clock=True)
        self.said = os.path.join(self.sandbox.folder, "agent.said")

    def agent(self, *words, env=None, before=()):
        """Starts one; it has begun to look when this returns."""
        seen = len(self.says())
        with open(self.said, "ab") as said:
            process = self.sandbox.popen([*before, SOCKFUSE, "agent", *words], how="command", env=env, stderr=said)
        self.assertTrue(eventually(lambda: "watches" in self.says()[seen:] or process.poll() is not None, 60), self.says())
        return process

    def says(self):
        try:
            with open(self.said, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def ends(self, process, by=signal.SIGTERM):
        process.send_signal(by)
        return process.wait(60)

    def use(self, *words):
        """Brings a policy into use."""
        self.sandbox.run([SOCKFUSE, "run", *(words or ("-t", "127.0.0.1:1")), "--", "true"], how="command")


class Starting(Agents):
    def test_it_ends_by_a_signal_and_leaves_nothing(self):
        for end in signal.SIGTERM, signal.SIGINT:
            self.assertEqual(self.ends(self.agent(), end), 0, self.says())

    def test_its_settings_are_checked_before_it_begins(self):
        self.sandbox.policy("[agent]\nlook_evry = 1s\n")
        result = self.sandbox.sockfuse("agent", "-c", self.sandbox.policy_path)
        self.assertEqual(result.status, 1)
        self.assertRegex(result.stderr, r"test\.policy:2: error: unknown key `look_evry`.*did you mean `look_every`")
        self.assertEqual(self.sandbox.sockfuse("check", self.sandbox.policy_path).status, 1)
        self.sandbox.policy("[a:1]\n")
        self.assertIn("no section [agent]", self.sandbox.sockfuse("agent", "-c", self.sandbox.policy_path).stderr)
        self.assertEqual(self.sandbox.sockfuse("agent", "more").status, 2)
        self.assertIn("-o sweep: expected KEY=VALUE", self.sandbox.sockfuse("agent", "-o", "sweep").stderr)

    def test_a_reload_takes_other_settings_and_keeps_the_old_ones_if_they_are_bad(self):
        self.sandbox.policy("[agent]\nlook_every = 20ms\n")
        agent = self.agent("-c", self.sandbox.policy_path)
        self.sandbox.policy("[agent]\nlook_every = never\n")
        agent.send_signal(signal.SIGHUP)
        self.assertTrue(eventually(lambda: "stay as they were" in self.says(), 60), self.says())
        self.assertIsNone(agent.poll())
        self.assertEqual(self.ends(agent), 0)

    def test_without_it_the_command_says_how_to_get_it(self):
        folder = tempfile.mkdtemp(prefix="sf-alone-")
        self.addCleanup(subprocess.run, ["rm", "-rf", folder], check=True)
        subprocess.run(["cp", SOCKFUSE, folder], check=True)
        if os.path.exists("/usr/local/libexec/sockfuse/sockfuse-agent"):
            self.skipTest("one is installed")
        result = self.sandbox.run([os.path.join(folder, "sockfuse"), "agent"], how="command")
        self.assertEqual(result.status, 1)
        self.assertRegex(result.stderr, "sockfuse-agent is neither in .*libev-dev")

    def test_a_service_manager_hears_that_it_is_ready_lives_and_stops(self):
        path = os.path.join(self.sandbox.folder, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(60)
            agent = self.agent(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000"})
            heard = [manager.recv(1000).decode() for _ in range(4)]
            self.assertEqual(heard, ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"])
            agent.terminate()
            while manager.recv(1000) != b"STOPPING=1":
                pass
            self.assertEqual(agent.wait(60), 0)


class Finding(Agents):
    def traced(self, *words, looks):
        """The system calls of some looks, by name, of an agent under strace."""
        path = os.path.join(self.sandbox.folder, "trace")
        agent = self.agent(*words, *FAST, before=("strace", "-f", "-o", path))

        def waits():
            with open(path, encoding="utf-8", errors="replace") as file:
                return [line for line in file if "epoll_wait(" in line and " = 0" in line]
        begun = len(waits())
        self.assertTrue(eventually(lambda: len(waits()) > begun + looks, 60), self.says())
        with open(path, encoding="utf-8", errors="replace") as file:
            calls = re.findall(r"^\d+ +(\w+)\(", file.read(), re.M)
        os.kill(int(subprocess.run(["pgrep", "-P", str(agent.pid)], capture_output=True, text=True,
                                   check=True).stdout.split()[0]), signal.SIGTERM)
        agent.wait(60)
        # From behind the first looks to the last wait.
        places = [i for i, name in enumerate(calls) if name == "epoll_wait"]
        return calls[places[-looks]:places[-1]]

    def test_an_idle_look_makes_two_system_calls_with_one_segment_and_with_a_hundred(self):
        self.use()
        self.assertEqual(set(self.traced(looks=20)), {"epoll_wait", "statx"})
        for i in range(2, 101):
            self.sandbox.policy(f"[127.0.0.1:{i}]\n")
            shutil.copy(self.sandbox.policy_path, f"{self.sandbox.policy_path}{i}")
            self.use("-p", f"{self.sandbox.policy_path}{i}")
        calls = self.traced(looks=20)
        self.assertIn("100 policies", self.says())
        self.assertEqual(set(calls), {"epoll_wait", "statx"})
        self.assertEqual(len(calls), 2 * calls.count("epoll_wait"), "of all of them together")


if __name__ == "__main__":
    unittest.main()
