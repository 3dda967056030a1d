"""Where a fleet's Redis is and how the agent gets in: TLS, certificates, and whose word it takes for that."""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import CERTIFICATES, SOCKFUSE, ParallelSuite, Sandbox, Server, eventually, finish  # noqa: E402
from fixtures.daemons import LOOPBACK, Redis, free_port  # noqa: E402
from test_fleet_redis import play  # noqa: E402

load_tests = ParallelSuite.load(8)
OTHER_USER = 65534


class TlsRedis(Redis):
    """Beside its plain port and its socket file it has one for TLS, which wants a certificate as Redis does by default."""

    clients = "yes"

    def argv(self):
        made = CERTIFICATES.get()
        self.tls_port = free_port()
        return [*super().argv(), "--tls-port", str(self.tls_port), "--tls-cert-file", made.path("server.pem"),
                "--tls-key-file", made.path("server.key"), "--tls-ca-cert-file", made.authority,
                "--tls-auth-clients", self.clients]


class OpenTlsRedis(TlsRedis):
    clients = "no"


def answer_no_tls(server, sock, number):
    del server, number
    sock.recv(65536)
    sock.sendall(b"-ERR unknown command\r\n")
    finish(sock)


class Address(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.said = os.path.join(self.sandbox.folder, "said")
        self.settings = os.path.join(self.sandbox.folder, "agent.conf")
        self.sandbox.policy("[a]\nmatch = 127.0.0.1:1\nscope = fleet\n")
        self.sandbox.run(["true"])

    def redis(self, of):
        daemon = of()
        self.addCleanup(daemon.stop)
        return daemon

    def write(self, text):
        with open(self.settings, "w", encoding="utf-8") as file:
            file.write(f"[agent]\nlook_every = 50ms\n{text}\n")

    def agent(self, text, before=()):
        self.write(text)
        with open(self.said, "wb") as said:
            return self.sandbox.popen([*before, SOCKFUSE, "agent", "-c", self.settings], how="command", stderr=said)

    def says(self):
        with open(self.said, encoding="utf-8") as file:
            return file.read()

    def expect(self, words):
        self.assertTrue(eventually(lambda: words in self.says(), 30), (words, self.says()))

    @staticmethod
    def lists(redis):
        """How often somebody who was let in has asked what is open."""
        told = subprocess.run(["redis-cli", "-s", redis.path, "info", "commandstats"], capture_output=True, text=True,
                              check=True).stdout
        return told.count("cmdstat_zrangebyscore:calls")

    def is_in(self, redis):
        self.assertTrue(eventually(lambda: self.lists(redis) > 0, 30), self.says())


class Tls(Address):
    def test_a_fleet_over_tls_opens_and_heals(self):
        redis = self.redis(OpenTlsRedis)
        told = play(f"rediss://localhost:{redis.tls_port}/2", 20, 10, 2, 2, 4, 8,
                    env={"SSL_CERT_FILE": CERTIFICATES.get().authority})
        self.assertEqual(told["trouble"], "")
        self.assertEqual((told["spread"]["count"], told["spread"]["missing"]), (40, 0), told)
        self.assertEqual((told["heal"]["count"], told["heal"]["missing"]), (40, 0), told)
        self.assertEqual((told["probes"], told["probes_at_once"], told["held"], told["open"]), (2, 1, 0, 0), told)

    def test_whom_the_agent_trusts_is_said_by_fleet_ca(self):
        redis = self.redis(OpenTlsRedis)
        where = f"fleet = rediss://{LOOPBACK}:{redis.tls_port}\n"
        agent = self.agent(where)
        self.expect("the server's certificate is not trusted: ")
        self.assertEqual(self.lists(redis), 0)
        # Told anew, without another start.
        self.write(f"{where}fleet_ca = {CERTIFICATES.get().authority}")
        agent.send_signal(1)
        self.is_in(redis)

    def test_a_certificate_of_another_host_is_none(self):
        redis = self.redis(OpenTlsRedis)
        hosts = os.path.join(self.sandbox.folder, "hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            file.write(f"{LOOPBACK} cache.test\n")
        if os.geteuid() != 0:
            self.skipTest("a name of its own needs root")
        self.agent(f"fleet = rediss://cache.test:{redis.tls_port}\nfleet_ca = {CERTIFICATES.get().authority}",
                   ["unshare", "-m", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec \"$@\"", "sh"])
        self.expect("the server's certificate is not trusted: hostname mismatch")
        self.assertEqual(self.lists(redis), 0)

    def test_a_redis_that_wants_a_certificate_is_shown_one(self):
        redis, made = self.redis(TlsRedis), CERTIFICATES.get()
        where = f"fleet = rediss://localhost:{redis.tls_port}\nfleet_ca = {made.authority}\n"
        agent = self.agent(where)
        self.expect("certificate required")
        both = os.path.join(self.sandbox.folder, "both.pem")
        self.write(f"{where}fleet_certificate = {both}")
        agent.send_signal(1)
        self.expect("fleet_certificate can't be read")
        with open(both, "wb") as file:
            for name in ("server.pem", "server.key"):
                with open(made.path(name), "rb") as part:
                    shutil.copyfileobj(part, file)
        self.is_in(redis)  # files are read anew each time

    def test_what_does_not_speak_tls_is_told_of(self):
        redis, server = self.redis(Redis), Server(answer_no_tls)
        self.addCleanup(server.stop)
        agent = self.agent(f"fleet = rediss://localhost:{redis.port}")
        self.expect("fleet: it does not answer by TLS")
        agent.kill()  # while it lives, another one stands by
        agent.wait(60)
        self.agent(f"fleet = rediss://{server.destination}")
        self.expect("fleet: TLS fails: ")

    def test_where_openssl_is_missing_check_and_the_agent_say_so(self):
        if os.geteuid() != 0:
            self.skipTest("hiding a library needs root")
        library = subprocess.run(["sh", "-c", "ldconfig -p | sed -n 's/.*libssl.so.3 .*=> //p' | head -n 1"],
                                 capture_output=True, text=True, check=True).stdout.strip()
        hidden = ["unshare", "-m", "sh", "-c", f"mount --bind /dev/null {library} && exec \"$@\"", "sh"]
        self.agent("fleet = rediss://localhost", hidden)
        self.expect("fleet: TLS needs OpenSSL")
        told = self.sandbox.run([*hidden, SOCKFUSE, "check", self.settings], how="command")
        self.assertEqual(told.status, 0)
        self.assertIn(f"{self.settings}:1: warning: `fleet = rediss:...`: TLS needs OpenSSL", told.stderr)
        self.assertEqual(self.sandbox.sockfuse("check", self.settings).stderr, "")


class Secrets(Address):
    def test_a_password_is_nowhere_where_others_look(self):
        redis, secret = self.redis(Redis), os.path.join(self.sandbox.folder, "secret")
        subprocess.run(["redis-cli", "-s", redis.path, "acl", "setuser", "ann", "on", ">s3same", "allkeys", "allchannels",
                        "allcommands"], check=True, stdout=subprocess.DEVNULL)
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("other\n")
        agent = self.agent(f"fleet = redis://ann@{LOOPBACK}:{redis.port}\nfleet_password = file {secret}")
        self.expect("WRONGPASS")
        # Another one in the same file is taken up by a reload.
        with open(secret, "w", encoding="utf-8") as file:
            file.write("s3same\n")
        agent.send_signal(1)
        self.is_in(redis)
        told = [self.says()]
        for words in (("status",), ("status", "--json"), ("events",), ("events", "--json"), ("check", "-v", self.settings),
                      ("metrics",)):
            result = self.sandbox.sockfuse(*words)
            told.append(result.stdout + result.stderr)
        for name in ("cmdline", "environ", "comm"):
            with open(f"/proc/{agent.pid}/{name}", encoding="utf-8", errors="replace") as file:
                told.append(file.read())
        with open(self.sandbox.segment_path(), "rb") as file:
            told.append(file.read().decode("latin-1"))
        self.assertEqual([text for text in told if "s3same" in text], [])

    @unittest.skipUnless(os.geteuid() == 0, "becoming another user needs root")
    def test_roots_agent_takes_no_redis_from_a_file_that_others_can_write(self):
        redis, secret = self.redis(Redis), os.path.join(self.sandbox.folder, "secret")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write("of root\n")
        text = f"fleet = redis+unix:{redis.path}\nfleet_password = file {secret}"
        self.write(text)
        for owner, mode in ((OTHER_USER, 0o644), (0, 0o666), (0, 0o664)):
            os.chown(self.settings, owner, 0)
            os.chmod(self.settings, mode)
            agent = self.agent(text)
            self.expect("`fleet` is not obeyed, for others than root can write this file")
            self.expect("watches 1 policy")
            agent.kill()
            agent.wait(60)
        told = subprocess.run(["redis-cli", "-s", redis.path, "info", "commandstats"], capture_output=True, text=True,
                              check=True).stdout
        self.assertNotIn("cmdstat_auth", told)


if __name__ == "__main__":
    unittest.main(verbosity=2)
