"""torchrun without its two seconds of imports, and `regroup run`, both driven alike.

A server imports torch.distributed.run once; for every run it forks a process that becomes torchrun, in a session of
its own, with the environment, directory and output that it is told:

    with Torchruns(folder, "--nproc-per-node", 2, "train.py") as running:     # or Ours(...)
        outcome = running.finish()                                            # .code .out .err .tree

What a run prints is in files, what it leaves in TMPDIR is in outcome.tree. Nothing of it outlives the block.
"""

import atexit
import contextlib
import dataclasses
import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
import uuid
from pathlib import Path

LIMIT_S = 120.0

# A background job, and what nohup runs, ignores some of them. torchrun would heed them all the same; we would not.
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)


def everybody_with(word):
    """Pids of those who have it as REGROUP_TEST_WORD in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"REGROUP_TEST_WORD={word}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# --- the server's process ----------------------------------------------------------------------------

def become_torchrun(request):
    """In a process of its own. Gives its exit code, as the interpreter would make it of what main() raises."""
    from torch.distributed import run

    os.setsid()
    os.chdir(request["directory"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # TMPDIR has changed.
    sys.argv = ["torchrun", *request["arguments"]]
    for number, name in enumerate(["/dev/null", request["out"], request["err"]]):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    try:
        run.main(request["arguments"])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return 128 + signal.SIGINT
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve_one(connection):
    """Between the server and one torchrun: tells its pid, waits for it, and tells how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection.makefile("rw") as stream:
        request = json.loads(stream.readline())
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                stream.close()
                connection.close()
                code = become_torchrun(request)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        stream.write(f"{pid}\n")
        stream.flush()
        # Whoever asked for it is gone, and nobody else will end it: a test that was killed.
        if connection in select.select([os.pidfd_open(pid), connection], [], [])[0]:
            kill_all([pid])
            kill_all(everybody_with(request["environment"]["REGROUP_TEST_WORD"]))
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            stream.write(f"{os.waitstatus_to_exitcode(status)}\n")
            stream.flush()


def serve(path):
    """Until standard input ends, as it does with the process of the tests."""
    import torch.distributed.run  # noqa: F401  All this is for.

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Nobody waits for those who serve.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("listening", flush=True)
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                try:
                    serve_one(connection)
                finally:
                    os._exit(0)
            connection.close()


# --- the tests' process ------------------------------------------------------------------------------

class Server:
    """Started by the first who needs it; ends with the process of the tests, at the latest."""

    lock = threading.Lock()
    one = None

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "torchruns")
        self.process = subprocess.Popen([sys.executable, __file__, self.path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=clean_environment())
        if self.process.stdout.readline() != "listening\n":
            raise AssertionError(f"no server of torchruns; it ended with {self.process.wait()}")

    @classmethod
    def get(cls):
        with cls.lock:
            if cls.one is None:
                cls.one = cls()
                atexit.register(cls.one.stop)
            return cls.one

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def start(self, request):
        """(pid, the stream that will tell the exit code) of a new torchrun."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.path)
            stream = connection.makefile("rw")
        stream.write(json.dumps(request) + "\n")
        stream.flush()
        return int(stream.readline()), stream


def clean_environment():
    """Ours without what another launcher, or the user, may have put there for its own."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("PET_", "TORCHELASTIC_", "TORCH_ELASTIC_"))
            and name not in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "LOGLEVEL")}


def starred(path):
    """A path without what is random in it: the ends of torchelastic_XXX, and of <run id>_XXX."""
    words = []
    for word in str(path).split("/"):
        word = re.sub(r"^torchelastic_.*", "torchelastic_*", word)
        word = re.sub(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}_\w+$", "UUID_*", word)
        # Python's have eight random letters, of which one may be a line, the C library's six. So a run id with a
        # line in it must be known here: no pattern can tell where it ends.
        word = re.sub(r"^(?!attempt_|filtered_)(my\.run_7|[a-zA-Z0-9.-]+)_(\w{8}|[a-zA-Z0-9]{6})$", r"\1_*", word)
        words.append(word)
    return "/".join(words)


def tree_of(root):
    """Path below it -> (mode, content; None for a folder), without what is random in names."""
    return {starred(path.relative_to(root)): (oct(stat.S_IMODE(path.stat().st_mode)),
                                              path.read_bytes() if path.is_file() else None)
            for path in sorted(root.rglob("*"))}


@dataclasses.dataclass
class Outcome:
    code: int
    out: bytes
    err: bytes
    tree: dict  # Of its TMPDIR, which is also where LOGS in its arguments points to.


class Running:
    """A launcher with its workers, until the block ends. LOGS and TELL in what it is given are folders of its
    own."""

    def __init__(self, folder, *arguments, env=None, directory=None, umask=0o027):
        self.folder = Path(folder)
        self.temporary, self.told = self.folder / "tmp", self.folder / "told"
        for made in (self.folder, self.temporary, self.told):
            made.mkdir(exist_ok=True)
        self.arguments = [self._own(str(word)) for word in arguments]
        self.word = uuid.uuid4().hex
        self.environment = {**clean_environment(), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8",
                            "PYTHON_EXEC": sys.executable, "TMPDIR": str(self.temporary),
                            "REGROUP_TEST_WORD": self.word}
        for name, value in (env or {}).items():
            self.environment.pop(name, None)
            if value is not None:
                self.environment[name] = self._own(value)
        self.directory, self.umask = str(directory or self.folder), umask
        self.out, self.err = self.folder / "out", self.folder / "err"
        for file in (self.out, self.err):
            file.touch()

    def _own(self, text):
        return text.replace("LOGS", str(self.temporary)).replace("TELL", str(self.told))

    def __exit__(self, *_):
        kill_all([self.pid])  # First who starts others.
        kill_all(self.workers())
        self.wait(LIMIT_S)

    def workers(self):
        """Everybody of it, but the launcher."""
        return [pid for pid in everybody_with(self.word) if pid != self.pid]

    def signal(self, number):
        os.kill(self.pid, number)

    def finish(self):
        code = self.wait(LIMIT_S)
        if code is None:
            raise AssertionError(f"{type(self).__name__} still runs after {LIMIT_S} s: {self.arguments}\n"
                                 f"{self.err.read_text(errors='replace')}")
        return Outcome(code, self.out.read_bytes(), self.err.read_bytes(), tree_of(self.temporary))

    def said(self):
        return self.out.read_text(errors="replace") + self.err.read_text(errors="replace")


class Torchruns(Running):
    def __enter__(self):
        self.pid, self.stream = Server.get().start({
            "arguments": self.arguments, "environment": self.environment, "directory": self.directory,
            "umask": self.umask, "out": str(self.out), "err": str(self.err)})
        self.code = None
        # So that waiting has a limit, and a look does not wait.
        self.waiter = threading.Thread(target=self._wait, daemon=True)
        self.waiter.start()
        return self

    def _wait(self):
        with self.stream:
            self.code = int(self.stream.readline() or -signal.SIGKILL)

    def wait(self, limit_s):
        self.waiter.join(limit_s)
        return self.code


class Ours(Running):
    FLAGS = ["--exit-code", "torchrun"]

    def __enter__(self):
        from store_support import BINARY
        with open(self.out, "ab") as out, open(self.err, "ab") as err:
            self.process = subprocess.Popen([BINARY, "run", *self.FLAGS, *self.arguments], env=self.environment,
                                            cwd=self.directory, umask=self.umask, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, start_new_session=True)
        self.pid = self.process.pid
        return self

    def wait(self, limit_s):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(limit_s)


SIDES = (Torchruns, Ours)


if __name__ == "__main__":
    serve(sys.argv[1])
