#!/usr/bin/env python3
"""Starts a store and lets four ranks meet on it: PyTorch's own with gloo, or, where PyTorch cannot be
had, four plain clients. Then three nodes of a run meet there; one is killed, another takes its rank. Ends
with a line that says what happened."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGROUP = ROOT / "build" / "release" / "regroup"
RANKS = 4
LIMIT = 120  # Seconds for the ranks; importing PyTorch on a cold disk is most of it.

GLOO_RANK = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
tensor = torch.tensor([float(rank)])
dist.all_reduce(tensor)
print(f"rank {rank} of {world}: the sum over all ranks is {tensor.item():.0f}", flush=True)
dist.barrier()
dist.destroy_process_group()
"""

PLAIN_RANK = """
set -eu
"$1" store set "$2" "rank/$3" "hello from rank $3"
for other in 0 1 2 3; do "$1" store get --wait --timeout 60 "$2" "rank/$other" > /dev/null; done
echo "rank $3 of 4: has read a hello from every rank"
"""


def say(text):
    print(f"\n== {text}", flush=True)


def torch_python():
    found = subprocess.run([ROOT / "dev" / "torch-python"], stdout=subprocess.PIPE, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def start_ranks(python, port):
    ranks = []
    for rank in range(RANKS):
        if python:
            command = [python, "-c", GLOO_RANK]
            environment = os.environ | {
                "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                # As under torchrun: every rank is a client, none hosts a store of its own.
                "TORCHELASTIC_USE_AGENT_STORE": "True",
            }
        else:
            command = ["sh", "-c", PLAIN_RANK, "rank", REGROUP, f"127.0.0.1:{port}", str(rank)]
            environment = None
        ranks.append(subprocess.Popen(command, env=environment))
    return ranks


class Node:
    """`regroup rendezvous join` as one node of a run; its lines are shown with its name in front."""

    def __init__(self, name, port):
        self.name, self.lines = name, []
        self.changed = threading.Condition()
        self.process = subprocess.Popen(
            [REGROUP, "rendezvous", "join", "--rdzv-id", "demo", "--rdzv-endpoint", f"127.0.0.1:{port}",
             "--rdzv-conf", "is_host=false,keep_alive_interval=1", "--nnodes", "3", "--local-addr", name,
             "--stay", str(LIMIT)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()
            if not line.startswith(("  rank", "workers'")):
                print(f"{self.name:>4}  {line}", end="", flush=True)

    def await_line(self, text):
        with self.changed:
            if not self.changed.wait_for(lambda: any(text in line for line in self.lines), LIMIT):
                raise subprocess.TimeoutExpired(self.name, LIMIT)


def show_rendezvous(port, nodes):
    say("three nodes of a run meet at the same store: regroup rendezvous join --nnodes 3")
    nodes += [Node(name, port) for name in ("n1", "n2", "n10")]
    for node in nodes:
        node.await_line("round 0: this node is rank")
    say("n2 is killed with SIGKILL; the others miss its heartbeat, and n99 takes its rank")
    nodes[1].process.kill()
    nodes.append(Node("n99", port))
    nodes[3].await_line("this node is rank 1 of 3")
    nodes[0].await_line("round 1: this node is rank 0 of 3")
    nodes[2].await_line("round 1: this node is rank 2 of 3")
    say("regroup rendezvous show")
    subprocess.run([REGROUP, "rendezvous", "show", "--rdzv-id", "demo", "--rdzv-endpoint", f"127.0.0.1:{port}"],
                   check=True)
    say("Ctrl-C takes them off the list")
    left = [node.process for node in nodes if node.process.poll() is None]
    for process in left:
        process.send_signal(signal.SIGINT)
    return [process.wait(timeout=30) - 130 for process in left]


def main():
    python = torch_python()
    if not python:
        print("PyTorch is not to be had here, so four plain clients meet instead.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        port_file = pathlib.Path(folder) / "port"
        say("regroup store --port 0")
        store = subprocess.Popen(
            [REGROUP, "store", "--port", "0", "--port-file", port_file, "--stats"],
            stdout=subprocess.PIPE, text=True)
        ranks, nodes = [], []
        try:
            print(store.stdout.readline(), end="", flush=True)
            port = port_file.read_text().strip()
            say(f"{RANKS} {'PyTorch ranks with gloo' if python else 'clients'} meet on it")
            start = time.monotonic()
            ranks = start_ranks(python, port)
            codes = [rank.wait(timeout=max(0.1, start + LIMIT - time.monotonic())) for rank in ranks]
            took = time.monotonic() - start
            codes += show_rendezvous(port, nodes)
            say("regroup store ping")
            subprocess.run([REGROUP, "store", "ping", f"127.0.0.1:{port}"], check=True)
            say("SIGTERM ends the store")
            store.send_signal(signal.SIGTERM)
            codes.append(store.wait(timeout=10))
        except subprocess.TimeoutExpired:
            print(f"demo: failed: the ranks or the nodes did not finish within {LIMIT} s", file=sys.stderr)
            return 1
        finally:
            for process in [*ranks, *(node.process for node in nodes), store]:
                if process.poll() is None:
                    process.kill()
    if any(codes):
        print(f"demo: failed: exit codes {codes}", file=sys.stderr)
        return 1
    who = "real PyTorch ranks" if python else "plain clients (no PyTorch here)"
    print(f"\ndemo: {RANKS} {who} met on one regroup store and left, in {took:.1f} s; three nodes met there, "
          "lost one, and met again.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("demo: stopped; nothing is left running")
