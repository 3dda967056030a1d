"""What `status` says is so: the settings that running programs go by, what is over, and what can't be read."""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (CLIENTS, PRELOAD, PYTHON, ROOT, RUN, SOCKFUSE, ParallelSuite, Sandbox, Server,  # noqa: E402
                      Session, answer_http, eventually, stay_silent)

load_tests = ParallelSuite.load(4)


class Looking(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.server = Server(answer_http)
        self.addCleanup(self.server.stop)

    def session(self, how=RUN):
        """A program that runs under the policy as it stands now, and has called once."""
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"], how)
        self.assertEqual(session.ask(url=self.server.url, timeout=5)["status"], 200)
        return session

    def status(self, *words, status=0):
        """The text, and its JSON."""
        text = self.sandbox.sockfuse("status", *words)
        self.assertEqual((text.status, text.stderr), (status, ""), text)
        parsed = self.sandbox.sockfuse("status", "--json", *words)
        self.assertEqual(parsed.status, status, parsed)
        return text.stdout, json.loads(parsed.stdout)

    def circuit(self, policies, server=None):
        wanted = getattr(server, "destination", server) or self.server.destination
        (circuit,) = [circuit for policy in policies for circuit in policy["circuits"]
                      if circuit["destination"] == wanted]
        return circuit


class InForce(Looking):
    def test_of_an_edited_file_what_runs_is_shown_and_that_it_was_edited(self):
        self.sandbox.guard(self.server, failure_threshold=5)
        session = self.session()
        self.sandbox.guard(self.server, failure_threshold=2, mode="observe")
        text, policies = self.status()
        circuit = self.circuit(policies)
        self.assertEqual((circuit["failure_threshold"], circuit["mode"], circuit["settings_differ"]),
                         (5, "enforce", False))
        self.assertRegex(text, r" 0/5 ")
        self.assertRegex(text, r"The file was edited since: 1 program goes by what it said before.*sockfuse reload")
        self.assertRegex(text, rf"(?m)^ +{session.pid} .*earlier version")
        (policy,) = policies
        self.assertEqual([(run["processes"], run["known"]) for run in policy["running"]], [(1, True)])
        self.assertNotEqual(policy["running"][0]["policy_revision"], policy["policy_revision"])
        reload = self.sandbox.sockfuse("reload", "-p", self.sandbox.policy_path)
        text = self.status()[0]  # who was told already need not be told again
        self.assertRegex(text, r"The file was edited since: 1 program goes by .*\(it takes the file's with its next call\)")
        self.assertRegex(text, rf"(?m)^ +{session.pid} .*takes the file's with its next call$")
        self.sandbox.guard(self.server, failure_threshold=3)
        self.assertRegex(self.status()[0], rf"(?m)^ +{session.pid} .*\(sockfuse reload\)$")
        self.sandbox.guard(self.server, failure_threshold=2, mode="observe")
        self.assertEqual(session.ask(url=self.server.url, timeout=5)["status"], 200, reload)
        text, policies = self.status()
        circuit = self.circuit(policies)
        self.assertEqual((circuit["failure_threshold"], circuit["mode"]), (2, "observe"))
        self.assertNotIn("edited", text)

    def test_what_running_programs_know_can_be_forced_whatever_became_of_the_file(self):
        self.sandbox.policy("[db]\nmatch = 127.0.0.1:2\n[net]\nmatch = 10.0.0.0/8:80\n"
                            f"[{self.server.destination}]\n")
        self.session()
        edited = "[new]\nmatch = 127.0.0.1:4\n"
        for text, ails in ((edited, None), ("this is no policy\n", "line 1"), (None, "No such file")):
            if text is None:
                os.unlink(self.sandbox.policy_path)
            else:
                self.sandbox.policy(text)
            result = self.sandbox.sockfuse("open", "db", "10.1.1.1:80")  # neither was ever called
            self.assertEqual(result.status, 0, result)
            self.assertRegex(result.stdout, r"(?m)^127\.0\.0\.1:2 \(db\): forced open, was closed; reached 1 program$")
            self.assertRegex(result.stdout, r"(?m)^10\.1\.1\.1:80 \(net\): forced open, was closed; reached 1 program$")
            self.assertEqual(result.stderr.count(str(ails)), 1 if ails else 0, "of the file it is said once")
            self.assertEqual(self.sandbox.sockfuse("auto", "db", "net").status, 0)
            if ails is None:  # what the file alone has is not what anybody runs
                result = self.sandbox.sockfuse("open", "new")
                self.assertRegex(result.stderr, r"not reached: pid \d+ \(python3\), for the policy that it runs has no such target")
                self.assertEqual(result.status, 1, result)
                self.assertEqual(self.sandbox.sockfuse("forget", "new").status, 1, "it is forced")
                self.sandbox.sockfuse("auto", "new")

    def test_of_a_file_that_is_broken_or_gone_what_runs_is_shown_and_what_ails_the_file(self):
        self.sandbox.guard(self.server, failure_threshold=7)
        self.session()
        self.sandbox.policy("this is no policy\n")
        for trouble in ("line 1", "No such file"):
            text, policies = self.status()
            self.assertEqual(self.circuit(policies)["failure_threshold"], 7)
            self.assertRegex(text, rf"can't be read now; shown is what running programs go by: .*{trouble}")
            self.assertIn(trouble, policies[0]["policy_error"])
            self.assertIsNone(policies[0]["policy_revision"])
            if trouble == "line 1":
                os.unlink(self.sandbox.policy_path)

    def test_two_programs_with_different_revisions_are_told_apart(self):
        self.sandbox.guard(self.server, failure_threshold=5)
        first = self.session()
        self.sandbox.guard(self.server, failure_threshold=3, mode="observe")
        second, third = self.session(), self.session()
        text, policies = self.status()
        circuit = self.circuit(policies)
        self.assertEqual((circuit["failure_threshold"], circuit["mode"], circuit["settings_differ"]),
                         (3, "observe", True), "what most of them run")
        self.assertIn("0/3 or 5", text)
        self.assertRegex(text, r"note: .*: running programs differ: mode observe or enforce, failure_threshold 3 or 5")
        self.assertEqual([run["processes"] for run in policies[0]["running"]], [2, 1])
        current = {process["pid"]: process["current"] for process in policies[0]["processes"]}
        self.assertEqual(current, {first.pid: False, second.pid: True, third.pid: True})
        self.assertRegex(text, r"different revisions: 2 by [0-9a-f]{8}, 1 by [0-9a-f]{8}")

    def test_neither_the_last_starter_nor_options_of_another_run_matter(self):
        self.sandbox.guard(self.server, failure_threshold=4)
        self.session()
        self.sandbox.run([SOCKFUSE, "run", "-p", self.sandbox.policy_path, "-o", "failure_threshold=1", "--", "true"],
                         "command")
        self.sandbox.guard(self.server, failure_threshold=9)
        self.sandbox.run(["true"])
        _, policies = self.status("-p", self.sandbox.policy_path + " + options:")
        self.assertEqual(self.circuit(policies)["failure_threshold"], 4)

    def test_who_attaches_after_the_file_of_circuits_was_deleted_keeps_what_it_runs_there(self):
        self.sandbox.guard(self.server, failure_threshold=6)
        session = self.session()
        shutil.rmtree(self.sandbox.state)

        def back():
            self.assertEqual(session.ask(url=self.server.url, timeout=5)["status"], 200)
            return glob.glob(self.sandbox.state + "/*.segment")

        self.assertTrue(eventually(back, pause=0.2))
        self.sandbox.guard(self.server, failure_threshold=2)
        _, policies = self.status()
        self.assertEqual(self.circuit(policies)["failure_threshold"], 6)


class Over(Looking):
    def test_a_policy_without_programs_is_marked_and_left_out_of_what_is_active(self):
        self.sandbox.guard(self.server, failure_threshold=5)
        session = self.session()
        text, policies = self.status()
        self.assertNotIn("No process", text)
        self.assertEqual((policies[0]["active"], policies[0]["last_seen"], self.circuit(policies)["ended"]),
                         (True, None, None))
        self.assertEqual(self.status("--active")[1], policies)
        session.close()
        text, policies = self.status()
        head = text.splitlines()[1]
        self.assertRegex(head, r"No process is attached now; one was last seen to start or end \S+ ago: what follows is how it ended")
        self.assertEqual((policies[0]["active"], self.circuit(policies)["ended"]), (False, "programs"))
        self.assertRegex(policies[0]["last_seen"], r"\A\d{4}-")
        text, policies = self.status("--active")
        self.assertEqual((text, policies), ("No program runs under a policy now.\n", []))

    def test_a_force_stays_active_for_whoever_starts_next(self):
        self.sandbox.guard(self.server)
        self.session().close()
        self.sandbox.sockfuse("open", "-p", self.sandbox.policy_path, self.server.destination)
        text, policies = self.status("--active")
        self.assertIn("open (forced)", text)
        self.assertEqual(self.circuit(policies)["forced"], "open")

    def test_circuits_of_targets_that_no_running_policy_has_are_marked(self):
        other = Server(answer_http)
        self.addCleanup(other.stop)
        self.sandbox.guard(self.server, other)
        session = self.session()
        self.assertEqual(session.ask(url=other.url, timeout=5)["status"], 200)
        self.sandbox.guard(other)
        _, policies = self.status()
        self.assertIsNone(self.circuit(policies)["ended"], "it runs it still")
        self.sandbox.sockfuse("reload", "-p", self.sandbox.policy_path)
        self.assertEqual(session.ask(url=other.url, timeout=5)["status"], 200)
        text, policies = self.status()
        self.assertEqual((self.circuit(policies)["ended"], self.circuit(policies, other)["ended"]), ("target", None))
        self.assertRegex(text, rf"{self.server.destination} +closed \(ended\)")
        text, policies = self.status("--active")
        self.assertNotIn(self.server.destination, text)
        self.assertEqual([circuit["destination"] for circuit in policies[0]["circuits"]], [other.destination])

    def test_a_target_of_the_same_name_that_takes_other_destinations_by_now_is_another(self):
        other = Server(answer_http)
        self.addCleanup(other.stop)
        self.sandbox.policy(f"[pay]\nmatch = {self.server.destination}\n")
        session = self.session()
        self.sandbox.policy(f"[pay]\nmatch = {other.destination}\n")
        self.sandbox.sockfuse("reload", "-p", self.sandbox.policy_path)
        self.assertEqual(session.ask(url=other.url, timeout=5)["status"], 200)
        _, policies = self.status()
        self.assertEqual((self.circuit(policies)["ended"], self.circuit(policies, other)["ended"]), ("target", None))

    def test_a_probe_of_a_killed_program_is_not_shown_as_on_its_way(self):
        self.sandbox = Sandbox(self, clock=True)
        self.server.down()
        self.sandbox.guard(self.server, failure_threshold=1, reset_timeout="10s")
        self.sandbox.run(["curl", "-sS", self.server.url])
        self.server.up()
        self.server.behaviour = stay_silent
        self.sandbox.clock.advance_seconds(12)
        bystander = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        before = self.server.connections
        probe = self.sandbox.popen(["curl", "-sS", self.server.url])
        self.assertTrue(eventually(lambda: self.server.connections > before))
        self.assertEqual((self.sandbox.circuit(self.server)["state"], self.sandbox.circuit(self.server)["probe_due"]),
                         ("half-open", False))
        probe.kill()
        probe.wait()
        circuit = self.sandbox.circuit(self.server)
        self.assertEqual((circuit["probe_due"], circuit["in_flight"]), (True, 0), circuit)
        self.assertIn("probe due", self.sandbox.sockfuse("status").stdout)
        bystander.close()


class Unreadable(Looking):
    """As another user than root where rights matter: root reads everything."""

    COMMANDS = (("status",), ("status", "--json"), ("events",), ("open", "127.0.0.1:1"), ("close", "127.0.0.1:1"),
                ("auto", "127.0.0.1:1"), ("reload",), ("forget", "--ended"), ("forget", "127.0.0.1:1"))

    def each(self, pattern, commands=COMMANDS, prefix=()):
        for words in commands:
            result = self.sandbox.run([*prefix, SOCKFUSE, *words], "command")
            self.assertEqual(result.status, 1, (words, result))
            self.assertRegex(result.stdout + result.stderr, pattern, words)

    def test_a_segment_that_is_damaged_or_cut_short(self):
        self.sandbox.guard(self.server)
        self.session().close()
        path = self.sandbox.segment_path()
        with open(path, "rb") as file:
            good = file.read()
        name = os.path.basename(path)
        for bad in (b"", good[:100], good[:-70000], b"\0" * len(good), b"#!/bin/sh\n" * 1000):
            with open(path, "wb") as file:
                file.write(bad)
            self.each(name)

    def test_a_folder_in_a_segments_place_and_a_link(self):
        self.sandbox.guard(self.server)
        self.session().close()
        for make in (os.mkdir, lambda place: os.symlink("/etc/passwd", place), os.mkfifo):
            place = os.path.join(self.sandbox.state, "odd-0123456789abcdef.segment")
            make(place)
            self.each("odd-0123456789abcdef", (("status",), ("events",), ("reload",)))
            (os.rmdir if os.path.isdir(place) and not os.path.islink(place) else os.unlink)(place)

    def test_what_is_closed_to_the_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be another user")
        shutil.rmtree(self.sandbox.state, ignore_errors=True)
        os.chmod(self.sandbox.folder, 0o755)
        os.mkdir(self.sandbox.state, 0o700)
        os.chown(self.sandbox.state, 54321, 54321)
        as_user = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
        run = [*as_user, SOCKFUSE, "run", "-t", "127.0.0.1:1", "--", "true"]
        self.assertEqual(self.sandbox.run(run, "command").status, 0)
        (path,) = glob.glob(self.sandbox.state + "/*.segment")
        os.chmod(path, 0)
        self.each(os.path.basename(path), prefix=as_user)
        os.chmod(path, 0o600)
        os.chown(path, 54322, 54322)
        self.each(os.path.basename(path), prefix=as_user)
        os.chown(path, 54321, 54321)
        os.chmod(self.sandbox.state, 0)
        self.each(self.sandbox.state, prefix=as_user)

    def test_a_file_in_the_folders_place(self):
        with open(self.sandbox.state, "w", encoding="utf-8"):
            pass
        self.each(self.sandbox.state)


class AnotherBuild(Looking):
    """Another layout in the file that a living program has mapped; and a library that has one."""

    def of_layout(self, layout):
        """Makes the one segment another build's; returns its path."""
        (path,) = glob.glob(self.sandbox.state + "/*.segment")
        with open(path, "r+b") as file:
            file.seek(8)
            file.write(struct.pack("<I", layout))
        return path

    def test_it_is_named_with_the_programs_that_are_to_be_started_anew(self):
        for layout, age in ((1, "older"), (2, "older"), (1000, "newer")):
            with self.subTest(layout=layout):
                shutil.rmtree(self.sandbox.state, ignore_errors=True)
                self.sandbox.guard(self.server)
                session = self.session()
                path = self.of_layout(layout)
                text = self.sandbox.sockfuse("status")
                self.assertEqual(text.status, 1)
                self.assertRegex(text.stdout, rf"an? {age} build \(layout {layout}\b.*{session.pid} \(python3")
                self.assertIn(path, text.stdout)
                shown = self.sandbox.sockfuse("status", "--json")
                (policy,) = json.loads(shown.stdout)
                self.assertEqual((policy["segment"], policy["layout"], policy["active"], policy["circuits"]),
                                 (path, layout, True, []))
                self.assertEqual([process["pid"] for process in policy["processes"]], [session.pid])
                if layout > 1:
                    self.assertEqual(policy["policy"], self.sandbox.policy_path)
                for words in (("open", self.server.destination), ("close", self.server.destination),
                              ("auto", self.server.destination), ("reload",), ("events",),
                              ("forget", self.server.destination), ("forget", "-p", self.sandbox.policy_path)):
                    result = self.sandbox.sockfuse(*words)
                    self.assertEqual(result.status, 1, (words, result))
                    self.assertIn(f"{session.pid} (python3", result.stderr, words)
                self.assertTrue(os.path.exists(path))
                session.process.kill()
                session.process.wait()

    def test_when_nobody_uses_it_forget_takes_it_away(self):
        for words in (("--ended",), ("-p", self.sandbox.policy_path)):
            self.sandbox.guard(self.server)
            self.session().close()
            path = self.of_layout(2)
            notes = [path.replace(".segment", suffix) for suffix in (".options", ".policy")]
            for note in notes:
                with open(note, "w", encoding="utf-8"):
                    pass
            text, policies = self.status()
            self.assertRegex(text, "older build.*no program uses it any more: sockfuse forget --ended")
            self.assertFalse(policies[0]["active"])
            self.assertEqual(self.status("--active")[1], [])
            result = self.sandbox.sockfuse("forget", *words)
            self.assertEqual((result.status, result.stderr), (0, ""))
            self.assertRegex(result.stdout, "forgotten, circuits of another build")
            self.assertEqual(os.listdir(self.sandbox.state), [])

    def test_one_that_is_in_use_stays_whoever_asks(self):
        self.sandbox.guard(self.server)
        session = self.session()
        path = self.of_layout(2)
        self.sandbox.sockfuse("forget", "--ended")
        self.assertTrue(os.path.exists(path))
        session.close()

    def test_one_that_somebody_holds_a_lock_on_stays_though_nobody_is_seen_to_have_it_mapped(self):
        self.sandbox.guard(self.server)
        self.session().close()
        path = self.of_layout(2)
        holder = self.sandbox.popen([PYTHON, "-c", f"""
import fcntl, struct, sys
file = open({path!r}, "r+b")
fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, (1 << 40) + 7, 1, 0))
print("held", flush=True)
sys.stdin.read()
"""], "command", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), b"held\n")
        text = self.sandbox.sockfuse("status")
        self.assertEqual(text.status, 1)
        self.assertRegex(text.stdout, "holds a lock")
        self.assertEqual(self.sandbox.sockfuse("forget", "--ended").status, 1)
        self.assertTrue(os.path.exists(path))
        holder.stdin.close()
        holder.wait()
        self.assertEqual(self.sandbox.sockfuse("forget", "--ended").status, 0)

    def test_what_is_from_before_the_last_boot_is_over(self):
        self.sandbox.guard(self.server)
        self.session().close()
        path = self.sandbox.segment_path()
        with open(path, "r+b") as file:
            file.seek(24)
            file.write(b"another-boot")
        text, policies = self.status()
        self.assertIn("before the last boot", text)
        self.assertFalse(policies[0]["active"])
        self.assertEqual(self.sandbox.sockfuse("forget", "--ended").status, 0)
        self.assertFalse(os.path.exists(path))

    def test_programs_of_two_builds_side_by_side(self):
        build = os.path.join(self.sandbox.folder, "build")
        source = os.path.join(self.sandbox.folder, "source")
        os.mkdir(source)
        for name in ("src", "Makefile"):
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, os.path.join(source, name))
        layout = os.path.join(source, "src/segment/layout.h")
        with open(layout, encoding="utf-8") as file:
            text = file.read()
        before, rest = text.split("#define SEGMENT_VERSION ", 1)
        with open(layout, "w", encoding="utf-8") as file:
            file.write(f"{before}#define SEGMENT_VERSION 77u //{rest}")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        made = subprocess.run(["make", "-s", "-C", source, f"BUILD={build}", "CFLAGS=-O1", f"{build}/libsockfuse.so"],
                              env=environment, capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made)
        self.sandbox.guard(self.server)
        other = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"], PRELOAD,
                        env={"LD_PRELOAD": f"{build}/libsockfuse.so"})
        self.assertEqual(other.ask(url=self.server.url, timeout=5)["status"], 200)
        own = self.session()
        self.assertEqual(len(glob.glob(self.sandbox.state + "/*.segment")), 2)
        text = self.sandbox.sockfuse("status", "-p", self.sandbox.policy_path)
        self.assertEqual(text.status, 1)
        self.assertRegex(text.stdout, rf"(?m)^ +{own.pid}  python3")
        self.assertRegex(text.stdout, rf"newer build \(layout 77.*{other.pid} \(python3")
        result = self.sandbox.sockfuse("open", self.server.destination)
        self.assertEqual(result.status, 1)
        self.assertIn(f"{other.pid} (python3", result.stderr)
        self.assertEqual(own.ask(url=self.server.url, timeout=5)["errno"], 111, "this build's are reached all the same")
        self.assertEqual(other.ask(url=self.server.url, timeout=5)["status"], 200)
        self.sandbox.sockfuse("auto", self.server.destination)
        other.close()
        self.assertEqual(self.sandbox.sockfuse("status").status, 0)


if __name__ == "__main__":
    unittest.main()
