"""DeepSpeed's engine, ZeRO stage 1, on CPUs with gloo."""

import os

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch
from common import RANK, STEPS, WORLD, checksum, data, model, report

deepspeed.init_distributed(dist_backend="gloo")
net = model()
engine, *_ = deepspeed.initialize(
    model=net,
    model_parameters=net.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
        "zero_optimization": {"stage": int(os.environ.get("ZERO_STAGE", "1"))},
    },
)
sampler = torch.utils.data.DistributedSampler(data(), num_replicas=WORLD, rank=RANK, seed=3)
losses = []
for _, (x, y) in zip(range(STEPS), torch.utils.data.DataLoader(data(), batch_size=4, sampler=sampler)):
    loss = torch.nn.functional.mse_loss(engine(x), y)
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
report(losses=losses, weights=checksum(engine.module.state_dict()), processes=deepspeed.comm.get_world_size())
deepspeed.comm.destroy_process_group()
