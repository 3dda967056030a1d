"""The fixtures themselves, with bare clients: a server that does not do what its name says proves nothing."""
import errno
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, BlackHole, Namespace, ParallelSuite, Server, answer_http, answer_late,  # noqa: E402
                      answer_status, end_after_request, eventually, flapping, reset_after_request, reset_at_accept,
                      stay_silent)

REQUEST = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
FAMILIES = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
load_tests = ParallelSuite.load(6)


class Fixture(unittest.TestCase):
    def start(self, *arguments, kind=Server, **keywords):
        server = kind(*arguments, **keywords)
        self.addCleanup(server.stop)
        return server

    def connect(self, server, timeout=2):
        client = socket.socket(server.family, socket.SOCK_STREAM)
        self.addCleanup(client.close)
        client.settimeout(timeout)
        client.connect(server.path if server.family == socket.AF_UNIX else (server.address, server.port))
        return client

    def exchange(self, server, timeout=2):
        client = self.connect(server, timeout)
        client.sendall(REQUEST)
        return client.recv(65536)

    def test_a_healthy_server_answers_on_every_family_and_counts_exactly(self):
        for family in FAMILIES:
            with self.subTest(family=family.name):
                server = self.start(answer_http, family)
                client = self.connect(server)
                for _ in range(3):
                    client.sendall(REQUEST)
                    self.assertTrue(client.recv(65536).endswith(ANSWER))
                self.assertEqual(server.connections, 1)
                self.assertEqual(server.connections, 1, "to ask changes nothing")
                self.assertEqual(server.requests, 3)

    def test_a_status_is_answered_as_given(self):
        self.assertTrue(self.exchange(self.start(answer_status("503 Gone"))).startswith(b"HTTP/1.1 503 Gone\r\n"))

    def test_a_silent_server_accepts_and_never_answers_even_after_a_half_close(self):
        for family in FAMILIES:
            with self.subTest(family=family.name):
                server = self.start(stay_silent, family)
                client = self.connect(server)
                client.sendall(REQUEST)
                client.shutdown(socket.SHUT_WR)
                client.settimeout(0.3)
                with self.assertRaises(TimeoutError):
                    client.recv(1)
                self.assertTrue(eventually(lambda server=server: server.requests == 1))

    def test_a_late_server_answers_late(self):
        server = self.start(answer_late(0.3))
        client = self.connect(server, 5)
        began = time.monotonic()
        client.sendall(REQUEST)
        self.assertTrue(client.recv(65536).endswith(ANSWER))
        self.assertGreaterEqual(time.monotonic() - began, 0.3)

    def test_a_reset_after_the_request_is_a_reset(self):
        for family in FAMILIES:
            with self.subTest(family=family.name), self.assertRaises(ConnectionResetError):
                self.exchange(self.start(reset_after_request, family))

    def test_an_end_after_the_request_is_the_end_of_the_stream(self):
        for family in FAMILIES:
            with self.subTest(family=family.name):
                self.assertEqual(self.exchange(self.start(end_after_request, family)), b"")

    def test_a_reset_at_accept_is_seen_by_the_attempt_or_by_the_request(self):
        server = self.start(reset_at_accept)
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            self.exchange(server)
        self.assertEqual(server.connections, 1)

    def test_a_script_goes_by_connections(self):
        server = self.start(flapping(answer_http, end_after_request, answer_http))
        self.assertTrue(self.exchange(server).endswith(ANSWER))
        self.assertEqual(server.connections, 1)
        self.assertEqual(self.exchange(server), b"")
        self.assertTrue(self.exchange(server).endswith(ANSWER))
        self.assertEqual(server.connections, 3)

    def test_a_server_that_is_down_refuses_and_comes_back_on_the_same_place(self):
        for family in FAMILIES:
            with self.subTest(family=family.name):
                server = self.start(answer_http, family, up=False)
                for _ in range(2):
                    with self.assertRaises(ConnectionRefusedError):
                        self.connect(server)
                    server.up()
                    self.assertTrue(self.exchange(server).endswith(ANSWER))
                    server.down()

    def test_a_black_hole_swallows_attempts_until_it_heals(self):
        for family in (socket.AF_INET, socket.AF_INET6):
            with self.subTest(family=family.name):
                hole = self.start(kind=BlackHole, family=family)
                for _ in range(3):
                    with self.assertRaises(TimeoutError):
                        self.connect(hole, 0.1)
                hole.heal()
                self.assertTrue(self.exchange(hole, 10).endswith(ANSWER))

    def test_a_namespace_has_its_own_hosts_loopback_and_sysctls(self):
        with tempfile.TemporaryDirectory() as folder:
            space = Namespace(folder, ["127.0.0.2 two.test", "127.0.0.3 two.test"], {"net/ipv4/tcp_syn_retries": "1"})
            self.addCleanup(space.close)
            alive = self.start(answer_http, address="127.0.0.3", namespace=space)
            self.start(kind=BlackHole, address="127.0.0.2", port=alive.port, namespace=space)
            result = subprocess.run(space.command(["curl", "-sS", "--connect-timeout", "4",
                                                   f"http://two.test:{alive.port}/"]), capture_output=True, check=True)
            self.assertEqual(result.stdout, ANSWER)
            self.assertEqual(alive.connections, 1)
            with self.assertRaises(OSError) as caught:
                socket.create_connection((alive.address, alive.port), 1)
            self.assertEqual(caught.exception.errno, errno.ECONNREFUSED)
            retries = subprocess.run(space.command(["cat", "/proc/sys/net/ipv4/tcp_syn_retries"]),
                                     capture_output=True, check=True).stdout
            self.assertEqual(retries, b"1\n")


if __name__ == "__main__":
    unittest.main()
