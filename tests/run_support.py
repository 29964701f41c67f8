"""`regroup run` on several nodes, all of them on this machine, and workers that do what a test says."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rendezvous_cli_support import reserved_port
from spawn_support import LIMIT_S, Spawn, WORKERS, state_of, until
from store_support import BINARY, Lines

OBEY = WORKERS / "obey.py"

# For runs whose nodes come and go: the last call and the silence limit pass while a test waits.
QUICK = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"


class Run(Spawn):
    """A running `regroup run`, until the block ends; then nothing of it may live, and what does is killed."""

    def __init__(self, *arguments, env=None, **popen):
        # Its own are no one else's: another test, or the job that runs this one, may have set some.
        super().__init__(env={"PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1", **(env or {})}, **popen)
        for name in [name for name in self.env if name.startswith("PET_")]:
            if name not in (env or {}):
                del self.env[name]
        self.command = [BINARY, "run", *map(str, arguments)]

    def __enter__(self):
        super().__enter__()
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.alive():
            if pid != self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)
        self.out.rest(), self.err.rest()

    def signal(self, number):
        self.process.send_signal(number)

    def finish(self, limit_s=LIMIT_S):
        """Its exit code, standard output and standard error."""
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"still running after {limit_s} s: {self.err.rest()}") from None
        return code, "\n".join(self.out.rest()), "\n".join(self.err.rest())


@dataclass
class Worker:
    """A start of obey.py."""
    pid: int
    at: float
    environment: dict

    def __getitem__(self, name):
        return self.environment[name]

    @property
    def node(self):
        return self.environment.get("TEST_NODE")

    @property
    def rank(self):
        return int(self["RANK"])

    def lives(self):
        return state_of(self.pid) not in ("Z", None)


class Crew:
    """The workers of a test, on whichever node they are, and the orders to them."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def command(self, *more):
        return [OBEY, self.folder, *more]

    def starts(self, node=None):
        """Every start so far, the first one first."""
        found = [Worker(**json.loads(file.read_text())) for file in self.folder.glob("start.*.json")]
        return sorted((one for one in found if node in (None, one.node)), key=lambda one: one.at)

    def complete(self, count, but=()):
        """Waits until just `count` workers live, who know of one another, and nobody of `but` is among them."""
        gone = {one.pid for one in but}

        def look():
            living = sorted((one for one in self.starts() if one.lives()), key=lambda one: one.rank)
            good = ([one.rank for one in living] == list(range(count))
                    and all(one["WORLD_SIZE"] == str(count) for one in living)
                    and not gone & {one.pid for one in living})
            return living if good else None
        living = until(look)
        if living is None:
            raise AssertionError(f"no {count} workers run together: " + "; ".join(
                f"{one.node} rank {one['RANK']}/{one['WORLD_SIZE']} restart {one['TORCHELASTIC_RESTART_COUNT']}"
                f"{' lives' if one.lives() else ''}" for one in self.starts()))
        return living

    def order(self, code, to="all"):
        """`to` is a worker, 'all', or 'restart<n>'."""
        name = f"order.{to.pid if isinstance(to, Worker) else to}"
        unfinished = self.folder / f"unfinished.{name}"
        unfinished.write_text(str(code))
        unfinished.rename(self.folder / name)

    def got_sigterm(self, worker):
        return (self.folder / f"term.{worker.pid}").exists()


__all__ = ["Crew", "LIMIT_S", "OBEY", "QUICK", "Run", "Worker", "reserved_port", "until"]
