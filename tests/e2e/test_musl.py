"""Programs of another C library, musl's: `run` finds the library for them, and they share circuits with the others; also
where nothing else is, as in a container of Alpine's."""
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, LIBRARY, ROOT, SOCKFUSE, Sandbox, Server, answer_http, reset_after_request,  # noqa: E402
                      stay_silent)

COMMAND = "command"  # what stands there is the whole command line
# Calls so often, says what it was answered, and executes what else it is told to; or leaves with that status while it
# waits for its answer.
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
    const int leaves = strcmp(words[2], "leave") == 0;
    for (int i = 0; i < (leaves ? 1 : atoi(words[2])); i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(words[1]))};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        errno = 0;
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && send(fd, "GET / HTTP/1.0\r\n\r\n", 18, 0) == 18) {
            if (leaves) {
                usleep(400000);
                exit(atoi(words[3]));
            }
            (void)!recv(fd, answer, sizeof answer, 0);
        }
        puts(errno == 0 ? "answered" : errno == ECONNREFUSED ? "refused" : errno == ECONNRESET ? "reset" : "other");
        close(fd);
    }
    fflush(stdout);
    if (count > 3)
        execv(words[3], words + 3);
    return 0;
}
"""


@unittest.skipUnless(shutil.which("musl-gcc"), "musl-gcc is not installed")
class Musl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = subprocess.run([ROOT / "scripts/musl"], capture_output=True, text=True, check=False,
                              env={"PATH": os.environ["PATH"], "BUILD": str(BUILD), "WERROR": "-Werror"})
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)

    def setUp(self):
        self.sandbox = Sandbox(self)
        self.folder = os.path.join(self.sandbox.folder, "bin")
        os.mkdir(self.folder)
        for path in SOCKFUSE, LIBRARY:
            shutil.copy(path, self.folder)
        self.command = os.path.join(self.folder, "sockfuse")
        self.clients = {}
        for name, compiler in ("musl", "musl-gcc"), ("glibc", "gcc"):
            self.clients[name] = os.path.join(self.folder, f"{name}-client")
            subprocess.run([compiler, "-x", "c", "-", "-o", self.clients[name]], input=CLIENT.encode(), check=True)
        self.server = Server(reset_after_request)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, failure_threshold=4, reset_timeout="10m", reset_timeout_max="10m")

    def install(self):
        os.mkdir(os.path.join(self.folder, "musl"))
        return shutil.copy(BUILD / "musl" / "libsockfuse.so", os.path.join(self.folder, "musl"))

    def guarded(self, client, times, *more):
        return self.sandbox.run([self.command, "run", "-p", self.sandbox.policy_path, self.clients[client],
                                 self.server.port, times, *more], COMMAND)

    def test_programs_of_either_library_share_a_circuit(self):
        self.install()
        for client in "musl", "glibc":
            self.assertEqual(self.guarded(client, 2).output, ("reset\n" * 2, "", 0), client)
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "open")
        for client in "musl", "glibc":
            self.assertEqual(self.guarded(client, 3).output, ("refused\n" * 3, "", 0), client)
        self.assertEqual((self.server.connections, self.sandbox.counters(self.server)["refused"]), (4, 6))
        programs = {event["program"] for event in self.sandbox.events()}
        self.assertEqual(programs, {"musl-client", "glibc-client"})

    def test_without_a_library_for_it_beside_the_other_it_runs_unguarded_and_is_told_why(self):
        result = self.sandbox.run([self.command, "run", "--engine", "preload", "-p", self.sandbox.policy_path,
                                   self.clients["musl"], self.server.port, 1], COMMAND)
        self.assertEqual((result.stdout, result.status), ("reset\n", 0))
        self.assertRegex(result.stderr, r"^sockfuse: .*built for musl.*will not be guarded; make musl builds one for it\n$")
        self.install()
        self.assertEqual(self.sandbox.run([self.command, "check", "--for", self.clients["musl"]], COMMAND).stderr, "")

    def test_a_program_of_glibc_that_one_of_musl_starts_says_so_and_runs_unguarded(self):
        self.install()
        result = self.guarded("musl", 0, self.clients["glibc"], self.server.port, 1)
        self.assertEqual((result.stdout, result.status), ("reset\n", 0))
        self.assertRegex(result.stderr, r"musl/libsockfuse.so' from LD_PRELOAD cannot be preloaded .*: ignored")
        self.assertEqual(self.sandbox.counters(self.server)["admitted"] if self.sandbox.circuits() else 0, 0)

    def test_who_ends_with_an_error_while_he_waits_has_given_up(self):
        self.install()
        self.server.down()
        self.server.up(stay_silent)
        for status, failures in (3, {"response-timeout": 1}), (0, {"response-timeout": 1}):
            self.assertEqual(self.guarded("musl", "leave", status).output, ("", "", status))
            self.assertEqual(self.sandbox.failures(self.server), failures)
        self.assertEqual(self.sandbox.counters(self.server)["neutral"], 1)

    def test_a_script_is_known_by_its_name(self):
        """Which is an argument of its interpreter, and of those the library is not told there."""
        script = os.path.join(self.sandbox.folder, str(self.server.port))  # the interpreter takes it for a port
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/usr/bin/env musl-client\n")
        policies = os.path.join(self.sandbox.home, ".config/sockfuse")
        os.makedirs(policies)
        shutil.move(self.sandbox.policy_path, os.path.join(policies, f"{self.server.port}.policy"))
        result = self.sandbox.run(["/usr/bin/env", f"LD_PRELOAD={self.install()}", self.clients["musl"],
                                   os.path.basename(script), 5], "preload by hand")
        self.assertEqual(result.output, ("reset\n" * 4 + "refused\n", "", 0))

    @unittest.skipUnless(os.geteuid() == 0, "only root may change its root")
    def test_where_nothing_but_musl_is_two_variables_and_a_volume_do(self):
        image = os.path.join(self.sandbox.folder, "image")
        loader = re.search(r"/lib\S*/ld-musl-\S+", subprocess.run(["readelf", "-l", self.clients["musl"]], check=True,
                                                                  capture_output=True, text=True).stdout).group(0)[:-1]
        for source, place in ((loader, loader), (self.clients["musl"], "/bin/client"),
                              (self.install(), "/sockfuse/musl/libsockfuse.so"),
                              (self.sandbox.policy_path, self.sandbox.policy_path)):
            os.makedirs(os.path.dirname(image + place), exist_ok=True)
            shutil.copy(source, image + place)
        os.mkdir(self.sandbox.state, 0o700)
        os.mkdir(image + "/state", 0o700)
        # Only what is in the image may get the variables: an env of its own.
        os.makedirs(image + "/usr/bin")
        subprocess.run(["musl-gcc", "-static", "-x", "c", "-", "-o", image + "/usr/bin/env"], check=True,
                       input=b"#include <stdlib.h>\n#include <unistd.h>\nint main(int count, char **words)"
                             b" { (void)count; return putenv(words[1]) || execv(words[2], words + 2); }")
        enter = f"mount --bind '{self.sandbox.state}' '{image}/state' && exec chroot '{image}' /usr/bin/env \"$@\""

        def contained(times):
            return self.sandbox.run(
                ["unshare", "-m", "--propagation", "private", "sh", "-c", enter, "sh",
                 "LD_PRELOAD=/sockfuse/musl/libsockfuse.so", "/bin/client", self.server.port, times], COMMAND,
                {"SOCKFUSE_POLICY": self.sandbox.policy_path, "SOCKFUSE_STATE": "/state"})
        self.assertEqual(contained(4).output, ("reset\n" * 4, "", 0))
        self.assertEqual(self.guarded("glibc", 1).output, ("refused\n", "", 0), "what was seen in the container")
        self.server.down()
        self.server.up(answer_http)
        self.assertEqual(self.sandbox.sockfuse("forget", self.server.destination).status, 0)
        self.assertEqual(contained(1).output, ("answered\n", "", 0))
        self.assertEqual(self.sandbox.counters(self.server)["succeeded"], 1)


if __name__ == "__main__":
    unittest.main()
