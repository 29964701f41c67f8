"""`regroup run` with real PyTorch: its workers' environment is torchrun's, examples/train.py survives what may
befall it, and nodes of torchrun and of ours are one run.

Every node is on this machine."""

import contextlib
import json
import os
import re
import signal
import socket
import sys
import tempfile
import unittest
from pathlib import Path

from torch_support import torch  # First: it sets PyTorch's environment.
from spawn_support import Spawn, until, worker
from store_support import BINARY, ROOT

LIMIT_S = 120.0
TRAIN = ROOT / "examples/train.py"
STEPS = 200
RUN_ID = "my.run_7"

# With it torchrun does not warn that it sets it, and two cores are enough for all.
QUIET = {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "PYTHON_EXEC": sys.executable}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Node(Spawn):
    """A running agent with its workers, until the block ends. What it and they say goes into a file."""

    LAUNCHER = [BINARY, "run"]

    def __init__(self, output, *arguments, env=None, **more):
        self.output = Path(output)
        super().__init__(env={**QUIET, **(env or {})}, **more)
        self.command = [*map(str, self.LAUNCHER), *map(str, arguments)]

    def __enter__(self):
        with open(self.output, "ab") as file:
            self.popen.update(stdout=file, stderr=file)
            return super().__enter__()

    def said(self):
        return self.output.read_text(errors="replace")

    def ranks(self):
        """Pids of its workers by their global ranks."""
        found = {}
        for pid in self.alive():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if (rank := re.search(rb"(?:^|\0)RANK=(\d+)\0", environment)) and str(TRAIN).encode() in command:
                    found[int(rank[1])] = pid
        return found


class Ours(Node):
    """Of `regroup run`."""


class Torchruns(Node):
    LAUNCHER = [sys.executable, "-m", "torch.distributed.run"]


class RunTestCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.folder = Path(folder)
        self.port = free_port()
        self.nodes = []

    def start(self, side, *arguments, conf="", nnodes=2, count=1, command, **more):
        """One node more of the run."""
        flags = ["--nnodes", nnodes, "--nproc-per-node", count, "--rdzv-backend", "c10d", "--rdzv-id", RUN_ID,
                 "--rdzv-endpoint", f"localhost:{self.port}", *(("--rdzv-conf", conf) if conf else ())]
        node = side(self.folder / f"{len(self.nodes)}.out", *flags, *arguments, *command, **more)
        self.nodes.append(self.enterContext(node))
        return node

    def all_said(self):
        return "\n".join(f"--- node {at}, {type(node).__name__}, exit code {node.process.poll()}:\n{node.said()}"
                         for at, node in enumerate(self.nodes))

    def wait(self, condition, what, limit_s=LIMIT_S):
        value = until(condition, limit_s)
        self.assertTrue(value, f"{what}: not within {limit_s} s\n{self.all_said()}")
        return value

    def assert_all_end(self, nodes=None):
        nodes = nodes or self.nodes
        self.wait(lambda: all(node.process.poll() is not None for node in nodes), "the end")
        self.assertEqual([node.process.returncode for node in nodes], [0] * len(nodes), self.all_said())


# --- the environment ---------------------------------------------------------------------------------

class Environment(RunTestCase):
    OWN = {  # Every run has its own; what is right for it.
        # The name of this machine as PyTorch finds it; we hand on the address, which needs no name service.
        "MASTER_ADDR": r"^\S+$",
        "MASTER_PORT": r"^[1-9]\d*$",
        "TORCHELASTIC_ERROR_FILE": r"^/.*/torchelastic_\w+/[^/]+_\w+/attempt_0/[01]/error\.json$",
        "REGROUP_TEST_WORD": ".",
    }

    def compare(self, *arguments, nodes=1, without=(), own=None):
        """Runs both launchers at once with the same arguments, each with a port of its own. Gives our environments
        by rank."""
        folders = []
        for side in (Torchruns, Ours):
            folders.append(self.folder / side.__name__)
            folders[-1].mkdir()
            words = [str(word).replace("PORT", str(free_port())) for word in arguments]
            for _ in range(nodes):
                node = side(self.folder / f"{len(self.nodes)}.out", *words, *worker("tell")[2:], folders[-1])
                for name in without:
                    node.env.pop(name, None)
                self.nodes.append(self.enterContext(node))
        self.assert_all_end()
        theirs, ours = ({int(file.stem): json.loads(file.read_text())["environment"] for file in folder.glob("*.json")}
                        for folder in folders)
        self.assertEqual(theirs.keys(), ours.keys())
        for rank in theirs:
            for name, pattern in {**self.OWN, **(own or {})}.items():
                self.assertRegex(theirs[rank].pop(name), pattern, name)
                self.assertRegex(ours[rank].pop(name), pattern, name)
            self.assertEqual(theirs[rank], ours[rank], f"rank {rank}")
        return ours

    def test_alone(self):
        # Without a run id each makes one up.
        ours = self.compare("--nproc-per-node", 2, without=["OMP_NUM_THREADS", "TORCH_NCCL_ASYNC_ERROR_HANDLING"],
                            own={"TORCHELASTIC_RUN_ID": r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"})
        self.assertEqual([ours[rank]["LOCAL_RANK"] for rank in (0, 1)], ["0", "1"])
        self.assertEqual(ours[0]["OMP_NUM_THREADS"], "1")

    def test_two_nodes(self):
        ours = self.compare("--nnodes", 2, "--nproc-per-node", 2, "--rdzv-backend", "c10d", "--rdzv-id", RUN_ID,
                            "--rdzv-endpoint", "localhost:PORT", "--max-restarts", 3, "--role", "trainer", nodes=2)
        self.assertEqual([ours[rank]["GROUP_RANK"] for rank in range(4)], ["0", "0", "1", "1"])
        self.assertEqual({ours[rank]["TORCHELASTIC_USE_AGENT_STORE"] for rank in range(4)}, {"True"})


# --- training ----------------------------------------------------------------------------------------

class Training(RunTestCase):
    """Runs of examples/train.py. Its rank 0 says where it begins, what it has saved, and where it is done."""

    def train(self, side, *flags, pause=0.01, **more):
        self.checkpoint = self.folder / "checkpoint.pt"
        return self.start(side, *flags, command=[TRAIN, "--checkpoint", self.checkpoint, "--steps", STEPS,
                                                 "--pause", pause], **more)

    def steps(self, pattern):
        """The steps that were told of so, on whichever node rank 0 was."""
        return [int(step) for node in self.nodes for step in re.findall(rf"^{pattern} (\d+)", node.said(), re.M)]

    def wait_for_step(self, step):
        self.wait(lambda: max(self.steps("step"), default=0) >= step, f"step {step}")

    def assert_trained(self, begun):
        """To the end, once, in so many attempts, each one after the first from a checkpoint."""
        self.assertEqual(self.steps("done at step"), [STEPS], self.all_said())
        self.assertEqual(torch.load(self.checkpoint, weights_only=True)["step"], STEPS)
        first, *again = sorted(self.steps("begins at step"))
        self.assertEqual((first, len(again)), (0, begun - 1), self.all_said())
        self.assertTrue(all(step >= 50 for step in again), self.all_said())

    def kill_worker(self, node):
        """Its last one."""
        ranks = node.ranks()
        self.assertTrue(ranks, self.all_said())
        os.kill(ranks[max(ranks)], signal.SIGKILL)


class OnTwoNodes(Training):
    def test_to_the_end(self):
        for _ in range(2):
            self.train(Ours, count=2, pause=0)
        self.assert_all_end()
        self.assert_trained(begun=1)
        self.assertIn("begins at step 0, 4 ranks", self.all_said())

    def test_a_worker_is_killed(self):
        nodes = [self.train(Ours, "--max-restarts", 3, count=2) for _ in range(2)]
        self.wait_for_step(50)
        self.kill_worker(nodes[1])
        self.assert_all_end()
        self.assert_trained(begun=2)

    def test_a_node_is_killed_and_comes_again(self):
        conf = "keep_alive_interval=1,keep_alive_max_attempt=3"
        flags = ["--max-restarts", 3]
        self.train(Ours, *flags, conf=conf + ",is_host=true")
        lost = self.train(Ours, *flags, conf=conf + ",is_host=false")
        self.wait_for_step(50)
        self.assertEqual(len(lost.ranks()), 1, self.all_said())
        lost.process.kill()
        self.wait(lambda: not lost.ranks(), "the end of its worker")
        self.train(Ours, *flags, conf=conf + ",is_host=false")
        self.assert_all_end([self.nodes[0], self.nodes[2]])
        self.assert_trained(begun=2)


class Mixed(Training):
    """One node is torchrun's, the other one ours. The first one hosts the rendezvous; the addresses say whose worker
    is rank 0, and with it which agent has the workers' store: 127.0.0.1 comes before localhost."""

    def begin(self, host, guest, *flags, first, **more):
        nodes = []
        for side, is_host in ((host, "true"), (guest, "false")):
            address = "127.0.0.1" if side is first else "localhost"
            nodes.append(self.train(side, "--local-addr", address, *flags, conf=f"is_host={is_host}", **more))
            self.wait(lambda: listens(self.port), "the store")
        return nodes

    def assert_trained(self, begun, first):
        super().assert_trained(begun)
        told = [type(node) for node in self.nodes if "done at step" in node.said()]
        self.assertEqual(told, [first], self.all_said())

    def test_torchrun_hosts(self):
        self.begin(Torchruns, Ours, first=Torchruns, pause=0)
        self.assert_all_end()
        self.assert_trained(begun=1, first=Torchruns)

    def test_we_host(self):
        self.begin(Ours, Torchruns, first=Ours, pause=0)
        self.assert_all_end()
        self.assert_trained(begun=1, first=Ours)

    def fail_on_both_sides(self, host, guest, first, **more):
        """When a worker is gone the one on the other node fails too: each failure may cost either node a restart."""
        nodes = self.begin(host, guest, "--max-restarts", 2, first=first, pause=0.02, **more)
        for node, step in zip(nodes[::-1], (50, 110)):
            self.wait_for_step(step)
            self.kill_worker(node)
        self.assert_all_end()
        self.assert_trained(begun=3, first=first)

    def test_torchrun_hosts_and_workers_are_killed(self):
        # With the store of torchrun's agent shared, as it is by default, new workers were seen to fail or to wait for
        # each other; most likely they find the addresses of the dead ones in it. Its switch makes a new store for
        # every attempt.
        self.fail_on_both_sides(Torchruns, Ours, first=Torchruns, env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})

    def test_we_host_and_workers_are_killed(self):
        self.fail_on_both_sides(Ours, Torchruns, first=Ours)


if __name__ == "__main__":
    unittest.main()
