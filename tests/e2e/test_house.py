"""What holds for the sources as a whole: who may use whom, and that the circuit's code is pure."""
import glob
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, ROOT, require_build  # noqa: E402

# Each folder uses only those before it; the command and the library never each other.
ROOMS = ("base", "breaker", "policy", "segment", "guard", "connection", "preload")
MAY_USE = {**{room: ROOMS[:i] for i, room in enumerate(ROOMS)}, "cli": ROOMS[:5]}
# What only computes, and what compilers call by themselves.
PURE = {"strcmp", "strlen", "memcpy", "memmove", "memset", "memcmp", "__popcountdi2", "_GLOBAL_OFFSET_TABLE_",
        "__stack_chk_fail"}
PURE_BASE = [str(ROOT / "src/base" / name) for name in ("date.c", "text.c", "utf8.c")]
# What src/connection may ask of libc beside its table: what computes, its own memory, and where it is. No system call
# of these is one of the program's connections', and another engine has them too.
BESIDE_THE_TABLE = PURE | {"strnlen", "in6addr_loopback", "__errno_location", "mmap", "munmap", "madvise", "sbrk",
                           "sysconf", "getauxval", "pthread_self", "pthread_atfork", "sched_getcpu"}
# What the engine has: connection/system.h, engine.h, station.h.
ENGINE = {"sys", "engine", "engine_take_policy", "engine_station", "engine_station_now", "engine_note_no_place",
          "engine_leave", "station_look"}


def symbols(*objects):
    """(name, where it is, whether it can change) of the symbols in objects, of static ones too; not by nm, to which
    link-time optimisation shows another table."""
    found = set()
    for path in objects:
        def readelf(what, path=path):
            return subprocess.run(["readelf", what, path], check=True, capture_output=True, text=True).stdout
        writable = set(re.findall(r"(?m)^ +\[ *(\d+)\] (?!\.data\.rel\.ro)\S+ .* WA ", readelf("-SW")))
        for kind, section, name in re.findall(r"(?m)^ +\d+: \S+ +\S+ (\S+) +\S+ +\S+ +(\S+) (\S+)$", readelf("-sW")):
            if kind not in ("SECTION", "FILE"):
                found.add((name, section, section in writable or section == "COM"))
    return found


def sources():
    """The files of the house, as `room/name`."""
    return sorted(os.path.relpath(path, ROOT / "src") for path in glob.glob(str(ROOT / "src/*/*.[ch]")))


def text_of(name):
    with open(ROOT / "src" / name, encoding="utf-8") as file:
        return file.read()


def included(name):
    return set(re.findall(r'(?m)^#\s*include "([^"]*)"', text_of(name))) - {"symbols.def", "preload/symbols.def"}


def module(name):
    """A header and its source are one."""
    return name.rsplit(".", 1)[0]


def circles(graph):
    """The modules that can be reached from themselves."""
    def reached(start):
        seen, todo = set(), list(graph.get(start, ()))
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += graph.get(at, ())
        return seen
    return sorted(start for start in graph if start in reached(start))


class House(unittest.TestCase):
    def test_every_folder_uses_only_those_before_it(self):
        self.assertEqual({name.split("/")[0] for name in sources()}, set(MAY_USE))
        seen = 0
        for name in sources():
            room = name.split("/")[0]
            for used in included(name):
                self.assertIn(used.split("/")[0], (room, *MAY_USE[room]), f"{name} includes {used}")
                seen += 1
        self.assertGreater(seen, 500)

    def test_no_includes_go_in_a_circle(self):
        graph = {}
        for name in sources():
            graph.setdefault(module(name), set()).update(module(used) for used in included(name)
                                                         if module(used) != module(name))
        self.assertEqual(circles(graph), [])
        self.assertEqual(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c"])

    def test_a_private_header_is_included_by_those_that_it_names_and_by_nobody_else(self):
        """`Private to src/ROOM` or `Private to a.c, b.c and c.c`, and perhaps `but for` something."""
        checked = 0
        for name in sources():
            told = re.search(r"Private to ((?:(?!\. |\*/)[^.]|\.[ch])*)", re.sub(r"\n \*", "", text_of(name)[:4000]))
            if not name.endswith(".h") or not told or "but for" in told[1]:
                continue
            rooms, files = re.findall(r"src/(\w+)", told[1]), re.findall(r"(\w+\.[ch])", told[1])
            self.assertTrue(rooms or files, f"{name}: {told[0]}")
            for other in sources():
                if name in included(other) and module(other) != module(name):
                    room, file = other.split("/")
                    self.assertTrue(room in rooms or file in files, f"{other} includes {name}: {told[0]}")
            checked += 1
        self.assertGreater(checked, 10)

    def test_no_two_files_share_a_name(self):
        names = [os.path.basename(name) for name in sources()]
        self.assertEqual(sorted({name for name in names if names.count(name) > 1}), [])

    def test_the_circuit_reads_no_clock_makes_no_system_call_and_allocates_nothing(self):
        """Its objects, and what they use of the base, ask for nothing that is not their own, but for what only
        computes."""
        require_build()
        objects = [str(BUILD / os.path.relpath(path, ROOT))[:-2] + ".o"
                   for path in glob.glob(str(ROOT / "src/breaker/*.c")) + PURE_BASE]
        names = symbols(*objects)
        own = {name for name, section, _ in names if section != "UND"}
        self.assertIn("circuit_admit", own)
        asked = {name for name, section, _ in names if section == "UND"}
        self.assertIn("circuit_count_outcome", asked)
        self.assertEqual(asked - own - PURE, set())

    def test_connections_ask_the_system_by_its_table_alone(self):
        """So a scripted kernel is all that there is, and another engine brings what it has."""
        require_build()
        def objects(*rooms):
            return [str(BUILD / os.path.relpath(path, ROOT))[:-2] + ".o"
                    for room in rooms for path in glob.glob(str(ROOT / f"src/{room}/*.c"))]
        own = {name for name, section, _ in symbols(*objects(*ROOMS[:6])) if section != "UND"}
        asked = {name for name, section, _ in symbols(*objects("connection")) if section == "UND"}
        self.assertIn("guard_admit", asked)
        self.assertEqual(asked - own - BESIDE_THE_TABLE - ENGINE, set())

    def test_the_circuit_keeps_nothing_but_what_it_is_given(self):
        """No variable of its own: all that changes lies in the memory that the caller passes."""
        require_build()
        for path in glob.glob(str(ROOT / "src/breaker/*.c")) + PURE_BASE:
            path = str(BUILD / os.path.relpath(path, ROOT))[:-2] + ".o"
            self.assertEqual({name for name, _, changes in symbols(path) if changes}, set(), path)


if __name__ == "__main__":
    unittest.main()
