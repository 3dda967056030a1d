"""The second engine: static programs and Go, whose connects the kernel asks about."""
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, SOCKFUSE, Sandbox, Server, answer_http, end_after_request, eventually,  # noqa: E402
                      require_build, reset_after_request, stay_silent)

COMMAND = "command"
# PORT COUNT STATUS THREADS [WORD...]: calls so often in each thread, says how often it was answered what, and leaves
# with that status, or becomes what the words are.
CLIENT = r"""
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
static int port, count;
static int counts[4];
static const char *const names[4] = {"answered", "refused", "reset", "other"};
static void *call(void *unused)
{
    (void)unused;
    char answer[200];
    for (int i = 0; i < count; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct timeval patience = {.tv_usec = 400000};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        ssize_t got = -1;
        errno = 0;
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
            send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) == 18)
            got = recv(fd, answer, sizeof answer, 0);
        __atomic_fetch_add(&counts[got > 0 ? 0 : errno == ECONNREFUSED ? 1 : errno == ECONNRESET ? 2 : 3], 1, 0);
        close(fd);
    }
    return NULL;
}
int main(int words, char **word)
{
    pthread_t threads[16];
    port = atoi(word[1]), count = atoi(word[2]);
    int many = atoi(word[4]);
    for (int i = 0; i < many; i++)
        pthread_create(&threads[i], NULL, call, NULL);
    for (int i = 0; i < many; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        if (counts[i])
            printf("%s %d\n", names[i], counts[i]);
    fflush(stdout);
    if (words > 5)
        execv(word[5], word + 5);
    return atoi(word[3]);
}
"""
GO_CLIENT = r"""
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	client := &http.Client{Timeout: 400 * time.Millisecond}
	for i := 0; i < count; i++ {
		answer, err := client.Get("http://127.0.0.1:" + os.Args[1] + "/")
		switch {
		case err == nil:
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			fmt.Println("answered")
		case strings.Contains(err.Error(), "refused"):
			fmt.Println("refused")
		case strings.Contains(err.Error(), "reset"):
			fmt.Println("reset")
		default:
			fmt.Println("other")
		}
	}
	time.Sleep(50 * time.Millisecond) // the last connection is closed by another goroutine
	os.Exit(3)
}
"""
# PORT COUNT: dials so often from 64 goroutines, while every thread gets a signal each 50 microseconds.
GO_STORM = r"""
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	var next, refused, other int64
	var all sync.WaitGroup
	go func() {
		for {
			tasks, _ := os.ReadDir("/proc/self/task")
			for _, task := range tasks {
				tid, _ := strconv.Atoi(task.Name())
				syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(tid), uintptr(syscall.SIGURG))
			}
			time.Sleep(50 * time.Microsecond)
		}
	}()
	for i := 0; i < 64; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for atomic.AddInt64(&next, 1) <= int64(count) {
				connection, err := net.Dial("tcp", "127.0.0.1:"+os.Args[1])
				if err == nil {
					connection.Close()
				}
				if errors.Is(err, syscall.ECONNREFUSED) {
					atomic.AddInt64(&refused, 1)
				} else {
					atomic.AddInt64(&other, 1)
				}
			}
		}()
	}
	all.Wait()
	fmt.Println(refused, other)
}
"""
# How many refusals a storm has; what the engine was built for are 100000.
REFUSALS = int(os.environ.get("SOCKFUSE_TEST_REFUSALS", "8000"))


def setUpModule():
    require_build()


class Notify(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = str(BUILD / "tests" / "notify")
        os.makedirs(cls.folder, exist_ok=True)
        cls.static = os.path.join(cls.folder, "static-client")
        cls.dynamic = os.path.join(cls.folder, "dynamic-client")
        compiler = "musl-gcc" if shutil.which("musl-gcc") else "gcc"
        for path, words in (cls.static, [compiler, "-static"]), (cls.dynamic, ["gcc"]):
            subprocess.run([*words, "-x", "c", "-", "-pthread", "-o", path], input=CLIENT.encode(), check=True)

    def setUp(self):
        self.sandbox = Sandbox(self)

    def serve(self, behaviour, **keys):
        server = Server(behaviour)
        self.addCleanup(server.stop)
        self.sandbox.guard(server, **{"failure_threshold": 4, "reset_timeout": "10m", "reset_timeout_max": "10m", **keys})
        return server

    def call(self, client, server, count, status=0, threads=1, *more):
        return self.sandbox.run([client, server.port, count, status, threads, *more])

    def comes_to(self, server, **counters):
        """What is seen from outside is told a moment after a connection's end."""
        self.assertTrue(eventually(lambda: {name: self.sandbox.counters(server)[name] for name in counters} == counters),
                        self.sandbox.circuit(server))

    def go_client(self, text=GO_CLIENT, name="go-client"):
        path, source = os.path.join(self.folder, name), os.path.join(self.folder, name + ".go")
        with open(source, "w", encoding="ascii") as file:
            file.write(text)
        environment = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOFLAGS": "",
                       "GOCACHE": os.path.join(self.folder, "cache"), "HOME": self.sandbox.home}
        subprocess.run(["go", "build", "-o", path, source], env=environment, check=True)
        return path

    def test_a_static_program_and_one_with_the_library_share_a_circuit(self):
        server = self.serve(reset_after_request)
        for client in self.static, self.dynamic:
            self.assertEqual(self.call(client, server, 2).output, ("reset 2\n", "", 0), client)
            self.comes_to(server, failed=2 if client == self.static else 4)
        self.assertEqual(self.sandbox.circuit(server)["state"], "open")
        for client in self.static, self.dynamic:
            self.assertEqual(self.call(client, server, 3).output, ("refused 3\n", "", 0), client)
        self.assertEqual((server.connections, self.sandbox.counters(server)["refused"]), (4, 6))
        self.assertEqual({event["program"] for event in self.sandbox.events()}, {"static-client", "dynamic-client"})

    @unittest.skipUnless(shutil.which("go"), "go is not installed")
    def test_a_go_program_is_refused_at_once_and_judged(self):
        client = self.go_client()
        server = self.serve(reset_after_request)
        self.assertEqual(self.call(client, server, 4).output, ("reset\n" * 4, "", 3))
        self.comes_to(server, failed=4)
        self.assertEqual(self.call(client, server, 2).output, ("refused\n" * 2, "", 3))
        self.assertEqual((server.connections, self.sandbox.failures(server)), (4, {"reset": 4}))
        for behaviour, said, failures in (answer_http, "answered", {}), (stay_silent, "other", {"response-timeout": 2}):
            server = self.serve(behaviour)
            self.assertEqual(self.call(client, server, 2).output, (f"{said}\n" * 2, "", 3))
            self.comes_to(server, failed=sum(failures.values()))
            self.assertEqual(self.sandbox.failures(server), failures)

    def test_each_end_is_judged_as_by_the_library(self):
        for behaviour, said, kind in ((answer_http, "answered", None), (end_after_request, "other", "early-close"),
                                      (reset_after_request, "reset", "reset"), (stay_silent, "other", "response-timeout")):
            for client in self.static, self.dynamic:
                with self.subTest(behaviour.__name__, client=client):
                    server = self.serve(behaviour)
                    # A program that ends well may have closed at its end what it still waited for.
                    self.assertEqual(self.call(client, server, 2, 3).output, (f"{said} 2\n", "", 3))
                    self.comes_to(server, admitted=2, failed=2 if kind else 0, succeeded=0 if kind else 2)
                    self.assertEqual(self.sandbox.failures(server), {kind: 2} if kind else {})

    def test_a_port_at_which_nobody_listens_opens_it_and_all_refusals_are_counted(self):
        server = self.serve(answer_http)
        server.down()
        self.assertEqual(self.call(self.static, server, 4).output, ("refused 4\n", "", 0))
        self.comes_to(server, failed=4)
        self.assertEqual(self.call(self.static, server, 500, 0, 8).output, ("refused 4000\n", "", 0))
        self.comes_to(server, admitted=4, refused=4000)
        self.assertEqual(self.sandbox.failures(server), {"refused": 4})

    def test_the_program_keeps_its_process_id_status_signals_and_children(self):
        server = self.serve(answer_http)
        self.assertEqual(self.call(self.static, server, 1, 42).output, ("answered 1\n", "", 42))
        self.assertEqual(self.sandbox.run([self.static, server.port, 0, 0, 0, "/bin/sh", "-c",
                                           "ps -o comm= --ppid $$; kill -TERM $$"]).output,
                         ("ps\n", "", -signal.SIGTERM))
        process = self.sandbox.popen([self.static, server.port, 0, 0, 0, "/bin/sleep", "60"])
        self.assertTrue(eventually(lambda: self.command_of(process.pid).startswith("/bin/sleep")))
        process.terminate()
        self.assertEqual(process.wait(), -signal.SIGTERM)

    @staticmethod
    def command_of(pid):
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().replace("\0", " ")

    def helpers(self):
        """Keeper and worker of this test's programs, the keeper first."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if file.read() == "sockfuse-keeper\n" and self.sandbox.policy_path in self.command_of(pid):
                        found.append(int(pid))
            except OSError:
                continue
        return sorted(found, key=lambda pid: self.parent_of(pid) in found)

    @staticmethod
    def parent_of(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return int(re.sub(r".*\) \S ", "", file.read()).split()[0])
        except OSError:
            return 0

    def test_a_worker_that_is_killed_has_a_successor_and_both_go_with_the_program(self):
        server = self.serve(answer_http)
        process = self.sandbox.popen([SOCKFUSE, "run", "-p", self.sandbox.policy_path, self.static, server.port, 0, 0, 0,
                                      "/bin/sh", "-c", f"read line; {self.static} {server.port} 6 0 1"], COMMAND,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertTrue(eventually(lambda: len(self.helpers()) == 2))
        keeper, worker = self.helpers()
        self.assertEqual(self.parent_of(worker), keeper)
        server.down()
        os.kill(worker, signal.SIGKILL)
        self.assertTrue(eventually(lambda: len(found := self.helpers()) == 2 and worker not in found))
        self.assertEqual(process.communicate("\n", 60)[0], "refused 6\n")
        self.assertTrue(eventually(lambda: not self.helpers()))

    def each_is_judged_once(self, server, count):
        """As many attempts as open the circuit, and those that were on the way then: all others are refusals."""
        self.assertTrue(eventually(lambda: self.judged(server) == self.sandbox.counters(server)["admitted"]),
                        self.sandbox.circuit(server))
        counters = self.sandbox.counters(server)
        self.assertEqual(counters["admitted"] + counters["refused"], count, counters)
        self.assertGreaterEqual(counters["failed"], 4)
        self.assertLess(counters["admitted"], 4 + 64, counters)

    def judged(self, server):
        counters = self.sandbox.counters(server)
        return sum(counters[name] for name in ("succeeded", "failed", "neutral", "late"))

    @unittest.skipUnless(shutil.which("go"), "go is not installed")
    def test_under_a_storm_of_signals_no_goroutine_stalls_and_each_dial_is_judged_once(self):
        client = self.go_client(GO_STORM, "go-storm")
        server = self.serve(answer_http)
        server.down()
        result = self.sandbox.run([client, server.port, REFUSALS], env={"GOMAXPROCS": "4"})
        self.assertEqual(result.output, (f"{REFUSALS} 0\n", "", 0))
        self.each_is_judged_once(server, REFUSALS)

    def test_of_eight_threads_none_stalls_and_each_connect_is_judged_once(self):
        server = self.serve(answer_http)
        server.down()
        self.assertEqual(self.call(self.static, server, REFUSALS // 8, 0, 8).output, (f"refused {REFUSALS}\n", "", 0))
        self.each_is_judged_once(server, REFUSALS)

    @unittest.skipUnless(shutil.which("busybox"), "busybox is not installed")
    def test_of_a_shell_and_its_programs_each_call_is_judged_once(self):
        server = self.serve(answer_http)
        server.down()
        result = self.sandbox.run([SOCKFUSE, "run", "-p", self.sandbox.policy_path, "--engine", "notify",
                                   shutil.which("busybox"), "sh", "-c",
                                   "n=0; while [ $n -lt 60 ]; do busybox wget -q -O - http://127.0.0.1:$0/ && echo got; "
                                   "n=$((n + 1)); done 2>&1 | grep -c refused", server.port], COMMAND)
        self.assertEqual(result.output, ("60\n", "", 0))
        self.each_is_judged_once(server, 60)

    def storm(self, harm, count):
        """Calls a port at which nobody listens from 8 threads, and harms helpers meanwhile: what the program said."""
        server = self.serve(answer_http)
        server.down()
        process = self.sandbox.popen([self.static, server.port, 0, 0, 0, "/bin/sh", "-c",
                                      f"read line; {self.static} {server.port} {count} 0 8; read line; "
                                      f"exec {self.static} {server.port} 100 0 8"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertTrue(eventually(lambda: len(self.helpers()) == 2))
        self.addCleanup(process.kill)
        harm(process)
        self.assertTrue(eventually(lambda: len(self.helpers()) == 2))  # while calls pass there is no worker
        process.stdin.write("\n")
        said = process.communicate(timeout=300)[0]
        self.assertTrue(eventually(lambda: not self.helpers()), self.helpers())
        return server, said

    def test_whichever_of_both_is_killed_the_other_makes_it_anew_and_no_connect_waits(self):
        def kill_by_turns(process):
            process.stdin.write("\n")
            process.stdin.flush()
            for turn in range(12):
                self.assertTrue(eventually(lambda: len(self.helpers()) == 2), "one of them stays alone")
                for victim in self.helpers()[turn % 2:][:1]:
                    os.kill(victim, signal.SIGKILL)
                    eventually(lambda gone=victim: gone not in self.helpers())
        server, said = self.storm(kill_by_turns, 4000)
        self.assertEqual(said, "refused 32000\nrefused 800\n")
        self.assertGreater(self.sandbox.counters(server)["refused"], 0)

    def test_a_worker_that_stands_still_is_replaced_when_somebody_waits_for_it(self):
        def stop(process):
            os.kill(self.helpers()[1], signal.SIGSTOP)
            process.stdin.write("\n")
            process.stdin.flush()
        self.assertEqual(self.storm(stop, 500)[1], "refused 4000\nrefused 800\n")

    def test_with_few_descriptors_it_answers_all_the_same(self):
        server = self.serve(answer_http)
        server.down()
        result = self.sandbox.run(["/bin/sh", "-c", 'ulimit -n 24; exec "$@"', "sh", SOCKFUSE, "run", "-p",
                                   self.sandbox.policy_path, self.static, server.port, 100, 0, 16], COMMAND)
        self.assertEqual(result.output, ("refused 1600\n", "", 0))
        self.comes_to(server, failed=4)
        self.assertGreaterEqual(self.sandbox.counters(server)["refused"], 1500)

    def test_where_somebody_else_is_asked_already_one_line_says_so_and_it_runs_unguarded(self):
        server = self.serve(answer_http)
        result = self.sandbox.run([SOCKFUSE, "run", "-p", self.sandbox.policy_path, self.static, server.port, 0, 0, 0,
                                   SOCKFUSE, "run", "-t", "127.0.0.1:1", self.static, server.port, 1, 0, 1], COMMAND)
        self.assertEqual((result.stdout, result.status), ("answered 1\n", 0))
        self.assertRegex(result.stderr, r"\Asockfuse: .*static.*another program asks the kernel.*\n\Z")

    def test_an_engine_can_be_asked_for(self):
        server = self.serve(reset_after_request)
        for count, said in (4, "reset 4\n"), (2, "refused 2\n"):
            result = self.sandbox.run([SOCKFUSE, "run", "-p", self.sandbox.policy_path, "--engine", "notify",
                                       self.dynamic, server.port, count, 0, 1], COMMAND)
            self.assertEqual(result.output, (said, "", 0))
            self.comes_to(server, failed=4)
        self.assertEqual(self.sandbox.failures(server), {"reset": 4})
        refused = self.sandbox.sockfuse("run", "--engine", "none", "-t", "127.0.0.1:1", "true")
        self.assertEqual(refused.status, 125)
        self.assertIn("auto, preload or notify", refused.stderr)


if __name__ == "__main__":
    unittest.main()
