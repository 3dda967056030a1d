"""What plaintext HTTP answers do to a circuit: failures by status, business answers, Retry-After, pieces.

The statuses of the matrix (503 by every program) are not repeated here.
"""
import email.utils
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, CLIENTS, PYTHON, ParallelSuite, Sandbox, Server, flapping,  # noqa: E402
                      heads, read_head, reset_after_request, send_cut)

load_tests = ParallelSuite.load(4)
NOT_CONNECTED = "Could(n't| not) connect to server"  # in an older curl's words, and in a newer one's
UNAVAILABLE = "503 Service Unavailable"


def answer(status="200 OK", headers=(), body=ANSWER, before=b""):
    """The bytes of an answer, with `before` in front of it."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return before + "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def say(*answers, pause=0.0, cuts=()):
    """Behaviour: request n of a connection gets the n-th of these bytes, the last one stays; cut at these places."""
    def behaviour(server, sock, number):
        del number
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for count, _ in enumerate(heads(server, sock)):
            send_cut(server, sock, answers[min(count, len(answers) - 1)], cuts, pause)
    return behaviour


class Http(unittest.TestCase):
    def start(self, behaviour, clock=True, **keys):
        self.sandbox = Sandbox(self, clock=clock)
        self.server = Server(behaviour)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **{"failure_threshold": 3, "reset_timeout": "1s", **keys})

    def curl(self, *words, count=1):
        return self.sandbox.run(["curl", "-sS", "--max-time", 20, *words, *[self.server.url] * count])

    def answers(self, *answers, **how):
        """From now on the server says this."""
        self.server.behaviour = say(*answers, **how)

    @property
    def circuit(self):
        return self.sandbox.circuit(self.server)

    @property
    def counters(self):
        return self.circuit["counters"]

    def expect(self, failures=(), **counters):
        """The failures by kind, and these counters; none failed that is not named."""
        circuit = self.circuit
        self.assertEqual({kind: count for kind, count in circuit["failures"].items() if count}, dict(failures), circuit)
        counters.setdefault("failed", sum(dict(failures).values()))
        self.assertEqual({name: circuit["counters"][name] for name in counters}, counters, circuit)


class Record(Http):
    def outcomes(self):
        return [event for event in self.sandbox.events() if event["event"] == "outcome"]

    def test_with_record_all_each_outcome_goes_to_the_journal(self):
        self.start(say(answer()), record="all")
        self.curl()
        self.answers(answer("404 Not Found"))
        self.curl()
        self.answers(answer(UNAVAILABLE))
        self.curl()
        self.server.behaviour = reset_after_request
        self.curl()
        found = self.outcomes()
        self.assertEqual([(event["verdict"], event["kind"], event["reason"], event["errno"], event["http_status"])
                          for event in found],
                         [("success", None, None, None, 200), ("business", None, None, None, 404),
                          ("failure", "http-503", None, None, 503), ("failure", "reset", None, "ECONNRESET", None)])
        for event in found:
            self.assertEqual((event["program"], event["slow"], event["overdue"], event["late"]),
                             ("curl", False, False, False))
            self.assertGreaterEqual(event["elapsed_ms"], 0)
        lines = self.sandbox.sockfuse("events").stdout
        for text in "success, http-200 after ", "business, http-404 after ", "failure, reset (ECONNRESET) after ":
            self.assertIn(text, lines)

    def test_by_itself_only_failures_go_there(self):
        self.start(say(answer()))
        self.curl()
        self.answers(answer(UNAVAILABLE))
        self.curl()
        self.assertEqual(self.outcomes(), [])
        self.assertEqual([event["event"] for event in self.sandbox.events()], ["failure"])


class Business(Http):
    """The peer answers: what it says is no fault of its."""

    def neither_counts_nor_resets(self, status):
        self.start(say(answer(UNAVAILABLE)))
        for _ in range(2):
            self.curl()
        self.answers(answer(status))
        for _ in range(4):
            self.curl()
        circuit = self.circuit
        self.assertEqual((circuit["state"], circuit["consecutive_failures"]), ("closed", 2), circuit)
        self.expect({"http-503": 2}, business=4, succeeded=0)
        self.answers(answer(UNAVAILABLE))
        self.curl()
        self.assertEqual(self.circuit["state"], "open")

    def is_a_successful_probe(self, status):
        self.start(reset_after_request, failure_threshold=1)
        self.curl()
        self.assertEqual(self.circuit["state"], "open")
        self.answers(answer(status))
        self.sandbox.clock.advance_seconds(1)
        self.assertEqual(self.curl().stdout, ANSWER.decode())
        circuit = self.circuit
        self.assertEqual((circuit["state"], circuit["counters"]["probes_succeeded"]), ("closed", 1), circuit)

    def test_a_success_between_them_resets(self):
        self.start(say(answer(UNAVAILABLE)))
        for text in (UNAVAILABLE, UNAVAILABLE, "200 OK", UNAVAILABLE, UNAVAILABLE):
            self.answers(answer(text))
            self.curl()
        circuit = self.circuit
        self.assertEqual((circuit["state"], circuit["consecutive_failures"]), ("closed", 2), circuit)


for code in ("404 Not Found", "401 Unauthorized", "422 Unprocessable Content", "429 Too Many Requests",
             "500 Internal Server Error", "501 Not Implemented"):
    setattr(Business, f"test_{code[:3]}_neither_counts_nor_resets",
            lambda self, status=code: self.neither_counts_nor_resets(status))
    setattr(Business, f"test_{code[:3]}_is_a_successful_probe",
            lambda self, status=code: self.is_a_successful_probe(status))


class Statuses(Http):
    """Which statuses are failures."""

    def test_503_opens_at_the_threshold(self):
        self.start(say(answer(UNAVAILABLE)))
        for count in (1, 2, 3):
            self.assertEqual(self.circuit["state"] if count > 1 else "closed", "closed")
            self.curl()
        circuit = self.circuit
        self.assertEqual((circuit["state"], circuit["last_failure"]["kind"]), ("open", "http-503"), circuit)
        self.assertRegex(self.curl().stderr, NOT_CONNECTED)
        self.assertEqual(self.server.connections, 3)
        events = self.sandbox.events()
        self.assertEqual([event["kind"] for event in events if event["event"] == "failure"], ["http-503"] * 3)

    def test_502_and_504_are_failures_too(self):
        self.start(flapping(say(answer("502 Bad Gateway")), say(answer("504 Gateway Timeout"))))
        self.curl()
        self.curl()
        self.expect({"http-502": 1, "http-504": 1})

    def test_a_failed_probe_by_503_opens_again(self):
        self.start(say(answer(UNAVAILABLE)), failure_threshold=1)
        self.curl()
        self.sandbox.clock.advance_seconds(1)
        self.curl()
        circuit = self.circuit
        self.assertEqual((circuit["state"], circuit["counters"]["probes_failed"]), ("open", 1), circuit)
        self.assertEqual(circuit["retry_in_ms"], 2000, circuit)

    def test_a_range_of_statuses_may_be_listed(self):
        self.start(flapping(say(answer("500 Internal Server Error")), say(answer("599 Whatever")),
                            say(answer("499 Whatever"))), http_failures="500-599", failure_threshold=9)
        for _ in range(3):
            self.curl()
        self.expect({"http-500": 1, "http-other": 1}, business=1)
        self.assertEqual(self.circuit["last_failure"]["kind"], "http-599")

    def test_429_counts_where_it_is_listed(self):
        self.start(say(answer("429 Too Many Requests")), http_failures="429 503")
        self.curl()
        self.expect({"http-429": 1}, business=0)

    def test_a_status_that_is_listed_no_more_is_business(self):
        self.start(say(answer(UNAVAILABLE)), http_failures="500")
        self.curl()
        self.expect(business=1)

    def test_nobody_looks_where_http_is_off(self):
        self.start(say(answer(UNAVAILABLE, ["Retry-After: 7"])), http="off", failure_threshold=1)
        for _ in range(3):
            self.curl()
        self.expect(succeeded=3, business=0)

    def test_what_only_looks_like_http_is_an_answer(self):
        for text in (b"HTTP/2.0 503 Service Unavailable\r\n\r\n", b"HTTP/1.1 50x\r\n\r\n", b"http/1.1 503 no\r\n\r\n",
                     b"HTTP/1.1 5030 no\r\n\r\n", b"\x16\x03HTTP/1.1 503\r\n\r\n", b"H"):
            with self.subTest(text):
                self.start(say(text))
                self.sandbox.run(["nc", "-N", "-w", "20", self.server.address, self.server.port],
                                 stdin=b"GET / HTTP/1.0\r\n\r\n")
                self.expect(succeeded=1, business=0)

    def test_http_1_0_and_bare_line_feeds_are_understood(self):
        for text in (b"HTTP/1.0 503 no\r\nRetry-After: 7\r\n\r\n", b"HTTP/1.1 503\nretry-after:7\n\n"):
            with self.subTest(text):
                self.start(say(text), failure_threshold=1)
                self.sandbox.run(["nc", "-N", "-w", "20", self.server.address, self.server.port],
                                 stdin=b"GET / HTTP/1.0\r\n\r\n")
                self.expect({"http-503": 1})
                self.assertEqual(self.circuit["retry_in_ms"], 7000)


class RetryAfter(Http):
    def opened_by(self, *headers, status=UNAVAILABLE, **keys):
        """Milliseconds to the probe after one such answer."""
        self.start(say(answer(status, headers)), **{"failure_threshold": 1, **keys})
        self.curl()
        circuit = self.circuit
        self.assertEqual((circuit["state"], circuit["probe_due"]), ("open", False), circuit)
        return circuit["retry_in_ms"]

    def test_no_process_probes_before_it(self):
        self.assertEqual(self.opened_by("Retry-After: 7"), 7000)
        python = [PYTHON, CLIENTS / "urllib_get.py", self.server.url, 5]
        for step in (1, 5, 0.999):
            self.sandbox.clock.advance_seconds(step)
            self.assertIn("Connection refused", self.sandbox.run(python).stderr)
            self.assertRegex(self.curl().stderr, NOT_CONNECTED)
        self.assertEqual(self.server.connections, 1)
        self.sandbox.clock.advance_seconds(0.001)
        self.answers(answer())
        self.assertEqual(self.sandbox.run(python).stdout, ANSWER.decode())
        self.assertEqual((self.circuit["state"], self.server.connections), ("closed", 2))

    def test_a_shorter_one_shortens_no_pause(self):
        self.assertEqual(self.opened_by("Retry-After: 7", reset_timeout="10s"), 10_000)

    def test_a_probe_that_is_told_to_come_later_holds_the_circuit_open_for_so_long(self):
        self.assertEqual(self.opened_by("Retry-After: 7"), 7000)
        self.answers(answer(UNAVAILABLE, ["Retry-After: 40"]))
        self.sandbox.clock.advance_seconds(7)
        self.curl()
        self.assertEqual((self.circuit["state"], self.circuit["retry_in_ms"]), ("open", 40_000))

    def test_of_429_it_is_a_floor_under_the_next_pause_although_429_opens_nothing(self):
        self.start(say(answer("429 Too Many Requests", ["Retry-After: 30"])), failure_threshold=1)
        self.curl()
        self.assertEqual(self.circuit["state"], "closed")
        self.server.behaviour = reset_after_request
        self.sandbox.clock.advance_seconds(10)
        self.curl()
        self.assertEqual((self.circuit["state"], self.circuit["retry_in_ms"]), ("open", 20_000))

    def test_retry_after_max_caps_it(self):
        self.assertEqual(self.opened_by("Retry-After: 86400"), 300_000, "five minutes, built in")
        self.assertEqual(self.opened_by("Retry-After: 86400", retry_after_max="3s"), 3000)
        self.assertEqual(self.opened_by("Retry-After: 99999999999999999999999", retry_after_max="3s"), 3000)

    def test_it_is_not_heeded_where_the_policy_says_no(self):
        self.assertEqual(self.opened_by("Retry-After: 7", retry_after="no"), 1000)

    def test_nonsense_is_not_heeded(self):
        for value in ("-7", "7.5", "+7", "", "soon", "7 s", "Mon, 31 Foo 2099 00:00:00 GMT"):
            with self.subTest(value):
                self.assertEqual(self.opened_by(f"Retry-After: {value}"), 1000)

    def test_of_any_other_status_it_is_not_heeded(self):
        self.assertEqual(self.opened_by("Retry-After: 7", status="502 Bad Gateway"), 1000)

    def test_case_and_blanks_do_not_matter(self):
        for header in ("retry-after:7", "RETRY-AFTER: \t 7 \t"):
            with self.subTest(header):
                self.assertEqual(self.opened_by("X-Retry-After: 9", header, "Retry-Afterwards: 8"), 7000)

    def test_a_date_counts_from_now(self):
        date = email.utils.formatdate(time.time() + 60, usegmt=True)
        self.assertTrue(50_000 <= self.opened_by(f"Retry-After: {date}") <= 60_000)

    def test_a_date_that_is_past_says_nothing(self):
        self.assertEqual(self.opened_by("Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"), 1000)


class Pieces(Http):
    """Answers that come in pieces, and what comes before them."""

    TEXT = answer(UNAVAILABLE, ["Server: x", "Retry-After: 7", "X: y"])

    def in_pieces(self, command, cuts, pause=0.02):
        self.start(say(self.TEXT, pause=pause, cuts=cuts), failure_threshold=1)
        self.sandbox.run(command(self.server))
        self.expect({"http-503": 1}, succeeded=0, business=0)
        self.assertEqual(self.circuit["retry_in_ms"], 7000)

    def test_one_piece_for_each_byte(self):
        end = self.TEXT.index(b"\r\n\r\n") + 4
        self.in_pieces(lambda server: ["curl", "-sS", server.url], range(1, end + 1), pause=0.002)

    def test_a_status_counts_although_the_head_breaks_off(self):
        self.start(say(b"HTTP/1.1 503 X\r\nRetry-Af"))
        self.curl("--max-time", "2")
        self.expect({"http-503": 1})

    def test_a_status_line_that_breaks_off_is_an_answer(self):
        for text in (b"HTTP/1.1 5", b"HTTP/1.1 503 Serv"):
            with self.subTest(text):
                self.start(say(text))
                self.curl("--max-time", "2")
                self.expect(succeeded=1)

    def test_an_interim_answer_is_no_answer(self):
        early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\nRetry-After: 99\r\n\r\n"
        self.start(say(answer(UNAVAILABLE, before=early + early)), failure_threshold=1)
        self.curl()
        self.expect({"http-503": 1}, succeeded=0)
        self.assertEqual(self.circuit["retry_in_ms"], 1000)

    def test_silence_after_an_interim_answer_is_a_response_timeout(self):
        self.start(say(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"))
        self.curl("--max-time", "2")
        self.expect({"response-timeout": 1}, succeeded=0)

    def upload(self, last, kind):
        def behaviour(server, sock, number):
            del number
            head, rest = read_head(server, sock)
            self.assertIn(b"100-continue", head)
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            while len(rest) < 5000:
                rest += sock.recv(65536)
            sock.sendall(last) if last else server.stopping.wait()
        self.start(behaviour)
        self.curl("--max-time", "20" if last else "3", "-H", "Expect: 100-continue", "-d", "x" * 5000)
        self.expect(kind, succeeded=0 if kind else 1)

    def test_after_100_continue_comes_the_answer(self):
        self.upload(answer(), {})

    def test_after_100_continue_comes_a_failure(self):
        self.upload(answer(UNAVAILABLE), {"http-503": 1})

    def test_after_100_continue_comes_nothing(self):
        self.upload(None, {"response-timeout": 1})

    def test_many_answers_on_one_connection_are_each_their_own(self):
        texts = [answer("200 OK"), answer("404 Not Found"), answer(UNAVAILABLE), answer(UNAVAILABLE), answer("200 OK")]
        self.start(say(*texts), failure_threshold=9)
        self.assertEqual(self.curl(count=5).stdout, ANSWER.decode() * 5)
        self.expect({"http-503": 2}, succeeded=2, business=1, admitted=5)
        self.assertEqual(self.server.connections, 1)

    def test_a_body_that_looks_like_an_answer_is_none(self):
        texts = [answer(body=answer(UNAVAILABLE)), answer("404 Not Found", body=answer(UNAVAILABLE))]
        self.start(say(*texts, pause=0.05, cuts=(len(texts[0]) - 60,)), failure_threshold=1)
        self.curl(count=2)
        self.expect(succeeded=1, business=1)

    def test_head_has_no_body_and_its_answer_counts(self):
        self.start(say(answer(body=b""), answer(UNAVAILABLE, body=b""), answer("404 Not Found", body=b"")))
        result = self.curl("-I", count=3)
        self.assertEqual(result.status, 0, result)
        self.expect({"http-503": 1}, succeeded=1, business=1)
        self.assertEqual(self.server.connections, 1)

    def test_chunks_that_look_like_answers_are_none(self):
        chunk = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
        text = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for _ in range(3)) + b"0\r\n\r\n")
        self.start(say(text, pause=0.03, cuts=[text.index(b"HTTP", place) for place in (5, 90, 130)]),
                   failure_threshold=1)
        self.assertEqual(self.curl(count=2).stdout, chunk.decode() * 6)
        self.expect(succeeded=2)

    def test_a_pipeline_of_answers_in_one_piece_is_judged_by_the_first(self):
        self.start(say(answer() + answer(UNAVAILABLE)), failure_threshold=1)
        self.sandbox.run(["nc", "-N", "-w", "20", self.server.address, self.server.port],
                         stdin=b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        self.expect(succeeded=1)


def wget(server):
    return ["wget", "-q", "-O", "-", "-t", "1", server.url]


def node(server):
    return ["node", CLIENTS / "http_get.js", server.url, 20000]


def requests(server):
    return [PYTHON, CLIENTS / "requests_get.py", server.url, 20]


for client in (wget, node, requests):
    for place in (b"/1.1", b" 503", b"3 S", b"\nServer", b"After", b": 7", b"\r\n\r\n", b"\n\r\nh"):
        cut = Pieces.TEXT.index(place) + 1
        name = place.decode().strip().replace("\r", "").replace("\n", "").replace(" ", "_") or "the_blank_line"
        setattr(Pieces, f"test_{client.__name__}_gets_an_answer_that_is_cut_after_byte_{cut}",
                lambda self, client=client, cut=cut: self.in_pieces(client, (cut,)))


class Peeking(Http):
    """wget looks at each head with MSG_PEEK first: the same bytes come twice, and are one answer."""

    def test_peeked_answers_count_once(self):
        self.start(say(answer(), answer(UNAVAILABLE), answer("404 Not Found"), pause=0.02, cuts=(12, 30)),
                   failure_threshold=9)
        url = self.server.url
        self.sandbox.run(["wget", "-q", "-O", "-", "-t", "1", url, url, url])
        self.expect({"http-503": 1}, succeeded=1, business=1, admitted=3)

    def test_a_503_over_a_unix_socket_is_judged_too(self):
        self.sandbox = Sandbox(self)
        self.server = Server(say(answer(UNAVAILABLE)), socket.AF_UNIX)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server)
        self.sandbox.run(["curl", "-sS", "--unix-socket", self.server.path, "http://localhost/"])
        self.expect({"http-503": 1})


if __name__ == "__main__":
    unittest.main()
