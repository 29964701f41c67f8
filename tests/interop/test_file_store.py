"""Our store in a file and PyTorch's, on one file."""

import struct
import tempfile
import unittest
from pathlib import Path

from store_support import Driver, StoreError, running
from torch_support import LIMIT, dist, needs


class SharedFile(unittest.TestCase):
    def setUp(self):
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "store"

    def torch_store(self, world_size=-1):
        store = dist.FileStore(str(self.path), world_size)
        store.set_timeout(LIMIT)
        return store

    def our_store(self, *world_size):
        return self.enterContext(Driver("file", str(self.path).encode(), 20000, *world_size))

    def both(self):
        return self.torch_store(), self.our_store()

    def test_each_reads_what_the_other_has_set(self):
        torch, ours = self.both()
        torch.set("key", b"\0from PyTorch\xff")
        self.assertEqual(ours.get(b"key"), b"\0from PyTorch\xff")
        ours.set(b"key", b"\0from us\xff")
        self.assertEqual(torch.get("key"), b"\0from us\xff")
        ours.multi_set(b"a", b"1", b"b", b"")
        self.assertEqual(torch.multi_get(["a", "b"]), [b"1", b""])
        torch.multi_set(["c", "d"], ["3", "4"])
        self.assertEqual(ours.multi_get(b"d", b"c"), [b"4", b"3"])

    def test_both_count_on_one_counter(self):
        torch, ours = self.both()
        for turn in range(10):
            self.assertEqual(torch.add("counter", 1), 2 * turn + 1)
            self.assertEqual(ours.add(b"counter", 1), 2 * turn + 2)
        self.assertEqual(torch.get("counter"), b"20")
        ours.set(b"counter", b"")  # In a file an empty value counts as nothing.
        self.assertEqual(torch.add("counter", -3), -3)
        self.assertEqual(ours.add(b"counter", -3), -6)

    def test_what_one_has_deleted_is_gone_for_the_other(self):
        torch, ours = self.both()
        torch.set("key", "value")
        self.assertTrue(ours.delete_key(b"key"))
        self.assertFalse(torch.check(["key"]))
        ours.set(b"key", b"again")
        torch.delete_key("key")
        self.assertFalse(ours.check(b"key"))
        self.assertFalse(ours.delete_key(b"key"))
        ours.set(b"key", b"once more")
        self.assertEqual(torch.get("key"), b"once more")

    def test_compare_set_goes_by_the_others_value(self):
        torch, ours = self.both()
        self.assertEqual(torch.compare_set("key", "", "one"), b"one")
        self.assertEqual(ours.compare_set(b"key", b"", b"two"), b"one")
        self.assertEqual(ours.compare_set(b"key", b"one", b"two"), b"two")
        self.assertEqual(torch.compare_set("key", "one", "three"), b"two")
        self.assertEqual(torch.compare_set("key", "two", "three"), b"three")
        self.assertEqual(ours.get(b"key"), b"three")
        self.assertEqual(ours.compare_set(b"missing", b"x", b"y"), torch.compare_set("missing", "x", "y"))

    def test_both_count_the_same_keys(self):
        torch, ours = self.both()
        torch.set("a", "1")
        ours.set(b"b", b"2")
        self.assertEqual(ours.num_keys(), torch.num_keys())
        self.assertEqual(set(ours.list_keys()), {b"a", b"b"})

    def test_append_extends_what_the_other_wrote(self):
        torch, ours = self.both()
        torch.set("log", "one")
        ours.append(b"log", b" two")
        self.assertEqual(torch.get("log"), b"one two")

    def test_each_wakes_the_others_wait(self):
        torch, ours = self.both()
        ours.start("get", b"late")
        torch.set("late", "value")
        self.assertEqual(ours.finish(), b"value")
        with running(torch.get, "later") as getter:
            ours.set(b"later", b"value")
            self.assertEqual(getter.result(), b"value")

    @needs("barrier")
    def test_both_meet_in_one_barrier(self):
        torch, ours = self.both()
        ours.start("barrier", b"gate", 2, 20000)
        torch.barrier("gate", 2, LIMIT)
        ours.finish()
        with running(torch.barrier, "next gate", 2, LIMIT) as other:
            ours.barrier(b"next gate", 2, 20000)
            other.result()

    def test_a_wait_that_takes_too_long_ends(self):
        with self.assertRaises(StoreError) as raised:
            self.our_store().wait(50, b"never")
        self.assertEqual(raised.exception.kind, "timeout")

    def test_prefixes_are_the_same(self):
        torch, ours = self.both()
        ours.prefix(b"run")
        ours.set(b"key", b"1")
        self.assertEqual(dist.PrefixStore("run", torch).get("key"), b"1")
        self.assertEqual(torch.get("run/key"), b"1")

    def test_the_last_of_the_world_removes_the_file(self):
        for ours_goes_first in (True, False):
            torch, ours = self.torch_store(2), self.our_store(2)
            torch.set("key", "value")
            if ours_goes_first:
                ours.close()
                self.assertTrue(self.path.exists())
                del torch
            else:
                del torch
                self.assertTrue(self.path.exists())
                self.assertEqual(ours.get(b"key"), b"value")
                ours.close()
            self.assertFalse(self.path.exists())

    def test_without_a_world_size_the_file_stays(self):
        torch, ours = self.both()
        ours.set(b"key", b"value")
        del torch
        ours.close()
        self.assertEqual(self.torch_store().get("key"), b"value")

    def test_a_queue_is_clearly_refused(self):
        with self.assertRaises(StoreError) as raised:
            self.our_store().queue_push(b"queue", b"1")
        self.assertEqual(raised.exception.kind, "unsupported")


class TornRecord(unittest.TestCase):
    """A writer died inside its append. PyTorch's readers hang on this for ever."""

    WHOLE = struct.pack("<I", 4) + b"/new" + struct.pack("<I", 5) + b"value"

    def setUp(self):
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "store"

    def test_we_read_on_and_our_next_write_heals_the_file(self):
        for cut in range(1, len(self.WHOLE)):
            with self.subTest(cut=cut), Driver("file", str(self.path).encode(), 20000) as ours:
                torch = dist.FileStore(str(self.path), -1)
                ours.set(b"before", b"1")
                torch.set("old", "2")
                with open(self.path, "ab") as file:
                    file.write(self.WHOLE[:cut])
                self.assertEqual(ours.multi_get(b"before", b"old"), [b"1", b"2"])
                self.assertFalse(ours.check(b"new"))
                ours.set(b"after", b"3")
                self.assertEqual(torch.get("after"), b"3")
                self.assertFalse(torch.check(["new"]))
                torch.set("new", "4")
                self.assertEqual(ours.get(b"new"), b"4")
                del torch
            self.path.unlink()

    def test_opening_a_torn_file_heals_it(self):
        with Driver("file", str(self.path).encode(), 20000) as ours:
            ours.set(b"before", b"1")
        with open(self.path, "ab") as file:
            file.write(self.WHOLE[:7])
        with Driver("file", str(self.path).encode(), 20000) as ours:
            self.assertEqual(ours.get(b"before"), b"1")
            self.assertEqual(dist.FileStore(str(self.path), -1).get("before"), b"1")


if __name__ == "__main__":
    unittest.main()
