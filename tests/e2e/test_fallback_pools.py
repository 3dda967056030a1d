"""A connection that a pool got while its circuit refused stands at the fallback: it goes back when the circuit does not
refuse any more, as a connection that has gone stale, and the pool's next one is at the destination.
"""
import json
import os
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PYTHON, RUN, ParallelSuite, Sandbox, Server, Session, heads, http_answer,  # noqa: E402
                      read_head)

load_tests = ParallelSuite.load(4)


def http_kept(name):
    def behaviour(server, sock, _number):
        for _ in heads(server, sock):
            sock.sendall(http_answer(body=name))
    return behaviour


def redis_kept(name):
    def behaviour(_server, sock, _number):
        while sock.recv(4096):
            sock.sendall(b"$%d\r\n%s\r\n" % (len(name), name))
    return behaviour


def http_that_is_asked_before(name):
    def behaviour(server, sock, _number):
        while read_head(server, sock)[0] is not None:
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            if sock.recv(4) != b"body":
                return
            sock.sendall(http_answer(body=name))
    return behaviour


class Back(unittest.TestCase):
    def start(self, speaks=http_kept):
        self.primary, self.backup = Server(speaks(b"primary"), up=False), Server(speaks(b"backup"))
        for server in (self.primary, self.backup):
            self.addCleanup(server.stop)
        self.sandbox = Sandbox(self, clock=True)
        self.sandbox.guard(self.primary, fallback=f"127.0.0.1:{self.backup.port}", failure_threshold=1,
                           reset_timeout="10s")

    def session(self, kind):
        return Session(self.sandbox, [PYTHON, CLIENTS / "kept_session.py", kind, self.primary.url], RUN)

    def fall_back(self, session):
        """The first call opens the circuit, and those that follow are kept at the fallback."""
        while session.ask()["body"] is None:
            self.assertEqual(self.backup.connections, 0)
        for _ in range(20):
            self.assertEqual(session.ask(), {"body": "backup", "error": None})
        self.assertEqual(self.backup.connections, 1)

    def come_back(self, session, errors):
        self.primary.up()
        self.sandbox.clock.advance_seconds(10)
        answers = [session.ask() for _ in range(6)]
        failed = [answer["error"] for answer in answers if answer["error"]]
        self.assertEqual(len(failed), errors, answers)
        self.assertTrue(all("reset by peer" in error for error in failed), failed)
        self.assertEqual([answer["body"] for answer in answers if not answer["error"]], ["primary"] * (6 - errors))
        self.assertEqual((self.sandbox.circuit(self.primary)["state"], self.backup.connections), ("closed", 1))

    def go_and_come_back(self, kind, errors, speaks=http_kept):
        self.start(speaks)
        session = self.session(kind)
        self.fall_back(session)
        before = self.backup.requests
        self.come_back(session, errors)
        self.assertEqual(self.backup.requests, before)  # nothing is sent there any more
        self.assertEqual(session.close(), 0)

    def test_requests(self):
        self.go_and_come_back("requests", 1)

    def test_urllib3_which_tries_again(self):
        self.go_and_come_back("urllib3", 0)

    def test_http_client(self):
        self.go_and_come_back("http.client", 1)

    def test_redis_py(self):
        self.go_and_come_back("redis", 1, redis_kept)

    def test_unix_sockets(self):
        self.primary = Server(redis_kept(b"primary"), socket.AF_UNIX, up=False)
        self.backup = Server(redis_kept(b"backup"), socket.AF_UNIX)
        for server in (self.primary, self.backup):
            self.addCleanup(server.stop)
        self.sandbox = Sandbox(self, clock=True)
        self.sandbox.guard(self.primary, fallback=self.backup.destination, failure_threshold=1, reset_timeout="10s")
        session = Session(self.sandbox, [PYTHON, CLIENTS / "kept_session.py", "unix", self.primary.path], RUN)
        self.fall_back(session)
        self.come_back(session, 1)

    def test_a_request_that_is_under_way_goes_on(self):
        self.start(http_that_is_asked_before)
        session = self.session("expect")
        while session.ask()["body"] is None:
            pass
        self.assertEqual(session.ask()["body"], "backup")
        self.assertEqual(session.ask()["body"], "HTTP/1.1 100 Continue")
        self.primary.up()
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(session.ask()["body"], "backup")
        self.assertIn("reset by peer", session.ask()["error"])
        self.assertEqual([session.ask()["body"] for _ in range(2)], ["HTTP/1.1 100 Continue", "primary"])

    def test_node_agent_which_tries_nothing_again(self):
        self.start()
        process = self.sandbox.popen(["node", CLIENTS / "agent.js"], RUN, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def ask():
            process.stdin.write(json.dumps({"url": self.primary.url, "timeout": 20}).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        self.assertEqual(ask()["results"], ["ECONNREFUSED"])
        self.assertEqual([ask()["results"] for _ in range(10)], [[200]] * 10)
        self.primary.up()
        self.sandbox.clock.advance_seconds(10)
        answers = [ask() for _ in range(5)]
        self.assertEqual([answer["results"] for answer in answers], [["ECONNRESET"]] + [[200]] * 4)
        self.assertEqual((answers[-1]["signals"], self.primary.connections), ([], 1))

    def test_who_could_not_be_the_probe_stays(self):
        """Two processes: one makes the probe, which fails, and its pool is at the fallback again; so is the other."""
        self.start()
        first, second = self.session("urllib3"), self.session("urllib3")
        self.fall_back(first)
        self.assertEqual(second.ask()["body"], "backup")
        self.sandbox.clock.advance_seconds(10)
        self.assertIsNone(first.ask()["body"])  # the probe, which is refused
        for session in (first, second, second):
            self.assertEqual(session.ask()["body"], "backup")

    def test_a_circuit_that_is_closed_by_hand_lets_all_go_back(self):
        self.start()
        sessions = [self.session("urllib3") for _ in range(3)]
        for session in sessions:
            while session.ask()["body"] is None:
                pass
        self.primary.up()
        self.assertEqual(self.sandbox.sockfuse("close", self.primary.destination).status, 0)
        for session in sessions:
            self.assertEqual(session.ask()["body"], "primary")


if __name__ == "__main__":
    unittest.main()
