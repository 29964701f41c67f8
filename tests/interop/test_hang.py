"""Real DDP training that hangs, or only seems to."""

import os
import shutil
import signal
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from run_support import LIMIT_S, Run  # noqa: E402

TRAINING = Path(__file__).with_name("hung_training.py")


def tool(name):
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


class HungTraining(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def train(self, stuck_rank, *flags, **env):
        with Run("--nproc-per-node", 4, "--log-dir", self.folder / "logs", *flags, TRAINING, stuck_rank,
                 self.folder / "checkpoint", env=env) as run:
            return run.finish(4 * LIMIT_S)

    def hangs(self, **env):
        # A busy machine may take long to begin; quiet for 5 s is nobody who imports PyTorch.
        code, _, err = self.train(2, "--hang-timeout", "5", "--hang-grace", "2", **env)
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"rank 2 on \S+ failed: hangs: it has written nothing, moved no data, used no CPU time")
        self.assertRegex(err, r"its Python stack, innermost first:\n    \S*hung_training.py:\d+ in (Samples.)?"
                              r"read_from_a_dead_mount\n    \S*hung_training.py:\d+ in (Samples.)?__getitem__\n")
        self.assertRegex(err, r"ranks 0, 1, 3 wait in the backward pass; rank 2 is in sleep\(\) at "
                              r"hung_training.py:\d+ \((Samples.)?read_from_a_dead_mount\) under DataLoader")

    def test_the_report_names_the_rank_and_shows_its_stack(self):
        self.hangs(TRAIN_DUMP="1", PATH="/nowhere")

    def test_the_same_without_a_word_in_the_script_where_py_spy_is_installed(self):
        spy = tool("py-spy")
        if spy is None:
            self.skipTest("py-spy is not installed beside the Python with PyTorch: pip install py-spy")
        self.hangs(PATH=os.path.dirname(spy))

    def test_a_slow_first_step_is_no_hang(self):
        # The grace is longer than anything a busy machine needs to begin, the step longer than the timeout.
        code, _, err = self.train(-1, "--hang-timeout", "3", "--hang-grace", "100", TRAIN_FIRST_STEP="10",
                                  TRAIN_CHECKPOINT="0")
        self.assertEqual(code, 0, err)
        self.assertNotIn("hang:", err)

    def test_a_long_checkpoint_is_no_hang(self):
        code, _, err = self.train(-1, "--hang-timeout", "5", "--hang-grace", "2", TRAIN_FIRST_STEP="0",
                                  TRAIN_CHECKPOINT="15")
        self.assertEqual(code, 0, err)
        self.assertNotIn("hang:", err)


if __name__ == "__main__":
    unittest.main()
