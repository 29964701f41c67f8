"""Error files that PyTorch writes and we read, and the other way round; and what we find in real tracebacks."""

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

import torch_support  # noqa: F401  Sets PyTorch's environment before it is imported.
from store_support import BUILD, LIMIT_S, ROOT
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

DRIVER = BUILD / "test/error_file_driver"
TORCH = "from torch.distributed.elastic.multiprocessing.errors import *"
OURS = "from regroup import record"


def driver(*words, **more):
    done = subprocess.run([DRIVER, *words], capture_output=True, text=True, timeout=LIMIT_S, check=True, **more)
    return done.stdout.rstrip("\n")


class ErrorFileTestCase(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.path = self.folder / "error.json"

    def run_worker(self, imports, body, path=None):
        script = self.folder / "train.py"
        script.write_text(f"{imports}\nimport os\n@record\ndef main():\n"
                          + textwrap.indent(textwrap.dedent(body), "    ") + "\nmain()\n")
        env = dict(os.environ, PYTHONPATH=str(ROOT / "python"), TORCHELASTIC_ERROR_FILE=str(path or self.path))
        return subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=4 * LIMIT_S)

    def ours(self, path=None):
        """What our reader says."""
        return json.loads(driver("read", path or self.path))

    def theirs(self, path=None, exitcode=1):
        """What PyTorch's reader says."""
        return ProcessFailure(local_rank=0, pid=1, exitcode=exitcode, error_file=str(path or self.path))


class Read(ErrorFileTestCase):
    def test_we_read_what_torch_records(self):
        for text in ("boom", "ä € 🚀", "two\\nlines", "a\\x00\\x1b[31m\\\\\"'", "x" * 100_000):
            done = self.run_worker(TORCH, f"raise ValueError('''{text} ''')")
            self.assertEqual(done.returncode, 1)
            ours, theirs = self.ours(), self.theirs()
            self.assertEqual(ours["message"], theirs.message["message"])
            self.assertEqual(ours["call_stack"], theirs.message["extraInfo"]["py_callstack"])
            self.assertEqual(ours["timestamp"], theirs.timestamp)
            self.assertTrue(ours["structured"])
            self.assertIsNone(ours["error_code"])

    def test_we_read_stray_bytes_that_torch_recorded(self):
        self.run_worker(TORCH, "raise FileNotFoundError(os.fsdecode(b'/data/a\\xff.png'))")
        self.assertEqual(self.ours()["message"], "FileNotFoundError: /data/a\ufffd.png")

    def test_we_read_what_torch_copies_from_a_child(self):
        child = self.folder / "child.json"
        self.run_worker(TORCH, "raise ValueError('boom')", child)
        self.run_worker(TORCH, f"raise ChildFailedError('m', {{0: ProcessFailure(0, 1, -11, {str(child)!r})}})")
        ours = self.ours()
        self.assertEqual((ours["message"], ours["error_code"]), ("ValueError: boom", -11))

    def test_both_read_a_message_that_is_a_text(self):
        self.path.write_text('{"message": "disk on fire", "timestamp": "12"}')
        self.assertEqual((self.ours()["message"], self.ours()["timestamp"]), ("disk on fire", 12))
        self.assertEqual((self.theirs().message, self.theirs().timestamp), ("disk on fire", 12))

    def test_we_only_tell_of_files_that_end_torchs_agent(self):
        for content in ("", "{", '{"error": 1}', '{"message": {}}'):
            self.path.write_text(content)
            with self.assertRaises(Exception), quiet():
                self.theirs()
            answer = driver("read", self.path)
            self.assertTrue(answer.startswith("error the error file") or (answer == "null" and not content), answer)
        self.path.write_text('{"message": {"message": "m"}}')
        self.assertEqual((self.ours()["message"], self.ours()["timestamp"]), ("m", None))


class Write(ErrorFileTestCase):
    def shown(self, exitcode=1):
        """torchrun's report."""
        return ChildFailedError("train", {0: self.theirs(exitcode=exitcode)}).format_msg()

    def test_torch_reads_what_our_python_records(self):
        for text in ("boom", "ä € 🚀", "two\\nlines"):
            self.run_worker(OURS, f"raise ValueError('{text}')")
            failure = self.theirs()
            expected = "ValueError: " + text.replace("\\n", "\n")
            self.assertEqual(failure.message["message"], expected)
            self.assertTrue(failure.message["extraInfo"]["py_callstack"].endswith(expected + "\n"))
            self.assertLess(abs(failure.timestamp - time.time()), 4 * LIMIT_S)
            self.assertEqual(self.ours()["message"], expected)
            self.assertIn("Traceback (most recent call last):", self.shown())

    def test_our_python_and_torch_write_the_same(self):
        # Our call stack leaves out the frame of record() itself, and nothing else.
        contents = []
        for imports in (TORCH, OURS):
            self.run_worker(imports, "raise ValueError('boom')")
            content = json.loads(self.path.read_text())
            stack = content["message"]["extraInfo"].pop("py_callstack").split("\n")
            content["message"]["extraInfo"].pop("timestamp")
            contents.append((content, [stack[0], *stack[stack.index("    raise ValueError('boom')") - 1:]]))
        self.assertEqual(*contents)

    def test_our_python_copies_a_childs_file_as_torch_does(self):
        child = self.folder / "child.json"
        contents = []
        for code in (-11, 7):
            self.run_worker(TORCH, "raise ValueError('boom')", child)
            for imports in (TORCH, f"{TORCH}\n{OURS}"):
                done = self.run_worker(imports, "raise ChildFailedError("
                                       f"'m', {{0: ProcessFailure(0, 1, {code}, {str(child)!r})}})")
                self.assertIn("ChildFailedError", done.stderr)
                contents.append(json.loads(self.path.read_text()))
                self.path.unlink()
            self.assertEqual(contents[-2], contents[-1])
            self.assertEqual(contents[-1]["message"]["errorCode"], code)

    def test_our_python_writes_nothing_for_a_child_that_left_nothing(self):
        for imports in (TORCH, f"{TORCH}\n{OURS}"):
            done = self.run_worker(imports, "raise ChildFailedError('m', {0: ProcessFailure(0, 1, -9, '/none')})")
            self.assertEqual(done.returncode, 1)
            self.assertFalse(self.path.exists())

    def test_torch_reads_what_our_cpp_writes(self):
        self.assertEqual(driver("write", self.path, "E: ä\n🚀", "stack\nE: ä\n🚀\n", "1794726077", "-9"), "ok")
        failure = self.theirs()
        self.assertEqual(failure.message, {
            "message": "E: ä\n🚀", "errorCode": -9,
            "extraInfo": {"py_callstack": "stack\nE: ä\n🚀\n", "timestamp": "1794726077"}})
        self.assertEqual(failure.timestamp, 1794726077)

    def test_torch_shows_the_message_where_there_is_no_call_stack(self):
        driver("write", self.path, "E: boom", "")
        self.assertIn("traceback : E: boom", self.shown())

    def test_torch_reads_what_our_cpp_record_leaves(self):
        done = subprocess.run([DRIVER, "throw", b"b\xffoom"], capture_output=True, timeout=LIMIT_S,
                              env=dict(os.environ, TORCHELASTIC_ERROR_FILE=str(self.path)))
        self.assertEqual((done.returncode, done.stderr), (1, b"std::runtime_error: b\xffoom\n"))
        self.assertEqual(self.theirs().message["message"], "std::runtime_error: b\ufffdoom")
        self.assertIn("traceback : std::runtime_error: b", self.shown())


class Tracebacks(ErrorFileTestCase):
    def last_traceback(self, script):
        file = self.folder / "train.py"
        file.write_text(textwrap.dedent(script))
        done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=4 * LIMIT_S)
        return json.loads(driver("traceback", input=done.stderr)), done.stderr

    def test_a_chain_is_found_whole(self):
        found, stderr = self.last_traceback("""
            import sys
            print("starting", file=sys.stderr)
            try:
                {}["x"]
            except KeyError as error:
                raise RuntimeError("one\\ntwo") from error
            """)
        self.assertEqual(found["last_line"], "RuntimeError: one")
        self.assertEqual("starting\n" + found["text"] + "\n", stderr)

    def test_a_rank_is_taken_off(self):
        found, stderr = self.last_traceback("""
            import torch.distributed as dist
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            raise ValueError("boom")
            """)
        self.assertIn("[rank0]: ValueError: boom", stderr)
        self.assertEqual(found["last_line"], "ValueError: boom")
        self.assertTrue(found["text"].startswith("Traceback"))
        self.assertTrue(found["text"].endswith("\nValueError: boom"))

    def test_the_worker_of_a_data_loader_is_quoted(self):
        found, _ = self.last_traceback("""
            from torch.utils.data import DataLoader, Dataset
            class Images(Dataset):
                def __len__(self): return 4
                def __getitem__(self, at): raise ValueError("broken image")
            if __name__ == "__main__":
                for batch in DataLoader(Images(), num_workers=1): pass
            """)
        self.assertEqual(found["last_line"], "ValueError: Caught ValueError in DataLoader worker process 0.")
        self.assertTrue(found["text"].endswith("\nValueError: broken image"), found["text"])

    def test_a_thread_and_a_destructor_are_not_the_end(self):
        found, stderr = self.last_traceback("""
            import threading
            class Noisy:
                def __del__(self): raise KeyError("harmless")
            noisy = Noisy()
            thread = threading.Thread(target=lambda: 1 / 0)
            thread.start(); thread.join()
            raise ValueError("boom")
            """)
        self.assertIn("harmless", stderr)
        self.assertEqual(found["last_line"], "ValueError: boom")
        self.assertNotIn("harmless", found["text"])
        self.assertNotIn("ZeroDivision", found["text"])


@contextlib.contextmanager
def quiet():
    """PyTorch logs a traceback before it raises."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    unittest.main()
