"""TLS inside of a program: what its records tell of silence, and what they leave open."""
import json
import os
import ssl
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import CERTIFICATES, CLIENTS, RUN, ParallelSuite, Sandbox, Server, over_tls, stay_silent  # noqa: E402
from matrix.programs import PROGRAMS  # noqa: E402

load_tests = ParallelSuite.load(8)
SILENCE, ANSWER = "response-timeout", None
TLS_1_2 = {"maxVersion": "TLSv1.2"}


def context(tickets=2, curve=None, asks=False):
    """A server's: so many tickets of TLS 1.3, one curve alone, a certificate of the client's."""
    certificates = CERTIFICATES.get()
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))
    made.num_tickets = tickets
    if curve:
        made.set_ecdh_curve(curve)
    if asks:
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(certificates.authority)
    return made


def text(name):
    with open(CERTIFICATES.get().path(name), encoding="ascii") as file:
        return file.read()


def answer(*parts):
    def behaviour(server, sock, number):
        del server, number
        while sock.recv(100):
            for part in parts:
                sock.sendall(part)
    return behaviour


class Unseen(unittest.TestCase):
    def talk(self, made, inner, kind, count=1, words=None, **wish):
        sandbox = Sandbox(self)
        server = Server(over_tls(inner, made), secure=True)
        self.addCleanup(server.stop)
        sandbox.guard(server, failure_threshold=100, abandon_after="50ms")
        options = {"ca": [text("ca.pem")], "servername": "localhost", **wish.pop("options", {})}
        wish = {"count": count, "tickets": 0, "wait": 200, "resume": False, **wish, "options": options}
        result = sandbox.run(["node", CLIENTS / "tls_talk.js", server.port, json.dumps(wish)], RUN)
        word = "answer" if inner is not stay_silent else "silence"
        words = words or [f"{word} new"] * count
        self.assertEqual((result.stderr, result.stdout.splitlines()), ("", words))
        circuit = sandbox.circuit(server)
        failures = {name: count for name, count in circuit["failures"].items() if count}
        self.assertEqual(failures, {kind: count} if kind else {}, circuit)
        self.assertEqual(circuit["counters"]["succeeded"], 0 if kind else count, circuit)
        self.assertEqual(circuit["counters"]["admitted"], count, circuit)

    def both(self, made, **wish):
        """Silence is found, and an answer that is followed by idleness is none."""
        self.talk(made, stay_silent, SILENCE, **wish)
        self.talk(made, answer(b"answer" * 20), ANSWER, **wish)

    def test_two_tickets_at_once(self):
        self.both(context(), tickets=2)

    def test_no_ticket(self):
        self.both(context(tickets=0))

    def test_tls_1_2(self):
        self.both(context(), options=TLS_1_2)

    def test_a_server_that_asks_for_another_hello(self):
        self.both(context(curve="secp384r1"), tickets=2, options={"ecdhCurve": "X25519:secp384r1"})

    def test_a_clients_certificate(self):
        self.both(context(asks=True), tickets=2, options={"cert": text("server.pem"), "key": text("server.key")})

    def test_a_session_that_is_resumed_has_one_ticket(self):
        self.talk(context(), stay_silent, SILENCE, 2, ["silence new", "silence resumed"], tickets=1, resume=True)
        self.talk(context(), answer(b"answer" * 20), ANSWER, 2, ["answer new", "answer resumed"], tickets=1,
                  resume=True)

    def test_what_may_be_an_answer_is_taken_for_one(self):
        self.talk(context(tickets=1), stay_silent, ANSWER, tickets=1)  # one record alone
        self.talk(context(tickets=3), stay_silent, ANSWER, tickets=3)
        self.talk(context(tickets=0), answer(b"x" * 100, b"y" * 101), ANSWER)
        self.talk(context(tickets=0), answer(b"x" * 233), ANSWER)  # in the form of a ticket


class Java(unittest.TestCase):
    """A server that hangs behind the handshake opens the circuit, each time in a new process."""

    def opens(self, name):
        entry = next(program for program in PROGRAMS if program.name == name)
        sandbox = Sandbox(self)
        server = Server(over_tls(stay_silent), secure=True)
        self.addCleanup(server.stop)
        sandbox.guard(server, failure_threshold=2, reset_timeout="60s")
        for _ in range(2):
            sandbox.run(entry.command(server, entry.timeout + entry.slow_tls), RUN)
        circuit = sandbox.circuit(server)
        self.assertEqual((circuit["state"], set(sandbox.failures(server))), ("open", {SILENCE}), circuit)
        connections = server.connections
        sandbox.run(entry.command(server, 20), RUN)
        self.assertEqual(server.connections, connections)

    def test_httpurlconnection(self):
        self.opens("java_httpurlconnection")

    def test_httpclient(self):
        self.opens("java_httpclient")


if __name__ == "__main__":
    unittest.main()
