"""What a run is called, and so with whom it shares circuits: links that move, options, other names of one file."""
import json
import os
import re
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PRELOAD, PYTHON, REFUSED_BY_CURL, RESET_BY_CURL, SOCKFUSE, ParallelSuite,  # noqa: E402
                      Sandbox, Server, Session, answer_http, reset_after_request)

load_tests = ParallelSuite.load(4)
ANSWERED = 0


class Identity(unittest.TestCase):
    behaviour = staticmethod(reset_after_request)

    def setUp(self):
        self.sandbox = Sandbox(self)
        self.folder = os.path.realpath(self.sandbox.folder)
        self.server = Server(self.behaviour)
        self.addCleanup(self.server.stop)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, path, **keys):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            for key, value in {"failure_rate": "0%", "jitter": "0%", "reset_timeout": "5m", **keys}.items():
                file.write(f"{'' if file.tell() else '[defaults]' + chr(10)}{key} = {value}\n")
            file.write(f"[{self.server.destination}]\n")
        return path

    def does(self, *words, status=0):
        result = self.sandbox.sockfuse(*words)
        self.assertEqual(result.status, status, (words, result))
        return result.stdout + result.stderr

    def run_curl(self, *options, times=1):
        """The exit statuses of curl under `run` with these options."""
        return [self.sandbox.sockfuse("run", *options, "--", "curl", "-sS", "-m", "20", self.server.url).status
                for _ in range(times)]

    def client(self, policy):
        client = Session(self.sandbox, [PYTHON, CLIENTS / "sockets.py"], how=PRELOAD, env={"SOCKFUSE_POLICY": policy})
        client.ask(do="drop")
        return client

    def call(self, client):
        return client.ask(do="call", port=self.server.port)

    def in_use(self, *words):
        """The policies in use by their names."""
        result = self.sandbox.sockfuse("status", *words, "--json")
        self.assertEqual(result.status, 0, result)
        return {policy["policy"]: policy for policy in json.loads(result.stdout) if policy["segment"]}

    def failed(self, policy):
        return sum(circuit["counters"]["failed"] for circuit in policy["circuits"])


class Links(Identity):
    def config_map(self, number, **keys):
        """Kubernetes: web.policy -> ..data/web.policy, ..data -> ..NUMBER; a new one is moved over the old link."""
        self.write(self.path("map", f"..{number}", "web.policy"), **keys)
        link = self.path("map", "web.policy")
        if not os.path.islink(link):
            os.symlink("..data/web.policy", link)
        os.symlink(f"..{number}", self.path("map", "..next"))
        os.rename(self.path("map", "..next"), self.path("map", "..data"))
        return link

    def test_old_and_new_processes_share_circuits_and_take_the_edit_when_the_link_moves(self):
        link = self.config_map(1, failure_threshold=50)
        old = self.client(link)
        self.assertEqual([self.call(old) for _ in range(2)], ["ECONNRESET"] * 2)
        self.assertEqual(self.config_map(2, failure_threshold=3, on_open="ETIMEDOUT"), link)
        shutil.rmtree(self.path("map", "..1"))
        self.assertIn(f"{link}: revision ", self.does("reload"))
        self.assertEqual(self.call(old), "ECONNRESET", "the third")
        self.assertEqual(self.call(old), "ETIMEDOUT", "the edited policy says so")
        self.assertEqual(self.run_curl("-p", link), [28])
        self.assertEqual(self.call(self.client(link)), "ETIMEDOUT")
        (policy,) = self.in_use().values()
        self.assertEqual((policy["policy"], policy["file"], self.failed(policy)), (link, link, 3))
        self.assertEqual(self.server.connections, 3)

    def test_a_running_process_need_not_see_the_file_at_all(self):
        link = self.config_map(1, failure_threshold=50)
        old = self.client(link)
        self.assertEqual(self.call(old), "ECONNRESET")
        self.config_map(2, failure_threshold=2)
        self.does("reload", "-p", link)
        shutil.rmtree(self.path("map"))
        self.assertEqual([self.call(old) for _ in range(2)], ["ECONNRESET", "ECONNREFUSED"])

    def test_a_new_process_shares_them_before_any_reload(self):
        link = self.config_map(1, failure_threshold=2)
        self.assertEqual(self.run_curl("-p", link, times=3), [RESET_BY_CURL, RESET_BY_CURL, REFUSED_BY_CURL])
        self.config_map(2, failure_threshold=2)
        self.assertEqual(self.run_curl("-p", link), [REFUSED_BY_CURL])

    def test_releases_that_are_switched_under_a_shell_that_came_by_the_link(self):
        for release in "41", "42":
            self.write(self.path("releases", release, "web.policy"), failure_threshold=2)
        os.symlink("41", self.path("releases", "current"))
        script = f"cd releases/current && exec {SOCKFUSE} run -p web.policy -- curl -sS {self.server.url}"
        statuses = [self.sandbox.run(["sh", "-c", script], "command").status for _ in range(2)]
        os.symlink("42", self.path("releases", "next"))
        os.rename(self.path("releases", "next"), self.path("releases", "current"))
        statuses.append(self.sandbox.run(["sh", "-c", script], "command").status)
        self.assertEqual(statuses, [RESET_BY_CURL, RESET_BY_CURL, REFUSED_BY_CURL])
        self.assertEqual(list(self.in_use()), [self.path("releases", "current", "web.policy")])

    def test_a_file_that_is_replaced_by_rename_stays_the_policy(self):
        policy = self.write(self.path("web.policy"), failure_threshold=50)
        client = self.client(policy)
        self.assertEqual(self.call(client), "ECONNRESET")
        os.rename(self.write(self.path("new.policy"), failure_threshold=2), policy)
        self.does("reload")
        self.assertEqual([self.call(client) for _ in range(2)], ["ECONNRESET", "ECONNREFUSED"])

    def test_a_folder_that_is_swapped_keeps_the_policys_name(self):
        policy = self.write(self.path("etc", "web.policy"), failure_threshold=2)
        client = self.client(policy)
        self.assertEqual([self.call(client) for _ in range(2)], ["ECONNRESET"] * 2)
        self.write(self.path("etc.new", "web.policy"), failure_threshold=2, on_open="ETIMEDOUT")
        os.rename(self.path("etc"), self.path("etc.old"))
        os.rename(self.path("etc.new"), self.path("etc"))
        self.does("reload", "-p", "etc/web.policy")
        self.assertEqual(self.call(client), "ETIMEDOUT")
        self.assertEqual(self.run_curl("-p", policy), [28])

    def test_a_policy_stands_before_its_experiments_and_its_mistake_is_told_once_with_its_place(self):
        policy = self.write(self.path("web.policy"))
        names = [policy + rest for rest in ("", *(f" + options: failure_threshold={n}" for n in (2, 3, 4, 5, 6)))]
        for name in names[::-1]:
            rest = name[len(policy):].replace(" + options: ", "")
            self.run_curl("-p", policy, *(["-o", rest] if rest else []))
        self.assertEqual(list(self.in_use()), names)
        self.write(policy, no_key="1")
        result = self.sandbox.sockfuse("reload")
        self.assertEqual((result.status, result.stdout), (1, ""))
        place, *rest = result.stderr.splitlines()
        self.assertRegex(place, rf"^sockfuse: {re.escape(policy)}:5: error: unknown key `no_key`")
        self.assertEqual(rest, [f"sockfuse: {name}: nothing is changed: its programs run on with the policy that they "
                                "have" for name in names])

    def test_a_policy_whose_folder_is_gone_can_still_be_named(self):
        policy = self.write(self.path("gone", "web.policy"), failure_threshold=50)
        client = self.client(policy)
        self.assertEqual(self.call(client), "ECONNRESET")
        shutil.rmtree(self.path("gone"))
        self.assertEqual(list(self.in_use("-p", "gone//web.policy")), [policy])
        self.assertIn("forced open", self.does("open", "-p", "gone/web.policy", self.server.destination))
        self.assertEqual(self.call(client), "ECONNREFUSED")
        self.assertIn("nothing is changed", self.does("reload", "-p", "gone/web.policy", status=1))
        self.does("auto", "-p", "./gone/web.policy", self.server.destination)
        self.assertEqual(client.close(), 0)
        self.assertIn("forgotten", self.does("forget", "-p", "gone/web.policy"))

    def test_a_relative_name_in_the_environment_is_one_in_the_folder_of_the_start(self):
        policy = self.write(self.path("web.policy"), failure_threshold=2)
        os.mkdir(self.path("etc"))
        for name in "web.policy", ".//etc/../web.policy", policy:
            self.assertEqual(self.call(self.client(name)), "ECONNRESET" if name != policy else "ECONNREFUSED", name)
        self.assertEqual(list(self.in_use()), [policy])


class OtherNames(Identity):
    def test_commands_take_the_name_that_is_in_use_and_say_so(self):
        real = self.write(self.path("real", "web.policy"))
        os.symlink("real", self.path("link"))
        link = self.path("link", "web.policy")
        self.run_curl("-p", link)
        for name in real, "real/web.policy", self.path("link", ".", "web.policy"):
            said = self.does("status", "-p", name)
            self.assertEqual((f"{link}\n" in said, f"in use by this name, but as {link}" in said),
                             (True, name != self.path("link", ".", "web.policy")), said)
        self.assertIn("but as", self.does("open", "-p", real, self.server.destination, status=1))
        self.assertEqual(self.run_curl("-p", link), [REFUSED_BY_CURL])
        self.assertEqual(list(self.in_use()), [link])
        self.assertIn(f"{link}: forgotten", self.does("forget", "-p", real))

    def test_the_one_that_is_named_goes_before_another_name_of_its_file(self):
        real = self.write(self.path("web.policy"))
        os.symlink("web.policy", self.path("link.policy"))
        for name in real, self.path("link.policy"):
            self.run_curl("-p", name)
            self.assertEqual(list(self.in_use("-p", name)), [name])


class Options(Identity):
    def test_an_experiment_never_touches_production(self):
        self.server.up(answer_http)
        policy = self.write(self.path("web.policy"), failure_threshold=2)
        service = self.client(policy)
        self.assertEqual(self.call(service), "answered")
        options = "-p", policy, "-o", "inject=refuse", "-o", "mode=enforce"
        self.assertEqual(self.run_curl(*options, times=4), [REFUSED_BY_CURL] * 4)
        self.assertEqual(self.call(service), "answered")
        found = self.in_use()
        experiment = f"{policy} + options: inject=refuse mode=enforce"
        self.assertEqual(set(found), {policy, experiment})
        self.assertEqual([self.failed(found[name]) for name in (policy, experiment)], [0, 2])
        self.assertEqual([found[name]["circuits"][0]["state"] for name in (policy, experiment)], ["closed", "open"])
        self.assertEqual(found[experiment]["options"], {"inject": "refuse", "mode": "enforce"})
        self.assertIn(f"{experiment}\n", self.does("status"))

    def test_the_same_options_in_another_order_and_spelling_are_the_same(self):
        policy = self.write(self.path("web.policy"))
        self.run_curl("-p", policy, "-o", "reset_timeout=60s", "-o", "window=10 calls")
        self.run_curl("-p", "web.policy", "-o", "window = 10 calls ", "-o", "recovery_timeout=1s", "-o",
                      "open_duration=60000ms")
        (name,) = self.in_use()
        self.assertEqual(name, f"{policy} + options: reset_timeout=1m window=10\\ calls")

    def test_they_are_inherited_by_what_the_program_starts(self):
        policy = self.write(self.path("web.policy"), failure_threshold=50)
        inner = f"cd / && curl -sS {self.server.url}; exec {SOCKFUSE} run -- curl -sS {self.server.url}"
        self.sandbox.sockfuse("run", "-p", "web.policy", "-o", "jitter=5%", "--", "sh", "-c", inner)
        (found,) = self.in_use().values()
        self.assertEqual((found["policy"], self.failed(found)), (f"{policy} + options: jitter=5%", 2))

    def test_p_means_all_runs_of_a_file_and_more_of_a_name_just_those(self):
        policy, other = self.write(self.path("web.policy"), failure_threshold=50), "127.0.0.1:1"
        for options in (), ("-o", "jitter=5%"), ("-t", other), ("-t", other, "-o", "jitter=5%"):
            self.run_curl("-p", policy, *options)
        self.run_curl("-t", other, "-o", "jitter=5%")
        plain, option, target, both = names = [f"{policy}{rest}" for rest in (
            "", " + options: jitter=5%", f" + patterns: {other}", f" + patterns: {other} + options: jitter=5%")]
        for wanted, meant in (("web.policy", names), (f"{policy} + options:", [plain, target]),
                              ("web.policy + options: jitter=5.0%", [option, both]),
                              (f"web.policy + patterns: {other}", [target, both]),
                              ("web.policy + patterns: + options:", [plain]), (option, [option, both]),
                              (f"patterns: {other}", [f"patterns: {other} + options: jitter=5%"])):
            self.assertEqual(sorted(self.in_use("-p", wanted)), sorted(meant), wanted)
        self.assertIn("unknown key", self.does("status", "-p", "web.policy + options: x=1", status=1))
        self.does("open", "-p", "web.policy + options: jitter=5%", self.server.destination, status=1)
        self.assertEqual([self.run_curl("-p", policy, *options)[0] for options in ((), ("-o", "jitter=5%"))],
                         [RESET_BY_CURL, REFUSED_BY_CURL])

    def test_where_several_runs_are_meant_each_line_says_which(self):
        policy = self.write(self.path("web.policy"), failure_threshold=50)
        options = f"{policy} + options: jitter=5%"
        client = self.client(policy)
        self.assertEqual(self.call(client), "ECONNRESET")
        self.assertNotIn("under", self.does("events", "-p", policy))
        self.run_curl("-p", policy, "-o", "jitter=5%")
        self.assertEqual([json.loads(line)["policy"] for line in self.does("events", "--json").splitlines()],
                         [policy, options])
        said = self.does("events").splitlines()
        self.assertEqual([line.endswith(f", under {name}") for line, name in zip(said, (policy, options), strict=True)],
                         [True, True], said)
        said = self.does("open", "-p", "web.policy", self.server.destination)
        for name in policy, options:
            self.assertIn(f"{self.server.destination} under {name}: forced open, was closed", said)
        self.does("auto", "-p", "web.policy", self.server.destination)
        self.assertIn(f"under {options}: forgotten", self.does("forget", self.server.destination))

    def test_a_file_that_is_called_like_an_identity_is_a_file(self):
        for name in "a + options: jitter=5%", "patterns: b:1":
            policy = self.write(self.path(name))
            self.run_curl("-p", policy)
            for wanted in policy, name:
                (found,) = self.in_use("-p", wanted).values()
                self.assertEqual((found["file"], found["options"]), (policy, {}))
            self.assertIn("handed over", self.does("reload", "-p", name, status=1))

    def test_reload_reaches_runs_on_the_spot_beside_a_file_with_their_options_in_force(self):
        policy = self.write(self.path("web.policy"), failure_threshold=50)
        client = Session(self.sandbox, [SOCKFUSE, "run", "-p", policy, "-o", "on_open=ETIMEDOUT", "-o",
                                        "inject_seed=7", "--", PYTHON, CLIENTS / "sockets.py"], how="command")
        self.assertEqual(self.call(client), "ECONNRESET")
        self.write(policy, failure_threshold=2, on_open="EACCES")
        self.does("reload", "-p", policy)
        self.assertEqual([self.call(client) for _ in range(2)], ["ECONNRESET", "ETIMEDOUT"])

    def test_a_name_that_is_too_long_is_told(self):
        self.sandbox.guard(self.server)
        targets = [word for number in range(64) for word in ("-t", f"{'x' * 60}.{number:050}.test:1")]
        for more in (), ("-p", self.sandbox.policy_path):
            said = self.does("run", *more, *targets, "--", "true", status=125)
            self.assertRegex(said, "at most 4095; write targets and options into a policy file")
        result = self.sandbox.run(["true"], PRELOAD, {"SOCKFUSE_TARGETS": " ".join(targets[1::2])})
        self.assertEqual(result.status, 0)
        self.assertRegex(result.stderr, r"\Asockfuse: [^\n]*at most 4095[^\n]*unguarded\n\Z")


if __name__ == "__main__":
    unittest.main()
