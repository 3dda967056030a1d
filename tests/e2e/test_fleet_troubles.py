"""What can go wrong with many hosts: their agents die or stop at some step, the network is split, Redis dies, hangs,
refuses, or is full of rubbish. Each agent speaks to Redis through a relay, by which the test sees and spoils what it says."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_fleet  # noqa: E402
from fixtures import ParallelSuite, eventually  # noqa: E402
from fixtures.daemons import Redis  # noqa: E402
from test_fleet_redis import play  # noqa: E402

load_tests = ParallelSuite.load(8)
# What an agent says at that step, as the protocol has it.
VOTES, ANNOUNCES, ASKS_FOR_THE_LEASE, HEALS = b":votes:", b"}:open\r\n$13\r\n1", b"\r\nNX\r\n$2\r\nPX\r\n", b"\r\nDEL\r\n"
REFUSED, ANSWERED = "ConnectionRefusedError", "answered"


class Relay:
    """At a socket file of one host: what comes goes to Redis, and back. It may be cut, and it counts."""

    def __init__(self, path, to):
        self.path, self.to, self.is_cut, self.attempts, self.near = path, to, False, 0, []
        self.trigger, self.then = None, None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(16)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.attempts += 1
            far = socket.socket(socket.AF_UNIX)
            try:
                if self.is_cut:
                    raise OSError
                far.connect(self.to)
            except OSError:
                near.close()
                far.close()
                continue
            self.near.append(near)
            threading.Thread(target=self.carry, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self.carry, args=(far, near, False), daemon=True).start()

    def carry(self, source, target, is_said):
        try:
            while data := source.recv(65536):
                if is_said and self.trigger is not None and self.trigger in data:
                    then, self.trigger = self.then, None
                    then()
                target.sendall(data)
        except OSError:
            pass
        self.end(source)
        self.end(target)
        source.close()

    @staticmethod
    def end(connection):
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def cut(self):
        self.is_cut = True
        for connection in self.near:
            self.end(connection)
        self.near = []

    def mend(self):
        self.is_cut = False

    def close(self):
        self.cut()
        self.listener.close()


class Host(test_fleet.Host):
    def __init__(self, test, fleet, number):
        super().__init__(test, fleet, number)
        self.relay = Relay(os.path.join(self.folder, "redis"), fleet.redis.path)
        test.addCleanup(self.relay.close)
        self.settings = os.path.join(self.folder, "agent.conf")
        with open(self.settings, "w", encoding="utf-8") as file:
            file.write(f"[agent]\nfleet = redis+unix:{self.relay.path}\nlook_every = 50ms\n")

    def start_agent(self):
        with open(self.said, "ab") as said:
            self.agent = subprocess.Popen(["unshare", "-n", test_fleet.SOCKFUSE, "agent", "-c", self.settings],
                                          env=self.environment, stderr=said, stdout=said)

    def signal(self, number):
        os.kill(self.agent.pid, number)

    def end(self):
        if self.agent is not None and self.agent.poll() is None:
            self.signal(signal.SIGCONT)
        super().end()

    def openings(self):
        return self.status().get("counters", {}).get("opened", 0)


@unittest.skipUnless(os.geteuid() == 0, "network namespaces need root")
class Fleet(unittest.TestCase):
    hosts_count = 4

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sf-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.redis = Redis()
        self.addCleanup(self.redis.stop)
        self.service = test_fleet.Service(os.path.join(self.folder, "service"))
        self.addCleanup(lambda: self.service.listener.close())
        self.policy = os.path.join(self.folder, "fleet.policy")
        with open(self.policy, "w", encoding="utf-8") as file:
            file.write(f"[service]\nmatch = unix:{self.service.path}\nfailure_threshold = 2\njitter = 0%\n"
                       "reset_timeout = 2s\nprobe_timeout = 2s\nscope = fleet\n")
        self.hosts = [Host(self, self, number) for number in range(self.hosts_count)]
        for host in self.hosts:
            host.start_agent()
        self.assertTrue(eventually(lambda: all("watches" in host.says() for host in self.hosts), 60))

    def said(self):
        return [host.says() for host in self.hosts]

    def held(self):
        return [host.is_held() for host in self.hosts]

    def expect_held(self, expected):
        self.assertTrue(eventually(lambda: self.held() == expected, 40), (self.held(), self.said()))

    def open(self):
        self.service.down()
        for host in self.hosts[:2]:
            self.assertEqual([host.call() for _ in range(2)], [REFUSED] * 2)
        self.expect_held([True] * self.hosts_count)

    def heal(self):
        """The service comes back, all call, and all are answered; nothing is left open or held, here or in Redis."""
        self.service.up()
        self.assertTrue(eventually(lambda: [host.call() for host in self.hosts] == [ANSWERED] * self.hosts_count, 90, 0.1),
                        self.said())
        self.assertTrue(eventually(lambda: not any(self.held()), 40), self.said())
        self.assertTrue(eventually(lambda: {host.status()["state"] for host in self.hosts} == {"closed"}, 40))


class Split(Fleet):
    def test_half_of_the_hosts_lose_redis_and_go_by_their_own_circuits(self):
        self.open()
        for host in self.hosts[2:]:
            host.relay.cut()
        self.expect_held([True, True, False, False])
        # They are protected all the same, by their own circuits; the others are told of nothing that these do.
        calls = self.service.calls
        self.assertEqual([self.hosts[2].call() for _ in range(4)], [REFUSED] * 4)
        self.assertEqual((self.hosts[2].openings(), self.hosts[3].openings()), (1, 0))
        self.assertEqual(self.service.calls, calls)
        for host in self.hosts[2:]:
            host.relay.mend()
        self.expect_held([True] * 4)
        self.assertEqual([host.openings() for host in self.hosts], [1, 1, 1, 0])
        self.heal()


class Restarts(Fleet):
    def test_a_redis_that_is_killed_and_started_again_moves_no_circuit(self):
        self.open()
        for _ in range(2):
            self.redis.process.kill()
            self.redis.process.wait(20)
            attempts = [host.relay.attempts for host in self.hosts]
            self.expect_held([False] * 4)
            # Later each time: of the first five seconds or so, on each of two lines.
            for host, before in zip(self.hosts, attempts):
                self.assertLess(host.relay.attempts - before, 2 * 12)
            self.redis.up()
            self.expect_held([True] * 4)
            self.assertEqual([host.call() for host in self.hosts[:2]], [REFUSED] * 2)  # it is still asked for
        self.assertEqual([host.openings() for host in self.hosts], [1, 1, 0, 0])
        moves = [[event["event"] for event in host.events() if event["event"] in ("open", "close", "half-open")]
                 for host in self.hosts]
        self.assertEqual(moves, [["open"], ["open"], [], []])
        self.heal()

    def test_a_redis_that_hangs_is_given_up_and_taken_again(self):
        self.open()
        self.redis.process.send_signal(signal.SIGSTOP)
        try:
            self.expect_held([False] * 4)
            self.assertTrue(eventually(lambda: all("does not answer" in said for said in self.said()), 40), self.said())
        finally:
            self.redis.process.send_signal(signal.SIGCONT)
        self.expect_held([True] * 4)
        self.assertEqual([host.openings() for host in self.hosts], [1, 1, 0, 0])
        self.heal()


class Steps(Fleet):
    """The agent that says a certain word ends, or stops, when it has said it."""

    hosts_count = 3

    def play(self, word, end, again=None):
        """`again`: what is done with it, when all others are answered once more; None: it is gone for good."""
        ended = []

        def meets(host):
            if not ended:
                ended.append(host)
                end(host)
        for host in self.hosts:
            host.relay.then = lambda host=host: meets(host)
            host.relay.trigger = word
        self.service.down()
        for host in self.hosts[:2]:
            self.assertEqual([host.call() for _ in range(2)], [REFUSED] * 2)
        self.assertTrue(eventually(lambda: ended or all(self.held()), 40), self.said())
        self.service.up()
        self.assertTrue(eventually(lambda: [host.call() for host in self.hosts] and ended, 60, 0.1), self.said())
        others = [host for host in self.hosts if host not in ended]
        self.assertTrue(eventually(lambda: [host.call() for host in others] == [ANSWERED] * len(others), 60, 0.1),
                        self.said())
        if again is not None:
            again(ended[0])
        self.heal()
        self.assertEqual(subprocess.run(["redis-cli", "-s", self.redis.path, "--scan", "--pattern", "sockfuse*:open"],
                                        capture_output=True, text=True, check=True).stdout, "")

    @staticmethod
    def kill(host):
        host.agent.kill()
        host.agent.wait(20)

    def test_an_agent_is_killed_when_it_has_voted(self):
        self.play(VOTES, self.kill, Host.start_agent)

    def test_an_agent_is_killed_when_it_has_announced_the_quorum(self):
        self.play(ANNOUNCES, self.kill, Host.start_agent)

    def test_an_agent_is_killed_when_it_has_asked_for_the_lease_and_never_comes_back(self):
        self.play(ASKS_FOR_THE_LEASE, self.kill)

    def test_an_agent_is_killed_when_it_has_told_of_the_healing(self):
        self.play(HEALS, self.kill, Host.start_agent)

    def test_an_agent_is_stopped_with_the_lease_and_goes_on(self):
        self.play(ASKS_FOR_THE_LEASE, lambda host: host.signal(signal.SIGSTOP), lambda host: host.signal(signal.SIGCONT))


class Real(unittest.TestCase):
    """Real ones that will not, or that are full of what is not ours; and hosts that one program plays."""

    def redis(self):
        daemon = Redis()
        self.addCleanup(daemon.stop)
        return daemon

    def cli(self, redis, *words):
        return subprocess.run(["redis-cli", "-s", redis.path, *words], capture_output=True, text=True, check=True).stdout

    def is_refused(self, redis, word):
        told = play("redis+unix:" + redis.path, 3, 3, 1, 1, 3, 7)
        self.assertIn(word, told["trouble"])
        self.assertEqual((told["held"], told["spread"]["count"]), (0, 0), told)
        self.assertEqual(told["open"], 0, told)  # each by itself
        connections = int(self.cli(redis, "info", "stats").split("total_connections_received:")[1].split()[0])
        self.assertLess(connections, 3 * 2 * 10)

    def test_one_without_memory(self):
        redis = self.redis()
        self.cli(redis, "config", "set", "maxmemory", "1")
        self.is_refused(redis, "OOM")

    def test_a_replica(self):
        redis = self.redis()
        self.cli(redis, "replicaof", "127.0.0.1", "1")
        self.is_refused(redis, "READONLY")

    def test_one_that_keeps_something_else_there(self):
        redis = self.redis()
        self.cli(redis, "set", "sockfuse:1:{bench}:open", "x")
        self.is_refused(redis, "WRONGTYPE")

    def test_one_that_does_not_allow_scripts_or_channels(self):
        redis = self.redis()
        self.cli(redis, "acl", "setuser", "default", "-eval", "-subscribe", "-publish", "-evalsha")
        told = play("redis+unix:" + redis.path, 10, 10, 1, 1, 4, 9)
        self.assertEqual((told["spread"]["missing"], told["held"], told["open"]), (0, 0, 0), told)
        self.assertEqual(told["probes_at_once"], 1)

    FILL = """
    local now = redis.call('time')[1] * 1000
    for i = 1, tonumber(ARGV[1]) do
        redis.call('zadd', KEYS[1], now + 86400000 + i, 'nobody' .. i)
        redis.call('zadd', KEYS[2], now + 86400000 + i, 'nobody' .. i .. '\\n' .. string.rep('x', i % 999))
    end
    for i = 1, 200 do
        redis.call('zadd', KEYS[2], now + 9000 + i % 1000, 'service' .. string.rep('y', 2 * i) .. '\\n' .. i)
    end"""

    def test_votes_and_names_without_number_cost_the_agents_nothing_and_open_nothing(self):
        redis = self.redis()
        self.cli(redis, "eval", self.FILL, "2", "sockfuse:1:{bench}:votes:service\nservice-0:443", "sockfuse:1:{bench}:open",
                 "100000")
        told = play("redis+unix:" + redis.path, 6, 1, 1, 5, 3, 7)
        self.assertEqual(told["trouble"], "")
        # One host has it open, whatever a hundred thousand say that never ends.
        self.assertEqual((told["spread"]["count"], told["held"]), (0, 0), told)
        self.assertLess(told["commands_a_second"]["quiet"], 6 * (3.5 + 256 / 16))


if __name__ == "__main__":
    unittest.main(verbosity=2)
