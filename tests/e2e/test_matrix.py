"""The matrix: real programs against real faults. `make matrix`, ONLY=curl for a row, ONLY=curl/silent for a cell.

Run as a program it prints the table at the end, which cells cannot be right and why, and `cells right / cells`.
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import ParallelSuite  # noqa: E402
from matrix.cells import OPEN, Cells, cells  # noqa: E402
from matrix.exceptions import CANNOT  # noqa: E402
from matrix.programs import PROGRAMS  # noqa: E402
from matrix.scenarios import KEPT, SCENARIOS, TLS_KEPT  # noqa: E402

load_tests = ParallelSuite.load(6)


class Matrix(Cells):
    """One test for each cell."""


def add_tests():
    """Returns which test is which cell."""
    places = {}
    for entry, scenario in cells():
        if scenario is OPEN:
            name = f"test_{entry.name}_is_refused_at_once_by_an_open_circuit_and_closes_it_again"

            def test(self, entry=entry):
                self.run_open(entry)
        else:
            shown = f"shows_{scenario.kind.replace('-', '_')}" if scenario.kind else "shows_no_failure"
            if scenario in (KEPT, TLS_KEPT):
                shown = "fails_and_sends_nothing"
            if (entry.name, scenario.name) in CANNOT:
                shown = "is_beyond_sight_and_shows_no_failure"
            name = f"test_{entry.name}_with_{scenario.name}_{shown}"

            def test(self, entry=entry, scenario=scenario):
                self.run_cell(entry, scenario)
        test.__name__ = name
        setattr(Matrix, name, test)
        places[name] = (entry.name, OPEN if scenario is OPEN else scenario.name)
    return places


PLACES = add_tests()


def report(result):
    """The table and its sum, on the standard output."""
    wrong = {test.id().rsplit(".", 1)[-1] for test, _ in result.failures + result.errors}
    marks = {place: "-" if place in CANNOT else "ok" for place in PLACES.values()}
    marks.update({PLACES[name]: "WRONG" for name in wrong if name in PLACES})
    columns = [scenario.name for scenario in SCENARIOS] + [OPEN]
    columns = [column for column in columns if any(place[1] == column for place in marks)]
    print("\nok: right; -: cannot be right, see below; blank: no such case\n")
    for number, column in enumerate(columns, 1):
        print(f"  {number:2} {column}")
    print("\n" + " " * 24 + "".join(f"{number:>6}" for number in range(1, len(columns) + 1)))
    for entry in PROGRAMS:
        row = [marks.get((entry.name, column), "") for column in columns]
        if any(row):
            print(f"{entry.name:24}" + "".join(f"{mark:>6}" for mark in row))
    beyond = [place for place in PLACES.values() if place in CANNOT]
    if beyond:
        print("\ncannot be right, and not counted as cells:")
        for reason in dict.fromkeys(CANNOT[place] for place in beyond):
            print(f"  {reason}:")
            for place in beyond:
                if CANNOT[place] == reason:
                    print(f"    {place[0]}/{place[1]}")
    right = sum(mark == "ok" for mark in marks.values())
    also_wrong = sum(marks[place] == "WRONG" for place in beyond)
    print(f"\n{len(beyond)} cells cannot be right" + (f", {also_wrong} of them otherwise wrong" if also_wrong else ""))
    print(f"cells right / cells: {right} / {sum(place not in CANNOT for place in PLACES.values())}")


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    report(outcome)
    sys.exit(not outcome.wasSuccessful())
