"""TLS: what comes inside is judged where the program links its TLS library dynamically.

What each program makes of a silent, a failed or a healthy session stands in the matrix (tls_…). Here is what needs
more than one request, an older protocol, another library's habits, or a circuit that opens.
"""
import os
import select
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CERTIFICATES, PYTHON, RUN, ParallelSuite, Sandbox, Server, asleep,  # noqa: E402
                      end_in_handshake, eventually, flapping, heads, http_answer, over_tls, reset_in_handshake,
                      send_cut, stay_silent, wants_close)
from matrix.programs import POSTGRES, PROGRAMS, SEEN  # noqa: E402

load_tests = ParallelSuite.load(8)
SEERS = [entry for entry in PROGRAMS if entry.tls == SEEN and entry.protocol == "http"]


def say(*answers, pause=0.0, cuts=(), then=None):
    """Behaviour inside a session: request n gets the n-th of these bytes, in records cut there; after all, `then`."""
    def behaviour(server, sock, number):
        for count, head in enumerate(heads(server, sock)):
            if count == len(answers) and then is not None:
                then(server, sock, number)
                return
            send_cut(server, sock, answers[min(count, len(answers) - 1)], cuts, pause)
            if wants_close(head):
                return
    return over_tls(behaviour)


def hang(server, sock, number):
    del sock, number
    server.stopping.wait()


UNAVAILABLE = http_answer("503 Service Unavailable").replace(b"\r\n\r\n", b"\r\nRetry-After: 7\r\n\r\n", 1)


class Tls(unittest.TestCase):
    def start(self, behaviour, clock=True, **keys):
        self.sandbox = Sandbox(self, clock=clock)
        self.server = Server(behaviour, secure=True)
        self.addCleanup(self.server.stop)
        self.trust = CERTIFICATES.get().environment()
        self.sandbox.guard(self.server, **{"failure_threshold": 3, "reset_timeout": "1s", **keys})

    def run_client(self, argv, how=RUN, **about):
        return self.sandbox.run(argv, how, env=self.trust, **about)

    def curl(self, *words, count=1):
        return self.run_client(["curl", "-sS", "--max-time", 20, *words, *[self.server.url] * count])

    def expect(self, failures=(), **counters):
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual({kind: count for kind, count in circuit["failures"].items() if count}, dict(failures), circuit)
        self.assertEqual({name: circuit["counters"][name] for name in counters}, counters, circuit)
        return circuit


class Judged(Tls):
    def opens_by_silence(self, entry):
        """Handshake, tickets, request, silence: two of them open the circuit; a probe that is answered closes it."""
        self.start(over_tls(stay_silent), failure_threshold=2, abandon_after="50ms")
        for _ in range(2):
            self.run_client(entry.command(self.server, 1), stdin=entry.stdin)
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], set(self.sandbox.failures(self.server))), ("open", {"response-timeout"}))
        connections = self.server.connections
        began = time.monotonic()
        self.run_client(entry.command(self.server, 20), stdin=entry.stdin)
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual(self.server.connections, connections)
        self.server.behaviour = say(http_answer(close=True))
        self.sandbox.clock.advance_seconds(1)
        self.assertEqual(self.run_client(entry.command(self.server, 20), stdin=entry.stdin).status, 0)
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "closed")

    def each_answer_is_its_own(self, entry):
        texts = [http_answer(), http_answer("404 Not Found"), UNAVAILABLE, http_answer()]
        self.start(say(*texts))
        self.run_client(entry.command(self.server, 20, 4))
        self.expect({"http-503": 1}, succeeded=2, business=1, admitted=4)
        self.assertEqual(self.server.connections, 1)

    def a_hang_after_an_answer_is_a_response_timeout(self, entry):
        self.start(flapping(say(http_answer(), then=hang), over_tls(stay_silent)), failure_threshold=1)
        self.run_client(entry.command(self.server, 3, 2))
        self.expect({"response-timeout": 1}, succeeded=1)

    def in_records(self, entry):
        """The head comes in records of one to ten bytes: the reader goes on where the last one ended."""
        cuts = [3, 9, 10, 12, 13, 14, 40, UNAVAILABLE.index(b"Retry") + 3, UNAVAILABLE.index(b": 7") + 2]
        self.start(say(UNAVAILABLE, pause=0.01, cuts=sorted(cuts)), failure_threshold=1)
        self.run_client(entry.command(self.server, 20), stdin=entry.stdin)
        self.expect({"http-503": 1}, succeeded=0)
        self.assertEqual(self.sandbox.circuit(self.server)["retry_in_ms"], 7000)

    def test_an_answer_that_stood_in_the_librarys_buffer_is_seen(self):
        """Head and body in one record, read by small pieces: only the first read comes from the wire."""
        script = ("import socket, ssl, sys; c = ssl.create_default_context(); "
                  "s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
                  "s = c.wrap_socket(s, server_hostname='127.0.0.1')\n"
                  "for _ in range(2):\n"
                  "    s.send(b'GET / HTTP/1.1\\r\\n\\r\\n'); got = b''\n"
                  "    while not got.endswith(b'server\\n'): got += s.recv(1)\n"
                  "print('done')")
        self.start(say(http_answer(), UNAVAILABLE))
        self.assertEqual(self.run_client([PYTHON, "-c", script, self.server.port]).stdout, "done\n")
        self.expect({"http-503": 1}, succeeded=1)

    def test_tls_1_2_without_tickets_is_judged_the_same(self):
        for behaviour, kinds in ((say(http_answer()), {}), (over_tls(stay_silent), {"response-timeout": 1}),
                                 (say(UNAVAILABLE), {"http-503": 1})):
            with self.subTest(kinds):
                self.start(behaviour)
                self.curl("--tls-max", "1.2", "--max-time", "2" if "response-timeout" in kinds else "20")
                self.expect(kinds, succeeded=0 if kinds else 1)

    def test_a_server_of_http_2_that_says_its_settings_alone_has_not_answered(self):
        """How streams are answered: test_http2.py."""
        def settings(server, sock, number):
            del number
            if sock.recv(65536):
                server.count_request()
            sock.sendall(b"\0\0\0\4\0\0\0\0\0")  # an empty SETTINGS frame
            server.stopping.wait()
        self.start(over_tls(settings, CERTIFICATES.get().context_for("h2")))
        self.curl("--http2", "--max-time", "1")
        self.expect({"response-timeout": 1})

    def does_not_trust(self, argv, status):
        self.start(say(http_answer()))
        for _ in range(3):
            self.assertEqual(self.sandbox.run([*argv, self.server.url]).status, status)
        self.expect(neutral=3)

    def test_a_certificate_that_curl_does_not_trust_is_no_failure_of_the_peer(self):
        self.does_not_trust(["curl", "-sS"], 60)

    def test_a_certificate_that_curl_does_not_trust_in_tls_1_2_is_no_failure_of_the_peer(self):
        self.does_not_trust(["curl", "-sS", "--tls-max", "1.2"], 60)

    def test_a_certificate_that_wget_does_not_trust_is_no_failure_of_the_peer(self):
        self.does_not_trust(["wget", "-q", "-O", "-"], 5)

    def test_a_certificate_that_python_does_not_trust_is_no_failure_of_the_peer(self):
        self.does_not_trust([PYTHON, "-c", "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])"], 1)

    def test_a_handshake_that_takes_long_and_is_given_up_is_a_response_timeout(self):
        self.start(stay_silent)
        self.curl("--max-time", "2")
        self.expect({"response-timeout": 1}, succeeded=0)

    def test_failed_handshakes_open_the_circuit(self):
        for behaviour, kind in ((reset_in_handshake, "reset"), (end_in_handshake, "early-close")):
            with self.subTest(kind):
                self.start(behaviour)
                for _ in range(3):
                    self.curl()
                circuit = self.expect({kind: 3}, succeeded=0)
                self.assertEqual(circuit["state"], "open")
                self.assertEqual(self.curl().status, 7)
                self.assertEqual(self.server.connections, 3)

    def test_the_probe_must_get_an_answer_and_not_only_a_handshake(self):
        self.start(reset_in_handshake, failure_threshold=1)
        self.curl()
        self.server.behaviour = over_tls(stay_silent)
        self.sandbox.clock.advance_seconds(1)
        self.curl("--max-time", "2")
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["counters"]["probes_failed"]), ("open", 1), circuit)

    def test_a_silent_session_is_overdue_while_it_hangs(self):
        self.start(over_tls(stay_silent), failure_threshold=1, response_timeout="10s")
        process = self.sandbox.popen(["curl", "-sS", self.server.url], RUN, self.trust)
        self.assertTrue(eventually(lambda: self.server.requests == 1 and asleep(process)))
        self.sandbox.clock.advance_seconds(10)
        self.assertEqual(self.curl().status, 7)
        self.expect({"response-timeout": 1}, succeeded=0)
        self.assertIsNone(process.poll())


class Starttls(Tls):
    """PostgreSQL: one byte in plain, then TLS on the same connection."""

    def psql(self, timeout=20):
        return ["env", f"PGCONNECT_TIMEOUT={timeout}", "PGSSLMODE=verify-full", "psql", "-X", "-At", "-h", "127.0.0.1",
                "-p", self.server.port, "-U", "postgres", "-d", "postgres", "-c", "select 'hello'"]

    @staticmethod
    def agree(inner):
        def behaviour(server, sock, number):
            if len(sock.recv(8)) == 8:
                sock.sendall(b"S")
                over_tls(inner)(server, sock, number)
        return behaviour

    @staticmethod
    def forward(server, sock, number):
        """To the real server, over its socket file, where no TLS is."""
        del server, number
        with socket.socket(socket.AF_UNIX) as far:
            far.connect(POSTGRES.get().path)
            while True:
                for ready in select.select([sock, far], [], [], 10)[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    (far if ready is sock else sock).sendall(data)

    def test_a_session_that_is_well_shows_no_failure(self):
        self.start(self.agree(self.forward))
        self.assertEqual(self.run_client(self.psql()).output, ("hello\n", "", 0))
        circuit = self.expect(failed=0)
        self.assertGreaterEqual(circuit["counters"]["succeeded"], 2, circuit)

    def test_a_server_that_agrees_to_tls_and_is_silent_in_it_is_a_response_timeout(self):
        self.start(self.agree(stay_silent))
        self.assertEqual(self.run_client(self.psql(2)).status, 2)
        self.expect({"response-timeout": 1})

    def test_a_server_that_agrees_to_tls_and_resets_is_a_connection_gone_stale_as_far_as_can_be_told(self):
        def agree(server, sock, number):
            sock.recv(8)
            sock.sendall(b"S")
            reset_in_handshake(server, sock, number)
        self.start(agree)
        self.assertEqual(self.run_client(self.psql(2)).status, 2)
        self.expect(neutral=1)


class StarttlsAfterTalk(Tls):
    """A connection that was kept in plain for a while, and then turns to TLS."""

    CLIENT = """
import socket, ssl, sys
plain = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for word in (b"NOOP", b"NOOP", b"NOOP", b"NOOP", b"STARTTLS"):
    plain.sendall(word)
    assert plain.recv(10) == b"OK"
context = ssl.create_default_context(cafile=sys.argv[2])
secure = context.wrap_socket(plain, server_hostname="localhost")
for _ in range(2):
    secure.settimeout(float(sys.argv[3]))
    secure.sendall(b"question")
    try:
        print(secure.recv(10))
    except socket.timeout:
        print("silence")
        break
secure.close()
"""

    @staticmethod
    def turn(inner):
        def behaviour(server, sock, number):
            while (word := sock.recv(10)):
                sock.sendall(b"OK")
                if word == b"STARTTLS":
                    over_tls(inner)(server, sock, number)
                    return
        return behaviour

    def talk(self, timeout):
        result = self.run_client([PYTHON, "-c", self.CLIENT, self.server.port, CERTIFICATES.get().authority, timeout])
        self.assertEqual((result.stderr, result.status), ("", 0))
        return result.stdout.splitlines()

    def test_silence_inside_it_is_a_response_timeout(self):
        self.start(self.turn(hang))
        self.assertEqual(self.talk(0.6), ["silence"])
        self.expect({"response-timeout": 1}, admitted=6, succeeded=5, failed=1)  # the handshake is no call

    def test_answers_inside_it_are_each_their_own(self):
        def answer(server, sock, number):
            del server, number
            while sock.recv(100):
                sock.sendall(b"answer")
        self.start(self.turn(answer))
        self.assertEqual(self.talk(20), ["b'answer'"] * 2)
        self.expect(admitted=7, succeeded=7)


class Greeting(Tls):
    """A server that speaks first inside TLS (IMAP, SMTP, POP3 on the ports of their own for it)."""

    CLIENT = """
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
secure = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1]))), server_hostname="localhost")
assert secure.recv(10) == b"greeting"
for _ in range(int(sys.argv[3])):
    secure.sendall(b"question")
    print(secure.recv(10).decode())
secure.close()
"""

    @staticmethod
    def greet(answers):
        """So many answers after the greeting; the question after them makes the server end the connection."""
        def behaviour(server, sock, number):
            del server, number
            sock.sendall(b"greeting")
            for _ in range(answers):
                sock.recv(100)
                sock.sendall(b"answer")
            sock.recv(100)
            sock.shutdown(socket.SHUT_RDWR)  # in the middle of the session, without a word
        return over_tls(behaviour)

    def talk(self, answers):
        self.start(self.greet(answers))
        result = self.run_client([PYTHON, "-c", self.CLIENT, self.server.port, CERTIFICATES.get().authority,
                                  answers + 1])
        self.assertEqual(result.output, ("answer\n" * answers + "\n", "", 0))

    def test_http_2_is_a_stream_where_the_servers_settings_come_first(self):
        """As curl may read them; what follows the preface is no request of its own."""
        def settings(server, sock, number):
            del server, number
            sock.sendall(b"greeting")  # stands for the frame
            while sock.recv(100):
                sock.sendall(b"answer")
        self.start(over_tls(settings))
        client = self.CLIENT.replace('b"question"', '[b"PRI * HTTP/2.0", b"question"][_ > 0]')
        result = self.run_client([PYTHON, "-c", client, self.server.port, CERTIFICATES.get().authority, 3])
        self.assertEqual(result.output, ("answer\n" * 3, "", 0))
        self.expect(admitted=2, succeeded=2)

    def test_loss_of_the_first_request_after_it_is_a_failure(self):
        self.talk(0)
        self.expect({"early-close": 1}, admitted=2, succeeded=1)

    def test_loss_of_a_request_after_an_answer_is_a_connection_gone_stale(self):
        self.talk(1)
        self.expect(admitted=3, succeeded=2, neutral=1)


class Git(Tls):
    def test_ls_remote_over_https_shows_two_answers(self):
        body = b"%040d\trefs/heads/main\n" % 1
        self.start(say(http_answer(body=body), http_answer(body=b"ref: refs/heads/main\n")))
        result = self.run_client(["git", "-c", f"http.sslCAInfo={CERTIFICATES.get().authority}", "ls-remote",
                                  self.server.url + "repository"])
        self.assertEqual(result.status, 0, result)
        self.expect(succeeded=2, failed=0)


for client in SEERS:
    if client.timeout is not None:
        setattr(Judged, f"test_{client.name}_opens_the_circuit_by_silence_inside_tls",
                lambda self, entry=client: self.opens_by_silence(entry))
    setattr(Judged, f"test_{client.name}_reads_an_answer_in_many_records",
            lambda self, entry=client: self.in_records(entry))
    if client.again:
        setattr(Judged, f"test_{client.name}_gets_a_judgement_for_each_answer_in_one_session",
                lambda self, entry=client: self.each_answer_is_its_own(entry))
        setattr(Judged, f"test_{client.name}_shows_a_hang_after_an_answer_in_one_session",
                lambda self, entry=client: self.a_hang_after_an_answer_is_a_response_timeout(entry))


if __name__ == "__main__":
    unittest.main()
