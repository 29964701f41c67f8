"""python/regroup, in workers that are processes of their own. Needs no PyTorch."""

import ast
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

from store_support import BINARY

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / "python"
LIMIT_S = 60


class PythonTestCase(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.error_file = self.folder / "error.json"

    def run_worker(self, body, error_file=None):
        """Runs a script whose main() is `body`, and returns the finished process."""
        script = self.folder / "train.py"
        script.write_text("import os, sys\nfrom regroup import record\n\n@record\ndef main():\n"
                          + textwrap.indent(textwrap.dedent(body), "    ") + "\nmain()\nprint('went on')\n")
        env = dict(os.environ, PYTHONPATH=str(PYTHON),
                   TORCHELASTIC_ERROR_FILE=str(error_file or self.error_file))
        return subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=LIMIT_S)

    def content(self):
        return json.loads(self.error_file.read_text())


class Launcher(PythonTestCase):
    """`python -m regroup.torchrun`, without PyTorch."""

    def call(self, *words, **variables):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
        env.update(PYTHONPATH=str(PYTHON), OMP_NUM_THREADS="1", TMPDIR=str(self.folder), **variables)
        return subprocess.run([sys.executable, "-m", "regroup.torchrun", *map(str, words)], env=env, cwd=self.folder,
                              capture_output=True, text=True, timeout=LIMIT_S)

    def test_is_torchrun_with_this_python(self):
        script = self.folder / "train.py"
        script.write_text("import os, sys\nprint(sys.executable, sys.argv[1:])\nsys.exit(int(os.environ['RANK']) * 3)\n")
        done = self.call("--nproc_per_node=2", script, "--lr", "1", REGROUP_BIN=str(BINARY))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stdout.count(f"{sys.executable} ['--lr', '1']\n"), 2)
        self.assertIn("ChildFailedError", done.stderr)

    def test_says_where_it_looks_for_the_program(self):
        for variables, says in (({"PATH": "/nowhere", "REGROUP_BIN": ""}, "REGROUP_BIN"),
                                ({"REGROUP_BIN": "/no/such"}, "REGROUP_BIN is '/no/such'")):
            done = self.call("train.py", **variables)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertTrue(done.stderr.startswith("regroup: "), done.stderr)
            self.assertIn(says, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class Record(PythonTestCase):
    def test_an_exception_is_written_and_raised_again(self):
        done = self.run_worker("raise ValueError('boom ä')")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValueError: boom", done.stderr)
        content = self.content()
        self.assertEqual(set(content), {"message"})
        self.assertEqual(set(content["message"]), {"message", "extraInfo"})
        self.assertEqual(content["message"]["message"], "ValueError: boom ä")
        extra = content["message"]["extraInfo"]
        self.assertEqual(set(extra), {"py_callstack", "timestamp"})
        self.assertIsInstance(extra["timestamp"], str)
        self.assertLess(abs(int(extra["timestamp"]) - time.time()), LIMIT_S)
        self.assertTrue(extra["py_callstack"].startswith("Traceback (most recent call last):\n"))
        self.assertTrue(extra["py_callstack"].endswith("ValueError: boom ä\n"))
        self.assertIn("train.py", extra["py_callstack"])
        self.assertNotIn("record.py", extra["py_callstack"])
        self.assertEqual(stat.S_IMODE(self.error_file.stat().st_mode), 0o644)
        self.assertEqual(sorted(os.listdir(self.folder)), ["error.json", "train.py"])

    def test_a_good_end_leaves_no_file(self):
        for body in ("return 1", "sys.exit(0)"):
            done = self.run_worker(body)
            self.assertEqual((done.returncode, done.stdout), (0, "went on\n"), done.stderr)
        self.assertFalse(self.error_file.exists())

    def test_an_exit_keeps_its_code_and_leaves_no_file(self):
        for body, code in (("sys.exit(3)", 3), ("sys.exit('why')", 1), ("sys.exit()", 0),
                           ("raise KeyboardInterrupt", -2)):
            self.assertEqual(self.run_worker(body).returncode, code, body)
        self.assertFalse(self.error_file.exists())

    def test_arguments_results_and_the_name_pass_through_with_both_spellings(self):
        script = ("from regroup import record\n"
                  "def add(a, *, b): 'doc'; return a + b\n"
                  "for f in (record(add), record()(add)):\n"
                  "    assert f(1, b=2) == 3 and f.__name__ == 'add' and f.__doc__ == 'doc'\n")
        subprocess.run([sys.executable, "-c", script], env=dict(os.environ, PYTHONPATH=str(PYTHON)),
                       check=True, timeout=LIMIT_S)

    def test_works_without_the_variable(self):
        script = "from regroup import record\n@record\ndef main(): raise ValueError('boom')\nmain()"
        env = {name: value for name, value in os.environ.items() if name != "TORCHELASTIC_ERROR_FILE"}
        for more in ({}, {"TORCHELASTIC_ERROR_FILE": ""}):
            done = subprocess.run([sys.executable, "-c", script], env=dict(env, PYTHONPATH=str(PYTHON), **more),
                                  capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.endswith("ValueError: boom\n"), done.stderr)
            self.assertNotIn("regroup:", done.stderr)

    def test_a_file_that_cannot_be_written_hides_nothing(self):
        done = self.run_worker("raise ValueError('boom')", error_file="/proc/none/error.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("regroup: cannot write the error file /proc/none/error.json", done.stderr)
        self.assertTrue(done.stderr.endswith("ValueError: boom\n"), done.stderr)
        self.assertNotIn("During handling", done.stderr)

    def test_makes_the_directory(self):
        self.error_file = self.folder / "attempt_0" / "1" / "error.json"
        self.run_worker("raise ValueError('boom')")
        self.assertEqual(self.content()["message"]["message"], "ValueError: boom")

    def test_what_cannot_be_replaced_is_written_in_place(self):
        target = self.folder / "target"
        target.write_text("old" * 1000)
        self.error_file.symlink_to(target)
        self.run_worker("raise ValueError('boom')")
        self.assertTrue(self.error_file.is_symlink())
        self.assertEqual(json.loads(target.read_text())["message"]["message"], "ValueError: boom")

    def test_an_old_file_is_replaced(self):
        for old in ('{"message": "of yesterday"}', "rubbish"):
            self.error_file.write_text(old)
            self.run_worker("raise ValueError('boom')")
            self.assertEqual(self.content()["message"]["message"], "ValueError: boom")

    def test_what_a_process_below_has_written_is_kept(self):
        write = "open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write({!r})\nraise RuntimeError('my child failed')"
        done = self.run_worker(write.format('{"message": "CUDA error"}'))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.content(), {"message": "CUDA error"})
        self.assertIn("is kept as it is", done.stderr)
        self.run_worker(write.format("rubbish"))
        self.assertEqual(self.content()["message"]["message"], "RuntimeError: my child failed")

    def test_giant_texts_are_cut_to_what_the_launcher_reads(self):
        for letter in ("x", "ä", "\\U0001F680", "\\x01"):
            self.run_worker(f"raise ValueError('first ' + '{letter}' * 3_000_000 + ' last')")
            self.assertLess(self.error_file.stat().st_size, 1 << 20)
            message = self.content()["message"]
            self.assertTrue(message["message"].startswith("ValueError: first "))
            self.assertTrue(message["extraInfo"]["py_callstack"].endswith(" last\n"))
            self.assertGreater(self.error_file.stat().st_size, 256 << 10)

    def test_strange_exceptions_are_written_too(self):
        for body, message in (
                ("class E(Exception):\n    def __str__(self): raise KeyError\nraise E", "E: <exception str() failed>"),
                ("raise ValueError(os.fsdecode(b'a\\xff'))", "ValueError: a?"),
                ("raise ValueError", "ValueError: ")):
            self.assertEqual(self.run_worker(body).returncode, 1)
            self.assertEqual(self.content()["message"]["message"], message)

    def test_a_fault_leaves_its_python_frames(self):
        done = self.run_worker("import ctypes; ctypes.string_at(0)")
        self.assertEqual(done.returncode, -11)
        self.assertIn("Fatal Python error: Segmentation fault", done.stderr)
        self.assertFalse(self.error_file.exists())

    def test_a_closed_standard_error_does_no_harm(self):
        done = self.run_worker("sys.stderr.close(); sys.stderr = None; raise ValueError('boom')")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.content()["message"]["message"], "ValueError: boom")


class Package(PythonTestCase):
    def version(self):
        for node in ast.parse((PYTHON / "regroup/__init__.py").read_text()).body:
            if isinstance(node, ast.Assign) and node.targets[0].id == "__version__":
                return node.value.value

    def test_has_the_version_of_the_launcher(self):
        cmake = (ROOT / "CMakeLists.txt").read_text()
        self.assertEqual(self.version(), re.search(r"project\(regroup VERSION (\S+)", cmake).group(1))

    def test_can_be_installed(self):
        # Without isolation, pip asks no package index.
        usable = "import setuptools, wheel, pip; assert int(setuptools.__version__.split('.')[0]) >= 61"
        if subprocess.run([sys.executable, "-c", usable], capture_output=True).returncode != 0:
            self.skipTest("this Python lacks pip, wheel or setuptools 61; to run it: pip install -U setuptools wheel")
        source = shutil.copytree(PYTHON, self.folder / "python", ignore=shutil.ignore_patterns("__pycache__"))
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps",
                               "--no-index", "--disable-pip-version-check", "--target", self.folder / "site", source],
                              capture_output=True, text=True, timeout=5 * LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        script = "import regroup, importlib.metadata as m; print(m.version('regroup'), regroup.record.__module__)"
        env = dict(os.environ, PYTHONPATH=str(self.folder / "site"))
        done = subprocess.run([sys.executable, "-c", script], env=env, cwd=self.folder, check=True,
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.stdout.strip(), f"{self.version()} regroup.record")


if __name__ == "__main__":
    unittest.main()
