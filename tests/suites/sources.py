"""Projects whose tests are in their sources alone: Debian's, by apt-get source, built below $BUILD/suites."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

from compare import BUILD

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
        self.program = self.folder / "build" / program

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
        return {name.decode(): "failed" if b"FAILED]" in text else "skipped" if b"SKIPPED" in text else
                "ok" if re.search(rb"\bOK\s", text) else "failed" for name, text in zip(pieces[1::2], pieces[2::2])}

    CHOSEN = ["main/..", "bufferevent/..", "http/..", "listener/..", "rpc/..", "dns/..", "ssl/..", "et/..",
              "finalize/..", "signal/..", "thread/.."]


ALL = [
    Libuv("libuv", "libuv1", ["uv_run_tests_a"], "uv_run_tests_a"),
    Libevent("libevent", "libevent", ["regress"], "bin/regress"),
]
