"""Jobs of two nodes on this machine, by `regroup run` and by torchrun with the same words: how long until workers run
again when a worker dies, when an agent is killed, and when a network goes silent. The workers tell by the machine's
clock when they began (clocked_worker FOLDER log); those of torchrun outlive their agent, and are ended here."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from launches import Failure, LONGEST

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from namespaces import Machine, connect  # noqa: E402

ADDRESSES = {"A": "10.1.0.1", "B": "10.1.0.2"}
NO_CARD = "02:00:00:00:00:77"


class Worker:
    def __init__(self, text):
        self.node, began, pid, world_size = text.split()
        self.began, self.pid, self.world_size = int(began), int(pid), int(world_size)


class Job:
    """Nodes A and B; A hosts the rendezvous. Leaving its context ends them and their workers."""

    def __init__(self, launcher, environment, worker, nnodes, flags=(), machines=None):
        self.undo = contextlib.ExitStack()
        self.folder = Path(self.undo.enter_context(tempfile.TemporaryDirectory()))
        self.undo.callback(self.end_workers)
        self.agents = {}
        if machines:
            host, port = ADDRESSES["A"], 29400
        else:
            with socket.create_server(("127.0.0.1", 0)) as free:  # torchrun does not know "any free port".
                host, port = free.getsockname()
        for name in "AB":
            words = [*(machines[name].prefix if machines else ()), *launcher, "--rdzv-backend", "c10d",
                     "--rdzv-endpoint", f"{host}:{port}", "--rdzv-id", "bench", "--nnodes", nnodes,
                     "--local-addr", ADDRESSES[name] if machines else "127.0.0.1",
                     "--rdzv-conf", f"is_host={str(name == 'A').lower()}", "--max-restarts", "3", *flags,
                     "--no-python", worker, self.folder, "log"]
            self.agents[name] = self.start(words, environment | {"BENCH_NODE": name})

    def start(self, words, environment):
        errors = self.undo.enter_context(tempfile.TemporaryFile())
        agent = subprocess.Popen(list(map(str, words)), env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=errors)
        agent.errors = errors
        self.undo.callback(self.end, agent)
        return agent

    @staticmethod
    def end(agent):
        agent.kill()
        agent.wait()

    def end_workers(self):
        for worker in self.workers():
            if Path(f"/proc/{worker.pid}/cmdline").exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.undo.close()

    def workers(self):
        return [Worker(file.read_text()) for file in self.folder.glob("start.*") if file.suffix != ".unfinished"]

    def runs(self, nodes, after=0, limit=LONGEST):
        """The workers of these nodes, and of no other, that have begun after this moment; None: not within the
        limit."""
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            begun = {worker.node: worker for worker in self.workers()
                     if worker.began > after and worker.world_size == len(nodes)}
            if set(begun) == set(nodes):
                return begun
            time.sleep(0.005)
        return None

    def started(self):
        workers = self.runs("AB")
        if workers is None:
            last = []
            for agent in self.agents.values():
                agent.errors.seek(0)
                last.append(agent.errors.read().decode(errors="replace").strip().split("\n")[-1])
            raise Failure(f"two nodes did not begin: {'; '.join(last)}")
        return workers

    def until_again(self, nodes, after, limit):
        """Milliseconds until the last of them runs; the limit, if they do not in time."""
        workers = self.runs(nodes, after, limit)
        return limit * 1e3 if workers is None else (max(w.began for w in workers.values()) - after) / 1e6


class TwoNodes:
    """`limit`: after so many seconds whoever has not recovered is given up, and counts as if he had just then."""

    def __init__(self, launches, limit):
        self.launches = launches
        self.limit = limit

    def job(self, who, nnodes, flags=(), machines=None):
        return Job(self.launches.launchers[who], self.launches.environment, self.launches.worker, nnodes, flags,
                   machines)

    def worker_dies(self, who):
        with self.job(who, "2") as job:
            workers = job.started()
            at = time.monotonic_ns()
            os.kill(workers["B"].pid, signal.SIGKILL)
            return {"all workers run again": job.until_again("AB", at, self.limit)}

    def agent_is_killed(self, who):
        with self.job(who, "1:2") as job:
            job.started()
            at = time.monotonic_ns()
            job.agents["B"].kill()
            return {"the other's workers run again": job.until_again("A", at, self.limit)}

    def network_goes_silent(self, who, heartbeat_limit):
        with contextlib.ExitStack() as undo:
            machines = {name: undo.enter_context(Machine(f"node-{name.lower()}")) for name in "AB"}
            connect(*machines.values(), "cable", *(f"{address}/24" for address in ADDRESSES.values()))
            flags = ("--heartbeat-limit", heartbeat_limit) if who == "ours" else ()
            job = undo.enter_context(self.job(who, "1:2", flags, machines))
            job.started()
            at = time.monotonic_ns()
            for name, other in ("AB", "BA"):  # What each sends goes to a card that is not there.
                machines[name].do("ip", "neigh", "replace", ADDRESSES[other], "lladdr", NO_CARD, "dev", "cable",
                                  "nud", "permanent")
            return {"the other's workers run again": job.until_again("A", at, self.limit)}


def why_no_machines():
    """None: this machine can play several."""
    try:
        with Machine("node-a") as a, Machine("node-b") as b:
            connect(a, b, "cable", "10.1.0.1/24", "10.1.0.2/24")
    except unittest.SkipTest as reason:
        return f"{reason}; to run it: be root on a machine with network namespaces"
    return None
