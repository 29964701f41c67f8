"""What the small trainings share: fixed seeds, a model, data, and where each rank leaves what came out."""

import hashlib
import json
import os
import random
import sys
from pathlib import Path

import torch

OUT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(".")
RANK = int(os.environ.get("RANK", 0))
WORLD = int(os.environ.get("WORLD_SIZE", 1))
STEPS = 6


def seed():
    random.seed(7)
    torch.manual_seed(7)
    torch.set_num_threads(1)


def model():
    seed()
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def data(count=48):
    generator = torch.Generator().manual_seed(11)
    return torch.utils.data.TensorDataset(
        torch.randn(count, 16, generator=generator), torch.randn(count, 4, generator=generator)
    )


def checksum(weights):
    """Of a state dict, or of an iterable of tensors."""
    values = weights.values() if hasattr(weights, "values") else weights
    made = hashlib.sha256()
    for value in values:
        made.update(value.detach().cpu().contiguous().to(torch.float32).numpy().tobytes())
    return made.hexdigest()[:16]


def report(**what):
    """Leaves the result of this rank. The environment that a training sees is part of it."""
    names = (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "ROLE_NAME",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_MAX_RESTARTS",
    )
    what["environment"] = {name: os.environ.get(name) for name in names}
    text = json.dumps(what, sort_keys=True)
    (OUT / f"rank{RANK}.json").write_text(text)
