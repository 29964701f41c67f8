"""`regroup store` as its users meet it: what it prints, where it listens, how it ends."""

import re
import signal
import socket
import subprocess
import unittest
from pathlib import Path

import store_wire as wire
from store_support import BINARY, LIMIT_S, RegroupServer, running


def regroup(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S)


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def listening_addresses(pid):
    """(address, port) of every socket that the process listens on, from the kernel."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if found := re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink())):
                inodes.add(found[1])
        except FileNotFoundError:
            pass
    found = []
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().split("\n")[1:]
        except FileNotFoundError:
            continue
        for fields in map(str.split, filter(None, lines)):
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                words = [bytes.fromhex(address[i:i + 8])[::-1] for i in range(0, len(address), 8)]
                family = socket.AF_INET if table == "tcp" else socket.AF_INET6
                found.append((socket.inet_ntop(family, b"".join(words)), int(port, 16)))
    return found


class Serving(unittest.TestCase):
    def test_one_line_says_where_it_listens(self):
        with RegroupServer() as server:
            self.assertRegex(server.listening, r"^listening on 127\.0\.0\.1:\d+$")
            self.assertGreater(server.port, 0)
            server.process.terminate()
            self.assertEqual(server.out.rest(), [server.listening])

    def test_the_port_file_holds_the_port_when_the_line_is_out(self):
        with RegroupServer() as server:
            self.assertEqual(int(server.port_file.read_text()), server.port)
            leftovers = [path for path in server.port_file.parent.iterdir() if path != server.port_file]
            self.assertEqual(leftovers, [])

    def test_loopback_stays_loopback(self):
        with RegroupServer() as server:
            addresses = listening_addresses(server.pid)
            if not addresses:
                self.skipTest("this kernel does not list sockets under /proc/PID/net")
            self.assertEqual(addresses, [("127.0.0.1", server.port)])

    def test_it_serves_ipv6(self):
        if not has_ipv6():
            self.skipTest("this machine has no IPv6 loopback")
        with RegroupServer(host="::1") as server:
            self.assertEqual(server.listening, f"listening on [::1]:{server.port}")
            with wire.RawClient(server.port, host="::1") as client:
                self.assertEqual(client.ask(wire.add(b"/n", 1)), wire.i64(1))
            asked = regroup("store", "get", f"[::1]:{server.port}", "n")
            self.assertEqual((asked.returncode, asked.stdout.strip()), (0, "1"))

    def test_all_interfaces_serve_ipv4_too(self):
        with RegroupServer(host="::" if has_ipv6() else "0.0.0.0") as server, wire.RawClient(server.port) as client:
            self.assertEqual(client.ask(wire.add(b"/n", 1)), wire.i64(1))

    def test_sigterm_ends_it_cleanly_with_clients_connected(self):
        with RegroupServer() as server, wire.RawClient(server.port) as idle, wire.RawClient(server.port) as waiting:
            waiting.ask(wire.wait([b"/never"]))
            server.process.terminate()
            self.assertEqual(server.process.wait(LIMIT_S), 0)
            self.assertEqual(idle.receive_to_end(), b"")
            self.assertEqual(waiting.receive_to_end(), b"")

    def test_ctrl_c_ends_it_cleanly(self):
        with RegroupServer() as server:
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(LIMIT_S), 0)

    def test_sigusr1_prints_counters_and_it_serves_on(self):
        with RegroupServer() as server, wire.RawClient(server.port) as client:
            client.ask(wire.set_(b"/a", b"1") + wire.wait([b"/never"]))
            counters = server.counters()
            self.assertEqual((counters["clients"], counters["keys"], counters["waiting"]), (1, 1, 1))
            self.assertEqual((counters["malformed"], counters["refused"]), (0, 0))
            self.assertEqual(client.ask(wire.get(b"/a")), wire.text(b"1"))

    def test_the_same_port_can_be_taken_again_at_once(self):
        with RegroupServer() as server:
            port = server.port
            with wire.RawClient(port):
                server.process.terminate()
                server.process.wait(LIMIT_S)
                # Our end is still open, so that the old connection lingers in the kernel.
                with RegroupServer(port=port), wire.RawClient(port) as client:
                    self.assertEqual(client.ask(wire.num_keys()), wire.i64(0))


class Asking(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(RegroupServer())
        self.at = f"127.0.0.1:{self.server.port}"

    def test_ping_tells_that_the_store_answers(self):
        asked = regroup("store", "ping", self.at)
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn(self.at, asked.stdout)
        self.assertEqual(len(asked.stdout.splitlines()), 1)

    def test_what_set_has_stored_get_prints(self):
        self.assertEqual(regroup("store", "set", self.at, "key", "some value").returncode, 0)
        asked = regroup("store", "get", self.at, "key")
        self.assertEqual((asked.returncode, asked.stdout.rstrip("\n"), asked.stderr), (0, "some value", ""))

    def test_keys_lists_the_keys_sorted(self):
        for key in ("b", "a/c", "a"):
            regroup("store", "set", self.at, key, "v")
        asked = regroup("store", "keys", self.at)
        self.assertEqual((asked.returncode, asked.stdout.splitlines()), (0, ["a", "a/c", "b"]))

    def test_get_of_a_missing_key_fails_and_names_it(self):
        asked = regroup("store", "get", self.at, "no such key")
        self.assertEqual((asked.returncode, asked.stdout), (1, ""))
        self.assertIn("no such key", asked.stderr)

    def test_get_can_wait_for_its_key(self):
        with running(regroup, "store", "get", self.at, "late", "--wait", "--timeout", "20") as asked:
            regroup("store", "set", self.at, "late", "came")
            self.assertEqual(asked.result().stdout.rstrip("\n"), "came")


class WrongStarts(unittest.TestCase):
    def assert_refused(self, outcome, *words):
        self.assertEqual(outcome.returncode, 2, outcome)
        self.assertEqual(outcome.stdout, "")
        message = outcome.stderr.strip()
        self.assertEqual(message.count("regroup:"), 1, "one message, and one only")
        self.assertNotIn("terminate called", message)
        for word in words:
            self.assertIn(str(word), message)

    def test_a_wrong_flag_is_named(self):
        self.assert_refused(regroup("store", "--colour", "red"), "--colour", "--help")

    def test_a_port_that_is_no_port_is_named(self):
        self.assert_refused(regroup("store", "--port", "seventy"), "seventy", "--port")
        self.assert_refused(regroup("store", "--port", "70000"), "70000", "--port")

    def test_a_taken_port_is_told_with_cause_and_cure(self):
        with RegroupServer() as server:
            self.assert_refused(regroup("store", "--host", "127.0.0.1", "--port", server.port),
                                f"127.0.0.1:{server.port}", "taken", "another port")
            with wire.RawClient(server.port) as client:  # Who was there first goes on.
                self.assertEqual(client.ask(wire.num_keys()), wire.i64(0))

    def test_a_host_that_is_not_ours_is_named(self):
        # An address for documentation: no machine has it.
        self.assert_refused(regroup("store", "--host", "192.0.2.1", "--port", "0"), "192.0.2.1")

    def test_a_port_file_that_cannot_be_written_is_named(self):
        self.assert_refused(regroup("store", "--port", "0", "--port-file", "/no/such/folder/port"),
                            "/no/such/folder/port")

    def test_a_bad_endpoint_is_told_with_how_to_write_it(self):
        for endpoint in ("nowhere", "127.0.0.1:", ":29500", "127.0.0.1:0", "127.0.0.1:99999", "::1:29500",
                         "127.0.0.1:http"):
            with self.subTest(endpoint):
                self.assert_refused(regroup("store", "ping", endpoint), endpoint, "HOST:PORT")

    def test_no_command_at_all_is_told(self):
        self.assertEqual(regroup().returncode, 2)

    def test_a_store_that_does_not_answer_is_a_failure_and_no_wrong_start(self):
        with socket.socket() as holder:  # Bound and not listening: it refuses.
            holder.bind(("127.0.0.1", 0))
            at = f"127.0.0.1:{holder.getsockname()[1]}"
            asked = regroup("store", "ping", at, "--timeout", "0.2")
        self.assertEqual(asked.returncode, 1, asked)
        self.assertIn(at, asked.stderr)

    def test_help_and_version_are_no_errors(self):
        self.assertIn("--port-file", regroup("store", "--help").stdout)
        self.assertRegex(regroup("--version").stdout, r"\d+\.\d+")


class ReleaseBinary(unittest.TestCase):
    """The binary is copied to nodes that have only libc."""

    LIBC = re.compile(r"(libc|libm|libpthread|libdl|librt|ld-linux[\w-]*|libresolv)\.so\.\d+")

    def setUp(self):
        if "release" not in BINARY.parts:
            self.skipTest("this build is not the one that is shipped; run with --preset release")

    def test_it_needs_nothing_but_libc(self):
        with RegroupServer() as server:
            maps = Path(f"/proc/{server.pid}/maps").read_text()
        names = {Path(path).name for path in re.findall(r"\s(/\S+\.so[.\d]*)$", maps, re.MULTILINE)}
        strangers = {name for name in names if not self.LIBC.fullmatch(name)}
        self.assertEqual(strangers, set())

    def test_it_is_small(self):
        self.assertLess(BINARY.stat().st_size, 15_000_000)


if __name__ == "__main__":
    unittest.main()
