"""The library as a guest: what it brings into a process, what it costs, and how it gets on with others."""
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, BARE, CLIENTS, IDLE, LIBRARY, PRELOAD, PYTHON, RUN, ParallelSuite, Sandbox,  # noqa: E402
                      Server, answer_http, flapping, require_build, reset_after_request)

load_tests = ParallelSuite.load(3)
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
MACHINE = threading.Lock()
# Without names of functions, which take seconds to find.
PLAIN = {"ASAN_OPTIONS": "symbolize=0"}


def output_of(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


class File(unittest.TestCase):
    """The library as a file, looked at from outside."""

    def setUp(self):
        require_build()

    def test_it_needs_libc_and_the_loader_only(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-dW", LIBRARY)))
        self.assertIn("libc.so.6", needed)
        self.assertEqual({name for name in needed if not re.match(r"libc\.so\.6$|ld-linux", name)}, set())

    def test_it_exports_nothing_but_names_that_libc_or_a_tls_library_has_too(self):
        def names(path):
            lines = output_of("nm", "-D", "--defined-only", str(path)).splitlines()
            return {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TWiuVD"}
        def library(of, name):
            return re.search(rf"{name} => (\S+)", output_of("ldd", shutil.which(of))).group(1)
        theirs = names(library("true", r"libc\.so\.6"))
        theirs |= names(library("openssl", r"libssl\.so\.\S+")) | names(library("wget", r"libgnutls\.so\.\S+"))
        ours = names(LIBRARY)
        self.assertEqual(ours - theirs, set())
        for name in ("connect", "close", "recv", "send", "syscall", "dlopen", "close_range", "_exit", "fclose"):
            self.assertIn(name, ours)

    def test_its_stack_is_not_executable_and_it_has_no_text_relocations(self):
        segments = output_of("readelf", "-lW", LIBRARY)
        flags = re.search(r"GNU_STACK\s+(?:\S+\s+){5}(.{3})", segments).group(1)
        self.assertEqual(flags, "RW ")
        self.assertNotIn("TEXTREL", output_of("readelf", "-dW", LIBRARY))

    def test_it_is_bound_at_load_time(self):
        self.assertRegex(output_of("readelf", "-dW", LIBRARY), r"BIND_NOW|FLAGS_1.*NOW")


class Guest(unittest.TestCase):
    def start(self, behaviour=None, **policy):
        self.sandbox = Sandbox(self)
        self.server = Server(behaviour or flapping(answer_http, reset_after_request))
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **policy)

    def guarded_as_ever(self, env=None, how=PRELOAD):
        """A healthy call, then one that is reset, then a refusal; whatever else stands in the environment."""
        command = [PYTHON, CLIENTS / "urllib_get.py", self.server.url, 10]
        healthy = self.sandbox.run(command, how, env)
        self.assertEqual(healthy.output, (ANSWER.decode(), "", 0))
        failed = self.sandbox.run(command, how, env)
        self.assertEqual(failed.output, ("", "ConnectionResetError: [Errno 104] Connection reset by peer\n", 1))
        refused = self.sandbox.run(command, how, env)
        self.assertEqual(refused.output, ("", "URLError: <urlopen error [Errno 111] Connection refused>\n", 1))
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual(self.server.connections, 2, circuit)
        self.assertEqual(self.sandbox.failures(self.server), {"reset": 1}, circuit)
        counters = circuit["counters"]
        self.assertEqual((counters["succeeded"], counters["refused"]), (1, 1), circuit)
        return circuit


class Company(Guest):
    """With other preloads, twice, or told to stay out."""

    def setUp(self):
        self.start(failure_threshold=1)

    def preload(self, *libraries):
        for library in libraries:
            self.assertTrue(os.path.exists(library), library)
        return {"LD_PRELOAD": ":".join(str(library) for library in libraries)}

    def test_bound_at_start(self):
        self.guarded_as_ever({"LD_BIND_NOW": "1"})

    def test_jemalloc_before_it(self):
        self.guarded_as_ever(self.preload(JEMALLOC, LIBRARY))

    def test_jemalloc_behind_it(self):
        self.guarded_as_ever(self.preload(LIBRARY, JEMALLOC))

    def test_libfaketime_before_it(self):
        self.a_day_ahead(FAKETIME, LIBRARY)

    def test_libfaketime_behind_it(self):
        self.a_day_ahead(LIBRARY, FAKETIME)

    def a_day_ahead(self, *libraries):
        """A process that believes in tomorrow must not move the pauses of all others."""
        env = {**self.preload(*libraries), "FAKETIME": "+1d"}
        today = int(time.time())
        told = self.sandbox.run([PYTHON, "-c", "import time; print(int(time.time()))"], PRELOAD, env)
        self.assertGreater(int(told.stdout), today + 80_000, "libfaketime works")
        circuit = self.guarded_as_ever(env)
        self.assertEqual(circuit["state"], "open", circuit)
        self.assertLessEqual(circuit["retry_in_ms"], 10_000, circuit)
        self.assertGreater(circuit["retry_in_ms"], 1, circuit)

    def sanitized(self, compiler, kind, how, env=None):
        """A program with a sanitizer's runtime in it is guarded, and the sanitizer still finds what it is there for."""
        program = os.path.join(self.sandbox.folder, f"{compiler}-{kind}")
        if not os.path.exists(program):
            subprocess.run([compiler, "-g", f"-fsanitize={kind}", "-o", program, CLIENTS / "three_calls.c"], check=True)
        dead = Server(up=False)
        self.addCleanup(dead.stop)
        self.sandbox.guard(dead, failure_threshold=2)
        # ThreadSanitizer's memory needs its addresses where some kernels do not leave them.
        command = [*(["setarch", "-R"] if kind == "thread" else []), program, dead.port]
        result = self.sandbox.run(command, how, env)
        self.assertEqual(result.output, ("Connection refused\n" * 3, "", 0))
        circuit = self.sandbox.circuit(dead)
        self.assertEqual((circuit["counters"]["failed"], circuit["counters"]["refused"]), (2, 1), circuit)
        if env:
            result = self.sandbox.run([*command, 5], how, env, stdin=b"five!")
            self.assertIn("stack-buffer-overflow", result.stderr)
            self.assertNotEqual(result.status, 0)

    def test_programs_with_gccs_address_sanitizer(self):
        # It insists on being the first library; run tells it that it need not be.
        self.sanitized("gcc", "address", RUN)
        self.sanitized("gcc", "address", RUN, PLAIN)
        self.sanitized("gcc", "address", PRELOAD, {"ASAN_OPTIONS": PLAIN["ASAN_OPTIONS"] + ":verify_asan_link_order=0"})
        runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
        preload = self.preload(os.path.realpath(runtime.stdout.strip()), LIBRARY)
        self.sanitized("gcc", "address", PRELOAD, {**preload, **PLAIN})
        self.sanitized("gcc", "address", RUN, {"LD_PRELOAD": preload["LD_PRELOAD"].split(":")[0], **PLAIN})

    def test_programs_with_clangs_address_sanitizer(self):
        self.sanitized("clang", "address", RUN, PLAIN)
        self.sanitized("clang", "address", PRELOAD, PLAIN)

    def test_programs_with_thread_sanitizer(self):
        self.sanitized("gcc", "thread", RUN)
        self.sanitized("clang", "thread", RUN)

    def test_programs_with_undefined_behaviour_sanitizer(self):
        self.sanitized("gcc", "undefined", RUN)

    def test_twice_is_once(self):
        self.guarded_as_ever(self.preload(LIBRARY, LIBRARY))
        self.assertEqual(self.sandbox.counters(self.server)["admitted"], 2)

    def test_two_copies_count_once(self):
        copy = os.path.join(self.sandbox.folder, "libsockfuse.so")
        shutil.copy(LIBRARY, copy)
        self.guarded_as_ever(self.preload(LIBRARY, copy))
        self.assertEqual(self.sandbox.counters(self.server)["admitted"], 2)

    def test_run_inside_run_counts_once(self):
        command = self.sandbox.command([PYTHON, CLIENTS / "urllib_get.py", self.server.url, 10])
        self.assertEqual(self.sandbox.run(command, RUN).status, 0)
        self.assertEqual(self.sandbox.counters(self.server)["admitted"], 1)

    def test_other_preloads_of_the_caller_stay(self):
        result = self.sandbox.run([PYTHON, "-c", "import os; print(os.environ['LD_PRELOAD'])"], RUN,
                                  {"LD_PRELOAD": JEMALLOC})
        self.assertIn(JEMALLOC, result.stdout)
        self.assertIn("libsockfuse.so", result.stdout)

    def test_switched_off_it_does_nothing(self):
        answered = self.sandbox.run(["curl", "-sS", self.server.url], PRELOAD, {"SOCKFUSE": "off"})
        self.assertEqual(answered.output, (ANSWER.decode(), "", 0))
        for _ in range(2):
            result = self.sandbox.run(["curl", "-sS", self.server.url], RUN, {"SOCKFUSE": "off"})
            self.assertEqual((result.stdout, result.status), ("", 56), "reset, and never refused")
            self.assertRegex(result.stderr, r"\Asockfuse: .*SOCKFUSE.*\ncurl: ", "run says that nothing is guarded")
        self.assertEqual(sum(circuit["counters"]["admitted"] for circuit in self.sandbox.circuits()), 0)

    def test_a_set_user_id_program_is_left_alone(self):
        program = os.path.join(self.sandbox.folder, "nc")
        shutil.copy("/usr/bin/nc.openbsd", program)
        shutil.chown(program, "nobody")
        os.chmod(program, 0o755 | stat.S_ISUID)
        os.chmod(self.sandbox.folder, 0o755)
        result = self.sandbox.run([program, "-N", self.server.address, self.server.port], PRELOAD,
                                  stdin=b"GET / HTTP/1.0\r\n\r\n")
        self.assertEqual(result.status, 0, result)
        self.assertIn(ANSWER.decode(), result.stdout)
        self.assertEqual(self.server.connections, 1)
        self.assertEqual(sum(circuit["counters"]["admitted"] for circuit in self.sandbox.circuits()), 0)

    def test_no_descriptor_of_its_own_is_open_and_none_leaks_through_exec(self):
        script = "import os; print(sorted(os.listdir('/proc/self/fd')))"
        loop = 'exec sh -c \'exec sh -c "exec ls /proc/self/fd"\''
        for command in ([PYTHON, "-c", script], ["sh", "-c", loop]):
            outputs = {self.sandbox.run(command, how).output for how in (BARE, PRELOAD, RUN, IDLE)}
            self.assertEqual(len(outputs), 1, outputs)

    def test_an_exec_storm_leaves_one_process_on_the_list(self):
        script = ('i=$1; url=$2; if [ "$i" -gt 0 ]; then exec sh -c "$0" "$0" $((i - 1)) "$url"; fi; '
                  'exec curl -sS "$url"')
        result = self.sandbox.run(["sh", "-c", script, script, "50", self.server.url], RUN)
        self.assertEqual(result.output, (ANSWER.decode(), "", 0))
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["counters"]["succeeded"], circuit["in_flight"]), (1, 0), circuit)


class SystemCalls(Guest):
    """What strace shows between two marks."""

    def between_marks(self, what, server, how):
        path = os.path.join(self.sandbox.folder, f"{what}-{how}")
        environment = self.sandbox.environment(how)
        words = ["env", *(f"{name}={value}" for name, value in environment.items())]
        result = self.sandbox.run(["strace", "-o", path, *words, PYTHON, CLIENTS / "marked.py", what, server.address,
                                   server.port], BARE)
        self.assertEqual(result.status, 0, result)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines = re.search(r'access\("/mark-begin".*?\n(.*?)access\("/mark-end"', text, re.DOTALL).group(1)
        return lines.splitlines(), result.stdout

    def test_an_untracked_descriptor_costs_no_system_call(self):
        self.start()
        stranger = Server(answer_http)
        self.addCleanup(stranger.stop)
        traces = {how: self.between_marks("exchange", stranger, how)[0] for how in (BARE, PRELOAD, IDLE)}
        self.assertGreater(len(traces[BARE]), 30)
        # When Python's heap grows depends on what lay in it before.
        names = {how: [line.split("(")[0] for line in lines if not line.startswith("brk(")]
                 for how, lines in traces.items()}
        for how in (PRELOAD, IDLE):
            self.assertEqual(names[how], names[BARE], how)

    def test_a_refusal_makes_no_system_call(self):
        self.start(reset_after_request, failure_threshold=1)
        self.sandbox.run(["curl", "-sS", self.server.url])
        self.assertEqual(self.sandbox.circuit(self.server)["state"], "open")
        for what in ("refusal", "refusal_without_blocking"):
            with self.subTest(what):
                lines, said = self.between_marks(what, self.server, PRELOAD)
                self.assertEqual(said, "Connection refused\n")
                # Once a second it is looked whether the circuits' file still stands.
                looks = [line for line in lines if "stat" in line and ".segment" in line]
                self.assertEqual([line for line in lines if line not in looks], [])
                self.assertLessEqual(len(looks), 1)
        self.assertEqual(self.server.connections, 1)


class StartUp(Guest):
    """Start-up times, by the fastest of many runs, for one machine runs all tests at once."""

    RUNS, RUNS_MAX = 60, 600

    def adds_less_than_a_millisecond(self, *front):
        """Of /bin/true behind these words, bare and guarded in turn; a machine that is busy all the while is given more
        runs, for what it adds is not always there."""
        best = {BARE: float("inf"), PRELOAD: float("inf")}
        with MACHINE:
            for run in range(self.RUNS_MAX):
                if run >= self.RUNS and best[PRELOAD] - best[BARE] < 1.0:
                    break
                for how in best:
                    environment, argv = self.sandbox.environment(how), ["/bin/true"]
                    if front:  # they run bare: `env` puts the library in front of the last one
                        words = [f"{name}={value}" for name, value in environment.items()]
                        environment, argv = self.sandbox.environment(BARE), [*front, "/usr/bin/env", *words, *argv]
                    began = time.perf_counter()
                    os.waitpid(os.posix_spawn(argv[0], argv, environment), 0)
                    best[how] = min(best[how], (time.perf_counter() - began) * 1000)
        self.assertLess(best[PRELOAD] - best[BARE], 1.0, best)

    def test_it_adds_less_than_a_millisecond(self):
        self.start()
        self.sandbox.run(["true"], PRELOAD)
        self.adds_less_than_a_millisecond()

    def under_a_limit(self, limit):
        self.start()
        probe = subprocess.run(["prlimit", f"--nofile={limit}:{limit}", "true"], capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest(f"this machine does not allow {limit} descriptors: {probe.stderr.decode().strip()}")
        self.sandbox.run(["true"], PRELOAD)
        self.adds_less_than_a_millisecond("/usr/bin/prlimit", f"--nofile={limit}:{limit}")
        result = self.sandbox.run(["prlimit", f"--nofile={limit}:{limit}", "curl", "-sS", self.server.url], RUN)
        self.assertEqual(result.output, (ANSWER.decode(), "", 0))
        self.assertEqual(self.sandbox.counters(self.server)["succeeded"], 1)

    def test_it_does_the_same_whatever_number_of_descriptors_is_allowed(self):
        """For machines that do not allow a million: nothing at the start depends on the limit."""
        self.start()
        self.sandbox.run(["true"], PRELOAD)
        words = ["env", *(f"{name}={value}" for name, value in self.sandbox.environment(PRELOAD).items())]
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        traces = []
        for limit in (64, hard):
            path = os.path.join(self.sandbox.folder, f"trace-{limit}")
            self.assertEqual(self.sandbox.run(["strace", "-o", path, "prlimit", f"--nofile={limit}:{hard}", *words,
                                               "true"], BARE).status, 0)
            with open(path, encoding="utf-8") as file:
                lines = file.read().split('execve("/usr/bin/true"')[-1].splitlines()
            traces.append([re.sub(r"0x[0-9a-f]+", "POINTER", line) for line in lines if line.startswith("m")])
        self.assertGreater(len(traces[0]), 5)
        self.assertEqual(traces[0], traces[1])

    def test_also_with_a_million_descriptors_allowed(self):
        self.under_a_limit(1 << 20)

    def test_also_with_2_to_the_30_descriptors_allowed(self):
        self.under_a_limit(1 << 30)


if __name__ == "__main__":
    unittest.main()
