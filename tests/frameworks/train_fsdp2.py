"""FSDP2: fully_shard over all ranks."""

import torch
import torch.distributed as dist
from common import RANK, STEPS, WORLD, checksum, data, model, report
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (WORLD,))
net = model()
for layer in net:
    if list(layer.parameters()):
        fully_shard(layer, mesh=mesh)
fully_shard(net, mesh=mesh)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
sampler = torch.utils.data.DistributedSampler(data(), num_replicas=WORLD, rank=RANK, seed=3)
losses = []
for _, (x, y) in zip(range(STEPS), torch.utils.data.DataLoader(data(), batch_size=4, sampler=sampler)):
    loss = torch.nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
report(losses=losses, weights=checksum([value.full_tensor() for value in net.state_dict().values()]))
dist.destroy_process_group()
