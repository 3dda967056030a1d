"""Runs another project's tests bare, guarded, and guarded with enforced limits, and tells whose results differ.

The policy takes every connection into one circuit that nothing opens, so that all is tracked and nothing refused: what
differs then is what the library does to a program that it should leave alone. Each run has a network name space with a
loopback interface and no more, and a folder of its own.

Projects have tests that fail now and then by themselves. So a test whose result differs is run again, bare and guarded,
and counts only if it fails guarded in half of its runs at least, and bare in none.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fixtures.build import LIBRARY, SOCKFUSE  # noqa: E402

BARE, GUARDED, ENFORCED = "bare", "guarded", "enforced"
AGAIN = 3
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POLICY = """[defaults]
failure_threshold = 0
failure_rate      = 0
slow_call_rate    = 0
circuit           = target
{limits}
[everything]
match = *:* unix:*
"""
# Longer than any test of those projects waits for what comes in the end.
LIMITS = "enforce_timeouts = yes\nconnect_timeout = 60s\nresponse_timeout = 60s\n"


class Run:
    """One run of a suite, with a folder of its own and, unless it is bare, the policy."""

    def __init__(self, how, limit):
        self.how, self.limit = how, limit
        self.folder = tempfile.mkdtemp(prefix="sf-suite-")
        self.output = os.path.join(self.folder, "output")
        self.environment = {"PATH": PATH, "HOME": self.folder, "TMPDIR": os.path.join(self.folder, "tmp"),
                            "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
        os.mkdir(self.environment["TMPDIR"])
        self.policy = os.path.join(self.folder, "suite.policy")
        with open(self.policy, "w", encoding="ascii") as file:
            file.write(POLICY.format(limits=LIMITS if how == ENFORCED else ""))

    def guarded(self):
        """What the tests themselves get, and not what starts them."""
        if self.how == BARE:
            return {}
        return {"LD_PRELOAD": str(LIBRARY), "SOCKFUSE_POLICY": self.policy,
                "SOCKFUSE_STATE": os.path.join(self.folder, "state")}

    def execute(self, argv, folder=None, environment=None):
        """Runs the words to their end, or kills them when the time is over; returns the exit status.

        They have a parent of their own in the name space: what is its first process ignores signals, and curl's servers
        take such a parent for one that died.
        """
        words = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "sh",
                 "-c", 'ip link set lo up; env "$@"; exit $?', "enter",
                 *(f"{name}={value}" for name, value in {**self.guarded(), **(environment or {})}.items()),
                 *map(str, argv)]
        with open(self.output, "ab") as output, subprocess.Popen(
                words, env=self.environment, cwd=folder or self.folder, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT) as process:
            try:
                return process.wait(self.limit)
            except subprocess.TimeoutExpired:
                process.kill()
                return process.wait()

    def tracked(self):
        """How many calls were admitted, and how many refused."""
        told = subprocess.run([SOCKFUSE, "status", "--json"], env={**self.environment, **self.guarded(), "LD_PRELOAD": ""},
                              check=True, capture_output=True, text=True, timeout=60).stdout
        counters = [circuit["counters"] for policy in json.loads(told) for circuit in policy["circuits"]]
        return sum(counter["admitted"] for counter in counters), sum(counter["refused"] for counter in counters)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Comparison:
    """What came out for one suite: the sums of its bare results, and the tests that differ by the kind of run."""

    def __init__(self, suite):
        self.name = suite.name
        self.results = {}
        self.differing = {}
        self.again = []
        self.calls = {}
        self.notes = []

    @property
    def holds(self):
        return not self.notes and not any(self.differing.values())

    def report(self):
        """Lines for people."""
        sums = {result: list(self.results[BARE].values()).count(result) for result in ("ok", "failed", "skipped")}
        lines = [f"{self.name}: bare {sums['ok']} ok, {sums['failed']} failed, {sums['skipped']} skipped; calls tracked: "
                 + ", ".join(f"{count} {how}" for how, count in self.calls.items())]
        lines += [f"  unsteady, and no matter of ours: {name}" for name in self.again]
        for how, names in self.differing.items():
            lines += [f"  DIFFERS {how}: {name}" for name in names]
        return lines + [f"  {note}" for note in self.notes]


def run_once(suite, how, names=None):
    """The results by name, and (admitted, refused)."""
    run = Run(how, suite.limit)
    try:
        results = suite.run(run, names)
        return results, (0, 0) if how == BARE else run.tracked()
    finally:
        if os.environ.get("KEEP"):
            print(f"{suite.name}, {how}: {run.output}", file=sys.stderr)
        else:
            run.remove()


def compare(suite, kinds=(GUARDED, ENFORCED)):
    """Runs a suite in all ways, side by side unless it can't be, and then what differs again."""
    comparison = Comparison(suite)
    with ThreadPoolExecutor(suite.workers) as pool:
        runs = {how: pool.submit(run_once, suite, how) for how in (BARE, *kinds)}
        for how, run in runs.items():
            comparison.results[how], (admitted, refused) = run.result()
            if how != BARE:
                comparison.calls[how] = admitted
                if admitted == 0 or refused > 0:
                    comparison.notes.append(f"{how}: {admitted} calls admitted and {refused} refused")
    bare = comparison.results[BARE]
    if "ok" not in bare.values():
        comparison.notes.append("no test passed bare: it could not be run")
    for how in kinds:
        other = comparison.results[how]
        suspects = sorted(name for name in {*bare, *other}
                          if bare.get(name) != other.get(name) and "failed" in (bare.get(name, "failed"),
                                                                                other.get(name, "failed")))
        counted = [name for name in confirm(suite, how, suspects, bare, other)]
        comparison.differing[how] = counted
        comparison.again += [name for name in suspects if name not in counted]
    return comparison


def confirm(suite, how, suspects, bare, other):
    """Those of the suspects that fail guarded, again and again, and never bare."""
    failures = {name: [bare.get(name, "failed") == "failed", other.get(name, "failed") == "failed"] for name in suspects}
    for _ in range(AGAIN if suspects else 0):
        for place, kind in enumerate((BARE, how)):
            results, _ = run_once(suite, kind, suspects)
            for name in suspects:
                failures[name][place] += results.get(name, "failed") == "failed"
    return [name for name in suspects if failures[name][0] == 0 and failures[name][1] * 2 >= AGAIN + 1]
