"""A fleet against Redis itself: the real one, and servers at its port that are slow, silent, or no Redis at all."""
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, ParallelSuite  # noqa: E402
from fixtures.daemons import Redis  # noqa: E402

load_tests = ParallelSuite.load(8)
HOSTS = BUILD / "tests/bench/fleet_hosts"


def play(url, hosts, callers, circuits, quiet, down, up, env=None):
    """What became of it; seconds are of three phases (tests/bench/fleet_hosts.c). Its memory has a limit."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    words = [str(word) for word in (HOSTS, url, hosts, callers, circuits, quiet, down, up)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=120, preexec_fn=limit, env=env)
    if result.returncode != 0:
        raise AssertionError(f"{words}: {result.returncode} {result.stderr}")
    return json.loads(result.stdout)


class Impostor:
    """At a socket file, what is no Redis: it says the same to whatever it is told, or nothing."""

    def __init__(self, test, says, pause=0):
        self.folder = tempfile.TemporaryDirectory(prefix="sf-")
        test.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "redis.sock")
        self.says, self.pause, self.heard, self.connections = says, pause, b"", 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        test.addCleanup(self.listener.close)
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def url(self):
        return "redis+unix:" + self.path

    def serve(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.answer, args=(peer,), daemon=True).start()

    def answer(self, peer):
        try:
            while data := peer.recv(65536):
                self.heard += data
                time.sleep(self.pause)
                peer.sendall(self.says)
        except OSError:
            pass
        peer.close()


class Real(unittest.TestCase):
    def redis(self, *words, **keywords):
        daemon = Redis(*words, **keywords)
        self.addCleanup(daemon.stop)
        return daemon

    def cli(self, redis, *words):
        return subprocess.run(["redis-cli", "-s", redis.path, *words], capture_output=True, text=True, check=True).stdout

    def test_an_opening_and_a_healing_reach_all_hosts_by_one_probe(self):
        redis = self.redis()
        told = play("redis+unix:" + redis.path, 40, 20, 2, 2, 4, 8)
        self.assertEqual(told["trouble"], "")
        self.assertEqual((told["spread"]["count"], told["spread"]["missing"]), (80, 0), told)
        self.assertEqual((told["heal"]["count"], told["heal"]["missing"]), (80, 0), told)
        self.assertEqual((told["held"], told["open"]), (0, 0), told)
        self.assertEqual((told["probes"], told["probes_at_once"]), (2, 1), told)  # one for each circuit
        # All is well: the time and a list, a host and second; and nothing stays but what ends by itself.
        self.assertLess(told["commands_a_second"]["quiet"], 3.5 * 40)
        for key in self.cli(redis, "--scan").splitlines():
            if key.startswith("sockfuse"):
                self.assertRegex(key, ":(healed:|name:|hosts$|trouble$)")
                if ":healed:" not in key:  # that name goes on behind a newline
                    self.assertGreater(int(self.cli(redis, "pttl", key)), 0)
        # Whatever is sent is a command that the server knows, with words that it takes.
        errors = [line for line in self.cli(redis, "info", "commandstats").splitlines()
                  if "failed_calls=" in line and not line.rstrip().endswith("failed_calls=0")]
        self.assertEqual(errors, [])

    def test_a_server_that_wants_a_password_is_given_it_and_one_that_gets_a_wrong_one_is_told_of(self):
        redis = self.redis()
        self.cli(redis, "config", "set", "requirepass", "open sesame")
        port = f"127.0.0.1:{redis.port}/3"
        self.assertEqual(play(f"redis://:open%20sesame@{port}", 2, 2, 1, 1, 3, 1)["spread"]["missing"], 0)
        for url, word in ((f"redis://:wrong@{port}", "WRONGPASS"), (f"redis://{port}", "NOAUTH")):
            told = play(url, 2, 2, 1, 1, 2, 1)
            self.assertIn(word, told["trouble"])
            self.assertNotIn("wrong@", told["trouble"])
            self.assertEqual(told["held"], 0)

    def test_a_name_is_resolved_aside(self):
        redis = self.redis()
        self.assertEqual(play(f"redis://localhost:{redis.port}", 2, 2, 1, 1, 3, 1)["spread"]["missing"], 0)
        told = play("redis://nowhere.invalid:1", 2, 2, 1, 1, 2, 1)
        self.assertIn("its name is not known", told["trouble"])


class Impostors(unittest.TestCase):
    def says(self, answer, trouble, pause=0):
        impostor = Impostor(self, answer, pause)
        told = play(impostor.url, 2, 2, 1, 1, 2, 4)
        self.assertIn(trouble, told["trouble"])
        self.assertEqual((told["held"], told["spread"]["count"]), (0, 0), told)
        self.assertLess(impostor.connections, 40)  # it comes again later each time
        return impostor

    def test_what_is_no_protocol(self):
        self.says(b"HTTP/1.1 400 Bad Request\r\n\r\n", "it is no Redis")

    def test_a_list_without_end(self):
        self.says(b"*2147483647\r\n", "more than can be meant")

    def test_a_text_without_end(self):
        self.says(b"$536870912\r\n" + b"x" * 2000000, "more than can be meant")

    def test_lists_in_lists(self):
        self.says(b"*1\r\n" * 20, "it is no Redis")

    def test_answers_that_are_of_another_kind(self):
        self.says(b"+PONG\r\n:1\r\n*2\r\n$1\r\n5\r\n$1\r\n6\r\n*0\r\n", "")

    def test_answers_that_nobody_asked_for(self):
        self.says(b":1\r\n" * 2000, "it does not tell the time")

    def test_one_that_says_nothing(self):
        self.says(b"", "")

    def test_an_error_to_everything(self):
        self.says(b"-LOADING Redis is loading the dataset in memory\r\n", "LOADING")


if __name__ == "__main__":
    unittest.main(verbosity=2)
