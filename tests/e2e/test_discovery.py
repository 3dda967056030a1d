"""Which policy a program gets by its names: scripts, renamed programs, links, units; and what `check --for` says.

The library finds it in the process itself, `run` and `check --for` beforehand: all three must find the same.
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import unittest

from fixtures import BARE, IDLE, LIBRARY, PYTHON, SOCKFUSE, Sandbox, Server, reset_at_accept

CONNECT = "exec 3<>/dev/tcp/{0.address}/{0.port} || true; read -r line <&3; exit 0"


class Discovery(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.config = os.path.join(self.sandbox.folder, "config")
        self.folder = os.path.join(self.config, "sockfuse")
        os.makedirs(self.folder)
        self.server = Server(reset_at_accept)
        self.addCleanup(self.server.stop)

    def policies(self, *names):
        """A policy for each of these names; only its name tells one from another."""
        for name in names:
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(f"[{self.server.destination}]\n")

    def path(self, name):
        return os.path.join(self.folder, f"{name}.policy")

    def file(self, name, text):
        path = os.path.join(self.sandbox.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def script(self, name, first_line):
        return self.file(name, f"{first_line}\n{CONNECT.format(self.server)}\n")

    def preloaded(self, argv, **env):
        result = self.sandbox.run(argv, IDLE, {"XDG_CONFIG_HOME": self.config, **env})
        self.assertEqual(result.status, 0, result)

    def callers(self):
        """The names of the policies under which somebody has called the server."""
        found = set()
        for name in sorted(os.listdir(self.folder)):
            result = self.sandbox.sockfuse("status", "-p", os.path.join(self.folder, name), "--json")
            self.assertEqual(result.status, 0, result.stderr)
            self.sandbox.policy_path = os.path.join(self.folder, name)
            if any(circuit["counters"]["admitted"] for circuit in self.sandbox.circuits()):
                found.add(name.removesuffix(".policy"))
        return found

    def told(self, *words, **env):
        """What `check --for` says, and its exit status."""
        return self.sandbox.run([SOCKFUSE, "check", "--for", *words], BARE, {"XDG_CONFIG_HOME": self.config, **env})

    def assert_gets(self, command, name, **env):
        """Under a bare preload, and by what `check --for` says of it."""
        self.preloaded(command, **env)
        self.assertEqual(self.callers(), {name})
        self.assertRegex(self.told(command[0], **env).stdout, rf"(?m)^  \S*/{name}\.policy +taken")


class Scripts(Discovery):
    def test_a_script_gets_its_own_policy_before_its_interpreters(self):
        self.policies("job", "bash", "default")
        self.assert_gets([self.script("job", "#!/bin/bash")], "job")

    def test_a_script_without_a_policy_of_its_own_gets_its_interpreters(self):
        self.policies("bash", "default")
        self.assert_gets([self.script("job", "#!/bin/bash")], "bash")

    def test_options_of_the_interpreter_make_no_difference(self):
        self.policies("job", "bash")
        self.assert_gets([self.script("job", "#! /bin/bash -u")], "job")

    def test_a_script_by_way_of_env_is_known_all_the_same(self):
        self.policies("job", "bash", "env", "default")
        self.assert_gets([self.script("job", "#!/usr/bin/env bash"), "a", "b"], "job")

    def test_a_script_by_way_of_env_with_options(self):
        self.policies("job", "bash")
        self.assert_gets([self.script("job", "#!/usr/bin/env -S bash -u")], "job")

    def test_a_script_that_is_given_to_its_interpreter_by_hand(self):
        self.policies("job", "bash")
        self.preloaded(["bash", "-u", self.script("job", "#!/bin/bash")])
        self.assertEqual(self.callers(), {"job"})

    def test_a_script_in_another_script_is_known_by_the_outer_name(self):
        outer = self.file("outer", f"#!{self.script('inner', '#!/bin/bash')}\n")
        self.policies("outer", "inner", "bash")
        self.assert_gets([outer], "outer")

    def test_a_script_that_is_only_read_gives_its_policy_to_nobody(self):
        script = self.script("job", "#!/bin/sh")
        self.policies("job", "bash")
        self.preloaded(["bash", "-c", CONNECT.format(self.server), script])
        self.preloaded(["bash", "-s", script], **{"BASH_ENV": self.file("start", CONNECT.format(self.server))})
        self.assertEqual(self.callers(), {"bash"})

    def test_an_argument_that_is_a_pipe_is_not_opened(self):
        """To open it would let its writer go on, and then break under him."""
        self.policies("pipe", "cat")
        path = os.path.join(self.sandbox.folder, "pipe")
        os.mkfifo(path)
        writer = self.sandbox.popen(["sh", "-c", f"echo all of it > {path}"], BARE)
        result = self.sandbox.run(["cat", path], IDLE, {"XDG_CONFIG_HOME": self.config})
        self.assertEqual(result.output, ("all of it\n", "", 0))
        self.assertEqual(writer.wait(10), 0)

    def test_a_file_without_a_policy_of_its_name_is_not_looked_at(self):
        """The file system that it lies on may be gone: `umount -l` must not wait for it."""
        self.policies("cat", "job")
        script, other = self.script("job", "#!/bin/sh"), self.script("other", "#!/bin/sh")
        for path, looked_at in ((script, True), (other, False)):
            trace = os.path.join(self.sandbox.folder, "trace")
            env = self.sandbox.environment(IDLE, {"XDG_CONFIG_HOME": self.config})
            words = [f"-E{name}={env.pop(name)}" for name in ("LD_PRELOAD",)]
            self.sandbox.run(["strace", "-o", trace, "-e", "trace=%file", *words, "cat", path], BARE, env)
            with open(trace, encoding="utf-8") as file:
                # cat itself opens it.
                seen = [line for line in file if f'"{path}"' in line and "execve" not in line]
            self.assertEqual(len(seen) > 1, looked_at, seen)


class Names(Discovery):
    def shell(self, name):
        """A copy of bash of that name, which can connect by itself."""
        path = os.path.join(self.sandbox.folder, name)
        shutil.copy("/bin/bash", path)
        return path

    def test_whoever_renames_a_program_means_the_new_name(self):
        self.policies("worker", "bash", "default")
        call = CONNECT.format(self.server)
        self.preloaded(["bash", "--norc", "-c", f"exec -a worker bash -c '{call}'"], BASH_ENV="")
        self.assertIn("worker", self.callers())

    def test_a_renamed_program_falls_back_on_the_file_that_was_executed(self):
        self.policies("own", "default")
        call = CONNECT.format(self.server)
        self.preloaded(["sh", "-c", f"exec bash -c \"exec -a worker {self.shell('own')} -c '{call}'\""])
        self.assertEqual(self.callers(), {"own"})

    def test_a_login_shell_is_known_without_its_dash(self):
        self.policies("own", "default")
        call = CONNECT.format(self.server)
        self.preloaded(["bash", "-c", f"exec -a -own {self.shell('other')} -c '{call}'"])
        self.assertEqual(self.callers(), {"own"})

    def test_a_name_that_is_set_later_changes_nothing(self):
        self.policies("python3", "renamed", "default")
        code = ("import ctypes, socket; ctypes.CDLL(None).prctl(15, b'renamed', 0, 0, 0); "
                f"s = socket.create_connection(('{self.server.address}', {self.server.port}))")
        self.sandbox.run([PYTHON, "-c", code], IDLE, {"XDG_CONFIG_HOME": self.config})
        self.assertEqual(self.callers(), {"python3"})

    def test_a_link_to_a_program_has_a_name_of_its_own(self):
        self.policies("link", "own")
        self.shell("own")
        link = os.path.join(self.sandbox.folder, "link")
        os.symlink("own", link)
        self.preloaded([link, "-c", CONNECT.format(self.server)])
        self.assertEqual(self.callers(), {"link"})


class Links(Discovery):
    def test_a_link_to_another_programs_policy_is_a_policy_of_its_own(self):
        self.policies("curl")
        os.symlink("curl.policy", self.path("bash"))
        self.preloaded(["bash", "-c", CONNECT.format(self.server)])
        (policy,) = json.loads(self.sandbox.sockfuse("status", "--json").stdout)
        self.assertEqual(policy["policy"], self.path("bash"))

    def test_a_link_that_leads_nowhere_is_passed_over_and_named(self):
        self.policies("default")
        os.symlink("gone.policy", self.path("curl"))
        result = self.told("curl")
        self.assertRegex(result.stdout, r"/curl\.policy +a link that leads nowhere: gone\.policy\n")
        self.assertRegex(result.stdout, r"/default\.policy +taken\n")
        self.sandbox.run(["curl", "-sS", self.server.url], IDLE, {"XDG_CONFIG_HOME": self.config})
        self.assertEqual(self.callers_of_default(), 1)

    def callers_of_default(self):
        self.sandbox.policy_path = self.path("default")
        return sum(circuit["counters"]["admitted"] for circuit in self.sandbox.circuits())

    def test_a_link_is_shown_with_where_it_leads(self):
        self.policies("curl")
        os.symlink("curl.policy", self.path("wget"))
        self.assertIn(f"taken, a link to {self.path('curl')}\n", self.told("wget").stdout)


class Unit(Discovery):
    """One LD_PRELOAD for all programs of a unit, with policies in /etc/sockfuse: of a mount namespace's own /etc."""

    def setUp(self):
        super().setUp()
        layers = os.path.join(self.sandbox.folder, "layers")
        os.mkdir(layers)
        script = (f"mount -t tmpfs none '{layers}' && mkdir '{layers}/upper' '{layers}/work' && "
                  f"mount -t overlay overlay -o 'lowerdir=/etc,upperdir={layers}/upper,workdir={layers}/work' /etc && "
                  f"cp -r '{self.folder}' /etc/sockfuse && echo ready && exec cat")
        self.policies("curl", "nc")
        holder = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c", script],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, holder)
        if holder.stdout.readline() != b"ready\n":
            self.skipTest(f"no mount namespace: {holder.stderr.read().decode()}")
        self.sandbox.namespace = self
        self.holder = holder

    def command(self, argv):
        return ["nsenter", "-t", str(self.holder.pid), "-m", "--", *argv]

    def end(self, holder):
        holder.send_signal(signal.SIGKILL)
        holder.communicate()

    def in_unit(self, script, **env):
        """As systemd starts it: with neither HOME nor XDG_CONFIG_HOME."""
        return self.sandbox.run(["sh", "-c", script], IDLE, {"HOME": None, **env})

    def calls(self, path):
        self.sandbox.policy_path = path
        return sum(circuit["counters"]["admitted"] for circuit in self.sandbox.circuits())

    def test_each_program_finds_its_own_policy_and_the_others_are_left_alone(self):
        call = CONNECT.format(self.server)
        result = self.in_unit(f"curl -sS {self.server.url}; echo x | nc {self.server.address} {self.server.port}; "
                              f"bash -c '{call}'; true")
        self.assertEqual(result.status, 0, result)
        self.assertEqual([self.calls(f"/etc/sockfuse/{name}.policy") for name in ("curl", "nc")], [1, 1])
        self.assertEqual(self.server.connections, 3)
        self.assertEqual(len([name for name in os.listdir(self.sandbox.state) if name.endswith(".segment")]), 2)

    def test_the_users_folder_goes_before_the_systems(self):
        self.in_unit(f"curl -sS {self.server.url}", XDG_CONFIG_HOME=self.config)
        self.assertEqual([self.calls(os.path.join(folder, "curl.policy")) for folder in (self.folder, "/etc/sockfuse")],
                         [1, 0])

    def test_one_policy_for_all_of_them_by_the_variable(self):
        self.in_unit(f"curl -sS {self.server.url}; echo x | nc {self.server.address} {self.server.port}",
                     SOCKFUSE_POLICY="/etc/sockfuse/nc.policy")
        self.assertEqual(self.calls("/etc/sockfuse/nc.policy"), 2)


class Mistakes(Discovery):
    """What every command of a login shell would say is said by one of them."""

    def shell_says(self, script="for i in 1 2 3 4 5 6 7 8; do cat /dev/null & done; wait; cat /dev/null; ls >/dev/null",
                   **env):
        result = self.sandbox.run(["bash", "-c", script], IDLE, {"XDG_CONFIG_HOME": self.config, **env})
        self.assertEqual(result.status, 0, result)
        return result.stderr.splitlines()

    def break_policy(self, name, text="nonsense = 1"):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write(f"[{self.server.destination}]\n{text}\n")

    def said_file(self):
        return os.path.join(self.sandbox.state, ".said")

    def test_a_broken_policy_that_was_discovered_is_told_once_a_minute(self):
        self.break_policy("default")
        (line,) = self.shell_says()
        self.assertRegex(line, r"^sockfuse: .*/default\.policy:2: unknown key `nonsense`.*unguarded$")
        self.assertEqual(self.shell_says(), [])
        self.break_policy("default", "rubbish = 1")
        self.assertEqual(len(self.shell_says()), 1, "another mistake is another line")
        # A minute goes by.
        with open(self.said_file(), "r+b") as file:
            entries = [(line, said - 60 * 10**9) for line, said in struct.iter_unpack("=QQ", file.read())]
            file.seek(0)
            file.write(b"".join(struct.pack("=QQ", *entry) for entry in entries))
        self.assertEqual(len(self.shell_says()), 1)

    def test_who_named_it_hears_of_it_each_time(self):
        self.break_policy("default")
        self.assertEqual(len(self.shell_says()), 1)
        for _ in range(2):
            self.assertEqual(len(self.shell_says("cat /dev/null", SOCKFUSE_POLICY=self.path("default"))), 2)
            result = self.sandbox.sockfuse("run", "-p", self.path("default"), "true")
            self.assertEqual(result.status, 125)
            self.assertIn("nonsense", result.stderr)
            result = self.sandbox.sockfuse("run", "true", env={"XDG_CONFIG_HOME": self.config})
            self.assertIn("nonsense", result.stderr)

    def test_a_command_whose_standard_error_is_closed_says_it_for_nobody(self):
        self.break_policy("cat")
        self.assertEqual(len(self.shell_says("cat /dev/null 2>&-; cat /dev/null; cat /dev/null")), 1)

    def test_a_state_folder_that_others_may_enter_is_told_once(self):
        self.policies("default")
        os.mkdir(self.sandbox.state)
        os.chmod(self.sandbox.state, 0o777)
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode != 0:
            self.skipTest("needs root and a mount name space")
        # With an empty /run, so that nothing is left in this machine's.
        script = "mount -t tmpfs none /run; export LD_PRELOAD=$0; cat /dev/null; cat /dev/null; ls /dev/null"
        result = self.sandbox.run(["unshare", "-m", "--propagation", "private", "bash", "-c", script, LIBRARY], BARE,
                                  {"XDG_CONFIG_HOME": self.config, "SOCKFUSE_STATE": self.sandbox.state})
        self.assertEqual(result.stderr.count("chmod 700"), 1, result)

    def test_nothing_is_touched_where_there_is_nothing_to_say(self):
        self.policies("default")
        self.assertEqual(self.shell_says(), [])
        self.assertFalse(os.path.exists(self.said_file()))


class Told(Discovery):
    def test_every_place_is_named_in_the_order_of_the_search(self):
        script = self.script("job", "#!/bin/bash")
        result = self.told(script)
        self.assertEqual(result.status, 1, result)
        places = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")]
        self.assertEqual(places, ["SOCKFUSE_POLICY"] + [
            f"{folder}/{name}.policy" for name in ("job", "bash", "default")
            for folder in (self.folder, "/etc/sockfuse")])
        self.assertIn(f"{script} (/", result.stdout)
        self.assertIn("a script for /bin/bash) is known as job, then as bash\n", result.stdout)
        self.assertIn("gets no policy: it is left alone\n", result.stdout)

    def test_a_script_that_is_called_like_its_interpreter_has_one_name(self):
        result = self.told(self.script("bash", "#!/bin/bash"))
        self.assertEqual(result.stdout.count(f"{self.folder}/bash.policy"), 1, result.stdout)

    def test_a_later_place_that_has_one_too_is_told(self):
        self.policies("curl", "default")
        self.assertRegex(self.told("curl").stdout, r"/default\.policy +is there, but comes later\n")

    def test_the_policy_is_checked_too(self):
        self.policies("curl")
        good = self.told("curl", "--match", self.server.destination)
        self.assertEqual(good.status, 0, good)
        self.assertIn(f"target [{self.server.destination}]", good.stdout)
        self.assertEqual(self.told("curl", "--match", "127.0.0.1:1").status, 1)
        with open(self.path("curl"), "a", encoding="ascii") as file:
            file.write("jiter = 1%\n")
        bad = self.told("curl")
        self.assertEqual(bad.status, 1, bad)
        self.assertIn(f"{self.path('curl')}:2: error:", bad.stderr)

    def test_sockfuse_policy_goes_before_all(self):
        self.policies("curl", "named")
        result = self.told("curl", SOCKFUSE_POLICY=self.path("named"))
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.stdout, rf"SOCKFUSE_POLICY={self.path('named')} +taken\n")
        self.assertRegex(result.stdout, r"/curl\.policy +is there, but comes later\n")
        missing = self.told("curl", SOCKFUSE_POLICY="/nonexistent.policy")
        self.assertEqual(missing.status, 1, missing)
        self.assertIn("/nonexistent.policy: error:", missing.stderr)

    def test_a_program_that_is_not_there_is_looked_for_by_its_name(self):
        self.policies("no-such-program")
        result = self.told("no-such-program")
        self.assertEqual(result.status, 0, result)
        self.assertIn("is not found among the programs here", result.stderr)

    def test_what_run_would_warn_of_is_said(self):
        source = self.file("c.c", "int main(void) { return 0; }")
        program = os.path.join(self.sandbox.folder, "static")
        self.sandbox.run(["gcc", "-static", "-o", program, source], BARE)
        self.policies("static")
        result = self.told(program)
        self.assertEqual(result.status, 0, result)
        self.assertIn("statically linked", result.stderr)
        self.assertIn("SOCKFUSE=off is set", self.told(program, SOCKFUSE="off").stderr)

    def test_wrong_usage_is_2(self):
        self.policies("curl")
        self.assertEqual(self.told("curl", self.path("curl")).status, 2)
        self.assertEqual(self.told().status, 2)


if __name__ == "__main__":
    unittest.main()
