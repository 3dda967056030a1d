"""asyncio_get.py HOST PORT TIMEOUT: one HTTP request over asyncio's streams, prints what comes. TIMEOUT 0: none."""
import asyncio
import sys


async def get(host, port):
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        await writer.drain()
        answer = await reader.read()
    finally:
        writer.close()
    if not answer:
        raise EOFError("the stream ended before an answer")
    return answer.decode()


try:
    sys.stdout.write(asyncio.run(asyncio.wait_for(get(sys.argv[1], sys.argv[2]), float(sys.argv[3]) or None)))
except (OSError, EOFError, asyncio.TimeoutError) as problem:
    sys.exit(f"{type(problem).__name__}: {problem}")
