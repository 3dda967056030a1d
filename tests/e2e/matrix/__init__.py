"""The table of real programs against real faults: who (programs), against what (scenarios), what differs (exceptions),
and how a cell is judged (cells). Run by test_matrix.py."""
