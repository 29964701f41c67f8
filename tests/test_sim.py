"""`regroup_sim` as its users meet it: its flags, its exit codes, and the same run for the same seed."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIM = Path(os.environ.get("REGROUP_BUILD", ROOT / "build/release")) / "regroup_sim"


def sim(*arguments):
    return subprocess.run([SIM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


class Mutants(unittest.TestCase):
    def test_each_finds_its_place_in_the_code(self):
        sys.path.insert(0, str(ROOT / "dev"))
        self.addCleanup(sys.path.remove, str(ROOT / "dev"))
        import mutants
        for mutant in mutants.mutants():
            with self.subTest(mutant.name):
                self.assertEqual((ROOT / mutant.file).read_text().count(mutant.old), 1)


class Replaying(unittest.TestCase):
    def test_two_runs_of_one_seed_leave_the_same_trace(self):
        for arguments in (["--seed=7301"], ["--seed=5", "--nodes=6", "--faults=heavy"],
                          ["--seed=9", "--nodes=4", "--torchrun-nodes=2"],
                          ["--seed=9", "--coordinator"], ["--seed=9", "--coordinator", "--nodes=7", "--faults=heavy"],
                          ["--seed=9", "--coordinator", "--nodes=5", "--torchrun-nodes=2"],
                          ["--seed=9", "--whole-nodes"], ["--seed=9", "--whole-nodes", "--nodes=7", "--faults=heavy"]):
            with self.subTest(arguments):
                first, second = sim(*arguments, "--trace"), sim(*arguments, "--trace")
                self.assertEqual(first.returncode, 0, first.stdout[-2000:])
                self.assertEqual(first.stdout, second.stdout)
                self.assertGreater(first.stdout.count("\n"), 20)

    def test_the_trace_is_a_timeline(self):
        lines = sim("--seed=12", "--nodes=3", "--faults=heavy", "--trace").stdout.split("\n")
        timeline = [line for line in lines if re.match(r" *\d+\.\d{3}  (n\d+(/\d+)?|world|store) ", line)]
        times = [float(line.split()[0]) for line in timeline]
        self.assertGreater(len(timeline), 20)
        self.assertEqual(times, sorted(times))
        text = "\n".join(timeline)
        for words in ("3 nodes,", "swap won: ", "joins the round → round 0: 1 of", "trains in round", "the faults stop"):
            self.assertIn(words, text)

    def test_another_seed_is_another_run(self):
        self.assertNotEqual(sim("--seed=1", "--trace").stdout, sim("--seed=2", "--trace").stdout)

    def test_without_trace_it_says_what_came_of_it(self):
        run = sim("--seed=3")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertTrue(run.stdout.startswith("seed 3: good\n1 runs, "), run.stdout)

    def test_steps_end_the_faults_early(self):
        def steps(*more):
            return int(re.search(r"(\d+) steps", sim("--seed=8", "--faults=heavy", *more).stdout)[1])
        self.assertLess(steps("--steps=100"), steps())


class Hunting(unittest.TestCase):
    def test_many_seeds_end_with_totals(self):
        run = sim("--seeds=1..40", "--steps=800")
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        self.assertTrue(run.stdout.startswith("seeds 1..40: all good\n40 runs, "), run.stdout)
        for word in ("steps", "virtual time", "rounds sealed", "swaps won", "messages lost", "crashes", "bound"):
            self.assertIn(word, run.stdout)


    def test_the_first_failure_is_told_with_the_line_that_replays_it(self):
        run = sim("--seeds=1..100", "--nodes=4", "--broken=hasty-sweeps")
        self.assertEqual((run.returncode, run.stderr), (1, ""), run.stdout)
        what, replay = run.stdout.split("\n")[:2]
        self.assertRegex(what, r"^seed \d+: n\d.* whose last heartbeat came .* the limit is ")
        self.assertRegex(replay, r"^replay: regroup_sim --seed=\d+ --nodes=4 --broken=hasty-sweeps --trace$")
        self.assertIn("rounds sealed", run.stdout)

        again = sim(*replay.split()[2:])
        self.assertEqual(again.returncode, 1)
        self.assertIn("WRONG: " + what.split(": ", 1)[1], again.stdout)


    def test_runs_with_a_coordinator(self):
        run = sim("--coordinator", "--seeds=1..60")
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        self.assertTrue(run.stdout.startswith("seeds 1..60: all good\n60 runs, "), run.stdout)

        run = sim("--coordinator", "--seeds=1..30", "--torchrun-nodes=2")
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        self.assertGreater(int(re.search(r"(\d+) swaps won", run.stdout)[1]), 100)

        run = sim("--coordinator", "--seeds=1..100", "--broken=keeps-workers")
        self.assertEqual((run.returncode, run.stderr), (1, ""), run.stdout)
        what, replay = run.stdout.split("\n")[:2]
        self.assertIn("runs the workers of round", what)
        self.assertRegex(replay, r"^replay: regroup_sim --seed=\d+ --coordinator --broken=keeps-workers --trace$")
        again = sim(*replay.split()[2:])
        self.assertEqual(again.returncode, 1)
        self.assertIn("WRONG: " + what.split(": ", 1)[1], again.stdout)

    def test_runs_of_whole_nodes(self):
        run = sim("--whole-nodes", "--seeds=1..100")
        self.assertEqual((run.returncode, run.stderr), (0, ""), run.stdout)
        self.assertTrue(run.stdout.startswith("seeds 1..100: all good\n100 runs, "), run.stdout)

        run = sim("--whole-nodes", "--seeds=1..100", "--broken=keeps-workers")
        self.assertEqual((run.returncode, run.stderr), (1, ""), run.stdout)
        what, replay = run.stdout.split("\n")[:2]
        self.assertIn("workers of", what)
        self.assertRegex(replay, r"^replay: regroup_sim --seed=\d+ --whole-nodes --broken=keeps-workers --trace$")
        again = sim(*replay.split()[2:])
        self.assertEqual(again.returncode, 1)
        self.assertIn("WRONG: " + what.split(": ", 1)[1], again.stdout)


class WrongStarts(unittest.TestCase):
    def assert_refused(self, run, *words):
        self.assertEqual((run.returncode, run.stdout), (2, ""), run)
        self.assertEqual(run.stderr.count("regroup_sim: "), 1, run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)

    def test_wrong_flags_are_named(self):
        self.assert_refused(sim("--colour=red", "--seed=1"), "--colour")
        self.assert_refused(sim("--seed=seven"), "seven")
        self.assert_refused(sim("--seeds=9..3"), "9..3", "1..2000")
        self.assert_refused(sim("--seed=1", "--faults=some"), "some", "none, light, heavy")
        self.assert_refused(sim("--seed=1", "--nodes=0"), "--nodes=0", "64")
        self.assert_refused(sim("--seed=1", "--steps=0"), "--steps=0")
        self.assert_refused(sim("--seed=1", "--nodes=2", "--torchrun-nodes=3"), "--torchrun-nodes=3")
        self.assert_refused(sim("--seed=1", "--coordinator", "--nodes=3", "--torchrun-nodes=3"), "--torchrun-nodes=3", "session")
        self.assert_refused(sim("--seed=1", "--coordinator", "--whole-nodes"), "--whole-nodes", "--coordinator")
        self.assert_refused(sim("--seed=1", "--whole-nodes", "--torchrun-nodes=1"), "--torchrun-nodes", "session")

    def test_one_seed_or_many_must_be_given(self):
        self.assert_refused(sim(), "--seed", "--seeds")
        self.assert_refused(sim("--seed=1", "--seeds=1..2"), "--seed", "--seeds")
        self.assert_refused(sim("--seeds=1..2", "--trace"), "--trace")

    def test_help_helps_and_the_docs_name_every_flag(self):
        run = sim("--help")
        self.assertEqual(run.returncode, 0)
        flags = set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", run.stdout, re.M)) - {"--help"}
        self.assertIn("--torchrun-nodes", flags)
        in_docs = set(re.findall(r"^\| `(--[a-z-]+)`", (ROOT / "docs/simulator.md").read_text(), re.M))
        self.assertEqual(flags, in_docs)


if __name__ == "__main__":
    unittest.main()
