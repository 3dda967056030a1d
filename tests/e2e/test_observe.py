"""`sockfuse observe`: what programs did to whom, after how long they give up, and a policy made of it."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (SOCKFUSE, ParallelSuite, Redis, Sandbox, Server, answer_http, eventually, services,  # noqa: E402
                      stay_silent)

load_tests = ParallelSuite.load(4)

# Calls what the words say, one behind the other: URL, or URL@SECONDS to give up, or so many times with URL*N.
CALLER = """import sys, urllib.request
for word in sys.argv[1:]:
    word, _, times = word.partition("*")
    url, _, seconds = word.partition("@")
    for _ in range(int(times or 1)):
        try:
            urllib.request.urlopen(url, timeout=float(seconds or 60)).read()
        except OSError:
            pass
"""

FORKING = """import os, sys, urllib.request
for _ in range(4):
    if os.fork() == 0:
        for _ in range(5):
            urllib.request.urlopen(sys.argv[1]).read()
        os._exit(0)
for _ in range(4):
    os.wait()
"""


class Observed(unittest.TestCase):
    stands = False  # the circuits' clock, so that no pause ends and no run of failures lasts on a slow machine

    def setUp(self):
        self.sandbox = Sandbox(self, clock=self.stands)

    def server(self, behaviour=answer_http):
        server = Server(behaviour)
        self.addCleanup(server.stop)
        return server

    def path(self, name):
        return os.path.join(self.sandbox.folder, name)

    def observe(self, *words, **keywords):
        return self.sandbox.sockfuse("observe", *words, **keywords)

    def seen(self, *words):
        """The circuits by destination, and the whole object."""
        path = self.path("seen.json")
        result = self.observe("--json", "-o", path, "--", *words)
        with open(path, encoding="utf-8") as file:
            seen = json.load(file)
        self.assertEqual(seen["exit_status"], result.status, result)
        return {circuit["destination"]: circuit for circuit in seen["policies"][0]["circuits"]}, seen

    def python(self, text, *words):
        return [sys.executable, "-c", text, *words]

    def timeouts(self, circuit):
        return {(one["program"], one["waits_for"]): one for one in circuit["timeouts"]}

    def segments(self):
        return os.listdir(self.sandbox.state) if os.path.exists(self.sandbox.state) else []


class Table(Observed):
    stands = True

    def test_it_says_what_a_program_did_to_whom_and_leaves_nothing_behind(self):
        server, silent = self.server(), self.server(stay_silent)
        circuits, seen = self.seen(*self.python(CALLER, f"http://localhost:{server.port}/*30", f"{silent.url}@0.4*7"))
        self.assertEqual(seen["command"][0], sys.executable)
        called = circuits[f"localhost:{server.port}"]
        self.assertEqual((called["counters"]["admitted"], called["counters"]["succeeded"]), (30, 30))
        self.assertEqual((called["latency"]["connect"]["count"], called["latency"]["first_byte"]["count"]), (30, 30))
        hung = next(circuit for name, circuit in circuits.items() if name.endswith(f":{silent.port}"))
        self.assertEqual(hung["failures"], {"response-timeout": 7})
        self.assertEqual(self.segments(), [])
        # Five open it; the other two would have been refused, and were worth the wait to nobody.
        self.assertEqual(hung["would_have_refused"]["failure"]["calls"], 2)
        self.assertGreaterEqual(hung["would_have_refused"]["failure"]["waited_ms"], 800)
        self.assertEqual(hung["failure_runs"]["present_failures"], 7)

    def test_an_abstract_name_is_seen_like_a_path(self):
        name = f"observed-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0" + name)
            listener.listen(8)
            circuits, _ = self.seen(*self.python(
                "import socket, sys\nsocket.socket(socket.AF_UNIX).connect(chr(0) + sys.argv[1])\n", name))
        self.assertEqual(list(circuits), [f"unix:@{name}"])

    def test_people_get_a_table_on_standard_error_and_the_program_keeps_its_output(self):
        server, silent = self.server(), self.server(stay_silent)
        result = self.observe("--", *self.python(CALLER + "print('own')", f"{silent.url}@0.35*6", f"{server.url}*2"))
        self.assertEqual((result.status, result.stdout), (0, "own\n"))
        lines = result.stderr.splitlines()
        self.assertRegex(lines[0], r"\Asockfuse observe: \S+ ran for \S+, exit status 0\Z")
        self.assertRegex(lines[2], r"\ADESTINATION +CALLS +OK +FAILED +WAITED +AT ONCE +CONNECT P50 +P95 +MAX")
        self.assertRegex(lines[3], rf"\A{silent.destination} +6 +0 +6 +[\d.]+s +1 ")
        self.assertRegex(lines[4], rf"\A{server.destination} +2 +2 +\S+ +1 ")
        self.assertIn(f"  {silent.destination}: 6 response-timeout", lines)
        self.assertRegex(result.stderr, rf"python3\S* on {silent.destination}, waiting for the answer: after [^\n]+, 6 times")
        self.assertRegex(result.stderr, rf"{silent.destination}: opened 1 time, refused 1 call; 1 failed after \S+ of")

    def test_what_succeeds_against_the_circuits_word_would_have_been_refused_wrongly(self):
        server = self.server()
        server.down()
        code = ("import os, sys, time, urllib.request\n"
                "def call():\n"
                "    try: urllib.request.urlopen(sys.argv[1]).read()\n"
                "    except OSError: pass\n"
                "for _ in range(6): call()\n"
                "open(sys.argv[2], 'w').close()\n"
                "while os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
                "for _ in range(3): call()\n")
        flag, path = self.path("flag"), self.path("seen.json")
        process = self.sandbox.popen([SOCKFUSE, "observe", "--json", "-o", path, "--",
                                      *self.python(code, server.url, flag)], how="command")
        self.assertTrue(eventually(lambda: os.path.exists(flag), 30))
        # Meanwhile others see it as any policy's.
        result = self.sandbox.sockfuse("status", "--json")
        self.assertIn(server.destination, result.stdout)
        self.assertIn("mode=observe", json.loads(result.stdout)[0]["policy"])
        server.up()
        os.unlink(flag)
        self.assertEqual(process.wait(30), 0)
        with open(path, encoding="utf-8") as file:
            circuit = next(one for one in json.load(file)["policies"][0]["circuits"]
                           if one["destination"] == server.destination)
        self.assertEqual(circuit["would_have_refused"]["success"]["calls"], 3)
        self.assertEqual(circuit["would_have_refused"]["failure"]["calls"], 1)
        self.assertEqual((circuit["failure_runs"]["healed"], circuit["failure_runs"]["most_failures"]), (1, 6))

    def test_a_call_that_hangs_to_the_end_has_waited_until_then(self):
        """One of the command's own, which is killed, and two of a process that goes on."""
        silent = self.server(stay_silent)
        code = ("import os, socket, sys, threading, time\n"
                "def call():\n"
                "    with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as s: s.send(b'x'); s.recv(1)\n"
                "child = os.fork()\n"
                "for _ in range(1 if child else 2): threading.Thread(target=call, daemon=True).start()\n"
                "if child: open(sys.argv[2], 'w').write(str(child))\n"
                "time.sleep(60)\n")
        path, pid = self.path("seen.json"), self.path("pid")
        process = self.sandbox.popen([SOCKFUSE, "observe", "--json", "-o", path, "--",
                                      *self.python(code, str(silent.port), pid)], how="command")
        self.assertTrue(eventually(lambda: len([call for call in json.loads(
            self.sandbox.sockfuse("calls", "--json").stdout) if call["phase"] == "answer"]) == 3 and
            os.path.getsize(pid) > 0, 30, 0.1))
        with open(pid, encoding="ascii") as file:
            self.addCleanup(os.kill, int(file.read()), signal.SIGKILL)
        self.sandbox.clock.advance_seconds(9)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), -signal.SIGTERM)
        with open(path, encoding="utf-8") as file:
            seen = json.load(file)["policies"][0]
        circuit = seen["circuits"][0]
        self.assertEqual((circuit["latency"]["waited_ms"], circuit["most_waiting"]), (27000, 3))
        self.assertEqual(self.timeouts(circuit)[(os.path.basename(sys.executable), "answer")]["killed_after_ms"], 9000)
        again = self.observe("-p", seen["policy"])
        self.assertRegex(again.stdout, rf"AT ONCE [^\n]*\n{silent.destination} +3 +0 +3 +18\.0s +2 ")

    def test_a_server_that_forks_is_seen_whole(self):
        server = self.server()
        circuits, _ = self.seen(*self.python(FORKING, server.url))
        self.assertEqual(circuits[server.destination]["counters"]["succeeded"], 20)

    def test_who_outlives_the_command_is_not_waited_for_and_can_be_read_later(self):
        server = self.server()
        code = CALLER + "import time; print(flush=True); time.sleep(60)"
        os.mkfifo(self.path("pipe"))
        result = self.observe("--", "sh", "-c", '"$@" >pipe 2>&1 & echo $! >pid; read line <pipe', "sh",
                              *self.python(code, server.url))
        with open(self.path("pid"), encoding="ascii") as file:
            pid = int(file.read())
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.stderr, rf"{server.destination} +1 +1 ")
        name = re.search(r"1 of its processes goes on; .* sockfuse observe -p '(.*)'", result.stderr).group(1)
        later = self.observe("-p", name)
        self.assertEqual((later.status, later.stderr), (0, ""))
        self.assertRegex(later.stdout, rf"{server.destination} +1 +1 ")
        self.assertEqual(len(self.segments()), 1)


class Ends(Observed):
    def test_the_exit_status_is_the_commands(self):
        self.assertEqual(self.observe("--", "sh", "-c", "exit 7").status, 7)
        self.assertEqual(self.observe("--", "nosuchprogram").status, 127)
        self.assertEqual(self.observe("--", "/etc/passwd").status, 126)
        self.assertEqual(self.observe().status, 125)
        self.assertEqual(self.observe("--no-such-option", "true").status, 125)
        self.assertEqual(self.observe("-p", "a", "true").status, 125)
        self.assertEqual(self.segments(), [])

    def test_a_signal_is_handed_on_and_what_was_seen_is_still_told(self):
        silent = self.server(stay_silent)
        with open(self.path("err"), "wb") as err:
            process = self.sandbox.popen([SOCKFUSE, "observe", "--", "curl", "-s", silent.url], how="command",
                                         stderr=err)
        self.assertTrue(eventually(lambda: [call for call in json.loads(
            self.sandbox.sockfuse("calls", "--json").stdout) if call["waited_ms"] >= 1000], 30, 0.1))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), -signal.SIGTERM)
        with open(self.path("err"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("was killed by signal 15", text)
        self.assertRegex(text, rf"UNENDED[^\n]*\n{silent.destination} +1 +0 +1 ")
        self.assertRegex(text, r"curl on [^\n]*: never seen to; had waited [12]\S+ when it was killed\n")
        self.assertEqual(self.segments(), [])

    def test_what_can_not_be_read_or_is_not_there_is_said(self):
        result = self.observe("-p", "/nowhere/misspelt.policy")
        self.assertEqual((result.status, result.stdout), (1, ""))
        self.assertIn("misspelt.policy", result.stderr)
        with open(self.sandbox.state, "w", encoding="ascii") as file:
            file.write("no folder")
        result = self.observe("-p", "/nowhere/misspelt.policy")
        self.assertEqual(result.status, 1)
        result = self.observe("--", "sh", "-c", "exit 3")
        self.assertEqual(result.status, 3)
        self.assertIn("nothing was seen of sh", result.stderr)


class Suggestions(Observed):
    stands = True

    def test_what_was_seen_becomes_a_policy_that_check_takes_and_run_works_with(self):
        server, silent, path = self.server(), self.server(stay_silent), self.path("made.policy")
        result = self.observe("--suggest", path, "--", *self.python(
            CALLER, f"http://localhost:{server.port}/*120", f"{silent.url}@0.1*3"))
        self.assertEqual(result.status, 0, result)
        with open(path, encoding="utf-8") as file:
            made = file.read()
        sections = dict(zip(*[iter(re.split(r"(?m)^\[(.*)\]$", made)[1:])] * 2))
        self.assertEqual(len(sections), 2, made)
        called = sections[f"localhost:{server.port}"]
        self.assertRegex(called, r"(?m)^connect_timeout = \d+m?s +# the longest of 120 took ")
        self.assertRegex(called, r"(?m)^response_timeout = \d+m?s +# 99 of 100 answers took ")
        self.assertRegex(called, r"(?m)^#failure_threshold = 5 +# left: no call failed$")
        hung = next(text for name, text in sections.items() if name.endswith(f":{silent.port}"))
        self.assertRegex(hung, r"(?m)^abandon_after = \d+ms +# python3\S* was seen to give up after \d+ms$")
        self.assertRegex(hung, r"(?m)^#connect_timeout = 10s +# left: 3 connections were seen, 20 are wanted$")
        for line in made.splitlines():
            self.assertTrue(not line or line.startswith(("#", "[")) or " # " in line, line)
        checked = self.sandbox.sockfuse("check", path)
        self.assertEqual((checked.status, checked.stderr), (0, ""))
        ran = self.sandbox.sockfuse("run", "-p", path, "--", *self.python(CALLER, f"http://localhost:{server.port}/"))
        self.assertEqual((ran.status, ran.stderr), (0, ""))
        self.assertEqual(server.requests, 121)

        again = self.observe("--suggest", path, "--", "true")
        self.assertEqual(again.status, 125)
        self.assertIn("it is there already", again.stderr)
        self.assertIn("not written, for no call", self.observe("--suggest", path, "--force", "--", "true").stderr)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), made)
        # The same from circuits in use; the file that names them is the one that was made.
        other = self.path("other.policy")
        self.assertEqual(self.observe("-p", path, "--suggest", other).status, 0)
        self.assertEqual(self.sandbox.sockfuse("check", other).status, 0)

    def test_the_threshold_is_above_what_healed_by_itself(self):
        """Seven refusals in a row, and then an answer, within a second; and an outage without a call."""
        server = self.server()
        code = ("import sys, urllib.request, socket, threading\n"
                "port = int(sys.argv[1])\n"
                "def call():\n"
                "    try: urllib.request.urlopen(f'http://127.0.0.1:{port}/').read()\n"
                "    except OSError: pass\n"
                "for _ in range(7): call()\n"
                "listener = socket.socket(); listener.bind(('127.0.0.1', port)); listener.listen()\n"
                "def serve():\n"
                "    peer, _ = listener.accept(); peer.recv(4096)\n"
                "    peer.sendall(b'HTTP/1.0 204 No Content\\r\\n\\r\\n'); peer.close()\n"
                "thread = threading.Thread(target=serve); thread.start(); call(); thread.join()\n")
        port, path = server.port, self.path("made.policy")
        server.stop()
        self.observe("--suggest", path, "--", *self.python(code, str(port)))
        with open(path, encoding="utf-8") as file:
            self.assertRegex(file.read(), r"(?m)^failure_threshold = 9 +# a run of 7 failures healed within a second")


    def test_pauses_come_from_how_long_outages_lasted(self):
        server, path = self.server(), self.path("made.policy")
        code = ("import sys, urllib.request\n"
                "for line in sys.stdin:\n"
                "    try: urllib.request.urlopen(sys.argv[1]).read()\n"
                "    except OSError: pass\n"
                "    print(flush=True)\n")
        process = self.sandbox.popen([SOCKFUSE, "observe", "--suggest", path, "--", *self.python(code, server.url)],
                                     how="command", stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def call():
            process.stdin.write(b"\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), b"\n")

        for lasts in (4, 8, 4):
            server.down()
            for _ in range(3):
                call()
            self.sandbox.clock.advance_seconds(lasts)
            server.up()
            call()
        process.communicate(timeout=30)
        with open(path, encoding="utf-8") as file:
            made = file.read()
        self.assertRegex(made, r"(?m)^reset_timeout = 2s +# half of 3 outages lasted 4\.0s at most; ")
        self.assertRegex(made, r"(?m)^reset_timeout_max = 5s +# the longest lasted 8\.0s$")
        self.assertRegex(made, r"(?m)^failure_threshold = 3 +# an outage had no more than 3 failures; ")
        self.assertEqual(self.sandbox.sockfuse("check", path).status, 0)


class Programs(Observed):
    """That real programs give up. Their times begin before what is measured: how long that is, is not asked."""

    def given_up(self, server, *argv):
        circuits, _ = self.seen(*argv)
        return self.timeouts(next(one for name, one in circuits.items() if name.endswith(f":{server.port}")))

    def test_curl_by_its_longest_time(self):
        silent = self.server(stay_silent)
        one = self.given_up(silent, "curl", "-s", "-m", "1.2", silent.url)[("curl", "answer")]
        self.assertEqual(one["gave_up"]["count"], 1)
        self.assertEqual(one["kernel_gave_up"]["count"], 0)

    def test_node_by_a_signal_of_abortion(self):
        """Its time begins before the connection is made."""
        silent = self.server(stay_silent)
        one = self.given_up(silent, "node", "-e",
                            f"fetch('{silent.url}', {{signal: AbortSignal.timeout(900)}}).catch(() => {{}})")
        self.assertEqual(one[("node", "answer")]["gave_up"]["count"], 1)

    def test_psql_by_its_time_to_connect(self):
        silent = self.server(stay_silent)
        one = self.given_up(silent, "psql", "-w", f"host=127.0.0.1 port={silent.port} user=a dbname=a connect_timeout=2")
        self.assertEqual(one[("psql", "answer")]["gave_up"]["count"], 1)

    def test_a_program_without_a_limit_was_never_seen_to(self):
        slow = self.server(lambda server, sock, number: (sock.recv(65536), server.stopping.wait(1.3),
                                                         sock.sendall(b"HTTP/1.0 200 OK\r\n\r\n")))
        result = self.observe("--", "curl", "-s", slow.url)
        self.assertRegex(result.stderr, rf"curl on {slow.destination}, waiting for the answer: never seen to; has waited")

    def test_a_limit_that_is_enforced_is_not_the_programs(self):
        silent = self.server(stay_silent)
        self.sandbox.guard(silent, enforce_timeouts="yes", response_timeout="300ms")
        self.sandbox.run(self.python("import socket, sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
                                     "s.send(b'x')\ntry: s.recv(1)\nexcept OSError: pass\n", str(silent.port)))
        page = self.sandbox.sockfuse("status", silent.destination).stdout
        self.assertRegex(page, r"\n  Gives up +\S+, waiting for the answer: never seen to; enforce_timeouts ended once")
        one = self.sandbox.circuit(silent)["timeouts"][0]
        self.assertEqual((one["gave_up"], one["limit_enforced"]["count"]), (None, 1))


class ImpatientNginx(services.Nginx):
    def prepare(self):
        super().prepare()
        with open(os.path.join(self.folder, "conf"), encoding="utf-8") as file:
            conf = file.read()
        self.write("conf", conf.replace("proxy_next_upstream off;", "proxy_next_upstream off; proxy_read_timeout 500ms;"))


class PatientGunicorn(services.Gunicorn):
    limit = 2

    def prepare(self):
        super().prepare()
        with open(os.path.join(self.folder, "app.py"), encoding="utf-8") as file:
            app = file.read()
        self.write("app.py", app.replace(")) as redis:", f"), {self.limit}) as redis:"))


@unittest.skipUnless(os.geteuid() == 0, "such services are started by root")
class Inversions(Observed):
    def chain(self, gunicorn_class):
        redis = Redis()
        self.addCleanup(redis.stop)
        os.kill(redis.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, redis.process.pid, signal.SIGCONT)
        self.sandbox.policy(f"[gunicorn]\nmatch = unix:/*\n[redis]\nmatch = {redis.destination}\n[any]\nmatch = *:*\n")
        gunicorn = gunicorn_class(self, self.sandbox, redis.destination)
        nginx = ImpatientNginx(self, self.sandbox, gunicorn.address)
        for _ in range(2):
            self.assertEqual(nginx.ask(), "status 504")
        return redis, gunicorn

    def tree(self):
        result = self.sandbox.sockfuse("calls", "--tree", "--json")
        self.assertEqual(result.status, 0, result)
        return json.loads(result.stdout)["inversions"]

    def test_nginx_gives_up_on_gunicorn_which_waits_longer_for_a_redis_that_was_stopped(self):
        redis, gunicorn = self.chain(PatientGunicorn)
        self.assertTrue(eventually(lambda: [one for one in self.tree() if one["callee_gives_up"]], 30, 0.2))
        (one,) = self.tree()
        self.assertEqual((one["caller"], one["destination"], one["callee"], one["callee_waits_for"], one["times"]),
                         ("nginx", gunicorn.address, "gunicorn", redis.destination, 2))
        self.assertTrue(450 <= one["caller_gives_up_after_ms"] < 2000 <= one["callee_waits_ms"] + 50, one)
        told = (rf"\n  nginx gives up on {gunicorn.address} after \S+, gunicorn waits \S+ for {redis.destination}:\n    \S+ "
                r"of work for nobody; nginx gave up (2 times today, since|.*\b2 since \S+) \d\d:\d\d:\d\d\n")  # at midnight
        self.assertRegex(self.sandbox.sockfuse("calls", "--tree").stdout, told)
        for destination in (gunicorn.address, redis.destination):
            self.assertRegex(self.sandbox.sockfuse("status", destination).stdout, told)
        self.assertNotIn("inversions:", self.sandbox.sockfuse("status", "any").stdout)

    def test_a_callee_that_never_gives_up_waits_the_longest(self):
        redis, _ = self.chain(services.Gunicorn)
        self.assertTrue(eventually(lambda: self.tree(), 30, 0.2))
        (one,) = self.tree()
        self.assertFalse(one["callee_gives_up"])
        self.assertRegex(self.sandbox.sockfuse("calls", "--tree").stdout,
                         rf"gunicorn was never seen to give up on {redis.destination}, and waited \S+:\n    at least \S+ of work")


if __name__ == "__main__":
    unittest.main()
