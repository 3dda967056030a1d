"""Workers that are stopped while they wait for an answer close their sockets on the way out, or leave them open: that
is their end, and says nothing of the peer. A client whose own patience is at its end looks much like it, and counts.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import CLIENTS, PYTHON, RUN, ParallelSuite, Sandbox, Server, eventually, stay_silent  # noqa: E402
from matrix.programs import JAVA  # noqa: E402

load_tests = ParallelSuite.load(4)
LONG = 0.3  # more than abandon_after


class Base(unittest.TestCase):
    def start(self, *command):
        self.server = Server(stay_silent)
        self.addCleanup(self.server.stop)
        self.sandbox = Sandbox(self)
        self.sandbox.guard(self.server, failure_threshold=9, abandon_after="50ms")
        self.process = self.sandbox.popen([*command[:-1], self.server.address, self.server.port, command[-1]], RUN,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(self.process.stdout.readline(), b"waits\n")

    def stop(self, number):
        time.sleep(LONG)
        self.process.send_signal(number)

    def expect(self, status, failures):
        out, errors = self.process.communicate(timeout=60)
        self.assertEqual(self.process.returncode, status, (out, errors))
        self.sandbox.run([PYTHON, "-c", "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))",
                          self.server.address, self.server.port])  # it buries who has died
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((self.sandbox.failures(self.server), circuit["in_flight"]), (failures, 0), circuit)


class Stopped(Base):
    def python(self, way):
        for number, status, ends in ((signal.SIGTERM, 0, 0), (signal.SIGTERM, 1, 1), (signal.SIGTERM, 143, 143),
                                     (signal.SIGINT, 1, -signal.SIGINT)):
            if number == signal.SIGINT and way in ("asyncio", "sigwait"):
                continue
            with self.subTest(way=way, number=number, status=status):
                self.start(PYTHON, CLIENTS / "stopped.py", way, status)
                self.stop(number)
                self.expect(ends, {})

    def test_ruby(self):
        for way, number, status, ends in (("trap", signal.SIGTERM, 0, 0), ("trap", signal.SIGTERM, 1, 1),
                                          ("plain", signal.SIGTERM, 0, -signal.SIGTERM),
                                          ("plain", signal.SIGINT, 0, -signal.SIGINT)):
            with self.subTest(way=way, number=number, status=status):
                self.start("ruby", CLIENTS / "stopped.rb", way, status)
                self.stop(number)
                self.expect(ends, {})

    def test_node(self):
        for status in (0, 1):
            self.start("node", CLIENTS / "stopped.js", "stop", status)
            self.stop(signal.SIGTERM)
            self.expect(status, {})

    def test_php(self):
        for status in (0, 1):
            self.start("php", CLIENTS / "stopped.php", "stop", status)
            self.stop(signal.SIGTERM)
            self.expect(status, {})

    def test_a_last_job_that_is_broken_off_after_a_grace(self):
        """Its wait ran out, too: that of the grace."""
        for program in ([PYTHON, CLIENTS / "stopped.py"], ["node", CLIENTS / "stopped.js"]):
            for status in (0, 1):
                with self.subTest(program=program, status=status):
                    self.start(*program, "grace", status)
                    self.stop(signal.SIGTERM)
                    self.expect(status, {})

    def test_java_by_its_hooks(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.start("java", "-XX:TieredStopAtLevel=1", "-cp", JAVA.get().folder, "Stopped", "stop", 0)
            self.stop(number)
            self.expect(128 + number, {})

    def test_who_lives_on_has_given_up(self):
        """Within 100 ms it is known, also to others, while the process does nothing more."""
        self.start(PYTHON, CLIENTS / "stopped.py", "lives on", 0)
        self.stop(signal.SIGTERM)
        self.assertEqual(self.process.stdout.readline(), b"lives\n")

        def is_known():
            self.sandbox.run([PYTHON, "-c", "import socket, sys; "
                              "socket.create_connection((sys.argv[1], int(sys.argv[2])))",
                              self.server.address, self.server.port])
            return self.sandbox.failures(self.server)
        self.assertEqual(eventually(is_known), {"response-timeout": 1})
        self.process.stdin.close()
        self.process.stdin = None
        self.expect(0, {"response-timeout": 1})


for manner in ("recv", "poll", "asyncio", "threads", "sleeping", "leaves it open", "sigwait"):
    setattr(Stopped, f"test_python_{manner.replace(' ', '_')}", lambda self, way=manner: self.python(way))


class OutOfPatience(Base):
    """They report it, and leave within the same milliseconds."""

    def check(self, *command, hears=None):
        self.start(*command)
        if hears:
            self.stop(hears)
        self.expect(int(command[-1]), {"response-timeout": 1})

    def test_python(self):
        for way in ("own timeout", "own alarm"):
            for status in (0, 1):
                with self.subTest(way=way, status=status):
                    self.check(PYTHON, CLIENTS / "stopped.py", way, status)

    def test_a_signal_of_another_meaning_explains_nothing(self):
        for number in (signal.SIGCHLD, signal.SIGWINCH, signal.SIGUSR1):
            with self.subTest(number=number):
                self.check(PYTHON, CLIENTS / "stopped.py", "signalled own join", 1, hears=number)
        self.check("ruby", CLIENTS / "stopped.rb", "signalled", 1, hears=signal.SIGCHLD)

    def test_a_posix_timer(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        program = os.path.join(folder, "posix_timer")
        subprocess.run(["cc", "-o", program, CLIENTS / "posix_timer.c", "-lrt"], check=True)
        for number in (signal.SIGUSR1, signal.SIGALRM):
            with self.subTest(number=number):
                self.check(program, number.value, 1)

    def test_php(self):
        self.check("php", CLIENTS / "stopped.php", "own timeout", 1)

    def test_ruby(self):
        self.check("ruby", CLIENTS / "stopped.rb", "own timeout", 1)

    def test_node(self):
        self.check("node", CLIENTS / "stopped.js", "own timeout", 1)

    def test_java(self):
        self.check("java", "-XX:TieredStopAtLevel=1", "-cp", JAVA.get().folder, "Stopped", "own timeout", 1)


if __name__ == "__main__":
    unittest.main()
