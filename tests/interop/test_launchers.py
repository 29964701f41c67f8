"""`regroup run` in the place of torch.distributed.run, under those who call that in Python (python/regroup/launch.py)."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock
from pathlib import Path

import torch_support  # noqa: F401  First: it sets PyTorch's environment.
from torch.distributed.run import get_args_parser, parse_args
from rendezvous_cli_support import reserved_port
from spawn_support import state_of, until
from store_support import BINARY, ROOT

PYTHON = ROOT / "python"
sys.path.insert(0, str(PYTHON))
from regroup.launch import words_of  # noqa: E402

LIMIT_S = 120.0

# Who started it, and whether the ranks reach each other.
WORKER = """
    import os, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(total)
    print(open(f"/proc/{os.getppid()}/comm").read().strip(), int(total), flush=True)
    dist.destroy_process_group()
"""


def needs(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is missing; to run it: pip install "
                               f"{package} for the Python of these tests")


class LauncherTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        # As if the package were installed: its .pth is read at the start of Python.
        (self.folder / "site").mkdir()
        (self.folder / "site" / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({str(PYTHON)!r})\n")
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
        self.env.update(PYTHONPATH=str(self.folder / "site"), REGROUP_BIN=str(BINARY), OMP_NUM_THREADS="1",
                        TMPDIR=str(self.folder))

    def write(self, text, name="train.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    def start(self, *command, asked=True):
        process = subprocess.Popen([*map(str, command)], env={**self.env, **({"REGROUP_TORCHRUN": "1"} if asked else {})},
                                   cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def call(self, *command, **how):
        process = self.start(*command, **how)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def assert_two_of_ours(self, done):
        code, out, err = done
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count("regroup 3\n"), 2, out + err)


class Words(unittest.TestCase):
    def test_make_the_same_of_it_again(self):
        for words in (["train.py"], ["--nnodes=2:4", "--nproc-per-node=gpu", "-m", "pkg.mod", "--lr", "1"],
                      ["--rdzv-backend=c10d", "--rdzv-endpoint=[::1]:1", "--rdzv-id=a b", "--rdzv-conf=a=1,b=2", "t"],
                      ["--standalone", "--max-restarts=3", "--monitor-interval=2", "--no-python", "prog", "--", "-x"],
                      ["-r", "0:1,1:3", "--tee=3", "--log-dir=/tmp", "--local-ranks-filter=0,1", "t"],
                      ["--duplicate-stdout-filters=a,b", "--duplicate-stderr-filters=c", "--run-path", "t", ""],
                      ["--node-rank=1", "--master-addr=h", "--master-port=7", "--local-addr=l", "--role=r", "t"],
                      ["--shutdown-timeout=5", "--signals-to-handle=SIGTERM", "--numa-binding=node", "t", "${rank}"]):
            with self.subTest(words):
                args = parse_args(words)
                self.assertEqual(parse_args(words_of(args, get_args_parser())), args)

    def test_a_variable_is_not_taken_for_a_flag_that_is_at_its_default(self):
        with unittest.mock.patch.dict(os.environ, PET_NNODES="7"):
            args = parse_args(["--nnodes=1:1", "train.py"])
            self.assertEqual(parse_args(words_of(args, get_args_parser())).nnodes, "1:1")


class Torch(LauncherTest):
    def test_the_variable_reaches_the_module(self):
        script = self.write(WORKER)
        self.assert_two_of_ours(self.call(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", script))

    def test_who_calls_run_gets_its_errors_and_goes_on(self):
        failing = self.write("""
            import os, sys, time
            if os.environ["RANK"] == "1":
                sys.exit(7)
            time.sleep(1000)
        """)
        caller = self.write(f"""
            import regroup; regroup.install()
            from torch.distributed.run import parse_args, run
            from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
            try:
                run(parse_args(["--nproc-per-node=2", {failing!r}]))
            except ChildFailedError as error:
                rank, failure = error.get_first_failure()
                print("caught", rank, failure.local_rank, failure.exitcode, sorted(error.failures))
            run(parse_args(["--no-python", "true"]))
            print("went on")
        """, "caller.py")
        code, out, err = self.call(sys.executable, caller, asked=False)
        self.assertEqual((code, out), (0, "caught 1 1 7 [0, 1]\nwent on\n"), err)
        self.assertIn("rank 1 on", err)

    def test_a_signal_comes_once_and_a_kill_takes_all_along(self):
        script = self.write("""
            import os, pathlib, signal, sys, time
            def end(number, frame):
                pathlib.Path("got").open("a").write("x")
                sys.exit(0)
            signal.signal(signal.SIGTERM, end)
            pathlib.Path("started").write_text(str(os.getpid()))
            time.sleep(1000)
        """)
        caller = self.write(f"""
            import regroup; regroup.install()
            import torch.distributed.run as launcher
            launcher.main([{script!r}])
        """, "caller.py")
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                started = self.folder / "started"
                process = self.start(sys.executable, caller, asked=False)
                self.assertTrue(until(lambda: started.exists() and started.read_text()))
                worker = int(started.read_text())
                process.send_signal(number)
                _, err = process.communicate(timeout=LIMIT_S)
                self.assertTrue(until(lambda: state_of(worker) in ("Z", None)))
                started.unlink()
                if number == signal.SIGTERM:
                    self.assertIn("SignalException", err)
                    self.assertEqual((self.folder / "got").read_text(), "x")


class Frameworks(LauncherTest):
    @needs("accelerate")
    def test_accelerate_launch(self):
        script = self.write("""
            import os, torch
            from accelerate import Accelerator
            accelerator = Accelerator(cpu=True)
            total = accelerator.reduce(torch.tensor([accelerator.process_index + 1]), "sum")
            print(open(f"/proc/{os.getppid()}/comm").read().strip(), int(total), flush=True)
            torch.distributed.destroy_process_group()
        """)
        self.assert_two_of_ours(self.call(
            sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1",
            "--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0", script))

    @needs("lightning")
    def test_fabric_run(self):
        script = self.write("""
            import os, torch
            from lightning.fabric import Fabric
            fabric = Fabric()
            total = fabric.all_reduce(torch.tensor([fabric.global_rank + 1.0]), reduce_op="sum")
            print(open(f"/proc/{os.getppid()}/comm").read().strip(), int(total), flush=True)
            torch.distributed.destroy_process_group()
        """)
        with reserved_port() as port:
            self.assert_two_of_ours(self.call(
                sys.executable, "-m", "lightning.fabric.cli", "--accelerator=cpu", "--devices=2",
                "--strategy=ddp", f"--main-port={port}", script))


if __name__ == "__main__":
    unittest.main()
