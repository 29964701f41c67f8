"""How `regroup` is called: under which name and from where, and what a wrong call is told."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from spawn_support import LIMIT_S
from store_support import BINARY, RegroupServer

# A Python that only says which one it is, and then does as it is told.
PYTHON = """#!/bin/sh
echo "this is $0"
shift
exec /bin/sh "$@"
"""


class CoordinatorServer(RegroupServer):
    COMMAND = "coordinator"


class StartTest(unittest.TestCase):
    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()

    def call(self, *command, env=None, cwd=None):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("PET_") and name not in ("PYTHON_EXEC", "VIRTUAL_ENV", "CONDA_PREFIX")}
        return subprocess.run([*map(str, command)], env={**clean, "OMP_NUM_THREADS": "1", **(env or {})},
                              cwd=cwd or self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT_S)

    def environment(self, name, *links):
        """An environment of Python's kind, with links to regroup."""
        programs = self.directory / name / "bin"
        programs.mkdir(parents=True)
        (self.directory / name / "pyvenv.cfg").write_text("")
        (programs / "python3").write_text(PYTHON)
        (programs / "python3").chmod(0o755)
        for link in links:
            (programs / link).symlink_to(BINARY)
        return programs

    def script(self, text):
        path = self.directory / "train.sh"
        path.write_text(text)
        return path


class Links(StartTest):
    def test_a_link_in_an_environment_takes_its_python(self):
        programs = self.environment("job", "regroup")
        script = self.script("echo trains\n")
        said = f"this is {programs}/python3\ntrains\n"
        for command, path, cwd in (([programs / "regroup"], None, None), (["./regroup"], None, programs),
                                   (["regroup"], f"{programs}:{os.environ['PATH']}", None)):
            with self.subTest(command):
                done = self.call(*command, "run", script, env={"PATH": path} if path else None, cwd=cwd)
                self.assertEqual((done.returncode, done.stdout), (0, said), done.stderr)

    def test_an_active_environment_counts_more(self):
        link = self.environment("job", "regroup") / "regroup"
        active = self.environment("active")
        (active / "python").symlink_to("python3")
        done = self.call(link, "run", self.script("echo trains\n"), env={"VIRTUAL_ENV": str(active.parent)})
        self.assertEqual(done.stdout, f"this is {active}/python\ntrains\n", done.stderr)

    def test_called_torchrun_it_is_one(self):
        """Its environment's own, its exit codes, its report."""
        link = self.environment("job", "torchrun") / "torchrun"
        active = self.environment("active")
        (active / "python").symlink_to("python3")
        env = {"VIRTUAL_ENV": str(active.parent), "TMPDIR": str(self.directory)}
        done = self.call(link, "--nproc_per_node", "2", self.script("echo trains\n"), env=env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count(f"this is {link.parent}/python3\n"), 2, done.stdout)
        failed = self.call(link, self.script("exit 3\n"), env=env)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("torch.distributed.elastic.multiprocessing.errors.ChildFailedError", failed.stderr)
        self.assertIn("exitcode  : 3", failed.stderr)
        own = self.call(link, "--exit-code", "worker", "--report", "regroup", self.script("exit 3\n"), env=env)
        self.assertEqual(own.returncode, 3)
        self.assertNotIn("ChildFailedError", own.stderr)

    def test_called_torchrun_it_speaks_of_itself_so(self):
        link = self.environment("job", "torchrun") / "torchrun"
        self.assertIn("\nUsage: torchrun [OPTIONS] [--] SCRIPT", self.call(link, "--help").stdout)
        wrong = self.call(link, "--nno", "x", "--no-such-flag")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("See 'torchrun --help'", wrong.stderr)
        self.assertIn("torchrun --nproc-per-node=4 train.py", self.call(link).stderr)


class Hints(StartTest):
    def said(self, *words, code=2, **how):
        done = self.call(BINARY, *words, **how)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def test_torchruns_command_line_without_run(self):
        self.assertIn("Did you mean: regroup run --nproc-per-node 2 x.py", self.said("--nproc-per-node", "2", "x.py"))
        self.assertIn("Did you mean: regroup run --nproc_per_node=2 'a b.py'", self.said("--nproc_per_node=2", "a b.py"))
        self.assertIn("Did you mean: regroup run train.py --lr 1", self.said("train.py", "--lr", "1"))
        self.assertIn("did you mean 'status'?", self.said("statsu"))
        self.assertNotIn("regroup run", self.said("--no-such-flag"))

    def test_a_flag_of_the_old_launcher(self):
        for flag in ("--use-env", "--use_env"):
            self.assertIn("drop it", self.said("run", flag, "train.py"))

    def test_several_nodes_that_only_this_machine_reaches(self):
        dry = ["run", "--dry-run", "--nnodes", "2"]
        warned = self.said(*dry, "--no-python", "true", code=0)
        self.assertIn("meet at 127.0.0.1:29500, which only this machine reaches. Pass --master-addr", warned)
        warned = self.said(*dry, "--rdzv-backend", "c10d", "--no-python", "true", code=0)
        self.assertIn("meet at localhost:29400, which only this machine reaches. Pass --rdzv-endpoint", warned)
        for more in (["--master-addr", "127.0.0.1"], ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:7"]):
            self.assertEqual(self.said(*dry, *more, "--no-python", "true", code=0), "")

    def test_what_only_c10d_can_do(self):
        for flags in (["--nnodes", "1:2"], ["--nnodes", "2", "--rdzv-id", "job"]):
            said = self.said("run", "--dry-run", *flags, "--master-addr", "h", "--no-python", "true", code=0)
            self.assertIn("--rdzv-backend=c10d", said)

    def test_a_module_that_is_missing(self):
        for module in ("nosuch", "nosuch.module"):
            said = self.said("run", "-m", module, code=1, env={"PYTHON_EXEC": sys.executable,
                                                               "TMPDIR": str(self.directory)})
            self.assertIn(": install 'nosuch' there, or choose another interpreter (--python)", said)

    def test_a_taken_port(self):
        """Its holder is named. Of several nodes, one cannot take any free port."""
        with RegroupServer() as server:
            holder = f"the port is taken by regroup (pid {server.process.pid})"
            self.assertIn(holder, self.said("store", "--port", server.port))
            said = self.said("run", "--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", server.port,
                             "--no-python", "true", code=71)
            self.assertIn(holder, said)
            self.assertNotIn("any free", said)

    def test_times_with_units(self):
        for flag in ("shutdown-timeout", "hang-timeout", "hang-grace", "exit-barrier-timeout", "health-limit",
                     "monitor-interval", "rejoin-timeout", "heartbeat-limit", "reconnect-grace"):
            for value in ("10m", "90s", "1h", "20"):
                self.said("run", "--dry-run", f"--{flag}={value}", "--no-python", "true", code=0)
            self.assertIn(f"--{flag} is '10x'; it takes a time", self.said("run", f"--{flag}=10x", "--no-python", "true"))
        self.assertIn("'10x' is no time", self.said("store", "ping", "localhost:1", "--timeout", "10x"))
        self.said("store", "ping", "localhost:1", "--timeout", "100ms", code=1)


class Coordinator(StartTest):
    def test_a_run_without_a_name_is_refused(self):
        """Unrelated jobs would be one run. Where a node of the run is the host, the default does no harm."""
        with CoordinatorServer() as server:
            run = [BINARY, "run", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{server.port}"]
            for _ in range(2):
                done = self.call(*run, "--no-python", "true")
                self.assertEqual(done.returncode, 71, done.stderr)
                self.assertIn("Pass --rdzv-id", done.stderr)
            for name in ("a", "b"):
                done = self.call(*run, "--rdzv-id", name, "--no-python", "true")
                self.assertEqual(done.returncode, 0, done.stderr)
        alone = self.call(BINARY, "run", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--no-python", "true")
        self.assertEqual(alone.returncode, 0, alone.stderr)


class Help(StartTest):
    def pages(self):
        """The help of every command, and of every command below it."""
        found, todo = [], [[]]
        while todo:
            command = todo.pop()
            text = self.call(BINARY, *command, "--help").stdout
            found.append((command, text))
            listed = text.partition("\nSubcommands:\n")[2].partition("\n\n")[0].splitlines()
            todo += [command + [line.split()[0]] for line in listed if line[2:3].isalpha()]
        return found

    def test_fits_a_page(self):
        pages = self.pages()
        self.assertGreaterEqual(len(pages), 14, [command for command, _ in pages])
        for command, text in pages:
            self.assertTrue(text.count("\n") > 5, command)
            self.assertEqual([line for line in text.splitlines() if len(line) > 100], [], command)

    def test_begins_with_run_and_has_examples(self):
        text = dict((tuple(command), text) for command, text in self.pages())[()]
        self.assertTrue(text.partition("\nSubcommands:\n")[2].startswith("  run "), text)
        self.assertEqual(text.partition("For example:")[2].count("\n  regroup "), 3)


class DryRun(StartTest):
    def test_refuses_what_the_run_refuses(self):
        endpoints = [("--rdzv-endpoint", endpoint) for endpoint in ("dummy.com:65536", "~", ":123", "a:b", "[::1")]
        options = [("--rdzv-endpoint", "localhost:0", "--rdzv-conf", option) for option in
                   ("is_host=01", "join_timeout=abc", "session=x", "store_type=zip", "read_timeout=0")]
        for flags in [("--rdzv-backend", "c10d", *more) for more in endpoints + options] + [
                ("--rdzv-backend", "zeus", "--rdzv-endpoint", "localhost:0"), ("--nnodes", "2", "--master-port", "0"),
                ("--nnodes", "2", "--rdzv-conf", "timeout=0"), ("--nnodes", "2", "--rdzv-endpoint", "~")]:
            with self.subTest(flags):
                dry, real = (self.call(BINARY, "run", *dry, *flags, "--no-python", "true") for dry in (["--dry-run"], []))
                self.assertEqual((dry.returncode, dry.stdout), (2, ""), dry.stderr)
                said = [one.stderr.splitlines()[-1] for one in (dry, real)]
                self.assertEqual((real.returncode, said[1]), (2, said[0]))


class RunPath(StartTest):
    def test_who_is_done_waits_for_the_others(self):
        """torchrun's do, and PyTorch aborts in ranks whose store went away with rank 0."""
        script = self.script("""
import atexit, os, pathlib, sys, time
if os.environ["RANK"] == "0":
    atexit.register(lambda: pathlib.Path("left").touch())
    pathlib.Path("done").touch()
    sys.exit(0)
until = time.monotonic() + 20
while not os.path.exists("done") and time.monotonic() < until: time.sleep(0.01)
until = time.monotonic() + 0.5
while not os.path.exists("left") and time.monotonic() < until: time.sleep(0.01)
print("left alone" if os.path.exists("left") else "together")
""")
        for flags in ([], ["--virtual-local-rank"]):
            done = self.call(BINARY, "run", "-n", "2", "--run-path", *flags, script,
                             env={"PYTHON_EXEC": sys.executable, "TMPDIR": str(self.directory),
                                  "CUDA_VISIBLE_DEVICES": "0,1"})
            self.assertEqual((done.returncode, done.stdout), (0, "together\n"), done.stderr)
            self.assertTrue((self.directory / "left").exists())
            (self.directory / "left").unlink(), (self.directory / "done").unlink()

    def test_nobody_waits_for_one_that_is_gone(self):
        script = self.script("""
import os, time
if os.environ["RANK"] == "0":
    if os.fork() == 0:  # A child that stays holds no lock of its parent's.
        os.setsid()
        time.sleep(2)
    os._exit(0)
print("done")
""")
        done = self.call(BINARY, "run", "-n", "2", "--run-path", "--log-dir", self.directory / "logs", script,
                         env={"PYTHON_EXEC": sys.executable})
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertEqual(list((self.directory / "logs").rglob(".running")), [])


if __name__ == "__main__":
    unittest.main()
