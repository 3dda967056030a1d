"""A client that opens sockets on command: one JSON object a line on stdin, a line of JSON for each on stdout.

{"do": "call"} connects, asks over HTTP and closes; {"do": "hold"} connects and keeps; {"do": "drop"} closes all that
are kept; {"do": "ask"} makes a request on each that is kept; {"do": "fork"} lets a child make the call; {"do":
"threads"} makes calls in threads until "count" were made in each. All but drop and ask take "port" (127.0.0.1), or
"host" (a path: AF_UNIX) and "port", and "blocking": false; with "starving": true the process has no descriptor left
while it connects.

{"do": "chroot", "to": PATH}, {"do": "become", "user": NUMBER} and {"do": "hide", "folder": PATH} (an empty file system
over it, in a mount name space of its own) change where the process stands; {"do": "list", "folder": PATH} tells what it
sees there.
"""
import collections
import ctypes
import errno
import json
import os
import resource
import select
import socket
import sys
import threading

__import__("encodings.idna")  # before the root is another one

held = []


def connect(port, host="127.0.0.1", blocking=True, starving=False):
    """Returns the connected socket, or the errno."""
    if starving or host[0].isdigit():  # no name is looked up: that would need a descriptor, and files
        sock, address = socket.socket(), (host, port)
    elif host.startswith("/"):
        sock, address = socket.socket(socket.AF_UNIX), host
    else:
        # IPv4 first: where localhost is ::1 as well, as an installer leaves it, the tests' servers are not there.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, proto, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        sock = socket.socket(family, kind, proto)
    sock.setblocking(blocking)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if starving:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    code = sock.connect_ex(address)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    if code == errno.EINPROGRESS:
        select.select([], [sock], [], 10)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        sock.close()
        return None, code
    sock.setblocking(True)
    sock.settimeout(10)
    return sock, 0


def ask(sock):
    try:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return "answered" if sock.recv(65536) else "end"
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)


def call(**where):
    sock, code = connect(**where)
    if sock is None:
        return errno.errorcode[code]
    with sock:
        return ask(sock)


def hold(**where):
    sock, code = connect(**where)
    if sock is None:
        return errno.errorcode[code]
    held.append(sock)
    return "connected"


def drop():
    while held:
        held.pop().close()
    return "closed"


def fork(**where):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, call(**where).encode())
        os._exit(0)
    os.close(writer)
    result = os.read(reader, 100).decode()
    os.close(reader)
    os.waitpid(pid, 0)
    return result


def threads(number, count, **where):
    results = collections.Counter()
    lock = threading.Lock()

    def work():
        for _ in range(count):
            result = call(**where)
            with lock:
                results[result] += 1

    workers = [threading.Thread(target=work) for _ in range(number)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results


def chroot(to):
    os.chroot(to)
    os.chdir("/")
    return "done"


def become(user):
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    return "done"


def hide(folder):
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, ms_rec, ms_private = 0x20000, 0x4000, 1 << 18
    for result in (libc.unshare(clone_newns), libc.mount(None, b"/", None, ms_rec | ms_private, None),
                   libc.mount(b"none", folder.encode(), b"tmpfs", 0, b"size=64m")):
        if result != 0:
            return errno.errorcode[ctypes.get_errno()]
    return "done"


DO = {"chroot": chroot, "become": become, "hide": hide, "list": lambda folder: sorted(os.listdir(folder)),
      "call": call, "hold": hold, "drop": drop, "fork": fork, "threads": threads,
      "ask": lambda: [ask(sock) for sock in held]}

for line in sys.stdin:
    command = json.loads(line)
    print(json.dumps(DO[command.pop("do")](**command)), flush=True)
