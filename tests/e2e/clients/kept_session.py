"""A client with a pool: one JSON command a line on stdin, its result as a line.

Usage: kept_session.py requests|urllib3|http.client|redis|unix|expect URL-or-path
"""
import http.client
import json
import socket
import sys
import urllib.parse

kind, url = sys.argv[1:3]
place = urllib.parse.urlsplit(url)


def with_requests():
    import requests
    session = requests.Session()
    return lambda: session.get(url, timeout=20).text


def with_urllib3():
    import urllib3
    pool = urllib3.PoolManager(retries=urllib3.Retry(1, backoff_factor=0))
    return lambda: pool.request("GET", url, timeout=20).data.decode()


def with_http_client():
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=20)

    def ask():
        try:
            connection.request("GET", "/")
            return connection.getresponse().read().decode()
        except OSError:
            connection.close()
            raise
    return ask


def with_redis():
    import redis
    client = redis.Redis(host=place.hostname, port=place.port)
    return lambda: client.get("who").decode()


class WithSocket:
    """One connection, until it fails."""

    def __init__(self):
        self.socket = None

    def say(self, words):
        if self.socket is None:
            is_unix = url.startswith("/")
            self.socket = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
            self.socket.settimeout(20)
            try:
                self.socket.connect(url if is_unix else (place.hostname, place.port))
            except OSError:
                self.socket = None
                raise
        try:
            self.socket.sendall(words)
            return self.socket.recv(4096).decode()
        except OSError:
            self.socket.close()
            self.socket = None
            raise


def with_unix():
    client = WithSocket()
    return lambda: client.say(b"who").split()[-1]


def with_expect():
    """Two answers to each request: that to its head is not the one."""
    client = WithSocket()
    parts = []

    def ask():
        if not parts:
            parts.extend([b"PUT / HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n", b"body"])
        try:
            return client.say(parts.pop(0)).split("\r\n")[0 if parts else -1]
        except OSError:
            parts.clear()
            raise
    return ask


ask = {"requests": with_requests, "urllib3": with_urllib3, "http.client": with_http_client, "redis": with_redis,
       "unix": with_unix, "expect": with_expect}[kind]()
for line in sys.stdin:
    try:
        result = {"body": ask(), "error": None}
    except Exception as error:
        result = {"body": None, "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(result), flush=True)
