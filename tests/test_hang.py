"""Hangs found from outside (--hang-timeout), and the stacks that are taken before anybody is ended (--evidence)."""

import signal
import sys
import tempfile
import unittest
from pathlib import Path

from run_support import QUICK, Run, reserved_port, until
from spawn_support import WORKERS

STALL = WORKERS / "stall.py"
# Neither py-spy nor gdb: what /proc and the worker itself have to say.
NO_TOOLS = "/nowhere"


class HangTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_of(self, *arguments, workers=3, what="sleep", rank=1, env=None, flags=()):
        env = {"STALL_FOLDER": str(self.folder), "STALL_DUMP": "1", "PATH": NO_TOOLS, **(env or {})}
        return Run("--nproc-per-node", workers, "--log-dir", self.folder / "logs", *flags, *arguments,
                   STALL, what, rank, env=env)

    def finish(self, *arguments, **options):
        with self.run_of(*arguments, **options) as run:
            return run.finish()

    def stacks(self):
        return [file.read_text() for file in sorted((self.folder / "logs").rglob("stacks.txt"))]


SOON = ("--hang-timeout", "2", "--hang-grace", "0.5")


class OneNode(HangTest):
    def test_the_report_names_who_hangs_and_shows_its_stack(self):
        code, _, err = self.finish(*SOON)
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"hang: ranks? [0-2].* ha(s|ve) written nothing, moved no data, used no CPU time")
        self.assertRegex(err, r"rank 1 on \S+ failed: hangs: it has written nothing")
        self.assertRegex(err, r"its Python stack, innermost first:\n    \S*stall.py:\d+ in load\n")
        self.assertRegex(err, r"before the end: ranks 0, 2 are in read\(\) at stall.py:\d+ \(wait_for_others\); "
                              r"rank 1 is in sleep\(\) at stall.py:\d+ \(load\)")
        self.assertIn("ranks 0, 2: stopped because of it", err)
        self.assertNotIn("killed from outside", err)
        stacks, = self.stacks()
        for word in ("==== rank 0", "==== rank 1", "==== rank 2", "its faulthandler:", "in load", "state S"):
            self.assertIn(word, stacks)

    def test_without_any_help_the_kernel_says_where_they_are(self):
        code, _, err = self.finish(*SOON, env={"STALL_DUMP": ""})
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("rank 1 on", err)
        self.assertIn("ranks 0, 2 are in read(); rank 1 is in sleep()", err)
        self.assertNotIn("its Python stack", err)
        self.assertIn("for Python stacks the next time, which mostly tell which rank hangs: pip install py-spy", err)

    def test_nobody_is_named_where_nothing_tells(self):
        # Rank 1 waits for something of its own, and nothing that the kernel shows tells that from waiting for rank 0.
        code, _, err = self.finish(*SOON, workers=2, what="pipe", env={"STALL_DUMP": ""})
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"the run hangs: cannot tell which rank is to blame; workers have written nothing")
        self.assertIn("before the end: ranks 0, 1 are in read()", err)
        self.assertIn("which mostly tell which rank hangs: pip install py-spy", err)
        self.assertNotRegex(err, r"rank \d on \S+ failed")

    def test_the_first_rank_is_not_blamed_for_one_that_sleeps(self):
        code, _, err = self.finish(*SOON, workers=2, env={"STALL_DUMP": ""})
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"rank 1 on \S+ failed: hangs: it has written nothing")

    def test_a_restart_follows(self):
        code, _, err = self.finish(*SOON, "--max-restarts", "1", what="once")
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"rank 1 on \S+ failed: hangs: .*; restart 1 of 1")

    def test_without_the_flag_nobody_looks(self):
        with self.run_of() as run:
            self.assertTrue(until(lambda: len(run.workers()) == 3))
            self.assertFalse(until(lambda: not run.workers(), limit_s=3))
            run.signal(signal.SIGTERM)
            code, _, err = run.finish()
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertNotIn("hang", err)

    def test_a_long_checkpoint_is_no_hang(self):
        code, _, err = self.finish("--hang-timeout", "4", "--hang-grace", "0.5", what="checkpoint",
                                   env={"STALL_SECONDS": "12"})
        self.assertEqual(code, 0, err)
        self.assertNotIn("hang", err)

    def test_a_slow_first_step_is_no_hang(self):
        code, _, err = self.finish("--hang-timeout", "3", what="first-step", env={"STALL_SECONDS": "5"})
        self.assertEqual(code, 0, err)
        self.assertNotIn("hang", err)

    def test_what_prints_behind_a_shell_is_no_hang(self):
        script = "(for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo step; sleep 0.5; done) | cat"
        with Run("--hang-timeout", "4", "--hang-grace", "0.5", "--no-python", "/bin/sh", "-c", script) as run:
            code, _, err = run.finish()
        self.assertEqual(code, 0, err)
        self.assertNotIn("hang", err)

    def test_one_worker_alone(self):
        code, _, err = self.finish(*SOON, workers=1, rank=0)
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("rank 0 has written nothing", err)


class Evidence(HangTest):
    def test_never(self):
        code, _, err = self.finish(*SOON, "--evidence", "never", env={"STALL_DUMP": ""})
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"the run hangs: cannot tell which rank is to blame; workers have written nothing")
        self.assertNotIn("before the end", err)
        self.assertEqual(self.stacks(), [])

    def test_always_shows_where_the_others_were_when_one_failed(self):
        code, _, err = self.finish("--evidence", "always", what="fail")
        self.assertEqual(code, 3, err)
        # They have begun to wait; whether they sleep already is the scheduler's affair.
        self.assertRegex(err, r"before the end: .*at stall.py:\d+ \(wait_for_others\)")
        self.assertEqual(len(self.stacks()), 1)

    def test_a_failure_is_no_hang(self):
        code, _, err = self.finish(what="fail")
        self.assertEqual(code, 3, err)
        self.assertNotIn("before the end", err)
        self.assertEqual(self.stacks(), [])

    def tool(self, text, name="py-spy"):
        folder = self.folder / "bin"
        folder.mkdir()
        (folder / name).write_text(f"#!{sys.executable}\n{text}")
        (folder / name).chmod(0o755)
        return {"PATH": str(folder), "STALL_DUMP": ""}

    def spy(self, loading):
        """Shows the ranks of `loading` under a DataLoader, and the others in a collective."""
        return self.tool("import sys\n"
                         "environment = open(f'/proc/{sys.argv[3]}/environ').read().split('\\0')\n"
                         f"loads = any(f'RANK={{rank}}' in environment for rank in {loading})\n"
                         "print(f'Thread {sys.argv[3]} (idle): \"MainThread\"')\n"
                         "print('    fetch (loader.py:7)\\n    next (torch/utils/data/dataloader.py:1)' if loads else\n"
                         "      '    all_reduce (torch/distributed/distributed_c10d.py:1)')\n"
                         "print('    <module> (train.py:1)')")

    def test_a_tool_is_asked_for_every_rank(self):
        code, _, err = self.finish(*SOON, env=self.spy([1]))
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("rank 1 is in sleep() at loader.py:7 (fetch) under DataLoader", err)
        self.assertIn("    loader.py:7 in fetch", err)
        self.assertEqual(self.stacks()[0].count("-- py-spy:"), 3)

    def test_nobody_is_named_where_all_load(self):
        _, _, err = self.finish(*SOON, env=self.spy([0, 1, 2]))
        self.assertIn("rank 1 is in sleep() at loader.py:7 (fetch) under DataLoader", err)
        self.assertIn("cannot tell which rank is to blame", err)

    def test_gdb_is_asked_about_a_small_program_only(self):
        env = self.tool("print('#0  read () from libc.so.6')", name="gdb")
        _, _, err = self.finish(*SOON, env=env)
        self.assertEqual(self.stacks()[0].count("-- gdb:\n#0  read ()"), 3, err)
        # With libraries as large as PyTorch's it would not be done in time.
        _, _, err = self.finish(*SOON, env={**env, "STALL_CODE": str(64 << 20)})
        self.assertEqual(sorted(stacks.count("gdb") for stacks in self.stacks()), [0, 3], err)

    def test_a_tool_that_hangs_is_not_waited_for(self):
        code, _, err = self.finish(*SOON, env=self.tool("import time; time.sleep(1000)"))
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("(not done when the time was over)", self.stacks()[0])

    def test_a_tool_that_talks_without_end_is_not_listened_to(self):
        code, _, err = self.finish(*SOON, env=self.tool("while True: print('x' * 1000)"))
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertLess(len(self.stacks()[0]), 10_000_000)

    def test_a_log_directory_that_hangs_holds_nothing_up(self):
        code, _, err = self.finish(*SOON, env={"STALL_PIPE": "1"})
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"rank 1 on \S+ failed: hangs")
        self.assertRegex(err, r"rank 1 is in sleep\(\) at stall.py:\d+ \(load\)")
        self.assertNotIn("stacks of all:", err)

    def test_a_signal_while_stacks_are_taken_ends_it_at_once(self):
        env = self.tool(f"import time; open('{self.folder}/asked', 'a'); time.sleep(1000)")
        with self.run_of(*SOON, env=env) as run:
            self.assertTrue(until((self.folder / "asked").exists))
            run.signal(signal.SIGTERM)
            code, _, err = run.finish()
            self.assertEqual(code, 128 + signal.SIGTERM, err)
            self.assertEqual(run.alive(), [])

    def test_nobody_hears_a_signal_that_he_does_not_catch(self):
        code, _, err = self.finish(*SOON, "--dump-signal", "SIGUSR1", env={"STALL_DUMP": ""})
        self.assertRegex(err, r"rank 1 on \S+ failed: hangs")
        self.assertNotIn("SIGUSR1", err)
        self.assertEqual(code, 128 + signal.SIGKILL)

    def test_a_wrong_signal_is_refused(self):
        code, _, err = self.finish("--dump-signal", "SIGKILL")
        self.assertEqual(code, 2)
        self.assertIn("--dump-signal is 'SIGKILL'; it takes a signal that can be caught", err)


class TwoNodes(HangTest):
    def nodes(self, what, rank, **env):
        port = self.enterContext(reserved_port())
        common = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
                  "--rdzv-id", "hang", "--rdzv-conf", QUICK]
        return [self.run_of(*common, "--hang-timeout", "3", "--hang-grace", "0.5", what=what, rank=rank, workers=2,
                            env=env) for _ in range(2)]

    def test_the_node_whose_rank_hangs_is_to_blame(self):
        a, b = self.nodes("sleep", 3)
        with a, b:
            ends = [a.finish(), b.finish()]
        errs = [err for _, _, err in ends]
        blamed = [err for err in errs if "rank 3 on" in err and "failed: hangs" in err and "in load" in err]
        self.assertEqual(len(blamed), 1, errs)
        others = next(err for err in errs if err is not blamed[0])
        self.assertIn("failed on another node: rank 3", others)

    def test_a_node_whose_ranks_wait_for_another_does_not_hang(self):
        a, b = self.nodes("checkpoint", 0, STALL_SECONDS="12")
        with a, b:
            ends = [a.finish(), b.finish()]
        for code, _, err in ends:
            self.assertEqual(code, 0, err)
            self.assertNotIn("hang:", err)


if __name__ == "__main__":
    unittest.main()
