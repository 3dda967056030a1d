"""twisted_get.py URL TIMEOUT [COUNT]: prints the answer's body by Twisted's Agent, COUNT times over one connection."""
import re
import sys
import warnings

from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import react
from twisted.web.client import Agent, HTTPConnectionPool, readBody

# Of its own readBody, about its own pool.
warnings.simplefilter("ignore", DeprecationWarning)


@inlineCallbacks
def get(reactor, url, timeout, count):
    pool = HTTPConnectionPool(reactor)
    agent = Agent(reactor, connectTimeout=timeout, pool=pool)
    try:
        for _ in range(count):
            answer = yield agent.request(b"GET", url.encode()).addTimeout(timeout, reactor)
            sys.stdout.write((yield readBody(answer).addTimeout(timeout, reactor)).decode())
    except Exception as error:  # it has its own for each way to fail
        sys.exit(re.sub(r" at 0x[0-9a-f]+", "", f"{type(error).__name__}: {error}"))
    finally:
        yield pool.closeCachedConnections()


react(get, (sys.argv[1], float(sys.argv[2]), int((sys.argv[3:] or [1])[0])))
