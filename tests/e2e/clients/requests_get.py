"""requests_get.py URL TIMEOUT: prints the answer's body. TIMEOUT 0: none."""
import re
import sys

import requests

try:
    sys.stdout.write(requests.get(sys.argv[1], timeout=float(sys.argv[2]) or None).text)
except requests.RequestException as error:
    sys.exit(re.sub(r" at 0x[0-9a-f]+", "", f"{type(error).__name__}: {error}"))
