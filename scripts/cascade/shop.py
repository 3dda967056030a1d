#!/usr/bin/python3
"""The program in the middle, which knows nothing of sockfuse: a web server that forks its workers and has two pages.

    shop.py STOCK_PORT PAYMENTS_PORT PATIENCE WORKERS CALLS

/ asks the stock, /pay asks the payments; each waits for its service for PATIENCE seconds, and answers 503 when that did
not work. A worker serves one visitor at a time, as pre-forking servers do. Prints its port; at the end of its standard
input it is over. CALLS is a file that gets a line when a call begins and when it ends.
"""
import http.client
import os
import signal
import socket
import sys
import time


class Shop:
    def __init__(self, stock, payments, patience, calls):
        self.pages = {b"/": ("stock", int(stock)), b"/pay": ("payments", int(payments))}
        self.patience = float(patience)
        self.calls = os.open(calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, *words):
        os.write(self.calls, (" ".join(map(str, (os.getpid(), time.monotonic(), *words))) + "\n").encode())

    def ask(self, service, port):
        """Whether the service has answered well."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=self.patience)
        self.note("begins", service)
        try:
            connection.request("GET", "/")
            good = connection.getresponse().read() == b"ok\n"
        except (OSError, http.client.HTTPException):
            good = False
        finally:
            connection.close()
        self.note("ends", service, "well" if good else "badly")
        return good

    def serve(self, visitor):
        request = b""
        while b"\r\n\r\n" not in request:
            part = visitor.recv(4096)
            if not part:
                return
            request += part
        page = self.pages.get(request.split()[1])
        good = page is not None and self.ask(*page)
        visitor.sendall(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 3\r\n\r\n%s\n"
                        % ((b"200 OK", b"ok") if good else (b"503 Later", b"no")))

    def work(self, listener):
        while True:
            visitor, _ = listener.accept()
            with visitor:
                try:
                    self.serve(visitor)
                except OSError:
                    pass  # the visitor has left


def main():
    stock, payments, patience, workers, calls = sys.argv[1:]
    shop = Shop(stock, payments, patience, calls)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    pids = []
    for _ in range(int(workers)):
        pid = os.fork()
        if pid == 0:
            os.close(0)
            shop.work(listener)
        pids.append(pid)
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)


main()
