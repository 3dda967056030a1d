"""The agent over HTTP: what the commands say, the journals as they flow, a live page; and who gets nothing."""
import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, Server, answer_http, eventually, stay_silent  # noqa: E402
from fixtures.browser import Browser  # noqa: E402
from fixtures.daemons import free_port  # noqa: E402
from test_agent import Agents  # noqa: E402

EVIL = "<img src=x onerror=window.evil=1>"
IDLE = 200
CROWD = 60


def curl(sandbox, *words):
    return sandbox.run(["curl", "-s", "-S", "--max-time", "50", *words], how="bare")


class Web(Agents):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"

    def web(self, *words, **more):
        agent = self.agent("--listen", f"127.0.0.1:{self.port}", *words, **more)
        self.assertIn(f"listens at 127.0.0.1:{self.port}", self.says())
        return agent

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=50)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def a_failure(self):
        """A call that is refused, and opens the circuit."""
        return self.sandbox.run(["curl", "-s", "http://127.0.0.1:1/"]).status

    def guard(self, **keys):
        self.sandbox.policy("[shop]\nmatch = 127.0.0.1:1\nfailure_threshold = 1\n" +
                            "".join(f"{key} = {value}\n" for key, value in keys.items()))


class Answers(Web):
    def test_each_is_what_the_command_says(self):
        self.guard()
        self.a_failure()
        self.web()
        metrics = self.get("/metrics")
        self.assertIn("openmetrics-text", metrics.headers["Content-Type"])
        text = metrics.read().decode()
        self.assertTrue(re.search(r'(?m)^sockfuse_transitions_total\{.*"shop".*to="open"\} 1$', text))
        self.assertTrue(text.endswith("# EOF\n"))
        status = json.load(self.get("/status.json"))
        said = json.loads(self.sandbox.sockfuse("status", "--json").stdout)
        self.assertEqual([(c["destination"], c["state"], c["counters"]) for c in status[0]["circuits"]],
                         [(c["destination"], c["state"], c["counters"]) for c in said[0]["circuits"]])
        self.assertEqual(json.load(self.get("/calls.json")), [])
        report = json.load(self.get("/report.json"))
        self.assertEqual([(one["target"], len(one["incidents"])) for one in report["circuits"]], [("shop", 1)])
        self.assertEqual(json.loads(self.sandbox.sockfuse("report", "--json").stdout)["format"], report["format"])
        self.assertEqual(self.get("/healthz").read(), b"ok: watches 1 policy\n")
        self.assertEqual(self.get("/passwd").status, 404)

    def test_a_crowd_shares_one_look(self):
        """Those who ask at once, and those who ask within a second: so many commands are executed as seconds go by."""
        self.guard()
        self.a_failure()
        path = os.path.join(self.sandbox.folder, "executed")
        self.web(before=("strace", "-f", "-qq", "-e", "trace=execve", "-o", path))
        begin = time.monotonic()
        at_once = [http.client.HTTPConnection("127.0.0.1", self.port, timeout=50) for _ in range(CROWD)]
        for connection in at_once:
            self.addCleanup(connection.close)
            connection.request("GET", "/status.json")
        answers = [connection.getresponse() for connection in at_once]
        for connection, answer in zip(at_once, answers):
            answer.read()
            connection.request("GET", "/status.json")
            answers.append(connection.getresponse())
            answers[-1].read()
        seconds = time.monotonic() - begin
        self.assertEqual({answer.status for answer in answers}, {200})
        with open(path, encoding="utf-8") as file:
            executed = file.read().count('"status", "--json"')
        self.assertGreater(executed, 0)
        self.assertLessEqual(executed, seconds + 2)

    def test_only_what_is_chosen_is_shown(self):
        self.use("-t", "127.0.0.1:2")
        self.guard()
        self.a_failure()
        self.web("-p", self.sandbox.policy_path)
        self.assertEqual([one["policy"] for one in json.load(self.get("/status.json"))], [self.sandbox.policy_path])
        result = self.sandbox.sockfuse("agent", "--listen", "127.0.0.1:1", "-p", "a", "-p", "b")
        self.assertEqual(result.status, 1)


class WhoGetsNothing(Web):
    def test_other_sites_pages_and_whoever_wants_to_change_something(self):
        self.web()
        for words, expected in (
                ([], "200"), (["-H", "Host: evil.example"], "421"), (["-H", "Origin: http://evil.example"], "403"),
                (["-H", "Sec-Fetch-Site: cross-site"], "403"), (["-X", "POST", "-d", "a=b"], "405"),
                (["-X", "DELETE"], "405"), (["-H", "Host: localhost"], "200"), (["-I"], "200")):
            result = curl(self.sandbox, "-D", "-", "-o", "/dev/null", *words, self.url + "healthz")
            self.assertEqual(result.stdout.split()[1], expected, (words, result))
            self.assertNotIn("access-control", result.stdout.lower())
            self.assertIn("X-Content-Type-Options: nosniff", result.stdout)

    def test_other_hosts_come_in_by_a_name_that_is_allowed_alone(self):
        result = self.sandbox.sockfuse("agent", "--listen", f"0.0.0.0:{self.port}")
        self.assertEqual(result.status, 1)
        self.assertIn("--allow NAME", result.stderr)
        self.agent("--listen", f"0.0.0.0:{self.port}", "--allow", "circuits.example.org")
        self.assertEqual(self.get("/healthz", Host="circuits.example.org").status, 200)
        self.assertEqual(self.get("/healthz", Host="other.example.org").status, 421)

    def test_a_place_that_is_taken_or_none_is_said(self):
        self.web()
        for place, why in ((f"127.0.0.1:{self.port}", "can't be listened at.*in use"), ("9464", "expected ADDRESS:PORT"),
                           ("unix:/no/folder/a", "can't be listened at")):
            result = self.sandbox.sockfuse("agent", "--listen", place)
            self.assertEqual(result.status, 1)
            self.assertRegex(result.stderr, why)


class Sockets(Web):
    def test_roots_agent_has_one_that_nobody_else_reaches(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        agent = self.agent()
        state = self.sandbox.environment()["SOCKFUSE_STATE"]
        path = os.path.join(state, "agent.socket")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(curl(self.sandbox, "--unix-socket", path, "http://localhost/healthz").status, 0)
        agent.send_signal(signal.SIGKILL)
        agent.wait(60)
        self.assertTrue(os.path.exists(path))
        agent = self.agent()  # what a dead one left is no obstacle
        self.assertEqual(curl(self.sandbox, "--unix-socket", path, "http://x/healthz").status, 0)
        self.assertEqual(self.ends(agent), 0)
        self.assertFalse(os.path.exists(path))
        self.assertEqual(self.ends(self.agent("--listen", "off")), 0)

    def test_a_file_of_somebody_elses_is_left_alone(self):
        path = os.path.join(self.sandbox.folder, "a.socket")
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious")
        self.assertEqual(self.sandbox.sockfuse("agent", "--listen", f"unix:{path}").status, 1)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        os.remove(path)
        agent = self.agent("--listen", f"unix:{path}", "-o", "listen_mode=0660")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o660)
        self.assertEqual(self.sandbox.sockfuse("agent", "--listen", f"unix:{path}").status, 1)
        self.assertEqual(curl(self.sandbox, "--unix-socket", path, "http://x/healthz").status, 0)
        os.remove(path)  # somebody else's from now on
        with open(path, "w", encoding="utf-8") as file:
            file.write("precious")
        self.assertEqual(self.ends(agent), 0)
        self.assertTrue(os.path.exists(path))

    @unittest.skipUnless(os.geteuid() == 0, "becoming another user needs root")
    def test_roots_agent_answers_nowhere_by_the_word_of_a_file_that_others_can_write(self):
        path = os.path.join(self.sandbox.folder, "a.socket")
        self.sandbox.policy(f"[agent]\nlisten = unix:{path}\nlisten_mode = 0666\nallow = evil.example\n")
        for owner, mode in ((65534, 0o644), (0, 0o666), (0, 0o664)):
            os.chown(self.sandbox.policy_path, owner, 0)
            os.chmod(self.sandbox.policy_path, mode)
            agent = self.agent("-c", self.sandbox.policy_path)
            self.assertIn("`listen`, `listen_mode` and `allow` are not obeyed", self.says())
            self.assertFalse(os.path.exists(path))
            self.assertEqual(self.ends(agent), 0)
            # Nor do they widen what its own command line opens.
            agent = self.agent("-c", self.sandbox.policy_path, "--listen", f"unix:{path}")
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            self.assertEqual(self.ends(agent), 0)

    def test_a_library_that_lacks_something_is_said_each_time(self):
        folder = os.path.join(self.sandbox.folder, "lacking")
        os.mkdir(folder)
        subprocess.run(["cc", "-shared", "-o", os.path.join(folder, "libmicrohttpd.so.12"), "-x", "c", "/dev/null"],
                       check=True)
        self.sandbox.policy("[agent]\nlisten = off\n")
        agent = self.agent("-c", self.sandbox.policy_path, env={"LD_LIBRARY_PATH": folder})
        for _ in range(2):
            before = self.says().count("has no MHD_start_daemon")
            self.sandbox.policy(f"[agent]\nlisten = 127.0.0.1:{free_port()}\n")
            agent.send_signal(signal.SIGHUP)
            self.assertTrue(eventually(lambda: self.says().count("has no MHD_start_daemon") > before, 60), self.says())
        self.assertEqual(self.ends(agent), 0)

    def test_a_reload_moves_it(self):
        other = free_port()
        self.sandbox.policy(f"[agent]\nlisten = 127.0.0.1:{self.port}\n")
        agent = self.agent("-c", self.sandbox.policy_path)
        self.assertEqual(self.get("/healthz").status, 200)
        self.assertIn(b"retry", self.get("/events").readline())  # who waits there is let go
        self.sandbox.policy(f"[agent]\nlisten = 127.0.0.1:{other}\n")
        agent.send_signal(signal.SIGHUP)
        self.assertTrue(eventually(lambda: f"listens at 127.0.0.1:{other}" in self.says(), 60), self.says())
        with self.assertRaises(OSError):
            self.get("/healthz")
        self.port = other
        self.assertEqual(self.get("/healthz").status, 200)

    def test_a_reload_to_a_place_that_is_taken_keeps_the_one_that_it_has(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.sandbox.policy(f"[agent]\nlisten = 127.0.0.1:{self.port}\n")
            agent = self.agent("-c", self.sandbox.policy_path)
            self.assertEqual(self.get("/healthz").status, 200)
            self.sandbox.policy(f"[agent]\nlisten = 127.0.0.1:{taken.getsockname()[1]}\n")
            agent.send_signal(signal.SIGHUP)
            here = f"listens at 127.0.0.1:{self.port}"
            self.assertTrue(eventually(lambda: self.says().count(here) == 2, 60), self.says())
            self.assertRegex(self.says(), "in use\n.*goes on listening where it did")
            self.assertEqual(self.get("/healthz").status, 200)


class Streams(Web):
    def events(self, last=None):
        return self.get("/events", **({"Last-Event-ID": last} if last else {}))

    def next(self, stream, name="message"):
        """The next event of that name: its id and data."""
        event = {"event": "message"}
        for line in iter(stream.readline, b""):
            key, _, value = line.decode().rstrip("\n").partition(": ")
            event[key] = value
            if line == b"\n":
                if event.get("data") and event["event"] == name:
                    return event.get("id"), json.loads(event["data"])
                event = {"event": "message"}
        raise AssertionError("the stream ended")

    def test_what_happens_flows_and_who_was_cut_off_goes_on(self):
        self.guard(reset_timeout="1h")
        self.use("-p", self.sandbox.policy_path)
        agent = self.web("-o", "look_every=20ms")
        self.assertTrue(eventually(lambda: self.get("/healthz").read() == b"ok: watches 1 policy\n", 60))
        stream = self.events()
        begun = re.search(r"(?m)^id: (\S+)$", b"".join(iter(stream.readline, b"\n")).decode()).group(1)
        self.a_failure()
        first, event = self.next(stream)
        self.assertEqual((event["event"], event["target"], event["policy"]),
                         ("failure", "shop", self.sandbox.policy_path))
        _, opened = self.next(stream)
        self.assertEqual(opened["event"], "open")
        journal = [json.loads(line) for line in self.sandbox.sockfuse("events", "--json").stdout.splitlines()]
        self.assertIn(event, journal)
        self.assertEqual(self.next(self.events(last=first)), self.next(self.events(last=first)))
        self.assertEqual(self.next(self.events(last=first))[1], opened)
        self.assertEqual(self.next(self.events(last=begun)), (first, event))  # cut off before anything had happened
        self.next(self.events(last="0-0"), "restarted")
        self.assertEqual(self.ends(agent), 0)
        self.assertEqual(stream.read(), b"")


class Pressed(Web):
    def test_idle_slow_and_mad_clients_keep_nobody_from_an_answer(self):
        server = Server(stay_silent)
        self.addCleanup(server.stop)
        self.sandbox.guard(server, failure_threshold=1, response_timeout="1s")
        caller = self.sandbox.popen(["curl", "-s", "--max-time", "600", server.url])
        agent = self.web("-o", "look_every=20ms")
        sockets = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(IDLE)]
        for number, one in enumerate(sockets):
            self.addCleanup(one.close)
            if number % 4 == 1:
                one.sendall(b"GET /rep")
            elif number % 4 == 2:
                one.sendall(b"GET /report.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)  # and reads nothing
            elif number % 4 == 3:
                one.sendall(os.urandom(300) + b"\r\n\r\n")
        huge = socket.create_connection(("127.0.0.1", self.port))
        self.addCleanup(huge.close)
        huge.settimeout(50)
        try:
            huge.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n")
            self.assertNotIn(b" 200 ", huge.recv(100))
        except OSError:
            pass  # it was cut off before it had said all
        self.assertEqual(self.get("/healthz").status, 200)
        self.assertEqual(json.load(self.get("/status.json"))[0]["circuits"][0]["in_flight"], 1)
        self.sandbox.clock.advance_seconds(5)  # and it sweeps as ever
        self.assertTrue(eventually(lambda: self.sandbox.circuit(server)["state"] == "open", 60))
        with open(f"/proc/{agent.pid}/status", encoding="ascii") as file:
            self.assertLess(int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)), 80 * 1024)
        self.assertIsNone(agent.poll())
        caller.kill()

    def say(self, text):
        """A connection on which that was said."""
        one = socket.create_connection(("127.0.0.1", self.port), timeout=50)
        self.addCleanup(one.close)
        one.sendall(text)
        return one

    def hear(self, one):
        """All that comes until the other side ends it."""
        return b"".join(iter(lambda: one.recv(65536), b""))

    def test_who_never_finishes_asking_loses_his_place_and_who_follows_the_journals_keeps_it(self):
        self.web()
        slow = self.say(b"GET /healthz HTTP/1.1\r\n")
        follower = self.say(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn(b" 200 ", follower.recv(4096))
        self.assertEqual(self.get("/healthz").status, 200)  # so the slow one was accepted before
        slow.setblocking(False)
        follower.setblocking(False)
        self.sandbox.clock.advance_seconds(300)

        def is_ended(one):
            """Also for one that says a byte now and then."""
            try:
                return (one is slow and one.send(b"a") == 0) or one.recv(4096) == b""
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                return True
        self.assertTrue(eventually(lambda: is_ended(slow), 60))
        self.assertFalse(is_ended(follower))
        self.assertEqual(self.get("/healthz").status, 200)

    def test_one_connection_serves_for_many_questions_also_if_they_come_at_once(self):
        self.web()
        question = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
        for path in b"healthz", b"metrics":
            asked = question % (path, b"") * 49 + question % (path, b"Connection: close\r\n")
            self.assertEqual(self.hear(self.say(asked)).count(b"HTTP/1.1 200 "), 50, path)

    def test_head_has_no_body_and_a_body_that_nobody_wants_is_not_waited_for(self):
        self.web()
        for path in b"events", b"healthz", b"metrics", b"no":
            answer = self.hear(self.say(b"HEAD /%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path))
            self.assertTrue(answer.endswith(b"\r\n\r\n") and answer.count(b"\r\n\r\n") == 1, answer)
        mad = self.say(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 999)
        try:
            self.assertNotIn(b" 200 ", self.hear(mad))
        except ConnectionResetError:
            pass


class Page(Web):
    def test_it_is_live_in_a_browser(self):
        if not (BUILD / "report.html").exists():
            raise RuntimeError("'make page' makes the page (scripts/setup test)")
        server = Server(answer_http)
        self.addCleanup(server.stop)
        self.sandbox.policy(f"[{EVIL}]\nmatch = 127.0.0.1:1\nfailure_threshold = 1\nreset_timeout = 1h\n")
        self.use("-p", self.sandbox.policy_path)
        agent = self.web("-o", "look_every=20ms")
        browser = Browser(self)
        browser.look(1280)
        browser.open(self.url)
        browser.wait_for("return document.querySelector('.live-state')?.textContent.startsWith('Live')")
        self.assertFalse(browser.run("return document.body.innerText.includes('opened:')"))
        self.a_failure()
        # Without being loaded anew: in the journal, among the circuits, in the report.
        browser.wait_for("return document.querySelector('.journal').innerText.includes('opened: failures in a row')")
        browser.wait_for("return document.querySelector('.live .badge')?.textContent.startsWith('open')")
        browser.wait_for("return document.querySelector('.tiles')?.innerText.includes('1 not over')")
        self.assertTrue(browser.run("return document.querySelector('.journal').innerText.includes(arguments[0])", EVIL))
        # How many calls a second there are goes by when they were counted: the same document tells nothing new.
        browser.run("""
          const ask = window.fetch;
          let looks = 0;
          window.fetch = async (...words) => {
            const report = JSON.parse(await (await ask(...words)).text());
            looks += 1;
            report.made = new Date(Date.parse('2030-01-01T00:00:00Z') + Math.floor(looks / 2) * 1000).toISOString();
            for (const policy of report.status) for (const circuit of policy.circuits) {
              circuit.counters.admitted = 100 * Math.floor(looks / 2);
              circuit.counters.refused = circuit.counters.failed = 0;
            }
            window.looks = looks;
            return new Response(JSON.stringify(report));
          };""")
        browser.wait_for("return window.looks >= 6")
        rates = "return document.querySelectorAll('.live td.number')[0].textContent"
        browser.wait_for(rates + " === '100'")
        self.assertEqual({browser.run(rates) for _ in range(3)}, {"100"})
        browser.open(self.url)
        browser.wait_for("return document.querySelector('details.circuit details.table') !== null")
        # What the reader has unfolded stays so.
        browser.run("document.querySelector('details.circuit details.table').open = true; window.same = true;")
        browser.wait_for("const made = document.getElementById('range').innerText;"
                         "window.first ??= made; return window.first !== made")
        self.assertTrue(browser.run("return document.querySelector('details.circuit details.table').open && window.same"))
        # The agent goes, which is said, and comes again.
        self.assertEqual(self.ends(agent), 0)
        browser.wait_for("return document.querySelector('.live-state.lost')?.textContent.includes('does not answer')")
        agent = self.web("-o", "look_every=20ms")
        browser.wait_for("return document.querySelector('.live-state').textContent.startsWith('Live')")
        browser.wait_for("return document.querySelector('.journal').innerText.includes('started anew')")
        self.assertIsNone(browser.run("return window.evil ?? null"))
        browser.look(400, theme="dark")
        self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 400)
        complaints = [line for line in browser.log() if "ERR_CONNECTION_REFUSED" not in line["message"]
                      and "ERR_INCOMPLETE_CHUNKED" not in line["message"] and "ERR_CONNECTION_RESET" not in line["message"]]
        self.assertEqual(complaints, [])


if __name__ == "__main__":
    unittest.main()
