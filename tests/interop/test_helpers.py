"""Our synchronize, gather and barrier and those of PyTorch's elastic agents, in one group on our server."""

import contextlib
import unittest

from torch_support import dist, torch_client

from store_support import RegroupServer, StoreError, running, tcp_driver
from torch.distributed.elastic.utils import store as elastic

WORLD = 4


class MixedGroup(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(RegroupServer())

    def driver(self):
        return self.enterContext(tcp_driver(self.server.port))

    def run_mixed(self, ours_is, ask_ours, ask_torch):
        """One call per rank, all at the same time. `ours_is(rank)`: that rank is ours. Results by rank."""
        results = {}
        with contextlib.ExitStack() as stack:
            handles = {}
            for rank in range(WORLD):
                call = (ask_ours, self.driver()) if ours_is(rank) else (ask_torch, torch_client(self.server.port))
                handles[rank] = stack.enter_context(running(call[0], call[1], rank))
            for rank, handle in handles.items():
                results[rank] = handle.result()
        return results

    def test_all_ranks_see_the_values_of_all(self):
        for first_is_ours in (True, False):
            prefix = f"sync{first_is_ours}/"
            results = self.run_mixed(
                lambda rank: (rank % 2 == 0) == first_is_ours,
                lambda ours, rank: ours.synchronize(prefix.encode(), rank, WORLD, b"\0value%d" % rank, 20000),
                lambda store, rank: elastic.synchronize(store, b"\0value%d" % rank, rank, WORLD, prefix, 20))
            for rank in range(WORLD):
                self.assertEqual(results[rank], [b"\0value%d" % other for other in range(WORLD)])

    def test_gather_and_get_all_meet(self):
        store = torch_client(self.server.port)
        for rank in range(WORLD):
            store.set(f"data{rank}", f"of {rank}")
        results = self.run_mixed(lambda rank: rank in (0, 3),
                                 lambda ours, rank: ours.gather(b"data", rank, WORLD, 20000),
                                 lambda client, rank: elastic.get_all(client, rank, "data", WORLD))
        self.assertEqual(set(map(tuple, results.values())), {tuple(b"of %d" % rank for rank in range(WORLD))})

    def test_the_barrier_opens_for_both_kinds(self):
        for name, ours_is in (("half", lambda rank: rank % 2 == 0), ("only last", lambda rank: rank == WORLD - 1)):
            self.run_mixed(ours_is,
                           lambda ours, rank: ours.group_barrier(name.encode(), WORLD, 20000, rank, 1000),
                           lambda store, rank: elastic.barrier(store, WORLD, name, 20, rank=rank))

    def test_our_rank_0_names_the_missing_ranks(self):
        def torch_rank(rank):
            with self.assertRaises(dist.DistStoreError) as raised:
                elastic.barrier(torch_client(self.server.port), WORLD, "gate", barrier_timeout=0.1, rank=rank)
            return str(raised.exception)

        with running(torch_rank, 2) as early:
            torch_client(self.server.port).wait(["gate2/TRACE"])  # It has been there and given up.
            with self.assertRaises(StoreError) as raised:
                self.driver().group_barrier(b"gate", WORLD, 100, 0, 200)
            early.result()
        self.assertEqual(raised.exception.kind, "timeout")
        missing = raised.exception.message.split("missing ranks")[1]
        self.assertRegex(missing, r"\b1\b.*\b3\b")
        self.assertNotRegex(missing, r"\b2\b")
        # PyTorch's ranks learn from ours that rank 0 knows more.
        self.assertIn("check rank 0", torch_rank(3))

    def test_pytorchs_rank_0_names_the_missing_ranks_among_ours(self):
        ours, store = self.driver(), torch_client(self.server.port)
        ours.start("group_barrier", b"gate", WORLD, 100, 1, 20000)
        store.wait(["gate1/TRACE"])
        with self.assertRaises(dist.DistStoreError) as raised:
            elastic.barrier(store, WORLD, "gate", barrier_timeout=0.1, rank=0, trace_timeout=0.2)
        missing = str(raised.exception).split("missing_ranks=")[1].split("]")[0]
        self.assertEqual(set(missing.strip("[").split(", ")), {"2", "3"})
        with self.assertRaises(StoreError) as raised:
            ours.finish()
        self.assertIn("see rank 0", raised.exception.message)

    def test_a_missing_rank_0_is_named(self):
        with self.assertRaises(StoreError) as raised:
            self.driver().group_barrier(b"gate", 2, 100, 1, 100)
        self.assertEqual(raised.exception.kind, "timeout")
        self.assertRegex(raised.exception.message, r"\[0\]")

    def test_without_a_rank_the_time_limit_is_told_plainly(self):
        with self.assertRaises(StoreError) as raised:
            self.driver().group_barrier(b"gate", 2, 100, "-", 100)
        self.assertEqual(raised.exception.kind, "timeout")


if __name__ == "__main__":
    unittest.main()
