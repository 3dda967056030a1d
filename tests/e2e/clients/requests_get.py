"""requests_get.py URL TIMEOUT [COUNT]: prints the answer's body, COUNT times over one session. TIMEOUT 0: none."""
import re
import sys

import requests

url, timeout, count = sys.argv[1], float(sys.argv[2]) or None, int((sys.argv[3:] or [1])[0])
try:
    with requests.Session() as session:
        for _ in range(count):
            sys.stdout.write(session.get(url, timeout=timeout).text)
except requests.RequestException as error:
    sys.exit(re.sub(r" at 0x[0-9a-f]+", "", f"{type(error).__name__}: {error}"))
