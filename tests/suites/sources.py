"""Projects whose tests are in their sources alone: Debian's, by apt-get source, built below $BUILD/suites."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from fixtures.build import BUILD  # noqa: E402

PLACE = BUILD / "suites"
TAP = re.compile(rb"^(not )?ok \d+ - (\S+)(.*)$", re.MULTILINE)


def fetch(package, folder):
    """Unpacks a package's sources there. Lists and sources are of this call: nothing of apt-get's own changes."""
    sources = subprocess.run(["apt-get", "indextargets", "--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)",
                              "Created-By: Packages", "Label: Debian"], check=True, capture_output=True, text=True)
    with tempfile.TemporaryDirectory(prefix="sf-sources-") as work:
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(work, name))
        with open(os.path.join(work, "sources.list"), "w", encoding="utf-8") as file:
            file.write("\n".join(sorted(set(sources.stdout.splitlines()))) + "\n")
        options = ["-q", *(word for name, value in {
            "Dir::Etc::SourceList": f"{work}/sources.list", "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::lists": f"{work}/lists", "Dir::Cache": f"{work}/cache", "APT::Sandbox::User": "",
            "Acquire::Languages": "none"}.items() for word in ("-o", f"{name}={value}"))]
        for words in (["update"], ["source", package]):
            subprocess.run(["apt-get", *options, *words], cwd=work, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE)
        (unpacked,) = (path for path in glob.glob(f"{work}/*/") if os.path.isdir(os.path.join(path, "debian")))
        shutil.move(unpacked, folder)


class Source:
    """A project that is fetched and built when it is first wanted. `missing` does that, and says what went wrong."""

    def __init__(self, name, package, targets, program, limit=600):
        self.name, self.package, self.targets, self.limit = name, package, targets, limit
        self.folder = PLACE / package
        self.program = self.folder / program

    def missing(self):
        if self.program.exists():
            return None
        try:
            PLACE.mkdir(parents=True, exist_ok=True)
            if not self.folder.exists():
                fetch(self.package, self.folder)
            self.build()
        except (subprocess.CalledProcessError, OSError, ValueError) as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
            return f"{error}{': ' + said[-1] if said else ''}"
        return None if self.program.exists() else f"no {self.program} was built"

    def build(self):
        build = self.folder / "build"
        for words in (["cmake", "-S", self.folder, "-B", build, *self.options], ["cmake", "--build", build, "-j2",
                                                                                  "--target", *self.targets]):
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    options = ()
    workers = 1  # their files and sockets have fixed names


class Libuv(Source):
    """Its tests print TAP; each is a process of its own that starts further ones."""

    options = ("-DLIBUV_BUILD_TESTS=ON", "-DLIBUV_BUILD_SHARED=OFF")

    def run(self, run, names=None):
        for words in [[name] for name in names] if names else [[]]:
            run.execute([self.program, *words], self.folder, {"UV_RUN_AS_ROOT": "1"})
        with open(run.output, "rb") as file:
            output = file.read()
        # One test alone prints no number, and nothing when it is well.
        if names:
            return {name: "failed" if self.failed(output, name) else "ok" for name in names}
        return {match[2].decode(): "failed" if match[1] else "skipped" if b"SKIP" in match[3].upper() else "ok"
                for match in TAP.finditer(output)}

    @staticmethod
    def failed(output, name):
        return re.search(rb"not ok \d+ - " + name.encode() + rb"\b", output) is not None


class Libevent(Source):
    """Its tests run in a process each, and print a line each."""

    options = ("-DEVENT__LIBRARY_TYPE=STATIC", "-DEVENT__DISABLE_BENCHMARK=ON",
               "-DEVENT__DISABLE_SAMPLES=ON", "-DEVENT__DISABLE_MBEDTLS=ON")

    def run(self, run, names=None):
        run.execute([self.program, *(names or self.CHOSEN)])
        with open(run.output, "rb") as file:
            output = file.read()
        # Behind a name stands what the test says, on lines of its own too, and then how it ended.
        pieces = re.split(rb"(?m)^([a-z]\S*/\S+): ", output)
        return {name.decode(): "failed" if b"FAILED]" in text else
                "skipped" if re.search(rb"SKIPPED|DISABLED", text) else
                "ok" if re.search(rb"\bOK\s", text) else "failed" for name, text in zip(pieces[1::2], pieces[2::2])}

    CHOSEN = ["main/..", "bufferevent/..", "http/..", "listener/..", "rpc/..", "dns/..", "ssl/..", "et/..",
              "finalize/..", "signal/..", "thread/.."]


class Curl(Source):
    """Its tests of the command: each starts what it needs of their servers, and compares what both sides said."""

    options = ("-DCURL_ENABLE_SSL=OFF", "-DBUILD_SHARED_LIBS=OFF", "-DCURL_DISABLE_LDAP=ON", "-DENABLE_MANUAL=OFF",
               "-DCURL_USE_LIBSSH2=OFF", "-DUSE_LIBIDN2=OFF", "-DBUILD_TESTING=ON")
    # HTTP; FTP, with its second connections; SOCKS 4 and 5; IMAP and POP3; SMTP.
    CHOSEN = [*range(1, 71), *range(100, 151), *range(700, 707), 717, 718, *range(800, 807), *range(850, 857),
              *range(900, 921)]

    def run(self, run, names=None):
        numbers = [name.split()[0] for name in names] if names else self.CHOSEN
        run.execute(["perl", self.folder / "tests" / "runtests.pl", "-a", "-n", *numbers],
                    self.folder / "build" / "tests")
        with open(run.output, encoding="utf-8", errors="replace") as file:
            pieces = re.split(r"^test (\d+)", file.read(), flags=re.MULTILINE)[1:]
        return dict(self.result(number, text) for number, text in zip(pieces[::2], pieces[1::2]))

    @staticmethod
    def result(number, text):
        """A test's name, and how it ended. One whose server did not start was not merely left out."""
        title = re.match(r"\.\.\.\[(.*)\]", text)
        skipped = re.match(r" SKIPPED: (?!failed starting)", text)
        passed = re.search(r"^\S+ OK \(", text, re.MULTILINE)
        return (f"{int(number)} {title[1] if title else ''}".rstrip(),
                "ok" if passed else "skipped" if skipped else "failed")


class Redis(Source):
    """Its tests, in Tcl, start servers, replicas and clients. They are named by their unit and what they say."""

    UNITS = ["unit/auth", "unit/protocol", "unit/networking", "unit/introspection", "unit/limits", "unit/pubsub",
             "unit/tracking", "unit/wait", "unit/pause", "integration/replication-2", "integration/replication-3",
             "integration/replication-4", "integration/replication-buffer", "integration/redis-benchmark",
             "integration/redis-cli"]

    def build(self):
        subprocess.run(["make", "-j2", "-C", self.folder / "src", "MALLOC=libc", "USE_SYSTEMD=no", *self.targets],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run(self, run, names=None):
        units = sorted({name.split(":")[0] for name in names}) if names else self.UNITS
        # One after another, so that the line "Testing" tells whose results follow; and to the end of each.
        run.execute([self.folder / "runtest", "--clients", "1", "--durable", "--no-latency",
                     *(word for unit in units for word in ("--single", unit))], self.folder)
        with open(run.output, encoding="utf-8", errors="replace") as file:
            said = re.sub(r"\x1b\[[0-9;]*m", "", file.read())
        results, unit = {}, ""
        for match in self.LINE.finditer(said):
            if match["unit"]:
                unit = match["unit"]
                continue
            name = f"{unit}: {match['name']}"
            if results.get(name) != "failed":
                results[name] = {"ok": "ok", "err": "failed"}.get(match["result"], "skipped")
        return results

    # What passed says how long it took, what failed says where it stands.
    LINE = re.compile(r"^(?:Testing (?P<unit>\S+/\S+)|\[(?P<result>ok|err|skip|ignore)\]: "
                      r"(?P<name>.*?)(?: \(\d+ ms\)| in tests/\S+\.tcl)?)$", re.MULTILINE)


ALL = [
    Libuv("libuv", "libuv1", ["uv_run_tests_a"], "build/uv_run_tests_a"),
    Libevent("libevent", "libevent", ["regress"], "build/bin/regress"),
    Curl("curl", "curl", ["curl", "disabled", "fake_ntlm", "getpart", "mqttd", "resolve", "rtspd", "sockfilt", "socksd",
                          "sws", "tftpd"], "build/tests/server/tftpd"),
    Redis("redis", "redis", ["redis-server", "redis-cli", "redis-benchmark"], "src/redis-benchmark", 1200),
]
