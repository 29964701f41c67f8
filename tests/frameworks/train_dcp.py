"""A distributed checkpoint: rank 1 fails in the middle of the first attempt, and the second one goes on there."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from common import OUT, RANK, STEPS, WORLD, checksum, data, model, report
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
net = model()
fully_shard(net, mesh=init_device_mesh("cpu", (WORLD,)))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
folder, first = OUT / "checkpoint", 0
if (folder / ".metadata").exists():
    weights, moments = get_state_dict(net, optimizer)
    state = {"model": weights, "optimizer": moments, "step": 0}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(net, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    first = state["step"]
x, y = data()[:8]
losses = []
for step in range(first, STEPS):
    loss = torch.nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step == STEPS // 2 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        weights, moments = get_state_dict(net, optimizer)
        dcp.save({"model": weights, "optimizer": moments, "step": step + 1}, checkpoint_id=folder)
        dist.barrier()
        if RANK == 1:
            sys.exit(9)
report(losses=losses, first=first, weights=checksum([value.full_tensor() for value in net.state_dict().values()]))
dist.destroy_process_group()
