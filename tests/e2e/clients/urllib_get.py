"""urllib_get.py URL TIMEOUT: prints the answer's body. TIMEOUT 0: none."""
import sys
import urllib.request

try:
    with urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[2]) or None) as answer:
        sys.stdout.write(answer.read().decode())
except OSError as error:
    sys.exit(f"{type(error).__name__}: {error}")
