"""Where circuits are kept: the first folder that can be used, whoever came before and whatever is full."""
import json
import os
import random
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import SOCKFUSE, ParallelSuite, Sandbox  # noqa: E402

load_tests = ParallelSuite.load(4)
STRANGER = 65534


class Places(unittest.TestCase):
    """In a mount name space of the test's own, with empty /run and /dev/shm, as a user that nobody else is."""

    def setUp(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
            self.skipTest("needs root and a mount name space")
        self.sandbox = Sandbox(self)
        os.chmod(self.sandbox.folder, 0o755)
        self.user = random.randrange(100000, 60000000)
        for number in (self.user, 0):
            self.addCleanup(shutil.rmtree, f"/tmp/sockfuse-{number}", ignore_errors=True)
        self.run_folder, self.shm, self.tmp = (f"/run/user/{self.user}", f"/dev/shm/sockfuse-{self.user}",
                                               f"/tmp/sockfuse-{self.user}")

    def script(self, text, status=0, shm="size=64m"):
        """Runs a script as root; in it `as_user` runs words as the user, `guarded` says which folders hold segments."""
        prelude = f"""
            mount -t tmpfs none /run && mount -t tmpfs -o {shm} none /dev/shm && chmod 1777 /dev/shm || exit 99
            U={self.user} SF={SOCKFUSE}
            as_user() {{ setpriv --reuid=$U --regid=$U --clear-groups "$@"; }}
            run() {{ as_user "$@" $SF run -t 127.0.0.1:1 -- sh -c 'echo ${{LD_PRELOAD:+loaded}}'; }}
            guarded() {{ ls -d /run/sockfuse/*.segment /run/*/*/sockfuse/*.segment /dev/shm/*/*.segment \\
                         /tmp/sockfuse-$U/*.segment /run/*/sockfuse/*.segment 2>/dev/null; true; }}
            """
        result = self.sandbox.run(["unshare", "-m", "--propagation", "private", "sh", "-c", prelude + text],
                                  how="command", env={"SOCKFUSE_STATE": None, "XDG_RUNTIME_DIR": None})
        self.assertEqual(result.status, status, result)
        return result

    def folders(self, result):
        return [os.path.dirname(line) for line in result.stdout.splitlines() if line.endswith(".segment")]

    def test_the_places_in_their_order(self):
        session = f"mkdir -p -m 700 {self.run_folder} && chown $U {self.run_folder}; "
        xdg = "mkdir -m 700 /run/mine && chown $U /run/mine; "
        for script, folder in ((f"{session} {xdg} run env XDG_RUNTIME_DIR=/run/mine; guarded", "/run/mine/sockfuse"),
                               (f"{session} run; guarded", self.run_folder + "/sockfuse"), ("run; guarded", self.shm)):
            result = self.script(script)
            self.assertEqual((self.folders(result), result.stderr), ([folder], ""), script)
            self.assertIn("loaded", result.stdout)

    def test_a_folder_that_somebody_else_made_first_is_passed_over(self):
        for bad in (f"mkdir {self.shm} && chown {STRANGER} {self.shm}", f"ln -s /var {self.shm}", f"echo >{self.shm}",
                    f"mkdir -m 777 {self.shm} && chown $U {self.shm}"):
            result = self.script(f"{bad}; run; guarded; rm -r {self.tmp}")
            self.assertEqual((self.folders(result), result.stderr), ([self.tmp], ""), bad)

    def test_where_every_place_is_taken_the_program_starts_unguarded_with_one_warning(self):
        taken = f"mkdir {self.shm} {self.tmp}; "
        result = self.script(f"{taken} run; guarded; rm -r {self.tmp}")
        self.assertEqual(result.stdout, "\n")
        self.assertRegex(result.stderr, rf"\Asockfuse: .*{self.shm}.*another user.*{self.tmp}.*unguarded.*\n\Z")
        result = self.script(f"{taken} as_user $SF run --strict -t 127.0.0.1:1 -- echo started; s=$?; rm -r {self.tmp}; "
                             "exit $s", status=125)
        self.assertEqual(result.stdout, "")

    def test_a_full_file_system_is_passed_over(self):
        result = self.script(f"run; guarded; rm -r {self.tmp}", shm="size=1m")
        self.assertEqual((self.folders(result), result.stderr), ([self.tmp], ""))
        self.assertIn("loaded", result.stdout)

    def test_a_service_without_a_session_and_a_program_in_one_share_their_circuits(self):
        session = f"mkdir -p -m 700 {self.run_folder} && chown $U {self.run_folder}; "
        in_session = f"env XDG_RUNTIME_DIR={self.run_folder}"
        for script, folder in ((f"run; {session} run {in_session}; guarded", self.shm),
                               (f"{session} run {in_session}; run; guarded", self.run_folder + "/sockfuse")):
            self.assertEqual(self.folders(self.script(script)), [folder], script)
        result = self.script(f"run >/dev/null; {session} as_user {in_session} $SF status --json")
        self.assertEqual([policy["policy"] for policy in json.loads(result.stdout)], ["patterns: 127.0.0.1:1"])

    def test_commands_look_in_all_places_of_the_user_and_in_no_strangers(self):
        session = f"mkdir -p -m 700 {self.run_folder} && chown $U {self.run_folder}; "
        result = self.script(f"""{session} as_user $SF run -t 127.0.0.1:1 true; rm -r {self.run_folder};
            as_user $SF run -t 127.0.0.1:2 true; {session} as_user $SF run -t 127.0.0.1:3 true
            mkdir {self.tmp}; echo rubbish >{self.tmp}/x-0123456789abcdef.segment; as_user $SF status --json
            as_user $SF status -p /none; rm -r {self.tmp}""")
        self.assertEqual([policy["policy"] for policy in json.loads(result.stdout)],
                         ["patterns: 127.0.0.1:2", "patterns: 127.0.0.1:3"])
        self.assertNotIn("rubbish", result.stderr)

    def test_root_with_a_users_runtime_folder_leaves_it_alone(self):
        session = f"mkdir -p -m 700 {self.run_folder} && chown $U {self.run_folder}; "
        as_root = f"XDG_RUNTIME_DIR={self.run_folder} $SF run -t 127.0.0.1:1 true; "
        result = self.script(f"{session} {as_root} guarded; ls {self.run_folder}")
        self.assertEqual((result.stdout.splitlines()[1:], self.folders(result)), ([], ["/run/sockfuse"]))
        # Also where /run can't be used, and the folder stands already.
        result = self.script(f"{session} as_user mkdir -m 700 {self.run_folder}/sockfuse; echo >/run/sockfuse; {as_root} "
                             f"ls {self.run_folder}/sockfuse; guarded")
        self.assertEqual(self.folders(result), ["/dev/shm/sockfuse-0"])

    def test_the_mode_is_set_whatever_the_umask(self):
        for mask in ("0000", "0777", "0277", "0022"):
            result = self.script(f"(umask {mask}; run; run; as_user $SF run -t 127.0.0.1:1 -o jitter=0% true); "
                                 f"stat -c %a {self.shm} {self.shm}/*")
            self.assertEqual(result.stdout.split()[2:], ["700"] + ["600"] * 2, mask)
            self.assertEqual(result.stdout.split()[:2], ["loaded"] * 2, result)

    def test_whoever_was_killed_before_the_mode_was_set_keeps_nobody_out(self):
        result = self.script(f"as_user mkdir -m 0 {self.shm}; run; stat -c %a {self.shm}")
        self.assertEqual(result.stdout.split(), ["loaded", "700"], result)


class Forgetting(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)

    def does(self, *words, status=0):
        result = self.sandbox.sockfuse(*words)
        self.assertEqual(result.status, status, (words, result))
        return result.stdout + result.stderr

    def segments(self):
        return sorted(name for name in os.listdir(self.sandbox.state) if name.endswith(".segment"))

    def fails_once(self, *options):
        self.does("run", *options, "--", "curl", "-s", "http://127.0.0.1:1/", status=7)

    def test_a_policy_that_nobody_uses_is_removed_with_all_that_belongs_to_it(self):
        self.sandbox.guard("127.0.0.1:1")
        policy = self.sandbox.policy_path
        self.fails_once("-p", policy)
        self.fails_once("-p", policy, "-o", "jitter=0%")
        self.fails_once("-t", "127.0.0.1:1")
        self.assertIn("forgotten, with 1 circuit", self.does("forget", "-p", policy))
        self.assertEqual([name.split("-")[0] for name in os.listdir(self.sandbox.state)], ["patterns"])
        self.assertIn("it has no circuits", self.does("forget", "-p", policy, status=1))

    def test_one_that_a_living_program_uses_is_not(self):
        self.sandbox.guard("127.0.0.1:1")
        policy = self.sandbox.policy_path
        self.fails_once("-p", policy)
        program = self.sandbox.popen(["sh", "-c", "echo; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        program.stdout.readline()
        said = self.does("forget", "-p", policy, status=1)
        self.assertRegex(said, rf"use it: .*{program.pid} \(sh\)")
        self.assertIn("Nothing is over", self.does("forget", "--ended"))
        self.assertEqual(len(self.segments()), 1)
        program.stdin.close()
        program.wait(20)
        self.assertIn("forgotten", self.does("forget", "--ended"))
        self.assertIn("there are no circuits", self.does("forget", "--ended"))
        self.assertEqual(os.listdir(self.sandbox.state), [])

    def test_what_an_operator_forced_for_the_next_program_is_not_over(self):
        self.sandbox.guard("127.0.0.1:1")
        policy = self.sandbox.policy_path
        self.fails_once("-p", policy)
        self.assertIn("the next one that starts obeys", self.does("close", "-p", policy, "127.0.0.1:1", status=1))
        self.assertNotIn("obeys", self.does("auto", "-p", policy, "127.0.0.1:1", status=1))
        self.assertIn("the next one that starts obeys", self.does("close", "-p", policy, "127.0.0.1:1", status=1))
        self.assertIn("an operator has forced circuits; sockfuse auto", self.does("forget", "--ended"))
        (circuit,) = self.sandbox.circuits()
        self.assertEqual(circuit["forced"], "closed")
        self.assertIn("forgotten, with 1 circuit", self.does("forget", "-p", policy))

    def test_a_destination_begins_anew_also_under_running_programs(self):
        self.sandbox.guard("127.0.0.1:1", failure_threshold=1)
        self.fails_once("-p", self.sandbox.policy_path)
        (circuit,) = self.sandbox.circuits()
        self.assertEqual(circuit["state"], "open")
        self.assertIn("forgotten, was open", self.does("forget", "127.0.0.1:1"))
        self.assertEqual([circuit["counters"]["failed"] for circuit in self.sandbox.circuits()
                          if circuit["destination"]], [0])
        self.fails_once("-p", self.sandbox.policy_path)
        program = self.sandbox.popen(["sh", "-c", "echo; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        program.stdout.readline()
        self.does("forget", "127.0.0.1:1")
        (circuit,) = self.sandbox.circuits()
        self.assertEqual((circuit["state"], circuit["counters"]["failed"], circuit["last_failure"]),
                         ("closed", 0, None))
        self.does("open", "127.0.0.1:1")
        self.assertIn("auto", self.does("forget", "127.0.0.1:1", status=1))
        self.assertIn("no policy in use has", self.does("forget", "127.0.0.1:2", status=1))
        for words in ((), ("--ended", "127.0.0.1:1")):
            self.does("forget", *words, status=2)

    def test_two_hundred_runs_leave_a_few_files(self):
        self.does("run", "-t", "127.0.0.1:1", "sh", "-c",
                  f"i=0; while [ $((i += 1)) -le 200 ]; do {SOCKFUSE} run -t 127.0.0.1:$i true; done")
        self.does("run", "-t", "127.0.0.1:201", "sh", "-c", "sleep 1.1")  # those that have just been made stay
        for port in range(202, 240):
            self.does("run", "-t", f"127.0.0.1:{port}", "true")
        self.assertLessEqual(len(self.segments()), 60)

    def test_what_nobody_has_used_for_a_day_goes_with_the_next_start(self):
        self.sandbox.guard("127.0.0.1:1")
        self.fails_once("-p", self.sandbox.policy_path)
        self.fails_once("-t", "127.0.0.1:1")
        self.fails_once("-p", self.sandbox.policy_path, "-o", "jitter=1%")
        program = self.sandbox.popen([SOCKFUSE, "run", "-t", "127.0.0.1:2", "sh", "-c", "echo; cat"], how="command",
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        program.stdout.readline()
        for name in self.segments():
            os.utime(os.path.join(self.sandbox.state, name), (0, 0))
        before = self.segments()
        for _ in range(2):  # each looks into two
            self.does("run", "-t", "127.0.0.1:3", "true")
        after = self.segments()
        # The policy's stays, and the one that is in use.
        self.assertEqual(len(after), 3, (before, after))
        policies = {policy["policy"] for policy in json.loads(self.does("status", "--json"))}
        self.assertEqual(policies, {os.path.realpath(self.sandbox.policy_path), "patterns: 127.0.0.1:2",
                                    "patterns: 127.0.0.1:3"})


if __name__ == "__main__":
    unittest.main()
