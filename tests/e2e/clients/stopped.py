"""Waits for an answer that never comes, in one of several ways, until it is stopped, or has waited long enough itself.

Usage: stopped.py WAY HOST PORT STATUS: the exit status after SIGTERM, or a timeout of its own.
"""
import asyncio
import os
import signal
import socket
import sys
import threading
import time

way, host, port, status = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
OWN_TIMEOUTS = ("own timeout", "own alarm", "own join")
if way.startswith("signalled "):  # of whatever else it hears
    for number in (signal.SIGCHLD, signal.SIGWINCH, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    way = way.removeprefix("signalled ")
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(status))
connection = socket.create_connection((host, port))
connection.sendall(b"request")


def wait():
    try:
        connection.recv(16)
    finally:
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()


async def wait_in_a_loop():
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        await reader.read(16)
    except asyncio.CancelledError:
        writer.close()
        sys.exit(status)


def ring(*_):
    raise TimeoutError


print("waits", flush=True)
if way == "recv":
    wait()
elif way == "poll":
    connection.settimeout(60)
    wait()
elif way == "asyncio":
    asyncio.run(wait_in_a_loop())
elif way == "threads":
    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    waiter.join()
elif way == "sleeping":
    threading.Thread(target=wait, daemon=True).start()
    time.sleep(60)
elif way == "leaves it open":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(status))
    connection.recv(16)
elif way == "sigwait":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    threading.Thread(target=wait, daemon=True).start()
    signal.sigwait([signal.SIGTERM])
    connection.close()
    sys.exit(status)
elif way == "lives on":
    signal.signal(signal.SIGTERM, lambda *_: connection.close())
    try:
        connection.recv(16)
    except OSError:
        pass
    print("lives", flush=True)
    sys.stdin.read()
elif way == "grace":  # for its last job, which does not come to an end
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    threading.Thread(target=wait, daemon=True).start()
    stopped.wait()
    time.sleep(1.3)
    connection.close()
    sys.exit(status)
elif way == "own join":
    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    waiter.join(0.6)
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()
    sys.exit(status)
elif way in OWN_TIMEOUTS:
    if way == "own alarm":
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
    else:
        connection.settimeout(0.2)
    try:
        wait()
    except TimeoutError:
        sys.exit(status)
