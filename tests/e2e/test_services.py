"""Services whose master starts as root and whose workers have given up their rights before their first call."""
import os
import pwd
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (SOCKFUSE, ParallelSuite, Sandbox, Server, answer_status, eventually,  # noqa: E402
                      reset_after_request, services)

load_tests = ParallelSuite.load(4)
ROUNDS = 200


@unittest.skipUnless(os.geteuid() == 0, "such services are started by root")
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


if __name__ == "__main__":
    unittest.main()
