"""Connections that more than one process uses: what any of them sees counts, whoever leaves gives nothing up, and a
circuit whose users hand their connections to other programs finds back."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (PYTHON, ParallelSuite, Sandbox, Server, answer_http, answer_late,  # noqa: E402
                      end_after_request, eventually, stay_silent)
from fixtures.daemons import LOOPBACK, Daemon, Dropbear  # noqa: E402

load_tests = ParallelSuite.load(4)
ASK = "b'GET / HTTP/1.0\\r\\n\\r\\n'"


class Rsync(Daemon):
    def prepare(self):
        self.files = os.path.join(self.folder, "files")
        os.mkdir(self.files)
        with open(os.path.join(self.files, "big"), "wb") as file:
            file.write(os.urandom(1000000))

    def argv(self):
        path = os.path.join(self.folder, "conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"use chroot = no\naddress = {LOOPBACK}\nport = {self.port}\n"
                       f"uid = {os.getuid()}\ngid = {os.getgid()}\n[files]\npath = {self.files}\n")
        return ["rsync", "--daemon", "--no-detach", f"--config={path}"]

    def ready(self):
        return subprocess.run(["rsync", f"rsync://{self.destination}/"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False, timeout=20).returncode == 0


class Flows(unittest.TestCase):
    """The generator of an rsync client writes, its child reads."""

    def setUp(self):
        self.server = Rsync()
        self.addCleanup(self.server.stop)
        self.sandbox = Sandbox(self)
        self.sandbox.guard(self.server, response_timeout="1s", abandon_after="50ms", failure_threshold=1)

    def pull(self, *words):
        return ["rsync", "-q", *(f"rsync://{self.server.destination}/files/{word}" for word in words),
                self.sandbox.folder]

    def expect(self):
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("closed", 0), circuit)
        self.assertGreater(circuit["counters"]["succeeded"], 0, circuit)

    def test_a_transfer_that_flows_is_not_silent(self):
        slow = self.sandbox.popen(["rsync", "--bwlimit=400", *self.pull("big")[1:]])
        self.assertTrue(eventually(lambda: self.sandbox.circuits()))
        while slow.poll() is None:
            self.assertEqual(self.sandbox.run(["rsync", f"rsync://{self.server.destination}/"]).status, 0)
        self.assertEqual(slow.returncode, 0)
        self.expect()

    def test_a_transfer_that_ends_with_an_error_of_its_own_is_no_failure(self):
        self.assertEqual(self.sandbox.run(self.pull("big", "missing")).status, 23)
        self.expect()


class Pairs(unittest.TestCase):
    """One process asks, another one hears the answer."""

    def play(self, script, behaviour, argv=None, **keys):
        self.server = Server(behaviour)
        self.addCleanup(self.server.stop)
        self.sandbox = Sandbox(self)
        self.sandbox.guard(self.server, abandon_after="50ms", failure_threshold=1, **keys)
        words = [self.server.address, self.server.port]
        result = self.sandbox.run(argv(*words) if argv else [PYTHON, "-c", script, *words])
        self.assertEqual((result.status, result.stderr), (0, ""), result)

    def count(self, name):
        return self.sandbox.counters(self.server)[name]

    HEAD = (f"import os, socket, subprocess, sys, time, multiprocessing\nASK = {ASK}\n"
            "sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n")

    def test_the_parent_writes_and_the_child_reads(self):
        self.play(self.HEAD + "child = os.fork()\n"
                  "if child == 0:\n    assert sock.recv(100)\n    os._exit(0)\n"
                  "sock.sendall(ASK); os.waitpid(child, 0); time.sleep(0.1); sock.close()", answer_late(0.1))
        self.assertEqual((self.count("succeeded"), self.count("failed")), (1, 0))

    def test_the_parent_leaves_badly_while_the_child_reads(self):
        self.play(self.HEAD + "child = os.fork()\n"
                  "if child:\n    sock.sendall(ASK); time.sleep(0.3); sock.close(); os.waitpid(child, 0); sys.exit(0)\n"
                  "assert sock.recv(100)", answer_late(0.6))
        self.assertEqual(self.count("failed"), 0)

    def test_the_child_writes_and_the_parent_reads(self):
        self.play(self.HEAD + "child = os.fork()\n"
                  "if child == 0:\n    sock.sendall(ASK)\n    os._exit(0)\n"
                  "os.waitpid(child, 0); assert sock.recv(100)", answer_late(0.1))
        self.assertEqual((self.count("succeeded"), self.count("failed")), (1, 0))

    def test_a_process_of_multiprocessing_reads(self):
        for method in "fork", "spawn":
            with self.subTest(method):
                self.play("import multiprocessing, socket, sys, time\n"
                          "def read(sock):\n    assert sock.recv(100)\n"
                          "if __name__ == '__main__':\n"
                          "    sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
                          f"    sock.sendall({ASK})\n"
                          f"    context = multiprocessing.get_context('{method}')\n"
                          "    child = context.Process(target=sock.recv, args=(100,))\n"
                          "    child.start(); child.join(); time.sleep(0.1); sock.close(); sys.exit(child.exitcode)",
                          answer_late(0.3))
                self.assertEqual(self.count("failed"), 0)

    def test_the_shells_child_reads(self):
        self.play(None, answer_late(0.3), lambda address, port: [
            "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; "
                          "head -n 1 <&3 >/dev/null; exec 3>&-"], response_timeout="100ms")
        self.assertEqual(self.count("failed"), 0)

    def test_what_no_process_hears_is_a_failure(self):
        self.play(self.HEAD + "child = os.fork()\n"
                  "if child == 0:\n    sock.settimeout(0.2)\n    try: sock.recv(100)\n"
                  "    except TimeoutError: os._exit(0)\n"
                  "sock.sendall(ASK); os.waitpid(child, 0); sock.close()", stay_silent)
        self.assertEqual(self.sandbox.failures(self.server), {"response-timeout": 1})


class Probes(unittest.TestCase):
    """After an outage, clients that hand their connections on."""

    def find_back(self, server, client, opener):
        sandbox = Sandbox(self, clock=True)
        sandbox.guard(server, failure_threshold=1, reset_timeout="10s")
        opener(sandbox)
        self.assertEqual(sandbox.circuit(server)["state"], "open")
        sandbox.clock.advance_seconds(10)
        result = sandbox.run(client)
        circuit = sandbox.circuit(server)
        self.assertEqual(result.status, 0, result)
        self.assertEqual((circuit["state"], circuit["counters"]["probes_succeeded"]), ("closed", 1), circuit)
        others = [sandbox.popen(client) for _ in range(4)]
        self.assertEqual([other.wait(60) for other in others], [0] * 4)
        self.assertEqual(sandbox.circuit(server)["state"], "closed")

    def http(self, *client):
        server = Server(end_after_request)
        self.addCleanup(server.stop)

        def opener(sandbox):
            sandbox.run(["curl", "-sS", server.url])
            server.behaviour = answer_http

        self.find_back(server, [word.format(server.address, server.port) if isinstance(word, str) else word
                                for word in client], opener)

    def test_tcpclient_becomes_its_program(self):
        self.http("tcpclient", "-RHl0", "{0}", "{1}", "sh", "-c",
                  "printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&7; read -r answer <&6")

    def test_socat_becomes_its_program(self):
        self.http("socat", "TCP:{0}:{1}", "EXEC:true,nofork")

    def test_bash_hands_it_to_a_command(self):
        self.http("bash", "-c", "exec 3<>/dev/tcp/{0}/{1}; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; "
                                "head -n 1 <&3 >/dev/null")

    def test_python_gives_it_to_a_program_as_its_input(self):
        self.http(PYTHON, "-c", "import socket, subprocess; sock = socket.create_connection(('{0}', {1}))\n"
                                "subprocess.run(['true'], stdin=sock, check=True)")

    def test_python_lets_a_program_have_the_number(self):
        self.http(PYTHON, "-c", "import socket, subprocess; sock = socket.create_connection(('{0}', {1}))\n"
                                "subprocess.run(['true'], pass_fds=[sock.fileno()], check=True)")

    def test_nc_passes_it_on_to_ssh(self):
        server = Dropbear()
        self.addCleanup(server.stop)
        ssh = ["ssh", "-F", "/dev/null", "-i", server.key, "-o", "IdentitiesOnly=yes", "-o",
               "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o",
               "BatchMode=yes", "-o", f"ProxyCommand=nc.openbsd -F {LOOPBACK} {server.port}", "-o",
               "ProxyUseFdpass=yes", "root@there", "true"]

        def opener(sandbox):
            server.down()
            self.assertEqual(sandbox.run(ssh).status, 255)
            server.up()

        self.find_back(server, ssh, opener)


if __name__ == "__main__":
    unittest.main()
