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
from fixtures import (BUILD, PRELOAD, SOCKFUSE, ParallelSuite, Sandbox, Server, asleep,  # noqa: E402
                      eventually, stay_silent)

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
        self.assertIn(f"can't read `{self.sandbox.folder}`", self.sandbox.sockfuse("agent", "-c", self.sandbox.folder).stderr)
        os.remove(self.sandbox.policy_path)
        os.mkfifo(self.sandbox.policy_path)  # by whoever may write there: it is not waited for
        self.assertIn("it is a pipe", self.sandbox.sockfuse("agent", "-c", self.sandbox.policy_path).stderr)
        self.assertEqual(self.sandbox.sockfuse("agent", "more").status, 2)
        self.assertIn("-o sweep: expected KEY=VALUE", self.sandbox.sockfuse("agent", "-o", "sweep").stderr)

    def test_commands_that_are_not_here_or_no_programs_are_warned_of_when_their_policy_is_checked(self):
        folder, path = self.sandbox.folder, self.sandbox.policy_path
        plain = os.path.join(folder, "plain")
        with open(plain, "w", encoding="utf-8"):
            pass
        self.sandbox.policy(f"[a:1]\nalert = {folder}/none -v\nhealth_check = command {plain} a\n[b:1]\nalert = none-such\n"
                            f"[c:1]\nalert = true\nhealth_check = command {folder}\n[defaults]\nhealth_check = connect\n")
        result = self.sandbox.sockfuse("check", path)
        self.assertEqual(result.status, 0, "the file may be meant for another machine")
        told = re.findall(r"test\.policy:(\d+): warning: `(\w+)` of \[(.*)\]: (.*)", result.stderr)
        self.assertEqual([warning[:3] for warning in told], [
            ("1", "alert", "a:1"), ("1", "health_check", "a:1"), ("4", "alert", "b:1"), ("6", "health_check", "c:1")])
        self.assertEqual(told[0][3], f"there is no command {folder}/none; its full path is expected")
        self.assertEqual(told[1][3], f"{plain} can't be executed: Permission denied; chmod +x makes it a command")
        self.assertIn("there is no command none-such in /usr/local/sbin:", told[2][3])

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


class Sweeping(Agents):
    """Nobody calls any more: what is counted is counted by the agent."""

    def guard(self, *servers, **keys):
        self.server = servers[0]
        self.addCleanup(self.server.stop)
        self.sandbox.guard(*servers, **{"failure_rate": "0%", **keys})

    def circuit(self):
        return self.sandbox.circuit(self.server)

    def hang(self, count, argv):
        processes = [self.sandbox.popen(argv, PRELOAD) for _ in range(count)]
        self.assertTrue(eventually(lambda: self.server.requests >= count and
                                   all(process.poll() is not None or asleep(process) for process in processes), 120),
                        self.sandbox.circuits())
        return processes

    def events(self):
        return [event["event"] for event in self.sandbox.events()]

    def test_twenty_lone_programs_that_hang_open_their_circuit_while_they_hang(self):
        self.guard(Server(stay_silent), failure_threshold=20, response_timeout="5s", reset_timeout="1h",
                   reset_timeout_max="1h")
        self.agent(*FAST)
        argv = ["timeout", "140", "git", "-c", "credential.helper=", "ls-remote", f"{self.server.url}x.git"]
        processes = self.hang(20, argv)
        self.assertEqual(self.circuit()["state"], "closed")
        self.sandbox.clock.advance_seconds(6)
        self.assertTrue(eventually(lambda: self.circuit()["state"] == "open", 60), self.circuit())
        self.assertEqual((self.server.connections, self.server.requests), (20, 20), "none made a second call")
        self.assertEqual([process.poll() for process in processes], [None] * 20, "all still hang")
        self.assertEqual(self.sandbox.failures(self.server), {"response-timeout": 20})
        failures = [event for event in self.sandbox.events() if event["event"] == "failure"]
        self.assertEqual({event["program"] for event in failures}, {"git-remote-http"})
        for process in processes:
            process.kill()

    def test_what_killed_programs_left_is_given_back_and_nothing_is_charged(self):
        self.guard(Server(stay_silent), response_timeout="5s", max_connections=40)
        self.agent(*FAST)
        for process in self.hang(20, ["curl", "-s", self.server.url]):
            process.kill()
            process.wait(60)
        neutral = lambda: self.circuit()["counters"]["neutral"]  # noqa: E731
        self.assertTrue(eventually(lambda: neutral() == 20, 60), self.circuit())
        self.sandbox.clock.advance_seconds(6)
        self.assertEqual((self.circuit()["counters"]["failed"], self.circuit()["state"]), (0, "closed"))

    def test_a_probe_that_hangs_has_failed_at_its_limit_and_the_end_of_a_force_is_told(self):
        self.guard(Server(stay_silent), failure_threshold=1, response_timeout="5s", probe_timeout="5s",
                   reset_timeout="10s", backoff_multiplier=1)
        self.agent(*FAST)
        self.hang(1, ["curl", "-s", self.server.url])
        self.sandbox.clock.advance_seconds(5)
        self.assertTrue(eventually(lambda: "open" in self.events(), 60), self.events())
        self.sandbox.clock.advance_seconds(10)
        self.hang(2, ["curl", "-s", self.server.url])
        self.assertIn("half-open", self.events())
        self.sandbox.clock.advance_seconds(6)
        self.assertTrue(eventually(lambda: self.events().count("open") == 2, 60), self.events())
        self.assertEqual(self.server.requests, 2)
        self.sandbox.sockfuse("close", "--for", "10s", self.server.destination)
        self.sandbox.clock.advance_seconds(11)
        self.assertTrue(eventually(lambda: self.events().count("forced") == 2, 60), self.events())

    def test_with_sweep_off_it_only_looks(self):
        self.guard(Server(stay_silent), failure_threshold=1, response_timeout="5s")
        self.agent(*FAST, "-o", "sweep=no")
        self.hang(1, ["curl", "-s", self.server.url])
        self.sandbox.clock.advance_seconds(6)
        path = os.path.join(self.sandbox.folder, "more")
        later = self.agent(*FAST, "-o", "sweep=no", before=("strace", "-o", path))

        def waits():
            with open(path, encoding="utf-8") as file:
                return file.read().count("epoll_wait")
        self.assertTrue(eventually(lambda: waits() > 5, 60))
        self.assertEqual(self.circuit()["counters"]["failed"], 0)
        later.kill()

    def test_an_agent_that_was_killed_and_started_again_goes_on(self):
        self.guard(Server(stay_silent), failure_threshold=2, response_timeout="5s")
        first = self.agent(*FAST)
        self.hang(1, ["curl", "-s", self.server.url])
        self.sandbox.clock.advance_seconds(5)
        self.assertTrue(eventually(lambda: self.circuit()["counters"]["failed"] == 1, 60), self.circuit())
        first.kill()
        first.wait(60)
        self.hang(2, ["curl", "-s", self.server.url])
        self.sandbox.clock.advance_seconds(5)
        self.agent(*FAST)
        self.assertTrue(eventually(lambda: self.circuit()["state"] == "open", 60), self.circuit())


if __name__ == "__main__":
    unittest.main()
