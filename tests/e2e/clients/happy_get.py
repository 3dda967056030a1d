"""happy_get.py HOST PORT TIMEOUT: asyncio with Happy Eyeballs (250 ms): the addresses of HOST side by side."""
import asyncio
import sys


async def get(host, port):
    reader, writer = await asyncio.open_connection(host, int(port), happy_eyeballs_delay=0.25)
    writer.write(f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


try:
    sys.stdout.write(asyncio.run(asyncio.wait_for(get(sys.argv[1], sys.argv[2]), float(sys.argv[3]))))
except (OSError, asyncio.TimeoutError) as problem:
    sys.exit(f"{type(problem).__name__}: {problem}")
