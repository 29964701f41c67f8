"""Four real ranks of PyTorch meet on our server and train nothing, but talk to each other."""

import contextlib
import os
import subprocess
import sys
import unittest
from pathlib import Path

from store_support import RegroupServer

WORLD = 4
LIMIT_S = 120


@contextlib.contextmanager
def ended(process):
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class GlooRanksOnOurServer(unittest.TestCase):
    def run_ranks(self, form, agent_store):
        with RegroupServer() as server, contextlib.ExitStack() as stack:
            ranks = []
            for rank in range(WORLD):
                env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(server.port), OMP_NUM_THREADS="1")
                env.pop("TORCHELASTIC_USE_AGENT_STORE", None)
                if agent_store:  # Rank 0 too is a client: the port is ours.
                    env["TORCHELASTIC_USE_AGENT_STORE"] = "True"
                command = [sys.executable, Path(__file__).with_name("gloo_worker.py"), form]
                ranks.append(stack.enter_context(ended(subprocess.Popen(
                    command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, text=True))))
            outputs = [process.communicate(timeout=LIMIT_S)[0] for process in ranks]
            for rank, (process, output) in enumerate(zip(ranks, outputs)):
                self.assertEqual(process.returncode, 0, f"rank {rank}:\n{output}")
                self.assertIn("done", output)
            counters = server.counters()
            self.assertGreaterEqual(counters["ever"], WORLD)
            self.assertEqual((counters["clients"], counters["malformed"], counters["refused"]), (0, 0, 0))

    def test_with_a_tcp_address(self):
        self.run_ranks("tcp", agent_store=True)

    def test_with_the_environment_of_an_agents_workers(self):
        self.run_ranks("env", agent_store=True)

    def test_with_a_store_made_by_the_caller(self):
        self.run_ranks("store", agent_store=False)


if __name__ == "__main__":
    unittest.main()
