"""Real programs against real faults: each must behave as it does bare, and its circuit must show what happened.

A table of programs times a table of scenarios; whatever deviates stands in EXCEPTIONS with its reason. In each cell
the program runs bare and guarded against the same server and must print and return the same, to the byte, but
for the times that some programs print. ONLY=curl in the environment narrows to the programs of that name.
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from collections import namedtuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BARE, CLIENTS, IDLE, PRELOAD, RUN, BlackHole, Dropbear, ParallelSuite, Postgres,  # noqa: E402
                      Redis, Sandbox, Server, Shared, answer_http, end_after_request, eventually, flapping, forward_to,
                      reset_after_request, stay_silent)

load_tests = ParallelSuite.load(6)
PYTHON = "/usr/bin/python3"
PATIENT = 40
ENOUGH = 20
WAITING = ("black_hole", "silence")
HTTP_REQUEST = b"GET / HTTP/1.0\r\n\r\n"


class JavaClasses:
    """The Java clients, compiled once: to run them from source costs a second each time."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sf-")
        subprocess.run(["javac", "-nowarn", "-d", self.folder, *(str(path) for path in CLIENTS.glob("*.java"))],
                       check=True)

    def stop(self):
        shutil.rmtree(self.folder)


POSTGRES, REDIS, SSH, JAVA = Shared(Postgres), Shared(Redis), Shared(Dropbear), Shared(JavaClasses)


# How each program is called: (server, own timeout in seconds) -> command line.

def curl(server, timeout):
    if server.family == socket.AF_UNIX:
        return ["curl", "-sS", "--max-time", timeout, "--unix-socket", server.path, "http://localhost/"]
    return ["curl", "-sS", "--max-time", timeout, server.url]


def wget(server, timeout):
    return ["wget", "-nv", "-O", "-", "-t", "1", "-T", timeout, server.url]


def python(script):
    return lambda server, timeout: [PYTHON, CLIENTS / script, server.url, timeout]


def asyncio_streams(server, timeout):
    return [PYTHON, CLIENTS / "asyncio_get.py", server.address, server.port, timeout]


def node(server, timeout):
    return ["node", CLIENTS / "http_get.js", server.url, timeout * 1000]


def java(name):
    return lambda server, timeout: ["java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", JAVA.get().folder,
                                    name, server.url, timeout * 1000]


def psql(server, timeout):
    host, port = server.address, getattr(server, "port", None)
    if server.family == socket.AF_UNIX:
        host, port = server.path.rsplit("/.s.PGSQL.", 1)
    return ["env", f"PGCONNECT_TIMEOUT={timeout}", "PGSSLMODE=disable", "psql", "-X", "-At", "-h", host, "-p", port,
            "-U", "postgres", "-d", "postgres", "-c", "select 'hello'"]


def redis_cli(server, timeout):
    del timeout
    if server.family == socket.AF_UNIX:
        return ["redis-cli", "-s", server.path, "PING"]
    return ["redis-cli", "-h", server.address, "-p", server.port, "PING"]


def nc(server, timeout):
    if server.family == socket.AF_UNIX:
        return ["nc", "-v", "-N", "-w", timeout, "-U", server.path]
    return ["nc", "-v", "-N", "-w", timeout, server.address, server.port]


def ssh(server, timeout):
    return ["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR",
            "-o", "UserKnownHostsFile=/dev/null", "-o", f"ConnectTimeout={timeout}", "-i", SSH.get().key,
            "-p", server.port, server.address, "echo hello"]


def php(script, unit):
    return lambda server, timeout: ["php", "-d", "display_errors=stderr", "-d", "log_errors=0", CLIENTS / script,
                                    server.url, timeout * unit]


Program = namedtuple("Program", "name command refused family protocol timeout times stdin")


def program(name, command, refused, family=socket.AF_INET, protocol="http", timeout=1, times=(), stdin=b""):
    """refused: the program's own words for it. times: what it prints of the clock, to be left out of a comparison."""
    return Program(name, command, refused, family, protocol, timeout, times, stdin)


UNIX, IPV6 = socket.AF_UNIX, socket.AF_INET6
CURL_TIMES = (r"after \d+ m(illi)?s(econds)?",)
WGET_TIMES = (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",)
REFUSED = "Connection refused"

PROGRAMS = [
    program("curl", curl, "Couldn't connect to server", times=CURL_TIMES),
    program("curl_ipv6", curl, "Couldn't connect to server", family=IPV6, times=CURL_TIMES),
    program("curl_unix", curl, "Couldn't connect to server", family=UNIX, times=CURL_TIMES),
    program("wget", wget, REFUSED, times=WGET_TIMES),
    program("python_urllib", python("urllib_get.py"), REFUSED),
    program("python_urllib_ipv6", python("urllib_get.py"), REFUSED, family=IPV6),
    program("python_requests", python("requests_get.py"), REFUSED),
    program("python_asyncio", asyncio_streams, "ConnectionRefusedError"),
    program("node_http", node, "ECONNREFUSED"),
    program("java_httpurlconnection", java("UrlConnectionGet"), REFUSED),
    # Its timeout runs from before its own classes are loaded.
    program("java_httpclient", java("HttpClientGet"), "java.net.ConnectException", timeout=3),
    program("psql", psql, REFUSED, protocol="postgres", timeout=2),
    program("psql_unix", psql, REFUSED, family=UNIX, protocol="postgres", timeout=2),
    program("redis_cli", redis_cli, REFUSED, protocol="redis", timeout=None),
    program("redis_cli_unix", redis_cli, REFUSED, family=UNIX, protocol="redis", timeout=None),
    program("nc", nc, REFUSED, stdin=HTTP_REQUEST),
    program("nc_unix", nc, REFUSED, family=UNIX, stdin=HTTP_REQUEST),
    program("ssh", ssh, REFUSED, protocol="ssh"),
    program("php_stream", php("stream_get.php", 1), REFUSED),
    program("php_curl", php("curl_get.php", 1000), "Couldn't connect to server", times=CURL_TIMES),
]

# scenario: the kind of failure that the circuit must show, the behaviour of the server.
SCENARIOS = {
    "refused": ("refused", None),
    "black_hole": ("connect-timeout", None),
    "silence": ("response-timeout", stay_silent),
    "reset_after_the_request": ("reset", reset_after_request),
    "end_of_stream_after_the_request": ("early-close", end_after_request),
    "healthy": (None, None),
}

NO_TIMEOUT = "has no timeout of its own: it hangs, and the next admission finds its call overdue"
NO_BLACK_HOLE = "a full queue of an AF_UNIX listener blocks or answers EAGAIN; no SYN is lost"
NO_ERROR = "prints what came and ends with status 0, also when nothing came"

# What these say of a refusal that connect itself returns (ours, or one on AF_UNIX). The peer's comes later over TCP
# and without blocking, by SO_ERROR, and then they say which address it was, or less.
AT_ONCE = {"python_asyncio": "ConnectionRefusedError: [Errno 111] Connection refused\n",
           "java_httpclient": "java.net.ConnectException: Connection refused\n"}

# (program, scenario): what is different, and why.
OVERDUE = {("redis_cli", "black_hole"): NO_TIMEOUT, ("redis_cli", "silence"): NO_TIMEOUT,
           ("redis_cli_unix", "silence"): NO_TIMEOUT}
LEFT_OUT = {(entry.name, "black_hole"): NO_BLACK_HOLE for entry in PROGRAMS if entry.family == UNIX}
ENDS_WELL = {("nc", "silence"): NO_ERROR, ("nc", "end_of_stream_after_the_request"): NO_ERROR,
             ("nc", "reset_after_the_request"): NO_ERROR, ("nc_unix", "reset_after_the_request"): NO_ERROR,
             ("nc_unix", "silence"): NO_ERROR, ("nc_unix", "end_of_stream_after_the_request"): NO_ERROR}


class Place:
    """Where a real daemon listens, shaped like a Server."""

    def __init__(self, daemon, family):
        self.family = family
        self.address = "127.0.0.1"
        self.port = daemon.port
        self.path = getattr(daemon, "path", None)
        self.destination = f"unix:{self.path}" if family == UNIX else daemon.destination
        self.connections = None


def socket_file(entry):
    return {"file": ".s.PGSQL.5432"} if entry.protocol == "postgres" else {}


def program_name(command):
    """The name by which the command line's program goes in the status."""
    return "psql" if command[0] == "env" else os.path.basename(command[0])


def without_times(entry, result):
    """The output to compare: what the program prints of the clock is replaced."""
    out, err = result.stdout, result.stderr
    for pattern in entry.times:
        out, err = re.sub(pattern, "TIME", out), re.sub(pattern, "TIME", err)
    return out, err, result.status


class Cells(unittest.TestCase):
    """One program in one scenario."""

    maxDiff = None

    def start(self, server):
        self.addCleanup(server.stop)
        return server

    def healthy_place(self, entry):
        if entry.protocol == "http":
            return self.start(Server(answer_http, entry.family))
        return Place({"postgres": POSTGRES, "redis": REDIS, "ssh": SSH}[entry.protocol].get(), entry.family)

    def place(self, entry, scenario):
        if scenario == "healthy":
            return self.healthy_place(entry)
        if scenario == "black_hole":
            return self.start(BlackHole(entry.family))
        return self.start(Server(SCENARIOS[scenario][1], entry.family, up=scenario != "refused", **socket_file(entry)))

    def run_cell(self, entry, scenario):
        kind = SCENARIOS[scenario][0]
        server = self.place(entry, scenario)
        sandbox = Sandbox(self)
        sandbox.guard(server, failure_threshold=100)
        command = entry.command(server, entry.timeout if scenario in WAITING else ENOUGH)
        bare = sandbox.run(command, BARE, stdin=entry.stdin)
        if scenario == "healthy" or (entry.name, scenario) in ENDS_WELL:
            self.assertEqual(bare.status, 0, bare)
        else:
            self.assertNotEqual(bare.status, 0, bare)
        before = server.connections if scenario not in ("refused", "black_hole") else None
        guarded = sandbox.run(command, RUN, stdin=entry.stdin)
        self.assertEqual(without_times(entry, guarded), without_times(entry, bare), "guarded is not as bare")
        circuit = sandbox.circuit(server)
        failures = {name: count for name, count in circuit["failures"].items() if count}
        counters = circuit["counters"]
        if kind is None:
            self.assertEqual(failures, {})
            self.assertEqual(counters["failed"], 0, circuit)
            self.assertGreaterEqual(counters["succeeded"], 1, circuit)
        else:
            self.assertEqual(set(failures), {kind}, circuit)
            expected = server.connections - before if before is not None else failures[kind]
            self.assertEqual(failures[kind], expected, "one failure for each connection")
            self.assertEqual(counters["failed"], expected, circuit)
            self.assertEqual(counters["succeeded"], 0, circuit)
            self.assertEqual(circuit["last_failure"]["kind"], kind)
            self.assertEqual(circuit["last_failure"]["program"], program_name(command))
        self.assertEqual((circuit["state"], circuit["in_flight"]), ("closed", 0), circuit)
        self.assertEqual((counters["refused"], counters["opened"], counters["late"]), (0, 0, 0), circuit)
        if scenario in ("healthy", "refused"):
            idle = sandbox.run(command, IDLE, stdin=entry.stdin)
            self.assertEqual(without_times(entry, idle), without_times(entry, bare), "without a policy not as bare")

    def run_overdue_cell(self, entry, scenario):
        """A program that hangs: while it does, the clock moves and the next admission charges its call."""
        kind = SCENARIOS[scenario][0]
        server = self.place(entry, scenario)
        sandbox = Sandbox(self, clock=True)
        sandbox.guard(server, failure_threshold=100, connect_timeout="10s", response_timeout="10s")
        hanging = sandbox.popen(entry.command(server, None), RUN)
        self.assertTrue(eventually(lambda: any(circuit["in_flight"] == 1 for circuit in sandbox.circuits())))
        if scenario == "silence":
            self.assertTrue(eventually(lambda: server.requests == 1))
        sandbox.clock.advance_seconds(10)
        self.assertEqual(sandbox.failures(server), {}, "to look charges nobody")
        knock = sandbox.popen(entry.command(server, None), RUN)
        self.assertTrue(eventually(lambda: sandbox.failures(server)))
        self.assertEqual(sandbox.failures(server), {kind: 1})
        self.assertIsNone(hanging.poll(), "the program still hangs, as it would bare")
        hanging.kill()
        knock.kill()
        hanging.wait()
        knock.wait()
        self.assertEqual(sandbox.failures(server), {kind: 1}, "a killed program's call is charged once at most")

    def run_open(self, entry):
        """The program trips the circuit, is refused at once by its own words, and its probe closes the circuit."""
        server = self.start(Server(flapping(reset_after_request, stay_silent), entry.family, **socket_file(entry)))
        dead = self.start(Server(family=entry.family, up=False, **socket_file(entry)))
        sandbox = Sandbox(self, clock=True)
        sandbox.guard(server, failure_threshold=1, reset_timeout="10s")
        sandbox.run(entry.command(server, ENOUGH), RUN, stdin=entry.stdin)
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], circuit["failures"]["reset"]), ("open", 1), circuit)
        self.assertEqual(server.connections, 1)

        before = circuit["counters"]["refused"]
        natural = sandbox.run(entry.command(dead, PATIENT), BARE, stdin=entry.stdin)
        refused = sandbox.run(entry.command(server, PATIENT), PRELOAD, stdin=entry.stdin)
        self.assertIn(entry.refused, refused.stdout + refused.stderr)
        expected = self.anywhere(entry, natural, dead)
        if entry.name in AT_ONCE:
            expected = ("", AT_ONCE[entry.name], natural.status)
        self.assertEqual(self.anywhere(entry, refused, server), expected, "not as if the peer had refused")
        self.assertLess(refused.seconds, PATIENT / 2, "it must fail at once")
        self.assertEqual(server.connections, 1, "the server must see nothing")
        circuit = sandbox.circuit(server)
        self.assertGreater(circuit["counters"]["refused"], before)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("open", 1), circuit)

        server.behaviour = self.healed(entry)
        sandbox.clock.advance_seconds(10)
        probe = sandbox.run(entry.command(server, ENOUGH), RUN, stdin=entry.stdin)
        self.assertEqual(probe.status, 0, probe)
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], circuit["consecutive_failures"]), ("closed", 0), circuit)
        self.assertEqual(circuit["counters"]["probes_succeeded"], 1, circuit)
        self.assertEqual(server.connections, 2)

    def healed(self, entry):
        if entry.protocol == "http":
            return answer_http
        daemon = {"postgres": POSTGRES, "redis": REDIS, "ssh": SSH}[entry.protocol].get()
        if entry.protocol == "ssh":
            return forward_to(lambda: socket.create_connection(("127.0.0.1", daemon.port), 10))

        def connect():
            far = socket.socket(UNIX)
            far.connect(daemon.path)
            return far
        return forward_to(connect)

    @staticmethod
    def anywhere(entry, result, server):
        """The output with the server's place left out, to compare two places."""
        out, err, status = without_times(entry, result)
        for place in filter(None, (getattr(server, "path", None), server.folder, getattr(server, "port", None))):
            out, err = out.replace(str(place), "PLACE"), err.replace(str(place), "PLACE")
        return out, err, status


def add_tests():
    def add(name, run, *arguments):
        def test(self):
            run(self, *arguments)
        test.__name__ = name
        setattr(Cells, name, test)

    only = os.environ.get("ONLY")
    for entry in PROGRAMS:
        if only is not None and not entry.name.startswith(only):
            continue
        for scenario, (kind, _) in SCENARIOS.items():
            if (entry.name, scenario) in LEFT_OUT:
                continue
            shown = f"shows_{kind.replace('-', '_')}" if kind else "shows_no_failure"
            run = Cells.run_overdue_cell if (entry.name, scenario) in OVERDUE else Cells.run_cell
            add(f"test_{entry.name}_with_{scenario}_{shown}", run, entry, scenario)
        add(f"test_{entry.name}_is_refused_at_once_by_an_open_circuit_and_closes_it_again", Cells.run_open, entry)


add_tests()

if __name__ == "__main__":
    unittest.main()
