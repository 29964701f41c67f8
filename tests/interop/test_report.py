"""`--report torchrun` next to the report of torchrun itself, byte for byte, but for times, pids, paths and the host."""

import re
import sys
import tempfile
import unittest
from pathlib import Path

from torch_support import VERSION  # First: it sets PyTorch's environment.
from run_support import Run
from spawn_support import Spawn

LIMIT_S = 240.0
HEAD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"

WORKER = """
import os, signal, sys, time
from torch.distributed.elastic.multiprocessing.errors import record

def first():
    return os.environ["LOCAL_RANK"] == "0"

def others_wait():
    while not first():
        time.sleep(0.1)

def exits():
    others_wait()
    sys.exit(3)

def killed():
    others_wait()
    os.kill(os.getpid(), signal.SIGKILL)

@record
def raises():
    others_wait()
    raise ValueError("schön\\nzwei Zeilen")

globals()[sys.argv[1]]()
"""


class Torchrun(Spawn):
    def __init__(self, *arguments):
        super().__init__(env={"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"})
        self.command = [sys.executable, "-m", "torch.distributed.run", *map(str, arguments)]


def report_in(text):
    """The report, its times, pids, paths and hosts replaced."""
    _, head, rest = text.partition(HEAD)
    lines = rest.split("\n")
    assert head and set(lines[0]) == {"="}, text
    report = "\n".join(lines[:lines.index(lines[0], 1) + 1])
    for pattern, replacement in (
            (r"(?m)^(  time      : )\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d$", r"\1TIME"),
            (r"(?m)^(  host      : )\S+$", r"\1HOST"),
            (r"\(pid: \d+\)", "(pid: PID)"), (r"by PID \d+", "by PID PID"),
            (r"(?m)^(  error_file: )/\S+/attempt_0/(\d)/error\.json$", r"\1PATH/\2")):
        report = re.sub(pattern, replacement, report)
    return report


@unittest.skipIf(VERSION < (2, 12), "the layout is that of PyTorch 2.12 and newer; to run it: use PyTorch 2.13")
class Report(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.script = self.folder / "a_script_whose_name_alone_makes_lines_long_enough.py"
        self.script.write_text(WORKER)

    def both(self, *arguments):
        with Torchrun("--standalone", *arguments) as theirs:
            code, _, err = theirs.finish(LIMIT_S)
        self.assertEqual(code, 1, err)
        with Run("--standalone", "--report", "torchrun", "--exit-code", "torchrun", *arguments,
                 env={"LC_ALL": "C.UTF-8"}) as ours:
            our_code, _, our_err = ours.finish(LIMIT_S)
        self.assertEqual(our_code, 1, our_err)
        return report_in(err), report_in(our_err + "\n")

    def assert_same(self, *arguments, has):
        theirs, ours = self.both(*arguments)
        self.assertEqual(ours, theirs)
        self.assertIn(has, ours)

    def test_of_one_worker(self):
        self.assert_same(self.script, "exits", has="  exitcode  : 3 (pid: PID) \n")

    def test_of_a_worker_that_was_killed_and_one_that_was_stopped(self):
        self.assert_same("--nproc-per-node", 2, self.script, "killed", has="  exitcode  : -9 (pid: PID)  (SIGKILL)\n")

    def test_of_an_exception(self):
        self.assert_same("--nproc-per-node", 2, "--log-dir", self.folder / "logs", self.script, "raises",
                         has="ValueError: schön\n  zwei Zeilen\n")

    def test_of_a_program(self):
        self.assert_same("--no-python", "/bin/sh", "-c", "exit 7", has="/bin/sh FAILED\n")

    def test_of_a_module(self):
        self.assert_same("-m", "no_such_module_of_ours", has="no_such_module_of_ours FAILED\n")


if __name__ == "__main__":
    unittest.main()
