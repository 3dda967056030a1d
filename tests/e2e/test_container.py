"""The recipe of libsockfuse(7) for a container whose image is as it is: a volume with the library, and two variables."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import LIBRARY, ROOT, SOCKFUSE, Machine, ParallelSuite, Sandbox, Server, answer_http  # noqa: E402

load_tests = ParallelSuite.load(2)
# Process numbers of its own, as a container has.
CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL")
# Calls until its input ends, and says what came of each.
CLIENT = r"""
while read -r port; do
    { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null && { exec 3>&-; echo connected; } || echo refused
done
"""


def recipe():
    """The variables that the page sets."""
    with open(ROOT / "src/man/libsockfuse.7", encoding="utf-8") as file:
        (block,) = re.findall(r"(?ms)^docker run .*?^\.Ed", file.read())
    return dict(re.findall(r"-e (\w+)=(\S+)", block)), re.findall(r"-v (\S+):(\S+):ro", block)


class Container(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.machine = Machine(self, self.sandbox)
        self.variables, volumes = recipe()
        self.assertEqual([place for _, place in volumes], ["/sockfuse", "/etc/sockfuse"])
        self.server = Server(answer_http)
        self.addCleanup(self.server.stop)
        for _, place in volumes:
            (self.machine.root / place[1:]).mkdir(exist_ok=True)
        shutil.copy(LIBRARY, self.machine.root / self.variables["LD_PRELOAD"][1:])
        (self.machine.root / self.variables["SOCKFUSE_POLICY"][1:]).write_text(
            f"[defaults]\nfailure_threshold = 3\nsuccess = connect\nreset_timeout = 1h\nreset_timeout_max = 1h\n"
            f"[{self.server.destination}]\n", encoding="utf-8")

    def calls(self, times):
        """Of a program in a container that is there for these calls alone."""
        process = self.machine.popen(*CONTAINER, "bash", "-c", CLIENT, env=self.variables, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
        out, _ = process.communicate(f"{self.server.port}\n".encode() * times, 60)
        return out.decode().split()

    def test_its_programs_are_guarded_and_share_their_circuits(self):
        self.assertEqual(self.calls(2), ["connected"] * 2)
        self.server.down()
        self.assertEqual(self.calls(3), ["refused"] * 3)
        before = self.server.connections
        self.server.up()
        self.assertEqual(self.calls(2), ["refused"] * 2, "the circuit is open, and the server is not asked")
        self.assertEqual(self.server.connections, before)
        shutil.copy(SOCKFUSE, self.machine.root / "usr/local/bin/sockfuse")
        out, err, status = self.machine.run("sockfuse", "status", "--json")
        self.assertEqual((err, status), ("", 0))
        (policy,) = json.loads(out)
        (circuit,) = policy["circuits"]
        self.assertEqual((circuit["state"], circuit["counters"]["refused"]), ("open", 2))


if __name__ == "__main__":
    unittest.main()
