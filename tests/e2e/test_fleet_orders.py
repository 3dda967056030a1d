"""An operator's word for all hosts of a fleet: `open`, `close` and `auto` with --fleet, each host with an agent of its own."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_fleet  # noqa: E402
from fixtures import ParallelSuite, eventually  # noqa: E402

load_tests = ParallelSuite.load(4)
REFUSED, ANSWERED = "ConnectionRefusedError", "answered"


class Orders(test_fleet.Hosts):
    host_count = 4

    def setUp(self):
        super().setUp()
        self.destination = "unix:" + self.service.path
        for host in self.hosts:
            self.until_linked(host)

    def until_linked(self, host):
        """Its agent has told of a whole round, and so of all hosts that came before."""
        self.assertTrue(eventually(lambda: "Redis: it last answered" in host.fleet_lines(), 40),
                        (host.fleet_lines(), host.says()))

    def say(self, host, *words):
        return host.command(*words, "--fleet", "-p", self.policy, "service")

    def obeyed(self, result, pattern):
        self.assertEqual((result.returncode, result.stderr), (0, ""), result)
        self.assertRegex(result.stdout, pattern)

    def forced(self):
        return [host.status().get("forced") for host in self.hosts]

    def expect_forced(self, expected):
        self.assertTrue(eventually(lambda: self.forced() == expected, 30),
                        (self.forced(), [host.says() for host in self.hosts]))

    def calls(self):
        return [host.call() for host in self.hosts]

    def test_all_hosts_obey_also_those_that_come_later_until_they_are_given_back(self):
        hosts = self.hosts
        self.assertEqual(hosts[0].call(), ANSWERED)
        hosts[3].kill_agent()
        self.obeyed(self.say(hosts[0], "open", "--for", "1h"),
                    r"^unix:\S+ \(service\): forced open in the fleet for 1h; 3 of 4 hosts obey by now, the others when")
        # Those too that have never called it.
        self.assertEqual([host.call() for host in hosts[:3]], [REFUSED] * 3)
        self.assertEqual(self.service.calls, 1)
        # One that was away learns of it.
        hosts[3].start_agent()
        self.expect_forced(["open"] * 4)
        self.assertEqual(hosts[3].call(), REFUSED)
        event = [event for event in hosts[2].events() if event["event"] == "forced"][-1]
        self.assertEqual((event["forced"], event["hosts"]), ("open", "web-0"), event)
        self.assertLessEqual(event["for_ms"], 3600 * 1000)
        self.assertIn(f": forced open by {event['user']} at web-0, for the fleet", hosts[2].fleet_lines())
        self.assertEqual(hosts[2].status()["fleet"]["forced_by"], {"user": event["user"], "host": "web-0"})
        told = " ".join(hosts[2].command("explain", "-p", self.policy, "service").stdout.split())
        self.assertIn(f"{event['user']} at web-0 forced it open", told)
        told = hosts[2].command("events", "-p", self.policy).stdout
        self.assertIn(f", by {event['user']} at web-0 (fleet)", told)
        # Who says otherwise on his own host has his way there, also with the next agent.
        self.assertEqual(hosts[1].command("auto", "-p", self.policy, "service").returncode, 0)
        for host in hosts[1:3]:
            host.kill_agent()
            self.assertEqual(host.call(), ANSWERED if host is hosts[1] else REFUSED)
            host.start_agent()
            self.assertTrue(eventually(lambda host=host: host.says().count("watches") == 2, 40), host.says())
        # Redis forgets, and is told again.
        self.cli("flushall")
        self.assertTrue(eventually(lambda: ":words" in self.cli("--scan"), 30))
        self.expect_forced(["open", None, "open", "open"])
        for host in hosts:
            self.assertTrue(eventually(lambda host=host: "fleet: 4 hosts; " in host.fleet_lines(), 40), host.fleet_lines())
        self.obeyed(self.say(hosts[2], "auto"), r": given back in the fleet; 4 of 4 hosts obey$")
        self.expect_forced([None] * 4)
        self.assertEqual(self.calls(), [ANSWERED] * 4)
        for key in self.cli("--scan", "--pattern", "*words").splitlines():
            self.assertGreater(int(self.cli("pttl", key)), 0)

    def test_a_word_ends_by_itself_on_all_hosts_and_another_one_goes_before_it(self):
        self.service.down()
        self.obeyed(self.say(self.hosts[1], "close"), ": forced closed in the fleet; 4 of 4 hosts obey$")
        # Whatever fails: no host opens, and none votes.
        for host in self.hosts:
            self.assertEqual([host.call() for _ in range(4)], [REFUSED] * 4)
        self.assertEqual([host.status()["state"] for host in self.hosts], ["closed"] * 4)
        self.assertNotIn(":votes:", self.cli("--scan"))
        self.service.up()
        self.obeyed(self.say(self.hosts[2], "open", "--for", "2s"), "; 4 of 4 hosts obey$")
        self.expect_forced([None] * 4)
        self.assertEqual(self.calls(), [ANSWERED] * 4)

    def test_what_can_not_be_said_is_not_said_and_nothing_changes(self):
        host = self.hosts[0]
        def fails(pattern):
            result = self.say(host, "open")
            self.assertEqual((result.returncode, result.stdout), (1, ""), result)
            self.assertRegex(" ".join(result.stderr.split()), f"not said to the fleet: {pattern}; nothing was changed; without "
                                                              "--fleet this host alone obeys")
        other = os.path.join(self.folder, "other.policy")
        self.write(other, f"[here]\nmatch = {self.destination}\n")
        result = host.command("open", "--fleet", "-p", other, "here")
        self.assertEqual(result.returncode, 1)
        self.assertIn("its target is in no fleet", result.stderr)
        # A Redis full of rubbish.
        now = int(self.cli("time").split()[0])
        fleet = self.cli("--scan", "--pattern", "*:hosts").strip()[:-len("hosts")]
        for i, value in enumerate(("x" * 5000, "", "0 0 0 o h u", "0123456789abcdef 1 99999999999999999999 o h u",
                                   f"0123456789abcdef 1 {now * 2000} o \x1b[31mh \x1b[31mu\xff", f"fedcba9876543210 1 {now} o h u")):
            self.cli("set", f"{fleet}word:service\nunix:/{i}", value)
            self.cli("zadd", fleet + "words", str(now * 1000 + 900000), f"service\nunix:/{i}")
        self.cli("zadd", fleet + "words", str(now * 1000 + 900000), "nothing", str(now * 1000 + 900001), "\x1b[31m\n\x1b[31m")
        self.obeyed(self.say(host, "auto"), "; 4 of 4 hosts obey$")
        self.assertNotIn("\x1b", host.command("status", "-p", self.policy).stdout)
        self.assertNotIn("\x1b", host.command("events", "-p", self.policy).stdout)
        self.redis.stop()
        self.assertTrue(eventually(lambda: "Redis can't be spoken to" in host.fleet_lines(), 40), host.fleet_lines())
        fails("the agent can't speak to the fleet's Redis.*")
        host.kill_agent()
        self.assertTrue(eventually(lambda: "no agent has told of it" in host.fleet_lines(), 40), host.fleet_lines())
        fails(r"no agent looks after it on this host \(start one: sockfuse agent\)")
        self.assertEqual(self.calls(), [ANSWERED] * 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
