"""The columns: what the server does, and what the circuit must make of it."""
from dataclasses import dataclass

from fixtures import (ANSWER, answer_half, answer_http, answer_once, answer_status, end_after_request,
                      end_in_handshake, finish, flapping, heads, http_answer, over_tls, reset, reset_after_request,
                      reset_at_accept, reset_in_handshake, stay_silent)

HALF = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Len"
HALF_503 = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Len"
# So begins what the other protocols' servers have to say.
BRANCHES = b"%040d\trefs/heads/main\n" % 1
HALVES = {"postgres": b"R", "redis": b"+PO", "ssh": b"SSH-2.0-half"}


@dataclass(frozen=True)
class Scenario:
    """kind: the failure that the circuit must show; None: there is none. waits: it ends only by the program's own
    timeout. begins: half an answer comes before that. racy: it reaches the program now at the connect, now later.
    again: it takes two requests."""

    name: str
    kind: str
    behaviour: object = None
    tls: bool = False
    waits: bool = False
    begins: bool = False
    only_http: bool = False
    racy: bool = False
    again: bool = False

    def behaviour_for(self, entry):
        if self.name == "half" and entry.protocol in HALVES:
            return answer_half(HALVES[entry.protocol])
        if self.behaviour is answer_http and entry.protocol == "git":
            return answer_git
        if self.again:
            body, healthy = (BRANCHES, answer_git) if entry.protocol == "git" else (ANSWER, answer_http)
            return flapping(answer_once(self.behaviour, body), healthy)
        return self.behaviour


def answer_git(server, sock, number):
    """A repository with one branch, as a web server without git serves it."""
    del number
    for head in heads(server, sock):
        body = b"ref: refs/heads/main\n" if b"/HEAD " in head else BRANCHES
        sock.sendall(http_answer(body=body))


def answer_after(gate, body):
    """Answers the first request when the gate is open, and each later one at once."""
    def behaviour(server, sock, number):
        del number
        for _ in heads(server, sock):
            gate.wait(60)
            sock.sendall(http_answer(body=body))
    return behaviour


SCENARIOS = [
    Scenario("healthy", None, answer_http),
    Scenario("refused", "refused"),
    Scenario("black_hole", "connect-timeout", waits=True),
    Scenario("silent", "response-timeout", stay_silent, waits=True),
    Scenario("reset", "reset", reset_after_request),
    Scenario("end", "early-close", end_after_request),
    Scenario("reset_at_accept", "reset", reset_at_accept, racy=True),
    Scenario("503", "http-503", answer_status("503 Service Unavailable"), only_http=True),
    Scenario("half", None, answer_half(HALF), waits=True, begins=True),
    Scenario("half_503", "http-503", answer_half(HALF_503), waits=True, begins=True, only_http=True),
    # A server that was started anew: the kept connection is gone when it is used again, and that is no failure.
    Scenario("restarted", None, finish, only_http=True, racy=True, again=True),
    Scenario("restarted_by_reset", None, reset, only_http=True, racy=True, again=True),
    Scenario("tls_healthy", None, over_tls(answer_http), tls=True),
    Scenario("tls_handshake_silent", "response-timeout", stay_silent, tls=True, waits=True),
    Scenario("tls_handshake_reset", "reset", reset_in_handshake, tls=True),
    Scenario("tls_handshake_end", "early-close", end_in_handshake, tls=True),
    # TLS 1.3 with session tickets: bytes come by themselves after the handshake, and are no answer.
    Scenario("tls_silent", "response-timeout", over_tls(stay_silent), tls=True, waits=True),
    Scenario("tls_reset", "reset", over_tls(reset_after_request), tls=True, racy=True),
    Scenario("tls_end", "early-close", over_tls(end_after_request), tls=True),
    Scenario("tls_503", "http-503", over_tls(answer_status("503 Service Unavailable")), tls=True),
    Scenario("tls_half", None, over_tls(answer_half(HALF)), tls=True, waits=True, begins=True),
]
# A kept connection whose circuit another process opens meanwhile: its next request is refused, and nothing is sent.
KEPT, TLS_KEPT = Scenario("kept_refused", None, again=True), Scenario("tls_kept_refused", None, tls=True, again=True)
SCENARIOS += [KEPT, TLS_KEPT]
# What only the plaintext tells.
INSIDE_TLS = ("tls_kept_refused", "tls_503")
