"""RPC and distributed autograd: rank 0 trains a layer that lives on the last rank."""

import torch
import torch.distributed.autograd as autograd
import torch.distributed.rpc as rpc
from common import RANK, STEPS, WORLD, checksum, data, report, seed
from torch.distributed.optim import DistributedOptimizer


class Far(torch.nn.Module):
    def __init__(self):
        super().__init__()
        seed()
        self.layer = torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.layer(x)

    def weights(self):
        return [value.detach() for value in self.layer.parameters()]


def parameters(module):
    return [rpc.RRef(value) for value in module.local_value().parameters()]


rpc.init_rpc(f"worker{RANK}", rank=RANK, world_size=WORLD)
result = {"name": rpc.get_worker_info().name}
if RANK == 0:
    far = rpc.remote(f"worker{WORLD - 1}", Far)
    optimizer = DistributedOptimizer(torch.optim.SGD, rpc.rpc_sync(far.owner(), parameters, args=(far,)), lr=1e-2)
    losses = []
    for _, (x, y) in zip(range(STEPS), torch.utils.data.DataLoader(data(), batch_size=4)):
        with autograd.context() as context:
            loss = torch.nn.functional.mse_loss(far.rpc_sync().forward(x), y)
            autograd.backward(context, [loss])
            optimizer.step(context)
        losses.append(loss.item())
    result.update(losses=losses, weights=checksum(far.rpc_sync().weights()))
report(**result)
rpc.shutdown()
