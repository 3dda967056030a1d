"""What a starting or running process finds instead of its segment: nothing, rubbish, a stranger's, a crowd."""
import os
import random
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, CLIENTS, PRELOAD, PYTHON, REFUSED_BY_CURL, RESET_BY_CURL, RUN,  # noqa: E402
                      ParallelSuite, Sandbox, Server, Session, answer_http, eventually, reset_after_request)

load_tests = ParallelSuite.load(3)


class Segment(unittest.TestCase):
    def start(self, behaviour=answer_http, **policy):
        self.sandbox = Sandbox(self)
        self.server = Server(behaviour)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, **policy)

    def curl(self, how=PRELOAD, env=None):
        return self.sandbox.run(["curl", "-sS", self.server.url], how, env)

    def segments(self):
        """The segments in the state folder, without those that a process has begun to make and not yet named."""
        return [path for path in self.files() if not os.path.basename(path).startswith(".")]

    def files(self):
        return sorted(os.path.join(folder, name) for folder, _, names in os.walk(self.sandbox.state) for name in names)

    def a_segment(self):
        """The path of the segment after one healthy call, and its bytes."""
        self.assertEqual(self.curl().output, (ANSWER.decode(), "", 0))
        (path,) = self.segments()
        self.assertEqual(path, self.sandbox.segment_path())
        with open(path, "rb") as file:
            return path, file.read()

    def works_all_the_same(self):
        """The program is as ever but for one line at most; the commands do not crash either."""
        result = self.curl()
        self.assertEqual((result.stdout, result.status), (ANSWER.decode(), 0), result)
        self.assertLessEqual(len(result.stderr.splitlines()), 1, result.stderr)
        if result.stderr:
            self.assertRegex(result.stderr, r"\Asockfuse: ")
        for words in (["status"], ["status", "--json"], ["events", "--json"]):
            seen = self.sandbox.sockfuse(words[0], "-p", self.sandbox.policy_path, *words[1:])
            self.assertGreaterEqual(seen.status, 0, f"{words} was killed by a signal")
        return result


class Found(Segment):
    """A process starts and finds this in the place of its segment."""

    def found(self, damage):
        self.start()
        path, good = self.a_segment()
        damage(path, good)
        self.works_all_the_same()
        return path, good

    def guards_again(self):
        """After at most one call that passed unguarded, calls count again."""
        self.curl()
        self.server.behaviour = reset_after_request
        before = self.sandbox.counters(self.server)["failed"]
        self.assertEqual(self.curl().status, RESET_BY_CURL)
        self.assertEqual(self.sandbox.counters(self.server)["failed"], before + 1)

    @staticmethod
    def write(path, data):
        """In place, so that the file stays the same file."""
        with open(path, "r+b") as file:
            file.truncate(0)
            file.write(data)

    def test_an_empty_file(self):
        self.found(lambda path, good: self.write(path, b""))
        self.guards_again()

    def test_a_truncated_file(self):
        for size in (1, 64, 4096):
            with self.subTest(size=size):
                self.found(lambda path, good, size=size: self.write(path, good[:size]))
                self.guards_again()

    def test_a_file_cut_in_half(self):
        self.found(lambda path, good: self.write(path, good[:len(good) // 2]))
        self.guards_again()

    def test_a_file_that_is_too_long(self):
        self.found(lambda path, good: self.write(path, good + bytes(4096)))

    def test_a_foreign_file(self):
        self.found(lambda path, good: self.write(path, b"#!/bin/sh\necho this is no segment\n" * 100))
        self.guards_again()

    def test_a_foreign_file_of_the_right_size(self):
        self.found(lambda path, good: self.write(path, bytes(len(good))))
        self.guards_again()

    def test_a_segment_of_another_version(self):
        def damage(path, good):
            version, = struct.unpack_from("<I", good, 8)
            self.write(path, good[:8] + struct.pack("<I", version + 1) + good[12:])
        self.found(damage)
        self.guards_again()

    def test_a_segment_of_another_boot(self):
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot_id = file.read().strip()

        def damage(path, good):
            self.assertIn(boot_id, good, "the header carries the boot id")
            self.write(path, good.replace(boot_id, b"0" * len(boot_id)))
        self.found(damage)
        self.guards_again()

    def test_a_segment_full_of_noise_behind_its_header(self):
        noise = random.Random(1)
        for start in (256, 4096, 65536):
            with self.subTest(start=start):
                self.found(lambda path, good, start=start: self.write(
                    path, good[:start] + noise.randbytes(len(good) - start)))

    def test_a_segment_with_single_bytes_changed_anywhere(self):
        noise = random.Random(2)
        self.start()
        path, good = self.a_segment()
        used = [index for index, byte in enumerate(good) if byte]
        for _ in range(25):
            damaged = bytearray(good)
            for index in noise.sample(used, min(8, len(used))):
                damaged[index] = noise.randrange(256)
            self.write(path, bytes(damaged))
            self.works_all_the_same()

    def test_a_segment_of_ones(self):
        self.found(lambda path, good: self.write(path, b"\xff" * len(good)))
        self.guards_again()

    def test_a_folder(self):
        def damage(path, good):
            os.unlink(path)
            os.mkdir(path)
        self.found(damage)

    def test_a_symbolic_link_is_not_followed(self):
        def damage(path, good):
            shutil.move(path, self.target)
            os.symlink(self.target, path)
        self.start()
        self.target = os.path.join(self.sandbox.folder, "elsewhere")
        path, good = self.a_segment()
        damage(path, good)
        self.works_all_the_same()
        with open(self.target, "rb") as file:
            self.assertEqual(file.read(), good, "what the link points to was not touched")

    def test_a_pipe(self):
        def damage(path, good):
            os.unlink(path)
            os.mkfifo(path)
        self.found(damage)

    def test_somebody_elses_file_is_not_used(self):
        def damage(path, good):
            os.chown(path, 65534, 65534)
        path, good = self.found(damage)
        if os.path.exists(path) and os.stat(path).st_uid == 65534:
            with open(path, "rb") as file:
                self.assertEqual(file.read(), good)

    def test_a_state_folder_that_others_may_write_is_not_trusted_by_the_segment(self):
        self.start()
        os.makedirs(self.sandbox.state)
        os.chown(self.sandbox.state, 65534, 65534)
        self.works_all_the_same()

    def test_a_file_of_ours_is_readable_by_us_alone(self):
        self.start()
        path, _ = self.a_segment()
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(self.sandbox.state).st_mode & 0o777, 0o700)

    def test_no_segment_where_no_space_is(self):
        self.start()
        result = self.sandbox.run(["prlimit", "--fsize=0", "curl", "-sS", self.server.url], PRELOAD)
        self.assertEqual((result.stdout, result.status), (ANSWER.decode(), 0), result)


class Running(Segment):
    """A process runs while its segment is taken away."""

    def test_a_deleted_segment_is_replaced_by_one_that_all_share(self):
        self.start(reset_after_request, failure_threshold=100, failure_rate=0)
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        session.ask(url=self.server.url, timeout=5)
        path = self.sandbox.segment_path()
        os.unlink(path)

        def seen_again():
            session.ask(url=self.server.url, timeout=5)
            return os.path.exists(path) and self.sandbox.circuits() and self.sandbox.counters(self.server)["failed"]
        self.assertTrue(eventually(seen_again, 15, 0.2), "the running process attaches again")
        before = self.sandbox.counters(self.server)["failed"]
        self.curl()
        session.ask(url=self.server.url, timeout=5)
        self.assertEqual(self.sandbox.counters(self.server)["failed"], before + 2)

    def test_a_segment_overwritten_under_a_running_process_kills_nobody(self):
        self.start(reset_after_request, failure_threshold=100, failure_rate=0)
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        for _ in range(2):
            self.assertEqual(session.ask(url=self.server.url, timeout=5)["errno"], 104)
        with open(self.sandbox.segment_path(), "r+b") as file:
            data = file.read()
            file.seek(0)
            # Rubbish instead of pages: to cut a mapped file is SIGBUS for everybody, and no library can mend that.
            file.write(random.Random(3).randbytes(len(data)))
        for _ in range(5):
            self.assertIn(session.ask(url=self.server.url, timeout=5)["errno"], (104, 111))
        self.assertEqual(session.close(), 0)

    def test_a_state_folder_that_vanishes_leaves_programs_alone(self):
        self.start()
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        session.ask(url=self.server.url, timeout=5)
        shutil.rmtree(self.sandbox.state)
        for _ in range(3):
            self.assertEqual(session.ask(url=self.server.url, timeout=5)["status"], 200)
        self.assertEqual(self.curl().output, (ANSWER.decode(), "", 0))


class Starts(Segment):
    """Many processes that start at the same moment."""

    def at_once(self, count, command):
        """Starts `count` processes that wait, then lets all go on to `command` under the preload at once."""
        reader, writer = os.pipe()
        environment = [f"{name}={value}" for name, value in self.sandbox.environment(PRELOAD).items()]
        script = 'read -r _; exec "$@"'
        processes = [self.sandbox.popen(["sh", "-c", script, "sh", "env", *environment, *command], how="waiting",
                                        stdin=reader, env={"SOCKFUSE_STATE": None})
                     for _ in range(count)]
        os.close(reader)
        os.close(writer)
        return [process.wait(60) for process in processes]

    def test_300_starts_at_once_make_one_segment_and_lose_no_count(self):
        self.start()
        self.server.down()
        self.sandbox.guard(self.server, failure_threshold=1000, failure_rate=0)
        statuses = self.at_once(300, ["nc", self.server.address, str(self.server.port)])
        self.assertEqual(set(statuses), {1})
        self.assertEqual(len(self.segments()), 1, self.segments())
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual(self.sandbox.failures(self.server), {"refused": 300}, circuit)
        self.assertEqual((circuit["consecutive_failures"], circuit["in_flight"]), (300, 0), circuit)

    def test_100_starts_at_once_over_a_broken_segment_make_one_good_one(self):
        self.start(answer_http)
        path, good = self.a_segment()
        Found.write(path, good[:1000])
        self.server.down()
        self.sandbox.guard(self.server, failure_threshold=1000, failure_rate=0)
        self.at_once(100, ["nc", self.server.address, str(self.server.port)])
        self.assertEqual(len(self.segments()), 1, self.segments())
        self.assertEqual(self.sandbox.failures(self.server), {"refused": 100})

    def test_processes_killed_while_they_start_leave_a_segment_that_works(self):
        self.start()
        delays = random.Random(4)
        for _ in range(60):
            process = self.sandbox.popen(["curl", "-sS", self.server.url], PRELOAD)
            try:
                process.wait(delays.uniform(0.0, 0.012))
            except subprocess.TimeoutExpired:
                process.kill()
            process.wait()
        self.assertEqual(self.curl(RUN).output, (ANSWER.decode(), "", 0))
        self.assertEqual(len(self.segments()), 1, self.segments())
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"], circuit["in_flight"]), ("closed", 0, 0),
                         circuit)
        self.server.behaviour = reset_after_request
        self.sandbox.guard(self.server, failure_threshold=1)
        self.assertEqual(self.curl().status, RESET_BY_CURL)
        self.assertEqual(self.curl().status, REFUSED_BY_CURL)


if __name__ == "__main__":
    unittest.main()
