"""around.py HOW HOST PORT: opens a connection, does something with processes or descriptors, then uses the connection.

Says "connected", does HOW at the first line on stdin, says "done", makes its call at the second line, and says
what came.
"""
import os
import resource
import socket
import subprocess
import sys
import threading


def run_subprocess(sock):
    """vfork, close_range and exec: the child runs in this process's memory for a while."""
    for _ in range(3):
        subprocess.run(["/bin/true"], check=True, close_fds=True)
    subprocess.run(["/bin/true"], check=True, pass_fds=[sock.fileno()])
    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
    os.system("exit 0")
    return sock


def fork_and_close(sock):
    pid = os.fork()
    if pid == 0:
        sock.close()
        os.closerange(3, 100)
        os._exit(1)
    os.waitpid(pid, 0)
    return sock


def fork_and_exit(sock):
    pid = os.fork()
    if pid == 0:
        sys.exit(1)
    os.waitpid(pid, 0)
    return sock


def fork_and_die(sock):
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    return sock


def close_one_of_two(sock):
    copy = socket.socket(fileno=os.dup(sock.fileno()))
    sock.close()
    return copy


def move_to_the_highest_number(sock):
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1
    moved = socket.socket(fileno=os.dup2(sock.fileno(), highest))
    sock.close()
    return moved


def threads_come_and_go(sock):
    for _ in range(8):
        thread = threading.Thread(target=lambda: socket.socketpair()[0].close())
        thread.start()
        thread.join()
    return sock


def say(text):
    print(text, flush=True)


def use(sock, host):
    try:
        sock.sendall(f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        return "answered" if sock.recv(65536) else "end of stream"
    except OSError as error:
        return type(error).__name__


def main():
    how, host, port = sys.argv[1:]
    sock = socket.create_connection((host, int(port)))
    say("connected")
    sys.stdin.readline()
    sock = globals()[how](sock)
    say("done")
    sys.stdin.readline()
    say(use(sock, host))
    sock.close()


main()
