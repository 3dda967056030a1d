"""Debian's package: what it holds, and a system in which it is installed, upgraded under running programs, and removed.

The system is this machine's own under a layer in memory, or that of SOCKFUSE_SYSTEM (make test-deb has fresh ones).
"""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, ROOT, Machine, Sandbox, Server, answer_http, build_of_layout,  # noqa: E402
                      present_layout)

# Calls whom it is told to, and says what came of it. Each Debian has it, and /bin/cat.
CLIENT = r"""
while read -r port; do
    if { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null; then
        printf 'GET / HTTP/1.0\r\n\r\n' >&3; read -r line <&3; exec 3>&-; echo "${line%$'\r'}"
    else
        echo refused
    fi
done
"""
POLICY = "/etc/sockfuse/test.policy"
# Of the loader, of a program that it starts all the same.
MISSED = r"object '[^']*libsockfuse.so' from (LD_PRELOAD|/etc/ld.so.preload) cannot be preloaded"


def build(*, suffix=""):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    made = subprocess.run([ROOT / "scripts/deb"], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**environment, "BUILD": str(BUILD), "SUFFIX": suffix})
    if made.returncode != 0:
        raise AssertionError(made.stderr + made.stdout)
    return made.stdout.splitlines()[-1].removeprefix("deb: ")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def repacked(package, folder, version, files=None):
    """The same as another version, whose library has other bytes and serves as well. files: {name: what is in its place}"""
    tree = os.path.join(folder, "tree")
    subprocess.run(["dpkg-deb", "-R", package, tree], check=True)
    (library,) = (path for path in glob.glob(f"{tree}/usr/lib/*-linux-gnu/sockfuse/libsockfuse.so")
                  if path == os.path.realpath(path))
    with open(library, "ab") as file:
        file.write(b"another build" * 1000)
    for name, file in (files or {}).items():
        for path in glob.glob(f"{tree}/usr/**/{name}", recursive=True):
            if not re.search(r"/(32|musl)/|/bash-completion/", path) and os.path.isfile(path):
                shutil.copy(file, path)
    with open(f"{tree}/DEBIAN/control", "r+", encoding="utf-8") as file:
        told = re.sub(r"(?m)^Version: .*", f"Version: {version}", file.read())
        file.seek(0)
        file.write(told)
        file.truncate()
    path = os.path.join(folder, "next.deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, path], check=True,
                   stdout=subprocess.DEVNULL)
    return path


@unittest.skipUnless(shutil.which("dh_builddeb"), "debhelper is not installed")
class PackageTest(unittest.TestCase):
    path = None

    @classmethod
    def setUpClass(cls):
        PackageTest.path = PackageTest.path or build()

    def field(self, name):
        return subprocess.run(["dpkg-deb", "-f", self.path, name], check=True, capture_output=True,
                              text=True).stdout.strip()


class Contents(PackageTest):
    def setUp(self):
        lines = subprocess.run(["dpkg-deb", "-c", self.path], check=True, capture_output=True, text=True).stdout
        self.files = {}
        for line in lines.splitlines():
            mode, owner, _, _, _, name = line.split(None, 5)
            self.files[name.split(" -> ")[0].removeprefix(".")] = (mode, owner)

    def test_all_that_make_install_installs_is_in_it(self):
        libdir = next(os.path.dirname(name) for name in self.files if name.endswith("-gnu/sockfuse/libsockfuse.so"))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        with tempfile.TemporaryDirectory(prefix="sf-") as folder:
            subprocess.run(["make", "-s", f"BUILD={BUILD}", f"DESTDIR={folder}", "PREFIX=/usr", f"LIBDIR={libdir}",
                            f"PLACED={BUILD}/deb/placed", "-o", "all", "install"], cwd=ROOT, check=True,
                           env=environment, stdout=subprocess.DEVNULL)
            for place, _, names in os.walk(folder):
                for name in names:
                    path = os.path.join(place, name).removeprefix(folder)
                    path += ".gz" if path.startswith("/usr/share/man/") else ""
                    self.assertTrue({path, path.removeprefix("/usr")} & set(self.files), path)

    def test_it_is_roots_and_nobody_else_may_write_into_it(self):
        for name, (mode, owner) in self.files.items():
            self.assertEqual(owner, "root/root", name)
            self.assertRegex(mode, r"^(l|.....-..-.)", name)
            self.assertFalse("s" in mode, name)

    def test_it_needs_the_c_library_alone_and_says_what_was_linked(self):
        # What tells systemd of the unit for users is on every Debian (essential).
        self.assertRegex(self.field("Depends"), r"^libc6 \(>= [0-9.]+\), init-system-helpers \(>= 1\.52\)$")
        self.assertRegex(self.field("Static-Built-Using"), r"\blibbsd \(= ")

    def test_the_same_sources_make_the_same_package(self):
        before = digest(self.path)
        self.assertEqual((build(), digest(self.path)), (self.path, before))

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_finds_no_error(self):
        said = subprocess.run(["lintian", "--fail-on", "error", self.path], check=False, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stdout)


class Life(PackageTest):
    """Each test has a system of its own, in which the package is installed."""

    def setUp(self):
        self.sandbox = Sandbox(self)
        self.machine = Machine(self, self.sandbox)
        self.server = Server(answer_http)
        self.addCleanup(self.server.stop)
        self.before = self.machine.written()
        self.dpkg("-i", self.path)
        (self.root / "etc/sockfuse").mkdir(parents=True)
        (self.root / POLICY[1:]).write_text(
            f"[defaults]\nfailure_threshold = 3\nreset_timeout = 10m\nreset_timeout_max = 10m\n[{self.server.destination}]\n",
            encoding="utf-8")
        self.library = self.do("find", "/usr/lib", "-path", "*-gnu/sockfuse/libsockfuse.so", "-type", "f").strip()

    @property
    def root(self):
        return self.machine.root

    def do(self, *argv, **keywords):
        out, err, status = self.machine.run(*argv, **keywords)
        self.assertEqual((err, status), ("", 0), argv)
        return out

    def dpkg(self, *words):
        """What it says on stderr."""
        package = words[-1]
        if os.path.exists(package):
            shutil.copy(package, self.root / "tmp/package.deb")
            words = (*words[:-1], "/tmp/package.deb")
        # This machine's manual is large, and its index nobody's business.
        out, err, status = self.machine.run("dpkg", "--no-triggers", "--force-unsafe-io", *words)
        self.assertEqual(status, 0, out + err)
        return err

    def session(self, how=("sockfuse", "run", "-p", POLICY, "--"), env=None):
        return self.machine.popen(*how, "bash", "-c", CLIENT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, session, times=1):
        said = []
        for _ in range(times):
            session.stdin.write(f"{self.server.port}\n".encode())
            session.stdin.flush()
            said.append(session.stdout.readline().decode().strip())
        return said

    def policies(self):
        return json.loads(self.do("sockfuse", "status", "--json"))

    def counters(self):
        (policy,) = self.policies()
        return policy["circuits"][0]["counters"]

    def mapped(self, session):
        """The library in its memory, as a path in the system; one that is gone ends with (deleted)."""
        with open(f"/proc/{session.pid}/maps", encoding="utf-8") as file:
            (path,) = {line.split(None, 5)[5].strip() for line in file if "libsockfuse" in line}
        return path[path.index("/usr/lib/"):]

    def test_what_is_installed_guards_programs_and_shows_it(self):
        self.assertEqual(self.do("sockfuse", "run", "-p", POLICY, "printenv", "LD_PRELOAD"), self.library + "\n")
        session = self.session()
        self.assertEqual(self.call(session), ["HTTP/1.1 200 OK"])
        self.server.down()
        self.assertEqual(self.call(session, 4), ["refused"] * 4)
        self.assertEqual((self.counters()["failed"], self.counters()["refused"]), (3, 1))
        self.assertIn("policies in use", self.do("sockfuse", "status", "-h"))

    def test_one_path_names_the_library_for_either_word_size(self):
        named = "/usr/$LIB/sockfuse/libsockfuse.so"
        session = self.session((), {"LD_PRELOAD": named, "SOCKFUSE_POLICY": POLICY})
        self.assertEqual(self.call(session), ["HTTP/1.1 200 OK"])
        self.assertEqual(self.counters()["succeeded"], 1)
        narrow = os.path.join(self.sandbox.folder, "narrow")
        made = subprocess.run(["gcc", "-m32", "-x", "c", "-", "-o", narrow], check=False, capture_output=True, text=True,
                              input='#include <stdio.h>\nint main(void) { char line[999]; FILE *maps = fopen('
                                    '"/proc/self/maps", "r"); while (fgets(line, sizeof line, maps)) fputs(line, stdout);'
                                    ' return sizeof(void *) == 8; }')
        if made.returncode != 0 or not (self.root / "lib/ld-linux.so.2").exists():
            self.skipTest("32-bit programs are neither made nor executed there")
        shutil.copy(narrow, self.root / "tmp/narrow")
        self.assertRegex(self.do("/tmp/narrow", env={"LD_PRELOAD": named, "SOCKFUSE_POLICY": POLICY}),
                         re.escape(os.path.dirname(self.library)) + "/32/libsockfuse.so")

    def test_an_upgrade_leaves_running_programs_alone_and_old_and_new_share_a_circuit(self):
        old = self.session()
        self.assertEqual(self.call(old), ["HTTP/1.1 200 OK"])
        self.assertEqual(self.mapped(old), self.library)
        said = self.dpkg("-i", repacked(self.path, self.sandbox.folder, self.field("Version") + "+next"))
        self.assertEqual(said, "")
        self.assertEqual(self.do("dpkg-query", "-W", "-f", "${Version}", "sockfuse"), self.field("Version") + "+next")
        self.assertEqual(self.call(old), ["HTTP/1.1 200 OK"])
        self.assertEqual(self.mapped(old), self.library + " (deleted)")
        new = self.session()
        self.assertEqual(self.call(new), ["HTTP/1.1 200 OK"])
        self.assertEqual(self.mapped(new), self.library)
        self.assertEqual(self.counters()["succeeded"], 3)
        self.server.down()
        self.assertEqual(self.call(old, 3), ["refused"] * 3)
        self.assertEqual((self.call(new), self.counters()["refused"]), (["refused"], 1), "what the old one saw")
        (policy,) = self.policies()
        self.assertEqual({process["pid"] for process in policy["processes"]}, {old.pid, new.pid})

    def test_an_upgrade_to_another_layout_leaves_running_programs_guarded_by_circuits_of_their_own(self):
        old = self.session()
        self.assertEqual(self.call(old), ["HTTP/1.1 200 OK"])
        (before,) = self.policies()
        folder = os.path.join(self.sandbox.folder, "layout")
        os.mkdir(folder)
        build_of_layout(folder, present_layout() + 1, "PREFIX=/usr", f"LIBDIR={os.path.dirname(self.library)}",
                        "LIBEXECDIR=/usr/libexec/sockfuse")
        names = [name for name in ("libsockfuse.so", "sockfuse", "sockfuse-agent") if os.path.exists(f"{folder}/{name}")]
        said = self.dpkg("-i", repacked(self.path, self.sandbox.folder, self.field("Version") + "+next",
                                        {name: f"{folder}/{name}" for name in names}))
        self.assertEqual(said, "")
        new = self.session()
        self.assertEqual((self.call(old), self.call(new)), (["HTTP/1.1 200 OK"],) * 2)
        self.assertEqual((self.mapped(old), self.mapped(new)), (self.library + " (deleted)", self.library))
        self.server.down()
        self.assertEqual(self.call(old, 4) + self.call(new, 4), ["refused"] * 8)
        text, err, status = self.machine.run("sockfuse", "status", "--json")
        self.assertEqual(status, 1, err)
        shown = {policy["segment"]: policy for policy in json.loads(text)}
        former = shown.pop(before["segment"])
        (present,) = shown.values()
        self.assertEqual((former["layout"], [process["pid"] for process in former["processes"]]),
                         (present_layout(), [old.pid]))
        counters = present["circuits"][0]["counters"]
        self.assertEqual((counters["succeeded"], counters["failed"], counters["refused"]), (1, 3, 1))
        text, err, status = self.machine.run("sockfuse", "status")
        self.assertRegex(text, rf"an older build \(layout {present_layout()};.*start it anew.* {old.pid} \(bash\)")
        old.stdin.close()
        self.assertEqual(old.wait(30), 0)
        self.do("sockfuse", "forget", "--ended")
        self.assertEqual([policy["segment"] for policy in self.policies()], [present["segment"]])

    @unittest.skipUnless((BUILD / "sockfuse-agent").exists(), "there is no agent here")
    def test_a_part_whose_library_is_missing_says_what_to_install_and_all_else_works(self):
        for library in "libmicrohttpd.so.12", "libssl.so.3":
            for path in self.do("find", "/usr/lib", "-name", library + "*").split():
                (self.root / path[1:]).unlink()
        (self.root / "tmp/agent.conf").write_text("[agent]\nlisten = unix:/run/agent.socket\n", encoding="ascii")
        _, err, status = self.machine.run("timeout", "20", "sockfuse", "agent", "-c", "/tmp/agent.conf")
        self.assertRegex(err, r"install libmicrohttpd12 \(Debian 13: libmicrohttpd12t64\)")
        self.assertEqual(status, 1)
        (self.root / "tmp/agent.conf").write_text("[agent]\nfleet = rediss://localhost:1/0\n", encoding="ascii")
        out, err, _ = self.machine.run("sockfuse", "check", "/tmp/agent.conf")
        self.assertRegex(out + err, r"install libssl3 \(Debian 13: libssl3t64\)")
        recommended = {word for choice in self.field("Recommends").split(", ") for word in choice.split(" | ")}
        self.assertLessEqual({"libmicrohttpd12", "libmicrohttpd12t64", "libssl3", "libssl3t64"}, recommended)
        self.assertEqual(self.do("sockfuse", "run", "-t", "127.0.0.1:1", "--", "echo", "works"), "works\n")

    def test_who_runs_on_through_the_removal_goes_on_and_says_so_to_a_package_that_comes_back(self):
        session = self.session()
        self.assertEqual(self.call(session), ["HTTP/1.1 200 OK"])
        self.assertEqual(self.dpkg("-r", "sockfuse"), "")
        self.assertFalse((self.root / self.library[1:]).exists())
        self.server.down()
        self.assertEqual(self.call(session, 4), ["refused"] * 4)
        self.dpkg("-i", self.path)
        self.assertEqual((self.counters()["succeeded"], self.counters()["refused"]), (1, 1))
        session.stdin.close()
        self.assertEqual(session.wait(30), 0)

    def test_a_program_that_is_told_to_load_what_was_removed_says_so_and_runs_unguarded(self):
        (self.root / "etc/ld.so.preload").write_text(self.library + "\n", encoding="ascii")
        self.assertEqual(self.do("sh", "-c", "echo works"), "works\n")
        self.assertRegex(self.dpkg("-P", "sockfuse"), "sockfuse: /etc/ld.so.preload still names the library.*Take it out")
        for env in {}, {"LD_PRELOAD": self.library, "SOCKFUSE_POLICY": POLICY}:
            out, err, status = self.machine.run("sh", "-c", "echo works", env=env)
            self.assertEqual((out, status), ("works\n", 0), err)
            self.assertRegex(err, MISSED)

    def test_the_agents_service_is_nobodys_until_it_is_asked_for_and_then_follows_upgrades_and_the_removal(self):
        units = [path for path in ("/lib/systemd/system", "/usr/lib/systemd/system")
                 if (self.root / path[1:] / "sockfuse-agent.service").exists()]
        self.assertTrue(units)
        self.assertTrue((self.root / "usr/lib/systemd/user/sockfuse-agent.service").exists())
        self.assertIn("ExecStart=/usr/bin/sockfuse agent\n",
                      (self.root / units[0][1:] / "sockfuse-agent.service").read_text(encoding="utf-8"))
        self.assertEqual(self.do("find", "/etc/systemd", "-name", "sockfuse*"), "", "enabled")
        # What its scripts ask of systemd, where one runs.
        (self.root / "run/systemd/system").mkdir(parents=True)
        (self.root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)  # this machine's may forbid to start anything
        fake = self.root / "usr/local/sbin/systemctl"
        fake.write_text('#!/bin/sh\necho "$*" >>/run/asked\n', encoding="ascii")
        fake.chmod(0o755)

        def asked(*words):
            (self.root / "run/asked").write_text("", encoding="ascii")
            self.dpkg(*words)
            said = (self.root / "run/asked").read_text(encoding="ascii")
            return set(re.findall(r"\b(start|stop|restart|try-restart|enable|disable|preset)\b.* sockfuse-agent\.service", said))
        self.assertEqual(asked("-i", self.path), {"try-restart"})
        self.assertEqual(asked("-r", "sockfuse"), {"stop"})
        self.assertLessEqual(asked("-i", self.path), {"try-restart"}, "which starts nothing that does not run")

    def test_nothing_is_left_of_it(self):
        self.do("sockfuse", "run", "-p", POLICY, "true")
        self.assertEqual(len(os.listdir(self.root / "run/sockfuse")), 1, "circuits, and nothing beside them")
        self.assertEqual(self.dpkg("-P", "sockfuse"), "")
        self.assertFalse((self.root / "run/sockfuse").exists())
        self.assertNotIn("sockfuse", self.do("dpkg-query", "-W", "-f", "${Package}\n").split())
        left = {path for path in self.machine.written() - self.before
                if not path.startswith(("var/lib/dpkg/", "var/log/", "var/cache/"))}
        self.assertEqual(left, {POLICY[1:]}, "the user's own")


if __name__ == "__main__":
    unittest.main()
