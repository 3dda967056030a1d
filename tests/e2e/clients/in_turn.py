"""in_turn.py PORT OTHER: a server whose page /N gets /N-1 of the other one, and whose page /0 never comes."""
import http.client
import http.server
import sys
import time


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        left = int(self.path[1:])
        if left == 0:
            time.sleep(1000)
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]))
        connection.request("GET", f"/{left - 1}")
        connection.getresponse()

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
