"""aiohttp_get.py URL TIMEOUT [COUNT]: prints the answer's body, COUNT times over one session. TIMEOUT 0: none."""
import asyncio
import sys

import aiohttp


async def get(url, timeout, count):
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout), trust_env=False) as session:
        for _ in range(count):
            async with session.get(url) as answer:
                sys.stdout.write(await answer.text())


try:
    asyncio.run(get(sys.argv[1], float(sys.argv[2]) or None, int((sys.argv[3:] or [1])[0])))
except (aiohttp.ClientError, asyncio.TimeoutError) as problem:
    sys.exit(f"{type(problem).__name__}: {problem}")
