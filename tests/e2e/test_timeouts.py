"""enforce_timeouts = yes: programs that would wait for ever are given an end, and those that have their own keep it."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, BARE, CERTIFICATES, CLIENTS, PYTHON, RUN, BlackHole, ParallelSuite,  # noqa: E402
                      Sandbox, Server, answer_http, answer_late, over_tls, stay_silent)
from matrix.programs import JAVA  # noqa: E402

load_tests = ParallelSuite.load(6)
# A machine that is busy takes its time; without a limit the programs would take minutes.
SLACK = 12
TIMED_OUT = "Connection timed out"
OPTIONS = ("import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
           "s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n'); s.recv(1 << 16)\n"
           "print([s.getsockopt(socket.SOL_SOCKET, option, 16).hex() for option in (socket.SO_SNDTIMEO, "
           "socket.SO_RCVTIMEO)], s.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT), s.getblocking())")


def urllib(timeout=0):
    return lambda server: [PYTHON, CLIENTS / "urllib_get.py", server.url, timeout]


def wget(timeout):
    return lambda server: ["wget", "-nv", "-O", "-", "-t", "1", "-T", timeout, server.url]


def curl(*words):
    return lambda server: ["curl", "-sS", *words, server.url]


def bash(server):
    return ["bash", "-c", f"exec 3<>/dev/tcp/{server.address}/{server.port} && "
                          "printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && read -r line <&3 && echo $line"]


def perl(server):
    script = ("use Socket; socket(S, PF_INET, SOCK_STREAM, 0) or die; connect(S, sockaddr_in($ARGV[1], "
              "inet_aton($ARGV[0]))) or die qq(connect: $!\\n); syswrite S, qq(GET / HTTP/1.0\\r\\n\\r\\n); "
              "defined(sysread S, $b, 100) or die qq(read: $!\\n)")
    return ["perl", "-e", script, server.address, server.port]


def redis_cli(server):
    return ["redis-cli", "-h", server.address, "-p", server.port, "PING"]


def node(server):
    return ["node", CLIENTS / "http_get.js", server.url, 0]


def java(server):
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", JAVA.get().folder, "UrlConnectionGet",
            server.url, 0]


def php(server):
    return ["php", "-d", "display_errors=stderr", "-d", "log_errors=0", CLIENTS / "curl_get.php", server.url, 0]


class Timeouts(unittest.TestCase):
    def start(self, server, **keys):
        self.addCleanup(server.stop)
        self.server = server
        self.sandbox = Sandbox(self)
        self.sandbox.guard(server, **{"enforce_timeouts": "yes", "failure_threshold": 9, **keys})

    def ends(self, command, at_least, kind, words=TIMED_OUT, count=1, before=SLACK):
        result = self.sandbox.run(command(self.server))
        self.assertNotEqual(result.status, 0, result)
        self.assertIn(words, result.stdout + result.stderr)
        # Less than asked for by a hair: what starts before the clock of the test does.
        self.assertTrue(at_least - 0.05 <= result.seconds < before, result)
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual(self.sandbox.failures(self.server), {kind: count}, circuit)
        self.assertEqual(circuit["in_flight"], 0)

    def connect_ends(self, command, words=TIMED_OUT, count=1):
        self.start(BlackHole(), connect_timeout="1s")
        self.ends(command, 1, "connect-timeout", words, count)

    def receive_ends(self, command, words=TIMED_OUT):
        self.start(Server(stay_silent), response_timeout="1s")
        self.ends(command, 1, "response-timeout", words)

    # an attempt

    def test_a_send_that_connects_is_left_alone(self):
        script = ("import socket, sys; s = socket.socket()\n"
                  "try: s.sendto(b'GET', socket.MSG_FASTOPEN | socket.MSG_DONTWAIT, (sys.argv[1], int(sys.argv[2])))\n"
                  "except OSError as e: print(e.strerror, s.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))")
        self.start(BlackHole(), connect_timeout="1s")
        result = self.sandbox.run([PYTHON, "-c", script, self.server.address, self.server.port])
        self.assertEqual(result.output, ("Operation now in progress 0\n", "", 0))

    def test_a_blocking_connect_of_python_ends(self):
        self.connect_ends(urllib())

    def test_a_blocking_connect_of_wget_ends(self):
        self.connect_ends(wget(0))

    def test_a_blocking_connect_of_bash_ends(self):
        self.connect_ends(bash)

    def test_a_blocking_connect_of_perl_ends(self):
        self.connect_ends(perl)

    def test_an_attempt_without_blocking_is_the_programs_own_affair(self):
        """It waits in poll or epoll: nothing there can be ended unnoticed. It counts, while it hangs."""
        self.start(BlackHole(), connect_timeout="1s")
        result = self.sandbox.run(curl("-m", "3")(self.server))
        self.assertEqual(result.status, 28, result)
        self.assertGreaterEqual(result.seconds, 2.9)
        self.assertEqual(self.sandbox.failures(self.server), {"connect-timeout": 1})

    def test_an_attempt_of_java_ends(self):
        self.connect_ends(java, TIMED_OUT)

    # an answer

    def test_a_blocking_receive_of_python_ends(self):
        self.receive_ends(urllib())

    def test_a_blocking_receive_of_wget_ends(self):
        self.receive_ends(wget(0))

    def test_a_blocking_receive_of_bash_ends(self):
        self.receive_ends(bash)

    def test_a_blocking_receive_of_perl_ends(self):
        self.receive_ends(perl)

    def test_a_blocking_receive_of_redis_cli_ends(self):
        self.receive_ends(redis_cli, "recv timeout")

    def test_a_blocking_receive_inside_tls_ends(self):
        self.start(Server(over_tls(stay_silent), secure=True), response_timeout="1s")
        result = self.sandbox.run(urllib()(self.server), env=CERTIFICATES.get().environment())
        # An older Python's ssl takes any error of a read for the end of the stream.
        self.assertRegex(result.stderr, r"\A(RemoteDisconnected|TimeoutError)")
        self.assertEqual(result.status, 1, result)
        self.assertTrue(0.95 <= result.seconds < SLACK, result)
        self.assertEqual(self.sandbox.failures(self.server), {"response-timeout": 1})

    # the program's own limit

    def test_a_shorter_timeout_of_the_programs_own_wins(self):
        # Which words curl has for its timeout depends on which of its two timers comes first; the number does not.
        for command, words in ((urllib(0.5), "timed out"), (wget(0.5), "timed out"),
                               (curl("-m", "0.5"), "curl: (28)"), (curl("--connect-timeout", "0.5"), "curl: (28)")):
            with self.subTest(command=command):
                self.start(BlackHole(), connect_timeout="30s", abandon_after="50ms")
                bare = self.sandbox.run(command(self.server), BARE)
                self.ends(command, 0.5, "connect-timeout", words)
                self.assertLess(bare.seconds, SLACK)

    def test_a_shorter_timeout_for_the_answer_wins(self):
        for command in (urllib(0.5), wget(0.5), curl("-m", "0.5")):
            self.start(Server(stay_silent), response_timeout="30s", abandon_after="50ms")
            self.ends(command, 0.5, "response-timeout", "timed out")

    def test_a_longer_timeout_of_the_programs_own_does_not(self):
        """wget waits for a blocking connect by an alarm of its own."""
        self.start(BlackHole(), connect_timeout="1s")
        self.ends(wget(30), 1, "connect-timeout")

    # nothing else changes

    def test_an_answer_in_time_is_as_ever(self):
        for command in (urllib(), wget(0), curl(), perl, node, java, php):
            self.start(Server(answer_http), connect_timeout="20s", response_timeout="20s")
            bare, guarded = (self.sandbox.run(command(self.server), how) for how in (BARE, RUN))
            self.assertEqual((guarded.stdout, guarded.status), (bare.stdout, bare.status))
            self.assertEqual(guarded.status, 0)

    def test_an_answer_that_takes_longer_than_connect_timeout_comes(self):
        self.start(Server(answer_late(2.5)), connect_timeout="1s")
        for command in (urllib(), curl()):
            self.assertEqual(self.sandbox.run(command(self.server)).output, (ANSWER.decode(), "", 0))

    def test_an_answer_that_takes_long_between_its_parts_comes(self):
        """Only the first byte is waited for."""
        def behaviour(server, sock, number):
            del number
            if sock.recv(65536):
                server.count_request()
            sock.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            server.stopping.wait(3.5)
            sock.sendall(ANSWER)
        self.start(Server(behaviour), response_timeout="2s")
        for command in (urllib(), wget(0)):
            self.assertEqual(self.sandbox.run(command(self.server)).stdout, ANSWER.decode())

    def test_the_sockets_own_options_are_as_they_were(self):
        self.start(Server(answer_http), connect_timeout="20s", response_timeout="20s")
        command = [PYTHON, "-c", OPTIONS, self.server.address, self.server.port]
        self.assertEqual(self.sandbox.run(command).output, self.sandbox.run(command, BARE).output)

    def test_a_program_that_is_told_nothing_hangs_as_it_would_bare(self):
        self.start(BlackHole(), enforce_timeouts="no", connect_timeout="1s")
        process = self.sandbox.popen(urllib()(self.server), RUN)
        curl_too = self.sandbox.run(["curl", "-sS", "-m", "3", self.server.url])
        self.assertEqual(curl_too.status, 28)
        self.assertIsNone(process.poll())


if __name__ == "__main__":
    unittest.main()
