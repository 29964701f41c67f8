"""`regroup run` with real PyTorch: trainings survive what may befall their workers and nodes, and nodes of torchrun and
of ours are one run. (That the workers' environment is torchrun's is for test_run_differential.py.)

Every node is on this machine. What must hold is what a user counts on: every training goes on from its checkpoint and
ends with its last step, and everybody who was not told to go ends with 0. A loaded machine may need an attempt
more than a quiet one, so attempts are counted from below only. Trainings wait at certain steps until the test has done
what it wants to do there, so that no speed matters."""

import contextlib
import os
import re
import signal
import socket
import tempfile
import time
import unittest
from pathlib import Path

from torch_support import torch  # First: it sets PyTorch's environment.
from rendezvous_cli_support import reserved_port
from spawn_support import WORKERS
from store_support import ROOT
from torchrun_support import Ours, Server, Torchruns

LIMIT_S = 240.0
TRAIN = ROOT / "examples/train.py"
STEPS = 30
HELD = (10, 20)

# A node that dies is missed soon, and one that is only slow is not.
CONF = "last_call_timeout=1,keep_alive_interval=2,keep_alive_max_attempt=10"


def setUpModule():
    Server.get()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Training(unittest.TestCase):
    """Runs of tests/workers/steps.py. Its rank 0 says where it begins, what it has saved, and where it is done."""

    maxDiff = None

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.port = self.enterContext(reserved_port())
        self.checkpoint = self.folder / "checkpoint.pt"
        self.nodes = []

    def start(self, side, *flags, nnodes=2, count=1, host=None, conf=CONF, command=None, env=None):
        """One node more of the run. The first one hosts the store."""
        host = not self.nodes if host is None else host
        command = command or [WORKERS / "steps.py", self.checkpoint, STEPS, *HELD]
        flags = ["--nnodes", nnodes, "--nproc-per-node", count, "--rdzv-backend", "c10d", "--rdzv-id", "my.run_7",
                 "--rdzv-endpoint", f"localhost:{self.port}", "--rdzv-conf", f"is_host={str(host).lower()},{conf}",
                 "--max-restarts", 5, *flags]
        node = side(self.folder / str(len(self.nodes)), *flags, *command, env=env)
        self.nodes.append(self.enterContext(node))
        return node

    # --- what is seen ---

    def all_said(self):
        return "\n".join(f"--- node {at}, {type(node).__name__}, exit code {node.wait(0)}:\n{node.said()}"
                         for at, node in enumerate(self.nodes))

    def wait_until(self, condition, what):
        end = time.monotonic() + LIMIT_S
        in_vain = False
        while not (value := condition()):
            if in_vain or time.monotonic() > end:
                self.fail(f"{what}: not within {LIMIT_S} s, or before all had ended\n{self.all_said()}")
            in_vain = bool(self.nodes) and all(node.wait(0) is not None for node in self.nodes)  # One look more.
            time.sleep(0.05)  # The trainings need the processors.
        return value

    def begun(self):
        """(Step, ranks) of every attempt that has begun, whichever node rank 0 was on, the earliest step first."""
        return sorted((int(step), int(ranks)) for node in self.nodes
                      for step, ranks in re.findall(r"^begins at step (\d+), (\d+) ranks", node.said(), re.M))

    def wait_for_step(self, step):
        self.wait_until(lambda: any(f"\nstep {step}\n" in "\n" + node.said() for node in self.nodes), f"step {step}")

    def wait_for_attempt(self, step, ranks, more_than=0):
        """With so many ranks, from a checkpoint of that step."""
        self.wait_until(lambda: self.begun().count((step, ranks)) > more_than, f"{ranks} ranks at step {step}")

    def workers_of(self, node):
        """Pids of its workers by their global ranks."""
        found = {}
        for pid in node.workers():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if (rank := re.search(rb"(?:^|\0)RANK=(\d+)\0", environment)) and b"steps.py" in command:
                    found[int(rank[1])] = pid
        return found

    # --- what is done ---

    def go_on_from(self, *steps):
        for step in steps:
            Path(f"{self.checkpoint}.go{step}").touch()

    def kill_worker(self, node):
        """Its last one."""
        workers = self.wait_until(lambda: self.workers_of(node), "a worker to kill")
        os.kill(workers[max(workers)], signal.SIGKILL)

    def assert_trained(self, nodes=None, at_least=1):
        """By these nodes: to the end, in so many attempts or more."""
        nodes = nodes or self.nodes
        self.wait_until(lambda: all(node.wait(0) is not None for node in nodes), "the end")
        self.assertEqual([node.wait(0) for node in nodes], [0] * len(nodes), self.all_said())
        done = [step for node in self.nodes for step in re.findall(r"^done at step (\d+)", node.said(), re.M)]
        # Twice, if a worker was lost behind the last step.
        self.assertEqual(set(done), {str(STEPS)}, self.all_said())
        self.assertEqual(torch.load(self.checkpoint, weights_only=True)["step"], STEPS)
        self.assertGreaterEqual(len(self.begun()), at_least, self.all_said())


class OnTwoNodes(Training):
    def test_the_example_to_the_end(self):
        """Data-parallel, with an optimizer, as users write it."""
        command = [TRAIN, "--checkpoint", self.checkpoint, "--steps", STEPS]
        for _ in range(2):
            self.start(Ours, count=2, command=command)
        self.assert_trained()
        self.assertIn((0, 4), self.begun())

    def test_a_worker_is_killed(self):
        nodes = [self.start(Ours, count=2) for _ in range(2)]
        self.wait_for_step(HELD[0])
        self.kill_worker(nodes[1])
        self.wait_for_attempt(HELD[0], ranks=4)
        self.go_on_from(*HELD)
        self.assert_trained(at_least=2)

    def test_a_node_is_killed_and_comes_again(self):
        self.start(Ours)
        lost = self.start(Ours)
        self.wait_for_step(HELD[0])
        lost.signal(signal.SIGKILL)
        self.wait_until(lambda: not lost.workers(), "the end of its worker")
        again = self.start(Ours)
        self.wait_for_attempt(HELD[0], ranks=2)
        self.go_on_from(*HELD)
        self.assert_trained([self.nodes[0], again], at_least=2)


class Members(Training):
    """Nodes that come and go while it trains, of one to three."""

    def come_and_go(self, third, env=None):
        first = self.start(Ours, nnodes="1:3", env=env)
        self.wait_for_step(HELD[0])
        self.assertIn((0, 1), self.begun())
        second = self.start(Ours, nnodes="1:3", env=env)
        self.wait_for_attempt(HELD[0], ranks=2)
        guest = self.start(third, nnodes="1:3", env=env)
        self.wait_for_attempt(HELD[0], ranks=3)
        self.go_on_from(HELD[0])
        self.wait_for_step(HELD[1])
        guest.signal(signal.SIGTERM)
        self.wait_until(lambda: guest.wait(0) is not None, "the end of the third")
        self.assertEqual(guest.wait(0), 1, self.all_said())
        self.wait_for_attempt(HELD[1], ranks=2)
        self.go_on_from(HELD[1])
        self.assert_trained([first, second], at_least=4)

    def test_a_third_comes_and_goes(self):
        self.come_and_go(Ours)

    def test_torchrun_comes_and_goes(self):
        self.come_and_go(Torchruns)


class Mixed(Training):
    """One node is torchrun's, the other one ours. The first one hosts the rendezvous; the addresses say whose worker
    is rank 0, and with it which agent has the workers' store: 127.0.0.1 comes before localhost."""

    def begin(self, host, guest, first, env=None):
        nodes = []
        for side in (host, guest):
            nodes.append(self.start(side, "--local-addr", "127.0.0.1" if side is first else "localhost", env=env))
            self.wait_until(lambda: listens(self.port), "the store")
        return nodes

    def fail_on_both_sides(self, host, guest, first, **more):
        """When a worker is gone the one on the other node may fail too: each failure may cost either a restart."""
        nodes = self.begin(host, guest, first, **more)
        for node, step in zip(nodes[::-1], HELD):
            self.wait_for_step(step)
            self.kill_worker(node)
            self.wait_for_attempt(step, ranks=2)
            self.go_on_from(step)
        self.assert_trained(at_least=3)
        told = [type(node) for node in self.nodes if "done at step" in node.said()]
        self.assertEqual(told, [first], self.all_said())

    def test_torchrun_hosts_and_workers_are_killed(self):
        # torchrun's agent serves one store for all attempts: new workers would find the addresses of dead ones in it,
        # and wait for them. Among torchrun's own nodes it is the same. The switch makes a new one each time.
        self.fail_on_both_sides(Torchruns, Ours, first=Torchruns, env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})

    def test_we_host_and_workers_are_killed(self):
        self.fail_on_both_sides(Ours, Torchruns, first=Ours)

    def test_torchrun_hosts_its_shared_store(self):
        self.go_on_from(*HELD)
        self.begin(Torchruns, Ours, first=Torchruns)
        self.assert_trained()


if __name__ == "__main__":
    unittest.main()
