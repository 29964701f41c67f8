"""Strangers, old clients, liars and slow readers at the port. The server keeps serving everybody else."""

import socket
import struct
import unittest

import store_wire as wire
from run_support import until
from store_support import RegroupServer
from store_wire import RawClient

HTTP = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
TLS = bytes.fromhex("160301020001000001fc0303") + bytes(range(200))
# Layouts A and B have no greeting, and opcode 0 is SET.
OLD_SET = b"\0" + wire.text(b"/key") + wire.text(b"value")
OLD_ADD = b"\x03" + wire.text(b"/key") + wire.i64(1)

MALFORMED = {
    "HTTP": HTTP,
    "a TLS hello": TLS,
    "a SET of PyTorch 2.1 or older": OLD_SET,
    "an ADD of PyTorch 2.1 or older": OLD_ADD,
    "a wrong magic number": b"\0\xde\xad\xbe\xef",
    "ones": b"\xff" * 100,
    "a newline": b"\n",
    "an unknown opcode": wire.GREETING + b"\x13",
    "a second greeting": wire.GREETING * 2,
    "a key of 4 GiB": wire.GREETING + b"\x03" + wire.u64(1 << 32),
    "a key just over the limit": wire.GREETING + b"\x03" + wire.u64(wire.KEY_LIMIT + 1),
    "a value of 4 GiB": wire.GREETING + b"\x01" + wire.text(b"/k") + wire.u64(1 << 32),
    "a value just over the limit": wire.GREETING + b"\x01" + wire.text(b"/k") + wire.u64(wire.VALUE_LIMIT + 1),
    "a length of -1": wire.GREETING + b"\x01" + wire.u64(2**64 - 1),
    "too many keys": wire.GREETING + b"\x06" + wire.u64(wire.COUNT_LIMIT + 1),
    "2^60 entries": wire.GREETING + b"\x0b" + wire.u64(1 << 60),
    "a good request, then rubbish": wire.GREETING + wire.set_(b"/before", b"1") + b"\xee",
}


class Rubbish(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(RegroupServer())
        self.witness = self.enterContext(RawClient(self.server.port))
        self.turns = 0

    def stranger(self):
        return RawClient(self.server.port, greet=False)

    def assert_it_serves(self):
        """The witness, who was there all along, and a newcomer."""
        self.turns += 1
        self.assertEqual(self.witness.ask(wire.add(b"/turns", 1)), wire.i64(self.turns))
        with RawClient(self.server.port) as newcomer:
            self.assertEqual(newcomer.ask(wire.get(b"/turns")), wire.text(b"%d" % self.turns))

    def test_rubbish_is_closed_and_counted(self):
        for count, (name, data) in enumerate(MALFORMED.items(), 1):
            with self.subTest(name), self.stranger() as stranger:
                stranger.send(data)
                self.assertEqual(stranger.receive_to_end(), b"")
                self.assert_it_serves()
                self.assertEqual(self.server.counters()["malformed"], count)

    def test_the_log_names_what_it_was(self):
        for data, word in ((HTTP, "HTTP"), (TLS, "TLS"), (OLD_SET, "PyTorch 2.1 or older")):
            with self.stranger() as stranger:
                stranger.send(data)
                stranger.receive_to_end()
            self.server.err.until(word)

    def test_a_request_that_cannot_be_served_is_closed_and_counted(self):
        with RawClient(self.server.port) as client:
            client.ask(wire.set_(b"/text", b"no number"))
            client.send(wire.add(b"/text", 1))
            self.assertEqual(client.receive_to_end(), b"")
        self.assert_it_serves()
        self.assertEqual(self.server.counters()["refused"], 1)

    def test_a_greeting_in_pieces_is_followed_by_requests_of_any_length(self):
        # Seen by the witness's answer in between: the server has read the piece.
        for cut in range(1, len(wire.GREETING)):
            for request in (wire.num_keys(), wire.cancel_wait()):
                with self.stranger() as slow:
                    slow.send(wire.GREETING[:cut])
                    self.assert_it_serves()
                    slow.send(wire.GREETING[cut:])
                    self.assert_it_serves()
                    slow.send(request)
                    self.assertTrue(slow.receive(1))

    def test_clients_that_went_quiet_give_their_memory_back(self):
        large = wire.set_(b"/same", b"v" * wire.VALUE_LIMIT)
        clients = [self.enterContext(RawClient(self.server.port)) for _ in range(20)]
        for client in clients:
            client.ask(large)
        self.assertLess(self.server.memory_kib(), 100 * 1024)
        for client in clients:
            client.send(large[:-1])
        for client in clients:
            client.leave()
        while self.server.counters()["clients"] > 1:  # Until it has heard of all of it.
            pass
        self.assertLess(self.server.memory_kib(), 100 * 1024)

    def test_keys_cannot_forge_the_log(self):
        with RawClient(self.server.port) as client:
            client.ask(wire.set_(b"/a\n[forged] \x1b[31m", b"text"))
            client.send(wire.add(b"/a\n[forged] \x1b[31m", 1))
            self.assertEqual(client.receive_to_end(), b"")
        self.server.err.until(r"'/a\\x0a\[forged\] \\x1b\[31m'")

    def test_half_a_message_makes_only_its_sender_wait(self):
        request = wire.set_(b"/slow", b"value" * 1000)
        with self.stranger() as silent, self.stranger() as half_greeting, RawClient(self.server.port) as half:
            half_greeting.send(wire.GREETING[:3])
            half.send(request[:100])
            for _ in range(100):
                self.assert_it_serves()
            self.assertEqual(self.witness.ask(wire.check([b"/slow"])), b"\1")
            half.ask(request[100:])
            self.assertEqual(self.witness.ask(wire.check([b"/slow"])), b"\0")
            half_greeting.send(wire.GREETING[3:])
            self.assertEqual(half_greeting.ask(wire.check([b"/slow"])), b"\0")
            silent.send(wire.GREETING)
            self.assertEqual(silent.ask(wire.num_keys()), wire.i64(2))

    def test_a_client_may_vanish_at_any_byte_of_a_request(self):
        requests = [wire.set_(b"/gone", b"value"), wire.compare_set(b"/gone", b"", b"value"), wire.add(b"/gone", 1),
                    wire.multi_set([(b"/gone", b"1"), (b"/gone too", b"2")]), wire.queue_push(b"/gone", b"1"),
                    wire.wait([b"/gone", b"/gone too"]), wire.barrier(b"/gone", 2)]
        for request in requests:
            for cut in range(len(request)):
                with self.stranger() as client:
                    client.send(wire.GREETING + request[:cut])
                    client.leave()
        self.assert_it_serves()
        self.assertEqual(self.witness.ask(wire.check([b"/gone"])), b"\1")
        counters = self.server.counters()
        self.assertEqual((counters["waiting"], counters["malformed"], counters["queues"]), (0, 0, 0))

    def test_a_client_may_reset_its_connection_in_a_wait(self):
        for _ in range(50):
            with RawClient(self.server.port) as client:
                client.ask(wire.wait([b"/awaited"]))
                # Closing with this option sends a reset and no farewell.
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.assertEqual(self.witness.ask(wire.set_(b"/awaited", b"1")), b"")
        self.assert_it_serves()
        self.assertEqual(self.server.counters()["waiting"], 0)

    def test_thousands_come_and_go(self):
        for _ in range(3000):
            self.stranger().socket.close()
        self.assert_it_serves()
        for _ in range(10):
            crowd = [RawClient(self.server.port) for _ in range(100)]
            for client in crowd:
                client.send(wire.wait([b"/never"]))
            for client in crowd:
                client.leave()
        self.assert_it_serves()
        counters = self.server.counters()
        self.assertGreaterEqual(counters["ever"], 4000)
        self.assertEqual((counters["waiting"], counters["malformed"]), (0, 0))

    def test_a_limit_on_clients_turns_the_next_one_away(self):
        with RegroupServer("--max-clients", "2") as server, RawClient(server.port) as first, \
                RawClient(server.port) as second:
            for client in (first, second):
                client.ask(wire.num_keys())
            with RawClient(server.port, greet=False) as third:
                self.assertEqual(third.receive_to_end(), b"")
            self.assertEqual(first.ask(wire.num_keys()), wire.i64(0))
            self.assertEqual(server.counters()["turned away"], 1)

    def test_a_limit_on_memory_refuses_and_changes_nothing(self):
        with RegroupServer("--max-memory", "1MB") as server, RawClient(server.port) as small:
            with RawClient(server.port) as large:
                large.send(wire.set_(b"/large", b"x" * 1_100_000))
                self.assertEqual(large.receive_to_end(), b"")
            self.assertEqual(small.ask(wire.num_keys()), wire.i64(0))
            self.assertEqual(small.ask(wire.set_(b"/small", b"1") + wire.get(b"/small")), wire.text(b"1"))
            self.assertEqual(server.counters()["refused"], 1)


class HeldForConnections(unittest.TestCase):
    """What connections leave here, unread or half sent, is bounded by --max-memory."""

    LIMIT = 64 << 20

    def setUp(self):
        self.server = self.enterContext(RegroupServer("--max-memory", str(self.LIMIT)))
        self.witness = self.enterContext(RawClient(self.server.port))
        self.before = self.server.memory_kib()

    def assert_bounded(self, crowd):
        # It takes the limit, and what was under way when the limit was reached.
        self.assertLess(self.server.memory_kib("VmHWM") - self.before, (self.LIMIT >> 10) * 2)
        self.assertGreaterEqual(self.server.counters()["refused"], 1)
        self.assertEqual(self.witness.ask(wire.add(b"/turns", 1)), wire.i64(1))
        for client in crowd:
            client.socket.close()

    def test_answers_that_nobody_reads(self):
        self.witness.ask(wire.set_(b"/large", b"v" * (1 << 20)))
        crowd = [RawClient(self.server.port) for _ in range(12)]
        for client in crowd:
            client.send(wire.multi_get([b"/large"] * 24))
        self.assertTrue(until(lambda: self.server.counters()["requests"] >= 2 + 12))  # All have been answered.
        self.assert_bounded(crowd)

    def test_requests_that_do_not_end(self):
        crowd = [RawClient(self.server.port) for _ in range(12)]
        part = wire.multi_set([(b"/%d" % number, b"v" * (1 << 20)) for number in range(12)])[:-1]
        for client in crowd:
            try:
                client.send(part)
            except OSError:  # It was closed already.
                pass
        self.assertTrue(until(lambda: self.server.counters()["refused"] > 0))
        self.assert_bounded(crowd)


class SlowReader(unittest.TestCase):
    VALUE = bytes(range(256)) * 4096  # 1 MiB
    REQUESTS = 2000  # So it would take 2 GiB to hold all answers.

    def test_a_reader_that_does_not_read_is_not_served_on_credit(self):
        with RegroupServer() as server, RawClient(server.port) as witness, RawClient(server.port) as slow:
            witness.ask(wire.set_(b"/large", self.VALUE))
            before = server.memory_kib()
            slow.send(wire.get(b"/large") * self.REQUESTS)
            for turn in range(1, 200):  # Each turn is a chance for the server to answer on credit.
                self.assertEqual(witness.ask(wire.add(b"/turns", 1)), wire.i64(turn))
            self.assertLess(server.memory_kib("VmHWM") - before, 64 * 1024)
            answer = wire.text(self.VALUE)
            for _ in range(200):
                self.assertEqual(self.read(slow.socket, len(answer)), answer)
            self.assertLess(server.memory_kib("VmHWM") - before, 64 * 1024)
            self.assertEqual(witness.ask(wire.num_keys()), wire.i64(2))
            slow.socket.close()  # With most of it unread.
            self.assertEqual(witness.ask(wire.num_keys()), wire.i64(2))

    @staticmethod
    def read(source, size):
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            got = source.recv_into(view[at:])
            if not got:
                raise AssertionError(f"the server closed after {at} of {size} bytes")
            at += got
        return data

    def test_a_slow_sender_of_a_large_value_costs_no_more_than_the_value(self):
        with RegroupServer() as server, RawClient(server.port) as slow, RawClient(server.port) as witness:
            request = wire.set_(b"/large", b"v" * wire.VALUE_LIMIT)
            before = server.memory_kib()
            for at in range(0, len(request) - 1, 65536):
                slow.send(request[at:min(at + 65536, len(request) - 1)])
                self.assertEqual(witness.ask(wire.check([b"/large"])), b"\1")
            self.assertEqual(slow.ask(request[-1:] + wire.check([b"/large"])), b"\0")
            self.assertLess(server.memory_kib("VmHWM") - before, 64 * 1024)


if __name__ == "__main__":
    unittest.main()
