"""Programs of 32 and of 64 bit beside each other, on a machine that runs both: `run` finds the library for either."""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, LIBRARY, ROOT, SOCKFUSE, Sandbox, Server, answer_http, eventually,  # noqa: E402
                      reset_after_request)

COMMAND = "command"  # what stands there is the whole command line
# Says what it was answered, and in how many bits.
CLIENT = r"""
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int count, char **words)
{
    char answer[100];
    (void)count;
    for (int i = 0; i < atoi(words[2]); i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(words[1]))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        errno = 0;
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && send(fd, "GET / HTTP/1.0\r\n\r\n", 18, 0) == 18)
            (void)!recv(fd, answer, sizeof answer, 0);
        printf("%d %s\n", (int)sizeof(void *) * 8, errno == 0 ? "answered" : strerror(errno));
        close(fd);
    }
    return 0;
}
"""


class WordSize(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.programs = {}
        for bits in 32, 64:
            self.programs[bits] = os.path.join(self.sandbox.folder, f"client{bits}")
            made = subprocess.run(["gcc", f"-m{bits}", "-x", "c", "-", "-o", self.programs[bits]],
                                  input=CLIENT.encode(), capture_output=True, check=False)
            if made.returncode != 0:
                self.skipTest(f"no compiler for {bits} bit here")
        self.folder = os.path.join(self.sandbox.folder, "bin")
        os.mkdir(self.folder)
        for path in SOCKFUSE, LIBRARY:
            shutil.copy(path, self.folder)

    def install_narrow(self):
        made = subprocess.run([ROOT / "scripts/lib32"], capture_output=True, text=True, check=False,
                              env={"PATH": os.environ["PATH"], "BUILD": str(BUILD)})
        narrow = BUILD / "32" / "libsockfuse.so"
        if made.returncode == 1:
            self.skipTest(made.stderr.strip().splitlines()[-1])
        self.assertEqual(made.returncode, 0, made)
        os.mkdir(os.path.join(self.folder, "32"))
        shutil.copy(narrow, os.path.join(self.folder, "32"))

    def call(self, bits, server, count=1):
        result = self.sandbox.run([os.path.join(self.folder, "sockfuse"), "run", "-p", self.sandbox.policy_path,
                                   self.programs[bits], server.port, count], COMMAND)
        self.assertEqual((result.stderr, result.status), ("", 0))
        return result.stdout.splitlines()

    def serve(self, behaviour):
        server = Server(behaviour)
        self.addCleanup(server.stop)
        return server

    def test_programs_of_either_size_share_a_circuit(self):
        self.install_narrow()
        server = self.serve(reset_after_request)
        self.sandbox.guard(server, failure_threshold=4)
        told = [self.call(bits, server)[0] for bits in (32, 64, 32, 64, 32, 64)]
        reset, refused = "Connection reset by peer", "Connection refused"
        self.assertEqual(told, [f"32 {reset}", f"64 {reset}"] * 2 + [f"32 {refused}", f"64 {refused}"])
        self.assertEqual(server.connections, 4)
        self.assertEqual((self.sandbox.counters(server)["failed"], self.sandbox.counters(server)["refused"]), (4, 2))

    def test_a_narrow_program_that_opens_the_circuit_closes_it_as_well(self):
        self.install_narrow()
        sandbox, self.sandbox = self.sandbox, Sandbox(self, clock=True)
        self.sandbox.folder, self.sandbox.policy_path = sandbox.folder, sandbox.policy_path
        server = self.serve(reset_after_request)
        self.sandbox.guard(server, failure_threshold=2, reset_timeout="10s")
        self.assertEqual(self.call(32, server, 3)[2], "32 Connection refused")
        server.behaviour = answer_http
        self.sandbox.clock.advance_seconds(11)
        self.assertEqual(self.call(32, server, 2), ["32 answered"] * 2)
        self.assertEqual(self.call(64, server), ["64 answered"])
        self.assertEqual(self.sandbox.circuit(server)["state"], "closed")

    def test_an_edited_policy_that_a_program_can_not_read_is_not_said_to_be_taken(self):
        self.install_narrow()
        server = self.serve(answer_http)
        self.sandbox.guard(server)
        client = self.sandbox.popen([os.path.join(self.folder, "sockfuse"), "run", "-p", self.sandbox.policy_path,
                                     self.programs[32], server.port, 10**9], COMMAND)
        self.assertTrue(eventually(lambda: server.requests > 0))
        for threshold in range(10, 20):  # on a busy machine a second may be too short for it
            self.sandbox.guard(server, failure_threshold=threshold)
            result = self.sandbox.sockfuse("reload")
            if "not taken" in result.stdout:
                break
        self.assertIn(f"0 of 1 program run it now\n  not taken by pid {client.pid} (client32): what was handed over is "
                      "of another version or word size\n", result.stdout)
        self.assertEqual(result.status, 1, result)

    def test_without_a_library_for_it_a_program_runs_unguarded_and_run_says_so(self):
        server = self.serve(answer_http)
        self.sandbox.guard(server)
        result = self.sandbox.run([os.path.join(self.folder, "sockfuse"), "run", "-p", self.sandbox.policy_path,
                                   "--engine", "preload", self.programs[32], server.port, 1], COMMAND)
        self.assertEqual((result.stdout, result.status), ("32 answered\n", 0))
        self.assertRegex(result.stderr, "(?s)32-bit.*will not be guarded.*make lib32")
        self.assertEqual(self.sandbox.counters(server)["admitted"], 0)

    def test_a_library_that_can_not_serve_is_no_better_than_none(self):
        os.mkdir(os.path.join(self.folder, "32"))
        shutil.copy(LIBRARY, os.path.join(self.folder, "32"))
        server = self.serve(answer_http)
        self.sandbox.guard(server)
        result = self.sandbox.run([os.path.join(self.folder, "sockfuse"), "run", "-p", self.sandbox.policy_path,
                                   "--engine", "preload", self.programs[32], server.port, 1], COMMAND)
        self.assertRegex(result.stderr, "32-bit")


if __name__ == "__main__":
    unittest.main()
