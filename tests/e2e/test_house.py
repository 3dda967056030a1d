"""What holds for the sources as a whole: who may use whom, and that the circuit's code is pure."""
import glob
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import BUILD, ROOT, require_build  # noqa: E402

# Each folder uses only those before it, and the last two never each other.
MAY_USE = {"breaker": (), "policy": ("breaker",), "segment": ("breaker", "policy"),
           "preload": ("breaker", "policy", "segment"), "cli": ("breaker", "policy", "segment")}
# What only computes, and what compilers call by themselves.
PURE = {"strcmp", "strlen", "memcpy", "memmove", "memset", "memcmp", "__popcountdi2", "_GLOBAL_OFFSET_TABLE_",
        "__stack_chk_fail"}


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


class House(unittest.TestCase):
    def test_every_folder_uses_only_those_before_it(self):
        folders = {os.path.basename(os.path.dirname(path)) for path in glob.glob(str(ROOT / "src/*/*.c"))}
        self.assertEqual(folders, set(MAY_USE))
        seen = 0
        for path in glob.glob(str(ROOT / "src/*/*.[ch]")):
            folder = os.path.basename(os.path.dirname(path))
            with open(path, encoding="utf-8") as file:
                used = set(re.findall(r'(?m)^#\s*include "([^"]*)"', file.read()))
            for name in used - {"symbols.def"}:
                self.assertIn(name.split("/")[0], (folder, *MAY_USE[folder]), f"{path} includes {name}")
                seen += 1
        self.assertGreater(seen, 100)

    def test_the_circuit_reads_no_clock_makes_no_system_call_and_allocates_nothing(self):
        """Its objects ask for nothing that is not their own, but for what only computes."""
        require_build()
        objects = [str(BUILD / os.path.relpath(path, ROOT))[:-2] + ".o"
                   for path in glob.glob(str(ROOT / "src/breaker/*.c"))]
        names = symbols(*objects)
        own = {name for name, section, _ in names if section != "UND"}
        self.assertIn("circuit_admit", own)
        asked = {name for name, section, _ in names if section == "UND"}
        self.assertIn("circuit_count_outcome", asked)
        self.assertEqual(asked - own - PURE, set())

    def test_the_circuit_keeps_nothing_but_what_it_is_given(self):
        """No variable of its own: all that changes lies in the memory that the caller passes."""
        require_build()
        for path in glob.glob(str(ROOT / "src/breaker/*.c")):
            path = str(BUILD / os.path.relpath(path, ROOT))[:-2] + ".o"
            self.assertEqual({name for name, _, changes in symbols(path) if changes}, set(), path)


if __name__ == "__main__":
    unittest.main()
