#!/usr/bin/python3
"""The shop's visitors: each second so many look at the healthy page and so many at the other, whatever becomes of them.

    visitors.py PORT SECONDS PATIENCE RESULTS PAGE=RATE...

A visitor who has no answer after PATIENCE seconds leaves. RESULTS gets a line for each: page, when, how long, status (0:
left without an answer).
"""
import asyncio
import sys
import time


async def ask(port, page):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET %s HTTP/1.1\r\nHost: shop\r\n\r\n" % page.encode())
        answer = await reader.read()
        return int(answer.split()[1]) if answer else 0
    finally:
        writer.close()


async def visit(port, page, patience, results):
    began = time.monotonic()
    try:
        status = await asyncio.wait_for(ask(port, page), patience)
    except (OSError, asyncio.TimeoutError):
        status = 0
    results.append((page, began, time.monotonic() - began, status))


async def come(port, page, rate, until, patience, results):
    """One after the other at their times, not when those before them are done: visitors don't wait for each other."""
    loop, visits = asyncio.get_running_loop(), []
    due = time.monotonic()
    while due < until:
        await asyncio.sleep(max(0, due - time.monotonic()))
        visits.append(loop.create_task(visit(port, page, patience, results)))
        due += 1 / rate
    await asyncio.gather(*visits)


async def main():
    port, seconds, patience, path, *pages = sys.argv[1:]
    until, results = time.monotonic() + float(seconds), []
    await asyncio.gather(*(come(int(port), page, float(rate), until, float(patience), results)
                           for page, rate in (word.split("=") for word in pages)))
    with open(path, "w", encoding="ascii") as file:
        for result in results:
            print(*result, file=file)


asyncio.run(main())
