"""SOCKFUSE_LOG and the line about a bad policy: they go where they are meant to go, or nowhere. And what is told of an
outage when it ends, there and by `sockfuse events`."""
import json
import os
import re
import socket
import stat
import subprocess
import sys
import unittest
from datetime import datetime

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import PRELOAD, PYTHON, ParallelSuite, Sandbox, Server  # noqa: E402

load_tests = ParallelSuite.load(4)
# Makes the circuit open by one refused connect, after what it is told to do. -S -E: nothing else is read meanwhile.
CALL = """import os, socket, sys
{before}
s = socket.socket()
s.connect_ex(("127.0.0.1", {port}))
s.close()
os._exit(0)
"""
OPENED = '"to":"open"'


class Log(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        bound = socket.socket()  # nobody listens: it refuses
        self.addCleanup(bound.close)
        bound.bind(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        self.sandbox.policy(f"[127.0.0.1:{self.port}]\nfailure_threshold = 1\n")
        self.data = os.path.join(self.sandbox.folder, "data")

    def call(self, before="", log="stderr", policy=None, **keywords):
        env = {"SOCKFUSE_LOG": log}
        if policy:
            env["SOCKFUSE_POLICY"] = policy
        process = subprocess.Popen(
            [PYTHON, "-S", "-E", "-c", CALL.format(before=before, port=self.port)],
            env=self.sandbox.environment(PRELOAD, env), cwd=self.sandbox.folder, **keywords)
        self.assertEqual(process.wait(60), 0)

    def opened(self):
        (circuit,) = self.sandbox.circuits()
        self.assertEqual(circuit["state"], "open")

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    # standard error

    def test_standard_error_gets_the_line_whatever_it_is(self):
        ours, theirs = socket.socketpair()
        with ours, theirs, open(self.data, "w", encoding="utf-8") as file:
            self.call(stderr=file)
            self.assertIn(OPENED, self.read(self.data))
            os.remove(self.sandbox.segment_path())
            self.call(stderr=theirs, stdin=subprocess.DEVNULL)
            self.assertIn(OPENED, ours.recv(65536).decode())

    def test_a_data_file_that_got_the_number_gets_nothing(self):
        self.call(before=f"os.close(2); assert os.open({self.data!r}, os.O_RDWR | os.O_CREAT, 0o600) == 2",
                  stderr=subprocess.DEVNULL)
        self.opened()
        self.assertEqual(self.read(self.data), "")

    def test_a_pipe_to_another_program_that_got_the_number_gets_nothing(self):
        end, start = os.pipe()
        with open(end, "rb") as pipe:
            self.call(before=f"os.dup2({start}, 2)", stderr=subprocess.DEVNULL, pass_fds=[start])
            os.close(start)
            self.assertEqual(pipe.read(), b"")
        self.opened()

    def test_a_program_that_starts_without_the_number_gets_nothing_into_its_files(self):
        self.call(before=f"assert os.open({self.data!r}, os.O_RDWR | os.O_CREAT, 0o600) == 2",
                  preexec_fn=lambda: os.close(2))
        self.opened()
        self.assertEqual(self.read(self.data), "")

    def inetd(self, ours, theirs, **keywords):
        with ours:
            with theirs:
                self.call(stdin=theirs, stdout=theirs, stderr=theirs, **keywords)
            self.assertEqual(ours.recv(65536), b"")

    def connected(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            ours = socket.create_connection(server.getsockname())
            return ours, server.accept()[0]

    def test_the_client_of_a_server_that_inetd_started_gets_nothing(self):
        self.inetd(*self.connected())
        self.opened()
        self.inetd(*socket.socketpair())

    # the line about a bad policy

    def bad(self):
        path = os.path.join(self.sandbox.folder, "bad.policy")
        with open(path, "w", encoding="utf-8") as file:
            file.write("nonsense\n")
        return path

    def test_a_bad_policy_is_told_on_standard_error_alone(self):
        bad = self.bad()
        with open(self.data, "w", encoding="utf-8") as file:
            self.call(policy=bad, stderr=file)
        self.assertIn("unguarded", self.read(self.data))
        self.inetd(*self.connected(), policy=bad)
        self.inetd(*socket.socketpair(), policy=bad)
        self.call(policy=bad, preexec_fn=lambda: os.close(2))
        self.assertEqual(self.read(bad), "nonsense\n")

    def test_a_bad_policy_kills_nobody_whose_standard_error_is_a_broken_pipe(self):
        end, start = os.pipe()
        os.close(end)
        self.call(policy=self.bad(), stderr=start, preexec_fn=lambda: __import__("signal").signal(13, 0))
        os.close(start)

    # a file

    def lines(self, path):
        return [json.loads(line)["to"] for line in self.read(path).splitlines()]

    def test_a_file_has_the_usual_mode(self):
        for mask, mode in ((0o022, 0o644), (0o027, 0o640), (0o077, 0o600)):
            path = os.path.join(self.sandbox.folder, f"log-{mask:o}")
            self.call(log=path, umask=mask)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode)
            os.remove(self.sandbox.segment_path())

    def test_a_relative_name_is_of_the_folder_that_the_program_started_in(self):
        self.call(before="os.chdir('/')", log="log")
        self.assertEqual(self.lines(os.path.join(self.sandbox.folder, "log")), ["open"])

    def test_a_file_that_was_deleted_is_made_again_and_a_link_is_followed(self):
        path = os.path.join(self.sandbox.folder, "link")
        os.symlink(self.data, path)
        self.call(log=path)
        self.assertEqual(self.lines(self.data), ["open"])
        os.remove(self.data)
        os.remove(self.sandbox.segment_path())
        self.call(log=path)
        self.assertEqual(self.lines(self.data), ["open"])

    def test_nothing_that_takes_no_line_is_waited_for(self):
        fifo = os.path.join(self.sandbox.folder, "fifo")
        os.mkfifo(fifo)
        for path in (fifo, "/dev/full", "/dev/null", self.sandbox.folder, "/nowhere/at/all", "/" + "x" * 5000):
            self.call(log=path)
            self.opened()
            if path not in ("/dev/null", "/" + "x" * 5000):
                (policy,) = self.sandbox.status()
                self.assertEqual(policy["log_lost"], 1, path)
                self.assertIn("1 line of the log", self.sandbox.sockfuse("status").stdout)
            os.remove(self.sandbox.segment_path())

    def test_a_full_pipe_is_not_waited_for(self):
        fifo = os.path.join(self.sandbox.folder, "fifo")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        try:
            while True:
                os.write(reader, bytes(4096))
        except BlockingIOError:
            pass
        self.call(log=fifo)
        os.remove(self.sandbox.segment_path())
        self.call(stderr=reader)
        self.opened()


class Outages(unittest.TestCase):
    """One outage of curl's: three failures, two refusals, a probe that fails, one that closes."""

    maxDiff = None

    def setUp(self):
        self.sandbox = Sandbox(self, clock=True)
        self.server = Server(up=False)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, failure_threshold=3)
        self.log = os.path.join(self.sandbox.folder, "log")
        self.curl(5)
        self.sandbox.clock.advance_seconds(10)
        self.curl()
        self.sandbox.clock.advance_seconds(20)
        self.server.up()
        self.curl()

    def curl(self, count=1):
        for _ in range(count):
            self.sandbox.run(["curl", "-s", self.server.url], env={"SOCKFUSE_LOG": self.log, "TZ": "Asia/Kolkata"})

    def text(self, zone):
        result = self.sandbox.sockfuse("events", "-p", self.sandbox.policy_path, env={"TZ": zone})
        self.assertEqual((result.status, result.stderr), (0, ""))
        return result.stdout.splitlines()

    def test_its_end_tells_how_long_how_many_were_refused_and_why(self):
        with open(self.log, encoding="utf-8") as file:
            logged = [json.loads(line) for line in file]
        told = self.sandbox.events()
        close = told[-1]
        self.assertEqual(close["event"], "close")
        outage = close["outage"]
        self.assertEqual({key: outage[key] for key in ("lasted_ms", "refused", "probes", "probes_failed")},
                         {"lasted_ms": 30000, "refused": 2, "probes": 2, "probes_failed": 1})
        self.assertEqual(outage["cause"], {"reason": "failure-threshold", "failures": 3, "kinds": {"refused": 3},
                                           "window": {"calls": 3, "failed": 3, "slow": 0}, "injected": False})
        opened = [event for event in told if event["event"] == "open"]
        self.assertEqual(outage["since"], opened[0]["time"])
        self.assertEqual(opened[0]["kinds"], {"refused": 3})
        self.assertEqual([(attempt["kind"], attempt["errno"]) for attempt in opened[1]["attempts"]],
                         [("refused", "ECONNREFUSED")])
        # The log has the same lines; written by programs in another zone, and in UTC.
        transitions = [event for event in told if "to" in event]
        self.assertEqual(logged, [{key: event[key] for key in event if key not in ("policy", "owner")}
                                  for event in transitions])

    def test_people_are_told_in_one_line_and_in_their_own_time(self):
        utc, kolkata = self.text("UTC"), self.text("Asia/Kolkata")
        self.assertRegex(utc[-1], r"  close +\S+ +curl\[\d+\]  probe-succeeded, outage of 30s is over: 2 refused, "
                         r"2 probes \(1 failed\); cause: failure-threshold, 3 failures \(refused\)$")
        self.assertRegex(utc[-4], r"probe-failed: refused \(ECONNREFUSED\) after \d+ms, pause 20s$")
        for one, other in zip(utc, kolkata):
            here, there = one.split()[0], other.split()[0]
            self.assertTrue(here.endswith("Z") and there.endswith("+05:30"), (here, there))
            self.assertEqual(datetime.fromisoformat(here.replace("Z", "+00:00")), datetime.fromisoformat(there))
        # All stand in one column, and a time that was read there can be asked for.
        self.assertEqual(len({line.index("curl[") for line in kolkata}), 1)
        since = self.sandbox.sockfuse("events", "--since", kolkata[-1].split()[0]).stdout
        self.assertEqual(since.splitlines()[-1], utc[-1])
        self.assertEqual({event["time"][-1] for event in self.sandbox.events()}, {"Z"})

    def test_a_report_of_a_part_of_it_knows_all_that_its_end_tells(self):
        """The journal has gone on: nothing is left but the end."""
        lines = self.sandbox.sockfuse("events", "--json").stdout.splitlines()
        path = os.path.join(self.sandbox.folder, "end.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(lines[-1] + "\n")
        page = os.path.join(self.sandbox.folder, "page.html")
        result = self.sandbox.sockfuse("report", "-o", page, path)
        if "make page" in result.stderr:
            self.skipTest("this build has no page")
        with open(page, encoding="utf-8") as file:
            (text,) = re.findall(r'(?s)<script type="application/json" id="report-data">(.*?)</script>', file.read())
        (incident,) = json.loads(text)["circuits"][0]["incidents"]
        self.assertEqual({key: incident[key] for key in ("reason", "lasted_ms", "refused", "probes", "probes_failed")},
                         {"reason": "failure-threshold", "lasted_ms": 30000, "refused": 2, "probes": 2,
                          "probes_failed": 1})


if __name__ == "__main__":
    unittest.main()
