"""What the library takes of a process's memory: at rest, locked, and after many edited policies."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BARE, CLIENTS, LIBRARY, PRELOAD, PYTHON, ParallelSuite, Sandbox, Server, Session,  # noqa: E402
                      require_build)

setUpModule = require_build
load_tests = ParallelSuite.load(2)
KIB = 1024

LOCKED = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
    char line[4096];
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    if (mlockall(MCL_CURRENT | MCL_FUTURE))
        return 77;
    for (int i = 0; i < atoi(argv[2]); i++)
        connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&at, sizeof at);
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "VmLck", 5) || !strncmp(line, "VmData", 6))
            fputs(line, stdout);
    return argc == 0;
}
"""


def sizes(text):
    """The kB of each Vm line."""
    return {name: int(size) for name, size in re.findall(r"(Vm\w+):\s+(\d+) kB", text)}


class Rest(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def test_its_zeros_are_few(self):
        lines = subprocess.run(["size", "-A", LIBRARY], check=True, capture_output=True, text=True).stdout
        (zeros,) = re.findall(r"^\.bss\s+(\d+)", lines, re.M)
        self.assertLess(int(zeros), 64 * KIB)

    def test_a_program_starts_and_locks_its_memory_without_much_more(self):
        source, program = (os.path.join(self.sandbox.folder, name) for name in ("locked.c", "locked"))
        with open(source, "w", encoding="ascii") as file:
            file.write(LOCKED)
        subprocess.run(["cc", "-o", program, source], check=True)
        server = Server(up=False)
        self.addCleanup(server.stop)
        self.sandbox.guard(server)

        def taken(how, connects, env=None):
            result = self.sandbox.run([program, server.port, connects], how, env)
            if result.status == 77:
                self.skipTest("memory can't be locked here")
            return sizes(result.stdout)

        bare = taken(BARE, 40)
        off = taken(PRELOAD, 40, {"SOCKFUSE": "off"})
        none = taken(PRELOAD, 40, {"SOCKFUSE_POLICY": "", "XDG_CONFIG_HOME": self.sandbox.folder})
        guarded = taken(PRELOAD, 40)
        for name, more in (("off", off), ("no policy", none)):
            self.assertLess(more["VmData"] - bare["VmData"], 256, (name, bare, more))
            self.assertLess(more["VmLck"] - bare["VmLck"], 640, (name, bare, more))  # most of it is code
        self.assertLess(guarded["VmData"] - bare["VmData"], 1024, (bare, guarded))

    def test_a_program_starts_under_limits_of_its_memory(self):
        self.sandbox.policy("[elsewhere]\nmatch = 192.0.2.1:1\n")
        for limit, env in (("-d 6000", {"SOCKFUSE": "off"}), ("-d 6000", {}), ("-v 12000", {"SOCKFUSE": "off"})):
            result = self.sandbox.run(["sh", "-c", f"ulimit {limit}; exec /bin/true"], PRELOAD, env)
            self.assertEqual(result.output, ("", "", 0), (limit, env))


class Policies(unittest.TestCase):
    def test_policies_that_nobody_follows_are_given_back(self):
        sandbox, server = Sandbox(self), Server()
        self.addCleanup(server.stop)

        def edit(number):
            others = "".join(f"[other-{i}]\nmatch = 192.0.2.1:{i + 1}\n" for i in range(1000))
            sandbox.policy(f"[all]\nmatch = {server.destination}\nfailure_threshold = {number}\n{others}")

        def data():
            with open(f"/proc/{client.process.pid}/status", encoding="ascii") as file:
                return sizes(file.read())["VmData"]

        edit(2)
        client = Session(sandbox, [PYTHON, CLIENTS / "sockets.py"], how=PRELOAD)
        client.ask(do="hold", port=server.port)
        self.assertEqual(client.ask(do="ask"), ["answered"])
        after = []
        for number in range(40):
            edit(3 + number)
            self.assertEqual(sandbox.sockfuse("reload").status, 0)
            # Another connection takes it; every other time the kept one goes on under it, too.
            self.assertEqual(client.ask(do="call", port=server.port), "answered")
            if number % 2:
                self.assertEqual(client.ask(do="ask"), ["answered"])
            after.append(data())
        policy = 2000  # kB, and more than one has
        self.assertLess(after[-1] - after[5], 2 * policy, after)
        self.assertLess(after[-1] - after[0], 4 * policy, after)


if __name__ == "__main__":
    unittest.main()
