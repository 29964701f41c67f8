"""One rank of a gloo group; test_gloo.py starts four. Says `done` when every collective gave what it must."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist


def check(what, got, expected):
    if got != expected:
        sys.exit(f"{what}: got {got}, expected {expected}")


def main(form):
    limit = timedelta(seconds=60)
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    if form == "tcp":
        dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=world_size, timeout=limit)
    elif form == "env":
        dist.init_process_group("gloo", timeout=limit)
    else:
        store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size, is_master=False,
                              timeout=limit)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=limit)

    total = torch.full((1000,), float(rank + 1))
    dist.all_reduce(total)
    check("all_reduce", total.tolist(), [world_size * (world_size + 1) / 2] * 1000)
    dist.barrier()

    evens = dist.new_group([r for r in range(world_size) if r % 2 == 0])
    odds = dist.new_group([r for r in range(world_size) if r % 2 == 1])
    mine = torch.tensor([rank])
    dist.all_reduce(mine, group=evens if rank % 2 == 0 else odds)
    check("all_reduce in a new group", mine.item(), sum(range(rank % 2, world_size, 2)))

    message = torch.arange(5) * 7 if rank == 2 else torch.zeros(5, dtype=torch.int64)
    dist.broadcast(message, src=2)
    check("broadcast", message.tolist(), [0, 7, 14, 21, 28])

    everybody = [None] * world_size
    dist.all_gather_object(everybody, {"rank": rank})
    check("all_gather_object", everybody, [{"rank": r} for r in range(world_size)])
    dist.barrier()
    dist.destroy_process_group()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
