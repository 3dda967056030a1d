"""The rows: how each program is called, and what it is like.

A command is a function of (server, timeout, count) -> command line: `timeout` is the program's own, in seconds, `count`
how many requests it makes over one connection. Certificates are trusted by the environment where that serves.
"""
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field

from fixtures import CERTIFICATES, CLIENTS, JAVA_TRUST, PYTHON, Dropbear, Postgres, Redis, Shared

UNIX, IPV6 = socket.AF_UNIX, socket.AF_INET6
HTTP_REQUEST = b"GET / HTTP/1.0\r\n\r\n"
REFUSED = "Connection refused"
# It has two timers for a connection, and says of its timeout what the one says that comes first.
CURL_TIMES = (r"Connection (timed out|timeout) after \d+ m(illi)?s(econds)?|SSL connection timeout"
              r"|Failed to connect to \S+ port \d+ after \d+ ms: Timeout was reached", r"after \d+ m(illi)?s(econds)?")
# Its two timers run side by side, too, and on a busy machine its handshake may take as long as they do.
JAVA_TIMES = (r"HttpTimeoutException: request timed out|HttpConnectTimeoutException: HTTP connect timed out",)
WGET_TIMES = (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",)
# What TLS libraries print of memory and of keys that are new each time.
SESSION_SECRETS = (r"\b[0-9A-F]{8,}\b:error",)

# How much of TLS the library can see of a program.
SEEN, INSIDE, NONE = "seen", "inside", "none"


@dataclass(frozen=True)
class Program:
    """refused: its own words for it. times: what it prints of the clock, left out of comparisons. timeout: its own in
    seconds, None when it has none; slow_tls: as much again for a handshake. hangs: the scenarios in which its timeout
    does not help."""

    name: str
    command: object
    refused: str = REFUSED
    family: int = socket.AF_INET
    protocol: str = "http"
    timeout: object = 1
    slow_tls: int = 0
    hangs: tuple = ()
    times: tuple = ()
    stdin: bytes = b""
    tls: str = NONE
    only_tls: bool = False
    again: bool = False  # it can make several requests over one connection
    called: str = None  # where the command line's first word is another's
    environment: dict = field(default_factory=dict)

    def is_called(self, command, tls):
        """Its name in the status."""
        name = self.called or command[0].rsplit("/", 1)[-1]
        return name + "s" if tls and name == "git-remote-http" else name


class JavaClasses:
    """The Java clients, compiled once: to run them from source costs a second each time."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sf-")
        subprocess.run(["javac", "-nowarn", "-d", self.folder, *(str(path) for path in CLIENTS.glob("*.java"))],
                       check=True)

    def stop(self):
        shutil.rmtree(self.folder)


class Compiled:
    """A client in C."""

    def __init__(self, name, *options):
        self.folder = tempfile.mkdtemp(prefix="sf-")
        self.path = f"{self.folder}/{name}"
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", self.path, CLIENTS / f"{name}.c", *options],
                       check=True)

    def stop(self):
        shutil.rmtree(self.folder)


POSTGRES, REDIS, SSH, JAVA = Shared(Postgres), Shared(Redis), Shared(Dropbear), Shared(JavaClasses)
# No preload can enter the first one.
STATIC = Shared(lambda: Compiled("static_get", "-static"))
HIREDIS = Shared(lambda: Compiled("hiredis_ask", "-lhiredis"))
DAEMONS = {"postgres": POSTGRES, "redis": REDIS, "ssh": SSH}


def several(count):
    """The last word of those clients of ours that can make several requests."""
    return [count] if count > 1 else []


def curl(server, timeout, count=1):
    if server.family == UNIX:
        return ["curl", "-sS", "--max-time", timeout, "--unix-socket", server.path, "http://localhost/"]
    return ["curl", "-sS", "--max-time", timeout, *[server.url] * count]


def wget(server, timeout, count=1):
    trust = ["--ca-certificate", CERTIFICATES.get().authority] if server.secure else []
    return ["wget", "-nv", "-O", "-", "-t", "1" if count == 1 else "2", "-T", timeout, *trust, *[server.url] * count]


def busybox_wget(server, timeout, count=1):
    del timeout, count
    return ["busybox", "wget", "-q", "-O", "-", server.url]


def script(interpreter, name, unit=1):
    return lambda server, timeout, count=1: [*interpreter, CLIENTS / name, server.url, timeout * unit, *several(count)]


def asyncio_streams(server, timeout, count=1):
    del count
    return [PYTHON, CLIENTS / "asyncio_get.py", server.address, server.port, timeout]


def java(name):
    def command(server, timeout, count=1):
        trust = JAVA_TRUST.get().options() if server.secure else []
        return ["java", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+UseSerialGC", *trust, "-cp",
                JAVA.get().folder, name, server.url, timeout * 1000, *several(count)]
    return command


def php(name, unit):
    def command(server, timeout, count=1):
        trust = ["-d", f"openssl.cafile={CERTIFICATES.get().authority}"] if server.secure else []
        return ["php", "-d", "display_errors=stderr", "-d", "log_errors=0", *trust, CLIENTS / name, server.url,
                timeout * unit, *several(count)]
    return command


def psql(server, timeout, count=1):
    host, port = server.address, getattr(server, "port", None)
    if server.family == UNIX:
        host, port = server.path.rsplit("/.s.PGSQL.", 1)
    return ["env", f"PGCONNECT_TIMEOUT={timeout}", "PGSSLMODE=disable", "psql", "-X", "-At", "-h", host, "-p", port,
            "-U", "postgres", "-d", "postgres", *["-c", "select 'hello'"] * count]


def redis_cli(server, timeout, count=1):
    del timeout, count
    if server.family == UNIX:
        return ["redis-cli", "-s", server.path, "PING"]
    return ["redis-cli", "-h", server.address, "-p", server.port, "PING"]


def hiredis(server, timeout, count=1):
    del count
    place = [server.destination] if server.family == UNIX else [server.address, server.port]
    return [HIREDIS.get().path, timeout, *place]


def nc(server, timeout, count=1):
    del count
    if server.family == UNIX:
        return ["nc", "-v", "-N", "-w", timeout, "-U", server.path]
    return ["nc", "-v", "-N", "-w", timeout, server.address, server.port]


def ssh(server, timeout, count=1):
    del count
    return ["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR",
            "-o", "UserKnownHostsFile=/dev/null", "-o", f"ConnectTimeout={timeout}", "-i", SSH.get().key,
            "-p", server.port, server.address, "echo hello"]


def git(server, timeout, count=1):
    """Two requests in any case: what the server has, and its HEAD."""
    del count
    trust = ["-c", f"http.sslCAInfo={CERTIFICATES.get().authority}"] if server.secure else []
    return ["git", "-c", "http.lowSpeedLimit=1000", "-c", f"http.lowSpeedTime={timeout}", *trust, "ls-remote",
            server.url + "repository"]


def s_client(server, timeout, count=1):
    del timeout, count
    return ["openssl", "s_client", "-quiet", "-verify_return_error", "-CAfile", CERTIFICATES.get().authority,
            "-connect", f"{server.address}:{server.port}"]


def gnutls_cli(server, timeout, count=1):
    del timeout, count
    return ["gnutls-cli", "--logfile=/dev/null", "--x509cafile", CERTIFICATES.get().authority, "-p", server.port,
            server.address]


def nginx(server, timeout, count=1):
    """One call is one request to it."""
    upstream = server.destination if server.family == UNIX else server.url
    return [PYTHON, CLIENTS / "nginx_get.py", upstream, timeout, *several(count)]


def apache(server, timeout, count=1):
    """One call is one request to it."""
    return [PYTHON, CLIENTS / "apache_get.py", server.url, timeout, *several(count)]


def killed(server, timeout, count=1):
    """curl without a timeout of its own, ended from outside."""
    del count
    return ["timeout", timeout, "curl", "-sS", server.url]


def static(server, timeout, count=1):
    del timeout, count
    return [STATIC.get().path, server.address, server.port]


COULD_NOT = "connect to server"  # what an older curl "couldn't" and a newer one "could not"

PROGRAMS = [
    Program("curl", curl, COULD_NOT, times=CURL_TIMES, tls=SEEN, again=True),
    Program("curl_ipv6", curl, COULD_NOT, family=IPV6, times=CURL_TIMES),
    Program("curl_unix", curl, COULD_NOT, family=UNIX, times=CURL_TIMES),
    Program("wget", wget, times=WGET_TIMES, tls=SEEN, again=True),
    # Writes and reads by stdio, and has no timeout.
    Program("busybox_wget", busybox_wget, timeout=None),
    Program("python_urllib", script([PYTHON], "urllib_get.py"), tls=SEEN),
    Program("python_urllib_ipv6", script([PYTHON], "urllib_get.py"), family=IPV6),
    Program("python_requests", script([PYTHON], "requests_get.py"), tls=SEEN, again=True),
    Program("python_asyncio", asyncio_streams, "ConnectionRefusedError"),
    # Its timeout runs from before its context has read the certificates.
    Program("python_aiohttp", script([PYTHON], "aiohttp_get.py"), "Cannot connect to host", timeout=2, slow_tls=2,
            tls=INSIDE, again=True),
    Program("python_gevent", script([PYTHON], "gevent_get.py"), tls=SEEN, again=True),
    Program("python_twisted", script([PYTHON], "twisted_get.py"), "Connection was refused", timeout=2, again=True),
    Program("node_http", script(["node"], "http_get.js", 1000), "ECONNREFUSED", timeout=2, tls=INSIDE, again=True),
    Program("node_fetch", script(["node"], "fetch_get.js", 1000), "ECONNREFUSED", timeout=2, tls=INSIDE,
            again=True),
    Program("java_httpurlconnection", java("UrlConnectionGet"), tls=INSIDE, again=True),
    # Its timeout runs from before its own classes are loaded.
    Program("java_httpclient", java("HttpClientGet"), "java.net.ConnectException", timeout=3, slow_tls=3,
            times=JAVA_TIMES, tls=INSIDE, again=True),
    Program("psql", psql, protocol="postgres", timeout=2, called="psql"),
    Program("psql_unix", psql, family=UNIX, protocol="postgres", timeout=2, called="psql"),
    Program("redis_cli", redis_cli, protocol="redis", timeout=None),
    Program("redis_cli_unix", redis_cli, family=UNIX, protocol="redis", timeout=None),
    Program("hiredis", hiredis, protocol="redis", stdin=b"PING\n"),
    Program("hiredis_unix", hiredis, family=UNIX, protocol="redis", stdin=b"PING\n"),
    Program("nc", nc, stdin=HTTP_REQUEST),
    Program("nc_unix", nc, family=UNIX, stdin=HTTP_REQUEST),
    Program("ssh", ssh, protocol="ssh"),
    Program("php_stream", php("stream_get.php", 1), tls=SEEN),
    Program("php_curl", php("curl_get.php", 1000), COULD_NOT, times=CURL_TIMES, tls=SEEN, again=True),
    Program("perl", script(["perl"], "http_tiny_get.pl"), again=True),
    Program("ruby", script(["ruby"], "net_http_get.rb"), "Errno::ECONNREFUSED", tls=SEEN, again=True),
    Program("lua", script(["lua5.3"], "lua_get.lua"), "connection refused"),
    Program("tcl", script(["tclsh"], "http_get.tcl", 1000), "connection refused", again=True),
    Program("git", git, COULD_NOT, protocol="git", times=CURL_TIMES, hangs=("black_hole", "tls_handshake_silent"),
            tls=SEEN, again=True, called="git-remote-http"),
    Program("openssl_s_client", s_client, "errno=111", timeout=None, times=SESSION_SECRETS, stdin=HTTP_REQUEST,
            tls=SEEN, only_tls=True),
    Program("gnutls_cli", gnutls_cli, timeout=None, stdin=HTTP_REQUEST, tls=SEEN, only_tls=True),
    Program("nginx", nginx, tls=SEEN, again=True, called="nginx"),
    Program("nginx_unix", nginx, family=UNIX, called="nginx"),
    # The library's side of TLS writes into buckets, which go to the socket later.
    Program("apache", apache, tls=SEEN, again=True, called="apache2"),
    Program("killed_curl", killed, COULD_NOT, protocol="beyond", times=CURL_TIMES, called="curl"),
    Program("static", static, protocol="beyond"),
]
