"""The manual pages against what they describe: commands, options, variables, columns, JSON; and how they are installed.

The keys of a policy are held against the parser's table by tests/unit/test_manual.c.
"""
import glob
import os
import re
import subprocess
import tempfile
import unittest

from fixtures import BARE, BUILD, ROOT, SOCKFUSE, Sandbox

PAGES = sorted(glob.glob(str(ROOT / "src/man/*.[1-8]")))
COMMON = {"-h", "--help", "--version"}


def read(path):
    with open(ROOT / path, encoding="utf-8") as file:
        return file.read()


def sources(*folders):
    return "".join(read(path) for folder in folders for path in sorted(glob.glob(str(ROOT / f"src/{folder}/*.c"))))


def options_in(line):
    """The options that a line of mdoc names: `Fl v`, `Fl Fl verbose`."""
    return {f"--{word}" for word in re.findall(r"\bFl Fl ([a-z]+)", line)} | set(
        f"-{word}" for word in re.findall(r"(?<!Fl )\bFl ([a-z])\b", line))


class Commands(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(self)
        self.page = read("src/man/sockfuse.1")
        self.sections = {}
        for section in re.split(r"(?m)^\.Ss ", self.page.split("\n.Sh JSON")[0])[1:]:
            for name in section.split("\n", 1)[0].split(", "):
                self.sections[name] = section

    def help(self, *words):
        result = self.sandbox.run([SOCKFUSE, *words, "-h"], BARE)
        self.assertEqual(result.status, 0, result)
        return result.stdout

    def commands(self):
        return re.findall(r"(?m)^  ([a-z]+) {2,}\S", self.help())

    def test_every_command_has_a_section_and_every_section_is_a_command(self):
        self.assertGreaterEqual(len(self.commands()), 4)
        self.assertEqual(sorted(self.sections), sorted(self.commands()))

    def test_every_option_is_in_its_commands_section_and_the_other_way_round(self):
        for command in self.commands():
            known = set(re.findall(r"(?<![\w-])--?[a-z]+\b", "\n".join(
                line.split("  ")[1 if line.startswith("  -") else 2] for line in self.help(command).splitlines()
                if re.match(r"  +-", line))))
            known |= set(re.findall(r"(?m)^ +(?:-[a-z], )?(--[a-z]+)", self.help(command)))
            written = {option for line in self.sections[command].splitlines() if line.startswith(".It Fl")
                       for option in options_in(line)}
            self.assertEqual(known - COMMON, written, command)

    def test_every_option_is_in_the_synopsis(self):
        synopsis = self.page.split("\n.Sh SYNOPSIS\n")[1].split("\n.Sh ")[0]
        shown = {}
        for usage in synopsis.split(".Nm\n")[1:]:
            for command in re.findall(r"[a-z]+", usage.split("\n")[0].replace(".Cm ", "")):
                shown.setdefault(command, set()).update(options_in(usage))
        for command in self.commands():
            usage = self.help(command).split("\n\n")[0]
            in_help = set(re.findall(r"(?<![\w-])--?[a-z]+\b", "\n".join(
                line for line in usage.splitlines() if "sockfuse " in line)))
            self.assertEqual(in_help, shown[command], command)

    def test_the_exit_statuses_of_run_are_those_of_its_help(self):
        for status in ("125", "126", "127"):
            self.assertIn(status, self.help("run"))
            self.assertRegex(self.page, rf"(?m)^\.It {status}$")

    def test_every_column_of_the_status_is_explained(self):
        columns = re.findall(r"_columns\[\] = \{(.*?)\};", read("src/cli/status.c") + read("src/view/circuits_text.c"),
                             re.S)
        names = re.findall(r'"([A-Z0-9/ ]+)"', "".join(columns))
        self.assertIn("REFUSED", names)
        written = set(re.findall(r"(?m)^\.It ([A-Z0-9/ ]+)$", self.sections["status"]))
        self.assertEqual(written, set(names) - {"TARGET", "DESTINATION"})

    def test_every_column_of_the_calls_is_explained(self):
        columns = re.search(r"call_columns\[\] = \{(.*?)\};", read("src/view/calls_output.c"), re.S)[1]
        written = re.findall(r"(?m)^\.It ([A-Z ]+)$", self.sections["calls"])
        self.assertEqual(written, re.findall(r'"([A-Z ]+)"', columns))

    def test_every_member_of_the_json_is_named(self):
        page = self.page.split("\n.Sh JSON\n")[1].split("\n.Sh ")[0]
        words = set(re.findall(r"\w+", page))
        writers = ("view/status_json", "view/calls_output", "view/cascade_export", "view/explanation_json",
                   "cli/replayed_json")
        status = "".join(read(f"src/{file}.c") for file in writers)
        members = set(re.findall(r'json_\w+\(&?json, "(\w+)"', status))
        members |= set(re.findall(r'write_\w+\(json, "(\w+)"', status))
        members |= set(re.findall(r'\{"(\w+)", COUNT_', status))
        event = read("src/segment/event_json.c")
        members |= set(re.findall(r'add_\w+\(&?text, "(\w+)"', event)) | set(re.findall(r'\\"(\w+)\\":', event))
        self.assertIn("probes_failed", members)
        self.assertIn("served_by", members)
        self.assertIn("overdue", members)
        self.assertEqual(members - words, set())


class Environment(unittest.TestCase):
    def read_by(self, *folders):
        return set(re.findall(r'\b(?:secure_getenv|getenv|environment|make_absolute)\("(\w+)"\)', sources(*folders)))

    def written_in(self, *pages):
        return {name for page in pages for line in re.findall(r"(?m)^\.It Ev (.*)$", read(f"src/man/{page}"))
                for name in re.findall(r"\w+", line)}

    def test_every_variable_that_the_library_reads_is_in_its_page(self):
        self.assertEqual(self.read_by("preload", "policy", "segment"), self.written_in("libsockfuse.7"))

    def test_every_variable_that_the_commands_read_is_in_the_manual(self):
        known = self.read_by("cli", "policy", "segment")
        self.assertIn("NO_COLOR", known | self.written_in("sockfuse.1"))
        self.assertEqual(known - self.written_in("sockfuse.1", "libsockfuse.7"), set())

    def test_every_variable_in_the_manual_is_read_by_somebody(self):
        everything = sources("preload", "policy", "segment", "cli")
        for name in self.written_in("sockfuse.1", "libsockfuse.7"):
            self.assertTrue(f'"{name}"' in everything, name)


class Examples(unittest.TestCase):
    """Policies in the manual and the README are good, and nothing in them is to be warned of."""

    def check(self, texts):
        sandbox = Sandbox(self)
        self.assertTrue(texts)
        for text in texts:
            sandbox.policy(text)
            result = sandbox.run([SOCKFUSE, "check", sandbox.policy_path], BARE)
            self.assertEqual((result.status, result.stderr), (0, ""), text)

    def test_policies_in_the_manual(self):
        blocks = re.findall(r"(?ms)^\.Bd -literal.*?\n(.*?)^\.Ed$", read("src/man/sockfuse.policy.5"))
        self.check([block for block in blocks if block.startswith("[")])

    def test_policies_in_the_readme(self):
        self.check(re.findall(r"(?ms)^```ini\n(.*?)^```$", read("README.md")))

    def test_commands_in_the_manual_and_the_readme_exist(self):
        known = re.findall(r"(?m)^  ([a-z]+) {2,}\S", Sandbox(self).run([SOCKFUSE, "-h"], BARE).stdout) + ["help"]
        shown = "\n".join(re.findall(r"(?ms)^```sh\n(.*?)^```$", read("README.md")))
        shown += "".join(re.sub(r"(?m)^\.Dl ", "", read(page)) for page in PAGES)
        commands = re.findall(r"(?m)^(?:[$#] )?(?:build/)?sockfuse ([a-z]+)", shown)
        self.assertIn("check", commands)
        self.assertEqual(set(commands) - set(known), set())


class Completion(unittest.TestCase):
    """What bash offers behind some words."""

    def offered(self, *words):
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_sockfuse "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"; printf "%s\\n" "${COMPREPLY[@]}"')
        result = Sandbox(self).run(["bash", "--norc", "-c", script, "bash", ROOT / "src/completion/sockfuse.bash",
                                    SOCKFUSE, *words], BARE)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_commands(self):
        self.assertEqual(self.offered("st"), ["status"])
        self.assertEqual(self.offered("help", "ev"), ["events"])
        self.assertIn("run", self.offered(""))

    def test_options_of_a_command(self):
        self.assertEqual(set(self.offered("check", "--")) - COMMON, {"--verbose", "--match", "--for"})
        self.assertEqual(self.offered("events", "--s"), ["--since"])

    def test_keys_behind_o(self):
        self.assertEqual(self.offered("run", "-o", "reset_"), ["reset_timeout=", "reset_timeout_max="])
        self.assertNotIn("match=", self.offered("run", "-o", "m"))
        self.assertEqual(self.offered("report", "-o", str(ROOT / "READ")), [str(ROOT / "README.md")], "a file")

    def test_programs_and_their_own_words(self):
        self.assertIn("curl", self.offered("run", "-p", "x.policy", "-o", "jitter", "=", "5%", "cur"))
        self.assertIn("curl", self.offered("check", "--for", "cur"))
        self.assertIn("/etc/passwd", self.offered("run", "curl", "/etc/passw"))
        self.assertIn("/etc/passwd", self.offered("run", "--", "curl", "/etc/passw"))

    def test_orders_of_top(self):
        self.assertEqual(self.offered("top", "--sort", "w"), ["worst", "waiting"])
        self.assertEqual(len(self.offered("top", "--sort", "")), 8)

    def test_files(self):
        self.assertEqual(self.offered("check", str(ROOT / "policies/redi")), [str(ROOT / "policies/redis.policy")])


class Pages(unittest.TestCase):
    def test_the_pages_are_good_mdoc(self):
        self.assertEqual(len(PAGES), 4)
        result = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *PAGES], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_lines_stay_within_120_columns(self):
        for path in PAGES:
            for number, line in enumerate(read(path).splitlines(), 1):
                self.assertLessEqual(len(line), 120, f"{path}:{number}")

    def test_references_between_the_pages_lead_somewhere(self):
        own = {os.path.basename(path) for path in PAGES}
        for path in PAGES:
            for name, section in re.findall(r"\bXr (\S*sockfuse\S*) (\d)", read(path)):
                self.assertIn(f"{name}.{section}", own, path)

    def make(self, *words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        subprocess.run(["make", "-s", f"BUILD={BUILD}", *words], cwd=ROOT, check=True, env=environment,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def test_they_are_installed_and_removed_with_the_rest(self):
        with tempfile.TemporaryDirectory(prefix="sf-") as folder:
            # Only what is installed is looked at: a build that is newer than its sources is not built again here.
            self.make("install", f"DESTDIR={folder}", "PREFIX=/usr", "-o", "all")
            found = {os.path.relpath(os.path.join(place, name), folder)
                     for place, _, names in os.walk(folder) for name in names}
            for path in PAGES:
                name = os.path.basename(path)
                self.assertIn(f"usr/share/man/man{name[-1]}/{name}", found)
            for path in glob.glob(str(ROOT / "policies/*.policy")):
                self.assertIn(f"usr/share/sockfuse/policies/{os.path.basename(path)}", found)
            for name in "alerts.yml", "grafana-dashboard.json":
                self.assertIn(f"usr/share/sockfuse/metrics/{name}", found)
            self.assertIn("usr/bin/sockfuse", found)
            for whose in "system", "user":
                self.assertIn(f"usr/lib/systemd/{whose}/sockfuse-agent.service", found)
            self.assertIn("usr/share/sockfuse/report.html", found)
            self.assertIn("usr/share/bash-completion/completions/sockfuse", found)
            self.make("uninstall", f"DESTDIR={folder}", "PREFIX=/usr")
            self.assertEqual([names for _, _, names in os.walk(folder) if names], [])


if __name__ == "__main__":
    unittest.main()
