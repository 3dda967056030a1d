"""What a request and its answer cost, counted in instructions: on any machine the same, where a time is not."""
import collections
import itertools
import json
import os
import re
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BARE, BUILD, PRELOAD, SOCKFUSE, ParallelSuite, Sandbox, Terminal, in_parallel,  # noqa: E402
                      require_build)

SAMPLER = BUILD / "tests/bench/sampler"
PAIRS = 9 * 64  # of a send and a receive in each of its samples
CONNECTIONS = 64

setUpModule = require_build
load_tests = ParallelSuite.load(2)


class Instructions(unittest.TestCase):
    def count(self, sandbox, how, samples, walk="exchange", others=0, program=None):
        result = sandbox.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
                              *(program or (SAMPLER, walk, others))], how, stdin=b"?" * samples)
        self.assertEqual(result.status, 0, result)
        return int(re.search(r"Collected : (\d+)", result.stderr)[1])

    def more(self, policy, walk="exchange", calls=PAIRS):
        """How many more a guarded call takes than a bare one, without start and end."""
        sandbox = Sandbox(self)
        sandbox.policy(policy)
        few, many, few_bare, many_bare = in_parallel(
            (lambda how=how, samples=samples: self.count(sandbox, how, samples, walk))
            for how in (PRELOAD, BARE) for samples in (1, 7))
        return ((many - few) - (many_bare - few_bare)) / (6 * calls)

    def test_a_process_that_never_connects_begins_and_ends_with_few(self):
        sandbox = Sandbox(self)
        sandbox.policy("[all]\nmatch = 127.0.0.1:*\n")
        self.count(sandbox, PRELOAD, 0, program=("true",))  # makes the segment
        more = self.count(sandbox, PRELOAD, 0, program=("true",)) - self.count(sandbox, BARE, 0, program=("true",))
        self.assertLess(more, 230_000)  # half of them are the loader's

    def test_a_start_asks_the_kernel_for_little_and_proc_for_nothing_of_itself(self):
        """For each more there has to be a reason (src/README.md, A start): what is made lasts for microseconds."""
        sandbox = Sandbox(self)
        sandbox.policy("[all]\nmatch = 127.0.0.1:*\n")
        path = os.path.join(sandbox.folder, "trace")

        def trace(how):
            result = sandbox.run(["strace", "-o", path, "true"], how)
            self.assertEqual(result.status, 0, result)
            with open(path, encoding="utf-8") as file:
                return file.read()
        sandbox.run(["true"], PRELOAD)  # makes the segment, and asks for all
        # One that is kept waiting between two looks at the clock asks /proc what time it is.
        text = min((trace(PRELOAD) for _ in range(10)), key=lambda text: text.count("/proc/"))
        self.assertEqual(sorted(re.findall(r'"(/proc[^"]*)"', text)),
                         ["/proc", "/proc/self", "/proc/sys/kernel/random/boot_id"])
        more, bare = (collections.Counter(re.findall(r"(?m)^(\w+)\(", lines)) for lines in (text, trace(BARE)))
        more -= bare
        self.assertLessEqual(more.total() - more["clock_gettime"], 51, more)  # ten of them are the loader's
        self.assertLessEqual(more["clock_gettime"], 12)
        for name in ("utimensat", "getdents64", "readlink", "statx", "ioctl", "flock"):
            self.assertLessEqual(more[name], 1 if name in ("readlink", "statx") else 0, more)

    def test_a_start_touches_few_pages(self):
        """Each page that a process is given takes a microsecond or more, and another one when it ends."""
        sandbox = Sandbox(self)
        sandbox.policy("[all]\nmatch = 127.0.0.1:*\n")
        environments = {how: {**os.environ, **sandbox.environment(how)} for how in (PRELOAD, BARE)}
        faults = {PRELOAD: [], BARE: []}
        for _ in range(25):
            for how, environment in environments.items():
                pid = os.posix_spawnp("true", ["true"], environment)
                _, status, usage = os.wait4(pid, 0)
                self.assertEqual(status, 0)
                faults[how].append(usage.ru_minflt)
        # Where things lie changes it by some; 24 and more where each function lies where its file is.
        self.assertLess(min(faults[PRELOAD]) - min(faults[BARE]), 23, faults)

    def test_a_report_of_many_short_processes_grows_with_them(self):
        """A job that starts a program for each call: an outage has as many processes as failures."""
        sandbox = Sandbox(self)

        def count(processes):
            path = os.path.join(sandbox.folder, f"{processes}.json")
            about = {"policy": "/p", "owner": "u", "target": "t", "destination": "a:1", "program": "curl"}
            with open(path, "w", encoding="ascii") as file:
                for i in range(processes):
                    time = {"time": f"2026-01-01T00:{i // 60000:02}:{i // 1000 % 60:02}.{i % 1000:03}Z", "pid": i + 1}
                    seen = {"event": "failure", "kind": "refused", "late": True, "elapsed_ms": 5} if i else \
                        {"event": "open", "from": "closed", "to": "open", "reason": "failure-threshold"}
                    print(json.dumps({**time, **about, **seen}), file=file)
            return self.count(sandbox, BARE, 0, program=(SOCKFUSE, "report", "-o", "-", path))

        few, many = in_parallel((lambda count_of=count_of: count(count_of)) for count_of in (1000, 8000))
        self.assertLess(many, 12 * few)

    def test_an_admission_costs_the_same_whatever_else_there_is(self):
        """A connect that its peer refuses: beside one and beside many circuits, descriptors and targets."""
        many = 1000
        head = f"[defaults]\nfailure_threshold = 0\nfailure_rate = 0\ncapacity = {many + 100} circuits\n"
        all_ = "[all]\nmatch = 127.0.0.1:*\n"
        targets = "".join(f"[t{i}]\nmatch = 10.0.0.1:{i + 1}\n" for i in range(many))

        def cost(walk, others, policy):
            sandbox = Sandbox(self)
            sandbox.policy(policy)
            few, more = (self.count(sandbox, PRELOAD, samples, walk, others) for samples in (2, 12))
            return more - few
        for walk, policy, much in (("circuits", head + all_, head + all_), ("descriptors", head + all_, head + all_),
                                   ("targets", head + all_, head + targets + all_)):
            with self.subTest(walk):
                one, beside = in_parallel((lambda: cost(walk, 1, policy), lambda: cost(walk, many, much)))
                self.assertLess(beside, 1.1 * one, one)
                if walk == "circuits":
                    self.assertLess(one, 6_000_000)  # 6.5 million if all is looked up anew each time

    def test_it_costs_nothing_that_somebody_looks_on(self):
        """All the time, with each command that shows what happens; top on a terminal."""
        sandbox = Sandbox(self, clock=True)
        sandbox.policy("[all]\nmatch = 127.0.0.1:*\nresponse_timeout = 10s\n")
        path = os.path.join(sandbox.folder, "trace")

        def instructions():
            few, many = in_parallel((lambda samples=samples: self.count(sandbox, PRELOAD, samples))
                                    for samples in (1, 7))
            return many - few

        def system_calls():
            result = sandbox.run(["strace", "-o", path, SAMPLER, "exchange", 0], PRELOAD, stdin=b"?" * 7)
            self.assertEqual(result.status, 0, result)
            with open(path, encoding="utf-8") as file:
                lines = file.read()
            between = lines[lines.index("read(0,"):lines.rindex("read(0,")]  # neither its start nor its end
            # By real time, whether its segment is still there: with some stat.
            return collections.Counter(name for name in re.findall(r"(?m)^(\w+)\(", between) if "stat" not in name)
        self.count(sandbox, PRELOAD, 0)  # makes the segment
        alone, alone_asks = instructions(), system_calls()
        terminal = Terminal(self, sandbox, width=120)
        terminal.command(SOCKFUSE, "top", "--interval", "100ms")
        terminal.wait_for("calls/s")
        over, looks = threading.Event(), collections.Counter()

        def look():
            for words in itertools.cycle((["status"], ["status", "all"], ["calls"], ["calls", "--tree"], ["events"],
                                          ["explain", "all"], ["metrics"], ["status", "--check"])):
                if over.is_set():
                    return
                looks[sandbox.sockfuse(*words).status] += 1
        looker = threading.Thread(target=look)
        looker.start()
        try:
            watched, watched_asks = instructions(), system_calls()
        finally:
            over.set()
            looker.join(60)
        self.assertGreater(looks[0], 8)
        self.assertEqual(watched_asks, alone_asks)
        # A call takes some 350: four. Two runs that nobody looks at differ by a third of one.
        self.assertLess(watched, 1.01 * alone)

    def test_an_untracked_descriptor_costs_next_to_nothing(self):
        self.assertLess(self.more("[elsewhere]\nmatch = 127.0.0.99:1\n"), 40)

    def test_a_connection_for_each_request_goes_the_short_way(self):
        """From connect to close, with a request and its answer."""
        for keys in ("", "response_timeout = 10s\n"):
            with self.subTest(keys):
                more = self.more(f"[all]\nmatch = 127.0.0.1:*\n{keys}", "connection", CONNECTIONS)
                self.assertTrue(2000 < more < 3880, f"{more} (the long way takes above 6000)")

    def test_a_connection_runs_through_few_pages_of_code(self):
        """The kernel's work has pushed them out of the caches: so they lie side by side (preload/order.ld)."""
        def fresh():
            """Nobody was here before: else the two runs below would differ by which of them made the segment."""
            sandbox = Sandbox(self, clock=True)  # nor by what is seen to each second
            sandbox.policy("[all]\nmatch = 127.0.0.1:*\n")
            return sandbox
        library = str(BUILD / "libsockfuse.so")
        maps = fresh().run(["valgrind", "--tool=none", "cat", "/proc/self/maps"], PRELOAD)
        begin, end = (int(number, 16) for number in
                      re.search(rf"(?m)^(\w+)-(\w+) r-xp .*{re.escape(library)}$", maps.stdout).groups())

        def pages(samples):
            """How often each was used."""
            traced = fresh().run(["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-file=/dev/stdout",
                                  SAMPLER, "connection", "0"], PRELOAD, stdin=b"?" * samples)
            at = (int(address, 16) for address in re.findall(r"(?m)^I  (\w+),", traced.stdout))
            return collections.Counter((address - begin) // 4096 for address in at if begin <= address < end)
        few, many = in_parallel((lambda samples=samples: pages(samples)) for samples in (1, 3))
        often = sorted(page for page, times in (many - few).items() if times >= 2 * CONNECTIONS)
        self.assertTrue(5 < len(often) < 24, often)  # 26 where HOT alone is in order, above 36 where nothing is

    def test_a_kept_connection_goes_the_short_way(self):
        for keys in ("", "response_timeout = 10s\n", "slow_call = 1s\n", "failure_rate = 0\n"):
            with self.subTest(keys):
                more = self.more(f"[all]\nmatch = 127.0.0.1:*\n{keys}")
                self.assertTrue(200 < more < 700, f"{more} (the long way takes above 900)")


if __name__ == "__main__":
    unittest.main()
