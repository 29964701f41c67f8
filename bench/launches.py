"""Jobs from the command to their end, started by `regroup run` and by torchrun with the same words: what a user waits
for. The workers (bench/clocked_worker.cc) tell by the machine's clock when they began."""

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

LONGEST = 120  # Seconds for a start; torchrun's takes some, and a busy machine makes them many.


class Failure(Exception):
    """A measurement that gave no number, with the reason."""


class Launch:
    """A launcher with its workers. Leaving its context ends it."""

    def __init__(self, command, env):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.errors = tempfile.TemporaryFile()
        self.name = " ".join(Path(word).name for word in map(str, command[:3]))
        words = [str(word).replace("FOLDER", self.folder.name) for word in command]
        self.begun = time.monotonic_ns()
        self.child = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=self.errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(40)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.errors.close()
        self.folder.cleanup()

    def failure(self, what):
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace").strip().split("\n")[-1]
        return Failure(f"{self.name}: {what} (status {self.child.returncode}): {last}")

    def began(self, restart, workers):
        """When each of them began, in ns, once all have."""
        files = [self.path / f"{restart}.{rank}" for rank in range(workers)]
        deadline = time.monotonic() + LONGEST
        while not all(file.exists() for file in files):
            if time.monotonic() > deadline or (self.child.poll() is not None
                                               and not all(file.exists() for file in files)):
                raise self.failure(f"not all of {workers} workers have begun")
            time.sleep(0.005)
        return [int(file.read_text()) for file in files]

    def end(self):
        """When it had ended with success, in ns."""
        if self.child.wait(LONGEST) != 0:
            raise self.failure("it failed")
        return time.monotonic_ns()

    def memory_bytes(self):
        """Of the launcher and of what it runs for itself, each page shared out among those who share it."""
        pids = [self.child.pid]
        for task in Path(f"/proc/{self.child.pid}/task").iterdir():
            pids += map(int, (task / "children").read_text().split())
        return sum(pss_bytes(pid) for pid in pids if not is_worker(pid))


def is_worker(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/clocked_worker")


def pss_bytes(pid):
    return int(re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) * 1024


class Launches:
    def __init__(self, regroup, worker, bare, torch):
        self.worker = worker
        self.bare = bare
        self.launchers = {"ours": [regroup, "run"], "torchrun": [torch, "-m", "torch.distributed.run"]}
        # torchrun asks DNS for the names of addresses: a lost answer should not cost 5 seconds.
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("PET_", "TORCHELASTIC_"))}
        self.environment |= {"OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}

    def launch(self, who, workers, *behaviour, restarts=0):
        return Launch([*self.launchers[who], "--standalone", "--nproc-per-node", workers, "--max-restarts", restarts,
                       "--no-python", self.worker, "FOLDER", *behaviour], self.environment)

    def start(self, who, workers):
        with self.launch(who, workers, "wait") as launch:
            last = max(launch.began(0, workers))
            return {"command to workers run": (last - launch.begun) / 1e6,
                    "memory of the launcher": launch.memory_bytes() / 1e6}

    def whole_job(self, who, workers):
        with self.launch(who, workers) as launch:
            return {"command to its end": (launch.end() - launch.begun) / 1e6}

    def restart(self, who, workers):
        with self.launch(who, workers, "fail", restarts=1) as launch:
            launch.began(0, workers)
            (launch.path / "fail").touch()
            last = max(launch.began(1, workers))
            failed = int((launch.path / "failed").read_text())
            launch.end()
        return {"worker's end to new workers run": (last - failed) / 1e6}

    def crowd(self, who, workers):
        if who == "ours":
            launch = self.launch("ours", workers)
        else:
            launch = Launch([self.bare, "bare", workers, self.worker, "FOLDER"], self.environment)
        with launch:
            last = max(launch.began(0, workers))
            launch.end()
            return {"time beyond the kernel's own": (last - launch.begun) / 1e6}
