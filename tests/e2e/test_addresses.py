"""Destinations with several addresses, of which one is dead, and the programs that try them in turn or side by side.

Each test has a network namespace with a hosts file of its own: two.test is 127.0.0.2 (dead) and 127.0.0.3 (alive),
dual.test is ::1 (dead) and 127.0.0.1 (alive). Dead is either refused or a black hole.
"""
import errno
import os
import socket
import sys
import threading
import time
import unittest
from collections import namedtuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BARE, CLIENTS, PYTHON, RUN, BlackHole, Namespace, ParallelSuite, Postgres, Sandbox,  # noqa: E402
                      Server, Session, Shared, answer_http, answer_when, eventually, forward_to, in_parallel)

load_tests = ParallelSuite.load(6)
HOSTS = ["127.0.0.1 localhost", "127.0.0.2 two.test", "127.0.0.3 two.test", "::1 dual.test", "127.0.0.1 dual.test"]
DEAD = {"two.test": (socket.AF_INET, "127.0.0.2"), "dual.test": (socket.AF_INET6, "::1")}
ALIVE = {"two.test": "127.0.0.3", "dual.test": "127.0.0.1"}
POSTGRES = Shared(Postgres)


def python_urllib(host, port):
    return [PYTHON, CLIENTS / "urllib_get.py", f"http://{host}:{port}/", 2]


def psql(host, port):
    return ["env", "PGCONNECT_TIMEOUT=2", "PGSSLMODE=disable", "psql", "-X", "-At", "-h", host, "-p", port,
            "-U", "postgres", "-d", "postgres", "-c", "select 'hello'"]


def curl(host, port):
    return ["curl", "-sS", "--connect-timeout", 4, f"http://{host}:{port}/"]


def node(host, port):
    return ["node", CLIENTS / "http_get.js", f"http://{host}:{port}/", 5000]


def asyncio_happy(host, port):
    return [PYTHON, CLIENTS / "happy_get.py", host, port, 5]


Client = namedtuple("Client", "command name")
IN_TURN = [Client(python_urllib, "two.test"), Client(python_urllib, "dual.test"), Client(psql, "two.test"),
           Client(curl, "two.test"), Client(node, "two.test")]
SIDE_BY_SIDE = [Client(curl, "dual.test"), Client(node, "dual.test"), Client(asyncio_happy, "dual.test")]
CLIENTS_OF_NAMES = IN_TURN + SIDE_BY_SIDE
REFUSED, BLACK_HOLE = "refused", "black_hole"


def answer_postgres():
    path = POSTGRES.get().path

    def connect():
        far = socket.socket(socket.AF_UNIX)
        far.connect(path)
        return far
    return forward_to(connect)


class Names(unittest.TestCase):
    """A namespace, a name with two addresses, and a policy that knows the name."""

    def start(self, name, dead, behaviour=answer_http, clock=False, up=True, sysctls=None, **keys):
        self.sandbox = Sandbox(self, clock=clock)
        self.space = Namespace(self.sandbox.folder, HOSTS, sysctls)
        self.addCleanup(self.space.close)
        self.sandbox.namespace = self.space
        family, address = DEAD[name]
        self.alive = self.serve(Server(behaviour, address=ALIVE[name], namespace=self.space, up=up))
        kind = {"address": address, "family": family, "port": self.alive.port, "namespace": self.space}
        self.dead = self.serve(BlackHole(**kind) if dead == BLACK_HOLE else Server(up=False, **kind))
        self.destination = f"{name}:{self.alive.port}"
        self.sandbox.guard(self.destination, **keys)

    def start_for(self, client, dead, **keys):
        behaviour = answer_postgres() if client.command is psql else answer_http
        self.start(client.name, dead, behaviour, **keys)
        self.command = client.command(client.name, self.alive.port)

    def serve(self, server):
        self.addCleanup(server.stop)
        return server

    def works(self, how=RUN):
        result = self.sandbox.run(self.command, how)
        self.assertEqual(result.status, 0, result)
        self.assertIn("hello", result.stdout)
        return result

    def never_opened(self):
        circuit = self.sandbox.circuit(self.destination)
        counters = circuit["counters"]
        self.assertEqual(circuit["state"], "closed", circuit)
        self.assertEqual((counters["opened"], counters["refused"]), (0, 0), circuit)
        return circuit

    # closed stays closed

    def one_dead_address_does_not_open(self, client, dead):
        self.start_for(client, dead, failure_threshold=3)
        self.works(BARE)
        for _ in range(4):
            self.works()
        counters = self.never_opened()["counters"]
        self.assertLessEqual(counters["failed"], 1, "before the destination has answered once, and never again")
        in_parallel([self.works] * 6)
        self.assertEqual(self.alive.connections, 11)
        calls = 2 if client.command is psql else 1  # the start of its session, and the query
        self.assertEqual(self.never_opened()["counters"]["succeeded"], 10 * calls)

    def many_first_calls_at_once_do_not_open(self, client, dead):
        self.start_for(client, dead, failure_threshold=3)
        in_parallel([self.works] * 8)
        self.never_opened()

    def a_crowd_that_waits_for_slow_answers_does_not_open(self, calls_before):
        """Each of 20 threads has failed at the dead address before the living one has answered any of them."""
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.start("two.test", REFUSED, failure_threshold=3)
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        url = f"http://{self.destination}/"
        for _ in range(calls_before):
            self.assertEqual(session.ask(url=url, timeout=10)["status"], 200)
        self.alive.behaviour = answer_when(gate)
        session.send(url=url, timeout=60, threads=20, at=time.monotonic())
        self.assertTrue(eventually(lambda: self.alive.connections == calls_before + 20, 30),
                        (self.alive.connections, self.sandbox.circuit(self.destination)))
        self.never_opened()
        gate.set()
        self.assertEqual([session.receive()["status"] for _ in range(20)], [200] * 20)
        self.never_opened()

    def test_a_crowd_of_first_calls_that_waits_for_slow_answers_does_not_open(self):
        self.a_crowd_that_waits_for_slow_answers_does_not_open(calls_before=0)

    def test_a_crowd_of_later_calls_that_waits_for_slow_answers_does_not_open(self):
        self.a_crowd_that_waits_for_slow_answers_does_not_open(calls_before=5)

    # what must open all the same

    def impatient_calls_open(self, limit):
        """A client that has one timeout for all addresses gives up at the first, and never comes to the second."""
        command = [PYTHON, CLIENTS / "asyncio_get.py", *self.destination.split(":"), 1.5]
        for _ in range(limit):
            self.assertEqual(self.sandbox.run(command).stderr, "TimeoutError: \n")
        # A failed attempt may wait for what the other addresses say; at the latest the next admission charges it.
        self.assertIn("[Errno 111] Connection refused", self.sandbox.run(command).stderr)
        circuit = self.sandbox.circuit(self.destination)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("open", limit), circuit)
        self.assertEqual(self.sandbox.failures(self.destination), {"connect-timeout": limit}, circuit)

    def test_calls_that_give_up_at_the_first_of_two_dead_addresses_open(self):
        self.start("two.test", BLACK_HOLE, up=False, failure_threshold=3, abandon_after="50ms")
        self.impatient_calls_open(3)

    def test_calls_that_never_come_to_the_living_address_open(self):
        self.start("two.test", BLACK_HOLE, failure_threshold=3, abandon_after="50ms")
        self.impatient_calls_open(3)
        self.assertEqual(self.alive.connections, 0)

    # open comes back

    def comes_back(self, client, dead):
        self.start_for(client, dead, clock=True, up=False, failure_threshold=2, reset_timeout="10s")
        for _ in range(4):
            self.assertNotEqual(self.sandbox.run(self.command).status, 0)
            if self.sandbox.circuit(self.destination)["state"] == "open":
                break
        circuit = self.sandbox.circuit(self.destination)
        self.assertEqual((circuit["state"], circuit["probe_due"]), ("open", False), circuit)
        self.alive.up()
        self.assertNotEqual(self.sandbox.run(self.command).status, 0)
        self.assertEqual(self.alive.connections, 0, "the pause is not over")
        self.sandbox.clock.advance_seconds(10)
        self.works()
        circuit = self.sandbox.circuit(self.destination)
        self.assertEqual((circuit["state"], circuit["consecutive_failures"]), ("closed", 0), circuit)
        self.assertEqual(circuit["counters"]["probes_succeeded"], 1, circuit)
        for _ in range(3):
            self.works()
        circuit = self.sandbox.circuit(self.destination)
        self.assertEqual((circuit["state"], circuit["counters"]["opened"]), ("closed", 1), circuit)
        self.assertEqual(self.alive.connections, 4)

    def test_200_threads_probe_a_name_with_a_dead_first_address_by_one_connection(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.start("two.test", REFUSED, answer_when(gate), clock=True, up=False, failure_threshold=2)
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        url = f"http://{self.destination}/"
        for _ in range(3):
            self.assertEqual(session.ask(url=url, timeout=5)["errno"], errno.ECONNREFUSED)
        self.assertEqual(self.sandbox.circuit(self.destination)["state"], "open")
        self.alive.up()
        self.sandbox.clock.advance_seconds(10)
        session.send(url=url, timeout=60, threads=200, at=time.monotonic() + 0.5)
        for _ in range(199):
            self.assertEqual(session.receive()["errno"], errno.ECONNREFUSED)
        self.assertEqual(self.alive.connections, 1)
        self.assertEqual(self.sandbox.circuit(self.destination)["state"], "half-open")
        gate.set()
        self.assertEqual(session.receive()["status"], 200)
        self.assertEqual(self.sandbox.circuit(self.destination)["state"], "closed")

    # losers of Happy Eyeballs

    def losers_are_no_failures(self, command, **keys):
        self.start("dual.test", BLACK_HOLE, failure_threshold=3, **keys)
        self.command = command("dual.test", self.alive.port)
        for _ in range(5):
            self.works()
        circuit = self.never_opened()
        self.assertEqual(circuit["counters"]["failed"], 0, circuit)
        self.assertGreaterEqual(circuit["counters"]["neutral"], 5, circuit)

    def test_curl_closes_the_slow_family_and_that_is_no_failure(self):
        self.losers_are_no_failures(curl)

    def test_node_closes_the_slow_family_and_that_is_no_failure(self):
        # It closes the first attempt after 250 ms, before it tries the next; on a busy machine later.
        self.losers_are_no_failures(node, abandon_after="2s")

    def test_asyncio_closes_the_slow_family_and_that_is_no_failure(self):
        self.losers_are_no_failures(asyncio_happy)

    def test_curl_closes_the_slow_family_after_the_other_succeeded_and_that_is_no_failure_however_late(self):
        self.losers_are_no_failures(curl, abandon_after="50ms")

    def test_asyncio_closes_the_slow_family_after_the_other_succeeded_and_that_is_no_failure_however_late(self):
        self.losers_are_no_failures(asyncio_happy, abandon_after="50ms")

    # a circuit for each address

    def each_address_has_its_own(self, dead, kind):
        self.start("two.test", dead, failure_threshold=2, circuit="address")
        self.command = python_urllib("two.test", self.alive.port)
        for _ in range(5):
            self.works()
        circuit = self.sandbox.circuit(self.dead.destination)
        self.assertEqual(circuit["state"], "open", circuit)
        self.assertEqual({name: count for name, count in circuit["failures"].items() if count}, {kind: 2}, circuit)
        self.assertEqual(circuit["counters"]["refused"], 3, "the dead one is refused at once")
        circuit = self.sandbox.circuit(self.alive.destination)
        self.assertEqual((circuit["state"], circuit["counters"]["succeeded"]), ("closed", 5), circuit)
        self.assertEqual(circuit["counters"]["failed"], 0, circuit)

    def test_with_a_circuit_for_each_address_a_refused_one_opens_alone(self):
        self.each_address_has_its_own(REFUSED, "refused")

    def test_with_a_circuit_for_each_address_a_black_hole_opens_alone(self):
        self.each_address_has_its_own(BLACK_HOLE, "connect-timeout")


class KernelTimeout(unittest.TestCase):
    """A kernel that gives up after one retransmission: programs without a timeout of their own see ETIMEDOUT in 3 s."""

    def times_out(self, command, attempts=1):
        sandbox = Sandbox(self)
        space = Namespace(sandbox.folder, HOSTS, {"net/ipv4/tcp_syn_retries": "1"})
        self.addCleanup(space.close)
        sandbox.namespace = space
        hole = BlackHole(namespace=space)
        self.addCleanup(hole.stop)
        sandbox.guard(hole, failure_threshold=100, failure_rate=0)
        argv = command(hole.address, hole.port)
        bare, guarded = in_parallel([lambda: sandbox.run(argv, BARE, stdin=b"x"),
                                     lambda: sandbox.run(argv, RUN, stdin=b"x")])
        self.assertNotEqual(bare.status, 0)
        self.assertEqual(guarded.status, bare.status)
        circuit = sandbox.circuit(hole)
        self.assertEqual(sandbox.failures(hole), {"connect-timeout": attempts}, circuit)
        self.assertEqual(circuit["last_failure"]["errno"], "ETIMEDOUT", circuit)
        self.assertGreaterEqual(circuit["last_failure"]["elapsed_ms"], 2000, circuit)

    def test_curl_without_a_timeout_is_charged_when_the_kernel_gives_up(self):
        self.times_out(lambda host, port: ["curl", "-sS", f"http://{host}:{port}/"])

    def test_a_blocking_python_socket_is_charged_when_the_kernel_gives_up(self):
        self.times_out(lambda host, port: [PYTHON, CLIENTS / "urllib_get.py", f"http://{host}:{port}/", 0])

    def test_redis_cli_which_tries_twice_is_charged_when_the_kernel_gives_up(self):
        self.times_out(lambda host, port: ["redis-cli", "-h", host, "-p", port, "PING"], attempts=2)

    def test_nc_without_a_timeout_is_charged_when_the_kernel_gives_up(self):
        self.times_out(lambda host, port: ["nc", "-v", host, port])

    def test_bash_is_charged_when_the_kernel_gives_up(self):
        self.times_out(lambda host, port: ["bash", "-c", f"exec 3<>/dev/tcp/{host}/{port}"])


def add_tests():
    def add(name, run, *arguments):
        def test(self):
            run(self, *arguments)
        test.__name__ = name
        setattr(Names, name, test)

    for client in CLIENTS_OF_NAMES:
        for dead in (REFUSED, BLACK_HOLE):
            place = f"{client.command.__name__}_and_{client.name.split('.')[0]}_with_a_{dead}_address"
            add(f"test_{place}_stays_closed", Names.one_dead_address_does_not_open, client, dead)
            add(f"test_{place}_stays_closed_when_many_first_calls_come_at_once",
                Names.many_first_calls_at_once_do_not_open, client, dead)
            add(f"test_{place}_comes_back_when_it_was_open", Names.comes_back, client, dead)


add_tests()

if __name__ == "__main__":
    unittest.main()
