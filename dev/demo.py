#!/usr/bin/env python3
"""A small job that survives: two nodes on this machine, two workers each, train one model together; one worker
is killed on the way. The workers are PyTorch's (examples/train.py); where there is no PyTorch, the stand-in
(examples/stand_in.cc) does the same in C++.

Exit status 0: they recovered, and the loss went on falling. 1: they did not. 130: stopped by Ctrl-C."""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("REGROUP_BUILD", ROOT / "build" / "release"))
REGROUP = os.environ.get("REGROUP_BIN", BUILD / "regroup")
NODES, WORKERS = 2, 2
STEPS, SAVE_EVERY, PAUSE = 120, 20, 0.03
KILL_AFTER = 40  # Steps.
VICTIM = NODES * WORKERS - 1  # The last rank: the one that prints is rank 0.
LIMIT = 300  # Seconds for the whole; a cold disk can take long to import PyTorch.


class Failed(Exception):
    """What was to be seen was not seen."""


def say(text):
    print(f"\n== {text}", flush=True)


class Torch:
    """dev/torch-python, which may take a minute: begun at once, so that PyTorch is installed while we build."""

    def __init__(self):
        self.reason = ""
        # A session of its own: pip's children end with it, whatever becomes of us.
        self.process = subprocess.Popen([ROOT / "dev" / "torch-python"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            if line.startswith("PyTorch: "):
                print(line, end="", flush=True)
            else:
                self.reason = line.strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()

    def python(self):
        """A Python that has PyTorch, or None after a word about why there is none."""
        found = self.process.stdout.read().strip()
        self.reader.join()
        code = self.process.wait()
        if code == 0:
            return found
        if code == 2:  # The caller named one that does not serve.
            raise Failed(self.reason)
        print(f"No PyTorch here ({self.reason}): a stand-in in C++ takes its place, and does the same.", flush=True)
        return None


def build():
    """What the demo needs. The stand-in too, because only later it is known whether there is PyTorch."""
    say(f"building {BUILD.relative_to(ROOT)}/regroup, and PyTorch is made ready beside it")
    built = subprocess.run([os.environ.get("CMAKE", "cmake"), "--build", BUILD, "--target", "all", "stand_in"])
    if built.returncode != 0:
        raise Failed("the build failed; what the compiler said is above")


def environment(folder):
    """Ours, without what another launcher has left there, and with a mark that everybody of the job carries."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "TORCHELASTIC_"))}
    return {"OMP_NUM_THREADS": "1", **kept, "REGROUP_DEMO": str(folder)}


def carrying(mark):
    """Pids of all who have it in their environment; those that have ended have none any more."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def rank_of(pid):
    """The rank of a worker; None if it is none, or is gone."""
    with contextlib.suppress(OSError):
        variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for variable in variables:
            if variable.startswith(b"RANK="):
                return int(variable[5:])
    return None


class Node:
    """`regroup run` as one node of the job. What it and its workers print is shown with its name in front."""

    def __init__(self, name, command, folder, changed):
        self.name, self.changed = name, changed
        self.lines = []  # (when, text)
        # A session of its own: Ctrl-C is for us, and we stop both nodes in good order.
        self.process = subprocess.Popen(command, env=environment(folder), stdin=subprocess.DEVNULL,
                                        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                print(f"   {self.name} | {line}", end="", flush=True)
                self.lines.append((time.monotonic(), line.rstrip()))
                self.changed.notify_all()

    def first_after(self, moment, text):
        """When it first said so after that moment."""
        return min((when for when, line in self.lines if when > moment and text in line), default=moment)

    def workers(self):
        """Its workers that live, as {rank: pid}."""
        with contextlib.suppress(OSError):
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
            ranks = {rank_of(pid): int(pid) for pid in children.split()}
            return {rank: pid for rank, pid in ranks.items() if rank is not None}
        return {}


STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt(*_):
    raise KeyboardInterrupt


@contextlib.contextmanager
def held_signals():
    """What wants to stop us does it after the block."""
    held = []
    before = [(number, signal.signal(number, lambda *_: held.append(True))) for number in STOPS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    if held:
        interrupt()


class Job:
    """Both nodes, until the block ends; then nothing of them lives."""

    def __init__(self, python, folder):
        self.folder = folder
        program = (["--python", python, ROOT / "examples" / "train.py"] if python
                   else ["--no-python", BUILD / "examples" / "stand_in"])
        with socket.create_server(("127.0.0.1", 0)) as free:
            endpoint = f"127.0.0.1:{free.getsockname()[1]}"
        flags = ["--nnodes", NODES, "--nproc-per-node", WORKERS, "--max-restarts", 3, "--rdzv-backend", "c10d",
                 "--rdzv-endpoint", endpoint, "--rdzv-id", "demo"]
        script = [*program, "--checkpoint", folder / "checkpoint", "--steps", STEPS, "--save-every", SAVE_EVERY,
                  "--pause", PAUSE]
        # Besides, workers' stderr goes to files: those who lose a peer print tracebacks, as they should.
        self.command = [str(word) for word in [REGROUP, "run", "-v", *flags, "--log-dir", folder / "logs",
                                               "--redirects", 2, *script]]
        self.shown = " ".join(str(word) for word in ["regroup run", *flags, pathlib.Path(program[-1]).name])
        self.changed = threading.Condition()
        self.nodes = []
        self.deadline = time.monotonic() + LIMIT

    def __enter__(self):
        return self

    def start(self):
        with held_signals():  # Nobody is started without being known.
            for name in "AB":
                self.nodes.append(Node(name, self.command, self.folder, self.changed))

    def __exit__(self, *_):
        for number in STOPS:  # A second Ctrl-C would only leave behind what this is about to end.
            signal.signal(number, signal.SIG_IGN)
        running = [node.process for node in self.nodes if node.process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()  # Its guard ends the workers.
                process.wait()

    def found(self, pattern):
        """(when, match) of every line of both nodes, the first one first."""
        found = [(when, match) for node in self.nodes for when, line in node.lines
                 if (match := re.search(pattern, line))]
        return sorted(found, key=lambda one: one[0])

    def await_that(self, what, condition):
        """What the condition gives once it is true."""
        with self.changed:
            while not (value := condition()):
                if not all(node.reader.is_alive() for node in self.nodes):
                    raise Failed(f"a node ended before {what}")
                if time.monotonic() > self.deadline:
                    raise Failed(f"{LIMIT} s have passed, and still not: {what}")
                self.changed.wait(0.2)
        return value

    def losses(self):
        return [(int(match[1]), float(match[2])) for _, match in self.found(r"^step (\d+) loss ([\d.e+-]+)$")]

    def everybody(self):
        """{rank: (node, pid)} once all workers live."""
        living = {rank: (node, pid) for node in self.nodes for rank, pid in node.workers().items()}
        return living if len(living) == NODES * WORKERS else None

    def finish(self):
        for node in self.nodes:
            try:
                code = node.process.wait(max(1, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise Failed(f"{LIMIT} s have passed, and node {node.name} has not ended") from None
            node.reader.join(10)
            if code != 0:
                raise Failed(f"node {node.name} ended with exit code {code}")

    def await_nobody(self):
        """A launcher's guard ends a moment after the launcher; whoever is still there after ten seconds stays."""
        mark, end = f"REGROUP_DEMO={self.folder}".encode(), time.monotonic() + 10
        while left := carrying(mark):
            if time.monotonic() > end:
                raise Failed(f"processes {left} were left behind")
            time.sleep(0.02)

    def show_tracebacks(self):
        for file in sorted(self.folder.glob("logs/**/stderr.log")):
            last = file.read_text(errors="replace").strip().split("\n")[-3:]
            if last != [""]:
                print(f"{file.relative_to(self.folder)}: ...", *last, sep="\n   ", file=sys.stderr)


def show(job):
    """What was seen, in one sentence."""
    say(f"{NODES} nodes, A and B, both on this machine, {WORKERS} workers each. On both:")
    print(f"   {job.shown}\n", flush=True)
    job.start()
    job.await_that(f"step {KILL_AFTER}", lambda: job.losses() and job.losses()[-1][0] >= KILL_AFTER)
    first = job.await_that("all workers run", job.everybody)
    before = job.losses()[-1]

    node, pid = first[VICTIM]
    say(f"kill -9 {pid}: the worker with rank {VICTIM}, on node {node.name}")
    killed = time.monotonic()
    os.kill(pid, signal.SIGKILL)

    job.await_that("the training goes on", lambda: len(job.found("^begins at step")) > 1)
    job.finish()
    resumed = int(job.found(rf"^begins at step (\d+), {NODES * WORKERS} ranks")[-1][1][1])
    last = job.losses()[-1]
    if not 0 < resumed < STEPS or last[0] != STEPS:
        raise Failed(f"the training went on at step {resumed} and ended at step {last[0]}, not {STEPS}")
    if not last[1] < before[1]:
        raise Failed(f"the loss did not go on falling: {before[1]} before, {last[1]} at the end")
    job.await_nobody()
    again = max(node.first_after(killed, "workers started in") - killed for node in job.nodes)
    return (f"rank {VICTIM} was killed after step {before[0]}; all {len(first)} workers, on both nodes, were started "
            f"again {again * 1000:.0f} ms later and went on at step {resumed}; the loss fell from {before[1]:.4f} to "
            f"{last[1]:.6f}; nothing is left running.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", action="store_true", help="build first, while PyTorch is installed")
    args = parser.parse_args()
    with Torch() as torch:
        if args.build:
            build()
        if torch.process.poll() is None:
            say("waiting for PyTorch (TORCH=none goes without)")
        python = torch.python()
    who = "PyTorch workers (DDP, gloo)" if python else "stand-in workers (no PyTorch here)"
    if python:
        print("Importing PyTorch takes each worker some seconds, at the start and after the failure.", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Job(python, pathlib.Path(folder)) as job:
        try:
            seen = show(job)
        except Failed:
            job.show_tracebacks()
            raise
    print(f"\ndemo: {NODES * WORKERS} {who}, {time.monotonic() - begun:.0f} s: {seen}")
    return 0


if __name__ == "__main__":
    for number in STOPS:
        signal.signal(number, interrupt)
    try:
        sys.exit(main())
    except Failed as failed:
        print(f"\ndemo: failed: {failed}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("\ndemo: stopped; nothing is left running", file=sys.stderr)
        sys.exit(130)
