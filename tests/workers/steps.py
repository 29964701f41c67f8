"""A training that goes on where its last checkpoint ended: gloo, three weights, nothing of PyTorch that takes seconds
to import. Rank 0 says where it begins, what it has saved, and where it is done, in the words of examples/train.py.

    steps.py CHECKPOINT STEPS [HELD...]      Behind each step of HELD nobody goes on until there is a file
                                             CHECKPOINT.go<step>, however often it is started until then.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

WEIGHTS = torch.tensor([[2.0], [-3.0], [0.5]])
EVERY = 5


def main():
    path, steps, held = sys.argv[1], int(sys.argv[2]), set(map(int, sys.argv[3:]))
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    done, weights = 0, torch.zeros(3, 1)
    if os.path.exists(path):
        saved = torch.load(path, weights_only=True)
        done, weights = saved["step"], saved["weights"]
    if rank == 0:
        print(f"begins at step {done}, {world} ranks, restart {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)
    while done < steps:
        # Everybody has loaded before anybody saves: no step is done without all of them.
        while done in held and not os.path.exists(f"{path}.go{done}"):
            time.sleep(0.02)
        done += 1
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1_000_003 * done + rank))
        gradient = x.T @ (x @ (weights - WEIGHTS)) / len(x)
        dist.all_reduce(gradient)
        weights = weights - 0.05 * gradient / world
        if rank == 0 and (done % EVERY == 0 or done in held or done == steps):
            torch.save({"step": done, "weights": weights}, f"{path}.{os.getpid()}")
            os.replace(f"{path}.{os.getpid()}", path)
            print(f"step {done}", flush=True)
    dist.barrier()  # The last checkpoint is written before anybody ends.
    if rank == 0:
        print(f"done at step {done}", flush=True)
    dist.destroy_process_group()


main()
