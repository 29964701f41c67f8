"""The examples and the demo do what they say, without PyTorch."""

import os
import re
import signal
import sys
import tempfile
import unittest
from pathlib import Path

from run_support import Run
from spawn_support import LIMIT_S, Spawn, until
from store_support import BINARY, ROOT

EXAMPLES = Path(os.environ["REGROUP_BUILD"]) / "examples"
DEMO_LIMIT_S = 240.0


class Program(Spawn):
    """A program with all that it starts, until the block ends; then nothing of it may live, and what does is killed."""

    def __init__(self, *command, env=None, **popen):
        super().__init__(env=env, **popen)
        self.command = list(map(str, command))
        for name in [name for name in self.env if name.startswith(("PET_", "TORCHELASTIC_"))]:
            del self.env[name]


class ExampleTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.checkpoint = self.folder / "checkpoint"

    def start(self, *command, **more):
        return self.enterContext(Program(*command, **more))

    def finish(self, *command, **more):
        """Exit code, standard output and standard error, when nothing of it lives any more."""
        program = self.start(*command, **more)
        done = program.finish(DEMO_LIMIT_S)
        self.assertTrue(until(lambda: not program.alive()), "somebody of it lives on")
        return done

    def stand_in(self, *flags):
        return [EXAMPLES / "stand_in", "--checkpoint", self.checkpoint, *flags]

    def under_regroup(self, workers, *flags):
        return [BINARY, "run", "--nproc-per-node", workers, "--max-restarts", 3, "--no-python", *self.stand_in(*flags)]

    def losses(self, text):
        return [float(loss) for loss in re.findall(r"^step \d+ loss ([\d.]+)$", text, re.M)]


class ThreadWorkers(ExampleTest):
    def test_a_backend_of_ones_own_is_restarted_like_any_other(self):
        code, out, err = self.finish(EXAMPLES / "thread_workers", 3)
        self.assertEqual(code, 0, err)
        self.assertEqual(err, "rank 0 failed: the loss is not a number\n")
        self.assertEqual(sorted(out.splitlines()), ["done after 1 restarts"] + [f"rank {n} of 3 is done" for n in range(3)])


class StandIn(ExampleTest):
    def test_it_learns_and_goes_on_where_it_ended(self):
        code, out, err = self.finish(*self.under_regroup(2, "--steps", 100))
        self.assertEqual(code, 0, err)
        self.assertIn("begins at step 0, 2 ranks, restart 0\nstep 10 loss ", out)
        self.assertTrue(out.endswith("done at step 100\n"), out)
        first = self.losses(out)
        self.assertLess(first[-1], first[0] / 10)
        code, out, err = self.finish(*self.under_regroup(3, "--steps", 200))
        self.assertEqual(code, 0, err)
        self.assertIn("begins at step 100, 3 ranks, restart 0\nstep 110 loss ", out)
        self.assertLess(self.losses(out)[-1], first[-1])
        self.assertEqual(os.listdir(self.folder), ["checkpoint"])

    def test_a_killed_worker_costs_the_steps_since_the_last_checkpoint(self):
        run = self.enterContext(Run("--nproc-per-node", 2, "--max-restarts", 3, "--no-python",
                                    *self.stand_in("--steps", 1_000_000_000)))
        run.out.until("^step 20 loss")
        os.kill(until(lambda: self.worker_of_rank(run, 1)), signal.SIGKILL)
        run.err.until(r"^regroup: rank 1 on .* failed: killed by SIGKILL.*; restart 1 of 3$")
        again = int(run.out.until(r"^begins at step (\d+), 2 ranks, restart 1$")[1])
        self.assertGreaterEqual(again, 20)
        self.assertEqual(int(run.out.until(r"^step (\d+) loss")[1]), again + 10)
        run.signal(signal.SIGTERM)
        self.assertEqual(run.finish()[0], 128 + signal.SIGTERM)

    def worker_of_rank(self, program, rank):
        for pid in program.workers():
            try:
                if f"RANK={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    return pid
            except OSError:
                pass
        return None

    def test_alone_it_says_what_is_missing(self):
        code, _, err = self.finish(*self.stand_in())
        self.assertEqual(code, 1)
        self.assertIn("RANK is not set: start this with regroup run", err)

    def test_the_launcher_knows_why_it_failed(self):
        self.checkpoint.write_text("rubbish")
        code, _, err = self.finish(BINARY, "run", "--no-python", *self.stand_in())
        self.assertEqual(code, 1)
        self.assertIn(f"{self.checkpoint} is no checkpoint", err)


class Embed(ExampleTest):
    def embed(self, workers, *command):
        return self.finish(EXAMPLES / "embed", workers, *command)

    def test_it_runs_workers(self):
        code, out, err = self.embed(2, *self.stand_in("--steps", 50))
        self.assertEqual(code, 0, err)
        self.assertTrue(out.endswith("done at step 50\nembed: done, after 0 restarts\n"), out)
        self.assertIn("embed: round 0, 1 nodes\nembed: the workers run\n", err)

    def test_it_restarts_them(self):
        code, out, err = self.embed(1, "sh", "-c", 'exit "$((3 - 3 * $TORCHELASTIC_RESTART_COUNT))"')
        self.assertEqual((code, out), (0, "embed: done, after 1 restarts\n"), err)
        self.assertIn("embed: rank 0 failed: ended with exit code 3; restart 1 of 3\n", err)

    def test_it_fails_when_they_fail_for_good(self):
        code, out, err = self.embed(2, "sh", "-c", "exit 3")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("embed: failed for good: ended with exit code 3\n", err)

    def test_it_says_what_it_wants(self):
        self.assertEqual(self.embed(0, "true"), (2, "", "embed: usage: embed WORKERS COMMAND [ARGUMENTS...]\n"))


class Demo(ExampleTest):
    def demo(self, **environment):
        return Program(sys.executable, ROOT / "dev/demo.py", env={"TORCH": "none", "TORCH_PYTHON": "", **environment})

    def test_it_shows_a_recovery(self):
        with self.demo() as demo:
            code, out, err = demo.finish(DEMO_LIMIT_S)
            self.assertEqual(code, 0, out + err)
            self.assertEqual(demo.alive(), [])
        self.assertIn("No PyTorch here (TORCH=none was asked for): a stand-in in C++ takes its place", out)
        self.assertRegex(out, r"== kill -9 \d+: the worker with rank 3, on node [AB]\n")
        self.assertRegex(out, r"\| regroup: rank 3 on .* failed: killed by SIGKILL")
        self.assertRegex(out, r"\ndemo: 4 stand-in workers \(no PyTorch here\), .* nothing is left running\.\n$")

    def test_ctrl_c_leaves_nothing_behind(self):
        with self.demo() as demo:
            until(lambda: demo.workers() and len(demo.alive()) > 4)
            demo.process.send_signal(signal.SIGINT)
            code, out, err = demo.finish(DEMO_LIMIT_S)
            self.assertEqual(code, 130, out + err)
            self.assertTrue(err.endswith("demo: stopped; nothing is left running\n"), err)
            self.assertTrue(until(lambda: not demo.alive(), LIMIT_S))

    def test_it_fails_if_there_is_no_recovery(self):
        with self.demo(REGROUP_BIN="/bin/false") as demo:
            code, out, err = demo.finish(DEMO_LIMIT_S)
        self.assertEqual(code, 1, out)
        self.assertTrue(err.endswith("demo: failed: a node ended before step 40\n"), err)


if __name__ == "__main__":
    unittest.main()
