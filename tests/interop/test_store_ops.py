"""Every operation of the store, by PyTorch's client on our server and by our client on PyTorch's servers.

The sentences are the same for every pair. PyTorch's client on PyTorch's server is one of the pairs,
so that what we expect is known to be what PyTorch does.
"""

import contextlib
import socket
import unittest

import store_wire as wire
from store_support import RegroupServer, StoreError, running, tcp_driver
from torch_support import dist, lacking, timedelta, torch_client, torch_server

SHORT_MS = 150


class TimedOut(Exception):
    pass


class Lost(Exception):
    """The server has closed the connection."""


class Unsupported(Exception):
    pass


class TorchClient:
    """PyTorch's client; texts are bytes and times are milliseconds, as in our driver."""

    def __init__(self, store):
        self.store = store

    def close(self):
        self.store = None

    def __getattr__(self, name):
        operation = getattr(self.store, name)

        def call(*arguments):
            try:
                return operation(*arguments)
            except NotImplementedError as error:
                raise Unsupported from error
            except dist.DistStoreError as error:
                raise (TimedOut if "timeout" in str(error).lower() else Lost)(str(error)) from error
            except RuntimeError as error:
                raise Lost(str(error)) from error
        return call

    def wait(self, keys, limit_ms):
        return self.__getattr__("wait")(keys, timedelta(milliseconds=limit_ms))

    def multi_set(self, entries):
        return self.__getattr__("multi_set")([key for key, _ in entries], [value for _, value in entries])

    def queue_pop(self, key):
        return self.__getattr__("queue_pop")(key)

    def try_queue_pop(self, key):
        try:
            return self.store.queue_pop(key, False)
        except dist.QueueEmptyError:
            return None

    def list_keys(self):
        return {key.encode() for key in self.store.list_keys()}

    def barrier(self, key, world_size, limit_ms):
        return self.__getattr__("barrier")(key, world_size, timedelta(milliseconds=limit_ms))

    def clone(self):
        return TorchClient(self.store.clone())

    def prefixed(self, prefix):
        return TorchClient(dist.PrefixStore(prefix, self.store))

    def set_timeout(self, limit_ms):
        self.store.set_timeout(timedelta(milliseconds=limit_ms))


class OurClient:
    def __init__(self, port, limit_ms=20000):
        self.port = port
        self.driver = tcp_driver(port, limit_ms)
        self.driver.__enter__()

    def close(self):
        self.driver.__exit__()

    def __getattr__(self, name):
        operation = getattr(self.driver, name)

        def call(*arguments):
            try:
                return operation(*arguments)
            except StoreError as error:
                kinds = {"timeout": TimedOut, "connection": Lost, "protocol": Lost, "unsupported": Unsupported}
                raise kinds[error.kind](error.message) from error
        return call

    def check(self, keys):
        return self.__getattr__("check")(*keys)

    def wait(self, keys, limit_ms):
        return self.__getattr__("wait")(limit_ms, *keys)

    def multi_get(self, keys):
        return self.__getattr__("multi_get")(*keys)

    def multi_set(self, entries):
        return self.__getattr__("multi_set")(*[item for entry in entries for item in entry])

    def list_keys(self):
        return set(self.__getattr__("list_keys")())

    def clone(self):
        # A clone lives in the same driver and would wait in line with its original; what it must
        # show is that it is a connection of its own.
        self.driver.clone("clone")
        self.driver.use("store")
        self.driver.close()
        self.driver.use("clone")
        return self

    def prefixed(self, prefix):
        self.driver.prefix(prefix)
        return self


class Operations:
    """A subclass says who meets whom."""

    legacy_server = False

    def setUp(self):
        self.undo = contextlib.ExitStack()
        self.addCleanup(self.undo.close)
        self.port = self.undo.enter_context(self.server())
        self.store = self.client()

    def client(self):
        client = self.connect()
        self.undo.callback(client.close)
        return client

    def needs(self, operation):
        if reason := lacking(operation):
            self.skipTest(reason)

    def test_a_value_that_was_set_is_read_back(self):
        self.store.set(b"key", b"value")
        self.assertEqual(self.store.get(b"key"), b"value")
        self.store.set(b"key", b"other")
        self.assertEqual(self.client().get(b"key"), b"other")

    def test_empty_and_binary_keys_and_values_arrive_as_they_are(self):
        everything = bytes(range(256))
        for key, value in [(b"", b"empty key"), (b"empty value", b""), (b"nul\0in it", everything),
                           (b"/a//b/", b"\0"), ("schl\u00fcssel".encode(), b"\xff\xfe")]:
            self.store.set(key, value)
            self.assertEqual(self.store.get(key), value)
            self.assertTrue(self.store.check([key]))

    def test_a_value_of_eight_mebibytes_passes(self):
        value = bytes(range(256)) * (wire.VALUE_LIMIT // 256)
        self.store.set(b"large", value)
        self.assertEqual(self.client().get(b"large"), value)

    def test_add_counts_and_keeps_decimal_text(self):
        self.assertEqual(self.store.add(b"counter", 5), 5)
        self.assertEqual(self.store.add(b"counter", -7), -2)
        self.assertEqual(self.store.get(b"counter"), b"-2")
        self.store.set(b"counter", b" 12abc")
        self.assertEqual(self.store.add(b"counter", 1), 13)

    def test_add_to_a_text_that_is_no_number_costs_only_that_connection(self):
        self.store.set(b"counter", b"many")
        self.store.check([b"counter"])  # A set has no answer; now it is there.
        with self.assertRaises(Lost):
            self.client().add(b"counter", 1)
        self.assertEqual(self.store.get(b"counter"), b"many")

    def test_compare_set_stores_only_what_was_expected(self):
        self.assertEqual(self.store.compare_set(b"key", b"something", b"new"), b"something")
        self.assertFalse(self.store.check([b"key"]))
        self.assertEqual(self.store.compare_set(b"key", b"", b"first"), b"first")
        self.assertEqual(self.store.compare_set(b"key", b"wrong", b"second"), b"first")
        self.assertEqual(self.store.compare_set(b"key", b"", b"second"), b"first")
        self.assertEqual(self.store.compare_set(b"key", b"first", b"second"), b"second")
        self.assertEqual(self.store.compare_set(b"key", b"second", b""), b"")
        self.assertEqual(self.store.compare_set(b"key", b"", b"third"), b"third")

    def test_check_is_true_when_all_keys_exist(self):
        self.assertFalse(self.store.check([b"one"]))
        self.store.set(b"one", b"1")
        self.store.set(b"two", b"2")
        self.assertTrue(self.store.check([b"one", b"two"]))
        self.assertFalse(self.store.check([b"one", b"missing", b"two"]))

    def test_a_wait_for_keys_that_exist_returns_at_once(self):
        self.store.set(b"one", b"1")
        self.store.wait([b"one", b"one"], 20000)

    def test_a_wait_ends_when_another_client_brings_the_last_key(self):
        ways = {b"set": lambda c, k: c.set(k, b"v"), b"add": lambda c, k: c.add(k, 1),
                b"append": lambda c, k: c.append(k, b"v"), b"multi_set": lambda c, k: c.multi_set([(k, b"v")])}
        if not self.legacy_server:  # There a compare_set wakes nobody.
            ways[b"compare_set"] = lambda c, k: c.compare_set(k, b"", b"v")
        other = self.client()
        for name, bring in ways.items():
            with self.subTest(name.decode()), running(self.store.wait, [name + b"1", name + b"2"], 20000) as waiter:
                bring(other, name + b"1")
                bring(other, name + b"2")
                waiter.result()

    def test_a_wait_that_takes_too_long_ends_and_the_connection_goes_on(self):
        with self.assertRaises(TimedOut):
            self.store.wait([b"never"], SHORT_MS)
        self.store.set(b"never", b"now")
        self.assertEqual(self.store.get(b"never"), b"now")
        self.assertEqual(self.store.add(b"counter", 1), 1)

    def test_get_waits_for_its_key(self):
        other = self.client()
        with running(self.store.get, b"late") as getter:
            other.set(b"late", b"value")
            self.assertEqual(getter.result(), b"value")

    def test_get_ends_with_the_time_limit_of_the_store(self):
        self.store.set_timeout(SHORT_MS)
        with self.assertRaises(TimedOut):
            self.store.get(b"never")
        self.store.set_timeout(20000)
        self.store.set(b"never", b"now")
        self.assertEqual(self.store.get(b"never"), b"now")

    def test_a_deleted_key_is_gone(self):
        self.store.set(b"key", b"value")
        self.assertTrue(self.store.delete_key(b"key"))
        self.assertFalse(self.store.delete_key(b"key"))
        self.assertFalse(self.store.check([b"key"]))

    def test_num_keys_counts_the_keys(self):
        before = self.store.num_keys()
        for key in (b"a", b"b", b"a"):
            self.store.set(key, b"v")
        self.assertEqual(self.store.num_keys(), before + 2)

    def test_append_creates_and_extends(self):
        self.store.append(b"log", b"one")
        self.store.append(b"log", b"")
        self.store.append(b"log", b"\0two")
        self.assertEqual(self.store.get(b"log"), b"one\0two")

    def test_many_keys_are_set_and_read_in_one_request(self):
        entries = [(b"key%d" % i, b"value%d" % i * i) for i in range(200)]
        self.store.multi_set(entries)
        keys = [key for key, _ in reversed(entries)]
        self.assertEqual(self.client().multi_get(keys), [value for _, value in reversed(entries)])

    def test_multi_get_waits_for_the_last_key(self):
        other = self.client()
        with running(self.store.multi_get, [b"a", b"b"]) as getter:
            other.set(b"b", b"2")
            other.set(b"a", b"1")
            self.assertEqual(getter.result(), [b"1", b"2"])
        self.store.set_timeout(SHORT_MS)
        with self.assertRaises(TimedOut):
            self.store.multi_get([b"a", b"never"])

    def test_a_queue_gives_back_in_order_what_was_pushed(self):
        self.needs("queue_push")
        if self.legacy_server:
            with self.assertRaises((Unsupported, Lost)):
                self.store.queue_push(b"queue", b"1")
                self.store.queue_len(b"queue")  # A push has no answer: the next call brings the news.
            return
        self.assertEqual(self.store.queue_len(b"queue"), 0)
        self.assertIsNone(self.store.try_queue_pop(b"queue"))
        for value in (b"1", b"", b"\x003"):
            self.store.queue_push(b"queue", value)
        self.assertEqual(self.store.queue_len(b"queue"), 3)
        self.assertTrue(self.store.check([b"queue"]))
        self.assertEqual(self.client().queue_pop(b"queue"), b"1")
        self.assertEqual(self.store.try_queue_pop(b"queue"), b"")
        self.assertEqual(self.store.queue_pop(b"queue"), b"\x003")
        self.assertEqual(self.store.queue_len(b"queue"), 0)
        self.assertFalse(self.store.check([b"queue"]))

    def test_queue_pop_waits_for_an_element(self):
        self.needs("queue_push")
        if self.legacy_server:
            with self.assertRaises((Unsupported, Lost, TimedOut)):
                self.store.set_timeout(SHORT_MS)
                self.store.queue_pop(b"queue")
            return
        other = self.client()
        with running(self.store.queue_pop, b"queue") as popper:
            other.queue_push(b"queue", b"element")
            self.assertEqual(popper.result(), b"element")
        self.store.set_timeout(SHORT_MS)
        with self.assertRaises(TimedOut):
            self.store.queue_pop(b"queue")

    def test_list_keys_names_every_key(self):
        self.needs("list_keys")
        self.assertEqual(set(self.store.list_keys()), set())
        self.store.set(b"a", b"1")
        self.store.set(b"dir/b", b"2")
        self.store.add(b"", 1)
        self.assertEqual(set(self.store.list_keys()), {b"a", b"dir/b", b""})

    def test_a_barrier_opens_when_all_have_come(self):
        self.needs("barrier")
        others = [self.client(), self.client()]
        with running(self.store.barrier, b"gate", 3, 20000) as first, \
                running(others[0].barrier, b"gate", 3, 20000) as second:
            others[1].barrier(b"gate", 3, 20000)
            first.result()
            second.result()
        self.store.barrier(b"gate", 3, 20000)  # It stays open.

    def test_a_barrier_that_takes_too_long_ends_and_the_connection_goes_on(self):
        self.needs("barrier")
        with self.assertRaises(TimedOut):
            self.store.barrier(b"gate", 2, SHORT_MS)
        # Who gave up has still come.
        self.client().barrier(b"gate", 2, 20000)
        self.assertEqual(self.store.add(b"counter", 1), 1)

    def test_a_clone_is_a_connection_of_its_own(self):
        self.needs("clone")
        self.store.set(b"key", b"value")
        clone = self.store.clone()
        self.assertEqual(clone.get(b"key"), b"value")
        clone.set(b"key", b"from the clone")
        self.assertEqual(clone.get(b"key"), b"from the clone")

    def test_prefixes_nest_and_stay_apart(self):
        self.needs("list_keys")
        plain = self.client()
        inner = self.store.prefixed(b"inner")
        inner.set(b"k", b"1")
        outer = inner.prefixed(b"outer")
        outer.set(b"k", b"2")
        outer.add(b"n", 3)
        self.assertEqual(outer.get(b"k"), b"2")
        self.assertEqual(outer.multi_get([b"k", b"n"]), [b"2", b"3"])
        self.assertEqual(outer.list_keys(), {b"k", b"n"})
        self.assertEqual(plain.list_keys(), {b"inner/k", b"inner/outer/k", b"inner/outer/n"})
        self.assertEqual(plain.get(b"inner/outer/k"), b"2")
        self.assertEqual(outer.num_keys(), 3)

    def test_a_value_over_the_limit_costs_only_that_connection(self):
        loser = self.client()
        with contextlib.nullcontext() if self.legacy_server else self.assertRaises(Lost):
            loser.set(b"huge", b"x" * (wire.VALUE_LIMIT + 1))
            loser.num_keys()
        if not self.legacy_server:  # That one has no limits.
            self.assertFalse(self.store.check([b"huge"]))


@contextlib.contextmanager
def our_server():
    with RegroupServer() as server:
        yield server.port


class TorchClientOnOurServer(Operations, unittest.TestCase):
    def server(self):
        return our_server()

    def connect(self):
        return TorchClient(torch_client(self.port))

    def test_a_worker_with_a_world_size_is_counted(self):
        torch_client(self.port, world_size=4)
        torch_client(self.port, world_size=4)
        with wire.RawClient(self.port) as raw:
            self.assertEqual(raw.ask(wire.get(b"init/")), wire.text(b"2"))
        self.assertEqual(self.store.num_keys(), 1)

    def test_a_legacy_minded_client_is_served_too(self):
        store = torch_client(self.port, use_libuv=False)
        store.set("key", "value")
        self.assertEqual(store.get("key"), b"value")

    def test_a_client_that_connects_before_the_server_runs_finds_it_later(self):
        with socket.socket() as holder:  # Bound and not listening: the port is ours, and refuses.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            port = holder.getsockname()[1]
            with running(torch_client, port) as connecting, RegroupServer(port=port):
                connecting.result().set("key", "value")


class OurClientOnLibuvServer(Operations, unittest.TestCase):
    def server(self):
        return torch_server(libuv=True)

    def connect(self):
        return OurClient(self.port)


class OurClientOnLegacyServer(Operations, unittest.TestCase):
    legacy_server = True

    def server(self):
        return torch_server(libuv=False)

    def connect(self):
        return OurClient(self.port)


class OurClientOnOurServer(Operations, unittest.TestCase):
    def needs(self, operation):
        pass  # Ours have them all.

    def server(self):
        return our_server()

    def connect(self):
        return OurClient(self.port)

    def test_a_worker_with_a_world_size_waits_for_the_others_if_asked_to(self):
        with tcp_driver(self.port, 20000, 2) as first, tcp_driver(self.port, 20000, 2, "wait") as second:
            self.assertEqual(first.num_keys(), 1)
            self.assertEqual(second.list_keys(), [])  # The count has no slash in front.
        with self.assertRaisesRegex(StoreError, "3 of 5"), tcp_driver(self.port, SHORT_MS, 5, "wait"):
            pass


class TorchClientOnLibuvServer(Operations, unittest.TestCase):
    def server(self):
        return torch_server(libuv=True)

    def connect(self):
        return TorchClient(torch_client(self.port))


if __name__ == "__main__":
    unittest.main()
