"""`sockfuse report`: what real programs went through, as a page that a real browser draws, and as a trace."""
import datetime
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, ROOT, SOCKFUSE, Sandbox, Server, answer_http, answer_status, asleep,  # noqa: E402
                      eventually, flapping, stay_silent)
from fixtures.browser import Browser  # noqa: E402
from fixtures.daemons import free_port  # noqa: E402

PAGE = BUILD / "report.html"
# Asks another one for each request, and waits for it longer than its own callers wait.
MIDDLE = """#!/usr/bin/python3
import http.server, sys, urllib.request
class Middle(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try:
            urllib.request.urlopen(sys.argv[2], timeout=1.2).read()
        except OSError:
            pass
    def log_message(self, *words):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Middle).serve_forever()
"""
EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>\u202e\x1b[31m&amp;"
# How a colour in the middle of a canvas is told from an empty one.
DRAWN = """
  const canvas = arguments[0].querySelector('canvas');
  if (!canvas || canvas.width === 0) return 0;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] > 200) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size;"""


def document_in(path):
    """The data that stand in a page."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r'(?s)<script type="application/json" id="report-data">(.*?)</script>', text)
    assert len(found) == 1, len(found)
    return json.loads(found[0])


def failing_calls(circuit, document):
    return sum(document["outcomes"][outcome]["verdict"] == "failure" for outcome in circuit["calls"]["outcome"])


class Reports(unittest.TestCase):
    def setUp(self):
        if not PAGE.exists():
            raise RuntimeError(f"{PAGE} is missing: 'make page' makes it, with nodejs and npm (scripts/setup test)")
        self.sandbox = Sandbox(self, clock=True)
        self.page = os.path.join(self.sandbox.folder, "report.html")

    def report(self, *words, status=0):
        result = self.sandbox.sockfuse("report", *words)
        self.assertEqual(result.status, status, result)
        return result

    def server(self, behaviour=answer_http):
        server = Server(behaviour)
        self.addCleanup(server.stop)
        return server

    def curl(self, server, seconds="0.6"):
        return self.sandbox.run(["curl", "-s", "-S", "--max-time", seconds, server.url]).status

    def an_outage(self):
        """Three good calls, three that hang and open it, four refused; a probe fails, one refused; it heals."""
        server = self.server(flapping(*[answer_http] * 3, *[stay_silent] * 4, answer_http))
        healthy = self.server(answer_status("404 Not Found"))
        self.sandbox.guard(server, healthy, failure_threshold=3, reset_timeout="10s", abandon_after="50ms",
                           record="all")
        self.assertEqual([self.curl(server, "20") for _ in range(3)], [0] * 3)
        self.assertEqual(self.curl(healthy, "20"), 0)
        self.assertEqual([self.curl(server) for _ in range(3)], [28] * 3)
        self.assertEqual([self.curl(server) for _ in range(4)], [7] * 4)
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual([self.curl(server), self.curl(server)], [28, 7])
        self.sandbox.clock.advance_seconds(20)
        self.assertEqual(self.curl(server, "20"), 0)
        return server, healthy

    def events_file(self, lines, name="events.json"):
        path = os.path.join(self.sandbox.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        return path

    def saved_events(self):
        path = os.path.join(self.sandbox.folder, "saved.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.sandbox.sockfuse("events", "--json").stdout)
        return path


def an_event(at_ms, what="failure", **members):
    """One that hangs together, so many milliseconds after nine o'clock."""
    hours, rest = divmod(at_ms, 3600000)
    event = {"time": f"2026-11-30T{9 + hours:02}:{rest // 60000:02}:{rest % 60000 // 1000:02}.{rest % 1000:03}Z",
             "mono_ns": (1000 + at_ms) * 1000000, "pid": 7, "program": "worker", "target": "t",
             "destination": "10.0.0.1:80", "event": what, "policy": "/etc/web.policy", "owner": "www-data"}
    if what == "failure":
        event.update(kind="response-timeout", errno=None, elapsed_ms=500, overdue=False, came=False, late=False)
    event.update(members)
    return event


class Document(Reports):
    """What the page is given."""

    def test_its_status_is_that_of_status_json_and_its_calls_are_those_of_the_journal(self):
        server, healthy = self.an_outage()
        self.report("-o", self.page)
        document = document_in(self.page)
        self.assertEqual(document["status"], self.sandbox.status())
        seen = datetime.datetime.fromisoformat(document["status"][0]["last_seen"].replace("Z", "+00:00"))
        last = datetime.datetime.fromisoformat(self.sandbox.events()[-1]["time"].replace("Z", "+00:00"))
        self.assertEqual(document["to_ms"], round(max(seen, last).timestamp() * 1000), "it ends with the last program")
        for one in (server, healthy):
            (circuit,) = [circuit for circuit in document["circuits"] if circuit["destination"] == one.destination]
            counters = self.sandbox.counters(one)
            self.assertEqual(len(circuit["calls"]["end"]), counters["admitted"])
            self.assertEqual(failing_calls(circuit, document), counters["failed"])

    def test_an_incidents_figures_are_those_of_its_events(self):
        server, _ = self.an_outage()
        self.report("-o", self.page)
        (circuit,) = [one for one in document_in(self.page)["circuits"] if one["destination"] == server.destination]
        (incident,) = circuit["incidents"]
        failures = [event for event in self.sandbox.events() if event["event"] == "failure"]
        self.assertEqual(len(failures), 4)
        expected = {"reason": "failure-threshold", "counted": 3, "leaked": 0, "probes": 2, "probes_failed": 1,
                    "refused": 5}
        self.assertEqual({name: incident[name] for name in expected}, expected)
        self.assertEqual(incident["refused"], self.sandbox.counters(server)["refused"])
        self.assertEqual(incident["waited_ms"], sum(failure["elapsed_ms"] for failure in failures))
        self.assertEqual(incident["kinds"], [{"name": "response-timeout", "calls": 4}])
        self.assertEqual({process["program"] for process in incident["processes"]}, {"curl"})
        self.assertEqual(sum(process["waited_ms"] for process in incident["processes"]), incident["waited_ms"])
        self.assertGreaterEqual(incident["detect_ms"], 50, "the wait of the first, by a clock that stands")
        self.assertEqual([state["state"] for state in circuit["states"]],
                         ["closed", "open", "half-open", "open", "half-open", "closed"])
        self.assertEqual([probe["result"] for probe in circuit["probes"]], ["failure", "success"])
        self.assertEqual(sum(refusal["calls"] for refusal in circuit["refusals"]), 5)

    def test_its_latencies_are_those_that_status_has_percentiles_of(self):
        server, healthy = self.an_outage()
        self.report("-o", self.page)
        for one in (server, healthy):
            (latency,) = [latency for latency in document_in(self.page)["latencies"]
                          if latency["destination"] == one.destination]
            known = self.sandbox.circuit(one)["latency"]
            for name in ("connect", "first_byte"):
                columns = latency[name]
                self.assertEqual(sum(columns["calls"]), known[name]["count"])
                self.assertEqual(columns["from_ns"], sorted(columns["from_ns"]))
                self.assertTrue(all(begin < end for begin, end in zip(columns["from_ns"], columns["to_ns"])))
                half = next(i for i in range(len(columns["calls"]))
                            if 2 * sum(columns["calls"][:i + 1]) >= known[name]["count"])
                self.assertTrue(columns["from_ns"][half] <= known[name]["p50_us"] * 1000 + 999)
                self.assertTrue(known[name]["p50_us"] * 1000 <= columns["to_ns"][half])

    def test_files_of_events_tell_the_same_as_the_journal(self):
        self.an_outage()
        self.report("-o", self.page)
        live = document_in(self.page)
        saved = self.saved_events()
        self.report("-o", self.page, saved, saved)
        filed = document_in(self.page)
        self.assertEqual(filed["files"], [saved, saved])
        self.assertNotIn("status", filed)
        self.assertEqual([circuit["incidents"] for circuit in filed["circuits"]],
                         [circuit["incidents"] for circuit in live["circuits"]], "told twice is told once")
        self.assertEqual(filed["calls_told"], live["calls_told"])
        with open(saved, "rb") as file:
            result = self.sandbox.run([SOCKFUSE, "report", "-"], "command", stdin=file.read())
        self.assertEqual(result.status, 0, result.stderr)
        self.assertIn('"calls_told": ' + str(live["calls_told"]), result.stdout)

    def test_since_leaves_out_what_was_before(self):
        path = self.events_file([an_event(1000), an_event(3000), an_event(5000)])
        for second, told in (("00", 3), ("02", 2), ("06", 0)):
            self.report("-o", self.page, "--since", f"2026-11-30T09:00:{second}Z", path)
            self.assertEqual(document_in(self.page)["calls_told"], told)
        result = self.report("-o", self.page, "--since", "yesterday", path, status=2)
        self.assertIn("--since yesterday: ", result.stderr)

    def test_what_is_no_event_is_said_and_left_out(self):
        path = self.events_file([an_event(1000), "curl: (7) Failed\n", "\n", {**an_event(2000), "event": "comet"},
                                 an_event(3000)])
        result = self.report("-o", self.page, path)
        self.assertEqual(result.stderr, f"sockfuse: {path}: 1 event of a newer sockfuse, left out\n"
                                        f"sockfuse: {path}:2: no event; 1 such line is left out\n")
        self.assertEqual(document_in(self.page)["calls_told"], 2)
        lines = self.events_file([*["2026-02-03T04:05:06.789Z  probe  127.0.0.1:1\n"] * 3], "lines")
        self.assertIn(f"{lines}:1: no event; a file as 'sockfuse events --json' writes it is expected",
                      self.report("-o", self.page, lines, status=1).stderr)
        os.unlink(self.page)
        self.assertIn("No such file", self.report("-o", self.page, path, "/nowhere", status=1).stderr)
        self.assertFalse(os.path.exists(self.page), "a name that is mistyped")

    def test_without_a_policy_in_use_it_says_so(self):
        result = self.report("-o", self.page)
        self.assertNotEqual(result.stderr, "")
        self.assertEqual(document_in(self.page)["circuits"], [])

    def test_a_page_that_cannot_be_written_whole_leaves_what_was_there(self):
        path = self.events_file([an_event(1000)])
        with open(self.page, "w", encoding="utf-8") as file:
            file.write("before")
        limited = self.sandbox.run(["sh", "-c", 'ulimit -f 1; trap "" XFSZ; exec "$@"', "sh",
                                    SOCKFUSE, "report", "-o", self.page, path], "command")
        self.assertEqual((limited.status, limited.stderr),
                         (1, f"sockfuse: {self.page} can't be written: File too large\n"))
        with open(self.page, encoding="utf-8") as file:
            self.assertEqual(file.read(), "before")
        self.assertEqual([name for name in os.listdir(self.sandbox.folder) if name.startswith("report.")],
                         ["report.html"])
        self.assertIn("can't be written", self.report("-o", "/nowhere/x.html", path, status=1).stderr)

    def test_options_that_contradict_each_other_are_told(self):
        path = self.events_file([an_event(1000)])
        for words in (("-p", "x.policy", path), ("--mine", path), ("-o", "x", "--trace", "x", path)):
            self.assertRegex(self.report(*words, status=2).stderr, "^sockfuse: report: ")


class InFlight(Reports):
    """Calls that wait while the report is made."""

    def hang(self, server):
        process = self.sandbox.popen(["curl", "-s", "--max-time", "100", server.url])
        self.assertTrue(eventually(lambda: server.requests == 1 and asleep(process), 60))
        return process

    def test_they_are_those_of_calls_json_in_the_page_and_in_the_trace(self):
        server = self.server(stay_silent)
        self.sandbox.guard(server, response_timeout="5s")
        process = self.hang(server)
        self.sandbox.clock.advance_seconds(7)
        trace = os.path.join(self.sandbox.folder, "trace.json")
        self.report("-o", self.page, "--trace", trace)
        document = document_in(self.page)
        (call,) = document["in_flight"]
        (listed,) = json.loads(self.sandbox.sockfuse("calls", "--json").stdout)
        self.assertEqual({**call, "since": ""}, {**listed, "since": ""})
        self.assertEqual([call[name] for name in ("pid", "waited_ms", "limit_ms", "overdue")],
                         [process.pid, 7000, 5000, True])
        self.assertEqual(document["calls_told"], 0, "it has not ended")
        tree = json.loads(self.sandbox.sockfuse("calls", "--tree", "--json").stdout)
        self.assertEqual(document["cascade"], tree)
        with open(trace, encoding="utf-8") as file:
            (drawn,) = [event for event in json.load(file)["traceEvents"] if event.get("cat") == "call"]
        self.assertEqual((drawn["pid"], drawn["dur"], drawn["args"]["outcome"]), (process.pid, 7000000, "in flight"))
        browser = Browser(self)
        browser.look(1400)
        browser.open(f"file://{self.page}")
        browser.wait_for("return document.documentElement.dataset.ready")
        shown = browser.run("return document.querySelector('section[aria-labelledby=waiting]').innerText")
        shown = shown.replace("\u202f", " ")
        for word in ("1 call, 1 overdue, the oldest for 7.0 s", f"curl[{process.pid}]", server.destination,
                     "for an answer", "5.0 s"):
            self.assertIn(word, shown)
        chain = browser.run("return document.querySelector('section[aria-labelledby=cascade]').innerText")
        chain = re.sub(r"\s+", " ", chain)
        for word in (f"Root: {server.destination}", "1 call of 1 program waits", "oldest 7.0 s", "root", "1 overdue"):
            self.assertIn(word, chain)
        self.assertEqual(browser.log(), [])


class Chains(Reports):
    """Who called whom in vain during an outage."""

    def setUp(self):
        super().setUp()
        self.sandbox = Sandbox(self)  # programs give up by the real clock

    def an_outage_of_two(self):
        """curl calls a program, which calls a server that is silent: both circuits open."""
        silent, port = self.server(stay_silent), free_port()
        self.sandbox.guard(f"127.0.0.1:{port}", silent, failure_threshold=2, abandon_after="50ms")
        program = os.path.join(self.sandbox.folder, "middle")
        with open(program, "w", encoding="ascii") as file:
            file.write(MIDDLE)
        os.chmod(program, 0o755)
        self.sandbox.popen([program, str(port), silent.url])
        self.assertTrue(eventually(lambda: self.can_connect(port), 60))
        for _ in range(2):
            self.sandbox.run(["curl", "-s", "--max-time", "0.2", f"http://127.0.0.1:{port}/"])
        self.assertTrue(eventually(lambda: self.sandbox.circuit(silent)["state"] == "open", 60))
        return f"127.0.0.1:{port}", silent

    @staticmethod
    def can_connect(port):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    def chain_of(self, document):
        (chain,) = document["chains"]
        tree = chain["cascade"]
        programs = {group["id"]: group["program"] for group in tree["groups"]}
        places = {place["id"]: place for place in tree["places"]}
        waits = {(programs[wait["group"]], places[wait["place"]]["destination"]): wait["calls"]
                 for wait in tree["waits"]}
        served = {place["destination"]: programs.get(place["served_by"]) for place in places.values()}
        return waits, served, tree["root"]

    def test_it_goes_from_who_called_to_the_root_over_the_programs_of_this_host(self):
        middle, silent = self.an_outage_of_two()
        self.report("-o", self.page)
        waits, served, root = self.chain_of(document_in(self.page))
        self.assertEqual(waits, {("curl", middle): 2, ("middle", silent.destination): 2})
        self.assertEqual(served[middle], "middle")
        self.assertIsNotNone(served[silent.destination], "this test's own process")
        self.assertEqual((root["destination"], root["calls"], root["programs"]), (silent.destination, 4, 2))
        browser = Browser(self)
        for width in (1400, 400):
            browser.look(width)
            browser.open(f"file://{self.page}")
            browser.wait_for("return document.documentElement.dataset.ready")
            shown = re.sub(r"\s+", " ", browser.run("return document.querySelector('.chain').innerText"))
            self.assertRegex(shown, rf"curl .*2 calls failed .*middle .*{middle} .*2 calls failed .*root .*"
                                    rf"{silent.destination} 2 × response-timeout")
            self.assertEqual(browser.run("return document.documentElement.scrollWidth"), width)
        self.assertEqual(browser.log(), [])

    def test_the_faults_of_a_rehearsal_are_nobodys_silence(self):
        _, silent = self.an_outage_of_two()
        healthy = self.server(answer_http)
        policy = os.path.join(self.sandbox.folder, "rehearsal.policy")
        with open(policy, "w", encoding="ascii") as file:
            file.write(f"[healthy]\nmatch = {healthy.destination}\nfailure_threshold = 2\ninject = http-503\n")
        for _ in range(9):
            self.sandbox.run([SOCKFUSE, "run", "-p", policy, "--", "curl", "-s", healthy.url], "command")
        self.report("-o", self.page)
        waits, _, root = self.chain_of(document_in(self.page))
        self.assertEqual(root["destination"], silent.destination)
        self.assertNotIn(healthy.destination, {destination for _, destination in waits})

    def test_where_a_caller_gives_up_sooner_than_whom_it_calls_that_is_said(self):
        middle, silent = self.an_outage_of_two()
        self.report("-o", self.page)
        browser = Browser(self)
        browser.look(1400)
        browser.open(f"file://{self.page}")
        browser.wait_for("return document.documentElement.dataset.ready")
        (said,) = browser.run("return [...document.querySelectorAll('.inversions li')].map((one) => one.innerText)")
        self.assertRegex(said.replace("\u202f", " "),
                         r"\Acurl gives up on middle after \S+ m?s, middle waits \S+ m?s for "
                         rf"{silent.destination}: \S+ m?s of work for nobody, 2 times\Z")
        tables = browser.run("""document.querySelectorAll('details').forEach((one) => { one.open = true; });
            return [...document.querySelectorAll('[data-figure=timeouts] tbody')].map((one) => one.innerText)""")
        self.assertEqual(len(tables), 2)
        for program, destination in ("curl", middle), ("middle", silent):
            (timeout,) = self.sandbox.circuit(destination)["timeouts"]
            self.assertEqual((timeout["program"], timeout["gave_up"]["count"]), (program, 2))
            self.assertTrue(any(re.match(rf"{program}\s+for an answer\s+after .*, 2 times", text) for text in tables))
        self.assertEqual(browser.log(), [])

    def test_of_files_no_program_is_known_to_serve_and_nothing_is_guessed(self):
        self.an_outage_of_two()
        self.report("-o", self.page)
        live, _, _ = self.chain_of(document_in(self.page))
        self.report("-o", self.page, self.saved_events())
        waits, served, _ = self.chain_of(document_in(self.page))
        self.assertEqual((waits, set(served.values())), (live, {None}))
        self.assertEqual({place["seen"] for place in document_in(self.page)["chains"][0]["cascade"]["places"]},
                         {"unknown"})


class Missing(Reports):
    """A build without the page."""

    def test_the_command_says_what_is_missing_and_how_to_get_it(self):
        folder = os.path.join(self.sandbox.folder, "bin")
        os.mkdir(folder)
        command = shutil.copy(SOCKFUSE, folder)
        path = self.events_file([an_event(1000)])
        result = self.sandbox.run([command, "report", "-o", self.page, path], "command")
        self.assertEqual(result.status, 1)
        for word in (folder, "Node.js", "npm", "make page"):
            self.assertIn(word, result.stderr)
        self.assertFalse(os.path.exists(self.page))
        trace = self.sandbox.run([command, "report", "--trace", "-", path], "command")
        self.assertEqual((trace.status, trace.stderr), (0, ""))
        json.loads(trace.stdout)

    def plan(self, path, build):
        """What make would do."""
        environment = {"PATH": path, "HOME": self.sandbox.home, "LC_ALL": "C.UTF-8"}
        return subprocess.run(["/usr/bin/make", "-n", "all", f"BUILD={build}", "V=1"], cwd=ROOT, env=environment,
                              check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout

    def test_without_node_or_without_the_packages_all_the_rest_is_built(self):
        build = os.path.join(self.sandbox.folder, "build")
        os.mkdir(build)
        os.symlink(BUILD / "page", os.path.join(build, "page"))
        tools = os.path.join(self.sandbox.folder, "tools")
        os.mkdir(tools)
        for name in ("cc", "grep", "sh", "find", "cmp", "printf", "mkdir", "cat"):
            os.symlink(shutil.which(name), os.path.join(tools, name))
        os.symlink(shutil.which("node"), os.path.join(self.sandbox.folder, "node"))
        self.assertIn("build.mjs", self.plan(f"{tools}:{self.sandbox.folder}", build), "or this test shows nothing")
        without_node = self.plan(tools, build)
        os.unlink(os.path.join(build, "page"))
        without_packages = self.plan(f"{tools}:{self.sandbox.folder}", build)
        for plan in (without_node, without_packages):
            self.assertNotIn("build.mjs", plan)
            self.assertIn(f"-o {build}/sockfuse", plan)

    def test_the_lock_file_names_no_address_and_every_package_by_its_sum(self):
        with open(ROOT / "src/report/package-lock.json", encoding="utf-8") as file:
            text = file.read()
        self.assertNotIn("://", text)
        packages = json.loads(text)["packages"]
        self.assertIn("node_modules/echarts", packages)
        self.assertEqual([name for name, package in packages.items() if name and "integrity" not in package], [])


class InABrowser(Reports):
    def setUp(self):
        super().setUp()
        self.browser = Browser(self)

    def show(self, *words, width=1400, theme="light"):
        self.report("-o", self.page, *words)
        self.look(width, theme)

    def look(self, width=1400, theme="light"):
        self.browser.look(width, theme=theme)
        self.browser.open(f"file://{self.page}")
        self.browser.wait_for("return document.documentElement.dataset.ready && "
                              "document.querySelector('.chart[data-drawn]')")

    def text(self, selector):
        return self.browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)",
                                selector)

    def assert_quiet(self):
        self.assertEqual(self.browser.log(), [])

    def test_its_figures_are_those_of_status_json(self):
        server, healthy = self.an_outage()
        self.show()
        for one in (server, healthy):
            counters = self.sandbox.counters(one)
            shown = self.browser.run("""
                const circuit = [...document.querySelectorAll('.circuit')]
                  .find((one) => one.innerText.includes(arguments[0]));
                circuit.open = true;
                return Object.fromEntries([...circuit.querySelectorAll('[data-counter]')].map((one) =>
                  [one.dataset.counter, Number(one.innerText.replace(/\\s/g, ''))]))""", one.destination)
            self.assertEqual(shown, {name: counters[name] for name in shown})
            self.assertEqual({name: count for name, count in counters.items() if count},
                             {name: count for name, count in shown.items() if count}, "and none is left out")
            (badge,) = [text for text in self.text(".circuit summary") if one.destination in text]
            self.assertIn(self.sandbox.circuit(one)["state"], badge)
            counts = self.browser.run("""
                const circuit = [...document.querySelectorAll('.circuit')]
                  .find((one) => one.innerText.includes(arguments[0]));
                return Object.fromEntries([...circuit.querySelectorAll('[data-histogram]')].map((one) =>
                  [one.dataset.histogram, one.querySelector('figcaption').innerText]))""", one.destination)
            ticks = self.browser.run("""
                return [...document.querySelectorAll('[data-histogram] .ticks')].map((axis) => axis.children.length)""")
            self.assertGreater(min(ticks), 1, "however narrow it is, a scale has numbers")
            latency = self.sandbox.circuit(one)["latency"]
            self.assertEqual(set(counts), {"connect", "first_byte"})
            for name, text in counts.items():
                self.assertRegex(text, rf" {latency[name]['count']} calls? · P50 ")
        self.assertEqual(self.text(".incident [data-figure=refused]"), ["5 calls"])
        self.assertEqual(self.text(".incident [data-figure=probes]"), ["2\n1 failed"])
        self.assert_quiet()

    def test_it_draws_in_both_themes_and_on_narrow_screens_without_a_complaint(self):
        self.an_outage()
        self.report("-o", self.page)
        backgrounds = set()
        for width in (1400, 400):
            for theme in ("light", "dark"):
                self.look(width, theme)
                boxes = self.browser.run("return document.querySelectorAll('.chart[data-drawn]').length")
                self.assertGreaterEqual(boxes, 1)
                for box in range(boxes):
                    self.assertGreater(self.browser.run(f"return (function () {{ {DRAWN} }})(document.querySelectorAll("
                                                        f"'.chart[data-drawn]')[{box}])"), 3, (width, theme, box))
                self.assertEqual(self.browser.run("return document.documentElement.scrollWidth"), width,
                                 "nothing sticks out")
                backgrounds.add((theme, self.browser.run("return getComputedStyle(document.body).backgroundColor")))
                self.assert_quiet()
        self.assertEqual(len(backgrounds), 2, backgrounds)

    def test_of_many_incidents_the_latest_are_unfolded(self):
        lines = []
        for at in range(0, 1000000, 100000):
            lines += [an_event(at + 1000), an_event(at + 2000, "open", **{"from": "closed", "to": "open"}, failures=1,
                                                    reason="failure-threshold", pause_ms=10000, refused=0),
                      an_event(at + 3000, "close", **{"from": "half-open", "to": "closed"}, refused=0,
                               reason="probe-succeeded")]
        self.show(self.events_file(lines))
        self.assertEqual(self.browser.run("return document.querySelectorAll('.incident').length"), 10)
        self.assertEqual(self.browser.run("return document.querySelectorAll('details.table .incident').length"), 5)
        self.assertIn("5 earlier incidents", self.text("details.table > summary"))
        self.assert_quiet()

    def test_the_switch_goes_over_what_the_system_prefers(self):
        self.show(self.events_file([an_event(1000)]), theme="dark")
        colour = "return getComputedStyle(document.body).backgroundColor"
        dark = self.browser.run(colour)
        self.browser.run("document.querySelector('input[value=light]').click()")
        light = self.browser.run(colour)
        self.assertNotEqual(light, dark)
        self.browser.look(1400, theme="light")
        self.browser.run("document.querySelector('input[value=dark]').click()")
        self.assertEqual(self.browser.run(colour), dark)
        self.browser.run("document.querySelector('input[value=auto]').click()")
        self.assertEqual(self.browser.run(colour), light)
        self.assert_quiet()

    def test_names_from_outside_are_text_and_nothing_else(self):
        names = {"program": EVIL, "target": EVIL, "destination": EVIL, "policy": EVIL, "owner": EVIL}
        path = self.events_file([an_event(1000, **names),
                                 an_event(2000, "open", **names, **{"from": "closed", "to": "open"}, failures=1,
                                          reason="failure-threshold", pause_ms=10000, refused=0),
                                 an_event(2500, **{**names, "destination": f"2{EVIL}"}),
                                 an_event(3000, "forced", **names, **{"from": "open", "to": "open"}, user=EVIL,
                                          forced="open", reason="forced")])
        self.show(path)
        self.browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        self.browser.wait_for("return document.querySelector('details.table tbody tr')")
        self.assertIsNone(self.browser.run("return window.evil ?? null"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('img[src]').length"), 0)
        seen = self.browser.run("return document.body.innerText")
        self.assertIn("</script><script>window.evil", self.text(".chain")[0])
        self.assertIn("</script><script>window.evil", seen)
        self.assertNotRegex(seen, "[\u202e\x1b]")
        self.assertIn("\\u202e", seen)
        with open(self.page, encoding="utf-8") as file:
            self.assertNotIn("<script>window", file.read())
        self.assert_quiet()

    def test_nothing_is_fetched_and_nothing_else_may_run(self):
        self.show(self.events_file([an_event(1000)]))
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').length"), 0)
        policy = self.browser.run("return document.querySelector('meta[http-equiv]').content")
        self.assertIn("default-src 'none'", policy)
        self.assertNotRegex(policy, r"https?:|\*|script-src[^;]*unsafe")
        with open(self.page, encoding="utf-8") as file:
            head, _, licences = file.read().partition('<pre id="licences"')
        self.assertNotRegex(head, r"(?i)<(script|link|img|iframe)[^>]*(src|href)=")
        for words in ("Apache License", "zrender", "Redistributions in binary form"):
            self.assertIn(words, licences)
        self.browser.run("const one = document.createElement('script'); one.textContent = 'window.evil = 1'; "
                         "document.body.append(one)")
        self.assertIsNone(self.browser.run("return window.evil ?? null"))
        self.assertIn("Content Security Policy", "".join(entry["message"] for entry in self.browser.log()))

    def test_the_keyboard_moves_and_zooms_all_charts(self):
        self.an_outage()
        self.show()
        window = "const bar = document.querySelector('.window'); return bar.hidden ? '' : bar.innerText"
        self.browser.run("document.querySelector('.chart').focus()")
        self.assertEqual(self.browser.run(window), "")
        seen = []
        for key in ("+", "+", "\ue014", "-"):
            self.browser.key(key)
            seen.append(self.browser.run(window))
        self.assertEqual(len(set(seen)), 4, seen)
        self.browser.key("\ue011")
        self.assertEqual(self.browser.run(window), "", "Home shows all")
        self.browser.run("document.querySelector('.incident button').click()")
        self.assertNotEqual(self.browser.run(window), "")
        self.assert_quiet()

    def test_what_lies_under_the_pointer_is_told(self):
        """All over a chart: of its states, failures, probes, waiting calls, refusals and latencies."""
        server, _ = self.an_outage()
        self.show(width=900)
        chart = (f"[...document.querySelectorAll('.circuit')].find((one) => one.innerText.includes("
                 f"'{server.destination}')).querySelector('.chart')")
        self.browser.run("document.querySelectorAll('.circuit').forEach((one) => { one.open = true; }); "
                         f"{chart}.scrollIntoView()")
        self.browser.wait_for(f"return {chart}.dataset.drawn")
        told = set(self.browser.run(f"""
            const chart = {chart}, canvas = chart.querySelector('canvas');
            const box = canvas.getBoundingClientRect(), told = new Set();
            for (let y = 5; y < box.height - 60; y += 5) {{
              for (let x = 130; x < box.width; x += 4) {{
                canvas.dispatchEvent(new MouseEvent('mousemove',
                  {{ bubbles: true, clientX: box.x + x, clientY: box.y + y }}));
                told.add([...chart.children].map((one) => one.innerText).join('').split('\\n')[0]);
              }}
            }}
            return [...told];"""))
        for words in ("closed", "open", "probe: failure", "response-timeout (failure)", "success"):
            self.assertIn(words, told)
        self.assertTrue(any("refused at once" in words for words in told), told)
        self.assertTrue(any(re.match(r"\d+ calls? waits?$", words) for words in told), told)
        self.assert_quiet()

    def test_all_charts_and_fields_have_a_name_that_says_what_they_show(self):
        server, _ = self.an_outage()
        self.show()
        charts = self.browser.run("return [...document.querySelectorAll('.chart')].map((one) => one.ariaLabel)")
        self.assertIn("1 incident", charts[0])
        self.assertIn("4 response-timeout", charts[1])
        self.assertIn(server.destination, charts[1])
        unnamed = self.browser.run("""
            const fields = [...document.querySelectorAll('button, input, a, [tabindex="0"], table')];
            return fields.filter((one) => !(one.innerText || one.labels?.[0]?.innerText || one.ariaLabel))
              .map((one) => one.outerHTML.slice(0, 200));""")
        self.assertEqual(unnamed, [])
        self.assertEqual(self.browser.run("return document.documentElement.lang"), "en")

    def test_it_prints_with_pictures_of_the_charts(self):
        self.an_outage()
        self.show(theme="dark")
        self.browser.run("dispatchEvent(new Event('beforeprint'))")
        pictures = "return [...document.querySelectorAll('img.print[src]')].map((one) => one.naturalWidth)"
        self.browser.wait_for(pictures + ".every((width) => width > 1000)")
        self.assertGreaterEqual(len(self.browser.run(pictures)), 2)
        self.browser.run("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(self.browser.run(pictures), [])
        self.assertTrue(self.browser.print().startswith(b"%PDF"))
        self.assert_quiet()

    def test_ten_thousand_events_are_all_drawn(self):
        lines = [an_event(i * 100, "outcome", verdict="success", kind=None, reason=None, errno=None, http_status=200,
                          elapsed_ms=i % 97, slow=False, overdue=False, came=False, late=False, pid=i % 16)
                 for i in range(9995)] + [an_event(999500 + i) for i in range(5)]
        self.show(self.events_file(lines))
        document = document_in(self.page)
        self.assertEqual((document["calls_told"], document["calls_drawn"]), (10000, 10000))
        self.browser.run("document.querySelectorAll('.chart')[1].scrollIntoView()")
        self.browser.wait_for("return document.querySelectorAll('.chart[data-drawn]').length === 2")
        self.browser.run("document.querySelectorAll('.chart')[1].focus()")
        for key in "+++-":
            self.browser.key(key)
        self.assert_quiet()


class Traces(Reports):
    def trace(self, *words):
        path = os.path.join(self.sandbox.folder, "trace.json")
        self.report("--trace", path, *words)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["traceEvents"]

    def test_it_has_every_call_every_state_and_the_incident(self):
        server, healthy = self.an_outage()
        events = self.trace()
        self.assertFalse(os.path.exists(self.page), "no page but with -o")
        calls = [event for event in events if event.get("cat", "").startswith("call")]
        self.assertEqual(len(calls), sum(self.sandbox.counters(one)["admitted"] for one in (server, healthy)))
        failed = [event for event in calls if "failure" in event["cat"]]
        self.assertEqual([event["args"]["outcome"] for event in failed], ["response-timeout"] * 4)
        self.assertTrue(all(event["dur"] >= 50000 for event in failed))
        states = {}
        for event in events:
            if event.get("cat") == "state":
                states.setdefault(event["tid"], []).append(event["name"])
        self.assertEqual(sorted(states.values(), key=len),
                         [["closed"], ["closed", "open", "half-open", "open", "half-open", "closed"]])
        (incident,) = [event for event in events if event.get("cat") == "incident"]
        self.assertEqual(incident["args"]["refused"], 5)
        names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(names, {"circuits", "curl"})

    def test_calls_that_overlap_lie_in_lanes_of_their_own(self):
        path = self.events_file([an_event(1000 + 10 * i, elapsed_ms=500, pid=i % 2) for i in range(20)])
        lanes = {}
        for event in self.trace(path):
            if event["ph"] == "X":
                lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
        self.assertGreater(len(lanes), 20)
        for spans in lanes.values():
            spans.sort()
            for (_, end), (start, _) in zip(spans, spans[1:]):
                self.assertLessEqual(end, start)

    def test_each_event_has_what_the_format_wants_of_its_kind(self):
        """As Chromium's Trace Event Format has it: what a reader does not know, or can't place, it drops in silence."""
        self.an_outage()
        for event in self.trace() + self.trace(self.events_file([an_event(1000), an_event(1000, target="other")])):
            self.assertIn(event["ph"], "XiCM", event)
            self.assertTrue(isinstance(event["name"], str) and event["name"], event)
            for name in ("pid", "tid"):
                self.assertTrue(isinstance(event[name], int) and 0 <= event[name] < 2 ** 31, event)
            wanted = {"X": {"ts", "dur", "cat", "args"}, "i": {"ts", "s", "cat", "args"}, "C": {"ts", "id", "args"},
                      "M": {"args"}}[event["ph"]]
            self.assertEqual(set(event) - {"ph", "pid", "tid", "name", "cname"}, wanted, event)
            for name in wanted & {"ts", "dur"}:
                self.assertTrue(isinstance(event[name], int) and event[name] >= 0, event)
            self.assertIn(event.get("s", "t"), "tpg")
            self.assertIn(event.get("cname", "good"), ("good", "bad", "terrible", "grey"))
            if event["ph"] == "C":
                self.assertTrue(all(isinstance(value, int) for value in event["args"].values()), event)
            if event["ph"] == "M":
                self.assertIn(event["name"], ("process_name", "thread_name", "process_sort_index"))

    def test_chromes_own_reader_finds_each_slice_where_it_belongs(self):
        """The one of its DevTools, which has no name for others: where another Chromium calls it otherwise, it is skipped."""
        self.an_outage()
        events = self.trace()
        browser = Browser(self)
        browser.open("devtools://devtools/bundled/devtools_app.html")
        known = browser.promise("const reader = await import('devtools://devtools/bundled/models/trace/trace.js');"
                                "return typeof reader.TraceModel.Model.createWithAllHandlers().parse;")
        if known != "function":
            self.skipTest(f"this Chromium's reader of traces is another one: {known[:200]}")
        read = browser.promise("""
            const {TraceModel} = await import('devtools://devtools/bundled/models/trace/trace.js');
            const model = TraceModel.Model.createWithAllHandlers(), slices = [], names = [];
            await model.parse(JSON.parse(arguments[0]), {isFreshRecording: false, metadata: {}});
            for (const [pid, process] of model.parsedTrace(0).data.Renderer.processes) {
                for (const [tid, thread] of process.threads) {
                    names.push([pid, tid, thread.name]);
                    for (const one of thread.entries) slices.push([pid, tid, one.name, one.ts, one.dur]);
                }
            }
            return [slices, names];""", json.dumps(events))
        self.assertIsInstance(read, list, read)
        mine = [[event[name] for name in ("pid", "tid", "name", "ts", "dur")] for event in events if event["ph"] == "X"]
        self.assertEqual(sorted(read[0]), sorted(mine))
        named = [[event["pid"], event["tid"], event["args"]["name"]] for event in events if event["name"] == "thread_name"]
        self.assertTrue(named)
        for one in named:
            self.assertIn(one, read[1])

    def test_two_circuits_of_one_destination_have_a_counter_each(self):
        path = self.events_file([an_event(1000), an_event(1000, target="other")])
        counts = {}
        for event in self.trace(path):
            if event["ph"] == "C":
                counts.setdefault((event["name"], event["id"]), []).append(event["args"]["calls"])
        self.assertEqual(list(counts.values()), [[1, 0], [1, 0]])

    def test_waiting_calls_are_counted_up_and_down_to_none(self):
        path = self.events_file([an_event(1000), an_event(1100), an_event(3000, elapsed_ms=0)])
        counts = [event["args"]["calls"] for event in self.trace(path) if event["ph"] == "C"]
        self.assertEqual(counts, [1, 2, 1, 0])

    def test_names_from_outside_stay_inside_their_strings(self):
        events = self.trace(self.events_file([an_event(1000, program=EVIL, target=EVIL, destination=EVIL)]))
        self.assertIn(EVIL[:31], [event["args"]["name"] for event in events if event["name"] == "process_name"][1])


if __name__ == "__main__":
    unittest.main()
