#!/usr/bin/env python3
"""Runs the same small trainings under torchrun and under `regroup run`, and compares what came out.

    tests/frameworks/compare.py --python VENV/bin/python            # all that are installed there
    tests/frameworks/compare.py --python … --only deepspeed,rpc

Each rank leaves its losses, a checksum of its weights and the environment that it was given; all of
it, and the exit codes, must be equal to the bit. Everything runs on CPUs with gloo; models are made
of configurations with fixed seeds, and nothing is downloaded. What is not installed is skipped, by
name.
"""

import argparse
import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BINARY = Path(os.environ.get("REGROUP_BIN", Path(os.environ.get("REGROUP_BUILD", ROOT / "build/release")) / "regroup"))
LIMIT_S = 900
PEER_TRIES = 3

# What runs, the module that has to be there, and further flags of the launcher.
TRAININGS = {
    "ddp": ("torch", ()),
    "fsdp2": ("torch", ()),
    "tensor_parallel": ("torch", ()),
    "dcp": ("torch", ("--max-restarts", "1")),
    "rpc": ("torch", ()),
    "accelerate": ("accelerate", ()),
    "transformers": ("transformers", ()),
    "lightning": ("lightning", ()),
    "deepspeed": ("deepspeed", ()),
    "torchx": ("torchx", ()),
    "torchft": ("torchft", ()),
}
PACKAGES = {"torchft": ("torchft-nightly", "torchft")}


def version(python, name):
    """Of what a training needs, or None where it is not installed."""
    module = TRAININGS[name][0]
    code = (
        f"import importlib.metadata as m, importlib.util as u\nassert u.find_spec({module!r})\n"
        f"for package in {PACKAGES.get(name, (module,))!r}:\n"
        " try: print(m.version(package)); break\n except m.PackageNotFoundError: pass"
    )
    found = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    """Until somebody listens there."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)


def launcher(kind, python):
    """What stands in for torchrun."""
    return [python, "-m", "torch.distributed.run"] if kind == "torchrun" else [str(BINARY), "run", "--python", python]


class Side:
    """A training under one launcher: its exit code, and what its ranks left."""

    def __init__(self, kind, name, python, ranks):
        self.kind, self.name, self.python, self.ranks = kind, name, python, ranks

    def environment(self, folder):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "TORCHELASTIC_"))}
        env.update(
            OMP_NUM_THREADS="1",
            PYTHONPATH=str(HERE),
            TMPDIR=str(folder),
            HF_HUB_OFFLINE="1",
            PYTHONHASHSEED="0",
            HOME=str(folder),
            GLOO_SOCKET_IFNAME="lo",
            TP_SOCKET_IFNAME="lo",
            TORCH_EXTENSIONS_DIR=str(folder.parent / "extensions"),
        )  # What DeepSpeed compiles, it compiles once.
        return env

    def run(self, folder):
        folder.mkdir()
        began = time.monotonic()
        with open(folder / "log", "w") as log, contextlib.ExitStack() as undo:
            command, env = self.command(folder, undo)
            process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            try:
                self.code = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                self.code = process.wait()
        self.seconds = time.monotonic() - began
        self.log = (folder / "log").read_text(errors="replace")
        self.results = {file.name: json.loads(file.read_text()) for file in sorted(folder.rglob("rank*.json"))}
        return self

    def command(self, folder, undo):
        env = self.environment(folder)
        if self.name == "torchx":
            return self.torchx(folder, env), env
        if self.name == "torchft":
            return self.torchft(folder, env, undo), env
        return [
            *launcher(self.kind, self.python),
            "--standalone",
            "--nproc-per-node",
            str(self.ranks),
            "--rdzv-id",
            "compare",
            *TRAININGS[self.name][1],
            str(HERE / f"train_{self.name}.py"),
            str(folder),
        ], env

    def torchx(self, folder, env):
        """torchx's own command, which calls `torchrun`: whichever PATH has first."""
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        shim = bin_folder / "torchrun"
        shim.write_text(f'#!/bin/sh\nexec {shlex.join(launcher(self.kind, self.python))} "$@"\n')
        shim.chmod(0o755)
        env["PATH"] = f"{bin_folder}:{Path(self.python).parent}:{env['PATH']}"
        return [
            self.python,
            "-m",
            "torchx.cli.main",
            "run",
            "--wait",
            "--scheduler",
            "local_cwd",
            "--scheduler_args",
            f"log_dir={folder}/logs",
            "dist.ddp",
            "-j",
            f"1x{self.ranks}",
            "--script",
            str(HERE / "train_ddp.py"),
            "--env",
            f"PYTHONPATH={HERE}",
            "--",
            str(folder),
        ]

    def torchft(self, folder, env, undo):
        """A lighthouse, and two replica groups of one rank each, every one of them with a launcher of its own."""
        port = free_port()
        lighthouse = Path(self.python).parent / "torchft_lighthouse"
        undo.enter_context(
            ended(
                subprocess.Popen(
                    [lighthouse, "--min_replicas", "2", "--bind", f"127.0.0.1:{port}", "--join_timeout_ms", "1000"],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        )
        wait_for(port)
        env["TORCHFT_LIGHTHOUSE"] = f"http://127.0.0.1:{port}"
        one = [
            *launcher(self.kind, self.python),
            "--standalone",
            "--nproc-per-node",
            "1",
            str(HERE / "train_torchft.py"),
        ]
        return [self.python, "-c", PAIR, json.dumps([one + [str(folder / f"group{group}")] for group in range(2)])]


# Runs commands side by side, each with its REPLICA_GROUP_ID; the exit code is the largest of theirs.
PAIR = """
import json, os, subprocess, sys
all = [subprocess.Popen(command, env={**os.environ, "REPLICA_GROUP_ID": str(i), "NUM_REPLICA_GROUPS": "2"})
       for i, command in enumerate(json.loads(sys.argv[1]))]
sys.exit(max(one.wait() for one in all))
"""


@contextlib.contextmanager
def ended(process):
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def compare(name, python, ranks, folder):
    """(equal, what was seen)"""
    # The peer is given a second and a third try: after a restart gloo's own connections fail now and then.
    for attempt in range(PEER_TRIES):
        theirs = Side("torchrun", name, python, ranks).run(folder / f"{name}-torchrun{attempt or ''}")
        if theirs.code == 0:
            break
    ours = Side("regroup", name, python, ranks).run(folder / f"{name}-regroup")
    times = f"{theirs.seconds:.1f} s and {ours.seconds:.1f} s" + (
        f", torchrun at its try {attempt + 1}" if attempt else ""
    )
    if theirs.code != ours.code:
        return False, f"torchrun ended with {theirs.code}, regroup with {ours.code} ({times})"
    if not theirs.results:
        return False, f"neither left a result; exit code {ours.code}: {theirs.log.strip().splitlines()[-1:]}"
    if set(theirs.results) != set(ours.results):
        return False, f"torchrun's ranks left {sorted(theirs.results)}, regroup's {sorted(ours.results)}"
    for rank in theirs.results:
        for field in sorted(theirs.results[rank].keys() | ours.results[rank].keys()):
            before, after = theirs.results[rank].get(field), ours.results[rank].get(field)
            if before != after:
                return False, f"{rank}, {field}: torchrun {before}, regroup {after}"
    first = theirs.results[sorted(theirs.results)[0]]
    losses = [value for value in first.get("losses", []) if isinstance(value, float)]
    seen = f"loss {losses[-1]:.6f}, " if losses else ""
    return True, f"{seen}weights {first.get('weights', '-')}, exit code {ours.code}, {times}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--python", default=os.environ.get("FRAMEWORKS_PYTHON", sys.executable), help="that has the frameworks"
    )
    parser.add_argument("--only", help="names, with commas between them")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--keep", help="a folder for logs and results")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else list(TRAININGS)
    different = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(arguments.keep or scratch)
        folder.mkdir(exist_ok=True)
        for name in wanted:
            has = version(arguments.python, name)
            if has is None:
                print(f"{name:16} {'':18} skipped: no {TRAININGS[name][0]} in {arguments.python}", flush=True)
                continue
            equal, seen = compare(name, arguments.python, arguments.ranks, folder)
            different += not equal
            print(f"{name:16} {has:18} {'equal' if equal else 'DIFFERENT'}: {seen}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
