"""Names: which patterns take which destination, and what a circuit makes of names whose addresses change or are shared.

Each test has a network namespace with its own hosts file and, where it is asked for, its own name server.
"""
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixtures import (ANSWER, BARE, CLIENTS, PRELOAD, PYTHON, RUN, NameServer, Namespace, ParallelSuite,  # noqa: E402
                      Sandbox, Server, Session, answer_http, eventually, reset_after_request)

load_tests = ParallelSuite.load(6)
HOSTS = ["127.0.0.1 localhost", "127.0.0.2 a.example.com", "127.0.0.3 b.example.com", "127.0.0.4 x.y.example.com",
         "127.0.0.5 example.com", "127.0.0.6 anexample.com", "127.0.0.7 one.test other.test", "::1 six.test"]
OLD, NEW = ["127.0.0.2 moving.test"], ["127.0.0.3 moving.test"]


class Names(unittest.TestCase):
    def start(self, hosts=HOSTS, clock=False, resolver=None):
        self.sandbox = Sandbox(self, clock=clock)
        self.space = Namespace(self.sandbox.folder, hosts, resolver=resolver)
        self.addCleanup(self.space.close)
        self.sandbox.namespace = self.space

    def serve(self, address, port=0, behaviour=answer_http, **keys):
        server = Server(behaviour, address=address, port=port, namespace=self.space, **keys)
        self.addCleanup(server.stop)
        return server

    def target(self, name, match, **keys):
        lines = [f"[{name}]", f"match = {match}", *(f"{key} = {value}" for key, value in keys.items())]
        self.sandbox.policy("\n".join(lines) + "\n")

    def get(self, host, port, how=RUN, *words):
        return self.sandbox.run(["curl", "-sS", "-m", "20", *words, f"http://{host}:{port}/"], how)

    def destinations(self):
        """Calls by destination."""
        return {circuit["destination"]: circuit["counters"]["admitted"] for circuit in self.sandbox.circuits()
                if circuit["counters"]["admitted"]}


class Patterns(Names):
    def test_a_star_takes_every_name_below_and_not_the_domain_itself(self):
        self.start()
        port = self.serve("127.0.0.2").port
        for address in ("127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"):
            self.serve(address, port)
        self.target("web", f"*.example.com:{port}")
        for name in ("a", "b", "x.y"):
            self.assertEqual(self.get(f"{name}.example.com", port).stdout, ANSWER.decode())
        for name in ("example.com", "anexample.com"):
            self.assertEqual(self.get(name, port).stdout, ANSWER.decode())
        self.assertEqual(self.destinations(), {f"{name}.example.com:{port}": 1 for name in ("a", "b", "x.y")})

    def test_each_name_below_a_star_has_a_circuit_of_its_own(self):
        self.start()
        bad = self.serve("127.0.0.2", behaviour=reset_after_request)
        self.serve("127.0.0.3", bad.port)
        self.target("web", f"*.example.com:{bad.port}", failure_threshold=1)
        self.get("a.example.com", bad.port)
        self.assertEqual(self.get("b.example.com", bad.port).stdout, ANSWER.decode())
        self.assertEqual(self.get("a.example.com", bad.port).status, 7)
        self.assertEqual(bad.connections, 1)

    def test_one_circuit_for_the_whole_section_where_it_says_so(self):
        self.start()
        bad = self.serve("127.0.0.2", behaviour=reset_after_request)
        good = self.serve("127.0.0.3", bad.port)
        self.target("web", f"*.example.com:{bad.port}", failure_threshold=1, circuit="target")
        self.get("a.example.com", bad.port)
        self.assertEqual(self.get("b.example.com", bad.port).status, 7)
        self.assertEqual((good.connections, self.destinations()), (0, {"web": 1}))

    def test_case_does_not_matter(self):
        self.start()
        port = self.serve("127.0.0.2").port
        self.target("web", f"A.Example.Com:{port}")
        for name in ("a.example.com", "A.EXAMPLE.com", "A.example.COM"):
            self.assertEqual(self.get(name, port).stdout, ANSWER.decode())
        self.assertEqual(self.destinations(), {f"a.example.com:{port}": 3})

    def test_a_port_may_be_named_by_its_service(self):
        self.start()
        self.serve("127.0.0.2", 80)
        self.serve("127.0.0.2", 8080)
        self.target("web", "a.example.com:http")
        self.get("a.example.com", 80)
        self.get("a.example.com", 8080)
        self.assertEqual(self.destinations(), {"a.example.com:80": 1})

    def test_a_range_of_ports_includes_both_ends_and_each_port_has_its_circuit(self):
        self.start()
        for port in (7999, 8000, 8042, 8099, 8100):
            self.serve("127.0.0.2", port)
        self.target("web", "a.example.com:8000-8099")
        for port in (7999, 8000, 8042, 8099, 8100):
            self.assertEqual(self.get("a.example.com", port).stdout, ANSWER.decode())
        self.assertEqual(self.destinations(), {f"a.example.com:{port}": 1 for port in (8000, 8042, 8099)})

    def test_any_port_and_networks_and_ipv6(self):
        self.start()
        port = self.serve("127.0.0.2").port
        self.serve("127.0.0.7", port)
        self.serve("::1", port, family=socket.AF_INET6)
        self.target("all", "127.0.0.0/30:* [::1]:*")
        for host in ("127.0.0.2", "127.0.0.7", "[::1]"):
            self.assertEqual(self.get(host, port).stdout, ANSWER.decode())
        self.assertEqual(self.destinations(), {f"127.0.0.2:{port}": 1, f"[::1]:{port}": 1})

    def test_the_first_section_that_matches_wins_by_name_or_by_address(self):
        self.start()
        port = self.serve("127.0.0.2").port
        self.sandbox.policy(f"[net]\nmatch = 127.0.0.0/8:{port}\n[name]\nmatch = a.example.com:{port}\n")
        self.get("a.example.com", port)
        self.assertEqual(self.destinations(), {f"127.0.0.2:{port}": 1})
        self.sandbox.policy(f"[name]\nmatch = a.example.com:{port}\n[net]\nmatch = 127.0.0.0/8:{port}\n")
        self.get("a.example.com", port)
        self.assertEqual(self.destinations()[f"a.example.com:{port}"], 1)


class Shared(Names):
    """Two names on one address."""

    def test_each_name_has_its_circuit_although_the_address_is_the_same(self):
        self.start()
        server = self.serve("127.0.0.7", behaviour=reset_after_request)
        self.target("web", f"one.test:{server.port} other.test:{server.port}", failure_threshold=2)
        self.get("one.test", server.port)
        self.get("one.test", server.port)
        self.assertEqual(self.get("one.test", server.port).status, 7)
        server.behaviour = answer_http
        self.assertEqual(self.get("other.test", server.port).stdout, ANSWER.decode())
        states = {circuit["destination"]: circuit["state"] for circuit in self.sandbox.circuits()}
        self.assertEqual(states, {f"one.test:{server.port}": "open", f"other.test:{server.port}": "closed"})

    def test_the_name_that_was_resolved_last_in_the_process_counts(self):
        self.start()
        server = self.serve("127.0.0.7")
        port = server.port
        self.target("web", f"one.test:{port} other.test:{port}")
        session = Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"])
        for name in ("one", "other", "other", "one", "other"):
            self.assertEqual(session.ask(url=f"http://{name}.test:{port}/", timeout=10)["status"], 200)
        self.assertEqual(self.destinations(), {f"one.test:{port}": 2, f"other.test:{port}": 3})

    def test_where_only_one_of_them_is_named_the_other_one_is_left_alone(self):
        self.start()
        server = self.serve("127.0.0.7")
        self.target("web", f"one.test:{server.port}")
        self.get("other.test", server.port, PRELOAD)
        self.assertEqual(self.destinations(), {})


class Changing(Names):
    """A changed answer of the name service does not reset a circuit."""

    def opened_at_the_old_address(self, call):
        self.start(OLD, clock=True)
        self.old = self.serve("127.0.0.2", behaviour=reset_after_request)
        self.new = self.serve("127.0.0.3", self.old.port)
        self.destination = f"moving.test:{self.old.port}"
        self.target("web", self.destination, failure_threshold=2, reset_timeout="10s", jitter="0%")
        for _ in range(2):
            call()
        self.assertEqual(self.sandbox.circuit(self.destination)["state"], "open")
        self.space.set_hosts(NEW)

    def stays_and_comes_back(self, call, works):
        call()
        circuit = self.sandbox.circuit(self.destination)
        self.assertEqual((circuit["state"], self.new.connections), ("open", 0), circuit)
        self.sandbox.clock.advance_seconds(10)
        self.assertTrue(works(call()))
        circuit = self.sandbox.circuit(self.destination)
        self.assertEqual((circuit["state"], circuit["counters"]["failed"]), ("closed", 2), circuit)
        self.assertEqual(self.new.connections, 1)
        self.assertEqual(len(self.sandbox.circuits()), 1)

    def test_for_processes_that_start_later(self):
        def call():
            return self.get("moving.test", self.old.port)
        self.opened_at_the_old_address(call)
        self.stays_and_comes_back(call, lambda result: result.stdout == ANSWER.decode())

    def test_within_one_process(self):
        session = []

        def call():
            if not session:
                session.append(Session(self.sandbox, [PYTHON, CLIENTS / "urllib_session.py"]))
            return session[0].ask(url=f"http://{self.destination}/", timeout=10)
        self.opened_at_the_old_address(call)
        self.stays_and_comes_back(call, lambda result: result["status"] == 200)

    def test_a_closed_circuit_keeps_its_count(self):
        self.start(OLD)
        old = self.serve("127.0.0.2", behaviour=reset_after_request)
        self.serve("127.0.0.3", old.port, behaviour=reset_after_request)
        self.target("web", f"moving.test:{old.port}", failure_threshold=3)
        self.get("moving.test", old.port)
        self.get("moving.test", old.port)
        self.space.set_hosts(NEW)
        self.get("moving.test", old.port)
        self.assertEqual(self.sandbox.circuit(f"moving.test:{old.port}")["state"], "open")


class Resolvers(Names):
    """How a program comes to an address."""

    def by(self, command):
        self.start()
        server = self.serve("127.0.0.2")
        self.target("web", f"a.example.com:{server.port}")
        result = self.sandbox.run(command(server.port), PRELOAD)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(self.destinations(), {f"a.example.com:{server.port}": 1})

    def python(self, resolve):
        script = ("import socket, sys; host, port = 'a.example.com', int(sys.argv[1])\n"
                  f"address = {resolve}\n"
                  "s = socket.create_connection((address, port)); s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')\n"
                  "assert b'hello' in s.makefile('rb').read()")
        self.by(lambda port: [PYTHON, "-c", script, port])

    def test_getaddrinfo_and_then_the_bare_address(self):
        self.python("socket.getaddrinfo(host, port, socket.AF_INET)[0][4][0]")

    def test_gethostbyname(self):
        self.python("socket.gethostbyname(host)")

    def test_gethostbyname_ex(self):
        self.python("socket.gethostbyname_ex(host)[2][0]")

    def test_perls_gethostbyname(self):
        script = ("use Socket; $a = gethostbyname('a.example.com') or die; socket(S, PF_INET, SOCK_STREAM, 0) or die; "
                  "connect(S, sockaddr_in($ARGV[0], $a)) or die; syswrite S, qq(GET / HTTP/1.0\\r\\n\\r\\n); "
                  "sysread S, $b, 100; die unless $b =~ /200/")
        self.by(lambda port: ["perl", "-e", script, port])

    def test_phps_gethostbyname(self):
        script = ("$s = stream_socket_client('tcp://' . gethostbyname('a.example.com') . ':' . $argv[1]); "
                  "fwrite($s, \"GET / HTTP/1.0\\r\\n\\r\\n\"); exit(strpos(fread($s, 100), '200') ? 0 : 1);")
        self.by(lambda port: ["php", "-r", script, port])

    def test_bash_and_its_dev_tcp(self):
        script = ("exec 3<>/dev/tcp/a.example.com/$0; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; read -r line <&3; "
                  "[[ $line = *200* ]]")
        self.by(lambda port: ["bash", "-c", script, port])


class OwnResolver(Names):
    """Programs with a resolver of their own (c-ares): `run` tells the library what the policy's names mean."""

    def start_with(self, records, match, silent=False, **keys):
        self.start(["127.0.0.1 localhost"], resolver="127.0.0.1")
        self.names = NameServer(self.space, records, silent=silent)
        self.addCleanup(self.names.stop)
        self.server = self.serve("127.0.0.2")
        self.target("web", match.format(port=self.server.port), **keys)

    def node(self, name, how=RUN):
        return self.sandbox.run(["node", CLIENTS / "resolve_get.js", name, self.server.port], how)

    def test_they_match_under_run(self):
        self.start_with({"api.test": ["127.0.0.2", "127.0.0.9"]}, "api.test:{port}")
        self.assertEqual(self.node("api.test").output, self.node("api.test", BARE).output)
        self.assertEqual(self.destinations(), {f"api.test:{self.server.port}": 1})

    def test_they_are_refused_by_an_open_circuit(self):
        self.start_with({"api.test": ["127.0.0.2"]}, "api.test:{port}", failure_threshold=1)
        self.server.behaviour = reset_after_request
        self.assertEqual(self.node("api.test").stderr, "ECONNRESET\n")
        self.assertEqual(self.node("api.test").stderr, "ECONNREFUSED\n")
        self.assertEqual(self.server.connections, 1)

    def test_without_run_they_are_left_alone(self):
        self.start_with({"api.test": ["127.0.0.2"]}, "api.test:{port}")
        self.assertEqual(self.node("api.test", PRELOAD).stdout, ANSWER.decode())
        self.assertEqual(self.destinations(), {})

    def told(self, *words):
        result = self.sandbox.run(["sh", "-c", 'echo "$SOCKFUSE_NAMES"'])
        self.assertEqual(result.status, 0, result)
        return set(result.stdout.split())

    def test_every_name_is_told_with_all_its_addresses_and_once(self):
        records = {"api.test": ["127.0.0.2", "127.0.0.3"], "db.test": ["127.0.0.4"]}
        self.start_with(records, "api.test:{port} API.test:1 db.test:2 *.star.test:3 missing.test:4 127.0.0.9:5")
        expected = {"api.test=127.0.0.2,127.0.0.3", "db.test=127.0.0.4"}
        # What a busy machine does not answer within the second is not told.
        self.assertTrue(eventually(lambda: self.told() == expected), self.told())

    def test_nothing_is_told_or_asked_where_no_name_is_spelled_out(self):
        self.start_with({"api.test": ["127.0.0.2"]}, "127.0.0.2:{port} *.test:1")
        self.assertEqual((self.told(), self.names.queries), (set(), []))

    def test_what_an_outer_run_told_does_not_stay(self):
        self.start_with({"api.test": ["127.0.0.2"]}, "127.0.0.2:{port}")
        result = self.sandbox.run(["sh", "-c", 'echo "[$SOCKFUSE_NAMES]"'], env={"SOCKFUSE_NAMES": "old=127.0.0.1"})
        self.assertEqual(result.stdout, "[]\n")

    def test_a_name_server_that_does_not_answer_costs_a_second_in_all(self):
        names = " ".join(f"silent{number}.test:1" for number in range(30))
        self.start_with({}, f"127.0.0.2:{{port}} {names}", silent=True)
        taken = []
        while len(taken) < 5 and (not taken or taken[-1] >= 4):  # again, if the machine was busy
            result = self.get("127.0.0.2", self.server.port)
            taken.append(result.seconds)
            self.assertEqual(result.output, (ANSWER.decode(), "", 0))
        self.assertTrue(0.9 < min(taken) < 4, taken)
        self.assertEqual(self.destinations(), {f"127.0.0.2:{self.server.port}": len(taken)})

    def test_the_names_that_answer_are_told_although_another_one_does_not(self):
        self.start_with({"api.test": ["127.0.0.2"]}, "api.test:{port} localhost:1 silent.test:1", silent=True)
        self.assertEqual(self.told(), {"localhost=127.0.0.1"})

    def test_a_switched_off_library_asks_for_nothing(self):
        self.start_with({"api.test": ["127.0.0.2"]}, "api.test:{port}")
        self.sandbox.run(["true"], env={"SOCKFUSE": "off"})
        self.assertEqual(self.names.queries, [])


if __name__ == "__main__":
    unittest.main()
