"""SOCKFUSE_LOG and the line about a bad policy: they go where they are meant to go, or nowhere."""
import json
import os
import socket
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import PRELOAD, PYTHON, ParallelSuite, Sandbox  # noqa: E402

load_tests = ParallelSuite.load(4)
# Makes the circuit open by one refused connect, after what it is told to do. -S -E: nothing else is read meanwhile.
CALL = """import os, socket, sys
{before}
s = socket.socket()
s.connect_ex(("127.0.0.1", {port}))
s.close()
os._exit(0)
"""
OPENED = '"to":"open"'


class Log(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        bound = socket.socket()  # nobody listens: it refuses
        self.addCleanup(bound.close)
        bound.bind(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        self.sandbox.policy(f"[127.0.0.1:{self.port}]\nfailure_threshold = 1\n")
        self.data = os.path.join(self.sandbox.folder, "data")

    def call(self, before="", log="stderr", policy=None, **keywords):
        env = {"SOCKFUSE_LOG": log}
        if policy:
            env["SOCKFUSE_POLICY"] = policy
        process = subprocess.Popen(
            [PYTHON, "-S", "-E", "-c", CALL.format(before=before, port=self.port)],
            env=self.sandbox.environment(PRELOAD, env), cwd=self.sandbox.folder, **keywords)
        self.assertEqual(process.wait(60), 0)

    def opened(self):
        (circuit,) = self.sandbox.circuits()
        self.assertEqual(circuit["state"], "open")

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    # standard error

    def test_standard_error_gets_the_line_whatever_it_is(self):
        ours, theirs = socket.socketpair()
        with ours, theirs, open(self.data, "w", encoding="utf-8") as file:
            self.call(stderr=file)
            self.assertIn(OPENED, self.read(self.data))
            os.remove(self.sandbox.segment_path())
            self.call(stderr=theirs, stdin=subprocess.DEVNULL)
            self.assertIn(OPENED, ours.recv(65536).decode())

    def test_a_data_file_that_got_the_number_gets_nothing(self):
        self.call(before=f"os.close(2); assert os.open({self.data!r}, os.O_RDWR | os.O_CREAT, 0o600) == 2",
                  stderr=subprocess.DEVNULL)
        self.opened()
        self.assertEqual(self.read(self.data), "")

    def test_a_pipe_to_another_program_that_got_the_number_gets_nothing(self):
        end, start = os.pipe()
        with open(end, "rb") as pipe:
            self.call(before=f"os.dup2({start}, 2)", stderr=subprocess.DEVNULL, pass_fds=[start])
            os.close(start)
            self.assertEqual(pipe.read(), b"")
        self.opened()

    def test_a_program_that_starts_without_the_number_gets_nothing_into_its_files(self):
        self.call(before=f"assert os.open({self.data!r}, os.O_RDWR | os.O_CREAT, 0o600) == 2",
                  preexec_fn=lambda: os.close(2))
        self.opened()
        self.assertEqual(self.read(self.data), "")

    def inetd(self, ours, theirs, **keywords):
        with ours:
            with theirs:
                self.call(stdin=theirs, stdout=theirs, stderr=theirs, **keywords)
            self.assertEqual(ours.recv(65536), b"")

    def connected(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = socket.create_connection(server.getsockname())
            return ours, server.accept()[0]

    def test_the_client_of_a_server_that_inetd_started_gets_nothing(self):
        self.inetd(*self.connected())
        self.opened()
        self.inetd(*socket.socketpair())

    # the line about a bad policy

    def bad(self):
        path = os.path.join(self.sandbox.folder, "bad.policy")
        with open(path, "w", encoding="utf-8") as file:
            file.write("nonsense\n")
        return path

    def test_a_bad_policy_is_told_on_standard_error_alone(self):
        bad = self.bad()
        with open(self.data, "w", encoding="utf-8") as file:
            self.call(policy=bad, stderr=file)
        self.assertIn("unguarded", self.read(self.data))
        self.inetd(*self.connected(), policy=bad)
        self.inetd(*socket.socketpair(), policy=bad)
        self.call(policy=bad, preexec_fn=lambda: os.close(2))
        self.assertEqual(self.read(bad), "nonsense\n")

    def test_a_bad_policy_kills_nobody_whose_standard_error_is_a_broken_pipe(self):
        end, start = os.pipe()
        os.close(end)
        self.call(policy=self.bad(), stderr=start, preexec_fn=lambda: __import__("signal").signal(13, 0))
        os.close(start)

    # a file

    def lines(self, path):
        return [json.loads(line)["to"] for line in self.read(path).splitlines()]

    def test_a_file_has_the_usual_mode(self):
        for mask, mode in ((0o022, 0o644), (0o027, 0o640), (0o077, 0o600)):
            path = os.path.join(self.sandbox.folder, f"log-{mask:o}")
            self.call(log=path, umask=mask)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode)
            os.remove(self.sandbox.segment_path())

    def test_a_relative_name_is_of_the_folder_that_the_program_started_in(self):
        self.call(before="os.chdir('/')", log="log")
        self.assertEqual(self.lines(os.path.join(self.sandbox.folder, "log")), ["open"])

    def test_a_file_that_was_deleted_is_made_again_and_a_link_is_followed(self):
        path = os.path.join(self.sandbox.folder, "link")
        os.symlink(self.data, path)
        self.call(log=path)
        self.assertEqual(self.lines(self.data), ["open"])
        os.remove(self.data)
        os.remove(self.sandbox.segment_path())
        self.call(log=path)
        self.assertEqual(self.lines(self.data), ["open"])

    def test_nothing_that_takes_no_line_is_waited_for(self):
        fifo = os.path.join(self.sandbox.folder, "fifo")
        os.mkfifo(fifo)
        for path in (fifo, "/dev/full", "/dev/null", self.sandbox.folder, "/nowhere/at/all", "/" + "x" * 5000):
            self.call(log=path)
            self.opened()
            if path not in ("/dev/null", "/" + "x" * 5000):
                (policy,) = self.sandbox.status()
                self.assertEqual(policy["log_lost"], 1, path)
                self.assertIn("1 line of the log", self.sandbox.sockfuse("status").stdout)
            os.remove(self.sandbox.segment_path())

    def test_a_full_pipe_is_not_waited_for(self):
        fifo = os.path.join(self.sandbox.folder, "fifo")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        try:
            while True:
                os.write(reader, bytes(4096))
        except BlockingIOError:
            pass
        self.call(log=fifo)
        os.remove(self.sandbox.segment_path())
        self.call(stderr=reader)
        self.opened()


if __name__ == "__main__":
    unittest.main()
