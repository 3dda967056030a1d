"""`sockfuse metrics`: what a real parser makes of it, and whether alerts and dashboard go by names that are there."""
import json
import math
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append("/usr/lib/python3/dist-packages")  # for another python3 than the system's
import yaml  # noqa: E402
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families as read_prometheus  # noqa: E402

from fixtures import (PYTHON, ROOT, SOCKFUSE, ParallelSuite, Sandbox, Server, answer_http, answer_status,  # noqa: E402
                      eventually, flapping, stay_silent)
from fixtures.storm import storm  # noqa: E402
from test_everybody import Users as SeveralUsers  # noqa: E402

load_tests = ParallelSuite.load(4)

ALERTS = ROOT / "src/metrics/alerts.yml"
DASHBOARD = ROOT / "src/metrics/grafana-dashboard.json"
PROMTOOL = shutil.which("promtool")
CIRCUIT_LABELS = {"user", "policy", "target", "destination"}
# For each kind of sample the labels that it has besides.
MORE_LABELS = {"sockfuse_circuit_state": {"state"}, "sockfuse_calls_total": {"outcome", "kind"},
               "sockfuse_refusals_total": {"reason"}, "sockfuse_transitions_total": {"to"},
               "sockfuse_probes_total": {"result"}}


# A second connection from the port of the first one to the same place, which the kernel can't tell from it.
TWICE = """import socket, sys
first, second = socket.socket(), socket.socket()
for made in first, second:
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", 0 if made is first else first.getsockname()[1]))
    print(made.connect_ex(("127.0.0.1", int(sys.argv[1]))))
"""


class Metrics:
    """What was written, by both parsers; no sample may stand in it twice."""

    def __init__(self, text, read=read_open):
        self.families = {family.name: family for family in read(text)}
        lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        assert len(lines) == len(set(lines)), [line for line in lines if lines.count(line) > 1]
        self.samples = [sample for family in self.families.values() for sample in family.samples]
        assert len(self.samples) == len(lines), (len(self.samples), len(lines))

    def all(self, name, **labels):
        return [sample for sample in self.samples if sample.name == name
                and labels.items() <= sample.labels.items()]

    def value(self, name, **labels):
        (sample,) = self.all(name, **labels)
        return sample.value

    def by(self, name, label, **labels):
        """What is not zero, by a label's value."""
        return {sample.labels[label]: sample.value for sample in self.all(name, **labels) if sample.value}


class Reading(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self, clock=True)

    def server(self, behaviour=answer_http):
        server = Server(behaviour)
        self.addCleanup(server.stop)
        return server

    def text(self, *words, status=0, **keywords):
        result = self.sandbox.sockfuse("metrics", *words, **keywords)
        self.assertEqual(result.status, status, result)
        return result.stdout

    def metrics(self, *words, status=0):
        return Metrics(self.text(*words, status=status))

    def curl(self, server, seconds="20"):
        return self.sandbox.run(["curl", "-s", "--max-time", seconds, server.url]).status


class Text(Reading):
    def test_its_figures_are_those_of_status_json(self):
        server = self.server(flapping(*[answer_http] * 4, answer_status("503 Unavailable"), stay_silent, answer_http))
        self.sandbox.guard(server, "127.0.0.9:1", failure_threshold=2, reset_timeout="10s", abandon_after="50ms",
                           http_failures="503")
        self.assertEqual([self.curl(server) for _ in range(5)], [0] * 5)
        self.assertEqual([self.curl(server, "0.5"), self.curl(server)], [28, 7])
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.curl(server), 0)
        metrics, (status,) = self.metrics(), self.sandbox.status()
        circuit = self.sandbox.circuit(server)
        counters, one = circuit["counters"], {"destination": server.destination}
        self.assertEqual(metrics.by("sockfuse_calls_total", "kind", outcome="failure", **one),
                         {"http-503": 1, "response-timeout": 1})
        self.assertEqual({outcome: sum(sample.value for sample in
                                       metrics.all("sockfuse_calls_total", outcome=outcome, **one))
                          for outcome in ("success", "failure", "neutral", "business", "late")},
                         {"success": counters["succeeded"], "failure": counters["failed"],
                          "neutral": counters["neutral"], "business": counters["business"], "late": counters["late"]})
        self.assertEqual(metrics.by("sockfuse_refusals_total", "reason", **one), {"open": 1})
        self.assertEqual(metrics.by("sockfuse_transitions_total", "to", **one),
                         {"open": 1, "half-open": 1, "closed": 1})
        self.assertEqual(metrics.by("sockfuse_probes_total", "result", **one), {"success": 1})
        self.assertEqual(metrics.by("sockfuse_circuit_state", "state", **one), {"closed": 1})
        self.assertEqual(metrics.value("sockfuse_first_byte_duration_seconds_count", **one),
                         circuit["latency"]["first_byte"]["count"])
        self.assertAlmostEqual(metrics.value("sockfuse_waiting_seconds_total", **one),
                               circuit["latency"]["waited_ms"] / 1000, delta=0.001)
        self.assertEqual({sample.labels["destination"] for sample in metrics.all("sockfuse_circuit_active")},
                         {circuit["destination"] for circuit in status["circuits"]})
        self.assertEqual(metrics.by("sockfuse_circuit_active", "destination"), {})
        for name, more in MORE_LABELS.items():
            for sample in metrics.all(name):
                self.assertEqual(set(sample.labels), CIRCUIT_LABELS | more, name)
        self.check_formats(metrics)

    def check_formats(self, metrics):
        """The older format has the same samples; and promtool finds no fault with it, where it is installed."""
        text = self.text("--format", "prometheus")
        self.assertEqual(sorted(Metrics(text, read_prometheus).samples, key=repr), sorted(metrics.samples, key=repr))
        for family in metrics.families.values():
            self.assertTrue(family.documentation, family)
            self.assertEqual(family.unit, "seconds" if family.name.endswith("_seconds") else "", family)
        self.assertEqual(metrics.value("sockfuse_build_info"), 1)
        if PROMTOOL:
            result = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True,
                                    timeout=60)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_all_targets_are_there_from_the_start(self):
        self.sandbox.policy("[a]\nmatch = 127.0.0.1:1 127.0.0.1:2\n[b]\nmatch = 10.0.0.0/8:*\nhttp_failures = 500-504\n"
                            "max_connections = 7\n")
        unused = self.metrics("-p", self.sandbox.policy_path)
        self.sandbox.run(["true"])
        for metrics in unused, self.metrics():
            states = metrics.all("sockfuse_circuit_state", state="closed")
            self.assertEqual({(sample.labels["target"], sample.labels["destination"]) for sample in states},
                             {("a", "127.0.0.1:1"), ("a", "127.0.0.1:2"), ("b", "")})
            self.assertEqual({sample.value for sample in states}, {1})
            self.assertEqual({sample.value for sample in metrics.all("sockfuse_connections_limit")}, {7})
            self.assertEqual([sample.labels["kind"] for sample in
                              metrics.all("sockfuse_calls_total", outcome="failure", target="b")],
                             ["connect-timeout", "response-timeout", "refused", "reset", "unreachable", "early-close",
                              "http-500", "http-501", "http-502", "http-503", "http-504"])
            ones = ("sockfuse_circuit_state", "sockfuse_connections_limit", "sockfuse_build_info")
            self.assertEqual([sample for sample in metrics.samples if sample.value and sample.name not in ones], [])

    def test_a_call_that_hangs(self):
        server = self.server(stay_silent)
        self.sandbox.guard(server, response_timeout="2s", failure_threshold=2)
        self.sandbox.popen(["curl", "-s", "--max-time", "100", server.url])
        self.assertTrue(eventually(lambda: server.requests == 1 and self.sandbox.circuit(server)["waiting"], 30))
        self.sandbox.clock.advance_seconds(9.7)
        metrics = self.metrics()
        for name, value in (("calls_in_flight", 1), ("calls_waiting", 1), ("calls_overdue", 1),
                            ("oldest_wait_seconds", 9.7), ("calls_waiting_most", 1), ("circuit_active", 1),
                            ("processes", 1), ("circuit_forced", 0)):
            self.assertAlmostEqual(metrics.value(f"sockfuse_{name}"), value, delta=0.05, msg=name)
        self.sandbox.sockfuse("open", server.destination)
        metrics = self.metrics()
        self.assertEqual(metrics.value("sockfuse_circuit_forced"), 1)
        self.assertEqual(metrics.by("sockfuse_circuit_state", "state"), {"open": 1})

    def test_faults_on_this_side_are_told_by_error(self):
        server = self.server(stay_silent)
        self.sandbox.guard(server)
        process = self.sandbox.popen([PYTHON, "-c", TWICE, str(server.port)])
        self.assertEqual(process.wait(60), 0)
        metrics = self.metrics()
        self.assertEqual(metrics.by("sockfuse_local_faults_total", "error"), {"EADDRNOTAVAIL": 1})
        self.assertEqual(metrics.by("sockfuse_calls_total", "kind", outcome="neutral")["local"], 1)

    def test_the_bounds_of_histograms_are_borders_of_what_was_counted(self):
        self.sandbox = Sandbox(self)
        server = self.server()
        self.sandbox.guard(server)
        for _ in range(5):
            self.curl(server)
        metrics = self.metrics()
        for name in "sockfuse_connect_duration_seconds", "sockfuse_first_byte_duration_seconds":
            buckets = [(float(sample.labels["le"]), sample.value) for sample in metrics.all(f"{name}_bucket")]
            self.assertEqual(buckets, sorted(buckets), name)
            self.assertEqual(buckets[-1], (math.inf, metrics.value(f"{name}_count")))
            self.assertEqual([count for _, count in buckets], sorted(count for _, count in buckets))
            for bound, _ in buckets[:-1]:
                nanoseconds = round(bound * 1e9)
                # 32 buckets for each octave: five binary places behind the first one.
                self.assertEqual(nanoseconds % (1 << (nanoseconds.bit_length() - 6)), 0, bound)
                nearest = min((step * 10 ** power for power in range(-4, 2) for step in (1, 2.5, 3, 5, 6)),
                              key=lambda wanted, bound=bound: abs(wanted - bound))
                self.assertAlmostEqual(bound / nearest, 1, delta=1 / 64)
        self.assertEqual(metrics.value("sockfuse_connect_duration_seconds_count"), 5)
        self.assertGreater(metrics.value("sockfuse_connect_duration_seconds_sum"), 0)

    def test_a_name_that_would_drive_a_terminal_or_end_a_label(self):
        name = 'a"b\\c\x1b[31m\xff'.encode("latin-1")
        self.sandbox.policy_path = os.path.join(os.fsencode(self.sandbox.folder), name + b"\n}.policy")
        with open(self.sandbox.policy_path, "wb") as file:
            file.write(b'[x"\\y]\nmatch = 127.0.0.1:1 unix:/tmp/"}\n')
        result = subprocess.run([SOCKFUSE, "metrics", "-p", self.sandbox.policy_path], capture_output=True, check=True,
                                env=self.sandbox.environment("command"), timeout=60)
        text = result.stdout.decode()
        self.assertEqual(re.findall(r"[^\n -~]", text), [])
        metrics = Metrics(text)
        (label,) = {sample.labels["policy"] for sample in metrics.all("sockfuse_circuit_active")}
        self.assertTrue(label.endswith('/a"b\\c\\x1b[31m\\xff\\x0a}.policy'), label)
        self.assertEqual({(sample.labels["target"], sample.labels["destination"])
                          for sample in metrics.all("sockfuse_circuit_active")},
                         {('x"\\y', "127.0.0.1:1"), ('x"\\y', 'unix:/tmp/"}')})

    def test_what_can_not_be_read_is_counted_and_the_rest_is_written(self):
        server = self.server()
        self.sandbox.guard(server)
        self.curl(server)
        self.assertEqual(self.metrics().value("sockfuse_unreadable"), 0)
        path = self.sandbox.segment_path()
        with open(path, "r+b") as file:
            file.write(b"damaged!")
        metrics = self.metrics(status=1)
        self.assertEqual((metrics.value("sockfuse_unreadable"), metrics.all("sockfuse_circuit_state")), (1, []))
        shutil.rmtree(self.sandbox.state)
        with open(self.sandbox.state, "w", encoding="ascii") as file:
            file.write("no folder")
        self.assertEqual(self.metrics(status=1).value("sockfuse_unreadable"), 1)

    def test_another_builds_circuits_are_said_to_be_missing(self):
        server = self.server(stay_silent)
        self.sandbox.guard(server)
        self.sandbox.popen(["curl", "-s", "--max-time", "100", server.url])
        self.assertTrue(eventually(lambda: server.requests == 1, 30))
        with open(self.sandbox.segment_path(), "r+b") as file:
            file.seek(8)
            file.write(struct.pack("<I", 1000))
        result = self.sandbox.sockfuse("metrics")
        self.assertIn("newer build", result.stderr)
        self.assertEqual((result.status, Metrics(result.stdout).value("sockfuse_unreadable")), (1, 1))

    def test_nothing_in_use(self):
        self.assertEqual([sample.name for sample in self.metrics().samples],
                         ["sockfuse_unreadable", "sockfuse_build_info"])
        result = self.sandbox.sockfuse("metrics", "-p", "/nowhere/x.policy")
        self.assertEqual((result.status, Metrics(result.stdout).value("sockfuse_unreadable")), (1, 1))
        for words in (["--format", "html"], ["a:1"], ["--formal"]):
            self.assertEqual(self.sandbox.sockfuse("metrics", *words).status, 2, words)


class File(Reading):
    def setUp(self):
        super().setUp()
        self.sandbox.policy("[127.0.0.1:1]\n")
        self.folder = os.path.join(self.sandbox.folder, "collected")
        os.mkdir(self.folder)
        self.path = os.path.join(self.folder, "sockfuse.prom")
        self.words = ("-p", self.sandbox.policy_path, "-o", self.path)

    def read(self, path=None):
        with open(path or self.path, encoding="utf-8") as file:
            return Metrics(file.read())

    def mode(self):
        return stat.S_IMODE(os.stat(self.path).st_mode)

    def test_it_is_replaced_whole_and_whoever_collects_it_may_read_it(self):
        self.sandbox.run([SOCKFUSE, "metrics", *self.words], "command", umask=0o077)
        self.assertEqual((self.mode(), os.listdir(self.folder)), (0o644, ["sockfuse.prom"]))
        with open(self.path, encoding="utf-8") as former:
            self.assertEqual(self.text(*self.words), "")
            self.assertNotEqual(os.fstat(former.fileno()).st_ino, os.stat(self.path).st_ino)
            self.assertIn("# EOF", former.read())
        os.chmod(self.path, 0o640)
        self.text(*self.words)
        self.assertEqual((self.mode(), os.listdir(self.folder)), (0o640, ["sockfuse.prom"]))
        self.assertEqual(len(self.read().all("sockfuse_circuit_active")), 1)

    def test_behind_a_link_the_file_itself_is_replaced(self):
        real = os.path.join(self.sandbox.folder, "real")
        os.symlink("../real", self.path)
        for _ in range(2):  # before there is a file, and after
            self.text(*self.words)
            self.assertTrue(os.path.islink(self.path))
            self.assertEqual(len(self.read(real).all("sockfuse_circuit_active")), 1)
        self.assertEqual(os.listdir(self.folder), ["sockfuse.prom"])

    def test_what_goes_wrong_leaves_what_was_there_and_nothing_else(self):
        self.text(*self.words)
        before = os.stat(self.path).st_ino
        result = self.sandbox.run(["prlimit", "--fsize=100", SOCKFUSE, "metrics", *self.words], "command")
        self.assertEqual((os.stat(self.path).st_ino, os.listdir(self.folder)), (before, ["sockfuse.prom"]))
        self.assertIn("can't be written: File too large", result.stderr)
        result = self.sandbox.sockfuse("metrics", "-p", self.sandbox.policy_path, "-o", "/proc/x.prom")
        self.assertEqual(result.status, 1)
        self.assertIn("x.prom can't be written: it is replaced by a new file, and none can be made in /proc/: ",
                      result.stderr)

    def test_a_pipe_is_written_as_it_stands(self):
        self.assertEqual(Metrics(self.text("-p", self.sandbox.policy_path, "-o", "/dev/stdout")).value(
            "sockfuse_build_info"), 1)


class Storm(Reading):
    def test_counters_never_go_back_while_64_processes_count(self):
        self.sandbox = Sandbox(self)
        server = self.server()
        self.sandbox.guard(server)
        storm(self, self.sandbox, server)
        self.assertTrue(eventually(lambda: self.metrics().all("sockfuse_processes") and
                                   self.metrics().value("sockfuse_processes") == 64, 60))
        former = {}
        for _ in range(10):
            for sample in self.metrics().samples:
                if not sample.name.endswith(("_total", "_bucket", "_count", "_sum")):
                    continue
                key = sample.name, tuple(sorted(sample.labels.items()))
                self.assertGreaterEqual(sample.value, former.get(key, 0), key)
                former[key] = sample.value
        self.assertGreater(max(former.values()), 100)


class Users(SeveralUsers):
    def test_root_sees_each_users_and_nothing_twice(self):
        one, other = self.user(), self.user()
        for uid in one, other:
            self.start(uid)
        (status,) = self.of(one)
        # A second file of the same circuits: a program of his could not use the first place.
        places = {"/dev/shm", "/tmp"} - {os.path.dirname(os.path.dirname(status["segment"]))}
        second = f"{places.pop()}/sockfuse-{one}"
        os.mkdir(second, 0o700)
        copy = shutil.copy2(status["segment"], second)
        for path in second, copy:
            os.chown(path, one, one)
        self.assertEqual(len(self.of(one)), 2)
        result = self.root("metrics")
        metrics = Metrics(result.stdout)
        for uid in one, other:
            for name in "sockfuse_circuit_active", "sockfuse_processes", "sockfuse_waiting_seconds_total":
                self.assertEqual(len(metrics.all(name, user=str(uid), policy=self.sandbox.policy_path)), 1, name)
        self.assertEqual({sample.labels["user"] for sample in Metrics(
            self.root("metrics", "--user", str(other)).stdout).all("sockfuse_processes")}, {str(other)})


def names_in(expression):
    return set(re.findall(r"\bsockfuse_\w+", expression))


class Shipped(Reading):
    """What lies in src/metrics and is installed goes by the names that are written."""

    def setUp(self):
        super().setUp()
        self.sandbox.policy("[127.0.0.1:1]\nmax_connections = 1\n")
        self.written = self.metrics("-p", self.sandbox.policy_path)

    def check(self, expressions):
        self.assertTrue(expressions)
        names = {sample.name for sample in self.written.samples} | {"sockfuse_local_faults_total"}  # once there is one
        self.assertIn("sockfuse_local_faults", self.written.families)
        labels = {label for sample in self.written.samples for label in sample.labels} | {"instance"}
        for expression in expressions:
            self.assertTrue(names_in(expression), expression)
            self.assertEqual(names_in(expression) - names, set(), expression)
            self.assertEqual(expression.count("("), expression.count(")"), expression)
            for matcher in re.findall(r"\{([^}]*)\}", expression):
                self.assertLessEqual(set(re.findall(r'(\w+)=~?"', matcher)), labels, expression)
                for label, value in re.findall(r'(\w+)="(\w[\w-]*)"', matcher):
                    self.assertTrue([sample for sample in self.written.samples if sample.labels.get(label) == value],
                                    expression)
        if PROMTOOL:
            rules = {"groups": [{"name": "all", "rules": [
                {"record": f"sockfuse:{i}", "expr": expression.replace("$__rate_interval", "5m")}
                for i, expression in enumerate(expressions)]}]}
            path = os.path.join(self.sandbox.folder, "expressions.yml")
            with open(path, "w", encoding="utf-8") as file:
                yaml.safe_dump(rules, file)
            self.promtool("check", "rules", path)

    def promtool(self, *words):
        result = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result)

    def test_alerts(self):
        with open(ALERTS, encoding="utf-8") as file:
            (group,) = yaml.safe_load(file)["groups"]
        self.assertEqual(set(group), {"name", "rules"})
        self.check([rule["expr"] for rule in group["rules"]])
        self.assertEqual(len({rule["alert"] for rule in group["rules"]}), len(group["rules"]))
        for rule in group["rules"]:
            self.assertLessEqual({"alert", "expr", "labels", "annotations"}, set(rule), rule)
            self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))
            self.assertRegex(rule.get("for", "0m"), r"\A\d+[mh]\Z")
            for text in rule["annotations"].values():
                self.assertLessEqual(set(re.findall(r"\$labels\.(\w+)", text)), CIRCUIT_LABELS | {"reason"}, text)
        if PROMTOOL:
            self.promtool("check", "rules", ALERTS)

    @unittest.skipUnless(PROMTOOL, "promtool is not installed")
    def test_alerts_fire_when_they_should(self):
        one = 'user="u",policy="/p",target="t",destination="d:1"'
        ended = one.replace("d:1", "ended:1")
        series = {f'sockfuse_circuit_state{{{one},state="closed"}}': "1 0x12 1x60",
                  f"sockfuse_circuit_active{{{one}}}": "1x70",
                  f'sockfuse_circuit_state{{{ended},state="closed"}}': "0x70",
                  f"sockfuse_circuit_active{{{ended}}}": "0x70",
                  f'sockfuse_transitions_total{{{one},to="open"}}': "0x5 1+1x11 12x50",
                  f"sockfuse_calls_overdue{{{one}}}": "0 0 3x5 0x60",
                  f'sockfuse_calls_total{{{one},outcome="neutral",kind="local"}}': "0x5 9x60"}
        fires = {"SockfuseCircuitOpen": ([5, 15, 60], [7, 12]), "SockfuseCircuitFlapping": ([10], [30]),
                 "SockfuseCallsOverdue": ([2, 12], [4]), "SockfuseLocalFaults": ([4, 30], [8])}
        # Of the alerts themselves only their number is looked at: as a recorded series they have no annotations.
        tests = [{"expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)',
                  "eval_time": f"{at}m", "exp_samples": [{"value": value}]}
                 for name, times in fires.items() for value in (0, 1) for at in times[value]]
        path = os.path.join(self.sandbox.folder, "tests.yml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [
                {"interval": "1m", "promql_expr_test": tests,
                 "input_series": [{"series": name, "values": values} for name, values in series.items()]}]}, file)
        self.promtool("test", "rules", path)

    def test_dashboard(self):
        with open(DASHBOARD, encoding="utf-8") as file:
            dashboard = json.load(file)
        panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        self.check([target["expr"] for panel in panels for target in panel["targets"]])
        variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
        self.assertLessEqual(set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}, set(variables))
        for variable in variables.values():
            for name in names_in(json.dumps(variable)):
                self.assertIn(name, {sample.name for sample in self.written.samples})
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
        places = [panel["gridPos"] for panel in dashboard["panels"]]
        for i, place in enumerate(places):
            self.assertLessEqual(place["x"] + place["w"], 24)
            for other in places[:i]:
                self.assertFalse(place["x"] < other["x"] + other["w"] and other["x"] < place["x"] + place["w"] and
                                 place["y"] < other["y"] + other["h"] and other["y"] < place["y"] + place["h"],
                                 (place, other))

    def test_dashboard_has_what_grafana_wants_of_each_part(self):
        """As its schema has it: what it does not know it shows as an empty panel, or not at all."""
        with open(DASHBOARD, encoding="utf-8") as file:
            dashboard = json.load(file)
        self.assertNotIn("id", dashboard)  # it is the data base's, of that Grafana alone
        self.assertRegex(dashboard["uid"], r"\A[\w-]{1,40}\Z")
        self.assertGreaterEqual(dashboard["schemaVersion"], 36)  # from which on a source is an object
        self.assertEqual(set(dashboard["time"]), {"from", "to"})
        source = {"type": "prometheus", "uid": "${datasource}"}
        for variable in dashboard["templating"]["list"]:
            self.assertIn(variable["type"], ("datasource", "query"), variable)
            if variable["type"] == "query":
                self.assertEqual(variable["datasource"], source)
                self.assertEqual(variable["query"]["query"], variable["definition"])
        self.assertEqual(dashboard["templating"]["list"][0]["query"], "prometheus")
        for panel in dashboard["panels"]:
            self.assertEqual(set(panel["gridPos"]), {"x", "y", "w", "h"}, panel)
            if panel["type"] == "row":
                self.assertEqual((panel["collapsed"], panel["panels"]), (False, []), panel)
                continue
            self.assertIn(panel["type"], ("stat", "state-timeline", "timeseries"), panel)
            self.assertEqual(panel["datasource"], source, panel)
            self.assertLessEqual({"defaults", "overrides"}, set(panel["fieldConfig"]), panel)
            self.assertIn(panel["fieldConfig"]["defaults"]["unit"], ("short", "s", "reqps"), panel)
            self.assertEqual([target["refId"] for target in panel["targets"]],
                             [chr(ord("A") + i) for i in range(len(panel["targets"]))], panel)
            for target in panel["targets"]:
                self.assertEqual(target["datasource"], source, panel)


if __name__ == "__main__":
    unittest.main()
