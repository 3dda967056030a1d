"""A blocking connect that failed is made again by the library, within a budget: what real programs see of it."""
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, PRELOAD, PYTHON, REFUSED_BY_CURL, ParallelSuite, Sandbox, Server,  # noqa: E402
                      eventually)

load_tests = ParallelSuite.load(4)
# Opens a connection, and says how that ended.
CONNECT = """import errno, socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
    print("connected")
except OSError as error:
    print(errno.errorcode[error.errno])
"""
ASK = """import sys, urllib.request
sys.stdout.write(urllib.request.urlopen("http://127.0.0.1:%s/" % sys.argv[1]).read().decode())
"""
BASH = """exec 3<>/dev/tcp/127.0.0.1/$0 || exit 7
printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3
cat <&3 | tail -n 1"""
PERL = """use IO::Socket::INET;
my $s = IO::Socket::INET->new("127.0.0.1:$ARGV[0]") or exit 7;
print $s "GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n";
my @lines = <$s>; print $lines[-1];"""


# The same with a limit of its own, in seconds: SO_SNDTIMEO.
PATIENT = """import errno, socket, struct, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(sys.argv[2]), 0))
try:
    s.connect(("127.0.0.1", int(sys.argv[1])))
except OSError as error:
    print(errno.errorcode[error.errno])
"""


class Retries(unittest.TestCase):
    def start(self, *servers, **keys):
        self.sandbox = Sandbox(self)
        for server in servers:
            self.addCleanup(server.stop)
        self.sandbox.guard(*servers, **{"failure_threshold": 100, "failure_rate": "0%", **keys})

    def failed(self, server):
        return [circuit["counters"]["failed"] for circuit in self.sandbox.circuits()
                if circuit["destination"] == server.destination] + [0]

    def test_a_program_that_waits_only_so_long_is_not_kept_longer(self):
        brief, long = Server(up=False), Server(up=False)
        self.start(brief, long, retry=2, retry_backoff="10s")
        result = self.sandbox.run([PYTHON, "-c", PATIENT, brief.port, "2"])
        self.assertEqual(result.stdout, "ECONNREFUSED\n", result)
        self.sandbox.guard(brief, long, failure_threshold=100, failure_rate="0%", retry=2, retry_backoff="1ms")
        self.assertEqual(self.sandbox.run([PYTHON, "-c", PATIENT, long.port, "60"]).stdout, "ECONNREFUSED\n")
        self.assertEqual([self.sandbox.counters(server)["retries"] for server in (brief, long)], [0, 2])

    def test_programs_that_block_wait_for_a_server_that_comes_back(self):
        programs = {"python": [PYTHON, "-c", ASK], "bash": ["bash", "-c", BASH], "perl": ["perl", "-e", PERL],
                    "wget": ["wget", "-q", "-t", "1", "-O", "-"]}
        servers = {name: Server(up=False) for name in programs}
        self.start(*servers.values(), retry=3, retry_backoff="1s")
        running = {}
        for name, argv in programs.items():
            server = servers[name]
            running[name] = self.sandbox.popen([*argv, server.url if name == "wget" else server.port], how=PRELOAD,
                                               stdout=subprocess.PIPE)
        for name, server in servers.items():
            self.assertTrue(eventually(lambda server=server: self.failed(server)[0] >= 2), name)
            server.up()
        for name, process in running.items():
            self.assertEqual(process.communicate(timeout=60)[0], ANSWER, name)
        events = self.sandbox.events()
        for name, server in servers.items():
            with self.subTest(name):
                own = [event for event in events if event["destination"] == server.destination]
                told = [event["event"] for event in own]
                self.assertEqual(told[:4], ["failure", "retry", "failure", "retry"], own)
                retries = [event for event in own if event["event"] == "retry"]
                self.assertEqual([event["number"] for event in retries], list(range(1, len(retries) + 1)))
                for number, event in enumerate(retries):
                    self.assertEqual((event["of"], event["kind"], event["errno"]), (3, "refused", "ECONNREFUSED"))
                    self.assertGreaterEqual(event["waited_ms"], 500 << number)
                counters = self.sandbox.counters(server)
                self.assertEqual((counters["retries"], counters["succeeded"], counters["retries_denied"]),
                                 (len(retries), 1, 0), counters)
                self.assertEqual(counters["admitted"], 1 + len(retries), "each is a call of its own")
        text = self.sandbox.sockfuse("events", "-p", self.sandbox.policy_path).stdout
        self.assertRegex(text, r"retry +127\.0\.0\.1:\d+ +\S+\[\d+\] +1 of 3, [\d.]+m?s after refused \(ECONNREFUSED\)")
        self.assertRegex(self.sandbox.sockfuse("status", "-p", self.sandbox.policy_path).stdout,
                         r"note: 127\.0\.0\.1:\d+: \d of the calls tried a failed one again")
        self.assertRegex(self.sandbox.sockfuse("metrics", "-p", self.sandbox.policy_path).stdout,
                         r'sockfuse_retries_total\{[^}]*result="made"\} [23]\n')

    def test_programs_that_do_not_block_fail_as_they_did(self):
        for argv, status in ((["curl", "-sS"], REFUSED_BY_CURL), (["psql", "-c", "select 1"], 2)):
            with self.subTest(argv[0]):
                server = Server(up=False)
                self.start(server, retry=3, retry_backoff="10s")
                where = server.url if argv[0] == "curl" else f"host=127.0.0.1 port={server.port} sslmode=disable"
                self.assertEqual(self.sandbox.run([*argv, where]).status, status)
                self.assertEqual(self.sandbox.counters(server)["retries"], 0)

    def test_64_processes_share_one_budget(self):
        server = Server(up=False)
        self.start(server, failure_threshold=0, retry=2, retry_backoff="1ms", retry_budget="10%")
        calls, processes = 10, 64
        script = f"for i in {{1..{calls}}}; do : < /dev/tcp/127.0.0.1/{server.port}; done"
        for process in [self.sandbox.popen(["bash", "-c", script], how=PRELOAD) for _ in range(processes)]:
            process.wait(60)
        counters = self.sandbox.counters(server)
        retries, ordinary = counters["retries"], calls * processes
        self.assertEqual(counters["admitted"], ordinary + retries, counters)
        self.assertEqual(counters["failed"], ordinary + retries, counters)
        self.assertLessEqual(retries, ordinary // 10, counters)
        self.assertGreater(retries, ordinary // 20, counters)
        # Each failure that was not made again had used up what one connect may have, or found no budget.
        self.assertGreaterEqual(counters["retries_denied"], ordinary - retries, counters)
        self.assertEqual(sum(event["event"] == "retry" for event in self.sandbox.events()), retries)

    def test_a_circuit_that_opens_meanwhile_ends_it(self):
        server = Server(up=False)
        self.start(server, failure_threshold=4, retry=5, retry_backoff="4s", on_open="EACCES")
        process = self.sandbox.popen([PYTHON, "-c", CONNECT, server.port], stdout=subprocess.PIPE)
        self.assertTrue(eventually(lambda: self.failed(server)[0] == 1))
        process.send_signal(signal.SIGSTOP)  # so that it is not faster than what follows
        for _ in range(3):
            self.assertEqual(self.sandbox.run(["curl", "-sS", server.url]).status, REFUSED_BY_CURL)
        self.assertEqual(self.sandbox.circuit(server)["state"], "open")
        server.up()
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.communicate(timeout=60)[0], b"ECONNREFUSED\n", "its attempt's own error, no refusal")
        counters = self.sandbox.counters(server)
        self.assertEqual((counters["retries"], counters["refused"], counters["admitted"]), (0, 0, 4), counters)
        self.assertEqual(server.connections, 0)

    def test_an_operator_who_forces_the_circuit_open_ends_it(self):
        server = Server(up=False)
        self.start(server, retry=5, retry_backoff="4s")
        process = self.sandbox.popen([PYTHON, "-c", CONNECT, server.port], stdout=subprocess.PIPE)
        self.assertTrue(eventually(lambda: self.failed(server)[0] == 1))
        process.send_signal(signal.SIGSTOP)
        self.assertEqual(self.sandbox.sockfuse("open", "-p", self.sandbox.policy_path, server.destination).status, 0)
        server.up()
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.communicate(timeout=60)[0], b"ECONNREFUSED\n")
        self.assertEqual(self.sandbox.counters(server)["retries"], 0)

    def test_a_running_program_takes_it_with_a_reload(self):
        server = Server(up=False)
        self.start(server)
        script = (f"import socket, sys\nfor line in sys.stdin:\n    try:\n"
                  f"        socket.create_connection(('127.0.0.1', {server.port}))\n"
                  f"    except OSError as error:\n        print(error.errno, flush=True)\n")
        process = self.sandbox.popen([PYTHON, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for keys, retries in ((None, 0), ({"retry": 2, "retry_backoff": "1ms"}, 2), ({}, 2)):
            if keys is not None:
                self.sandbox.guard(server, failure_threshold=100, failure_rate="0%", **keys)
                self.assertEqual(self.sandbox.sockfuse("reload", "-p", self.sandbox.policy_path).status, 0)
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()
            self.assertEqual(self.sandbox.counters(server)["retries"], retries)


if __name__ == "__main__":
    unittest.main()
