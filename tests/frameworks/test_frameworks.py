"""Trainings of well-known frameworks end equal under torchrun and under regroup (compare.py)."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import compare

PYTHON = os.environ.get("FRAMEWORKS_PYTHON")


class Frameworks(unittest.TestCase):
    def check(self, name):
        if not PYTHON:
            self.skipTest(f"{name}: FRAMEWORKS_PYTHON names no Python that has {compare.TRAININGS[name][0]}")
        if compare.version(PYTHON, name) is None:
            self.skipTest(
                f"{name}: no {compare.TRAININGS[name][0]} in {PYTHON}; pip install {compare.TRAININGS[name][0]}"
            )
        with tempfile.TemporaryDirectory() as folder:
            equal, seen = compare.compare(name, PYTHON, 2, Path(folder))
        self.assertTrue(equal, seen)

    def test_ddp(self):
        self.check("ddp")

    def test_fsdp2(self):
        self.check("fsdp2")

    def test_tensor_parallel(self):
        self.check("tensor_parallel")

    def test_dcp(self):
        self.check("dcp")

    def test_rpc(self):
        self.check("rpc")

    def test_accelerate(self):
        self.check("accelerate")

    def test_transformers(self):
        self.check("transformers")

    def test_lightning(self):
        self.check("lightning")

    def test_deepspeed(self):
        self.check("deepspeed")

    def test_torchx(self):
        self.check("torchx")

    def test_torchft(self):
        self.check("torchft")


if __name__ == "__main__":
    unittest.main()
