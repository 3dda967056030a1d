"""Whose are the calls? Containers that are killed, programs that become others, clocks of other name spaces, and
tables without room, as an operator sees them."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PRELOAD, PYTHON, SOCKFUSE, ParallelSuite, Sandbox, Server, Session,  # noqa: E402
                      eventually)

load_tests = ParallelSuite.load(4)
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL",
             *([] if os.getuid() == 0 else ["--user", "--map-root-user"])]
AHEAD = ["unshare", "--time", "--monotonic", "9936000", "--boottime", "9936000"]
# Holds a connection, then becomes something else that lives on.
BECOME = """import os, socket, sys
held = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
held.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
held.recv(1)
os.environ.pop("LD_PRELOAD", None)
os.environ["SOCKFUSE"] = "off"
print("held", flush=True)
%s
"""
WAYS = {
    "exec": "os.execvp('sleep', ['sleep', '100'])",
    "exec of a script": "os.execvp('/bin/sh', ['sh', '-c', 'sleep 100; true'])",
    "exec from a thread": "import threading\n"
                          "threading.Thread(target=lambda: os.execvp('sleep', ['sleep', '100'])).start()\n"
                          "threading.Event().wait()",
    "exec in the child of a vfork, and then its own": "import subprocess\nsubprocess.run(['true'])\n"
                                                      "os.execvp('sleep', ['sleep', '100'])",
}


def works(command):
    return subprocess.run([*command, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


class Owners(unittest.TestCase):
    def start(self, **keys):
        self.sandbox = Sandbox(self)
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **{"failure_rate": "0%", "success": "connect", **keys})

    def client(self, *before):
        argv = [*before, SOCKFUSE, "run", "-p", self.sandbox.policy_path, "--", PYTHON, CLIENTS / "sockets.py"]
        client = Session(self.sandbox, argv, how="command")
        client.ask(do="drop")  # it has started, so it is attached
        return client

    def call(self, client):
        return client.ask(do="call", port=self.server.port)

    def programs(self):
        (policy,) = self.sandbox.status()
        return sorted(process["program"] for process in policy["processes"])

    def policy(self):
        (policy,) = self.sandbox.status()
        return policy


class Ends(Owners):
    def test_a_killed_container_gives_its_shares_back(self):
        if not works(CONTAINER):
            self.skipTest("no process name spaces here")
        self.start(max_connections=2)
        inside = [self.client(*CONTAINER) for _ in range(2)]
        for client in inside:
            self.assertEqual(client.ask(do="hold", port=self.server.port), "connected")
        outside = self.client()
        self.assertEqual(self.call(outside), "ECONNREFUSED")
        self.assertEqual(self.programs(), ["python3"] * 3)
        for client in inside:
            client.process.kill()
            client.process.wait(10)
        self.assertTrue(eventually(lambda: self.call(outside) == "answered"))
        self.assertTrue(eventually(lambda: self.programs() == ["python3"]))
        self.assertTrue(eventually(lambda: self.sandbox.circuit(self.server)["connections"] == 0))

    def test_what_a_program_held_ends_when_it_becomes_another(self):
        for way, code in WAYS.items():
            with self.subTest(way):
                self.start(max_connections=1)
                launcher = self.sandbox.popen([PYTHON, "-c", BECOME % code, str(self.server.port)], how=PRELOAD,
                                              stdout=subprocess.PIPE)
                self.assertEqual(launcher.stdout.readline(), b"held\n")
                self.assertTrue(eventually(lambda: self.programs() == []), "the program is gone, the process lives")
                self.assertIsNone(launcher.poll())
                client = self.client()
                self.assertTrue(eventually(lambda: self.call(client) == "answered"))


class Clocks(Owners):
    def test_a_clock_that_is_115_days_ahead_opens_and_probes_as_all_others_do(self):
        if not works(AHEAD):
            self.skipTest("no time name spaces here")
        self.start(failure_threshold=2, reset_timeout="1h", reset_timeout_max="1h", success="answer")
        self.server.down()
        ahead, here = self.client(*AHEAD), self.client()
        self.assertEqual([self.call(ahead) for _ in range(2)], ["ECONNREFUSED"] * 2)
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual(circuit["state"], "open")
        self.assertGreater(circuit["retry_in_ms"], 3000 * 1000)
        self.assertLessEqual(circuit["retry_in_ms"], 3600 * 1000)
        self.server.up()
        self.assertEqual([self.call(here), self.call(ahead)], ["ECONNREFUSED"] * 2, "for one and the same hour")
        self.assertEqual(self.sandbox.circuit(self.server)["counters"]["refused"], 2)
        self.assertEqual(self.programs(), ["python3"] * 2, "/proc shows each another start of the other")


class Room(Owners):
    def test_a_process_beyond_the_room_is_told_of(self):
        self.start(capacity="2 processes")
        clients = [self.client() for _ in range(3)]
        self.assertEqual([self.call(client) for client in clients], ["answered"] * 3)
        policy = self.policy()
        self.assertEqual(policy["no_room"], {"circuits": 0, "connections": 0, "processes": 1})
        self.assertEqual(policy["capacity"], {"circuits": 256, "connections": 8192, "processes": 2, "events": 2048})
        self.assertEqual((policy["unguarded"], len(policy["processes"])), (1, 2))
        result = self.sandbox.sockfuse("status", "-p", self.sandbox.policy_path)
        self.assertIn("1 call passed unguarded, for there was no room: 1 beyond 2 processes (capacity).",
                      result.stdout)
        self.assertEqual(clients[0].close(), 0)
        self.assertTrue(eventually(lambda: self.call(clients[2]) and len(self.policy()["processes"]) == 2))


if __name__ == "__main__":
    unittest.main()
