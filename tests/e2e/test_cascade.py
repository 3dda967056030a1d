"""`sockfuse calls --tree` and `--dot`: who waits for whom on this host, and for what in the end."""
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PYTHON, SOCKFUSE, BlackHole, Namespace, ParallelSuite, Redis, Sandbox,  # noqa: E402
                      Server, eventually, services, stay_silent)
from fixtures.daemons import free_port  # noqa: E402

load_tests = ParallelSuite.load(4)
IS_ROOT = os.geteuid() == 0
numbers = itertools.count(2_000_000 + os.getpid() % 100_000 * 10)

LISTEN = """import os, socket, sys, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(16)
print("ready", flush=True)
while True:
    kept = listener.accept()
"""


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


class Scene(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def silent(self, **keywords):
        server = Server(stay_silent, **keywords)
        self.addCleanup(server.stop)
        return server

    def guard(self, *sections):
        self.sandbox.policy("".join(f"[{name}]\nmatch = {pattern}\n" for name, pattern in sections))

    def curl(self, url, *words):
        return self.sandbox.popen(["curl", "-s", "--max-time", "100", *words, url])

    def tree(self, *words):
        result = self.sandbox.sockfuse("calls", "--tree", "--json", *words)
        self.assertEqual(result.status, 0, result)
        return json.loads(result.stdout)

    def text(self, *words):
        result = self.sandbox.sockfuse("calls", "--tree", *words)
        self.assertEqual((result.status, result.stderr), (0, ""))
        return result.stdout

    def waits(self, tree):
        """{(program, destination): calls}"""
        programs = {group["id"]: group["program"] for group in tree["groups"]}
        places = {place["id"]: place["destination"] for place in tree["places"]}
        return {(programs[wait["group"]], places[wait["place"]]): wait["calls"] for wait in tree["waits"]}

    def tree_with(self, waits):
        """The tree, once just these wait."""
        self.assertTrue(eventually(lambda: self.waits(self.tree()) == waits, 40, 0.1), (self.tree(), waits))
        return self.tree()

    def server_of(self, tree, destination):
        """The place of a destination, and the group that serves it."""
        (place,) = [place for place in tree["places"] if place["destination"] == destination]
        return place, next((group for group in tree["groups"] if group["id"] == place["served_by"]), None)


class Places(Scene):
    def test_one_that_two_policies_name_otherwise_has_both_names(self):
        silent = self.silent()
        self.guard(("other", silent.destination))
        second = os.path.join(self.sandbox.folder, "second.policy")
        with open(second, "w", encoding="ascii") as file:
            file.write(f"[warehouse]\nmatch = {silent.destination}\n")
        self.curl(silent.url)
        self.tree_with({("curl", silent.destination): 1})
        self.sandbox.popen([SOCKFUSE, "run", "-p", second, "--", "curl", "-s", "--max-time", "100", silent.url],
                           how="command")
        tree = self.tree_with({("curl", silent.destination): 2})
        place, _ = self.server_of(tree, silent.destination)
        self.assertEqual(sorted(place["targets"]), ["other", "warehouse"])
        self.assertRegex(self.text(), rf"-> {silent.destination} \((other, warehouse|warehouse, other)\): 2 wait for")
        for name in ("other", "warehouse"):
            self.assertEqual(self.waits(self.tree(name)), {("curl", silent.destination): 2}, name)

    """Who serves a destination, and what is said where that is not seen."""

    def test_by_address_by_name_by_file_and_over_ipv6(self):
        four, six = self.silent(), self.silent(family=socket.AF_INET6)
        file, named = self.silent(family=socket.AF_UNIX), self.silent()
        name = f"localhost:{named.port}"
        self.guard(("four", four.destination), ("six", six.destination), ("file", file.destination), ("name", name))
        self.curl(four.url)
        self.curl(six.url)
        self.curl("http://a/", "--unix-socket", file.path)
        self.curl(f"http://{name}/", "--ipv4")
        destinations = (four.destination, six.destination, file.destination, name)
        tree = self.tree_with({("curl", destination): 1 for destination in destinations})
        for destination in destinations:
            place, group = self.server_of(tree, destination)
            self.assertEqual((place["seen"], group["pids"], group["guarded"]), ("served", [os.getpid()], False), place)

    def test_a_target_that_is_one_circuit_is_joined_to_all_that_its_calls_reach(self):
        one, other = self.silent(), self.silent()
        self.sandbox.policy(f"[both]\nmatch = {one.destination} {other.destination}\ncircuit = target\n")
        self.curl(one.url)
        self.curl(other.url)
        place, group = self.server_of(self.tree_with({("curl", "both"): 2}), "both")
        self.assertEqual((place["seen"], group["pids"]), ("served", [os.getpid()]))

    def test_connections_that_nobody_accepts(self):
        port = free_port()
        listener = socket.create_server(("127.0.0.1", port), backlog=16)
        self.addCleanup(listener.close)
        self.guard(("deaf", f"127.0.0.1:{port}"))
        for _ in range(3):
            self.curl(f"http://127.0.0.1:{port}/")
        tree = self.tree_with({("curl", f"127.0.0.1:{port}"): 3})
        place, group = self.server_of(tree, f"127.0.0.1:{port}")
        self.assertEqual((place["not_accepted"], group["pids"]), (3, [os.getpid()]))
        self.assertIn("3 connections no program has accepted yet", self.text())

    def test_a_listener_on_all_addresses_and_several_on_one(self):
        port = free_port()
        for _ in range(2):
            server = self.sandbox.popen([sys.executable, "-c", LISTEN, str(port)], how="command", stdout=-1,
                                        start_new_session=True)
            server.stdout.readline()
        wide = socket.create_server(("", 0))
        self.addCleanup(wide.close)
        # By a name: which address that is, only the connection tells.
        name = f"localhost:{wide.getsockname()[1]}"
        self.guard(("two", f"127.0.0.1:{port}"), ("wide", name))
        self.curl(f"http://127.0.0.1:{port}/")
        self.curl(f"http://{name}/", "--ipv4")
        tree = self.tree_with({("curl", f"127.0.0.1:{port}"): 1, ("curl", name): 1})
        place, group = self.server_of(tree, f"127.0.0.1:{port}")
        self.assertEqual((place["seen"], len(group["pids"]), group["workers"]), ("served", 2, 2))
        _, group = self.server_of(tree, name)
        self.assertEqual(group["pids"], [os.getpid()])

    def test_a_black_hole_of_this_host(self):
        hole = BlackHole()
        self.addCleanup(hole.stop)
        self.guard(("hole", hole.destination))
        self.curl(hole.url)
        tree = self.tree_with({("curl", hole.destination): 1})
        place, group = self.server_of(tree, hole.destination)
        self.assertEqual((place["connect"], place["seen"], group["pids"]), (1, "served", [os.getpid()]))
        self.assertRegex(self.text(), rf"(?m)^root: {re.escape(hole.destination)} \(hole\), no connection comes about; "
                                      r"1 call of 1 program waits, the oldest ")

    @unittest.skipUnless(IS_ROOT, "network name spaces are made by root")
    def test_another_host_and_another_network_name_space(self):
        self.sandbox.namespace = Namespace(self.sandbox.folder)
        self.addCleanup(self.sandbox.namespace.close)
        # What goes there comes back on the loopback, and is nobody's.
        for words in (["ip", "addr", "add", "10.99.0.1/32", "dev", "lo"],
                      ["ip", "route", "add", "10.99.0.2/32", "dev", "lo", "src", "10.99.0.1"]):
            subprocess.run(self.sandbox.namespace.command(words), check=True)
        port = free_port()
        server = self.sandbox.popen([sys.executable, "-c", LISTEN, str(port)], how="command", stdout=-1)
        server.stdout.readline()
        here = socket.create_server(("127.0.0.1", port))  # the same, of another name space
        self.addCleanup(here.close)
        self.guard(("far", "10.99.0.2:80"), ("near", f"127.0.0.1:{port}"))
        self.curl("http://10.99.0.2/")
        self.curl(f"http://127.0.0.1:{port}/")
        self.sandbox.namespace = None
        tree = self.tree_with({("curl", "10.99.0.2:80"): 1, ("curl", f"127.0.0.1:{port}"): 1})
        place, group = self.server_of(tree, "10.99.0.2:80")
        self.assertEqual((place["seen"], group), ("elsewhere", None))
        place, group = self.server_of(tree, f"127.0.0.1:{port}")
        self.assertEqual((place["seen"], group["pids"]), ("served", [server.pid]))
        self.assertIn("on another host\n", self.text())

    @unittest.skipUnless(IS_ROOT, "only root can be several users")
    def test_what_another_user_has_is_said_not_to_be_seen(self):
        uid, server = next(numbers), self.silent()
        self.addCleanup(lambda: [shutil.rmtree(f"{place}/sockfuse-{uid}", ignore_errors=True)
                                 for place in ("/dev/shm", "/tmp")])
        os.chmod(self.sandbox.folder, 0o755)
        self.guard(("far", server.destination))
        rights = {"user": uid, "group": uid, "extra_groups": []}
        self.sandbox.popen([SOCKFUSE, "run", "-p", self.sandbox.policy_path, "--", "curl", "-s", server.url],
                           how="command", env={"SOCKFUSE_STATE": None}, **rights)
        self.assertTrue(eventually(lambda: server.requests == 1, 30))
        words = [SOCKFUSE, "calls", "--tree"]
        result = self.sandbox.run(words, "command", {"SOCKFUSE_STATE": None}, **rights)
        self.assertIn(f"-> {server.destination} (far): 1 waits for an answer", result.stdout)
        self.assertIn("on this host: a program of uid 0, which can't be looked into from here", result.stdout)
        # With root's eyes it is seen, and whose it is.
        result = self.sandbox.run([*words, "--json", "--user", str(uid)], "command", {"SOCKFUSE_STATE": None})
        _, group = self.server_of(json.loads(result.stdout), server.destination)
        self.assertEqual(group["pids"], [os.getpid()])

    @unittest.skipUnless(IS_ROOT, "only root can be several users")
    def test_programs_of_two_users_stand_in_one_tree_for_root(self):
        silent, port, everybody = self.silent(), free_port(), {"SOCKFUSE_STATE": None}
        os.chmod(self.sandbox.folder, 0o755)
        self.guard(("front", f"127.0.0.1:{port}"), ("back", silent.destination))
        server = shutil.copy(CLIENTS / "in_turn.py", self.sandbox.folder)
        started = []
        for argv, is_up in (([PYTHON, server, port, silent.port], lambda: answers(port)),
                            (["curl", "-s", f"http://127.0.0.1:{port}/1"], lambda: True)):
            uid = next(numbers)
            for place in ("/dev/shm", "/tmp"):
                self.addCleanup(shutil.rmtree, f"{place}/sockfuse-{uid}", ignore_errors=True)
            rights = {"user": uid, "group": uid, "extra_groups": []}
            started.append((uid, self.sandbox.popen(argv, env=everybody, **rights)))
            self.assertTrue(eventually(is_up, 60))

        def seen(*words):
            # Any user of this machine may have something of his own there: of what has to do with ours.
            result = self.sandbox.sockfuse("calls", "--tree", *words, silent.destination, env=everybody)
            self.assertIn(result.status, (0, 1), result)
            return result.stdout
        waits = {("python3", silent.destination): 1, ("curl", f"127.0.0.1:{port}"): 1}
        self.assertTrue(eventually(lambda: self.waits(json.loads(seen("--json"))) == waits, 40, 0.1), seen())
        tree = json.loads(seen("--json"))
        (_, back), (_, front) = started
        _, group = self.server_of(tree, f"127.0.0.1:{port}")
        self.assertEqual((group["program"], group["pids"], group["guarded"]), ("python3", [back.pid], True))
        self.assertEqual((tree["root"]["destination"], tree["root"]["calls"], tree["root"]["programs"]),
                         (silent.destination, 2, 2))
        lines = seen().splitlines()
        self.assertEqual(lines[0], f"curl (pid {front.pid} waits)")
        self.assertRegex(lines[1], rf"\A  -> 127\.0\.0\.1:{port} \(front\): 1 waits for an answer, oldest \S+\Z")
        self.assertEqual(lines[2], f"     python3 (pid {back.pid} waits)")
        self.assertRegex(lines[3], rf"\A       -> {silent.destination} \(back\): 1 waits for an answer, oldest \S+\Z")
        self.assertRegex(lines[-1], rf"\Aroot: {silent.destination} \(back\), connected and silent; "
                                    r"2 calls of 2 programs wait, the oldest \S+\Z")
        # Each of the two users sees his own program's wait alone.
        for (uid, _), (program, destination) in zip(started, waits):
            result = self.sandbox.sockfuse("calls", "--json", "--user", str(uid), env=everybody)
            self.assertEqual([(call["program"], call["destination"]) for call in json.loads(result.stdout)],
                             [(program, destination)])

    @unittest.skipUnless(IS_ROOT, "process name spaces are made by root")
    def test_a_container_whose_processes_have_other_numbers_here(self):
        server = self.silent()
        self.guard(("far", server.destination))
        self.sandbox.popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                            f"curl -s {server.url}; true"])
        tree = self.tree_with({("curl", server.destination): 1})
        place, group = self.server_of(tree, server.destination)
        self.assertEqual((place["seen"], group), ("other-network", None))
        self.assertIn("container, which can't be looked into from here", self.text())
        (call,) = json.loads(self.sandbox.sockfuse("calls", "--json").stdout)
        self.assertFalse(call["pid_is_local"])
        self.assertRegex(self.sandbox.sockfuse("calls").stdout, r" \d+\*  curl .*\n\* by the number of its container\n")


class Chains(Scene):
    @unittest.skipUnless(IS_ROOT, "such services are started by root")
    def test_nginx_waits_for_gunicorn_which_waits_for_a_redis_that_was_stopped(self):
        redis = Redis()
        self.addCleanup(redis.stop)
        os.kill(redis.process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, redis.process.pid, signal.SIGCONT)
        self.guard(("unix", "unix:/*"), (redis.destination, redis.destination))
        gunicorn = services.GunicornBehindAFile(self, self.sandbox, redis.destination)
        nginx = services.Nginx(self, self.sandbox, f"{gunicorn.address}:/")
        nginx.ask_beside(6)
        tree = self.tree_with({("nginx", gunicorn.address): 6, ("gunicorn", redis.destination): 4})
        place, group = self.server_of(tree, gunicorn.address)
        self.assertEqual((group["program"], group["workers"], group["waiting"], group["guarded"]),
                         ("gunicorn", 4, 4, True))
        self.assertIn(gunicorn.process.pid, group["pids"])
        place, group = self.server_of(tree, redis.destination)
        self.assertEqual((group["program"], group["guarded"], place["not_accepted"]), ("redis-server", False, 4))
        root = tree["root"]
        self.assertEqual((root["destination"], root["calls"], root["programs"], tree["circle"]),
                         (redis.destination, 10, 2, None))
        lines = self.text().splitlines()
        self.assertRegex(lines[0], r"\Anginx \([12] of 2 workers waits?\)\Z")
        self.assertRegex(lines[1], rf"\A  -> {gunicorn.address} \(unix\): 6 wait for an answer, oldest \S+\Z")
        self.assertEqual(lines[2], "     gunicorn (4 of 4 workers wait)")
        self.assertRegex(lines[3], rf"\A       -> {redis.destination}: 4 wait for an answer, oldest \S+\Z")
        self.assertEqual(lines[4], "          4 connections no program has accepted yet")
        self.assertEqual(lines[5], f"          redis-server (pid {redis.process.pid}): unguarded, its own calls are "
                                   "not seen")
        self.assertRegex(lines[6], rf"\Aroot: {redis.destination} \(redis-server\), connected and silent; "
                                   r"10 calls of 2 programs wait, the oldest \S+\Z")
        dot = self.sandbox.sockfuse("calls", "--dot").stdout
        self.assertIn('label="gunicorn (4 of 4 workers wait)"', dot)
        self.assertIn(f'label="{redis.destination} (redis-server)\\nconnected and silent", color=red', dot)
        if shutil.which("dot"):
            self.assertEqual(subprocess.run(["dot", "-Tsvg"], input=dot.encode(), stdout=subprocess.DEVNULL,
                                            check=False).returncode, 0)
        # A part: what has to do with one destination.
        other = self.silent()
        self.guard(("other", other.destination))
        self.curl(other.url)
        self.assertTrue(eventually(lambda: ("curl", other.destination) in self.waits(self.tree()), 30))
        self.assertEqual(len(self.tree()["waits"]), 3)
        self.assertEqual(self.waits(self.tree("unix")), self.waits(tree))
        self.assertEqual(self.waits(self.tree(other.destination)), {("curl", other.destination): 1})

    @unittest.skipUnless(IS_ROOT, "such services are started by root")
    def test_workers_of_php_fpm(self):
        hole = self.silent()
        self.guard(("origin", hole.destination), ("fpm", "127.0.0.1:*"))
        fpm = services.PhpFpm(self, self.sandbox, hole.destination)
        fpm.ask_beside(2)
        program = os.path.basename(fpm.argv()[0])
        tree = self.tree_with({(program, hole.destination): 2})
        (group,) = [group for group in tree["groups"] if group["program"] == program]
        self.assertEqual((group["workers"], group["waiting"]), (2, 2))
        self.assertIn(fpm.process.pid, group["pids"])

    def test_a_cluster_of_node_whose_master_accepts_for_its_workers(self):
        hole, port = self.silent(), free_port()
        self.guard(("origin", hole.destination), ("cluster", f"127.0.0.1:{port}"))
        cluster = self.sandbox.popen(["node", CLIENTS / "cluster.js", str(port), hole.url], stdout=subprocess.PIPE)
        self.assertEqual(cluster.stdout.readline(), b"up\n")
        for _ in range(3):
            self.curl(f"http://127.0.0.1:{port}/")
        tree = self.tree_with({("curl", f"127.0.0.1:{port}"): 3, ("node", hole.destination): 3})
        _, group = self.server_of(tree, f"127.0.0.1:{port}")
        self.assertEqual((group["program"], group["waiting"]), ("node", 2))
        self.assertIn(cluster.pid, group["pids"])
        self.assertEqual(tree["root"]["destination"], hole.destination)

    def test_a_circle_has_no_root(self):
        one, other = free_port(), free_port()
        self.guard(("one", f"127.0.0.1:{one}"), ("other", f"127.0.0.1:{other}"))
        for port, next_one in ((one, other), (other, one)):
            self.sandbox.popen([sys.executable, CLIENTS / "in_turn.py", str(port), str(next_one)],
                               start_new_session=True)
        self.assertTrue(eventually(lambda: answers(one) and answers(other), 60))
        with socket.create_connection(("127.0.0.1", one)) as asking:
            asking.sendall(b"GET /2 HTTP/1.0\r\n\r\n")
            self.assertTrue(eventually(lambda: len(self.tree()["waits"]) == 2, 30), self.tree())
            tree = self.tree()
            self.assertEqual((tree["root"], len(tree["circle"])), (None, 3))
            text = self.text()
            self.assertIn(": a circle, it is above\n", text)
            self.assertRegex(text, r"(?m)^no root: they wait for each other: (\S+) -> (\S+) -> \1$")

    def test_nothing_and_wrong_words(self):
        self.assertIn("No policy is in use", self.text())
        nothing = self.sandbox.sockfuse("calls", "--dot")
        self.assertRegex(nothing.stdout, r"(?s)\Adigraph calls {.*}\n\Z", "Graphviz reads what is there")
        self.assertIn("No policy is in use", nothing.stderr)
        server = self.silent()
        self.guard(("a", server.destination))
        self.sandbox.run(["true"])
        self.assertEqual(self.text(), "No calls in flight.\n")
        tree = self.tree()
        self.assertEqual((tree["waits"], tree["root"], tree["circle"]), ([], None, None))
        self.assertIn("digraph", self.sandbox.sockfuse("calls", "--dot").stdout)
        for words in (["--dot", "--json"], ["--tree", "-f"], ["--dot", "-f"]):
            self.assertEqual(self.sandbox.sockfuse("calls", *words).status, 2, words)


if __name__ == "__main__":
    unittest.main()
