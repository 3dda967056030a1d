"""How a cell is judged: the program runs bare and guarded against the same server, and must print and return the same,
to the byte, but for the times that some programs print; then the circuit must show what happened, and nothing else.
"""
import os
import re
import socket
import threading
import unittest

from fixtures import (ANSWER, BARE, CERTIFICATES, IDLE, PRELOAD, RUN, BlackHole, Sandbox, Server, answer_http,
                      asleep, eventually, flapping, forward_to, in_parallel, over_tls, reset_after_request,
                      reset_in_handshake, stay_silent)

from .exceptions import AT_ONCE, CANNOT, EITHER, ENDS_WELL, IN_RESERVE, LEFT_OUT, STATIC, STDIO, TLS_INSIDE
from .programs import DAEMONS, NONE, PROGRAMS, UNIX
from .scenarios import BRANCHES, KEPT, SCENARIOS, TLS_KEPT, answer_after, answer_git

# Here the program runs also under the library and without a policy: as bare, to the byte.
WITHOUT_A_POLICY = ("healthy", "refused", "black_hole", "silent", "reset", "end")
PATIENT = 40
ENOUGH = 20
OPEN = "open"


class Place:
    """Where a real daemon listens, shaped like a Server."""

    secure = False
    connections = None
    requests = None

    def __init__(self, daemon, family):
        self.family = family
        self.address = "127.0.0.1"
        self.port = daemon.port
        self.path = getattr(daemon, "path", None)
        self.destination = f"unix:{self.path}" if family == UNIX else daemon.destination


def socket_file(entry):
    return {"file": ".s.PGSQL.5432"} if entry.protocol == "postgres" else {}


def without_times(entry, result):
    """The output to compare: what the program prints of the clock is replaced."""
    out, err = result.stdout, result.stderr
    for pattern in entry.times:
        out, err = re.sub(pattern, "TIME", out), re.sub(pattern, "TIME", err)
    return out, err, result.status


def anywhere(entry, result, server):
    """The output with the server's place left out, to compare two places."""
    out, err, status = without_times(entry, result)
    for place in filter(None, (getattr(server, "path", None), server.folder, getattr(server, "port", None))):
        out, err = out.replace(str(place), "PLACE"), err.replace(str(place), "PLACE")
    return out, err, status


class Cells(unittest.TestCase):
    """One program in one scenario; test_matrix.py gives it its tests."""

    maxDiff = None

    # the server

    def start(self, server):
        self.addCleanup(server.stop)
        return server

    def place(self, entry, scenario):
        secure = scenario.tls or entry.only_tls
        if scenario.name == "healthy" and entry.protocol in DAEMONS:
            return Place(DAEMONS[entry.protocol].get(), entry.family)
        if scenario.name == "black_hole":
            return self.start(BlackHole(entry.family, secure=secure))
        behaviour = scenario.behaviour_for(entry)
        if scenario.name == "tls_healthy" and entry.protocol == "git":
            behaviour = over_tls(answer_git)
        return self.start(Server(behaviour, entry.family, up=scenario.name != "refused", secure=secure,
                                 **socket_file(entry)))

    @staticmethod
    def environment(entry, server):
        trust = CERTIFICATES.get().environment() if server.secure else {}
        return {**trust, **entry.environment}

    # closed circuits

    def run_cell(self, entry, scenario):
        if scenario in (KEPT, TLS_KEPT):
            self.run_kept(entry, scenario)
        elif entry.timeout is None and scenario.waits or scenario.name in entry.hangs:
            self.run_hanging(entry, scenario)
        else:
            self.run_to_the_end(entry, scenario)

    def run_to_the_end(self, entry, scenario):
        server = self.place(entry, scenario)
        sandbox = Sandbox(self)
        sandbox.guard(server, failure_threshold=100)
        timeout = ENOUGH
        if scenario.waits:
            timeout = entry.timeout + (entry.slow_tls if scenario.tls else 0) + (1 if scenario.begins else 0)
        command = entry.command(server, timeout, 2 if scenario.again else 1)
        about = {"env": self.environment(entry, server), "stdin": entry.stdin}
        if scenario.name in WITHOUT_A_POLICY:
            bare, idle = in_parallel([lambda how=how: sandbox.run(command, how, **about) for how in (BARE, IDLE)])
            self.assertEqual(without_times(entry, idle), without_times(entry, bare), "without a policy not as bare")
        else:
            bare = sandbox.run(command, BARE, **about)
        if scenario.racy:
            pass
        elif scenario.name in ("healthy", "tls_healthy") or (entry.name, scenario.name) in ENDS_WELL:
            self.assertEqual(bare.status, 0, bare)
        elif scenario.kind != "http-503":
            self.assertNotEqual(bare.status, 0, bare)
        if scenario.again:
            # The program that runs guarded finds the script at its beginning again.
            server.stop()
            server = self.place(entry, scenario)
            sandbox.guard(server, failure_threshold=100)
            command = entry.command(server, ENOUGH, 2)
        seen = self.seen_by(server, scenario)
        # `run` warns of what it cannot guard, and that is more than the program says.
        guarded = sandbox.run(command, PRELOAD if entry.protocol == "beyond" else RUN, **about)
        if not scenario.racy:
            self.assertEqual(without_times(entry, guarded), without_times(entry, bare), "guarded is not as bare")
        made = None if seen is None else self.seen_by(server, scenario) - seen
        self.judge(entry, scenario, sandbox.circuit(server), command, made)

    @staticmethod
    def seen_by(server, scenario):
        """How many calls the server has seen: a program may also open connections that it never uses."""
        if scenario.name in ("refused", "black_hole"):
            return None
        return server.requests if scenario.waits else server.connections

    def judge(self, entry, scenario, circuit, command, made):
        """Holds the circuit against the table. made: the calls that the server saw."""
        failures = {name: count for name, count in circuit["failures"].items() if count}
        counters = circuit["counters"]
        if made is not None and counters["admitted"] > made and (entry.name, scenario.name) in IN_RESERVE:
            self.judge_with_reserve(entry, scenario, circuit, failures)
            return
        self.assertEqual((circuit["state"], circuit["in_flight"]), ("closed", 0), circuit)
        self.assertEqual((counters["refused"], counters["opened"], counters["late"]), (0, 0, 0), circuit)
        if (entry.name, scenario.name) in CANNOT:
            self.assertEqual((failures, counters["failed"]), ({}, 0), circuit)
            reason = CANNOT[entry.name, scenario.name]
            self.assertEqual(counters["succeeded"] > 0, reason in (STDIO, TLS_INSIDE), circuit)
            self.assertEqual(counters["admitted"] > 0, reason != STATIC, circuit)
        elif (entry.name, scenario.name) in EITHER:
            self.assertLessEqual(set(failures), {scenario.kind}, circuit)
            self.assertEqual(counters["succeeded"] + counters["failed"], counters["admitted"], circuit)
        elif scenario.kind is None:
            self.assertEqual((failures, counters["failed"]), ({}, 0), circuit)
            self.assertGreaterEqual(counters["succeeded"], 1, circuit)
            if scenario.again:
                self.assertGreaterEqual(counters["neutral"], 1, circuit)
        else:
            self.assertEqual(set(failures), {scenario.kind}, circuit)
            expected = made if made is not None else failures[scenario.kind]
            self.assertEqual(failures[scenario.kind], expected, "one failure for each call")
            self.assertEqual(counters["failed"], expected, circuit)
            self.assertEqual(counters["succeeded"], 0, circuit)
            self.assertEqual(circuit["last_failure"]["kind"], scenario.kind)
            self.assertEqual(circuit["last_failure"]["program"], entry.is_called(command, scenario.tls))

    def judge_with_reserve(self, entry, scenario, circuit, failures):
        """The call's own outcome must be there; a connection in reserve may have added one of its own."""
        allowed = IN_RESERVE[entry.name, scenario.name]
        self.assertLessEqual(set(failures) - {scenario.kind}, allowed, circuit)
        if scenario.kind is not None and (entry.name, scenario.name) not in CANNOT:
            self.assertIn(scenario.kind, failures, circuit)
        else:
            self.assertGreaterEqual(circuit["counters"]["succeeded"], 1, circuit)

    def run_hanging(self, entry, scenario):
        """A program that hangs: while it does, the clock moves and the next admission charges its call."""
        server = self.place(entry, scenario)
        sandbox = Sandbox(self, clock=True)
        sandbox.guard(server, failure_threshold=100, connect_timeout="10s", response_timeout="10s")
        command = entry.command(server, ENOUGH * 10)

        def start():
            process = sandbox.popen(command, RUN, self.environment(entry, server), stdin=-1)
            process.stdin.write(entry.stdin)
            process.stdin.flush()
            return process

        hanging = start()
        self.assertTrue(eventually(lambda: any(circuit["counters"]["admitted"] for circuit in sandbox.circuits())))
        if scenario.kind is None:
            self.assertTrue(eventually(lambda: sandbox.counters(server)["succeeded"]), sandbox.circuit(server))
            self.assertIsNone(hanging.poll())
            self.assertEqual(sandbox.failures(server), {})
            return
        if scenario.name in ("silent", "tls_silent", "tls_handshake_silent"):
            self.assertTrue(eventually(lambda: server.requests == 1))
            # The server may have the request before the client's send has come back.
            self.assertTrue(eventually(lambda: asleep(hanging)))
        sandbox.clock.advance_seconds(10)
        self.assertEqual(sandbox.failures(server), {}, "to look charges nobody")
        knock = start()
        self.assertTrue(eventually(lambda: sandbox.failures(server)), sandbox.circuit(server))
        self.assertEqual(sandbox.failures(server), {scenario.kind: 1})
        self.assertIsNone(hanging.poll(), "the program still hangs, as it would bare")
        for process in (hanging, knock):
            process.kill()
            process.wait()
        self.assertEqual(sandbox.failures(server), {scenario.kind: 1}, "to be killed changes nothing")

    # kept connections

    def run_kept(self, entry, scenario):
        """While the program waits for its answer, another one opens the circuit; then comes its second request."""
        gate = threading.Event()
        self.addCleanup(gate.set)
        first = answer_after(gate, BRANCHES if entry.protocol == "git" else ANSWER)
        first = over_tls(first) if scenario.tls else first
        server = self.start(Server(flapping(first, reset_after_request, stay_silent), secure=scenario.tls))
        sandbox = Sandbox(self)
        sandbox.guard(server, failure_threshold=1, reset_timeout="60s")
        program = sandbox.popen(entry.command(server, ENOUGH, 2), RUN, self.environment(entry, server))
        self.assertTrue(eventually(lambda: server.requests == 1, 30))
        sandbox.run(["curl", "-sS", server.url.replace("https:", "http:")])
        self.assertEqual((sandbox.circuit(server)["state"], server.requests), ("open", 2))
        gate.set()
        status = program.wait(30)
        counters = sandbox.counters(server)
        self.assertEqual(counters["failed"], 1, "what was refused is no failure")
        self.assertEqual(server.connections, 2, counters)
        if (entry.name, scenario.name) in CANNOT:
            self.assertEqual((status, server.requests, counters["refused"]), (0, 3, 0), counters)
            return
        self.assertGreaterEqual(status, 0, "no SIGPIPE")
        if (entry.name, scenario.name) not in ENDS_WELL:
            self.assertGreater(status, 0, "it fails in its own way")
        self.assertEqual(server.requests, 2, f"the server must see nothing: {counters}")
        self.assertGreaterEqual(counters["refused"], 1)

    # open circuits

    def run_open(self, entry):
        """The program trips the circuit, is refused at once by its own words, and its probe closes the circuit."""
        secure = entry.only_tls
        fault = reset_in_handshake if secure else reset_after_request
        server = self.start(Server(flapping(fault, stay_silent), entry.family, secure=secure, **socket_file(entry)))
        dead = self.start(Server(family=entry.family, up=False, secure=secure, **socket_file(entry)))
        sandbox = Sandbox(self, clock=True)
        sandbox.guard(server, failure_threshold=1, reset_timeout="10s")
        about = {"env": self.environment(entry, server), "stdin": entry.stdin}
        sandbox.run(entry.command(server, ENOUGH), RUN, **about)
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], circuit["failures"]["reset"]), ("open", 1), circuit)
        self.assertEqual(server.connections, 1)

        before = circuit["counters"]["refused"]
        natural = sandbox.run(entry.command(dead, PATIENT), BARE, **about)
        refused = sandbox.run(entry.command(server, PATIENT), PRELOAD, **about)
        self.assertIn(entry.refused, refused.stdout + refused.stderr)
        expected = anywhere(entry, natural, dead)
        if entry.name in AT_ONCE:
            expected = ("", AT_ONCE[entry.name], natural.status)
        self.assertEqual(anywhere(entry, refused, server), expected, "not as if the peer had refused")
        self.assertLess(refused.seconds, PATIENT / 2, "it must fail at once")
        self.assertEqual(server.connections, 1, "the server must see nothing")
        circuit = sandbox.circuit(server)
        self.assertGreater(circuit["counters"]["refused"], before)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("open", 1), circuit)

        server.behaviour = self.healed(entry)
        sandbox.clock.advance_seconds(10)
        probe = sandbox.run(entry.command(server, ENOUGH), RUN, **about)
        self.assertEqual(probe.status, 0, probe)
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], circuit["consecutive_failures"]), ("closed", 0), circuit)
        self.assertEqual(circuit["counters"]["probes_succeeded"], 1, circuit)
        self.assertEqual(server.connections, 2)

    @staticmethod
    def healed(entry):
        if entry.only_tls:
            return over_tls(answer_http)
        if entry.protocol == "git":
            return answer_git
        if entry.protocol not in DAEMONS:
            return answer_http
        daemon = DAEMONS[entry.protocol].get()
        if entry.protocol == "ssh":
            return forward_to(lambda: socket.create_connection(("127.0.0.1", daemon.port), 10))

        def connect():
            far = socket.socket(UNIX)
            far.connect(daemon.path)
            return far
        return forward_to(connect)


def applies(entry, scenario):
    """Whether the table has a cell here."""
    if (entry.name, scenario.name) in LEFT_OUT:
        return False
    if entry.protocol == "beyond":
        return (entry.name, scenario.name) in CANNOT
    if scenario.tls:
        return entry.tls != NONE and (entry.again or not scenario.again)
    if entry.only_tls:
        return scenario.name in ("refused", "black_hole", "reset_at_accept")
    if scenario.only_http and entry.protocol not in ("http", "git"):
        return False
    return entry.again or not scenario.again


def selected(entry, name):
    """ONLY=curl: the programs whose name begins so; ONLY=curl/silent: the one cell; ONLY=/silent: the column."""
    program, _, scenario = os.environ.get("ONLY", "").partition("/")
    return entry.name.startswith(program) and scenario in ("", name)


def cells():
    """(program, scenario or OPEN) of every cell that is asked for, in the table's order."""
    for entry in PROGRAMS:
        for scenario in SCENARIOS:
            if applies(entry, scenario) and selected(entry, scenario.name):
                yield entry, scenario
        if entry.protocol != "beyond" and selected(entry, OPEN):
            yield entry, OPEN
