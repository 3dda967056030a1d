"""What a program reads of its sockets' waiting errors after it has shut them, or while another process shares them."""
import errno
import os
import socket
import struct
import time


def said(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]


def reset_after_request(listener):
    client = socket.create_connection(listener.getsockname())
    peer, _ = listener.accept()
    client.send(b"request")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    time.sleep(0.05)
    return client


def refused(address):
    client = socket.socket()
    client.setblocking(False)
    said(lambda: client.connect(address))
    time.sleep(0.05)
    return client


def pending(client):
    return errno.errorcode.get(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), "none")


with socket.socket() as listener, socket.socket() as closed, socket.socket(socket.AF_UNIX) as unix_listener:
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    closed.bind(("127.0.0.1", 0))
    for how in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
        client = reset_after_request(listener)
        print("reset, shutdown", how, said(lambda: client.shutdown(how)), said(lambda: client.recv(1)))
        client = reset_after_request(listener)
        print("reset, shutdown", how, said(lambda: client.shutdown(how)), pending(client))
        client = refused(closed.getsockname())
        print("refused, shutdown", how, said(lambda: client.shutdown(how)), pending(client))

    path = f"/tmp/sf-pending-{os.getpid()}"
    unix_listener.bind(path)
    unix_listener.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    os.unlink(path)
    peer, _ = unix_listener.accept()
    client.send(b"request")
    peer.close()  # with a byte unread: the other side gets a reset
    print("UNIX reset, shutdown", said(lambda: client.shutdown(socket.SHUT_WR)), pending(client))

    client = refused(closed.getsockname())
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        print("shared with a child, closed by the parent:", pending(client), flush=True)
        os._exit(0)
    client.close()
    os.write(go, b"x")
    os.waitpid(child, 0)
