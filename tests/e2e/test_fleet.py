"""Many hosts: eight network namespaces with an agent and a program each, one Redis, and a service that fails and heals."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, ROOT, SOCKFUSE, Sandbox, eventually  # noqa: E402
from fixtures.daemons import Redis  # noqa: E402

HOSTS = 8
CALLER = """
import socket, sys
for line in sys.stdin:
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(20)
            peer.connect(sys.argv[1])
            peer.sendall(b"?\\n")
            print("answered" if peer.recv(10) else "ended", flush=True)
    except OSError as error:
        print(error.__class__.__name__, flush=True)
"""


class Service:
    """At a socket file: it answers, or nobody listens there."""

    def __init__(self, path):
        self.path, self.calls, self.listener = path, 0, None
        self.up()

    def up(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self.serve, args=(self.listener,), daemon=True).start()

    def down(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self, listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            self.calls += 1
            with peer:
                if peer.recv(10):
                    peer.sendall(b"!\n")


class Host:
    """A network of its own, for that is what its agent is known by; a folder of segments of its own; a program."""

    def __init__(self, test, fleet, number):
        self.test, self.fleet = test, fleet
        self.name = f"web-{number}"
        self.folder = os.path.join(fleet.folder, f"host{number}")
        os.mkdir(self.folder)
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": self.folder,
                            "SOCKFUSE_STATE": os.path.join(self.folder, "state")}
        self.said = os.path.join(self.folder, "agent.said")
        self.agent = None
        self.program = subprocess.Popen([SOCKFUSE, "run", "-p", fleet.policy, "--", sys.executable, "-c", CALLER,
                                         fleet.service.path], env=self.environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.end)

    def start_agent(self):
        with open(self.said, "ab") as said:
            self.agent = subprocess.Popen(["unshare", "-n", "-u", "sh", "-c", 'hostname "$0"; exec "$@"', self.name, SOCKFUSE,
                                           "agent", "-c", self.fleet.settings],
                                          env=self.environment, stderr=said, stdout=said)

    def kill_agent(self):
        self.agent.kill()
        self.agent.wait(20)

    def says(self):
        with open(self.said, encoding="utf-8") as file:
            return file.read()

    def call(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        return self.program.stdout.readline().strip()

    def status(self):
        result = subprocess.run([SOCKFUSE, "status", "-p", self.fleet.policy, "--json"], env=self.environment,
                                capture_output=True, text=True, timeout=60)
        circuits = json.loads(result.stdout)[0]["circuits"]
        return circuits[0] if circuits else {}

    def command(self, *words):
        return subprocess.run([SOCKFUSE, *words], env=self.environment, capture_output=True, text=True, timeout=60)

    def fleet_lines(self):
        told = self.command("status", "-p", self.fleet.policy).stdout
        return "\n".join(line.strip() for line in told.splitlines() if line.startswith("  fleet: "))

    def events(self):
        result = subprocess.run([SOCKFUSE, "events", "-p", self.fleet.policy, "--json"], env=self.environment,
                                capture_output=True, text=True, timeout=60)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def is_held(self):
        return self.status().get("held") == "fleet"

    def end(self):
        if self.agent is not None and self.agent.poll() is None:
            self.kill_agent()
        self.program.stdin.close()
        self.program.wait(20)
        self.program.stdout.close()


@unittest.skipUnless(os.geteuid() == 0, "network namespaces need root")
class Hosts(unittest.TestCase):
    """Some hosts, each with an agent, and one Redis."""
    quorum = "2"
    host_count = HOSTS

    def keys(self):
        """More of the target's, as lines."""
        return ""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sf-fleet-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        self.service = Service(os.path.join(self.folder, "service.sock"))
        self.addCleanup(lambda: self.service.listener.close())
        self.policy = os.path.join(self.folder, "fleet.policy")
        self.settings = os.path.join(self.folder, "agent.conf")
        self.write(self.policy, f"[service]\nmatch = unix:{self.service.path}\nfailure_threshold = 2\njitter = 0%\n"
                                f"reset_timeout = 3s\nscope = fleet\nfleet_quorum = {self.quorum}\n{self.keys()}")
        self.write(self.settings, f"[agent]\nfleet = redis+unix:{self.redis.path}\nlook_every = 100ms\n")
        self.hosts = [Host(self, self, number) for number in range(self.host_count)]
        for host in self.hosts:
            host.start_agent()
        self.assertTrue(eventually(lambda: all("watches" in host.says() for host in self.hosts), 60))

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def cli(self, *words):
        return subprocess.run(["redis-cli", "-s", self.redis.path, *words], capture_output=True, text=True,
                              check=True).stdout

    def fail_on(self, *hosts):
        for host in hosts:
            self.assertEqual([host.call() for _ in range(2)], ["ConnectionRefusedError"] * 2)


@unittest.skipUnless(os.geteuid() == 0, "network namespaces need root")
class Fleet(Hosts):
    def test_what_two_hosts_find_out_all_know_and_one_probe_serves_all(self):
        hosts = self.hosts
        self.assertEqual(hosts[0].call(), "answered")
        self.service.down()
        # One host alone opens nobody else's circuit.
        self.fail_on(hosts[0])
        self.assertTrue(eventually(lambda: ":votes:" in self.cli("--scan"), 20), hosts[0].says())
        self.assertFalse(any(host.is_held() for host in hosts))
        def one_is_shown():
            hosts[0].call()  # who is called no more votes no more
            return "(web-0); quorum 2, not open in the fleet" in hosts[0].fleet_lines()
        self.assertTrue(eventually(one_is_shown, 20), hosts[0].fleet_lines())
        self.assertTrue(eventually(lambda: "fleet: 8 hosts; Redis: it last answered " in hosts[0].fleet_lines(), 20),
                        hosts[0].fleet_lines())
        # A second one, and all are held: those that have never called it, too.
        self.fail_on(hosts[1])
        self.assertTrue(eventually(lambda: all(host.is_held() for host in hosts), 20), [host.says() for host in hosts])
        told = hosts[5].fleet_lines()
        self.assertEqual(sorted(re.findall("web-[0-9]", told)), ["web-0", "web-1"], told)
        self.assertIn("; quorum 2, open in the fleet", told)
        fleet = hosts[5].status()["fleet"]
        self.assertEqual((fleet["known"], fleet["open"], fleet["votes"], sorted(fleet["hosts"])),
                         (True, True, 2, ["web-0", "web-1"]))
        self.assertIn("it is open in the fleet", " ".join(hosts[5].command("explain", "-p", self.policy,
                                                                           "service").stdout.split()))
        self.service.up()
        calls = self.service.calls
        self.assertEqual([host.call() for host in hosts], ["ConnectionRefusedError"] * HOSTS)
        self.assertEqual(self.service.calls, calls)
        self.assertEqual(hosts[5].status()["counters"]["admitted"], 0)
        # All call all the time. One call goes through, and then, by its success, all.
        def all_call():
            before = self.service.calls
            said = [host.call() for host in hosts]
            if before == calls:
                self.assertLessEqual(self.service.calls, calls + 1, said)
            return said == ["answered"] * HOSTS
        self.assertTrue(eventually(all_call, 60))
        self.assertEqual([host.status()["state"] for host in hosts], ["closed"] * HOSTS)
        opened = [event for event in hosts[0].events() + hosts[1].events() if event["event"] == "close"]
        self.assertEqual(sorted(event["reason"] for event in opened), ["fleet", "probe-succeeded"])
        events = {event["reason"]: event.get("hosts", "") for event in hosts[7].events() if event["event"] == "held"}
        self.assertEqual(sorted(events["fleet-open"].split(", ")), ["web-0", "web-1"], events)
        self.assertRegex(events["fleet-closed"], "^web-[01]$")

    def test_without_redis_each_goes_by_its_own_and_nothing_stays_held(self):
        hosts = self.hosts
        self.service.down()
        self.fail_on(*hosts[:2])
        self.assertTrue(eventually(lambda: all(host.is_held() for host in hosts), 20), hosts[0].says())
        hosts[2].kill_agent()
        os.kill(hosts[3].agent.pid, signal.SIGSTOP)
        self.addCleanup(lambda: os.kill(hosts[3].agent.pid, signal.SIGCONT))
        self.redis.stop()
        self.assertTrue(eventually(lambda: not any(host.is_held() for host in hosts), 30))
        self.assertTrue(eventually(lambda: "fleet:" in hosts[0].says(), 30))
        self.assertTrue(eventually(lambda: "fleet: Redis can't be spoken to" in hosts[0].fleet_lines(), 30))
        # Of an agent that was killed nothing is of the present for long, nor of one that is frozen.
        for host in hosts[2:4]:
            self.assertTrue(eventually(lambda host=host: "no agent has told of it for " in host.fleet_lines(), 30),
                            host.fleet_lines())
            self.assertNotIn("open on", host.fleet_lines())
        self.service.up()
        self.assertTrue(eventually(lambda: [host.call() for host in hosts] == ["answered"] * HOSTS, 60))


class Settings(unittest.TestCase):
    """Where the Redis is, and its password: said by who starts the agent, and shown to nobody."""

    def setUp(self):
        self.sandbox = Sandbox(self)
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        subprocess.run(["redis-cli", "-s", self.redis.path, "config", "set", "requirepass", "s3same"], check=True,
                       stdout=subprocess.DEVNULL)
        self.said = os.path.join(self.sandbox.folder, "said")
        self.secret = os.path.join(self.sandbox.folder, "password")
        self.sandbox.policy("[a]\nmatch = 127.0.0.1:1\nscope = fleet\n")
        self.sandbox.run(["true"])

    def write(self, path, text, mode=0o600):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def agent(self, settings, env=None):
        path = os.path.join(self.sandbox.folder, "agent.conf")
        self.write(path, f"[agent]\nlook_every = 50ms\n{settings}\n")
        with open(self.said, "wb") as said:
            return self.sandbox.popen([SOCKFUSE, "agent", "-c", path], how="command", env=env, stderr=said)

    def says(self):
        with open(self.said, encoding="utf-8") as file:
            return file.read()

    def is_in(self):
        """Somebody who may says the time there again and again."""
        told = subprocess.run(["redis-cli", "-s", self.redis.path, "-a", "s3same", "info", "commandstats"],
                              capture_output=True, text=True, check=True).stdout
        return "cmdstat_zrangebyscore" in told

    def test_a_password_of_a_file_or_the_environment_is_used_and_not_shown(self):
        where = f"fleet = redis+unix:{self.redis.path}\n"
        self.write(self.secret, "s3same\n")
        agent = self.agent(where + f"fleet_password = file {self.secret}")
        self.assertTrue(eventually(self.is_in, 30), self.says())
        with open(f"/proc/{agent.pid}/cmdline", "rb") as file:
            self.assertNotIn(b"s3same", file.read())
        self.assertNotIn("s3same", self.says())
        agent.terminate()
        self.assertEqual(agent.wait(30), 0)
        agent = self.agent(where + "fleet_password = environment SECRET", env={"SECRET": "other"})
        self.assertTrue(eventually(lambda: "WRONGPASS" in self.says(), 30), self.says())
        self.assertNotIn("other", self.says())

    def test_what_can_not_be_is_told(self):
        for settings, words in (("", "no `fleet` in [agent]"),
                                (f"fleet = redis://h\nfleet_password = file {self.secret}", "No such file")):
            agent = self.agent(settings)
            self.assertTrue(eventually(lambda words=words: words in self.says(), 30), (words, self.says()))
            self.assertIsNone(agent.poll())  # all else that it does goes on
        self.write(self.secret, "s3same\n", 0o644)
        self.agent(f"fleet = redis://h\nfleet_password = file {self.secret}")
        self.assertTrue(eventually(lambda: "may be read by everybody" in self.says(), 30), self.says())

    def test_built_without_hiredis_the_agent_says_so_and_does_all_else(self):
        speaks = ("redis_absent", "redis_connection", "redis_speech")
        files = [BUILD / file.relative_to(ROOT).with_suffix(".o")
                 for room in ("base", "breaker", "policy", "segment", "guard", "view", "agent")
                 for file in (ROOT / "src" / room).glob("*.c") if file.stem not in speaks]
        plain = os.path.join(self.sandbox.folder, "sockfuse-agent")
        built = subprocess.run(["cc", "-std=gnu11", "-fPIC", f"-I{ROOT}/src", f"{ROOT}/src/agent/redis_absent.c", *files,
                                "-o", plain, "-l:libbsd.a", "-l:libmd.a", "-lev"], capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stderr)
        path = os.path.join(self.sandbox.folder, "agent.conf")
        self.write(path, "[agent]\nlook_every = 50ms\nfleet = redis://h\n")
        with open(self.said, "wb") as said:
            agent = self.sandbox.popen([plain, "-c", path], how="command", stderr=said)
        self.assertTrue(eventually(lambda: "watches" in self.says(), 30), self.says())
        self.assertIn("install libhiredis-dev", self.says())
        self.assertIsNone(agent.poll())

    def test_check_shows_where_it_is_and_no_password(self):
        self.write(self.sandbox.policy_path, "[agent]\nfleet = redis://:s3same@cache:6380/1\n")
        told = self.sandbox.sockfuse("check", "-v", self.sandbox.policy_path)
        self.assertIn("redis://:***@cache:6380/1", told.stdout)
        self.assertNotIn("s3same", told.stdout + told.stderr)
        told = self.sandbox.sockfuse("agent", "-o", "fleet=redis://:s3same@cache")
        self.assertEqual(told.status, 1)
        self.assertIn("is seen by everybody", told.stderr)
        self.assertNotIn("s3same", told.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
