"""Runs unit tests of Python's own `test` package and writes each one's result as JSON; by the Python under test.

    python3 unittests.py RESULTS NAME...

A name is a module below `test` (asyncio.test_streams is test.test_asyncio.test_streams), or a test's full name. Modules
that this Python does not have are passed over.
"""
import importlib.util
import json
import sys
import unittest


class Recording(unittest.TestResult):
    """The result of each test by its name. One whose parts differ has that of the worst."""

    def __init__(self):
        super().__init__()
        self.results = {}

    def _record(self, test, result):
        order = ("ok", "skipped", "failed")
        # A class or module that can't be set up has no name of its own: "setUpClass (test.test_x.Y)".
        name = test.id()
        before = self.results.get(name, "ok")
        self.results[name] = max(before, result, key=order.index)

    def addSuccess(self, test):
        self._record(test, "ok")

    def addSkip(self, test, reason):
        del reason
        self._record(test, "skipped")

    def addError(self, test, err):
        self._tell(test, err)

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._tell(test, err)

    def addExpectedFailure(self, test, err):
        del err
        self._record(test, "ok")

    def addUnexpectedSuccess(self, test):
        self._record(test, "failed")

    def _tell(self, test, err):
        self._record(test, "failed")
        print(f"--- {test.id()}\n{self._exc_info_to_string(err, test)}", file=sys.stderr)


class Loader(unittest.TestLoader):
    """All but the tests of VSOCK: where the hypervisor has it half, as many have, they wait for ever."""

    def loadTestsFromTestCase(self, testCaseClass):
        if "VSOCK" in testCaseClass.__name__:
            return unittest.TestSuite()
        return super().loadTestsFromTestCase(testCaseClass)


def load(name):
    """The tests of a module, or the one test."""
    loader = Loader()
    if name.startswith("test."):
        return loader.loadTestsFromName(name)
    module = "test." + ("test_asyncio" + name[len("asyncio"):] if name.startswith("asyncio.") else name)
    try:
        if importlib.util.find_spec(module) is None:
            return unittest.TestSuite()
        return loader.loadTestsFromName(module)
    except unittest.SkipTest:
        return unittest.TestSuite()


def main():
    from test import support
    # Some want the network for what needs loopback alone; nothing that takes long, or much memory.
    support.use_resources = {'network': None}
    suite = unittest.TestSuite(load(name) for name in sys.argv[2:])
    recording = Recording()
    suite.run(recording)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(recording.results, file)


if __name__ == "__main__":
    main()
