"""DistributedDataParallel, nothing else."""

import torch
import torch.distributed as dist
from common import RANK, STEPS, WORLD, checksum, data, model, report

dist.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(model())
sampler = torch.utils.data.DistributedSampler(data(), num_replicas=WORLD, rank=RANK, seed=3)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
losses = []
for _, (x, y) in zip(range(STEPS), torch.utils.data.DataLoader(data(), batch_size=4, sampler=sampler)):
    loss = torch.nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
report(losses=losses, weights=checksum(net.module.state_dict()))
dist.destroy_process_group()
