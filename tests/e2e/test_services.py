"""Services whose master starts as root and whose workers have given up their rights before their first call."""
import os
import pwd
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (SOCKFUSE, ParallelSuite, Sandbox, Server, answer_status, eventually,  # noqa: E402
                      reset_after_request, services)
from test_metrics import Metrics  # noqa: E402

load_tests = ParallelSuite.load(4)
IS_ROOT = os.geteuid() == 0
ROUNDS = 200


@unittest.skipUnless(IS_ROOT, "such services are started by root")
class Services(unittest.TestCase):
    def start(self, kind, **keys):
        self.sandbox = Sandbox(self)
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **{"failure_rate": "0%", **keys})
        self.service = kind(self, self.sandbox, self.server.destination)

    def does(self, *words, status=0):
        result = self.sandbox.sockfuse(*words)
        self.assertEqual(result.status, status, (words, result, self.service.log()))
        return result.stdout + result.stderr

    def attached(self):
        (policy,) = self.sandbox.status()
        return {process["pid"]: process for process in policy["processes"]}

    def workers(self):
        """The attached processes of the service, without its master, that have given up their rights."""
        def uid(pid):
            try:
                return os.stat(f"/proc/{pid}").st_uid
            except OSError:
                return None
        wanted = pwd.getpwnam(self.service.user).pw_uid
        return {pid for pid in self.attached() if uid(pid) == wanted and pid != self.service.process.pid}

    def all_workers_call(self):
        """Asks until each worker has made a call; returns what came of the calls."""
        seen = set()
        for _ in range(ROUNDS):
            seen.add(self.service.ask())
            if len(self.workers()) == self.service.workers:
                return seen
        self.fail((self.workers(), services.family(self.service.process.pid), seen, self.service.log()))

    def all_take(self):
        for _ in range(ROUNDS):
            self.service.ask()
            attached, workers = self.attached(), self.workers()
            if len(workers) == self.service.workers and all(attached[pid]["current"] for pid in workers):
                return True
        return False

    def check(self, kind):
        self.start(kind, failure_threshold=5)
        self.assertEqual(self.all_workers_call(), {"answered"}, self.service.log())
        former = self.workers()

        # A force reaches them, and those that come later.
        self.assertRegex(self.does("open", self.server.destination), r"reached [1-9][0-9]* program")
        requests = self.server.requests
        for _ in range(10):
            self.assertNotEqual(self.service.ask(), "answered")
        self.assertEqual(self.server.requests, requests)
        self.service.renew()
        self.assertTrue(eventually(lambda: not former & set(services.family(self.service.process.pid)), 30),
                        (former, services.family(self.service.process.pid), self.service.log()))
        self.assertTrue(eventually(lambda: self.service.is_ready(), 30))
        for _ in range(10):
            self.assertNotEqual(self.service.ask(), "answered")
        self.assertEqual(self.server.requests, requests)
        self.does("auto", self.server.destination)
        self.assertEqual(self.all_workers_call(), {"answered"})

        # So does an edited policy, and what the circuits have learned is everybody's.
        self.sandbox.guard(self.server, failure_rate="0%", failure_threshold=3)
        self.assertRegex(self.does("reload"), r"(?s)handed over; .* take")
        self.assertTrue(self.all_take(), self.attached())
        self.server.behaviour = answer_status(503)
        for _ in range(3):
            self.service.ask()
        requests = self.server.requests
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "open")
        for _ in range(10):
            self.service.ask()
        self.assertEqual(self.server.requests, requests)

    def test_nginx(self):
        self.check(services.Nginx)

    def test_haproxy_whose_worker_changes_its_root(self):
        self.check(services.Haproxy)

    def test_uwsgi(self):
        self.check(services.Uwsgi)

    def test_php_fpm(self):
        self.check(services.PhpFpm)

    def test_a_backend_of_postgresql_that_connects_outwards(self):
        server = Server(reset_after_request)  # no database; what counts is whether it was asked
        self.addCleanup(server.stop)
        database = services.GuardedPostgres(f"[origin]\nmatch = {server.destination}\nfailure_rate = 0%\n")
        self.addCleanup(database.stop)
        place = f"host=127.0.0.1 port={server.port} dbname=x user=x sslmode=disable gssencmode=disable"
        connect = f"select dblink_connect('{place}');\n"
        says = database.sql(f"create extension dblink;\n{connect}\\! {SOCKFUSE} open {server.destination}\n{connect}"
                            f"\\! {SOCKFUSE} auto {server.destination}\n{connect}")
        self.assertRegex(says, r"(?s)ERROR.*forced open, was closed; reached 2 programs\n"
                               r".*Connection refused.*reached 2")
        self.assertEqual((says.count("Connection refused"), server.connections), (1, 2), says)
        program = f"copy (select 1) to program 'curl -s -o /dev/null {server.url}';\n"
        says = database.sql(f"{program}\\! {SOCKFUSE} open {server.destination}\n{program}")
        self.assertEqual((says.count("ERROR"), server.connections), (2, 3), says)


class Told(unittest.TestCase):
    """What each command says of a service whose dependency resets three connections, a second after another: at the
    fourth call it is not asked."""

    def told(self, *words):
        result = self.sandbox.sockfuse(*words)
        self.assertEqual((result.status, result.stderr), (0, ""), words)
        return result.stdout

    def check(self, kind):
        self.sandbox, self.server = Sandbox(self, clock=True), Server(reset_after_request)
        self.addCleanup(self.server.stop)
        self.sandbox.policy("[defaults]\njitter = 0%\nfailure_rate = 0\nfailure_threshold = 3\n"
                            f"[back]\nmatch = {self.server.destination}\n")
        self.service = kind(self, self.sandbox, self.server.destination)
        for _ in range(4):
            self.sandbox.clock.advance_seconds(1)
            self.service.ask()
        self.assertEqual(self.server.requests, 3, self.service.log())
        self.program = os.path.basename(self.service.argv()[0])
        self.table_and_page()
        self.explanation()
        self.metrics()
        self.events()

    def table_and_page(self):
        table = self.told("status")
        self.assertRegex(table, rf"(?m)^ +back +{self.server.destination} +open +3/3 +9\.0s +0 +3 +3 +1 "
                                r"+reset, 1\.0s ago$")
        self.assertRegex(table, rf"(?m)^ +\d+ +{re.escape(self.program)} ")
        page = self.told("status", "back")
        for line in ("State         open, for 1.0s, next probe in 9.0s",
                     "              1 refused, 0 probes; cause: failure-threshold, 3 failures (reset)",
                     "Calls         3, succeeded 0, refused besides 1", "              failed 3 (3 reset)"):
            self.assertIn(f"\n  {line}\n", page)
        self.assertRegex(page, rf"\n  Last failure  reset, 1\.0s ago, pid \d+ \({re.escape(self.program)}\)\n")

    def explanation(self):
        where, members = self.server.destination, services.family(self.service.process.pid)
        text = self.told("explain", where)
        self.assertIn(": 3 calls failed in a row (failure_threshold = 3)\n", text)
        evidence = re.findall(r"(?m)^    \S+ +(\d+) +(\S+) +answer +reset +ECONNRESET ", text)
        self.assertEqual([program for _, program in evidence], [self.program] * 3, text)
        self.assertLessEqual({int(pid) for pid, _ in evidence}, set(members))
        self.assertIn("failure_threshold = 2: opened 1.0s earlier", text)
        self.assertRegex(text, r"\n  Next +a probe in 9\.0s, by the first of \d process(es)? that asks")

    def metrics(self):
        metrics, one = Metrics(self.told("metrics")), {"target": "back", "destination": self.server.destination}
        self.assertEqual(metrics.by("sockfuse_circuit_state", "state", **one), {"open": 1})
        self.assertEqual(metrics.by("sockfuse_calls_total", "kind", **one), {"reset": 3})
        self.assertEqual(metrics.by("sockfuse_refusals_total", "reason", **one), {"open": 1})
        self.assertEqual(metrics.by("sockfuse_transitions_total", "to", **one), {"open": 1})

    def events(self):
        head = rf"\S+Z +{{}} +{self.server.destination} \(back\) +{re.escape(self.program)}\[\d+\] +"
        failed = head.format("failure") + r"reset \(ECONNRESET\) after \d+ms\n"
        opened = head.format("open") + r"failure-threshold, 3 failures \(reset\), pause 10s\n"
        refused = head.format("refused") + r"refused at once, circuit open\n"
        self.assertRegex(self.told("events"), rf"\A({failed}){{3}}{opened}{refused}\Z")

    @unittest.skipUnless(IS_ROOT, "such services are started by root")
    def test_nginx(self):
        self.check(services.Nginx)

    @unittest.skipUnless(IS_ROOT, "such services are started by root")
    def test_gunicorn(self):
        self.check(services.Gunicorn)

    @unittest.skipUnless(IS_ROOT, "such services are started by root")
    def test_php_fpm(self):
        self.check(services.PhpFpm)

    def test_a_cluster_of_node(self):
        self.check(services.Node)


if __name__ == "__main__":
    unittest.main()
