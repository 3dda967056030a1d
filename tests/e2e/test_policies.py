"""The policies that are shipped: each is good, and does with a real program what its comments promise.

The programs run under a copy in which only the destination is another one: the test's own server.
"""
import glob
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BARE, PYTHON, ROOT, SOCKFUSE, BlackHole, Namespace, ParallelSuite,  # noqa: E402
                      Postgres, Redis, Sandbox, Server, Shared, answer_http, answer_late, answer_status, asleep,
                      end_after_request, eventually, flapping, forward_to, http_answer, in_parallel, read_head,
                      reset_after_request, stay_silent)

load_tests = ParallelSuite.load(4)
FOLDER = ROOT / "policies"
NAMES = sorted(os.path.basename(path).removesuffix(".policy") for path in glob.glob(str(FOLDER / "*.policy")))
REFUSED, TIMED_OUT, RESET = 7, 28, 56
REDIS = Shared(Redis)
POSTGRES = Shared(Postgres)


class Policy(unittest.TestCase):
    """One policy, copied into a sandbox with the fake clock."""

    name = None

    def setUp(self):
        self.sandbox = Sandbox(self, clock=True)

    def start(self, behaviour, **keywords):
        server = Server(behaviour, **keywords)
        self.addCleanup(server.stop)
        return server

    def take(self, **matches):
        """Copies the policy; matches: the target's name and what stands for its destination here."""
        text = (FOLDER / f"{self.name}.policy").read_text("utf-8")
        for target, destination in matches.items():
            text, count = re.subn(rf"(?m)(^\[{target}\]$[^\[]*?^match\s*= ).*$", rf"\g<1>{destination}", text)
            self.assertEqual(count, 1, f"[{target}] of {self.name}")
        self.sandbox.policy(text)

    def curl(self, url, *options):
        return self.sandbox.run(["curl", "-sS", *options, url]).status

    def state(self, server):
        return self.sandbox.circuit(server)["state"]

    def wait(self, seconds):
        self.sandbox.clock.advance_seconds(seconds)

    def assert_pause(self, server, shortest, longest=None):
        """The pause that is running, in seconds."""
        left = self.sandbox.circuit(server)["retry_in_ms"] / 1000
        self.assertTrue(shortest <= left <= (longest or shortest), f"{left} s")


class Every(Policy):
    def test_every_policy_is_good_and_has_nothing_to_warn_of(self):
        result = self.sandbox.run([SOCKFUSE, "check", *(FOLDER / f"{name}.policy" for name in NAMES)], BARE)
        self.assertEqual((result.status, result.stderr), (0, ""))
        self.assertEqual(len(result.stdout.splitlines()), len(NAMES))

    def test_every_policy_says_first_what_it_is_for(self):
        for name in NAMES:
            first = (FOLDER / f"{name}.policy").read_text("utf-8").splitlines()[0]
            self.assertRegex(first, r"\A# [A-Z].*\S\Z", name)

    def test_every_policy_has_a_test_here(self):
        tested = {case.name for case in vars(sys.modules[__name__]).values()
                  if isinstance(case, type) and issubclass(case, Policy) and case.name}
        self.assertEqual(tested | {"demo"}, set(NAMES), "make demo runs the demo's own")

    def test_what_check_writes_back_is_the_same_policy(self):
        for name in NAMES:
            written = self.sandbox.run([SOCKFUSE, "check", "-v", FOLDER / f"{name}.policy"], BARE).stdout
            again = os.path.join(self.sandbox.folder, "again.policy")
            with open(again, "w", encoding="utf-8") as file:
                file.write(written)
            result = self.sandbox.run([SOCKFUSE, "check", "-v", again], BARE)
            self.assertEqual(result.status, 0, result.stderr)
            keys = [[line.split("#")[0].strip() for line in text.splitlines() if " = " in line]
                    for text in (written, result.stdout)]
            self.assertEqual(*keys)


class HttpApi(Policy):
    name = "http-api"

    def test_five_times_503_open_it_and_retry_after_is_kept(self):
        def overloaded(server, sock, number):
            del number
            read_head(server, sock)
            sock.sendall(http_answer("503 Service Unavailable\r\nRetry-After: 120", close=True))
        server = self.start(flapping(*[overloaded] * 5, answer_http))
        self.take(api=server.destination)
        self.assertEqual([self.curl(server.url) for _ in range(6)], [0] * 5 + [REFUSED])
        self.wait(119)
        self.assertEqual(self.curl(server.url), REFUSED)
        self.wait(30)
        self.assertEqual(self.curl(server.url), 0)
        self.assertEqual((self.state(server), server.requests), ("closed", 6))

    def test_what_the_business_says_opens_nothing(self):
        for status in ("404 Not Found", "429 Too Many Requests", "500 Internal Server Error"):
            server = self.start(answer_status(status))
            self.take(api=server.destination)
            self.assertEqual([self.curl(server.url) for _ in range(6)], [0] * 6)
            self.assertEqual((self.state(server), self.sandbox.counters(server)["business"]), ("closed", 6))

    def test_a_call_that_hangs_counts_while_it_hangs(self):
        server = self.start(stay_silent)
        self.take(api=server.destination)
        processes = [self.sandbox.popen(["curl", "-sS", server.url]) for _ in range(5)]
        self.assertTrue(eventually(lambda: server.requests == 5 and all(map(asleep, processes))))
        self.wait(11)
        self.assertEqual(self.curl(server.url), REFUSED)
        self.assertEqual(self.sandbox.failures(server), {"response-timeout": 5})


class Databases(Policy):
    name = "postgresql"

    def psql(self, server, *commands):
        words = [word for command in commands for word in ("-c", command)]
        return self.sandbox.run(["psql", "-XAtq", "-h", server.address, "-p", server.port, "-U", "postgres", *words],
                                env={"PGCONNECT_TIMEOUT": "20"})

    def test_three_failures_refuse_and_a_session_with_a_query_brings_it_back(self):
        far = POSTGRES.get()
        server = self.start(reset_after_request)
        self.take(postgresql=server.destination)
        self.assertEqual([self.psql(server, "select 1").status for _ in range(3)], [2] * 3)
        refused = self.psql(server, "select 1")
        self.assertEqual(refused.status, 2)
        self.assertIn("Connection refused", refused.stderr)
        server.behaviour = forward_to(lambda: connected(far))
        self.wait(3)
        self.assertEqual(self.psql(server, "select 1").output, ("1\n", "", 0))
        self.assertEqual((self.state(server), self.sandbox.counters(server)["probes_succeeded"]), ("closed", 2))

    def test_an_error_of_the_server_is_an_answer(self):
        far = POSTGRES.get()
        server = self.start(forward_to(lambda: connected(far)))
        self.take(postgresql=server.destination)
        for _ in range(4):
            self.assertIn("does not exist", self.psql(server, "select * from nothing").stderr)
        self.assertEqual(self.state(server), "closed")

    def test_a_slow_query_is_no_failure(self):
        far = POSTGRES.get()
        server = self.start(forward_to(lambda: connected(far)))
        self.take(postgresql=server.destination)
        self.assertEqual(self.psql(server, "select pg_sleep(1)", "select 2").status, 0)
        self.wait(3600)
        self.psql(server, "select 1")
        self.assertEqual((self.state(server), self.sandbox.failures(server)), ("closed", {}))


def connected(daemon):
    import socket
    return socket.create_connection(("127.0.0.1", daemon.port))


class Caches(Policy):
    name = "redis"

    def redis(self, server, *words, seconds="0.3"):
        return self.sandbox.run(["timeout", "-s", "INT", seconds, "redis-cli", "-h", server.address, "-p", server.port,
                                 *words])

    def test_a_cache_that_is_down_is_refused_and_comes_back(self):
        far = REDIS.get()
        server = self.start(reset_after_request)
        self.take(redis=server.destination)
        for _ in range(3):
            self.redis(server, "PING", seconds="5")
        before = server.connections
        self.assertIn("Connection refused", self.redis(server, "PING", seconds="5").stdout
                      + self.redis(server, "PING", seconds="5").stderr)
        self.assertEqual(server.connections, before)
        server.behaviour = forward_to(lambda: connected(far))
        self.wait(1.3)
        self.assertEqual(self.redis(server, "PING", seconds="5").stdout, "PONG\n")
        self.assertEqual(self.state(server), "closed")

    def test_a_blocking_pop_is_no_failure(self):
        far = REDIS.get()
        server = self.start(forward_to(lambda: connected(far)))
        self.take(redis=server.destination)
        past_it = ["redis-cli", "-p", far.port]
        popping = self.sandbox.popen(["redis-cli", "-h", server.address, "-p", server.port, "BLPOP", "nothing", "0"])
        blocked = [*past_it, "INFO", "clients"]
        self.assertTrue(eventually(lambda: "blocked_clients:1" in self.sandbox.run(blocked, BARE).stdout))
        self.assertTrue(eventually(lambda: asleep(popping)))
        self.assertEqual(self.sandbox.circuit(server)["in_flight"], 1)
        self.wait(60)
        self.assertEqual(self.redis(server, "PING", seconds="5").stdout, "PONG\n")
        self.sandbox.run([*past_it, "LPUSH", "nothing", "at last"], BARE)
        self.assertEqual(popping.wait(20), 0)
        self.assertEqual((self.state(server), self.sandbox.failures(server)), ("closed", {}))

    def test_a_black_hole_is_found_after_half_a_second(self):
        hole = BlackHole()
        self.addCleanup(hole.stop)
        self.take(redis=hole.destination)
        for _ in range(3):
            self.sandbox.popen(["redis-cli", "-h", hole.address, "-p", hole.port, "PING"])
        self.assertTrue(eventually(lambda: self.sandbox.circuit(hole)["in_flight"] == 3))
        self.wait(0.6)
        self.assertIn("Connection refused", "".join(self.redis(hole, "PING", seconds="5").output[:2]))
        self.assertEqual(self.sandbox.failures(hole), {"connect-timeout": 3})
        self.assertEqual(self.sandbox.counters(hole)["admitted"], 3, "no attempt was made")


class Proxies(Policy):
    name = "proxy"

    def test_impatient_visitors_open_nothing(self):
        server = self.start(stay_silent)
        self.take(upstream=server.destination)
        self.assertEqual([self.curl(server.url, "-m", "0.5") for _ in range(6)], [TIMED_OUT] * 6)
        self.assertEqual((self.state(server), self.sandbox.failures(server)), ("closed", {}))

    def test_a_service_that_hangs_is_found_while_it_hangs(self):
        server = self.start(stay_silent)
        self.take(upstream=server.destination)
        processes = [self.sandbox.popen(["curl", "-sS", server.url]) for _ in range(5)]
        self.assertTrue(eventually(lambda: server.requests == 5 and all(map(asleep, processes))))
        self.wait(20)
        self.assertEqual(self.curl(server.url), REFUSED)

    def test_what_a_forward_proxy_says_of_a_site_opens_nothing(self):
        server = self.start(answer_status("503 Service Unavailable"))
        self.take(egress=server.destination)
        for _ in range(6):
            self.curl("http://site.example/", "-x", server.url)
            self.curl("https://site.example/", "-x", server.url)
        self.assertEqual((self.state(server), self.sandbox.failures(server)), ("closed", {}))

    def test_a_forward_proxy_that_is_away_is_refused(self):
        server = self.start(answer_http)
        server.down()
        self.take(egress=server.destination)
        for _ in range(5):
            self.curl("http://site.example/", "-x", server.url)
        self.assertEqual(self.state(server), "open")


class Files(Policy):
    name = "ftp"

    def test_a_data_connection_on_which_nothing_comes_back_is_well(self):
        server = self.start(end_after_request)
        self.take(**{"ftp-data": f"{server.address}:1024-65535"})
        for _ in range(4):
            self.sandbox.run(["nc", "-N", server.address, server.port], stdin=b"a file")
        counters = self.sandbox.circuit("ftp-data")["counters"]
        self.assertEqual((counters["succeeded"], counters["failed"]), (4, 0))

    def test_a_conversation_without_a_greeting_is_refused_in_the_end(self):
        server = self.start(stay_silent)
        self.take(ftp=server.destination)
        url = f"ftp://{server.address}:{server.port}/"
        self.assertEqual([self.curl(url, "-m", "0.7") for _ in range(4)], [TIMED_OUT] * 3 + [REFUSED])


class Mail(Policy):
    name = "smtp"

    def send(self, server, *options):
        return self.sandbox.run(["curl", "-sS", *options, f"smtp://{server.address}:{server.port}", "--mail-from",
                                 "a@example.com", "--mail-rcpt", "b@example.com", "-T", "-"], stdin=b"x\r\n").status

    def test_a_server_that_does_not_greet_is_refused_in_the_end(self):
        server = self.start(stay_silent)
        self.take(mail=server.destination)
        self.assertEqual([self.send(server, "--max-time", "1.5") for _ in range(4)], [TIMED_OUT] * 3 + [REFUSED])
        self.assertEqual(self.sandbox.failures(server), {"response-timeout": 3})
        self.assert_pause(server, 59, 66)

    def test_a_greeting_may_take_four_minutes(self):
        import threading
        greet = threading.Event()

        def late(server, sock, number):
            del server, number
            greet.wait(30)
            sock.sendall(b"220 here\r\n")
            sock.recv(4096)
        server = self.start(late)
        self.take(mail=server.destination)
        waiting = self.sandbox.popen(["nc", server.address, server.port])
        self.assertTrue(eventually(lambda: server.connections == 1))
        self.wait(240)
        greet.set()
        self.assertTrue(eventually(lambda: self.sandbox.counters(server)["succeeded"] == 1))
        self.assertEqual(self.sandbox.failures(server), {})
        waiting.kill()

    def test_a_server_that_rejects_has_answered(self):
        def reject(server, sock, number):
            del server, number
            sock.sendall(b"554 no mail here\r\n")
            sock.recv(4096)
        server = self.start(reject)
        self.take(mail=server.destination)
        for _ in range(4):
            self.assertNotIn(self.send(server), (0, REFUSED, TIMED_OUT))
        self.assertEqual((self.state(server), server.connections), ("closed", 4))


class Domain(Policy):
    name = "internal-domain"

    def setUp(self):
        super().setUp()
        hosts = ["127.0.0.2 api.corp.example", "127.0.0.3 deep.below.corp.example", "127.0.0.4 legacy.corp.example",
                 "127.0.0.5 syslog.corp.example"]
        self.sandbox.namespace = Namespace(self.sandbox.folder, hosts)
        self.addCleanup(self.sandbox.namespace.close)
        self.take()

    def served(self, address, behaviour, **keywords):
        return self.start(behaviour, address=address, namespace=self.sandbox.namespace, **keywords)

    def test_each_host_has_a_circuit_of_its_own(self):
        sick, well = self.served("127.0.0.2", reset_after_request), self.served("127.0.0.3", answer_http)
        urls = [f"http://api.corp.example:{sick.port}/", f"http://deep.below.corp.example:{well.port}/"]
        self.assertEqual([self.curl(urls[0]) for _ in range(6)], [RESET] * 5 + [REFUSED])
        self.assertEqual(self.curl(urls[1]), 0)
        self.assertEqual(self.state(f"api.corp.example:{sick.port}"), "open")
        self.assertEqual(self.state(f"deep.below.corp.example:{well.port}"), "closed")

    def test_the_exceptions_stand_above_the_rule(self):
        legacy = self.served("127.0.0.4", reset_after_request)
        log = self.served("127.0.0.5", end_after_request, port=514)
        self.assertEqual([self.curl(f"http://legacy.corp.example:{legacy.port}/") for _ in range(7)], [RESET] * 7)
        for _ in range(6):
            self.sandbox.run(["nc", "-N", "-w", "5", "syslog.corp.example", "514"], stdin=b"<13>a line\n")
        self.assertEqual(log.connections, 6)
        self.assertEqual(self.state("syslog.corp.example:514"), "closed")
        self.assertFalse([circuit for circuit in self.sandbox.circuits()
                          if circuit["target"] == "legacy" and circuit["counters"]["admitted"]])


class Local(Policy):
    name = "unix-socket"

    def test_a_service_that_is_away_is_refused_and_its_return_is_noticed_in_half_a_second(self):
        import socket
        server = self.start(answer_http, family=socket.AF_UNIX, file="app.sock", up=False)
        self.take(local=f"unix:{os.path.dirname(server.path)}/*.sock")
        url = ("http://local/", "--unix-socket", server.path)
        self.assertEqual([self.curl(*url) for _ in range(4)], [REFUSED] * 4)
        circuit = self.sandbox.circuit(server)
        self.assertEqual((circuit["failures"], circuit["counters"]["refused"]), ({"refused": 3}, 1))
        server.up()
        self.wait(0.6)
        self.assertEqual(self.curl(*url), 0)
        self.assertEqual(self.state(server), "closed")


class Observe(Policy):
    name = "observe"

    def test_it_refuses_nothing_and_says_when_it_would_have(self):
        server = self.start(reset_after_request)
        self.take()
        self.assertEqual([self.curl(server.url) for _ in range(7)], [RESET] * 7)
        self.assertEqual(server.connections, 7)
        circuit = self.sandbox.circuit(server)
        self.assertEqual((circuit["target"], circuit["mode"]), ("everything", "observe"))
        self.assertEqual(circuit["counters"]["refused"], 2, "calls that would have been refused")
        self.assertEqual([event["event"] for event in self.sandbox.events() if event["event"] == "open"], ["open"])

    def test_unix_sockets_are_seen_too(self):
        import socket
        server = self.start(answer_http, family=socket.AF_UNIX)
        self.take()
        self.assertEqual(self.curl("http://local/", "--unix-socket", server.path), 0)
        self.assertEqual(self.sandbox.counters(server)["succeeded"], 1)


class Batch(Policy):
    name = "batch"

    def test_two_failures_stop_a_job_and_kept_connections_too(self):
        server = self.start(reset_after_request)
        self.take(warehouse=server.destination)
        self.assertEqual([self.curl(server.url) for _ in range(3)], [RESET, RESET, REFUSED])
        self.assert_pause(server, 59, 66)

    def test_it_must_prove_itself_three_times(self):
        server = self.start(flapping(reset_after_request, reset_after_request, answer_http))
        self.take(warehouse=server.destination)
        for _ in range(2):
            self.curl(server.url)
        self.wait(67)
        states = []
        for _ in range(3):
            self.assertEqual(self.curl(server.url), 0)
            states.append(self.state(server))
        self.assertEqual(states, ["half-open", "half-open", "closed"])

    def test_a_partner_who_asks_to_slow_down_is_obeyed(self):
        server = self.start(answer_status("429 Too Many Requests"))
        self.take(partner=server.destination)
        self.assertEqual([self.curl(server.url) for _ in range(3)], [0, 0, REFUSED])
        self.assertEqual(self.sandbox.failures(server), {"http-429": 2})

    def test_no_call_waits_for_ever(self):
        hole = BlackHole()
        self.addCleanup(hole.stop)
        self.take(warehouse=hole.destination)
        code = f"import socket; s = socket.socket(); s.connect(('{hole.address}', {hole.port}))"
        result = self.sandbox.run([PYTHON, "-c", code])
        self.assertIn("Connection timed out", result.stderr)
        self.assertTrue(4 < result.seconds < 15, result.seconds)


class Microservices(Policy):
    name = "microservices"

    def session(self, server, calls):
        """One Python client that makes so many calls, each on a connection of its own; returns how each ended."""
        code = ("import sys, urllib.request\n"
                f"for _ in range({calls}):\n"
                f"    try: urllib.request.urlopen('{server.url}', timeout=10).read(); print('ok')\n"
                "    except OSError as error: print(type(getattr(error, 'reason', error)).__name__)\n")
        result = self.sandbox.run([PYTHON, "-c", code])
        self.assertEqual((result.status, result.stderr), (0, ""))
        return result.stdout.split()

    def test_some_failures_in_a_row_are_noise(self):
        server = self.start(flapping(*[reset_after_request] * 49, answer_http))
        self.take(services=server.destination)
        ends = self.session(server, 120)
        self.assertEqual((ends.count("ok"), ends.count("ConnectionRefusedError")), (71, 0))
        self.assertEqual(self.state(server), "closed")

    def test_half_of_a_hundred_calls_open_it(self):
        server = self.start(flapping(*[answer_http] * 50, reset_after_request))
        self.take(services=server.destination)
        ends = self.session(server, 105)
        self.assertEqual((ends.count("ok"), ends.count("ConnectionRefusedError")), (50, 5))
        opening = [event for event in self.sandbox.events() if event["event"] == "open"]
        self.assertEqual([event["reason"] for event in opening], ["failure-rate"])

    def test_it_comes_back_in_small_steps(self):
        server = self.start(flapping(*[reset_after_request] * 100, answer_http))
        self.take(services=server.destination)
        self.session(server, 100)
        self.wait(1.6)
        self.assertEqual(self.session(server, 9), ["ok"] * 9)
        self.assertEqual(self.state(server), "half-open")
        self.assertEqual(self.session(server, 1), ["ok"])
        self.assertEqual(self.state(server), "closed")

    def test_slow_answers_open_it_too(self):
        server = self.start(answer_late(1.1))
        self.take(services=server.destination)
        ends = [end for some in in_parallel([lambda: self.session(server, 1)] * 100, 20) for end in some]
        self.assertEqual(ends.count("ok"), 100)
        opening = [event for event in self.sandbox.events() if event["event"] == "open"]
        self.assertEqual([event["reason"] for event in opening], ["slow-call-rate"])


class Rehearsal(Policy):
    name = "rehearsal"

    def ends(self):
        server = self.start(answer_http)
        self.take(payments=server.destination)
        script = (f"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "
                  f"curl -s -o /dev/null -w '%{{http_code}} ' --max-time 5 {server.url}; echo $?; done")
        result = self.sandbox.run(["sh", "-c", script], env={"SOCKFUSE_RUN": None})
        return server, result.stdout.splitlines()

    def test_the_program_sees_faults_and_the_destination_none_of_them(self):
        server, ends = self.ends()
        self.assertTrue(set(ends) <= {"200 0", "503 0", f"000 {REFUSED}", f"000 {TIMED_OUT}"}, ends)
        self.assertGreater(len(set(ends)), 1, ends)
        self.assertEqual(server.connections, ends.count("200 0"))
        failures = [event for event in self.sandbox.events() if event["event"] == "failure"]
        self.assertTrue(failures and all(event.get("injected") for event in failures), failures)

    def test_the_same_run_again_gives_the_same_faults(self):
        first = self.ends()[1]
        self.sandbox = Sandbox(self, clock=True)
        self.assertEqual(self.ends()[1], first)


class Classic(Policy):
    """Failures, pause: open after the last failure, refused to the end of the pause, probed at it."""

    failures, pause = 3, 10
    name = "classic-3-10s"

    def test_to_the_letter(self):
        count = self.failures
        server = self.start(flapping(*[reset_after_request] * (count + 1), answer_http))
        self.take(service=server.destination)
        self.assertEqual([self.curl(server.url) for _ in range(count + 1)], [RESET] * count + [REFUSED])
        for end in (RESET, 0):
            self.sandbox.clock.advance_seconds(self.pause)
            self.sandbox.clock.advance(-1)
            self.assertEqual(self.curl(server.url), REFUSED)
            self.sandbox.clock.advance(1)
            self.assertEqual(self.curl(server.url), end)
        self.assertEqual((self.state(server), server.connections), ("closed", count + 2))

    def test_an_answer_in_between_begins_the_count_anew(self):
        failing = [reset_after_request] * (self.failures - 1)
        server = self.start(flapping(*failing, answer_http, *failing, answer_http))
        self.take(service=server.destination)
        ends = [RESET] * len(failing) + [0]
        self.assertEqual([self.curl(server.url) for _ in range(2 * len(ends))], 2 * ends)
        self.assertEqual(self.state(server), "closed")


class ClassicSecond(Classic):
    failures, pause = 3, 1
    name = "classic-3-1s"


class ClassicHalfMinute(Classic):
    failures, pause = 5, 30
    name = "classic-5-30s"


if __name__ == "__main__":
    unittest.main()
