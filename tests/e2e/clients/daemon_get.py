"""daemon_get.py URL FILE: becomes a daemon (two forks, a session of its own, no descriptors), calls, writes to FILE."""
import os
import sys
import urllib.request


def main():
    url, path = sys.argv[1:]
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.closerange(0, 256)
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            result = answer.read().decode()
    except OSError as error:
        result = f"{type(error).__name__}: {error}"
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n{result}")
    os.rename(path + ".new", path)


main()
