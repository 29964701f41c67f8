"""torchft: two replica groups that average their gradients, each under a launcher of its own."""

import os
from datetime import timedelta

import common
import torch
from common import STEPS, checksum, data, model, report
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

group = int(os.environ["REPLICA_GROUP_ID"])
common.OUT.mkdir(parents=True, exist_ok=True)
common.RANK = group
net = model()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=60)),
    min_replica_size=2,
    replica_id=f"compare_{group}",
    load_state_dict=lambda state: (net.load_state_dict(state["net"]), optimizer.load_state_dict(state["optimizer"])),
    state_dict=lambda: {"net": net.state_dict(), "optimizer": optimizer.state_dict()},
    timeout=timedelta(seconds=60),
)
wrapped = DistributedDataParallel(manager, net)
stepping = Optimizer(manager, optimizer)
losses = []
x, y = data()[:]
while manager.current_step() < STEPS:
    at = manager.current_step() * 8 + group * 4
    stepping.zero_grad()
    loss = torch.nn.functional.mse_loss(wrapped(x[at : at + 4]), y[at : at + 4])
    loss.backward()
    stepping.step()
    losses.append(loss.item())
report(losses=losses, weights=checksum(net.state_dict()), participants=manager.num_participants())
manager.shutdown()
