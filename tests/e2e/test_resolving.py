"""How `run` looks up a policy's names before it starts the program: safely, and without a trace in the program.

Each test has a network namespace with its own hosts file and name server.
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import PYTHON, SOCKFUSE, NameServer, Namespace, ParallelSuite, Sandbox  # noqa: E402

load_tests = ParallelSuite.load(4)
COMMAND = "command"  # what stands there is the whole command line, for a sandbox's environment
# What a process can know of itself that somebody before the exec could have left: children, threads, descriptors,
# signals, the mask of new files.
TRACES = """
import os, signal
umask = os.umask(0)
print("umask", oct(umask))
try:
    print("child", os.waitpid(-1, os.WNOHANG | 0x40000000))  # __WALL
except ChildProcessError:
    print("no child")
for line in open("/proc/self/status"):
    if line.startswith(("Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp")):
        print(line, end="")
print(sorted(os.listdir("/proc/self/fd")))
print(signal.getitimer(signal.ITIMER_REAL))
"""
# Starts its words with SIGCHLD blocked, so that one that came would wait for the program.
BLOCKED = ("import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD]); os.umask(0o027); "
           "os.execv(sys.argv[1], sys.argv[1:])")


class Resolving(unittest.TestCase):
    def start(self, names, records, **keys):
        self.sandbox = Sandbox(self)
        self.space = Namespace(self.sandbox.folder, ["127.0.0.1 localhost"], resolver="127.0.0.1")
        self.addCleanup(self.space.close)
        self.sandbox.namespace = self.space
        server = NameServer(self.space, records, **keys)
        self.addCleanup(server.stop)
        self.sandbox.policy("".join(f"[{name}:80]\n" for name in names))

    def guarded(self, *argv):
        """The words that guard a program, to stand behind others."""
        return [SOCKFUSE, "run", "-p", self.sandbox.policy_path, "--", *argv]

    def assert_leaves_no_trace(self):
        told = []
        for words in ([PYTHON, "-c", TRACES], self.guarded(PYTHON, "-c", TRACES)):
            told.append(self.sandbox.run([PYTHON, "-c", BLOCKED, *words], COMMAND))
            self.assertEqual((told[-1].stderr, told[-1].status), ("", 0))
        self.assertEqual(told[1].stdout, told[0].stdout)

    def test_names_that_are_answered_at_the_same_moment(self):
        # One start in some twenty with a few names died where the waiting for several answers was racy.
        records = {f"host{number}.test": ["127.0.0.1"] for number in range(4)}
        self.start(records, records, gather=0.02)
        for attempt in range(150):
            result = self.sandbox.run(self.guarded("true"), COMMAND)
            self.assertEqual(result.output, ("", "", 0), f"start {attempt}")

    def test_a_program_sees_nothing_of_the_search_when_all_are_answered(self):
        records = {f"host{number}.test": ["127.0.0.1"] for number in range(5)}
        self.start(records, records)
        self.assert_leaves_no_trace()

    def test_a_program_sees_nothing_of_the_search_when_none_is_answered(self):
        self.start([f"host{number}.test" for number in range(5)], {}, silent=True)
        self.assert_leaves_no_trace()

    def test_no_process_stays_behind(self):
        self.start([f"host{number}.test" for number in range(5)], {}, silent=True)
        script = "for link in /proc/[0-9]*/exe; do readlink $link; done | grep -c '/sockfuse$' || :"
        result = self.sandbox.run(["unshare", "-p", "-f", "--mount-proc", *self.guarded("sh", "-c", script)], COMMAND)
        self.assertEqual(result.output, ("0\n", "", 0))

    def test_a_name_space_of_processes_whose_first_one_is_yet_to_come_stays_usable(self):
        # Its first process is its init: when that one ends, no other can be made.
        self.start(["host.test"], {"host.test": ["127.0.0.1"]})
        result = self.sandbox.run(["unshare", "-p", *self.guarded("sh", "-c", "echo $(echo child)")], COMMAND)
        self.assertEqual(result.output, ("child\n", "", 0))

    def test_a_program_starts_where_no_process_or_thread_can_be_made(self):
        self.start(["host.test"], {"host.test": ["127.0.0.1"]})
        os.chmod(self.sandbox.folder, 0o777)
        result = self.sandbox.run(["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "prlimit", "--nproc=1",
                                   *self.guarded(PYTHON, "-c", "print('started')")], COMMAND)
        self.assertEqual((result.stdout, result.status), ("started\n", 0), result)


if __name__ == "__main__":
    unittest.main()
