"""`make demo` with PyTorch: its workers recover, and the loss goes on falling."""

import sys
import unittest

from spawn_support import Spawn
from store_support import ROOT

LIMIT_S = 330.0  # The demo has a limit of its own, and says what it waited for.


class Demo(unittest.TestCase):
    def test_it_shows_a_recovery(self):
        demo = Spawn(env={"TORCH": "", "TORCH_PYTHON": sys.executable})
        demo.command = [sys.executable, ROOT / "dev/demo.py"]
        with demo:
            code, out, err = demo.finish(LIMIT_S)
            self.assertEqual(code, 0, out + err)
            self.assertEqual(demo.alive(), [])
        self.assertRegex(out, r"\| regroup: rank 3 on .* failed: killed by SIGKILL")
        self.assertRegex(out, r"\n.* \| begins at step [1-9]\d+, 4 ranks")
        self.assertRegex(out, r"\ndemo: 4 PyTorch workers \(DDP, gloo\), .* nothing is left running\.\n$")


if __name__ == "__main__":
    unittest.main()
