"""Pools of connections: a server that is started anew does no harm, one that hangs opens the circuit, and then the kept
connections' next requests are refused at once, without SIGPIPE, with nothing on the wire.
"""
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, CLIENTS, PYTHON, RUN, ParallelSuite, Sandbox, Server, asleep, eventually,  # noqa: E402
                      flapping, heads, http_answer, read_head, reset, stay_silent)
from matrix.programs import HIREDIS, JAVA, POSTGRES, REDIS  # noqa: E402

load_tests = ParallelSuite.load(4)
POOL = 4
HEALTHY, HANGS, CRASHED, GONE = "healthy", "hangs", "crashed", "gone"


class Moods:
    """A behaviour for HTTP with keep-alive whose mood the test sets: it answers, hangs, or ends all connections.

    From connection `strangers` on it resets new ones."""

    def __init__(self):
        self.mood = HEALTHY
        self.strangers = None

    def __call__(self, server, sock, number):
        if self.strangers is not None and number >= self.strangers:
            reset(sock)
            return
        rest = b""
        while not server.stopping.is_set():
            if self.mood in (CRASHED, GONE):
                if self.mood == CRASHED:
                    reset(sock)
                return
            if not select.select([sock], [], [], 0.02)[0]:
                continue
            head, rest = read_head(server, sock, rest)
            if head is None:
                return
            if self.mood == HANGS:
                server.stopping.wait()
            sock.sendall(http_answer())


class Pool:
    """A client process that keeps its connections: calls on command, `count` of them at the same time."""

    def __init__(self, sandbox, argv, java=False):
        self.process = sandbox.popen(argv, RUN, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.java = java

    def call(self, url, timeout=10, count=1):
        """The results (a status, or the error's words), in the order of the calls."""
        command = f"{url} {timeout * 1000} {count}" if self.java else json.dumps(
            {"url": url, "timeout": timeout, "count": count})
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the client ended with status {self.process.wait(10)}")
        result = json.loads(line)
        if "SIGPIPE" in result["signals"]:
            raise AssertionError("SIGPIPE came")
        return result["results"]


def requests(sandbox):
    return Pool(sandbox, [PYTHON, CLIENTS / "pool.py", "requests"])


def urllib3(sandbox):
    return Pool(sandbox, [PYTHON, CLIENTS / "pool.py", "urllib3"])


def node_agent(sandbox):
    return Pool(sandbox, ["node", CLIENTS / "agent.js"])


def java_httpclient(sandbox):
    return Pool(sandbox, ["java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", JAVA.get().folder, "Pool",
                          "httpclient"], java=True)


def java_urlconnection(sandbox):
    return Pool(sandbox, ["java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", JAVA.get().folder, "Pool",
                          "urlconnection"], java=True)


class Http(unittest.TestCase):
    def start(self, client, **keys):
        self.sandbox = Sandbox(self, clock=True)
        self.mood = Moods()
        self.server = Server(self.mood)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **{"failure_threshold": 3, "reset_timeout": "10s", **keys})
        self.pool = client(self.sandbox)
        self.fill()

    def fill(self):
        """Opens as many connections as the tests use at once."""
        for _ in range(5):
            before = self.server.connections
            self.assertEqual(set(self.pool.call(self.server.url, count=POOL)), {200})
            if self.server.connections == before:
                break

    @property
    def counters(self):
        return self.sandbox.counters(self.server)

    def opened_by_others(self):
        """Another process opens the circuit; all connections of the pool are well."""
        self.mood.strangers = self.server.connections + 1
        for _ in range(3):
            self.sandbox.run(["curl", "-sS", self.server.url])
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("open", 3), circuit)

    def opened_by_a_hang(self):
        """The server hangs until the circuit is open; one connection is kept by the pool."""
        self.mood.mood = HANGS
        self.assertNotIn(200, self.pool.call(self.server.url, timeout=1, count=POOL - 1))
        # Java says that the time is over before it closes the connection.
        self.assertTrue(eventually(lambda: self.sandbox.circuit(self.server)["state"] == "open"))
        self.assertEqual(self.sandbox.failures(self.server), {"response-timeout": POOL - 1})

    def restarted(self, client, how):
        self.start(client)
        kept = self.server.connections
        self.server.down()
        self.mood.mood = how
        self.assertTrue(eventually(lambda: not self.server._open))
        self.mood.mood = HEALTHY
        self.server.up()
        results = [result for _ in range(3) for result in self.pool.call(self.server.url, count=POOL)]
        self.assertIn(200, results)
        self.assertGreater(self.server.connections, kept)
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["consecutive_failures"]), ("closed", 0), circuit)
        self.assertEqual((circuit["counters"]["failed"], circuit["counters"]["refused"]), (0, 0), circuit)
        self.assertEqual(circuit["counters"]["succeeded"], self.server.requests, circuit)

    def hangs(self, client):
        self.start(client, abandon_after="50ms")
        self.opened_by_a_hang()
        before, requests_before, refused = self.server.connections, self.server.requests, self.counters["refused"]
        began = time.monotonic()
        results = self.pool.call(self.server.url, timeout=10, count=POOL)
        self.assertLess(time.monotonic() - began, 5, results)
        self.assertNotIn(200, results)
        self.assertEqual((self.server.connections, self.server.requests), (before, requests_before), results)
        self.assertGreaterEqual(self.counters["refused"], refused + POOL)
        self.assertEqual(self.counters["failed"], POOL - 1)
        self.mood.mood = HEALTHY
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.pool.call(self.server.url), [200])
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "closed")

    def probes(self, client):
        """The probe of a half-open circuit may be a request on a kept connection."""
        self.start(client)
        self.opened_by_others()
        before = self.server.connections
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.pool.call(self.server.url), [200])
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["counters"]["probes_succeeded"]), ("closed", 1), circuit)
        self.assertEqual(self.server.connections, before, "it needed no new connection")

    def allowed(self, client):
        """With existing = allow the kept connections serve on, and say nothing; new ones are refused."""
        self.start(client, existing="allow")
        self.opened_by_others()
        before = self.server.connections
        self.assertEqual(self.pool.call(self.server.url), [200])
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], self.server.connections), ("open", before), circuit)
        self.assertNotIn("200", self.sandbox.run(["curl", "-sS", "-w", "%{http_code}", self.server.url]).stdout)
        self.assertEqual(self.server.connections, before)


for pool in (requests, urllib3, node_agent, java_httpclient, java_urlconnection):
    for way in (GONE, CRASHED):
        setattr(Http, f"test_{pool.__name__}_with_a_server_that_is_{way}_and_back_leaves_the_circuit_closed",
                lambda self, pool=pool, way=way: self.restarted(pool, way))
    setattr(Http, f"test_{pool.__name__}_with_a_server_that_hangs_is_refused_on_kept_connections",
            lambda self, pool=pool: self.hangs(pool))
    setattr(Http, f"test_{pool.__name__}_probes_on_a_kept_connection", lambda self, pool=pool: self.probes(pool))
    setattr(Http, f"test_{pool.__name__}_goes_on_over_kept_connections_where_existing_is_allow",
            lambda self, pool=pool: self.allowed(pool))


def count_and_forward(connect, hang):
    """Hands each connection on to a real server; counts what the client sends, and keeps it while `hang` is set."""
    def behaviour(server, sock, number):
        del number
        with connect() as far:
            while not server.stopping.is_set():
                for ready in select.select([sock, far], [], [], 0.02)[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    if ready is sock:
                        server.count_request()
                        while hang.is_set():
                            if server.stopping.wait(0.02):
                                return
                    (far if ready is sock else sock).sendall(data)
    return behaviour


class Talk:
    """A program that is fed on its stdin, and whose lines are read as they come."""

    def __init__(self, sandbox, argv):
        self.process = sandbox.popen(argv, RUN, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.send(line)
        return self.process.stdout.readline().decode().strip()

    def rest(self):
        self.process.stdin.close()
        return self.process.stdout.read().decode()


class Sessions(unittest.TestCase):
    """redis-cli, hiredis and psql (libpq): one connection, several commands."""

    def start(self, daemon, argv, question, answer):
        self.sandbox = Sandbox(self, clock=True)
        self.hang = threading.Event()
        path = daemon.get().path

        def connect():
            far = socket.socket(socket.AF_UNIX)
            far.connect(path)
            return far
        self.server = Server(count_and_forward(connect, self.hang))
        self.addCleanup(self.server.stop)
        self.addCleanup(self.hang.clear)
        self.sandbox.guard(self.server, failure_threshold=1, reset_timeout="60s", response_timeout="10s")
        self.argv, self.question, self.answer = argv, question, answer

    def redis(self):
        self.start(REDIS, ["redis-cli", "-h", "127.0.0.1", "-p"], "PING", "PONG")

    def hiredis(self):
        self.start(REDIS, [HIREDIS.get().path, 60, "127.0.0.1"], "PING", "PONG")

    def psql(self):
        self.start(POSTGRES, ["env", "PGSSLMODE=disable", "psql", "-X", "-At", "-h", "127.0.0.1", "-U", "postgres",
                              "-d", "postgres", "-p"], "select 'row';", "row")

    def session(self, asks=3):
        talk = Talk(self.sandbox, [*self.argv, self.server.port])
        for _ in range(asks):
            self.assertEqual(talk.ask(self.question), self.answer)
        return talk

    def restarted(self):
        talk = self.session()
        self.server.down()
        self.server.drop()
        self.assertTrue(eventually(lambda: not self.server._open))
        self.server.up()
        talk.send(self.question)
        talk.rest()
        self.assertGreaterEqual(talk.process.wait(20), 0)
        again = self.session(1)
        again.rest()
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("closed", 0), circuit)
        self.assertGreaterEqual(circuit["counters"]["succeeded"], 4, circuit)
        self.assertGreaterEqual(self.server.connections, 2)

    def hangs(self):
        """Two sessions: one's command hangs, and the other one, whose connection is well, is refused at once."""
        victim, other = self.session(), self.session()
        self.hang.set()
        sent = self.server.requests + 1
        victim.send(self.question)
        self.assertTrue(eventually(lambda: self.server.requests == sent and asleep(victim.process)))
        self.sandbox.clock.advance_seconds(10)
        other.send(self.question)
        words = other.rest()
        self.assertGreaterEqual(other.process.wait(20), 0)
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], self.sandbox.failures(self.server)), ("open", {"response-timeout": 1}),
                         circuit)
        self.assertNotIn(self.answer + "\n", words)
        self.assertEqual((self.server.requests, self.server.connections), (sent, 2), words)
        self.assertGreaterEqual(circuit["counters"]["refused"], 1, circuit)
        self.assertIsNone(victim.process.poll(), "the one that hangs goes on hanging, as it would bare")

    def test_redis_cli_over_a_restart_leaves_the_circuit_closed(self):
        self.redis()
        self.restarted()

    def test_hiredis_over_a_restart_leaves_the_circuit_closed(self):
        self.hiredis()
        self.restarted()

    def test_psql_over_a_restart_leaves_the_circuit_closed(self):
        self.psql()
        self.restarted()

    def test_redis_cli_is_refused_while_another_session_hangs(self):
        self.redis()
        self.hangs()

    def test_hiredis_is_refused_while_another_session_hangs(self):
        self.hiredis()
        self.hangs()

    def test_psql_is_refused_while_another_session_hangs(self):
        self.psql()
        self.hangs()

    def test_each_of_psqls_queries_is_a_call(self):
        self.psql()
        words = [*self.argv, self.server.port]
        words += [word for number in range(5) for word in ("-c", f"select {number};")]
        result = self.sandbox.run(words)
        self.assertEqual((result.stdout, result.status), ("0\n1\n2\n3\n4\n", 0), result)
        counters = self.sandbox.counters(self.server)
        self.assertEqual((counters["succeeded"], counters["failed"]), (6, 0), "the session's start, and five queries")


class Curl(unittest.TestCase):
    def test_each_of_curls_urls_is_a_call_on_one_connection(self):
        sandbox = Sandbox(self)
        server = Server()
        self.addCleanup(server.stop)
        sandbox.guard(server)
        result = sandbox.run(["curl", "-sS", *[server.url] * 5])
        self.assertEqual(result.output, (ANSWER.decode() * 5, "", 0))
        counters = sandbox.counters(server)
        self.assertEqual((server.connections, counters["admitted"], counters["succeeded"]), (1, 5, 5), counters)

    def test_a_hang_after_some_answers_is_a_response_timeout_of_its_own(self):
        def behaviour(server, sock, number):
            for _ in zip(range(3), heads(server, sock)):
                sock.sendall(http_answer())
            stay_silent(server, sock, number)
        sandbox = Sandbox(self)
        server = Server(flapping(behaviour, stay_silent))
        self.addCleanup(server.stop)
        sandbox.guard(server, failure_threshold=1)
        result = sandbox.run(["curl", "-sS", "--max-time", "3", *[server.url] * 6])
        self.assertEqual(result.stdout, ANSWER.decode() * 3)
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], sandbox.failures(server)), ("open", {"response-timeout": 1}), circuit)
        self.assertEqual((circuit["counters"]["succeeded"], circuit["counters"]["refused"]), (3, 2), circuit)
        self.assertEqual((server.connections, server.requests), (1, 4))


if __name__ == "__main__":
    unittest.main()
