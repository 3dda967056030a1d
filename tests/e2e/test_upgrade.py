"""`make install` of a build with another layout over the one that programs run: each build has circuits of its own, whoever
runs goes on under the old library, whoever starts is guarded by the new one, and each command says what it can't show.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (BUILD, CLIENTS, PYTHON, ROOT, Sandbox, Server, Session, answer_http, build_of_layout,  # noqa: E402
                      eventually, present_layout)

COMMAND = "command"  # what stands there is the whole command line


class Layouts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.present = present_layout()
        cls.folder = tempfile.mkdtemp(prefix="sf-layouts-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.builds = {cls.present: str(BUILD), cls.present + 1: build_of_layout(cls.folder, cls.present + 1)}

    def setUp(self):
        self.sandbox = Sandbox(self)
        self.server = Server(answer_http)
        self.addCleanup(self.server.stop)
        self.sandbox.guard(self.server, failure_threshold=2, reset_timeout="10m", reset_timeout_max="10m")
        self.prefix = os.path.join(self.sandbox.folder, "prefix")
        self.library = os.path.join(self.prefix, "lib/sockfuse/libsockfuse.so")

    def install(self, layout):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        build = self.builds[layout]
        # The command of either build is one that knows this prefix, for it lies beside its library.
        subprocess.run(["make", "-s", f"BUILD={build}", f"PREFIX={self.prefix}", "-o", "all", "install"], cwd=ROOT,
                       check=True, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def session(self):
        """A program that calls when it is told to, under the library that is installed then."""
        return Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"], COMMAND,
                       {"LD_PRELOAD": self.library, "SOCKFUSE_POLICY": self.sandbox.policy_path})

    def call(self, session, times=1):
        return [session.ask(url=self.server.url, timeout=20)["status"] for _ in range(times)]

    def sockfuse(self, layout, *words):
        return self.sandbox.run([os.path.join(self.builds[layout], "sockfuse"), *words], COMMAND)

    def shown(self, layout):
        """What that build's `status --json` has: the policy of its own layout, and the one of the other."""
        policies = json.loads(self.sockfuse(layout, "status", "--json").stdout)
        own = [policy for policy in policies if "layout" not in policy]
        others = [policy for policy in policies if "layout" in policy]
        return (own[0] if own else None), (others[0] if others else None)

    def check_upgrade(self, old, new):
        self.install(old)
        running = self.session()
        self.assertEqual(self.call(running, 2), [200, 200])
        before = self.shown(old)[0]["segment"]
        self.install(new)
        self.assertEqual(self.call(running), [200])
        started = self.session()
        self.assertEqual(self.call(started), [200])

        # Each is guarded, by its own circuit.
        (of_old, _), (of_new, other) = self.shown(old), self.shown(new)
        self.assertEqual(of_old["segment"], before, "it was not replaced")
        self.assertNotEqual(of_new["segment"], before)
        for policy, session, succeeded in ((of_old, running, 3), (of_new, started, 1)):
            self.assertEqual([process["pid"] for process in policy["processes"]], [session.pid])
            self.assertEqual([circuit["counters"]["succeeded"] for circuit in policy["circuits"]], [succeeded])
        self.server.down()
        self.assertEqual(self.call(running, 4), [None] * 4)
        self.assertEqual(self.call(started), [None], "its own circuit is closed, and it asks for itself")
        counts = [policy["circuits"][0]["counters"] for policy in (self.shown(old)[0], self.shown(new)[0])]
        self.assertEqual([(count["failed"], count["refused"]) for count in counts], [(2, 2), (1, 0)])
        self.assertEqual(self.call(started, 2), [None] * 2)
        self.assertEqual(self.shown(new)[0]["circuits"][0]["state"], "open")

        # Of the other one's, whom to start anew.
        self.assertEqual((other["segment"], other["layout"], other["policy"]), (before, old, self.sandbox.policy_path))
        self.assertEqual([process["pid"] for process in other["processes"]], [running.pid])
        text = self.sockfuse(new, "status")
        self.assertEqual(text.status, 1)
        self.assertIn(f"{self.server.destination}", text.stdout)
        self.assertRegex(text.stdout, rf"an? (older|newer) build \(layout {old}; this one has {new}\), which can't be read "
                                      rf"here; start it anew to bring it under this build: {running.pid} \(python3\)")
        self.sockfuse(new, "forget", "--ended")
        self.assertTrue(os.path.exists(before), "somebody is in it")
        return running, started, before

    def test_who_runs_and_who_starts_are_both_guarded_and_the_old_circuits_go_with_their_last_program(self):
        running, started, before = self.check_upgrade(self.present, self.present + 1)
        self.assertEqual((running.close(), started.process.poll()), (0, None))
        forgotten = self.sockfuse(self.present + 1, "forget", "--ended")
        self.assertEqual((forgotten.stderr, forgotten.status), ("", 0))
        self.assertIn("circuits of another build", forgotten.stdout)
        self.assertFalse(os.path.exists(before))
        self.assertEqual(self.call(started), [None])
        self.assertEqual(self.sockfuse(self.present + 1, "status").status, 0)
        self.assertEqual(started.close(), 0)

    def test_the_way_back_is_the_same(self):
        running, started, _ = self.check_upgrade(self.present + 1, self.present)
        self.assertEqual((running.close(), started.close()), (0, 0))
        self.assertEqual(self.sockfuse(self.present, "forget", "-p", self.sandbox.policy_path).status, 0)
        self.assertEqual(glob.glob(self.sandbox.state + "/*.segment"), [], "either build's")

    @unittest.skipUnless((BUILD / "sockfuse-agent").exists(), "there is no agent here")
    def test_an_agent_of_either_build_keeps_to_its_own_circuits(self):
        self.install(self.present)
        running = self.session()
        self.assertEqual(self.call(running), [200])
        self.install(self.present + 1)
        started = self.session()
        self.assertEqual(self.call(started), [200])
        for layout, session in ((self.present, running), (self.present + 1, started)):
            said = os.path.join(self.sandbox.folder, f"agent.{layout}")
            with open(said, "wb") as file:
                agent = self.sandbox.popen([os.path.join(self.builds[layout], "sockfuse"), "agent", "-o",
                                            "look_every=20ms"], COMMAND, stderr=file)

            def heard(path=said):
                with open(path, encoding="utf-8") as file:
                    return file.read()
            self.assertTrue(eventually(lambda: "watches" in heard() or agent.poll() is not None, 60), heard())
            own, other = self.shown(layout)
            self.assertEqual((own["processes"][0]["pid"], other["processes"][0]["pid"] != session.pid),
                             (session.pid, True))
            agent.send_signal(signal.SIGTERM)
            self.assertEqual(agent.wait(60), 0, heard())
            self.assertEqual(len(re.findall("watches", heard())), 1, heard())
        self.assertEqual((self.call(running), self.call(started)), ([200], [200]))
        self.assertEqual((running.close(), started.close()), (0, 0))


if __name__ == "__main__":
    unittest.main()
