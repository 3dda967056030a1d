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
MAY_USE = {**{room: ROOMS[:i] for i, room in enumerate(ROOMS)}, "view": ROOMS[:5], "notify": ROOMS[:5],
           "cli": (*ROOMS[:5], "view", "notify"),
           "agent": (*ROOMS[:5], "view")}
# What only computes, and what compilers call by themselves.
PURE = {"strcmp", "strlen", "memcpy", "memmove", "memset", "memcmp", "memchr", "__popcountdi2", "_GLOBAL_OFFSET_TABLE_",
        "__stack_chk_fail"}
PURE_BASE = [str(ROOT / "src/base" / name) for name in ("date.c", "text.c", "utf8.c")]
# What src/connection may ask of libc beside its table: what computes, its own memory, and where it is. No system call
# of these is one of the program's connections', and another engine has them too.
BESIDE_THE_TABLE = PURE | {"strnlen", "in6addr_loopback", "__errno_location", "mmap", "munmap", "madvise", "sbrk",
                           "sysconf", "getauxval", "pthread_self", "pthread_atfork", "sched_getcpu"}
# Folders of the kernel's and of libc's sources, of which comments tell.
OTHERS_FOLDERS = {"security", "fs", "netinet", "linux", "sys", "net"}
# What the engine has: connection/system.h, engine.h, station.h.
ENGINE = {"sys", "engine", "engine_take_policy", "engine_station", "engine_station_now", "engine_note_no_place",
          "engine_leave", "station_look"}

# What a reader can take in: the sources are divided where they are about to say two things.
LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 60


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


def house_files():
    """All files of src, tests and scripts, but for what is built there."""
    found = [path for folder in ("src", "tests", "scripts")
             for path in glob.glob(str(ROOT / folder / "**"), recursive=True) if os.path.isfile(path)]
    return sorted(name for name in (os.path.relpath(path, ROOT) for path in found) if "node_modules" not in name)


def is_text_of_ours(name):
    return name.endswith((".c", ".h", ".def", ".in", ".py")) or name.startswith("scripts/")


def named(name, files):
    """The files that are meant by a name, or by the end of a path."""
    return [file for file in files if ("/" + file).endswith("/" + name)]


def module(name):
    """A header and its source are one."""
    return name.rsplit(".", 1)[0]


def halves(path):
    """(code, comments) of a file: what compilers see of it, and what only people do."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if not path.endswith((".c", ".h", ".def")):
        return text, ""
    # A string stands first, for what looks like a comment in it is none.
    parts = re.findall(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|[^"/]+|.', text, re.DOTALL)
    return ("".join(" " if part.startswith("/*") else part for part in parts),
            "\n".join(part for part in parts if part.startswith("/*")))


def bodies(text):
    """(line, lines) of each function of C, from the brace that opens it to the one that closes it: both stand alone in
    the first column."""
    found, opened = [], None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("{"):
            opened = number
        elif line.startswith("}") and opened:
            found.append((opened, number - opened + 1))
            opened = None
    return found


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

    def test_no_file_is_longer_than_one_reads_at_once(self):
        lines = {name: text_of(name).count("\n") for name in sources()}
        self.assertEqual({name: count for name, count in lines.items() if count > LINES_OF_A_FILE}, {})

    def test_every_function_fits_a_screen(self):
        """The lines between the braces, with them."""
        functions = [(f"{name}:{line}", lines) for name in sources() for line, lines in bodies(text_of(name))]
        self.assertGreater(len(functions), 2500)
        self.assertEqual([at for at in functions if at[1] > LINES_OF_A_FUNCTION], [])
        self.assertEqual(bodies("struct s {\n    int i;\n};\nint f(void)\n{\n    {\n    }\n}\n"), [(5, 4)])

    def test_who_starts_threads_in_a_unit_test_is_its_own_file(self):
        """So make knows of which of them ThreadSanitizer can say something."""
        for path in glob.glob(str(ROOT / "tests/unit/support*")):
            with open(path, encoding="utf-8") as file:
                self.assertNotRegex(file.read(), r"\b(pthread_create|thrd_create)\b", path)

    def test_the_maps_name_what_there_is(self):
        """Files and functions in src/README.md and tests/README.md; and "`function` (`file`" is where it says."""
        files = house_files()
        code = {name: set(re.findall(r"\w+", halves(str(ROOT / name))[0])) for name in files if is_text_of_ours(name)}
        known = set().union(*code.values()) | {os.path.basename(name).split(".")[0] for name in files}
        checked = 0
        for page in ("src/README.md", "tests/README.md"):
            with open(ROOT / page, encoding="utf-8") as file:
                text = " ".join(file.read().split())
            for quoted in re.findall(r"`([^`]+)`", text):
                for name in re.findall(r"[\w./-]+\.(?:c|h|def|in|py)\b", quoted):
                    if "NAME" not in name:
                        self.assertTrue(named(name, files), f"{page} names `{name}`")
                        checked += 1
            for function in re.findall(r"`(\w+_\w+)`", text):
                if "NAME" not in function:
                    self.assertTrue(function in known, f"{page} names `{function}`")
                    checked += 1
            for function, name in re.findall(r"`([a-z]\w+)`(?:,? in| \() ?`([\w/]+\.[ch])`", text):
                self.assertTrue(any(function in code[place] for place in named(name, files)), f"{function} in {name}")
                checked += 1
        self.assertGreater(checked, 300)

    def test_comments_name_what_there_is(self):
        """A file by its name; and a word that begins as a file of the rooms is called, as functions do."""
        files = house_files()
        both = {name: halves(str(ROOT / name)) for name in files if is_text_of_ours(name)}
        known = set().union(*(re.findall(r"\w+", code) for code, _ in both.values()))
        known |= {os.path.basename(name).split(".")[0] for name in files}
        begins = "|".join(sorted({os.path.basename(module(name)) for name in sources()}, key=len, reverse=True))
        checked = 0
        for name, (_, comments) in both.items():
            for told in re.findall(r"(?<![\w./-])\w[\w/]*\.(?:c|h|def|py)\b", comments):
                if told.split("/")[0] in OTHERS_FOLDERS or re.search(r"NAME|^[a-z]\.", told):
                    continue
                self.assertTrue(named(told, files), f"{name} names {told}")
                checked += 1
            for told in re.findall(rf"\b(?:{begins})_\w*[a-z0-9]\b(?!…)", comments):
                self.assertTrue({told, "test_" + told} & known, f"{name} names {told}")
                checked += 1
        self.assertGreater(checked, 600)

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
