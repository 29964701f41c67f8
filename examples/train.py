"""A tiny training that survives: data-parallel on CPUs, with checkpoints.

    regroup run --nproc-per-node 2 --max-restarts 3 examples/train.py --checkpoint /tmp/line.pt
    torchrun    --nproc-per-node 2 --max-restarts 3 examples/train.py --checkpoint /tmp/line.pt

Whoever starts it has set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and starts every rank anew after one
has failed. All that is left to the script is to begin where the last checkpoint ended.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WEIGHTS = torch.tensor([[2.0], [-3.0], [0.5]])  # What the model should find,
BIAS = 0.7                                      # and this.


def batch(step, rank):
    """Every rank has data of its own, the same whenever a step is done again."""
    noise = torch.Generator().manual_seed(1_000_003 * step + rank)
    x = torch.randn(32, 3, generator=noise)
    return x, x @ WEIGHTS + BIAS


def save(path, step, model, optimizer):
    """The file is the old checkpoint or the new one, never half of one: a rename is atomic."""
    unfinished = f"{path}.{os.getpid()}"
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, unfinished)
    os.replace(unfinished, path)


def load(path, model, optimizer):
    """How many steps were done; 0 where there is no checkpoint yet."""
    if not os.path.exists(path):
        return 0
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True, help="a file that every node sees")
    parser.add_argument("--steps", type=int, default=300, help="the training ends after so many")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--pause", type=float, default=0.0, metavar="SECONDS", help="after every step, to watch it")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.5)
    # Every rank loads before it takes its first step, and no step is done without all of them: rank 0
    # cannot save again while another one still reads.
    done = load(args.checkpoint, model, optimizer)
    if rank == 0:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        print(f"begins at step {done}, {dist.get_world_size()} ranks, restart {attempt}", flush=True)
    parallel = DistributedDataParallel(model)

    for step in range(done + 1, args.steps + 1):
        x, y = batch(step, rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(x), y)
        loss.backward()  # The gradients are now the mean over all ranks.
        optimizer.step()
        if rank == 0 and (step % args.save_every == 0 or step == args.steps):
            save(args.checkpoint, step, model, optimizer)
            print(f"step {step} loss {loss.item():.6f}", flush=True)
        time.sleep(args.pause)

    dist.barrier()  # The last checkpoint is written before anybody says that it is done.
    if rank == 0:
        print(f"done at step {max(done, args.steps)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
