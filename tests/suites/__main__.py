"""`make suites`: every suite, or those that are named; exit status 1 when a result differs, or nothing could be run."""
import sys

import cpython
import sources
from compare import compare

SUITES = [*cpython.SHORT, *cpython.LONG, *sources.ALL]


def main(words):
    if words == ["--list"]:
        print("\n".join(suite.name for suite in SUITES))
        return 0
    unknown = set(words) - {suite.name for suite in SUITES}
    if unknown:
        print(f"suites: unknown: {' '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    differ = ran = 0
    for suite in SUITES:
        if words and suite.name not in words:
            continue
        why = suite.missing()
        if why:
            print(f"{suite.name}: not run: {why}", flush=True)
            continue
        comparison = compare(suite)
        ran += 1
        differ += not comparison.holds
        print("\n".join(comparison.report()), flush=True)
    print(f"{ran - differ} passed, {differ} failed")
    return 1 if differ or not ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
