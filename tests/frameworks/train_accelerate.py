"""Hugging Face Accelerate."""

import torch
from accelerate import Accelerator
from common import STEPS, checksum, data, model, report

accelerator = Accelerator(cpu=True)
net = model()
net, optimizer, loader = accelerator.prepare(
    net, torch.optim.AdamW(net.parameters(), lr=1e-2), torch.utils.data.DataLoader(data(), batch_size=4)
)
losses = []
for _, (x, y) in zip(range(STEPS), loader):
    loss = torch.nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    losses.append(accelerator.gather(loss.detach()).tolist())
report(
    losses=losses,
    weights=checksum(accelerator.unwrap_model(net).state_dict()),
    processes=accelerator.num_processes,
    kind=str(accelerator.distributed_type),
)
accelerator.end_training()
