"""Every benchmark still runs and gives numbers. How large they are is none of a test's business."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ALONE = "it measures, and what runs beside it would be slower for it"  # dev/test.py reads this.
ROOT = Path(__file__).resolve().parent.parent
# Rows of PyTorch: 2 operations x 3 numbers of clients x 4 metrics, 2 of connecting, 1 of meeting, 1 of meeting at a
# coordinator. Of Redis: 3 operations x 2. Of torchrun: 3 metrics of output, 4 of launching, 2 of two nodes; 1 more where
# this machine can play two. The machine itself, and few nodes beside many: always there. Timers: 6 beside PyTorch's.
ROWS = {"PyTorch": 34, "Redis": 6, "4 nodes": 10, "torchrun": 9, "torchrun on two machines": 1,
        "a bare fork and exec": 2, "a wake-up by a pipe": 2, "a reading of the clock": 2}
ALWAYS_THERE = ("4 nodes", "a bare fork and exec", "a wake-up by a pipe", "a reading of the clock")


def run_bench(*flags, **environment):
    """(exit status, output, report)"""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        done = subprocess.run([sys.executable, ROOT / "bench/run.py", "--quick", "--json", file, *flags],
                              env=dict(os.environ, **environment), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout, json.loads(file.read_text()) if file.exists() else None


class QuickBench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.status, cls.output, cls.report = run_bench()

    def check_rows_beside(self, peer):
        self.assertEqual(self.status, 0, self.output)
        rows = [row for row in self.report["rows"] if row["peer_name"] == peer]
        if not rows:
            missing = {"torchrun": "PyTorch", "torchrun on two machines": "to run it"}.get(peer, peer).lower()
            reasons = {skip["reason"] for skip in self.report["skipped"] if missing in skip["reason"].lower()}
            self.assertEqual(len(reasons), 1, self.output)
            self.skipTest(reasons.pop())
        self.assertEqual(len(rows), ROWS[peer], self.output)
        for row in rows:
            with self.subTest(row=row["name"]):
                for number in [row["median"], row["lowest"], row["highest"], *row["ours"], *row["peer"]]:
                    self.assertTrue(math.isfinite(number))
                self.assertIn(f"{row['name']}:", self.output)
                self.assertIsNone(row["reached"])

    def test_every_row_beside_pytorch_has_numbers(self):
        self.check_rows_beside("PyTorch")

    def test_every_row_beside_redis_has_numbers(self):
        self.check_rows_beside("Redis")

    def test_every_row_beside_torchrun_has_numbers(self):
        self.check_rows_beside("torchrun")

    def test_the_row_of_two_machines_has_numbers(self):
        self.check_rows_beside("torchrun on two machines")

    def test_every_row_beside_the_machine_or_ourselves_has_numbers(self):
        for peer in ALWAYS_THERE:
            self.check_rows_beside(peer)

    def test_no_verdict_from_so_short_a_run(self):
        self.assertNotIn("target", self.output)


class BenchRendezvous(unittest.TestCase):
    def test_prints_json_for_so_many_nodes(self):
        done = subprocess.run([ROOT / "bench/bench_rendezvous", "--nodes=8", "--json", "--turns=2", "--quick",
                               "--no-peer"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["nodes"], len(report["turns"])), (8, 2))
        for turn in report["turns"]:
            self.assertGreater(turn["join to all sealed"], 0)
            # Join, and sealed. On a very slow machine a node is also told what it waits for.
            self.assertGreaterEqual(turn["messages per node to join"], 2)
            # Whose connection is lost is pardoned for so long.
            self.assertGreaterEqual(turn["one lost to all sealed again"], 0.1)


class Selection(unittest.TestCase):
    def test_rows_without_a_peer_are_named_with_what_would_make_them_run(self):
        with tempfile.TemporaryDirectory() as empty:
            # Only what dev/torch-python itself needs: no Redis.
            for tool in ("sh", "dirname"):
                Path(empty, tool).symlink_to(shutil.which(tool))
            status, output, report = run_bench(TORCH="none", TORCH_PYTHON="", PATH=empty)
        self.assertEqual(status, 0, output)
        self.assertEqual({row["peer_name"] for row in report["rows"]}, set(ALWAYS_THERE))
        self.assertEqual(len(report["rows"]) + len(report["skipped"]), sum(ROWS.values()))
        for skip in report["skipped"]:
            self.assertIn("to run it: ", skip["reason"])
            self.assertIn(f"  {skip['name']}\n", output)

    def test_a_pattern_that_names_no_row_fails(self):
        status, output, _ = run_bench("--only", "no such row", TORCH="none", TORCH_PYTHON="")
        self.assertEqual(status, 1)
        self.assertIn("no row is called like 'no such row'", output)


if __name__ == "__main__":
    unittest.main()
