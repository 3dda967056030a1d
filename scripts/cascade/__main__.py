"""The cascade, on the screen: a silent service takes down a page that does not even need it, unless its circuit opens.

    make cascade              in a minute and a half; what it writes is in build/cascade
    OUTAGE=40 make cascade    with a longer outage (seconds)

A pre-forking server of 32 workers has two pages, each of which calls a service of its own. Under a steady stream of
visitors one of the services falls silent, for a while. That is done three times in one run: without sockfuse, with a
circuit of each process for itself (scope = process), and with circuits that all processes share. All of it is on
127.0.0.1, and all of it is ended again.
"""
import dataclasses
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import picture  # beside this file

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("BUILD") or "build").resolve()
SOCKFUSE = BUILD / "sockfuse"
WORKERS = 32
RATES = {"/": 60, "/pay": 20}  # visitors a second
BEFORE, OUTAGE, AFTER = 2.0, float(os.environ.get("OUTAGE") or 20), 6.0  # seconds
SHOPS_PATIENCE, VISITORS_PATIENCE = 3.0, 3.0
POLICY = """\
[defaults]
failure_threshold = 3
response_timeout  = 1s
reset_timeout     = 2s
reset_timeout_max = 4s

[payments]
match             = 127.0.0.1:{payments}

[stock]
match             = 127.0.0.1:{stock}
"""
VARIANTS = (("without sockfuse", None), ("scope = process: each for itself", "process"),
            ("sockfuse: shared circuits", "host"))


@dataclasses.dataclass
class Result:
    """What became of one variant. Times are seconds since the outage began."""
    title: str
    visits: list  # page, when, how long, status
    wasted: float  # seconds that workers spent in calls of the silent service that came to nothing
    most_waiting: int = 0
    tree: str = ""

    def during(self, page):
        """How long, and with what status, those had to do with a page who came while the service was silent."""
        return [(took, status) for of, at, took, status in self.visits if of == page and 0 <= at < OUTAGE]

    def served(self):
        waits = self.during("/")
        return sum(status == 200 for _, status in waits), len(waits)

    def p99(self):
        return statistics.quantiles([took for took, _ in self.during("/")], n=100)[98]


class Programs:
    """The programs of one variant. Each is over at the end of its standard input, so none of them outlives this one."""

    def __init__(self, folder, scope):
        self.folder, self.scope, self.running = folder, scope, []
        self.environment = {key: value for key, value in os.environ.items()
                            if key != "LD_PRELOAD" and not key.startswith("SOCKFUSE")}
        self.environment.update(SOCKFUSE_STATE=str(folder / "state"), PYTHONDONTWRITEBYTECODE="1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.stdin.close()
        for process in self.running:
            process.wait()
            process.stdout.close()

    def start(self, name, *arguments, fuse=()):
        """Starts one, under a name of its own, and gives it with what it says first."""
        path = self.folder / name
        if not path.exists():
            path.symlink_to(HERE / ("dependency.py" if name in ("stock.py", "payments.py") else name))
        words = [str(SOCKFUSE), "run", *fuse, "--"] if fuse else []
        process = subprocess.Popen([*words, str(path), *map(str, arguments)], text=True,
                                   env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.running.append(process)
        port = process.stdout.readline().strip()
        if not port:
            sys.exit(f"cascade: {name} did not start (exit status {process.wait()})")
        return process, int(port)

    def sockfuse(self, *words):
        return subprocess.run([str(SOCKFUSE), *words], env=self.environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout

    def visitors(self, port):
        """They come for the whole of it, under the eyes of sockfuse where it is in use."""
        fuse = [str(SOCKFUSE), "run", "-t", f"127.0.0.1:{port}", "-o", "mode=observe", "--"] if self.scope else []
        return subprocess.Popen([*fuse, str(HERE / "visitors.py"), str(port),
                                 str(BEFORE + OUTAGE + AFTER), str(VISITORS_PATIENCE), str(self.folder / "visits"),
                                 *(f"{page}={rate}" for page, rate in RATES.items())],
                                env=self.environment, stdin=subprocess.DEVNULL)


def wasted(path, silent_from, until):
    """Seconds of workers in calls of the payments that began in the outage and came to nothing, or to no end."""
    seconds, begun = 0.0, {}
    for line in path.read_text(encoding="ascii").splitlines():
        pid, at, what, service, *how = line.split()
        if service != "payments" or float(at) > until:
            continue
        if what == "begins":
            begun[pid] = float(at)
        elif how == ["badly"] or begun[pid] >= silent_from:
            seconds += (float(at) - begun.pop(pid)) * (how == ["badly"])
        else:
            begun.pop(pid)
    return seconds + sum(until - at for at in begun.values())


class Watcher(threading.Thread):
    """Looks at the cascade a few times a second, and keeps it as it was when most calls waited."""

    def __init__(self, programs):
        super().__init__()
        self.programs, self.over = programs, threading.Event()
        self.most, self.tree = 0, ""

    def run(self):
        while not self.over.wait(0.2):
            waiting = len(json.loads(self.programs.sockfuse("calls", "--json") or "[]"))
            if waiting > self.most:
                self.most, self.tree = waiting, self.programs.sockfuse("calls", "--tree")


def run(title, scope, folder):
    """One variant, from the first visitor to the last."""
    folder.mkdir()
    with Programs(folder, scope) as programs:
        stock, stock_port = programs.start("stock.py")
        payments, payments_port = programs.start("payments.py")
        policy = folder / "shop.policy"
        policy.write_text(POLICY.format(stock=stock_port, payments=payments_port), encoding="ascii")
        fuse = ["-p", str(policy), *(["-o", f"scope={scope}"] if scope == "process" else [])] if scope else []
        shop, port = programs.start("shop.py", stock_port, payments_port, SHOPS_PATIENCE, WORKERS, folder / "calls",
                                    fuse=fuse)
        visitors, watcher = programs.visitors(port), Watcher(programs)
        try:
            time.sleep(BEFORE)
            if scope == "host":
                watcher.start()
            payments.stdin.write("silent\n")
            payments.stdin.flush()
            silent_from = time.monotonic()
            time.sleep(OUTAGE)
            payments.stdin.write("answer\n")
            payments.stdin.flush()
            until = silent_from + OUTAGE + AFTER
            visitors.wait()
        finally:
            watcher.over.set()
            if watcher.is_alive():
                watcher.join()
            if visitors.poll() is None:
                visitors.kill()
                visitors.wait()
        if scope == "host":
            programs.sockfuse("report", "-o", str(folder / "report.html"))
    visits = [(page, float(at) - silent_from, float(took), int(status)) for page, at, took, status in
              map(str.split, (folder / "visits").read_text(encoding="ascii").splitlines())]
    return Result(title, visits, wasted(folder / "calls", silent_from, until), watcher.most, watcher.tree)


class Stopped(Exception):
    """By a signal: what was started is ended on the way out."""


def stop(signal_number, _):
    raise Stopped(signal_number)


# --- what is shown ---------------------------------------------------------------------------------------------------

def paint(code, text):
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def row(*cells):
    return "  {:<34}{:>20}{:>12}{:>12}{:>16}".format(*cells)


def line_of(result):
    served, of = result.served()
    waits = [took for took, _ in result.during("/")]
    return row(result.title, f"{served} of {of}", picture.span(statistics.median(waits)), picture.span(result.p99()),
               f"{result.wasted:.0f} s")


def tell(results):
    print(paint(1, f"\nThe page that does not need the payments, in the {OUTAGE:g} s of their silence"))
    print(paint(2, row("", "visitors served", "median", "p99", "workers wasted")))
    for result in results:
        served, of = result.served()
        print(paint(32 if served > of * 0.95 else 31, line_of(result)))
    print(paint(2, f"  A visitor leaves after {VISITORS_PATIENCE:g} s. Wasted: what the {WORKERS} workers spent in calls "
                   "of the payments that came to nothing."))
    print(paint(1, "\nsockfuse calls --tree, when most calls waited (shared circuits)"))
    print(results[-1].tree or "  no call was seen waiting\n", end="")


def keep(folder, results):
    """What outlives the run: the picture, the figures and the report."""
    kept = BUILD / "cascade"
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "cascade.svg").write_text(picture.draw(results, BEFORE, OUTAGE, AFTER), encoding="ascii")
    print(f"\nThe picture: {kept}/cascade.svg")
    report = folder / "host" / "report.html"
    if report.exists():
        (kept / "report.html").write_bytes(report.read_bytes())
        print(f"The report:  {kept}/report.html")
    else:
        print("The report was not written: sockfuse is built without its page, see `make page`.")


def main():
    print(f"{WORKERS} workers, {RATES['/']} + {RATES['/pay']} visitors a second; the payments are silent for {OUTAGE:g} s "
          f"in each of {len(VARIANTS)} runs of {BEFORE + OUTAGE + AFTER:g} s.", flush=True)
    with tempfile.TemporaryDirectory(prefix="sockfuse-cascade.") as name:
        folder, results = pathlib.Path(name), []
        for title, scope in VARIANTS:
            print(paint(2, f"  {title} …"), flush=True)
            results.append(run(title, scope, folder / (scope or "without")))
        tell(results)
        keep(folder, results)
    if results[-1].p99() >= results[0].p99() or results[-1].wasted >= results[0].wasted:
        sys.exit("cascade: this run did not show what it tells; is the machine too busy for so many visitors?")


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, stop)
try:
    main()
except Stopped as stopped:
    sys.exit(128 + stopped.args[0])
