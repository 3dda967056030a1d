"""marked.py WHAT HOST PORT: does WHAT between two marks that a trace of system calls shows (access of /mark-…)."""
import os
import socket
import sys


def exchange(host, port):
    """One of everything on descriptors that no target names."""
    sock = socket.socket()
    os.access("/mark-begin", 0)
    sock.connect((host, int(port)))
    for _ in range(3):
        sock.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        sock.recv(65536)
        os.write(sock.fileno(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        os.read(sock.fileno(), 65536)
        sock.sendmsg([b"GET / HTTP/1.1\r\n", b"Host: x\r\n\r\n"])
        sock.recvmsg(65536)
    sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    copy = os.dup(sock.fileno())
    os.dup2(copy, copy + 1)
    os.close(copy + 1)
    os.close(copy)
    sock.shutdown(socket.SHUT_RDWR)
    sock.close()
    one, other = socket.socketpair()
    one.sendall(b"x")
    other.recv(1)
    one.close()
    other.close()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.connect((host, int(port)))
    udp.close()
    reader, writer = os.pipe()
    os.write(writer, b"x")
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    os.access("/mark-end", 0)


def refusal(host, port):
    """Connects to a target whose circuit is open."""
    sock = socket.socket()
    os.access("/mark-begin", 0)
    error = sock.connect_ex((host, int(port)))
    os.access("/mark-end", 0)
    print(os.strerror(error))


def refusal_without_blocking(host, port):
    sock = socket.socket()
    sock.setblocking(False)
    os.access("/mark-begin", 0)
    error = sock.connect_ex((host, int(port)))
    os.access("/mark-end", 0)
    print(os.strerror(error))


# The first address on each page of the stack is asked for (src/connection/memory.h).
socket.socket().connect_ex(("127.0.0.99", 9))
globals()[sys.argv[1]](*sys.argv[2:])
