"""`regroup spawn` and the processes it starts. Every one of them, to the last grandchild, carries a word of
its own in its environment, so a scan of /proc finds whoever is left, wherever he has moved to."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from store_support import BINARY

LIMIT_S = 60.0
WORKERS = Path(__file__).resolve().parent / "workers"

# A shell's background job ignores Ctrl-C, and so would all that it starts.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def worker(name):
    """The command of a worker of tests/workers."""
    return [sys.executable, "-u", str(WORKERS / f"{name}.py")]


def until(condition, limit_s=LIMIT_S):
    """What the condition gives once it is true; the last it gave if that takes too long."""
    end = time.monotonic() + limit_s
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return value


def state_of(pid):
    """The letter of /proc/PID/stat, or None."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def children_of(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


class Spawn:
    """A running `regroup spawn`, until the block ends; then nothing of it may live, and what does is killed."""

    def __init__(self, *arguments, env=None, prefix=(), **popen):
        self.word = f"REGROUP_TEST_WORD={uuid.uuid4().hex}"
        name, value = self.word.split("=")
        self.env = dict(os.environ, **(env or {}), **{name: value})
        self.command = [*prefix, BINARY, "spawn", *map(str, arguments)]
        self.popen = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                      "text": True, **popen}

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=self.env, **self.popen)
        self.pid = self.process.pid
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.alive():
            if pid != self.pid:
                os.kill(pid, signal.SIGKILL)
        self.process.communicate(timeout=LIMIT_S)

    def alive(self):
        """Pids of everybody who has our word in his environment, zombies left out."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.word.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    if state_of(folder.name) not in ("Z", None):
                        found.append(int(folder.name))
            except OSError:
                pass
        return found

    def workers(self):
        """Pids of everybody but the launcher and its guard."""
        return [pid for pid in self.alive() if pid != self.pid and name_of(pid) != "regroup-guard"]

    def finish(self, limit_s=LIMIT_S):
        """Its exit code, standard output and standard error."""
        out, err = self.process.communicate(timeout=limit_s)
        return self.process.returncode, out, err


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def spawn(*arguments, env=None, **popen):
    """Runs to its end: exit code, standard output, standard error."""
    with Spawn(*arguments, env=env, **popen) as spawned:
        return spawned.finish()
