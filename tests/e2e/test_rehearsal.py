"""Rehearsals: injected faults are, to real programs, what real ones are; and fallbacks.

Each program meets a fault twice, bare and real, then injected while its server is healthy: it must print and return the
same, the circuit must show that kind, and the server must see nothing.
"""
import os
import re
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BARE, CLIENTS, PYTHON, RUN, SOCKFUSE, BlackHole, ParallelSuite, Postgres, Redis,  # noqa: E402
                      Sandbox, Server, Session, answer_http, answer_status, end_after_request, over_tls, read_head,
                      reset_after_request, stay_silent)
from matrix.programs import PROGRAMS  # noqa: E402

load_tests = ParallelSuite.load(4)

ANSWER_503 = (b"HTTP/1.1 503 Service Unavailable\r\nServer: sockfuse\r\nContent-Type: text/plain\r\n"
              b"Content-Length: 51\r\nConnection: close\r\n\r\n"
              b"This answer was injected by sockfuse: a rehearsal.\n")
NAMES = ("curl", "curl_ipv6", "wget", "python_urllib", "python_requests", "python_asyncio", "python_aiohttp",
         "node_http", "node_fetch", "java_httpurlconnection", "java_httpclient", "psql", "redis_cli", "nc", "ssh",
         "php_stream", "php_curl", "perl", "ruby")
ENOUGH = 20


def answer_503(server, sock, number):
    """What a rehearsal's answer looks like, from a real server."""
    del number
    head, _ = read_head(server, sock)
    if head is not None:
        sock.sendall(ANSWER_503)


class Fault:
    """inject: as the policy has it. real: makes a server at which bare programs meet the real fault."""

    def __init__(self, inject, kind, real, waits=False, only_http=False, spares=0):
        self.inject, self.kind, self.real, self.waits, self.only_http = inject, kind, real, waits, only_http
        self.spares = spares

    def concerns(self, entry):
        return not (self.only_http and entry.protocol != "http") and not (self.waits and entry.timeout is None)


FAULTS = {
    "refusal": Fault("refuse", "refused", lambda family: Server(family=family, up=False)),
    "reset": Fault("reset", "reset", lambda family: Server(reset_after_request, family)),
    "silence": Fault("silence", "response-timeout", lambda family: Server(stay_silent, family), waits=True,
                     spares=1),
    "early close": Fault("early-close", "early-close", lambda family: Server(end_after_request, family)),
    "hang": Fault("hang", "connect-timeout", BlackHole, waits=True),
    "503": Fault("http-503", "http-503", lambda family: Server(answer_503, family), only_http=True),
}


class Rehearsal(unittest.TestCase):
    """What all have in common."""

    maxDiff = None

    def start(self, server):
        self.addCleanup(server.stop)
        return server

    def in_rehearsal(self, server, inject, clock=False, **policy):
        sandbox = Sandbox(self, clock=clock)
        sandbox.guard(server, inject=inject, **policy)
        return sandbox


def without_place(entry, result, server):
    words = []
    for text in (result.stdout, result.stderr):
        for pattern in (*entry.times, r"0x[0-9a-f]+", r"@[0-9a-f]{6,}"):
            text = re.sub(pattern, "TIME", text)
        words.append(text.replace(str(server.port), "PORT"))
    return (*words, result.status)


class Programs(Rehearsal):
    """One test for each program and fault."""

    def meets(self, entry, fault):
        timeout = entry.timeout if fault.waits else ENOUGH
        real = self.start(fault.real(entry.family))
        bare = Sandbox(self).run(entry.command(real, timeout), BARE, stdin=entry.stdin)

        server = self.start(Server(family=entry.family))
        sandbox = self.in_rehearsal(server, fault.inject, failure_threshold=100)
        command = entry.command(server, timeout)
        injected = sandbox.run(command, RUN, stdin=entry.stdin)
        self.assertEqual(without_place(entry, injected, server), without_place(entry, bare, real))

        circuit = sandbox.circuit(server)
        counters = circuit["counters"]
        self.assertEqual(set(sandbox.failures(server)), {fault.kind}, circuit)
        self.assertEqual(counters["injected"], counters["admitted"], circuit)
        # One that is kept in reserve, and closed unused, says nothing.
        self.assertEqual(counters["failed"] + counters["neutral"], counters["admitted"], circuit)
        self.assertLessEqual(counters["neutral"], fault.spares, circuit)
        self.assertEqual((circuit["state"], circuit["in_flight"], counters["refused"]), ("closed", 0, 0), circuit)
        self.assertIs(circuit["rehearsal"], True)
        events = sandbox.events()
        self.assertTrue(events)
        self.assertTrue(all(event.get("injected") is True for event in events if event["event"] == "failure"), events)
        self.assertEqual(server.connections, 0, "the destination was touched")

    def is_late(self, entry):
        server = self.start(Server(family=entry.family))
        sandbox = self.in_rehearsal(server, "delay 700ms", failure_threshold=100)
        command = entry.command(server, ENOUGH)
        bare = sandbox.run(command, BARE, stdin=entry.stdin)
        late = sandbox.run(command, RUN, stdin=entry.stdin)
        self.assertEqual(without_place(entry, late, server), without_place(entry, bare, server))
        self.assertGreaterEqual(late.seconds, 0.7)
        counters = sandbox.counters(server)
        self.assertEqual(counters["injected"], counters["admitted"])
        self.assertGreaterEqual(counters["succeeded"], 1)
        self.assertEqual(server.connections, 2)


def add_tests():
    for entry in PROGRAMS:
        if entry.name not in NAMES:
            continue
        for name, fault in FAULTS.items():
            if fault.concerns(entry):
                def test(self, entry=entry, fault=fault):
                    self.meets(entry, fault)
                setattr(Programs, f"test_{entry.name}_meets_an_injected_{name.replace(' ', '_')}_like_a_real_one", test)
        if entry.name in ("curl", "python_urllib", "node_http", "java_httpclient"):
            def test_late(self, entry=entry):
                self.is_late(entry)
            setattr(Programs, f"test_{entry.name}_is_answered_after_the_injected_delay", test_late)


add_tests()


class Circuits(Rehearsal):
    """Injected outcomes do to circuits what others do, and nobody takes them for an incident."""

    def test_each_fault_opens_the_circuit_which_then_refuses(self):
        for fault in FAULTS.values():
            with self.subTest(fault.inject):
                server = self.start(Server())
                sandbox = self.in_rehearsal(server, fault.inject, failure_threshold=3, reset_timeout="60s",
                                            abandon_after="50ms")
                call = ["curl", "-s", "-o", "/dev/null", "--max-time", "1" if fault.waits else "20", server.url]
                for _ in range(3):
                    sandbox.run(call)
                circuit = sandbox.circuit(server)
                self.assertEqual(circuit["state"], "open", circuit)
                self.assertEqual(sandbox.failures(server), {fault.kind: 3})
                refused = sandbox.run(call)
                self.assertEqual(refused.status, 7)
                self.assertEqual(sandbox.counters(server)["refused"], 1)
                self.assertEqual(server.connections, 0)
                (opening,) = [event for event in sandbox.events() if event["event"] == "open"]
                self.assertIs(opening["injected"], True)
                self.assertEqual(opening["reason"], "failure-threshold")

    def test_a_probe_may_get_a_fault_too_and_after_the_rehearsal_the_circuit_closes(self):
        server = self.start(Server())
        sandbox = self.in_rehearsal(server, "refuse", clock=True, failure_threshold=1, reset_timeout="10s",
                                    backoff_multiplier=1)
        call = ["curl", "-s", "-o", "/dev/null", server.url]
        sandbox.run(call)
        sandbox.clock.advance_seconds(10)
        sandbox.run(call)
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], circuit["counters"]["probes_failed"]), ("open", 1), circuit)
        self.assertEqual(server.connections, 0)
        sandbox.guard(server, failure_threshold=1, reset_timeout="10s", backoff_multiplier=1)
        sandbox.clock.advance_seconds(10)
        self.assertEqual(sandbox.run(call).status, 0)
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], circuit["rehearsal"]), ("closed", False), circuit)
        (closing,) = [event for event in sandbox.events() if event["event"] == "close"]
        self.assertNotIn("injected", closing)

    def test_people_see_that_it_is_a_rehearsal(self):
        server = self.start(Server())
        sandbox = self.in_rehearsal(server, "http-500", http_failures="500-599")
        sandbox.run(["curl", "-s", server.url])
        status = sandbox.sockfuse("status", "-p", sandbox.policy_path).stdout
        self.assertIn("closed, rehearsal", status)
        self.assertIn(f"{server.destination}: 1 of the calls got a fault in a rehearsal", status)
        self.assertRegex(sandbox.sockfuse("events", "-p", sandbox.policy_path).stdout, r"http-500 after \S+, injected")

    def test_a_hang_without_a_timeout_is_charged_while_it_lasts(self):
        server = self.start(Server())
        sandbox = self.in_rehearsal(server, "hang", clock=True, failure_threshold=1, connect_timeout="10s",
                                    reset_timeout="60s")
        hanging = sandbox.popen(["curl", "-s", server.url])
        while not any(circuit["in_flight"] for circuit in sandbox.circuits()):
            self.assertIsNone(hanging.poll())
        sandbox.clock.advance_seconds(10)
        self.assertEqual(sandbox.run(["curl", "-s", server.url]).status, 7, "refused at once")
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], sandbox.failures(server)), ("open", {"connect-timeout": 1}), circuit)
        self.assertIsNone(hanging.poll())
        failure = [event for event in sandbox.events() if event["event"] == "failure"]
        self.assertEqual([(event["overdue"], event["injected"]) for event in failure], [(True, True)])
        self.assertEqual(server.connections, 0)

    def test_inside_tls_an_answer_becomes_a_reset(self):
        server = self.start(Server(secure=True))
        sandbox = self.in_rehearsal(server, "http-503")
        self.assertEqual(sandbox.run(["curl", "-s", server.url]).status, 35, "failed in the handshake")
        self.assertEqual(sandbox.failures(server), {"reset": 1})
        self.assertEqual(server.connections, 0)

    def test_enforced_timeouts_end_an_injected_hang(self):
        server = self.start(Server())
        sandbox = self.in_rehearsal(server, "hang", connect_timeout="1s", enforce_timeouts="yes")
        result = sandbox.run([PYTHON, CLIENTS / "urllib_session.py"], stdin=b'{"url": "%s"}\n' % server.url.encode())
        self.assertIn("timed out", result.stdout.lower())
        self.assertLess(result.seconds, 10)
        self.assertEqual(sandbox.failures(server), {"connect-timeout": 1})


class Draws(Rehearsal):
    """The same run twice gives the same faults."""

    def statuses(self, sandbox, server, count=60):
        """What one process sees of so many calls."""
        session = Session(sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        seen = [session.ask(url=server.url, timeout=20) for _ in range(count)]
        session.close()
        return [answer["status"] or answer["errno"] for answer in seen]

    def test_same_seed_same_faults_in_one_process(self):
        server = self.start(Server())
        sandbox = self.in_rehearsal(server, "http-503 at 20%, refuse at 20%", failure_threshold=0, failure_rate="0%")
        first, second = self.statuses(sandbox, server), self.statuses(sandbox, server)
        self.assertEqual(first, second)
        self.assertEqual(set(first), {200, 503, 111})
        self.assertEqual(server.connections, 2 * first.count(200))
        sandbox.guard(server, inject="http-503 at 20%, refuse at 20%", inject_seed=1, failure_threshold=0,
                      failure_rate="0%")
        self.assertNotEqual(self.statuses(sandbox, server), first)

    def test_processes_of_one_run_share_the_numbers(self):
        server = self.start(Server())
        sandbox = self.in_rehearsal(server, "http-503 at 40%", failure_threshold=0, failure_rate="0%")
        loop = f"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do curl -s -o /dev/null -w '%{{http_code}} ' {server.url}; done"
        shell = [sandbox.run(["sh", "-c", loop]).stdout.split() for _ in range(2)]
        self.assertEqual(shell[0], shell[1])
        self.assertEqual(set(shell[0]), {"200", "503"})
        one_process = [str(status) for status in self.statuses(sandbox, server, 12)]
        self.assertEqual(shell[0], one_process)


class Kept(Rehearsal):
    """Each request on a kept connection is drawn a fault too, and the same run twice draws the same."""

    COUNT = 16
    POOLS = {
        "requests": [PYTHON, CLIENTS / "pool.py", "requests"],
        "urllib3": [PYTHON, CLIENTS / "pool.py", "urllib3"],
        "node": ["node", CLIENTS / "agent.js"],
    }
    # What one of these programs calls it.
    WORDS = {
        "http-503": ("503",),
        "reset": ("reset", "ECONNRESET"),
        "refuse": ("reset", "refused", "ECONNRESET", "ECONNREFUSED"),
        "early-close": ("closed connection", "ECONNRESET"),
        "silence": ("timed out", "TIMEOUT"),
        "hang": ("timed out", "TIMEOUT"),
    }

    def rehearses(self, server, inject, more=""):
        """A target of one name, for the draw goes by it."""
        sandbox = Sandbox(self)
        sandbox.policy(f"[service]\nmatch = {server.destination}\ninject = {inject}\ninject_seed = 3\n"
                       "failure_threshold = 0\nminimum_calls = 1000\nabandon_after = 50ms\n" + more)
        return sandbox

    def results(self, sandbox, server, command, timeout):
        session = Session(sandbox, command)
        seen = [session.ask(url=server.url, timeout=timeout) for _ in range(self.COUNT)]
        session.close()
        self.assertTrue(all(answer["signals"] == [] for answer in seen))
        return [re.sub(r"0x[0-9a-f]+|port=[0-9]+", "", str(answer["results"][0])) for answer in seen]

    def meets(self, command, fault):
        server = self.start(Server())
        sandbox = self.rehearses(server, f"{fault} at 30%")
        timeout = 0.3 if fault in ("silence", "hang") else ENOUGH
        first, second = (self.results(sandbox, server, command, timeout) for _ in range(2))
        self.assertEqual(first, second)
        met = [result for result in first if result != "200"]
        self.assertTrue(all(any(word in result for word in self.WORDS[fault]) for result in met), met)
        self.assertTrue(2 <= len(met) <= self.COUNT - 6, first)
        self.assertEqual(first[0], "200", "the first one has none, so that what follows is kept")
        counters = sandbox.counters(server)
        self.assertEqual(counters["injected"], 2 * len(met), counters)
        self.assertEqual(server.requests, 2 * first.count("200"), "the destination was asked")
        self.assertLess(server.connections, server.requests)
        events = [event for event in sandbox.events() if event["event"] == "failure"]
        self.assertTrue(all(event.get("injected") is True for event in events), events)

    def test_a_request_may_be_late_and_others_are_not(self):
        for fault in ("delay 300ms", "slow 300ms"):
            for pool, command in self.POOLS.items():
                with self.subTest(fault + " " + pool):
                    server = self.start(Server())
                    sandbox = self.rehearses(server, f"{fault} at 30%", "slow_call = 250ms\nslow_call_rate = 0%\n")
                    self.assertEqual(self.results(sandbox, server, command, ENOUGH), ["200"] * self.COUNT)
                    counters = sandbox.counters(server)
                    self.assertTrue(2 <= counters["injected"] <= self.COUNT - 6, counters)
                    self.assertGreaterEqual(counters["slow"], counters["injected"])
                    self.assertEqual((server.connections, server.requests, counters["succeeded"]),
                                     (1, self.COUNT, self.COUNT))

    def test_a_slow_service_meets_the_programs_own_timeout_and_the_circuits(self):
        for pool, command in self.POOLS.items():
            with self.subTest(pool):
                server = self.start(Server())
                sandbox = self.rehearses(server, "slow 20s", "response_timeout = 500ms\n")
                session = Session(sandbox, command)
                answer = session.ask(url=server.url, timeout=1)
                session.close()
                self.assertRegex(str(answer["results"][0]), "timed out|TIMEOUT")
                self.assertEqual(sandbox.failures(server), {"response-timeout": 1})
                self.assertEqual(sandbox.counters(server)["injected"], 1)

    def test_a_slow_service_does_not_hold_up_an_event_loop(self):
        server = self.start(Server())
        sandbox = self.rehearses(server, "slow 1s")
        result = sandbox.run([sys.executable, "-c", self.LOOP, str(server.port)])
        self.assertEqual((result.stderr, result.status), ("", 0))
        answered, ticks = result.stdout.split()
        self.assertEqual(answered, "b'HTTP/1.1'")
        self.assertGreater(int(ticks), 3)

    LOOP = """
import asyncio, sys
async def main():
    ticks = 0
    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.05)
            ticks += 1
    ticking = asyncio.create_task(tick())
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    ticks = 0
    writer.write(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    print(await reader.readexactly(8), ticks)
asyncio.run(main())
"""

    def test_a_rehearsal_that_is_reloaded_meets_connections_that_were_kept_before(self):
        server = self.start(Server())
        sandbox = self.rehearses(server, "none")
        session = Session(sandbox, self.POOLS["requests"])
        calls = []

        def call():
            calls.append(session.ask(url=server.url, timeout=ENOUGH)["results"][0])
        call()
        call()
        with open(sandbox.policy_path, encoding="utf-8") as policy:
            text = policy.read()
        for inject in ("http-503", "none"):
            sandbox.policy(text.replace("none", inject))
            self.assertEqual(sandbox.sockfuse("reload", "-p", sandbox.policy_path).status, 0)
            call()
            call()
        session.close()
        self.assertEqual(calls, [200, 200, 503, 503, 200, 200])
        self.assertEqual((server.requests, server.connections), (4, 2))

    def test_queries_of_one_psql_are_drawn_each(self):
        postgres = self.start(Postgres())
        queries = [word for number in range(12) for word in ("-c", f"select {number}")]
        command = ["psql", "-h", "127.0.0.1", "-p", postgres.port, "-U", "postgres", "-d", "postgres", "-At", *queries]
        sandbox = self.rehearses(postgres, "slow 300ms at 30%")
        result = sandbox.run(command)
        self.assertEqual(result.stdout.split(), [str(number) for number in range(12)], result)
        self.assertGreater(sandbox.counters(postgres)["injected"], 2)
        sandbox = self.rehearses(postgres, "reset at 30%")
        first, second = (sandbox.run(command) for _ in range(2))
        self.assertEqual(first.output, second.output)
        self.assertIn("server closed the connection", first.stderr)

    def test_transfers_of_one_curl_are_drawn_each(self):
        server = self.start(Server())
        sandbox = self.rehearses(server, "http-503 at 30%")
        command = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} ", f"{server.url}[1-12]"]
        first, second = (sandbox.run(command).stdout.split() for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(set(first), {"200", "503"})
        self.assertEqual(server.requests, 2 * first.count("200"))

    def test_queries_on_one_connection_are_drawn_each(self):
        redis = self.start(Redis())
        sandbox = self.rehearses(redis, "early-close at 30%")
        words = b"set a 1\n" + b"incr b\n" * 20
        first, second = (sandbox.run(["redis-cli", "-p", str(redis.port)], stdin=words) for _ in range(2))
        # It connects anew after each, and goes on.
        self.assertEqual(first.stdout.count("\n"), second.stdout.count("\n"))
        self.assertIn("closed the connection", first.stdout + first.stderr)
        self.assertGreater(sandbox.counters(redis)["injected"], 4)

    def test_inside_tls_a_request_is_drawn_too(self):
        server = self.start(Server(over_tls(answer_http), secure=True))
        for fault, status in (("reset", 56), ("silence", 28), ("early-close", 56), ("http-503", 56), ("refuse", 56)):
            with self.subTest(fault):
                sandbox = self.rehearses(server, f"{fault} at 30%")
                before = server.requests
                result = sandbox.run(["curl", "-s", "-k", "--http1.1", "--fail-early", "--max-time", "3", "-o",
                                      "/dev/null", f"{server.url}[1-20]"])
                counters = sandbox.counters(server)
                self.assertGreaterEqual(counters["injected"], 1, counters)
                self.assertIn(result.status, (status, 7, 35), result)
                self.assertGreater(server.requests, before)
                self.assertEqual(sandbox.failures(server).get("http-503", 0), 0)


for pool, command in Kept.POOLS.items():
    for word in Kept.WORDS:
        def test_kept(self, command=command, fault=word):
            self.meets(command, fault)
        setattr(Kept, f"test_{pool}_meets_{word.replace('-', '_')}_on_a_kept_connection", test_kept)


class Fallbacks(Rehearsal):
    """While the circuit is open, calls go to the fallback, and only the probe goes to the destination."""

    def test_open_circuit_sends_calls_to_the_fallback_until_the_probe_succeeds(self):
        for words in (["curl", "-s"], [PYTHON, CLIENTS / "urllib_get.py"], ["node", CLIENTS / "http_get.js"]):
            with self.subTest(words[0]):
                primary = self.start(Server(up=False))
                backup = self.start(Server(answer_status("203 Non-Authoritative Information")))
                sandbox = Sandbox(self, clock=True)
                sandbox.guard(primary, fallback=f"127.0.0.1:{backup.port}", failure_threshold=1, reset_timeout="10s")
                # The circuits of the fallback, if it had one, would be seen.
                with open(sandbox.policy_path, "a", encoding="utf-8") as policy:
                    policy.write(f"[{backup.destination}]\n")
                timeout = [] if words[0] == "curl" else ["20000" if words[0] == "node" else "20"]
                call = [*words, primary.url, *timeout]
                self.assertNotEqual(sandbox.run(call).status, 0)
                for number in (1, 2):
                    answer = sandbox.run(call)
                    self.assertEqual((answer.status, backup.connections), (0, number), answer)
                counters = sandbox.counters(primary)
                self.assertEqual((counters["refused"], counters["fallback"], counters["admitted"]), (2, 2, 1), counters)
                self.assertEqual(sandbox.counters(backup)["admitted"], 0)

                primary.up()
                sandbox.clock.advance_seconds(10)
                self.assertEqual(sandbox.run(call).status, 0)
                self.assertEqual((primary.connections, backup.connections), (1, 2))
                self.assertEqual(sandbox.circuit(primary)["state"], "closed")

    def test_fallback_that_fails_does_not_touch_the_circuit(self):
        primary, backup = self.start(Server(up=False)), self.start(Server(up=False))
        sandbox = Sandbox(self)
        sandbox.guard(primary, fallback=f"127.0.0.1:{backup.port}", failure_threshold=1)
        call = ["curl", "-s", primary.url]
        self.assertEqual([sandbox.run(call).status for _ in range(3)], [7, 7, 7])
        counters = sandbox.counters(primary)
        self.assertEqual((counters["failed"], counters["refused"], counters["fallback"]), (1, 2, 2), counters)
        self.assertEqual(sandbox.failures(primary), {"refused": 1})

    def test_a_named_fallback_is_resolved_by_run(self):
        primary, backup = self.start(Server(up=False)), self.start(Server())
        sandbox = Sandbox(self)
        sandbox.guard(primary, fallback=f"localhost:{backup.port}", failure_threshold=1)
        call = ["curl", "-s", primary.url]
        self.assertEqual([sandbox.run(call).status for _ in range(2)], [7, 0])
        self.assertEqual(backup.connections, 1)
        self.assertIn("1 of the refused calls went to the fallback",
                      sandbox.sockfuse("status", "-p", sandbox.policy_path).stdout)

    def test_unix_socket_falls_back_to_another(self):
        primary = self.start(Server(family=socket.AF_UNIX, up=False))
        backup = self.start(Server(family=socket.AF_UNIX))
        sandbox = Sandbox(self)
        sandbox.guard(primary, fallback=backup.destination, failure_threshold=1)
        call = ["curl", "-s", "--unix-socket", primary.path, "http://localhost/"]
        self.assertEqual([sandbox.run(call).status for _ in range(2)], [7, 0])
        self.assertEqual(backup.connections, 1)


class OrdinaryUser(Rehearsal):
    """Some kernels give socket filters to root alone: there a rehearsal that can't be says so."""

    BECOME = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    FILTER = ("import socket, struct, ctypes\n"
              "rule = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0))\n"
              "socket.socket().setsockopt(socket.SOL_SOCKET, 26, struct.pack('HL', 1, ctypes.addressof(rule)))\n")
    CONNECT = ("import socket, sys\ns = socket.socket()\ns.settimeout(0.5)\n"
               "print(s.connect_ex(('127.0.0.1', int(sys.argv[1]))))\n")

    def setUp(self):
        self.sandbox = Sandbox(self)
        self.state = os.path.join(self.sandbox.folder, "nobody")
        os.chmod(self.sandbox.folder, 0o711)
        os.mkdir(self.state, 0o700)
        os.chown(self.state, 65534, 65534)

    def meets(self, fault):
        server = self.start(Server())
        options = ["-t", f"127.0.0.1:{server.port}", "-o", f"inject = {fault}"]
        return self.sandbox.run([*self.BECOME, SOCKFUSE, "run", *options, "--", PYTHON, "-c", self.CONNECT,
                                 str(server.port)], "ordinary",
                                env={"SOCKFUSE_STATE": self.state})

    def test_a_fault_is_injected_or_it_is_said_that_it_can_not_be(self):
        may_filter = self.sandbox.run([*self.BECOME, PYTHON, "-c", self.FILTER], "filter").status == 0
        for fault in ("hang", "reset", "silence", "http-503"):
            with self.subTest(fault):
                result = self.meets(fault)
                self.assertEqual("this kernel lets root alone" in result.stderr, not may_filter, result)
                if fault == "hang":
                    self.assertEqual(result.stdout, "11\n" if may_filter else "0\n", result)

    def test_a_refusal_needs_no_filter(self):
        self.assertEqual(self.meets("refuse").output, ("111\n", "", 0))


if __name__ == "__main__":
    unittest.main()
