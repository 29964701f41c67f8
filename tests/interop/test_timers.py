"""PyTorch's file timers, unmodified, with our launcher; and our client with PyTorch's server."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch_support  # noqa: F401: first, it sets PyTorch's environment.
from run_support import Run, until
from spawn_support import WORKERS
from store_support import ROOT
from torch.distributed.elastic.timer import FileTimerServer

LIMIT_S = 180.0
TIMERS = WORKERS / "timers.py"


class TorchClients(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_worker(self, act, *flags, **env):
        return Run("--watchdog", *flags, TIMERS, act, self.folder,
                   env={"TMPDIR": self.folder, "CLIENT": "torch", "PYTHON_EXEC": sys.executable, **env})

    def finish(self, act, *flags, **env):
        with self.run_worker(act, *flags, **env) as run:
            return run.finish(LIMIT_S)

    def test_who_keeps_his_times_is_left_in_peace(self):
        code, _, err = self.finish("fine", "-n", "2")
        self.assertEqual(code, 0, err)

    def test_who_is_late_is_ended_and_started_again(self):
        code, _, err = self.finish("late", "-n", "2", "--max-restarts", "1")
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"rank 1 on .* failed: timer expired: scope stuck after .* s; restart 1 of 1")

    def test_many_clients_at_once_lose_nothing(self):
        code, out, err = self.finish("storm")
        self.assertEqual(out, "200 clients, 0 wrong", err)
        self.assertEqual(code, 0, err)


    def test_nor_if_the_launcher_is_killed_in_the_middle_and_started_again(self):
        env = {"TORCHELASTIC_TIMER_FILE": str(Path(self.folder) / "timers")}
        with self.run_worker("storm", **env) as first:
            self.assertTrue(until((Path(self.folder) / "storm.0").exists, LIMIT_S), "the storm did not begin")
            first.signal(signal.SIGKILL)
            first.process.wait()
            self.assertTrue(until(lambda: not first.alive()), "somebody of the first run lives on")
        code, out, err = self.finish("storm", **env)
        self.assertEqual(out, "200 clients, 0 wrong", err)
        self.assertEqual(code, 0, err)


class TorchServer(unittest.TestCase):
    def test_it_understands_our_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "pipe")
            server = FileTimerServer(path, "run", max_interval=0.05)
            server.start()
            self.addCleanup(server.stop)
            code = ("import sys, regroup\n"
                    "with regroup.expires(600, 'step \\u00e4'):\n"
                    "    print('in', flush=True); sys.stdin.readline()\n"
                    "regroup.timer.send(sys.argv[1], 'heartbeat', -1, 0, heartbeat=True)\n"
                    "print('out', flush=True); sys.stdin.readline()\n")
            with subprocess.Popen([sys.executable, "-c", code, path], text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE,
                                  env=dict(os.environ, PYTHONPATH=str(ROOT / "python"),
                                           TORCHELASTIC_TIMER_FILE=path)) as worker:
                self.assertEqual(worker.stdout.readline(), "in\n")
                self.assertTrue(until(lambda: server._timers))
                (pid, scope), timer = next(iter(server._timers.items()))
                self.assertEqual((pid, scope, timer.signal), (worker.pid, "step ä", signal.SIGKILL))
                worker.stdin.write("\n")
                worker.stdin.flush()
                self.assertEqual(worker.stdout.readline(), "out\n")
                self.assertTrue(until(lambda: not server._timers))
                self.assertTrue(until(lambda: server._request_count == 3))
                worker.stdin.close()


if __name__ == "__main__":
    unittest.main()
