"""A few runs of chaos.py, whose plans are short: the program itself works, and these bad days end well."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

CHAOS = Path(__file__).resolve().parent / "chaos.py"
LIMIT_S = 300


def chaos(*arguments):
    return subprocess.run(
        [sys.executable, CHAOS, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
    )


class Chaos(unittest.TestCase):
    def test_these_days_end_well(self):
        done = chaos(*(word for seed in SEEDS for word in ("--replay", seed)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{len(SEEDS)} runs", done.stdout)

    def test_a_seed_says_all_that_is_done(self):
        plans = [chaos("--plan", SEEDS[0]).stdout for _ in range(2)]
        self.assertEqual(plans[0], plans[1])
        self.assertEqual(json.loads(plans[0])["seed"], SEEDS[0])


# Signals for node, workers and coordinator, a spare, a secret, rubbish,
# daemons, a terminal, consoles that nobody reads.
SEEDS = ["0:54", "0:136", "0:184", "0:323"]


if __name__ == "__main__":
    unittest.main()
