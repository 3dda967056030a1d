"""Several agents at a time: one looks after a segment, the others stand by, and a user keeps root's from his own alone."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import PRELOAD, PYTHON, SOCKFUSE, ParallelSuite, Server, asleep, eventually, stay_silent  # noqa: E402
from test_agent import FAST, Agents  # noqa: E402
from test_everybody import Users  # noqa: E402

load_tests = ParallelSuite.load(4)
KEYS = {"failure_threshold": 1, "response_timeout": "5s", "reset_timeout": "1h", "reset_timeout_max": "1h"}
# Holds a range of the segments in a folder, for ever.
HOLDER = r"""
import fcntl, glob, os, struct, sys
held = [os.open(path, os.O_RDWR) for path in glob.glob(sys.argv[1] + "/*.segment")]
for fd in held:
    fcntl.fcntl(fd, 37, struct.pack("hhqqi", fcntl.F_WRLCK, 0, int(sys.argv[2]), int(sys.argv[3]), 0))
print(len(held), flush=True)
sys.stdin.read()
"""


class Together(Agents):
    def setUp(self):
        super().setUp()
        self.server = Server(stay_silent)
        self.addCleanup(self.server.stop)

    def hang(self):
        process = self.sandbox.popen(["curl", "-s", self.server.url], PRELOAD)
        self.assertTrue(eventually(lambda: self.server.requests > 0 and asleep(process), 60))

    def state(self):
        return self.sandbox.circuit(self.server)["state"]

    def test_the_second_says_who_is_there_does_nothing_and_follows_when_that_is_killed(self):
        self.sandbox.guard(self.server, **KEYS)
        self.hang()
        first = self.agent(*FAST, "-o", "sweep=no")
        path = os.path.join(self.sandbox.folder, "trace")
        self.agent(*FAST, before=("strace", "-o", path))
        self.assertIn("watches 0 policies", self.says())
        self.assertRegex(self.says(), rf"test\.policy: another agent, process {first.pid}, looks after it; this one stands by")

        def waits():
            with open(path, encoding="utf-8") as file:
                return file.read().count("epoll_wait")
        self.sandbox.clock.advance_seconds(6)
        begun = waits()
        self.assertTrue(eventually(lambda: waits() > begun + 100, 60))
        self.assertEqual(self.state(), "closed")
        first.kill()
        self.assertTrue(eventually(lambda: self.state() == "open", 60), self.says())
        self.assertEqual(self.says().count("stands by"), 1)
        self.assertIn("test.policy: the other agent has gone; this one looks after it", self.says())

    def test_agents_of_different_policies_are_in_nobodys_way(self):
        other = os.path.join(self.sandbox.folder, "other.policy")
        for path in self.sandbox.policy_path, other:
            with open(path, "w", encoding="utf-8") as file:
                file.write("[a:1]\n")
            self.use("-p", path)
            self.agent("-p", path)
        self.assertEqual(self.says().count("watches 1 policy"), 2)
        self.assertNotIn("stands by", self.says())


class AmongUsers(Users):
    def test_a_user_who_holds_the_lock_keeps_roots_agent_from_his_own_circuits_and_no_others(self):
        server = Server(stay_silent)
        self.addCleanup(server.stop)
        self.sandbox.policy("[defaults]\n" + "".join(f"{key} = {value}\n" for key, value in KEYS.items()) +
                            f"[{server.destination}]\n")
        hostile, honest = self.user(), self.user()
        self.serve(hostile)
        (policy,) = self.of(hostile)
        folder = os.path.dirname(policy["segment"])
        for opened, length in enumerate((0, 1 << 40), 1):
            said = os.path.join(self.sandbox.folder, "agent.said")
            with open(said, "wb") as file:
                holder = subprocess.Popen([PYTHON, "-c", HOLDER, folder, str(1 << 41), str(length)], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, user=hostile, group=hostile, extra_groups=[])
                self.assertEqual(holder.stdout.readline(), b"1\n")
                agent = self.sandbox.popen([SOCKFUSE, "agent", "-p", self.sandbox.policy_path, *FAST], how="command",
                                           env={"SOCKFUSE_STATE": None}, stderr=file)

            def says():
                with open(said, encoding="utf-8") as file:
                    return file.read()
            self.assertTrue(eventually(lambda: "watches" in says(), 60))
            self.assertEqual(len(re.findall(rf"\(user {hostile}\): another agent.* stands by", says())), 1, says())
            before = server.requests
            self.sandbox.popen([SOCKFUSE, "run", "-p", self.sandbox.policy_path, "-o",
                                f"response_timeout={20 + opened}ms", "--", "curl", "-s", server.url], how="command", env={"SOCKFUSE_STATE": None}, user=honest, group=honest,
                               extra_groups=[])
            self.assertTrue(eventually(lambda: server.requests > before, 60))
            self.assertTrue(eventually(lambda: [circuit["state"] for policy in self.of(honest)
                                                for circuit in policy["circuits"]].count("open") == opened, 60), says())
            agent.terminate()
            self.assertEqual(agent.wait(60), 0, says())
            holder.stdin.close()
            holder.wait(60)
            holder.stdout.close()


if __name__ == "__main__":
    unittest.main()
