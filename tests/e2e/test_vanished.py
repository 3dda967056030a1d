"""The file of the circuits goes away under running programs, or the programs go where they can't see it."""
import json
import os
import shutil
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import CLIENTS, PYTHON, ParallelSuite, Sandbox, Server, Session, answer_http  # noqa: E402

load_tests = ParallelSuite.load(4)
NOBODY = 65534
PATIENCE_S = 60  # a look comes once a second; the machine may be busy


class Vanished(unittest.TestCase):
    def start(self, clients=1, **policy):
        self.sandbox = Sandbox(self)
        os.chmod(self.sandbox.folder, 0o755)
        self.server = Server(answer_http)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **policy)
        self.clients = [self.client() for _ in range(clients)]
        for client in self.clients:
            self.assertEqual(self.call(client), "answered")
        return self.clients[0]

    def client(self):
        """One whose standard error goes into a file."""
        path = os.path.join(self.sandbox.folder, "said")
        return Session(self.sandbox, ["sh", "-c", f'exec "$@" 2>>{path}', "sh", PYTHON, CLIENTS / "sockets.py"])

    def said(self):
        with open(os.path.join(self.sandbox.folder, "said"), encoding="utf-8") as file:
            return file.read()

    def call(self, client):
        return client.ask(do="call", port=self.server.port)

    def calls_until(self, client, wanted, do=None):
        end = time.monotonic() + PATIENCE_S
        while (result := (do or self.call)(client)) != wanted:
            self.assertLess(time.monotonic(), end, f"{result}, and never {wanted}")
            time.sleep(0.05)

    def calls_for_some_looks(self, client):
        """So long that its looks at the file had their effect; what the calls came to."""
        results = set()
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            results.add(self.call(client))
            time.sleep(0.05)
        return results

    def does(self, *words):
        result = self.sandbox.sockfuse(*words)
        self.assertEqual(result.status, 0, (words, result.stdout, result.stderr))

    def attached(self):
        if not os.path.isdir(self.sandbox.state):
            return {}
        (policy,) = self.sandbox.status()
        return {process["pid"]: process for process in policy["processes"]}

    def is_attached(self, client):
        return self.call(client) == "answered" and client.pid in self.attached()

    def delete(self):
        shutil.rmtree(self.sandbox.state)

    def forget_the_path(self):
        """A file in the folder's place: no folder can be made there."""
        self.delete()
        with open(self.sandbox.state, "wb"):
            pass

    def reaches(self, client):
        """Every word of an operator reaches the client."""
        self.does("open", self.server.destination)
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.does("auto", self.server.destination)
        self.assertEqual(self.call(client), "answered")
        self.sandbox.guard(self.server, mode="open")
        self.does("reload")
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.assertTrue(self.attached()[client.pid]["current"])
        self.sandbox.guard(self.server, failure_threshold=9)
        self.does("reload")
        self.assertEqual(self.call(client), "answered")

    def as_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")


class Moved(Vanished):
    def test_a_program_that_gave_up_root_obeys_and_takes_reloads(self):
        self.as_root()
        client = self.start()
        client.ask(do="become", user=NOBODY)
        self.assertEqual(self.calls_for_some_looks(client), {"answered"})
        self.reaches(client)

    def test_a_program_in_a_jail_obeys_and_nothing_is_made_there(self):
        self.as_root()
        client = self.start()
        jail = os.path.join(self.sandbox.folder, "jail")
        os.makedirs(jail + self.sandbox.folder)
        client.ask(do="chroot", to=jail)
        self.assertEqual(self.calls_for_some_looks(client), {"answered"})
        self.reaches(client)
        self.assertEqual(os.listdir(jail + self.sandbox.folder), [])

    def test_a_program_whose_folder_is_hidden_by_another_file_system_obeys_and_makes_nothing_there(self):
        self.as_root()
        client = self.start()
        if client.ask(do="hide", folder=self.sandbox.folder) != "done":
            self.skipTest("no mount name space of one's own here")
        self.assertEqual(self.calls_for_some_looks(client), {"answered"})
        self.reaches(client)
        self.assertEqual(client.ask(do="list", folder=self.sandbox.folder), [])

    def test_a_program_that_can_not_see_the_file_learns_of_its_deletion_from_another(self):
        self.as_root()
        self.start(clients=2)
        master, worker = self.clients
        jail = os.path.join(self.sandbox.folder, "jail")
        os.mkdir(jail)
        worker.ask(do="chroot", to=jail)  # no /proc there
        self.does("open", self.server.destination)
        self.assertEqual(self.call(worker), "ECONNREFUSED")
        self.delete()
        self.calls_until(master, "answered")
        self.calls_until(worker, "answered")
        self.assertEqual(os.listdir(jail), [])

    def test_a_program_that_gave_up_root_learns_of_the_deletion_from_the_kernel(self):
        self.as_root()
        client = self.start()
        client.ask(do="become", user=NOBODY)
        self.does("open", self.server.destination)
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.delete()
        self.calls_until(client, "answered")
        self.assertFalse(os.path.exists(self.sandbox.state))


class Deleted(Vanished):
    def test_a_forced_circuit_is_forgotten_with_its_file(self):
        for _ in range(2):
            client = self.start()
            self.does("open", self.server.destination)
            self.assertEqual(self.call(client), "ECONNREFUSED")
            self.delete()
            self.calls_until(client, "answered")
            self.assertIn(client.pid, self.attached())

    def test_a_program_that_refuses_by_its_mode_or_a_limit_comes_back_to_the_file_too(self):
        for policy in ({"mode": "open"}, {"max_connections": "1"}):
            client = self.start(success="connect")
            if "max_connections" in policy:
                self.assertEqual(client.ask(do="hold", port=self.server.port), "connected")
            self.sandbox.guard(self.server, success="connect", **policy)
            self.does("reload")
            self.call(client)
            self.delete()
            end = time.monotonic() + PATIENCE_S
            while client.pid not in self.attached():
                self.call(client)
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)

    def test_a_kept_connection_moves_over_to_the_new_circuits(self):
        client = self.start()
        self.assertEqual(client.ask(do="hold", port=self.server.port), "connected")
        self.assertEqual(client.ask(do="ask"), ["answered"])
        self.assertEqual(client.ask(do="ask"), ["answered"])
        self.delete()
        self.calls_until(client, True, do=lambda client: (self.assertEqual(client.ask(do="ask"), ["answered"]),
                                                          client.pid in self.attached())[1])
        before = self.sandbox.counters(self.server)["succeeded"]
        for _ in range(3):
            self.assertEqual(client.ask(do="ask"), ["answered"])
        self.assertEqual(self.sandbox.counters(self.server)["succeeded"], before + 3)
        self.assertEqual(self.sandbox.circuit(self.server)["in_flight"], 0)
        self.does("open", self.server.destination)
        self.assertEqual(client.ask(do="ask"), ["ECONNRESET"])

    def test_as_often_as_it_is_deleted_the_program_comes_back_and_its_memory_does_not_grow(self):
        client = self.start()
        sizes = []
        for number in range(12):
            if number < 9:  # more than there are stations: some connection follows each of them
                self.assertEqual(client.ask(do="hold", port=self.server.port), "connected")
            self.delete()
            self.calls_until(client, True, do=self.is_attached)
            sizes.append(self.mapped(client))
        self.reaches(client)
        self.assertEqual(client.ask(do="ask"), ["answered"] * 9)
        client.ask(do="drop")
        self.calls_until(client, True, do=lambda client: (self.call(client), self.mapped(client)[0] <= 2)[1])
        addresses = self.mapped(client)[1]
        for _ in range(3):
            self.delete()
            self.calls_until(client, True, do=self.is_attached)
            self.assertLessEqual(self.mapped(client)[1], addresses + (1 << 20))

    def mapped(self, client):
        """How many segments it has mapped, and all of its address space."""
        with open(f"/proc/{client.pid}/maps", encoding="utf-8") as file:
            count = sum(".segment" in line for line in file)
        with open(f"/proc/{client.pid}/statm", encoding="utf-8") as file:
            return count, int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")

    def test_without_a_folder_it_goes_on_by_itself_says_so_once_and_comes_back(self):
        client = self.start()
        self.does("open", self.server.destination)
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.forget_the_path()
        self.calls_until(client, "answered")
        self.calls_for_some_looks(client)
        os.remove(self.sandbox.state)
        self.calls_until(client, True, do=self.is_attached)
        self.assertRegex(self.said(), rf"\Asockfuse: .*{self.sandbox.state}.*of its own.*\n\Z")
        (policy,) = self.sandbox.status()
        self.assertGreater(policy["apart"], 0)
        self.assertRegex(self.sandbox.sockfuse("status").stdout, r"\d+ calls were guarded apart")
        self.reaches(client)

    def overwrite(self, contents):
        (name,) = (name for name in os.listdir(self.sandbox.state) if name.endswith(".segment"))
        with open(os.path.join(self.sandbox.state, name), "r+b") as file:
            length = os.fstat(file.fileno()).st_size
            file.write((contents * (length // len(contents) + 1))[:length])

    def comes_back(self, client):
        """Commands see it, which they can't while the file is no segment of this policy."""
        answered = self.call(client) == "answered"
        result = self.sandbox.sockfuse("status", "-p", self.sandbox.policy_path, "--json")
        policies = json.loads(result.stdout) if result.status == 0 else []
        return answered and client.pid in {process["pid"] for policy in policies for process in policy["processes"]}

    def test_a_file_that_is_written_over_is_replaced_by_the_programs_that_use_it(self):
        client = self.start()
        for contents in (b"\0", b"\xff", b"no segment at all"):
            with self.subTest(contents=contents):
                self.overwrite(contents)
                self.calls_until(client, True, do=self.comes_back)
                self.reaches(client)

    def test_a_program_whose_place_was_given_away_takes_another(self):
        client = self.start()
        (name,) = (name for name in os.listdir(self.sandbox.state) if name.endswith(".segment"))
        with open(os.path.join(self.sandbox.state, name), "r+b") as file:
            table = file.read(1 << 20)
            place = next(at for at in range(4608, len(table), 128)
                         if int.from_bytes(table[at:at + 4], sys.byteorder) == client.pid)
            file.seek(place)
            file.write(bytes(4) + (int.from_bytes(table[place + 4:place + 8], sys.byteorder) + 1).to_bytes(
                4, sys.byteorder))
        self.calls_until(client, True, do=self.comes_back)
        self.reaches(client)

    def test_alone_it_still_has_circuits(self):
        client = self.start(failure_threshold=2, reset_timeout="1h")
        self.forget_the_path()
        self.calls_for_some_looks(client)
        self.server.down()
        for _ in range(2):
            self.assertEqual(self.call(client), "ECONNREFUSED")
        self.server.up()
        self.assertEqual(self.call(client), "ECONNREFUSED")
        os.remove(self.sandbox.state)
        self.calls_until(client, "answered")  # the file's circuits are other ones


if __name__ == "__main__":
    unittest.main()
