"""HTTP/2 and gRPC: each stream is a call, by whatever program, in plain, after an upgrade, and inside TLS."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CERTIFICATES, CLIENTS, ParallelSuite, Sandbox, Server, Session, asleep, eventually, finish,  # noqa: E402
                      over_tls, reset, stay_silent)
from fixtures.http2 import (INTERNAL_ERROR, REFUSED_STREAM, go_away, grpc, half_a_head, reset_stream,  # noqa: E402
                            respond, silent, speak, upgrade)

load_tests = ParallelSuite.load(4)
SYSTEM_PYTHON = "/usr/bin/python3"  # which Debian's grpc is for
PRIOR = "--http2-prior-knowledge"


def lost(how):
    """An answer: the connection is lost."""
    return lambda connection, stream: how(connection.sock)


class Http2(unittest.TestCase):
    def start(self, behaviour, secure=False, **keys):
        self.sandbox = Sandbox(self, clock=True)
        self.server = Server(over_tls(behaviour, CERTIFICATES.get().context_for("h2")) if secure else behaviour, secure=secure)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **{"failure_threshold": 3, "failure_rate": "0%", "reset_timeout": "1s", **keys})

    def curl(self, *words, count=1):
        return self.sandbox.run(["curl", "-sS", "--max-time", 20, *words, *[self.server.url] * count],
                                env=CERTIFICATES.get().environment())

    def expect(self, failures=(), state="closed", **counters):
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual({kind: count for kind, count in circuit["failures"].items() if count}, dict(failures), circuit)
        counters.setdefault("failed", sum(dict(failures).values()))
        self.assertEqual({name: circuit["counters"][name] for name in counters}, counters, circuit)
        self.assertEqual(circuit["state"], state)


class Curl(Http2):
    def test_the_status_of_each_kind_of_beginning_is_seen(self):
        for words, behaviour, secure in (([PRIOR], speak(respond(503)), False), (["--http2"], upgrade(respond(503)), False),
                                         (["--http2"], speak(respond(503)), True)):
            with self.subTest(words=words, secure=secure):
                self.start(behaviour, secure)
                self.assertEqual(self.curl(*words).stdout, "hello\n")
                self.expect({"http-503": 1}, admitted=1)

    def test_streams_of_one_connection_open_the_circuit_and_the_next_one_meets_a_reset(self):
        self.start(speak(respond(200), respond(503)), secure=True)
        result = self.curl("--http2", count=6)
        self.assertEqual(result.stdout, "hello\n" * 4)
        self.assertIn("reset by peer", result.stderr)
        self.assertEqual((self.server.connections, self.server.requests), (1, 4))
        self.expect({"http-503": 3}, "open", admitted=4, succeeded=1)

    def test_what_is_no_answer_in_time_is_a_response_timeout(self):
        for behaviour in (speak(silent), speak(half_a_head), stay_silent):
            self.start(behaviour)
            self.assertEqual(self.curl(PRIOR, "--max-time", "1").status, 28)
            self.expect({"response-timeout": 1}, admitted=1)

    def test_a_stream_or_a_connection_that_ends_without_an_answer_is_a_failure(self):
        for answer, kind in ((reset_stream(INTERNAL_ERROR), "reset"), (lost(finish), "early-close"),
                             (lost(reset), "reset")):
            self.start(speak(answer))
            self.assertNotEqual(self.curl(PRIOR).status, 0)
            self.expect({kind: 1}, admitted=1)

    def test_what_a_server_has_not_processed_says_nothing(self):
        for answer in (reset_stream(REFUSED_STREAM), go_away(0)):
            self.start(speak(answer, respond(200)), secure=True)
            self.curl("--http2", "--max-time", "3")
            self.assertEqual(self.sandbox.circuit(self.server)["counters"]["failed"], 0)
            self.assertEqual(self.sandbox.circuit(self.server)["neutral"], {"stale": 1})

    def test_a_probe_s_answer_closes_the_circuit(self):
        self.start(speak(respond(503), respond(503), respond(503), respond(200)))
        for _ in range(4):
            self.curl(PRIOR)
        self.expect({"http-503": 3}, "open", refused=1)
        self.sandbox.clock.advance_seconds(2)
        self.assertEqual(self.curl(PRIOR).stdout, "hello\n")
        self.expect({"http-503": 3}, succeeded=1)

    def test_with_http_off_the_first_frame_is_the_answer(self):
        self.start(speak(respond(503)), http="off")
        self.curl(PRIOR)
        self.expect(succeeded=1)


class ManyStreams(Http2):
    def session(self):
        return Session(self.sandbox, ["node", CLIENTS / "http2_calls.js", self.server.url])

    def test_of_many_streams_one_that_gets_no_answer_is_found_while_others_are_answered(self):
        self.start(speak(respond(200), silent, respond(200)), response_timeout="5s")
        session = self.session()
        self.assertEqual(session.ask(count=1), {"stream": 1, "said": 200})
        session.send(count=2)
        self.assertEqual(session.receive(), {"stream": 3, "said": 200})
        self.sandbox.clock.advance_seconds(6)
        self.assertEqual(session.ask(count=1), {"stream": 4, "said": 200})
        self.expect({"response-timeout": 1}, admitted=4, succeeded=3)

    def test_a_connection_on_which_all_streams_hang_opens_the_circuit(self):
        self.start(speak(respond(200), silent), response_timeout="5s", reset_timeout="1m")
        session = self.session()
        session.ask(count=1)
        session.send(count=4)
        self.assertTrue(eventually(lambda: self.server.requests == 5 and asleep(session.process)))
        self.sandbox.clock.advance_seconds(6)
        session.send(count=1)
        for _ in range(5):
            self.assertIn(session.receive()["said"], ("ECONNRESET", None))
        self.expect({"response-timeout": 3}, "open", succeeded=1, late=1, refused=1)
        self.assertEqual(self.server.requests, 5)

    def test_streams_that_are_under_way_finish_while_the_circuit_is_open(self):
        self.start(speak(silent, respond(503)))
        session = self.session()
        session.send(count=4)
        self.assertEqual({session.receive()["said"] for _ in range(3)}, {503})
        self.assertEqual(session.ask(count=1), {"stream": 5, "said": 503})
        self.expect({"http-503": 4}, "open", refused=1)

    def test_h2load_and_a_server_of_node_s_whose_heads_refer_to_each_other(self):
        self.start(speak(respond(200)))
        script = ("const server = require('http2').createServer((q, s) => s.writeHead(q.headers.count % 7 ? 200 : 503, "
                  "{'x-one': 'v' + Math.random(), 'x-two': 'always'}).end('hello'));"
                  "server.listen(0, '127.0.0.1', () => console.log(server.address().port));")
        server = self.sandbox.popen(["node", "-e", script], how="bare", stdout=-1)
        place = "127.0.0.1:" + server.stdout.readline().decode().strip()
        self.sandbox.guard(place, failure_threshold=1000, failure_rate="0%")
        result = self.sandbox.run(["h2load", "-n", "420", "-c", "2", "-m", "30", "-H", "count: 1", f"http://{place}/"])
        self.assertIn("420 succeeded", result.stdout)
        counters = self.sandbox.counters(place)
        self.assertEqual((counters["admitted"], counters["succeeded"], counters["failed"]), (420, 420, 0))
        self.sandbox.run(["h2load", "-n", "30", "-c", "1", "-m", "30", "-H", "count: 7", f"http://{place}/"])
        self.assertEqual(self.sandbox.failures(place), {"http-503": 30})


class Grpc(Http2):
    def session(self):
        return Session(self.sandbox, [SYSTEM_PYTHON, CLIENTS / "grpc_calls.py", self.server.destination])

    def test_its_status_is_seen_wherever_it_stands(self):
        self.start(speak(grpc(0), grpc(14), grpc(4, at_once=True), grpc(5), grpc(0)), failure_threshold=9)
        session = self.session()
        said = [session.ask()[0] for _ in range(4)] + session.ask(stream=True)
        self.assertEqual(said, ["OK", "UNAVAILABLE", "DEADLINE_EXCEEDED", "NOT_FOUND", "OK"])
        self.expect({"grpc-14": 1, "http-other": 1}, succeeded=2, business=1)
        self.assertEqual(self.server.connections, 1)

    def test_unavailable_opens_the_circuit_and_the_channel_comes_back(self):
        self.start(speak(grpc(14), grpc(14), grpc(14), grpc(0)))
        session = self.session()
        self.assertEqual(session.ask(count=5), ["UNAVAILABLE"] * 5)
        self.expect({"grpc-14": 3}, "open")
        self.assertEqual(self.server.requests, 3)
        self.sandbox.clock.advance_seconds(2)
        self.assertEqual(session.ask(patient=True), ["OK"])
        self.expect({"grpc-14": 3}, succeeded=1)

    def test_a_deadline_that_runs_out_is_a_response_timeout(self):
        self.start(speak(silent))
        self.assertEqual(self.session().ask(timeout=0.5, count=2, at_once=True), ["DEADLINE_EXCEEDED"] * 2)
        self.assertTrue(eventually(lambda: self.sandbox.failures(self.server) == {"response-timeout": 2}))
        self.expect({"response-timeout": 2}, admitted=2)

    def test_which_statuses_are_failures_is_the_policy_s(self):
        self.start(speak(grpc(14), grpc(13)), grpc_failures="INTERNAL")
        self.assertEqual(self.session().ask(count=2), ["UNAVAILABLE", "INTERNAL"])
        self.expect({"http-other": 1}, business=1)

    def test_nginx_before_it(self):
        self.start(speak(grpc(0), grpc(14)))
        result = self.sandbox.run([SYSTEM_PYTHON, CLIENTS / "nginx_grpc.py", self.server.destination, "6"])
        self.assertEqual(result.stdout, "200 200 200 200 502 502\n")
        self.expect({"grpc-14": 3}, "open", succeeded=1)


if __name__ == "__main__":
    unittest.main()
