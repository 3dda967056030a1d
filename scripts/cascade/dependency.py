#!/usr/bin/python3
"""A service that the shop calls: it answers each request after a hundredth of a second, until it is told "silent".

    dependency.py     prints its port, and then does what its standard input says; at the end of that it is over

While it is silent it goes on taking connections and reading requests, as a service does whose database has locked up.
"answer" heals it.
"""
import http.server
import os
import sys
import threading
import time

healthy = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        healthy.wait()
        time.sleep(0.01)
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024

    def handle_error(self, *_):
        """Who called has hung up."""


def main():
    healthy.set()
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    for line in sys.stdin:
        if line == "silent\n":
            healthy.clear()
        elif line == "answer\n":
            healthy.set()
    os._exit(0)


main()
