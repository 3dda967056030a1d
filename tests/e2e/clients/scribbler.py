"""A hostile user: never stops changing his folder of circuits, which is the first argument; `map` writes into the
mapped segment, `files` exchanges, cuts and locks what lies there. The second argument is where chance begins, the
third a folder of somebody else's, to which everything is tried to lead. Ends when its input does."""
import contextlib
import fcntl
import glob
import mmap
import os
import random
import select
import shutil
import stat
import struct
import sys
import time

FOLDER, SEED, OTHERS, HOW = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
chance = random.Random(SEED)
PRISTINE = FOLDER + ".pristine"
EVIL = ["\x1b]0;t\x07\x1b[31m\n\r\x08", "\u009b1m\u202e\u2066", "\udcff\udc80\udcc0", "%s%n", "../../etc/shadow", "/etc/shadow",
        "/dev/zero", OTHERS + "/secret", OTHERS + "/secret + patterns: a:1", "/" * 300, "a" * 600]
NUMBERS = [0, 1, 2, 255, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1, os.getpid()]


def segments():
    return glob.glob(glob.escape(FOLDER) + "/*.segment")


def restore():
    """Puts the good files back in their places."""
    if os.path.islink(FOLDER):
        os.unlink(FOLDER)
    os.makedirs(FOLDER, 0o700, exist_ok=True)
    os.chmod(FOLDER, 0o700)
    for path in segments():
        if not os.path.exists(os.path.join(PRISTINE, os.path.basename(path))):
            os.unlink(path)
    for path in glob.glob(glob.escape(PRISTINE) + "/*.segment"):
        to = os.path.join(FOLDER, os.path.basename(path))
        if os.path.isdir(to) and not os.path.islink(to):
            os.rmdir(to)
        shutil.copyfile(path, to + ".new")
        os.chmod(to + ".new", 0o600)
        os.rename(to + ".new", to)


def scribble():
    """Many writes into one mapping: noise, numbers at the ends of their ranges, texts that would drive a terminal."""
    for path in segments():
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            hot = [(128, 4608), (4608, len(view)), (512, 4608), (128, 512)]
            for _ in range(3000):
                begin, end = chance.choice(hot)
                at = chance.randrange(begin, max(begin + 1, min(end, len(view) - 700))) & ~3
                kind = chance.randrange(4)
                data = (chance.randbytes(8) if kind == 0 else struct.pack("<Q", chance.choice(NUMBERS)) if kind == 1
                        else chance.choice(EVIL).encode("utf-8", "surrogateescape") if kind == 2
                        else view[(other := chance.randrange(0, len(view) - 600)):other + chance.choice((8, 64, 512))])
                if at + len(data) <= len(view):
                    view[at:at + len(data)] = data


def scribble_apart():
    """In a child: what is cut short while it is mapped kills, and that is to be root's care."""
    child = os.fork()
    if child == 0:
        chance.seed(os.getpid())
        with contextlib.suppress(OSError, ValueError):
            scribble()
        os._exit(0)
    os.waitpid(child, 0)


def cut(path):
    size = os.stat(path, follow_symlinks=False).st_size
    os.truncate(path, chance.choice((0, 1, 100, 4096, 4608, 65536, size // 2, size - 1)))
    if chance.random() < 0.5:
        os.truncate(path, chance.choice((size, size * 2, 400 << 20)))


def claim(path):
    """A header that says it has other capacities, or is another's."""
    with open(path, "r+b") as file:
        file.seek(chance.choice((0, 8, 16, 24, 72, 76, 80, 84)))
        file.write(struct.pack("<I", chance.choice((0, 1, 2, 3, 16384, 262144, 4000, 0xffffffff))))
    if chance.random() < 0.3:
        os.truncate(path, 400 << 20)


def exchange(path):
    os.unlink(path)
    kind = chance.randrange(6)
    if kind == 0:
        os.symlink(chance.choice((OTHERS + "/secret", OTHERS, "/dev/zero", path, "/nowhere")), path)
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        os.mkdir(path)
    elif kind == 3:
        os.link(OTHERS + "/secret", path)
    elif kind == 4:
        os.symlink(glob.glob(glob.escape(PRISTINE) + "/*.segment")[0], path)


def lead_away(_path):
    os.rename(FOLDER, FOLDER + ".away")
    os.symlink(chance.choice((OTHERS, FOLDER + ".away", "/")), FOLDER)
    os.unlink(FOLDER)
    os.rename(FOLDER + ".away", FOLDER)


held = []


def lock(path):
    """Holds locks that others ask for, for some of the time."""
    for descriptor in held:
        os.close(descriptor)
    held.clear()
    for name in path, FOLDER:
        held.append(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)


def open_to_others(path):
    os.chmod(path, chance.choice((0o666, 0o600, 0o000, 0o4755)))
    os.chmod(FOLDER, chance.choice((0o700, 0o777, 0o700)))


def more(_path):
    name = chance.choice(["\x1b[31mx", "\n", "\u202ex", "\udcff", "x" * 240]) + ".segment"
    source = chance.choice(glob.glob(glob.escape(PRISTINE) + "/*.segment"))
    shutil.copyfile(source, os.path.join(FOLDER, name))


def change_files():
    """And then lets the others look at it for a moment."""
    time.sleep(chance.random() / 50)
    paths = segments()
    if not paths or chance.random() < 0.5:
        restore()
        return
    path = chance.choice(paths)
    if stat.S_ISREG(os.lstat(path).st_mode):
        chance.choice((cut, cut, claim, exchange, lead_away, lock, open_to_others, more))(path)
    else:
        restore()


os.umask(0o077)
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    with contextlib.suppress(OSError, ValueError, shutil.Error):
        (scribble_apart if HOW == "map" else change_files)()
