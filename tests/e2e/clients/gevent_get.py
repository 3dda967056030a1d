"""gevent_get.py URL TIMEOUT [COUNT]: prints the answer's body by http.client over gevent's sockets, COUNT times over one
connection.
"""
from gevent import monkey

monkey.patch_all()

import http.client  # noqa: E402
import sys  # noqa: E402
from urllib.parse import urlsplit  # noqa: E402

url, timeout, count = urlsplit(sys.argv[1]), float(sys.argv[2]), int((sys.argv[3:] or [1])[0])
kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
connection = kind(url.hostname, url.port, timeout=timeout)
try:
    for _ in range(count):
        connection.request("GET", "/")
        sys.stdout.write(connection.getresponse().read().decode())
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"{type(error).__name__}: {error}")
