"""front.py: for scripts that put a server in front of another, as its client, and ask it (nginx_get.py, apache_get.py).
"""
import ctypes
import signal
import socket
import sys
import time


def end_with_parent():
    """In a child: the server must not outlive its script, not even one that is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def connect(family, place, server):
    """It listens some time after its start."""
    end = time.monotonic() + 20
    while time.monotonic() < end and server.poll() is None:
        client = socket.socket(family)
        try:
            client.connect(place)
            client.settimeout(60)
            return client
        except OSError:
            client.close()
            time.sleep(0.01)
    sys.exit(f"{server.args[0]} does not start")


def ask(family, place, server):
    """The answer's status, and its body."""
    with connect(family, place, server) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while more := client.recv(65536):
            answer += more
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


def tell(answers, log):
    """All went well: what was answered. Else it ends in failure, with the statuses and the server's log on stderr."""
    if any(status != 200 for status, _ in answers):
        sys.exit("\n".join([*(str(status) for status, _ in answers), *log]))
    sys.stdout.write("".join(body for _, body in answers))
