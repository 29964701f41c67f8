"""PyTorch's side of the interoperation tests."""

import contextlib
import os
import unittest
from datetime import timedelta

# PyTorch warns about every time limit that we let pass on purpose.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
# Its server asks the name service for the peer's name before it logs why it closes a connection, and
# serves nobody meanwhile: seconds, where there is no name service. Zero attempts: it never asks.
os.environ["RES_OPTIONS"] = "attempts:0"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

LIMIT = timedelta(seconds=20)
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def has(operation):
    """Operations came with the years: queues with 2.8, list_keys with 2.10, barrier after 2.11."""
    return hasattr(dist.TCPStore, operation)


def lacking(*operations):
    """Why a test cannot run with this PyTorch, or None."""
    missing = [operation for operation in operations if not has(operation)]
    if not missing:
        return None
    return f"PyTorch {torch.__version__} has no {missing[0]} in its stores; to run it: use PyTorch 2.13"


def needs(*operations):
    return unittest.skipIf(lacking(*operations), lacking(*operations))


def torch_client(port, timeout=LIMIT, **more):
    return dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timeout, **more)


@contextlib.contextmanager
def torch_server(libuv=True):
    """PyTorch's own server, in this process. Yields its port."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=LIMIT, wait_for_workers=False, use_libuv=libuv)
    try:
        yield store.port
    finally:
        del store
