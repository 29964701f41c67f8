"""DDP training in which one rank gets stuck in its data loader.

    hung_training.py STUCK_RANK FINISHED

Or not: with STUCK_RANK -1 the first step takes TRAIN_FIRST_STEP seconds, a checkpoint in the middle is written for
TRAIN_CHECKPOINT seconds, and the training ends well.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

if os.environ.get("TRAIN_DUMP"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    import regroup
    assert regroup.dump_on_hang()

stuck_rank = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if rank == stuck_rank and index >= 16:
            self.read_from_a_dead_mount()
        return torch.randn(4)

    def read_from_a_dead_mount(self):
        time.sleep(100000)


def save(model):
    """Rank 0 writes for a long time, and the others wait for it."""
    if rank == 0:
        end = time.monotonic() + float(os.environ["TRAIN_CHECKPOINT"])
        with open(sys.argv[2], "wb") as file:
            while time.monotonic() < end:
                torch.save(model.state_dict(), file)
                file.flush()
                os.fsync(file.fileno())
                time.sleep(0.05)
    dist.barrier()


model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step, batch in enumerate(DataLoader(Samples(), batch_size=4)):
    if step == 0 and stuck_rank < 0:
        time.sleep(float(os.environ["TRAIN_FIRST_STEP"]))
    optimizer.zero_grad()
    model(batch).pow(2).mean().backward()
    optimizer.step()
    if step == 8 and stuck_rank < 0:
        save(model)
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # PyTorch 2.13 now and then aborts while the interpreter is taken down; that is not what is tried here.
