"""A worker that starts a program (by vfork) before it makes its first calls, as prefork servers do: port, how many."""
import os
import socket
import subprocess
import sys

port, calls = int(sys.argv[1]), int(sys.argv[2])
first = socket.socket()  # the library has a table entry before the fork
worker = os.fork()
if worker == 0:
    subprocess.run(["/bin/true"], check=True)
    for _ in range(calls):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError as error:
            print(error)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(worker, 0)
