"""pool.py KIND: calls on command over a pool that keeps its connections. KIND: requests, urllib3.

One JSON command a line on stdin: {"url", "timeout", "count": calls at once, in threads}. One line of JSON for each:
{"results": [...]}, each the answer's status or the error's name, with `SIGPIPE` in `signals` when one came.
"""
import json
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor


def with_requests():
    import requests
    session = requests.Session()

    def call(url, timeout):
        try:
            return session.get(url, timeout=timeout).status_code
        except requests.RequestException as error:
            return f"{type(error).__name__}: {error}"
    return call


def with_urllib3():
    import urllib3
    manager = urllib3.PoolManager(maxsize=8)

    def call(url, timeout):
        try:
            return manager.request("GET", url, timeout=timeout, retries=False).status
        except urllib3.exceptions.HTTPError as error:
            return f"{type(error).__name__}: {error}"
    return call


def main():
    signals = []
    # Python ignores it; with a handler it is seen to come.
    signal.signal(signal.SIGPIPE, lambda number, _: signals.append(signal.Signals(number).name))
    call = {"requests": with_requests, "urllib3": with_urllib3}[sys.argv[1]]()
    for line in sys.stdin:
        command = json.loads(line)
        count = command.get("count", 1)
        gate = threading.Barrier(count)

        def one(_, command=command, gate=gate):
            gate.wait(10)
            return call(command["url"], command["timeout"])
        with ThreadPoolExecutor(count) as threads:
            results = list(threads.map(one, range(count)))
        print(json.dumps({"results": results, "signals": signals}), flush=True)


main()
