"""A part of PyTorch's own tests passes with regroup behind it (run.py has all of them)."""

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import run

SOURCE = os.environ.get("PYTORCH_SOURCE")
PYTHON = os.environ.get("FRAMEWORKS_PYTHON") or os.environ.get("TORCH_PYTHON")


class PytorchSuite(unittest.TestCase):
    def check(self, file):
        if not SOURCE or not PYTHON:
            self.skipTest(f"{file}: PYTORCH_SOURCE names no checkout of PyTorch, or TORCH_PYTHON no Python that has it")
        found = run.outcomes(SOURCE, PYTHON, file)
        failed = {name: one["why"] for name, one in found.items() if one["outcome"] == "failed" and not run.known(name)}
        self.assertEqual(failed, {})
        self.assertTrue(found)

    def test_the_store(self):
        self.check("test_store.py")

    def test_the_launcher(self):
        self.check("launcher/test_run.py")

    def test_the_rendezvous_at_our_store(self):
        self.check("elastic/rendezvous/c10d_rendezvous_backend_test.py")


if __name__ == "__main__":
    unittest.main()
