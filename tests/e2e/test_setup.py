"""What a newcomer does first: scripts/setup, the two commands of the README, and make install.

The set-up runs in a mount namespace where some things are missing, with an apt-get of the test's own that says what it
was asked for: nothing is installed, and nothing of the machine is changed. Needs root.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, BARE, BUILD, CLIENTS, LIBRARY, PRELOAD, PYTHON, ROOT, SOCKFUSE, Sandbox,  # noqa: E402
                      Server, Session, answer_http, reset_after_request)


# What the script itself runs, and what it looks for.
TOOLS = ("bash", "sh", "env", "sed", "sort", "grep", "id", "cat", "chmod", "rm", "uname", "ln", "umount")
DEMO_COMMANDS = ("cc", "make", "curl", "socat")
# Below /usr/include, or in a folder of the architecture there: the compiler knows.
HEADERS = os.path.dirname(re.search(r"\S+/bsd/libutil\.h", subprocess.run(
    ["cc", "-E", "-M", "-x", "c", "-"], input="#include <bsd/libutil.h>\n", check=True, capture_output=True,
    text=True).stdout).group())
SERVICES = "/usr/sbin/policy-rc.d"

APT_GET = """#!/bin/sh
echo "apt-get $*" >>FOLDER/calls
[ "$(id -u)" -ne 0 ] || echo root >>FOLDER/calls
case " $* " in *" install "*) ;; *) exit 0 ;; esac
SERVICES; echo "services: $?" >>FOLDER/calls
[ ! -e FOLDER/broken ] || exit 100
[ ! -e FOLDER/hidden ] || umount HEADERS
for name in curl socat; do
    case " $* " in *" $name "*) ln -s /usr/bin/$name FOLDER/bin/$name ;; esac
done
"""
SUDO = """#!/bin/sh
echo sudo >>FOLDER/calls
exec "$@"
"""
MAKE = """#!/bin/sh
echo "make $*" >>FOLDER/calls
"""


class SetUp(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.folder = self.sandbox.folder
        os.chmod(self.folder, 0o777)
        self.bin = self.make_folder("bin")
        self.services = self.make_folder("services")
        self.nothing = self.make_folder("nothing")
        # Where the clone lies, not everybody may read.
        self.script = shutil.copy(ROOT / "scripts/setup", self.folder)
        for name in TOOLS + DEMO_COMMANDS:
            self.provide(name)
        self.write("apt-get", APT_GET)

    def make_folder(self, name):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        os.chmod(path, 0o777)
        return path

    def provide(self, name):
        os.symlink(shutil.which(name), os.path.join(self.bin, name))

    def write(self, name, script):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(script.replace("FOLDER", self.folder).replace("SERVICES", SERVICES).replace("HEADERS", HEADERS))
        os.chmod(path, 0o755)

    def without(self, *names):
        for name in names:
            os.remove(os.path.join(self.bin, name))

    def run_setup(self, *words, hide_headers=False, user=None, path=None):
        """In a namespace whose /usr/sbin is the test's own, so that policy-rc.d is too."""
        script = f"mount --bind '{self.services}' /usr/sbin && "
        if hide_headers:
            script += f"mount --bind '{self.nothing}' {HEADERS} && : >{self.folder}/hidden && "
        become = f"setpriv --reuid={user} --regid={user} --clear-groups " if user else ""
        script += f'exec {become}/usr/bin/env PATH="$0" /usr/bin/bash {self.script} "$@"'
        return self.sandbox.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, path or self.bin,
                                 *words], BARE)

    def calls(self):
        path = os.path.join(self.folder, "calls")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()

    def installed(self):
        """The packages that apt-get was asked to install; None: it was not asked."""
        for call in self.calls():
            found = re.match(r"apt-get .*--no-install-recommends (.*)", call)
            if found:
                return found.group(1).split()
        return None


class Nothing(SetUp):
    """When nothing is missing it says so and does nothing."""

    def test_for_the_demo_a_compiler_make_libbsd_libmd_ncurses_libev_curl_and_socat_are_enough(self):
        result = self.run_setup("demo")
        self.assertEqual(result.output, ("setup: nothing is missing for the demo\n", "", 0))
        self.assertEqual((self.calls(), os.listdir(self.services)), ([], []))

    def test_for_the_tests_what_was_installed_before_them_is_enough(self):
        everything = f"{self.bin}:{self.sandbox.environment(BARE)['PATH']}"
        os.rmdir(self.services)
        shutil.copytree("/usr/sbin", self.services, symlinks=True)
        for words in ((), ("test",)):
            result = self.run_setup(*words, path=everything)
            self.assertEqual(result.output, ("setup: nothing is missing for the test\n", "", 0))
        self.assertEqual(self.calls(), [])


class Missing(SetUp):
    """What is missing is named, and installed where that can be done."""

    def test_what_is_missing_for_the_demo_is_installed_and_nothing_else(self):
        for name in ("curl", "socat"):
            self.without(name)
        result = self.run_setup("demo", hide_headers=True)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(self.installed(), ["curl", "libbsd-dev", "socat"])
        self.assertIn("setup: installing for the demo: curl libbsd-dev socat\n", result.stdout)
        self.assertIn("update", self.calls()[0], "the lists first")
        self.assertEqual(self.run_setup("demo").stdout, "setup: nothing is missing for the demo\n")

    def test_the_compiler_and_make_are_among_it(self):
        self.without("cc", "make")
        self.run_setup("demo")
        self.assertEqual(self.installed(), ["gcc", "libbsd-dev", "libc6-dev", "libev-dev", "libmd-dev",
                                            "libncurses-dev", "make"],
                         "and what only a compiler can say to be there")

    def test_headers_and_libraries_are_looked_for_where_the_compiler_looks(self):
        # As where they are in a folder that only this compiler knows.
        elsewhere = self.make_folder("elsewhere")
        shutil.copytree(HEADERS, os.path.join(elsewhere, "bsd"))
        os.remove(os.path.join(self.bin, "cc"))
        self.write("cc", f'#!/bin/sh\nexec /usr/bin/cc "$@" -isystem {elsewhere}\n')
        self.assertEqual(self.run_setup("demo", hide_headers=True).stdout, "setup: nothing is missing for the demo\n")
        shutil.rmtree(elsewhere)
        open(os.path.join(self.folder, "broken"), "w", encoding="ascii").close()
        self.run_setup("demo", hide_headers=True)
        self.assertEqual(self.installed(), ["libbsd-dev"])

    def test_the_tests_need_more_and_the_demo_does_not_ask_for_it(self):
        self.run_setup("test")
        packages = self.installed()
        for package in ("clang", "nodejs", "php-cli", "redis-server", "strace", "valgrind", "wget"):
            self.assertIn(package, packages)
        self.assertNotIn("curl", packages, "it is there")

    def test_no_service_is_started_meanwhile(self):
        self.without("curl")
        self.run_setup("demo")
        self.assertIn("services: 101", self.calls())
        self.assertEqual(os.listdir(self.services), [], "and the door is open again")

    def test_where_the_system_forbids_or_allows_services_itself_that_stays(self):
        self.without("curl")
        own = os.path.join(self.services, "policy-rc.d")
        with open(own, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 3\n")
        os.chmod(own, 0o755)
        self.run_setup("demo")
        self.assertIn("services: 3", self.calls())
        self.assertTrue(os.path.exists(own))

    def test_an_installation_that_fails_is_an_error_and_leaves_nothing(self):
        self.without("curl")
        open(os.path.join(self.folder, "broken"), "w", encoding="ascii").close()
        result = self.run_setup("demo")
        self.assertNotEqual(result.status, 0, result)
        self.assertNotIn("done", result.stdout)
        self.assertEqual(os.listdir(self.services), [])

    def test_what_is_still_missing_afterwards_is_an_error(self):
        self.without("make")
        result = self.run_setup("demo")
        self.assertEqual((result.status, result.stderr),
                         (1, "setup: still missing after the installation: make\n"), result)

    def test_elsewhere_than_on_debian_it_names_what_is_missing(self):
        self.without("curl", "socat", "apt-get")
        result = self.run_setup("demo")
        self.assertEqual(result.output, ("", "setup: missing for the demo, by the names of Debian's packages: "
                                             "curl socat\n", 1))

    def test_an_ordinary_user_goes_by_sudo(self):
        self.without("curl")
        self.write("sudo", SUDO)
        result = self.run_setup("demo", user=65534)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(self.installed(), ["curl"])
        self.assertNotIn("root", self.calls(), "or this test shows nothing")
        self.assertGreaterEqual(self.calls().count("sudo"), 2, "update and install")
        self.assertIn("services: 101", self.calls())
        self.assertEqual(os.listdir(self.services), [])

    def test_without_sudo_an_ordinary_user_is_told_what_root_must_do(self):
        self.without("curl")
        result = self.run_setup("demo", user=65534)
        self.assertEqual(result.output, ("", "setup: missing for the demo; as root: apt-get install "
                                             "--no-install-recommends curl\n", 1))
        self.assertEqual(self.calls(), [])


class TwoCommands(SetUp):
    """What the README promises is there, and continuous integration runs the very same."""

    def dry_run(self, target):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        return subprocess.run(["make", "-n", "BUILD=elsewhere", target], cwd=ROOT, env=environment, check=True,
                              capture_output=True, text=True).stdout

    def test_the_readme_has_two_commands_for_all_and_both_set_up_first(self):
        with open(ROOT / "README.md", encoding="utf-8") as file:
            section = file.read().split("\n## Two commands\n")[1].split("\n## ")[0]
        block = re.search(r"(?ms)^```sh\n(.*?)^```$", section).group(1)
        self.assertEqual(re.findall(r"(?m)^([a-z ]+?) *(?:#.*)?$", block), ["make demo", "make test"])
        for word in ("demo", "test"):
            self.assertEqual(self.dry_run(word), f"BUILD=elsewhere scripts/{word}\n")
            with open(ROOT / "scripts" / word, encoding="utf-8") as file:
                self.assertRegex(file.read(), rf'(?m)^(?:\[ -n "\${{PREPARED:-}}" \] \|\| )?scripts/setup {word}\b')

    def test_continuous_integration_runs_make_test(self):
        os.remove(os.path.join(self.bin, "make"))
        self.write("make", MAKE)
        self.provide("dirname")
        result = self.sandbox.run([ROOT / ".ci/run"], BARE, {"PATH": self.bin})
        self.assertEqual(result.output, ("", "", 0))
        self.assertEqual(self.calls(), ["make test"])


class Compilers(unittest.TestCase):
    """The next compiler will warn of something that today's does not."""

    COMPILER = """#!/bin/sh
echo "$0: warning: a new one" >&2
case " $* " in *" -c "*" -Werror "* | *" -Werror "*" -c "*) exit 1 ;; esac
exec cc "$@"
"""

    def setUp(self):
        self.sandbox = Sandbox(self)
        self.compiler = os.path.join(self.sandbox.folder, "next-cc")
        with open(self.compiler, "w", encoding="ascii") as file:
            file.write(self.COMPILER)
        os.chmod(self.compiler, 0o755)
        self.object = os.path.join(self.sandbox.folder, "src/cli/cli.o")

    def make(self, *words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        return subprocess.run(["make", f"BUILD={self.sandbox.folder}", f"CC={self.compiler}", *words], cwd=ROOT,
                              env=environment, check=False, capture_output=True, text=True)

    def test_a_plain_make_shows_what_it_warns_of_and_builds(self):
        result = self.make(self.object)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("warning: a new one", result.stderr)
        self.assertNotIn(" CC ", self.make(self.object).stdout, "it is up to date")

    def test_for_the_tests_a_warning_is_an_error_also_in_what_was_built_before(self):
        self.assertIn(" CC ", self.make(self.object).stdout)
        for target in ("test-programs", "unit-programs"):
            self.assertNotIn(" -Werror", self.make("-n", "V=1", "all").stdout)
            self.assertIn(" -Werror", self.make("-n", "V=1", target).stdout)
        result = self.make("WERROR=-Werror", self.object)
        self.assertEqual(result.returncode, 2, result)


class Install(unittest.TestCase):
    """`make install PREFIX= DESTDIR=`, and then without the folder in which it was built."""

    def setUp(self):
        self.sandbox = Sandbox(self)

    def make(self, *words, build=BUILD, under=(), check=True):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        # A build that is newer than its sources is not built again here.
        return subprocess.run([*under, "make", "-s", f"BUILD={build}", *words, "-o", "all"], cwd=ROOT, check=check,
                              env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)

    def install(self, *words, **keywords):
        self.make("install", *words, **keywords)

    def test_a_build_folder_has_one_name_however_it_is_called(self):
        """Else an object that was made under the one is not made anew under the other when a header changes."""
        rule = "told: ; @echo $(BUILD) $(PLACED)"
        for named in "build", ROOT / "build", "./build/../build":
            told = subprocess.run(["make", "-s", f"BUILD={named}", "--eval", rule, "told"], cwd=ROOT, check=True,
                                  capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
            self.assertEqual(told.stdout, "build build\n", named)

    def test_what_is_made_is_known_by_its_whole_path_too(self):
        """As scripts ask for it, whose BUILD may be such a one."""
        for goal in "build/libsockfuse.so", ROOT / "build/libsockfuse.so":
            result = subprocess.run(["make", "-n", "BUILD=build", goal], cwd=ROOT, check=False, capture_output=True,
                                    text=True)
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_what_was_installed_guards_a_program(self):
        prefix = os.path.join(self.sandbox.folder, "prefix")
        self.install(f"PREFIX={prefix}")
        command, library = os.path.join(prefix, "bin/sockfuse"), os.path.join(prefix, "lib/sockfuse/libsockfuse.so")
        server = Server(reset_after_request)
        self.addCleanup(server.stop)
        self.sandbox.guard(server, failure_threshold=1)
        run = [command, "run", "-p", self.sandbox.policy_path, "--"]
        told = self.sandbox.run([*run, "sh", "-c", "echo $LD_PRELOAD"], "command")
        self.assertEqual(told.output, (library + "\n", "", 0))
        self.assertEqual([self.sandbox.run([*run, "curl", "-sS", server.url], "command").status for _ in range(2)],
                         [56, 7], "reset, and then refused")
        self.assertEqual(server.connections, 1)
        self.assertEqual((os.stat(command).st_mode & 0o777, os.stat(library).st_mode & 0o777), (0o755, 0o644))

    def test_destdir_stands_before_the_prefix(self):
        self.install(f"DESTDIR={self.sandbox.folder}/image", "PREFIX=/opt/sockfuse")
        root = os.path.join(self.sandbox.folder, "image")
        self.assertEqual(os.listdir(root), ["opt"], "nothing beside it")
        self.assertTrue(os.path.exists(os.path.join(root, "opt/sockfuse/lib/sockfuse/libsockfuse.so")))
        server = Server(answer_http)
        self.addCleanup(server.stop)
        self.sandbox.guard(server)
        result = self.sandbox.run([os.path.join(root, "opt/sockfuse/bin/sockfuse"), "run", "-p",
                                   self.sandbox.policy_path, "curl", "-sS", server.url], "command")
        self.assertEqual(result.output, (ANSWER.decode(), "", 0))
        self.assertEqual(self.sandbox.counters(server)["succeeded"], 1)

    def another_build(self):
        """A build folder with a library of other bytes, which serves as well."""
        folder = os.path.join(self.sandbox.folder, "other")
        os.mkdir(folder)
        for path in SOCKFUSE, LIBRARY:
            shutil.copy(path, folder)
        with open(os.path.join(folder, "libsockfuse.so"), "ab") as file:
            file.write(b"another build" * 1000)
        return folder

    def test_a_program_that_runs_keeps_the_library_that_it_has_mapped(self):
        prefix = os.path.join(self.sandbox.folder, "prefix")
        self.install(f"PREFIX={prefix}")
        library = os.path.join(prefix, "lib/sockfuse/libsockfuse.so")
        before = os.stat(library)
        server = Server(answer_http)
        self.addCleanup(server.stop)
        self.sandbox.guard(server)
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"], PRELOAD, env={"LD_PRELOAD": library})
        self.assertEqual(session.ask(url=server.url, timeout=5)["status"], 200)
        with open(library, "rb") as file:
            kept = file.fileno()
            for words in (("install",), ("uninstall",)):
                self.make(*words, f"PREFIX={prefix}", build=self.another_build() if words == ("install",) else BUILD)
                after = os.fstat(kept)
                self.assertEqual((after.st_ino, after.st_size, after.st_mtime_ns, after.st_nlink),
                                 (before.st_ino, before.st_size, before.st_mtime_ns, 0), words)
                self.assertEqual(session.ask(url=server.url, timeout=5)["status"], 200, words)
            self.assertEqual(file.read(), LIBRARY.read_bytes())
        with open(f"/proc/{session.pid}/maps", encoding="utf-8") as file:
            self.assertIn(f" {before.st_ino} ", file.read())
        self.assertEqual(self.sandbox.counters(server)["succeeded"], 3)
        self.assertEqual(session.close(), 0)

    def test_whoever_starts_meanwhile_finds_the_old_file_or_the_new_one_and_it_is_whole(self):
        prefix, trace = (os.path.join(self.sandbox.folder, name) for name in ("prefix", "trace"))
        self.install(f"PREFIX={prefix}")
        self.install(f"PREFIX={prefix}", build=self.another_build(),
                     under=["strace", "-f", "-o", trace, "-e", "trace=%file,ftruncate"])
        with open(trace, encoding="utf-8", errors="replace") as file:
            calls = file.read().splitlines()
        for name in ("lib/sockfuse/libsockfuse.so", "bin/sockfuse", "share/man/man1/sockfuse.1"):
            path = os.path.join(prefix, name)
            touched = [call for call in calls if f'"{path}"' in call and " = -1 " not in call and
                       re.search(r"unlink|O_(TRUNC|CREAT|WRONLY|RDWR)|rename|creat|link|trunc", call)]
            self.assertEqual(len(touched), 1, touched)
            self.assertRegex(touched[0], rf'rename.*"{path}.new", .*"{path}".* = 0$')

    def test_uninstall_stops_where_every_program_would_miss_the_library(self):
        image = os.path.join(self.sandbox.folder, "image")
        self.install(f"DESTDIR={image}", "PREFIX=/usr")
        os.mkdir(os.path.join(image, "etc"))
        preload = os.path.join(image, "etc/ld.so.preload")
        with open(preload, "w", encoding="utf-8") as file:
            file.write("/usr/lib/sockfuse/libsockfuse.so\n")
        stopped = self.make("uninstall", f"DESTDIR={image}", "PREFIX=/usr", check=False)
        self.assertIn("ld.so.preload names the library", stopped.stderr)
        self.assertNotEqual(stopped.returncode, 0)
        library = os.path.join(image, "usr/lib/sockfuse/libsockfuse.so")
        self.assertTrue(os.path.exists(library))
        os.unlink(preload)
        self.make("uninstall", f"DESTDIR={image}", "PREFIX=/usr")
        self.assertFalse(os.path.exists(library))


if __name__ == "__main__":
    unittest.main()
