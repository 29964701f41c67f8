"""What agents tell each other once they have their ranks: PyTorch's own agents and ours in one round."""

import concurrent.futures
import contextlib
import subprocess
import unittest
from datetime import timedelta

from store_support import BUILD, LIMIT_S, RegroupServer
from torch_support import dist, torch_client, torch_server

from torch.distributed.elastic.agent.server import api  # noqa: E402
from torch.distributed.elastic.utils import store as store_util  # noqa: E402

DRIVER = BUILD / "test/rendezvous_driver"
# Two roles, five nodes, 15 workers; and one with names that JSON must escape.
ROUNDS = {
    "two roles": [("ps", 4), ("trainer", 1), ("trainer", 2), ("trainer", 3), ("ps", 5)],
    "one role": [("default", 8), ("default", 8)],
    "one node": [("default", 2)],
    "odd names": [('a"b\\', 1), ("Ä\n", 2), ("", 3)],
}


def expected(nodes):
    """(base global rank, world size, base role rank, role world size) of each node."""
    sizes = [size for _, size in nodes]

    def in_role(name, these):
        return sum(size for role, size in these if role == name)

    return [(sum(sizes[:place]), sum(sizes), in_role(role, nodes[:place]), in_role(role, nodes))
            for place, (role, _) in enumerate(nodes)]


def ours(port, prefix, rank, world_size, role, size):
    done = subprocess.run([DRIVER, "exchange", f"endpoint=127.0.0.1:{port}", f"prefix={prefix}", f"rank={rank}",
                           f"world_size={world_size}", f"role={role}", f"local_world_size={size}"],
                          capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    ranks, end = done.stdout.splitlines()
    assert end == "done"
    return tuple(map(int, ranks.split()))


def pytorchs(port, prefix, rank, world_size, role, size):
    store = dist.PrefixStore(prefix, torch_client(port, timedelta(seconds=LIMIT_S)))
    spec = api.WorkerSpec(role=role, local_world_size=size, rdzv_handler=None, fn=print)
    first = api.SimpleElasticAgent._assign_worker_ranks(None, store, rank, world_size, spec)[0]
    store_util.barrier(store=store, world_size=world_size, key_prefix=api._TERMINAL_STATE_SYNC_ID,
                       barrier_timeout=LIMIT_S)
    return first.global_rank, first.world_size, first.role_rank, first.role_world_size


class Exchange:
    def test_every_node_gets_pytorchs_ranks_whoever_is_rank_0(self):
        for name, nodes in ROUNDS.items():
            for kinds in ((ours, pytorchs), (pytorchs, ours), (ours, ours), (pytorchs, pytorchs)):
                with self.subTest(name, kinds=[kind.__name__ for kind in kinds]), self.server() as port, \
                        concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
                    prefix = "torch.rendezvous.run.3"
                    asked = [pool.submit(kinds[rank % 2], port, prefix, rank, len(nodes), role, size)
                             for rank, (role, size) in enumerate(nodes)]
                    self.assertEqual([answer.result() for answer in asked], expected(nodes))


@contextlib.contextmanager
def our_server():
    with RegroupServer() as server:
        yield server.port


class OnOurServer(Exchange, unittest.TestCase):
    server = staticmethod(our_server)


class OnPyTorchsServer(Exchange, unittest.TestCase):
    server = staticmethod(torch_server)


if __name__ == "__main__":
    unittest.main()
