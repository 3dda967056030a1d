"""giving_up.py WAY PHASE HOST PORT SECONDS: waits for SECONDS, then gives up in this way.

PHASE: `connect` (a pending attempt), `answer` (a request was sent) or `greeting` (nothing was sent).
"""
import os
import resource
import signal
import socket
import sys
import time


def close(sock):
    sock.close()


def closerange(sock):
    os.closerange(sock.detach(), 100)


def close_from_three(sock):
    sock.detach()
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def dup2_over_it(sock):
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, sock.fileno())


def shutdown_and_close(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()


def half_close_and_close(sock):
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    sock.close()


def close_the_last_of_two(sock):
    copy = os.dup(sock.fileno())
    sock.close()
    os.close(copy)


def close_a_file_over_it(sock):
    file = sock.makefile("rb")
    sock.close()
    file.close()


def exit_0(sock):
    sock.detach()  # Python would close it at its end
    sys.exit(0)


def exit_1(sock):
    sock.detach()
    sys.exit(1)


def raw_exit_0(_):
    os._exit(0)


def raw_exit_1(_):
    os._exit(1)


def exec_another(_):
    os.execv("/bin/true", ["true"])


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    way, phase, host, port, seconds = sys.argv[1:]
    sock = socket.socket()
    if phase == "connect":
        sock.setblocking(False)
        sock.connect_ex((host, int(port)))
    else:
        sock.connect((host, int(port)))
        if phase == "answer":
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
    time.sleep(float(seconds))
    globals()[way](sock)
    # Its own end must not be what is seen.
    sys.stdout.write("done\n")


main()
