"""What the library costs: the rows, in their order. scripts/bench builds what this needs, and says what it heeds."""
import functools
import os
import re
import subprocess
import sys
import tempfile

from figures import NotMeasured, Table, alternate
from loads import SERVERS_PROCESSOR, EachConnection, Haproxy, KeptAlive, NginxStream, Pings, on_processor, play_fleet
from sampling import sample, system_calls

BUILD = os.environ["BUILD"]
AGAINST = os.environ.get("AGAINST")
ROUNDS = int(os.environ.get("ROUNDS", "5"))
OTHERS = int(os.environ.get("OTHERS", "1000"))
ONLY = re.compile(os.environ.get("ONLY", ""))
SLICE_SECONDS = float(os.environ.get("SLICE", "0.3"))
NAMES = "twins=127.0.0.1,127.0.0.2"  # a name with two addresses; see the policy of `pending`

ALL = "match = 127.0.0.1:*\n"
POLICIES = {
    "tracked": f"[all]\n{ALL}",
    "untracked": "[elsewhere]\nmatch = 127.0.0.99:1\n",
    # Opens at the first refusal, and stays so.
    "open": f"[all]\n{ALL}failure_threshold = 1\nreset_timeout = 1h\nreset_timeout_max = 1h\n",
}


def targets(count):
    return "".join(f"[t{port}]\nmatch = 10.0.0.1:{port}\n" for port in range(1, count + 1)) + f"[all]\n{ALL}"


def patterns(count):
    hosts = "".join(f" \\\n host{number}.example:80" for number in range(1, count + 1))
    return f"[all]\nmatch = 127.0.0.1:*{hosts}\n"


# The call, what is put beside it, how many at the most, the walk of sampler.c, and the policy if it is a special one.
GROWING = (
    ("connect", "processes attached", OTHERS, "processes", None),
    ("connect", "circuits known", 4 * OTHERS + 96, "circuits", None),
    ("connect", "targets in the policy", OTHERS, "targets", targets),
    ("connect", "descriptors open", 100 * OTHERS, "descriptors", None),
    ("connect, dup, close", "connections held", OTHERS, "connections", None),
    ("connect", "sockets with a dup", OTHERS, "duplicates", None),
    ("connect", "calls just overdue", OTHERS, "overdue", lambda _: f"[all]\n{ALL}response_timeout = 1s\n"),
    ("close of an attempt", "attempts pending", OTHERS, "pending",
     lambda _: "[all]\nmatch = twins:*\nabandon_after = 50ms\n"),
    ("refusal by max_connections", "holders", OTHERS, "holders",
     lambda count: f"[all]\n{ALL}max_connections = {count}\n"),
    ("start of true", "patterns in a match", OTHERS, "patterns", patterns),
)
FROM_A_TENTH = ("overdue",)  # not beside one other: a call charges up to so many
MOST = {"patterns": 4}  # which are all read at the start
LIVES_OF_GROWTH = 2
# For the processes of all lives: a new one asks but a few others whether they are dead, and passes unguarded where they
# are not.
PLACES = min((LIVES_OF_GROWTH + 1) * OTHERS + 100, 4000)


class Bench:
    def __init__(self, folder, table):
        self.folder, self.table = folder, table
        self.sampler = os.path.join(BUILD, "tests/bench/sampler")
        for name, text in POLICIES.items():
            self.write(name, text)
        self.clock = self.write("clock", "\0" * 8)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def environment(self, name, policy, build=BUILD):
        """Of a process that is guarded under a policy (None: bare), in a segment of its own."""
        own = {"SOCKFUSE_STATE": os.path.join(self.folder, f"state-{name}"), "SOCKFUSE_NAMES": NAMES}
        if policy:
            own.update(LD_PRELOAD=os.path.join(build, "libsockfuse.so"), SOCKFUSE_POLICY=policy)
        return {**os.environ, **own}

    def bare(self, policy):
        """What stands in the place of bare."""
        return self.environment("against", policy, AGAINST) if AGAINST else self.environment("bare", None)

    def guarded(self, policy):
        return self.environment("guarded", policy)

    def row(self, what, measure, of=""):
        """One row, if it is asked for; measure() makes it. `of`: what it stands below."""
        if not ONLY.search(of + what):
            return
        try:
            measure()
        except NotMeasured as why:
            self.table.not_measured(what, why)

    # a call

    def price(self, what, walk, policy, **wanted):
        def measure():
            path, argv = os.path.join(self.folder, policy), [self.sampler, walk, "0"]
            found = sample((argv, self.bare(path)), (argv, self.guarded(path)), 6 * ROUNDS, lives=6)
            self.table.ratios(what, found, **({} if AGAINST else wanted))
        self.row(what, measure)

    def prices(self):
        self.table.head("one call, ns", *NAMED)
        self.price("send + recv, descriptor of no target", "exchange", "untracked", most=1.03)
        self.price("send + recv, kept connection", "exchange", "tracked")
        self.price("connect + close", "connection", "tracked")
        self.price("connect that is refused: by the kernel, by us", "refusal", "open", most=0.5)

    def start(self):
        self.table.head("a program, us", *NAMED)
        what = "start and end of true"

        def measure():
            path, argv = os.path.join(self.folder, "tracked"), [self.sampler, "start", "0"]
            found = sample((argv, self.bare(path)), (argv, self.guarded(path)), 20 * ROUNDS, lives=4)
            self.table.ratios(what, found, most_more=300, unit=1000)
        self.row(what, measure)

    # system calls

    def calls(self, what, walk, calls, policy, most_more):
        def measure():
            path, argv = os.path.join(self.folder, policy), [self.sampler, walk, "0"]
            self.table.count(what, system_calls(argv, self.bare(path), calls),
                             system_calls(argv, self.guarded(path), calls), most_more)
        self.row(what, measure)

    def system_calls(self):
        self.table.head("system calls", *NAMED)
        self.calls("send + recv, descriptor of no target: calls", "exchange", 9 * 64, "untracked", 0)
        self.calls("send + recv, kept connection: calls", "exchange", 9 * 64, "tracked", 0)
        self.calls("connection, from socket to close: calls", "connection", 64, "tracked", 2)
        self.calls("refusal, with socket and close: calls", "refusal", 64, "open", -1)

    # what must not grow

    def grows(self, call, kind, many, walk, make_policy):
        few = many // 10 if walk in FROM_A_TENTH else 1
        what = f"{call}; {few:,} / {many:,} {kind}"

        def policy(count):
            text = (make_policy or (lambda _: POLICIES["tracked"]))(count)
            return self.write(f"{walk}-{count}", "[defaults]\nfailure_threshold = 0\nfailure_rate = 0\n"
                              f"capacity = {many + 100} circuits {PLACES} processes\n{text}")

        def side(count):
            env = self.environment(f"{walk}-{count}", policy(count))
            return [self.sampler, walk, str(count)], {**env, **({"SOCKFUSE_CLOCK": self.clock} if few > 1 else {})}

        def measure():
            self.table.ratios(what, sample(side(few), side(many), 4 * ROUNDS, LIVES_OF_GROWTH), most=MOST.get(walk, 1.5))
        if not ONLY.search(what):
            return
        try:
            measure()
        except NotMeasured as why:
            if walk == "descriptors" and many > 1000:
                self.grows(call, kind, many // 10, walk, make_policy)  # as many as this machine allows
            else:
                self.table.not_measured(what, why)

    def growth(self):
        self.table.head("one guarded call, ns; beside few / beside many", "few", "many")
        for row in GROWING:
            self.grows(*row)

    # loads

    def load(self, name, kind, least):
        cost = "  its processor time for one, us"
        hops = {f"  {what} in between": hop for what, hop in (("HAProxy", Haproxy), ("nginx stream", NginxStream))}
        if not any(ONLY.search(row) for row in (name, *(name + row for row in (cost, *hops)))):
            return
        load, started, path = kind(), [], os.path.join(self.folder, "tracked")

        def slices(port, env):
            """Runs the load for a moment."""
            return functools.partial(load.run, env, port, SLICE_SECONDS, rate)

        def start(what, *arguments):
            started.append(what(*arguments))
            return started[-1].port

        def pairs_of(one, other, count):
            alternate(one, other, 1)  # warms up
            return alternate(one, other, count)

        def measure():
            pairs = pairs_of(slices(port, self.bare(path)), slices(port, self.guarded(path)), 10 * ROUNDS)
            rates, costs = ([(one[i], other[i]) for one, other in pairs] for i in (0, 1))
            self.table.ratios(name, rates, least=None if AGAINST else least)
            self.table.ratios(cost, costs)

        def measure_hop(what, hop):
            between, bare = start(hop, started[0]), self.environment("bare", None)
            pairs = pairs_of(slices(port, bare), slices(between, bare), ROUNDS)
            self.table.ratios(what, [(one[0], other[0]) for one, other in pairs])
            started.pop().stop()

        try:
            with on_processor(SERVERS_PROCESSOR):
                port, rate = start(load.server), 1000
            rate = slices(port, self.environment("bare", None))()[0]  # by which each slice is told how many it is for
            self.row(name, measure)
            for what, hop in hops.items() if not AGAINST else ():
                self.row(what, functools.partial(measure_hop, what, hop), of=name)
        except (NotMeasured, FileNotFoundError) as why:
            self.table.not_measured(name, why)
        finally:
            for daemon in reversed(started):
                daemon.stop()

    def loads(self):
        self.table.head("answers a second; guarded is the client", *NAMED)
        self.load("ab -c 10: nginx, a connection each", EachConnection, 0.95)
        self.load("wrk -c 20: nginx, kept alive", KeptAlive, 0.99)
        self.load("redis-benchmark -c 20: redis, PING", Pings, 0.98)


    # many hosts

    def fleet(self):
        """Played by one process against one Redis (fleet_hosts.c): up for a while, down, up again; half of them call."""
        what, hosts, found = f"{OTHERS:,} hosts: ", max(OTHERS, 3), {}

        def play():
            if not found:
                found.update(play_fleet(os.path.join(BUILD, "tests/bench/fleet_hosts"), hosts, brief=ROUNDS < 2))
            return found

        def spreads(which):
            told = play()[which]
            if told["missing"]:
                raise NotMeasured(f"{told['missing']} of {hosts} hosts never heard")
            self.table.ratios(what + NAMES_OF_SPREAD[which], [(told["p50_ms"], told["p99_ms"])])

        def commands():
            told = play()["commands_a_second"]
            self.table.ratios(what + "commands a second", [(told["quiet"], told["down"])])

        self.table.head("a fleet, one Redis", "all is well", "one open")
        self.row(what + "commands a second", commands)
        self.table.head("a fleet, one Redis: ms until so many know", "p50", "p99")
        for which, name in NAMES_OF_SPREAD.items():
            self.row(what + name, functools.partial(spreads, which))


NAMES_OF_SPREAD = {"spread": "an opening", "heal": "a healing"}
NAMED = ("against", "now") if AGAINST else ("bare", "with")


def main():
    version = subprocess.run([os.path.join(BUILD, "sockfuse"), "--version"], capture_output=True, text=True,
                             check=True).stdout.split()[-1]
    print(f"sockfuse {version}, {ROUNDS} rounds, {os.cpu_count()} processors, Linux {os.uname().release}\n"
          "Medians of pairs that ran side by side; the ratio is the median of the pairs' own ratios, and half of them"
          " lie in the middle half.")
    table = Table(functools.partial(print, flush=True))
    with tempfile.TemporaryDirectory(prefix="sockfuse-bench.") as folder:
        bench = Bench(folder, table)
        bench.prices()
        bench.start()
        bench.loads()
        bench.system_calls()
        if not AGAINST:
            bench.growth()
            bench.fleet()
    if table.end():
        print(table.end(), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
