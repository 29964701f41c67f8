"""Tensor parallel: the first layer by columns, the second by rows."""

import torch
import torch.distributed as dist
from common import STEPS, WORLD, checksum, data, model, report
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")
net = parallelize_module(model(), init_device_mesh("cpu", (WORLD,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
losses = []
for _, (x, y) in zip(range(STEPS), torch.utils.data.DataLoader(data(), batch_size=4)):
    loss = torch.nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
report(losses=losses, weights=checksum([value.full_tensor() for value in net.state_dict().values()]))
dist.destroy_process_group()
