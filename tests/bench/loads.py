"""Real servers under real load generators, with something in between or nothing. What is measured is answers a second;
the program that is guarded is the load generator, which spends all of its time on calls. It stays on one processor, and
its server on another: where the scheduler puts the two from one run to the next makes more of a difference than what is
measured."""
import contextlib
import csv
import glob
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fixtures.daemons import LOOPBACK, Daemon, Redis  # noqa: E402
from figures import NotMeasured  # noqa: E402

LONGEST_SECONDS = 120
CLIENTS_PROCESSOR, SERVERS_PROCESSOR = (sorted(os.sched_getaffinity(0))[place] for place in (0, -1))


@contextlib.contextmanager
def on_processor(processor):
    """What is started meanwhile stays on that one."""
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)


class Server(Daemon):
    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def ready(self):
        try:
            socket.create_connection((LOOPBACK, self.port), 1).close()
            return True
        except OSError:
            return False


class Web(Server):
    """nginx with one worker, and a short answer that needs no file."""

    def argv(self):
        places = "".join(f"{name}_temp_path {self.folder}/{name};" for name in
                         ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return ["nginx", "-e", "stderr", "-c", self.write("conf", f"""
            worker_processes 1; daemon off; pid {self.folder}/pid; error_log stderr; events {{}}
            http {{ access_log off; keepalive_requests 1000000000; {places}
                server {{ listen {LOOPBACK}:{self.port} backlog=511; location / {{ return 200 "good\\n"; }} }} }}""")]


class Hop(Server):
    def __init__(self, origin):
        self.origin = origin
        super().__init__()


class Haproxy(Hop):
    """As it comes: a thread for each processor."""

    def argv(self):
        return ["haproxy", "-f", self.write("conf", f"""
defaults
    mode tcp
    timeout connect 10s
    timeout client 1m
    timeout server 1m
listen hop
    bind {LOOPBACK}:{self.port}
    server origin {LOOPBACK}:{self.origin.port}
""")]


class NginxStream(Hop):
    """A worker for each processor."""

    def argv(self):
        module = "".join(f"load_module {path};" for path in glob.glob("/usr/lib/nginx/modules/ngx_stream_module.so"))
        return ["nginx", "-e", "stderr", "-c", self.write("conf", f"""
            {module} worker_processes auto; daemon off; pid {self.folder}/pid; error_log stderr; events {{}}
            stream {{ server {{ listen {LOOPBACK}:{self.port}; proxy_pass {LOOPBACK}:{self.origin.port}; }} }}""")]


class Load:
    """One load generator, and the server that it is for."""

    server = Web

    def argv(self, port, seconds, rate):
        """`rate`: about how many answers a second there are."""
        raise NotImplementedError

    def answers(self, output):
        """How many there were, and how many a second."""
        raise NotImplementedError

    def generate(self, argv, env, seconds):
        """Runs the load generator, which ends by itself. Returns its exit status, output and errors."""
        done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LONGEST_SECONDS, check=False)
        return done.returncode, done.stdout, done.stderr

    def run(self, env, port, seconds, rate):
        """Answers a second, and microseconds of the load generator's own processor time for each."""
        argv, before = self.argv(port, seconds, rate), processor_seconds()
        try:
            with on_processor(CLIENTS_PROCESSOR):
                status, output, errors = self.generate(argv, env, seconds)
        except FileNotFoundError as error:
            raise NotMeasured(f"there is no {error.filename}") from None
        try:
            count, found = self.answers(output)
        except (LookupError, TypeError, ValueError):
            raise RuntimeError(f"{argv} ended with {status}: {output} {errors}") from None
        return found, (processor_seconds() - before) * 1e6 / count


def processor_seconds():
    """Of the programs that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class EachConnection(Load):
    """A connection for each request."""

    def argv(self, port, seconds, rate):
        return ["ab", "-q", "-c", "10", "-n", str(max(100, int(rate * seconds))), f"http://{LOOPBACK}:{port}/"]

    def answers(self, output):
        re.search(r"(?m)^Failed requests: +0$", output)[0]
        return (int(re.search(r"(?m)^Complete requests: +(\d+)", output)[1]),
                float(re.search(r"(?m)^Requests per second: +([\d.]+)", output)[1]))


class KeptAlive(Load):
    """It counts whole seconds alone, and ends at once when it is told to."""

    def argv(self, port, seconds, rate):
        return ["wrk", "-t", "1", "-c", "20", "-d", f"{LONGEST_SECONDS}s", f"http://{LOOPBACK}:{port}/"]

    @staticmethod
    def stop(process):
        """It must be told again where it heard it on the way to its sleep: that alone would not end."""
        for _ in range(LONGEST_SECONDS):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=1)
        return process.communicate(timeout=1)

    def generate(self, argv, env, seconds):
        """On a machine that is so busy that it has not begun by then, it is given more time."""
        while True:
            with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                output, errors = self.stop(process)
            has_begun = re.search(r"[1-9]\d* requests in", output)
            if has_begun or process.returncode not in (0, -signal.SIGINT) or seconds > LONGEST_SECONDS:
                return process.returncode, output, errors
            seconds *= 2

    def answers(self, output):
        if "Socket errors" in output or "Non-2xx" in output:
            raise ValueError
        return (int(re.search(r"(\d+) requests in", output)[1]),
                float(re.search(r"(?m)^Requests/sec: +([\d.]+)", output)[1]))


class Pings(Load):
    server = Redis

    def argv(self, port, seconds, rate):
        self.count = max(1000, int(rate * seconds))
        return ["redis-benchmark", "-h", LOOPBACK, "-p", str(port), "-t", "ping_mbulk", "-c", "20", "--csv",
                "-n", str(self.count)]

    def answers(self, output):
        return self.count, float(list(csv.reader(output.splitlines()))[-1][1])


def play_fleet(program, hosts, brief):
    """What fleet_hosts.c tells of so many hosts, half of which call, against a Redis of their own."""
    # All is well for longer than a host is silent between what it says (3 s).
    phases = ("4", "3", "7") if brief else ("4", "8", "12")
    if not os.path.exists(program):
        raise NotMeasured("built without libev or hiredis")
    redis = Redis()
    try:
        result = subprocess.run([program, f"redis+unix:{redis.path}", str(hosts), str(hosts // 2 + 1), "1", *phases],
                                capture_output=True, text=True, timeout=LONGEST_SECONDS)
    finally:
        redis.stop()
    told = json.loads(result.stdout) if result.returncode == 0 else {}
    if not told or told["trouble"]:
        raise NotMeasured(told.get("trouble") or result.stderr.strip() or f"exit status {result.returncode}")
    return told
