"""Root's agent among users, one of whom is hostile: it goes on, and sweeps for all."""
import os
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import CLIENTS, PYTHON, SOCKFUSE, eventually  # noqa: E402
from test_agent import FAST  # noqa: E402
from test_everybody import DESTINATION, Users  # noqa: E402

# Another build of the agent to try, with a sanitizer in it.
AGENT = os.environ.get("SOCKFUSE_AGENT")
SEED = int(os.environ.get("SEED", "1"))
SECONDS = 4


class AmongUsers(Users):
    def setUp(self):
        super().setUp()
        self.uid = self.user()
        self.start(self.uid)
        self.start(self.uid, "-t", DESTINATION)
        (self.folder,) = {os.path.dirname(policy["segment"]) for policy in self.of(self.uid)}
        for end in ".pristine", ".away":
            self.addCleanup(shutil.rmtree, self.folder + end, ignore_errors=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=True)
        self.said = os.path.join(self.sandbox.folder, "agent.said")
        self.trace = os.path.join(self.sandbox.folder, "trace")

    def agent(self, *words):
        argv = [AGENT] if AGENT else [SOCKFUSE, "agent"]
        with open(self.said, "ab") as said:
            process = self.sandbox.popen([*argv, "--user", str(self.uid), *FAST, *words], how="command",
                                         env={"SOCKFUSE_STATE": None}, stderr=said)
        self.assertTrue(eventually(lambda: "watches 2 policies" in self.says(), 60), self.says())
        return process

    def says(self):
        with open(self.said, encoding="utf-8") as file:
            return file.read()

    def test_it_goes_on_whatever_is_scribbled_exchanged_and_cut(self):
        agent = self.agent()
        os.rename(self.folder, self.folder + ".pristine")
        others = os.path.join(self.sandbox.folder, "others")
        os.mkdir(others, 0o755)
        with open(os.path.join(others, "x.segment"), "w", encoding="utf-8") as file:
            file.write("root's")
        os.chmod(file.name, 0o600)
        script = shutil.copy(CLIENTS / "scribbler.py", self.sandbox.folder)
        hostile = [subprocess.Popen([PYTHON, script, self.folder, str(SEED), others, how], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, user=self.uid, group=self.uid,
                                    extra_groups=[]) for how in ("files", "map", "map")]
        for process in hostile:
            self.assertEqual(process.stdout.readline(), b"begun\n")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            self.assertIsNone(agent.poll(), self.says()[-3000:])
            time.sleep(0.05)
        for process in hostile:
            process.stdin.close()
            process.wait(60)
            process.stdout.close()
            process.stderr.close()
        with open(file.name, encoding="utf-8") as file:
            self.assertEqual(file.read(), "root's")
        subprocess.run(["rm", "-rf", self.folder], check=True)
        os.rename(self.folder + ".pristine", self.folder)
        agent.terminate()
        self.assertEqual(agent.wait(60), 0, self.says()[-3000:])
        self.assertNotRegex(self.says(), "[\x00-\x09\x0b-\x1f\x7f-\x9f]")


if __name__ == "__main__":
    unittest.main()
