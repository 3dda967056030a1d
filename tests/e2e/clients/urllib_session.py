"""A client that uses nothing but urllib. With URL TIMEOUT: one call, its result as a line of JSON.

Without arguments: one JSON command a line on stdin. {"url", "timeout"} makes a call; {"url", "timeout", "threads",
"at"} makes one call in each thread at that moment of CLOCK_MONOTONIC, and a line for each as it ends.
"""
import json
import sys
import threading
import time
import urllib.error
import urllib.request


def call(url, timeout=None):
    began = time.monotonic()
    result = {"status": None, "body": None, "error": None, "errno": None}
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            result.update(status=answer.status, body=answer.read().decode())
    except urllib.error.HTTPError as error:
        result.update(status=error.code)
        error.close()
    except OSError as error:
        reason = getattr(error, "reason", error)
        result.update(error=f"{type(reason).__name__}: {reason}", errno=getattr(reason, "errno", None))
    result["seconds"] = time.monotonic() - began
    return result


def burst(out, url, timeout, threads, at):
    lock = threading.Lock()

    def one():
        time.sleep(max(0, at - time.monotonic()))
        result = call(url, timeout)
        with lock:
            print(json.dumps(result), file=out, flush=True)

    workers = [threading.Thread(target=one) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def main():
    if len(sys.argv) > 1:
        print(json.dumps(call(sys.argv[1], float(sys.argv[2]))))
        return
    for line in sys.stdin:
        command = json.loads(line)
        if "threads" in command:
            burst(sys.stdout, **command)
        else:
            print(json.dumps(call(**command)), flush=True)


main()
