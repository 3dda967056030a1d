"""What the agent keeps for those who ask over HTTP, and what it says of a command that fails: with a command of the test's
in place of sockfuse."""
import os
import re
import shutil
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import ParallelSuite, eventually  # noqa: E402
from test_agent import DAEMON  # noqa: E402
from test_web import Web  # noqa: E402

load_tests = ParallelSuite.load(4)
MIB = 1 << 20
FLOWS = 64


class Bounds(Web):
    def web_with(self, script):
        """An agent that stands beside that command."""
        folder = os.path.join(self.sandbox.folder, "beside")
        os.mkdir(folder)
        with open(os.path.join(folder, "sockfuse"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(file.name, 0o755)
        with open(self.said, "ab") as said:
            agent = self.sandbox.popen([shutil.copy(DAEMON, folder), "--listen", f"127.0.0.1:{self.port}"], how="command",
                                       stderr=said)
        self.assertTrue(eventually(lambda: "watches" in self.says() or agent.poll() is not None, 60), self.says())
        return agent

    def ask(self, path, source="127.0.0.1"):
        """A connection that has begun to hear its answer, and reads no more; the answer's first line."""
        connection = socket.create_connection(("127.0.0.1", self.port), 50, source_address=(source, 0))
        self.addCleanup(connection.close)
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection, connection.recv(100).split(b"\r\n")[0]

    def resident(self, agent):
        with open(f"/proc/{agent.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) * 1024

    def test_what_a_command_says_that_fails_is_no_answer(self):
        self.web_with("case $1 in\n"
                      "status) echo '[{\"policy\": \"/a\"'; exit 1 ;;\n"
                      "calls) echo '[]'; exit 2 ;;\n"
                      "metrics) echo 'a_total 1'; echo '# EOF'; kill -9 $$ ;;\n"
                      "report) echo '{}'; exit 1 ;;\n"
                      "esac")
        for path, expected in (
                ("/status.json", (503, b"It can't be told now: sockfuse status failed with exit status 1.\n")),
                ("/calls.json", (503, b"It can't be told now: sockfuse calls failed with exit status 2.\n")),
                ("/metrics", (503, b"It can't be told now: sockfuse metrics was ended by signal 9.\n")),
                ("/report.json", (200, b"{}\n"))):  # not all could be read, which is said in what could
            answer = self.get(path)
            self.assertEqual((answer.status, answer.read()), expected)

    def test_slow_readers_of_what_is_old_are_cut_off_before_it_is_too_much(self):
        length = 40 * MIB
        agent = self.web_with(f"echo x >> '{self.sandbox.folder}/made'; head -c {length - 2} /dev/zero; echo ']'")

        def made():
            with open(f"{self.sandbox.folder}/made", encoding="ascii") as file:
                return len(file.read()) // 2
        readers = []
        for count in range(1, 5):
            self.assertTrue(eventually(lambda: readers.append(self.ask("/status.json")[0]) or made() == count, 60, 0.2))
        self.assertLess(self.resident(agent), 2 * length + 50 * MIB)

        def whole(connection):
            got = 0
            try:
                while got < length and (more := connection.recv(MIB)):
                    got += len(more)
            except ConnectionResetError:
                pass
            return got >= length
        self.assertEqual((whole(readers[0]), whole(readers[-1])), (False, True))

    def test_what_nobody_asks_for_any_more_is_dropped(self):
        agent = self.web_with(f"head -c {20 * MIB - 2} /dev/zero; echo ']'")
        self.assertEqual(len(self.get("/status.json").read()), 20 * MIB)
        most = self.resident(agent)
        self.sandbox.clock.advance_seconds(61)
        self.assertTrue(eventually(lambda: self.resident(agent) < most - 15 * MIB, 60), (self.resident(agent), most))
        self.assertEqual(len(self.get("/status.json").read()), 20 * MIB)

    def test_whoever_follows_the_journals_most_often_loses_his_oldest_to_the_next_one(self):
        self.web()
        follow = lambda source: self.ask("/events", source)  # noqa: E731
        calm = follow("127.0.0.2")[0]
        many = [follow("127.0.0.1")[0] for _ in range(FLOWS - 1)]
        later, line = follow("127.0.0.3")
        self.assertEqual(line, b"HTTP/1.1 200 OK")
        for connection in (calm, many[0], many[1], later):
            connection.settimeout(50 if connection is many[0] else 0.1)
        while many[0].recv(4096):
            pass
        for connection in (calm, many[1], later):
            try:
                while connection.recv(4096):
                    pass
                self.fail("it has ended")
            except TimeoutError:
                pass

    def test_one_that_stands_by_says_so(self):
        self.use()
        first = self.agent()
        self.web()
        said = lambda: self.get("/healthz").read()  # noqa: E731
        self.assertEqual(said(), b"ok: watches 0 policies; stands by for 1, after which another agent looks\n")
        first.kill()
        self.assertTrue(eventually(lambda: said() == b"ok: watches 1 policy\n", 60), said())


if __name__ == "__main__":
    unittest.main()
