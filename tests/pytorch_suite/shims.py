"""Puts regroup behind PyTorch's own tests: our store behind TCPStore, our launcher behind torchrun.

    import shims; shims.install()      # Before the test file is imported.

A TCPStore with `is_master=True` becomes a client of a `regroup store` that is started for it, and waits
for its workers as the original does. A server lives until its test is over (`end_servers()`); those of
a whole file live until this process ends.
"""

import atexit
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import store_wire

BINARY = os.environ.get("REGROUP_BIN") or str(ROOT / "build/release/regroup")
START_S = 60.0
BAD_START = 2
# Where TCPStore counts those that have come: not below the slash that it puts before its callers' keys.
WORKERS_KEY = b"init/"


class Servers:
    """One for each port."""

    def __init__(self):
        self.of_port = {}
        self.owner = os.getpid()
        atexit.register(self.close)

    def start(self, port, network_error):
        with tempfile.TemporaryDirectory() as folder:
            port_file = Path(folder) / "port"
            process = subprocess.Popen(
                [BINARY, "store", "--host", "::", "--port", str(port), "--port-file", port_file],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            deadline = time.monotonic() + START_S
            while not port_file.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    said = process.communicate()[1]
                    raise network_error(
                        f"The server socket has failed to listen on any local network address. port: {port}, "
                        f"code: -98, name: EADDRINUSE, message: address already in use. regroup said: {said}"
                    )
                time.sleep(0.005)
            port = int(port_file.read_text())
        process.stderr.close()
        self.of_port[port] = process
        return port

    def close(self, but=()):
        if os.getpid() == self.owner:  # Not in a forked child.
            for port in [port for port in self.of_port if port not in but]:
                process = self.of_port.pop(port)
                process.kill()
                process.wait()


servers = Servers()


def end_servers(but=()):
    servers.close(but)


def install_store():
    """The constructor is replaced, not the class: a module that took the class by name has it, too."""
    import torch.distributed as dist

    construct = dist.TCPStore.__init__

    def __init__(
        self,
        host_name,
        port,
        world_size=None,
        is_master=False,
        timeout=timedelta(seconds=300),
        wait_for_workers=True,
        multi_tenant=False,
        master_listen_fd=None,
        use_libuv=True,
    ):
        serves = is_master and world_size != 0
        shares = (
            multi_tenant
            or os.environ.get("TORCHELASTIC_USE_AGENT_STORE")
            and os.environ.get("MASTER_PORT") == str(port)
        )
        if serves and not (shares and port in servers.of_port):
            port = servers.start(port, dist.DistNetworkError)
        construct(
            self, host_name, port, world_size, is_master and not serves, timeout, wait_for_workers, use_libuv=use_libuv
        )
        if serves and wait_for_workers and world_size:
            wait_for_all(port, world_size, timeout)

    def wait_for_all(port, world_size, timeout):
        deadline = time.monotonic() + timeout.total_seconds()
        with store_wire.RawClient(port) as counter:
            while (came := struct.unpack("<q", counter.ask(store_wire.add(WORKERS_KEY, 0)))[0]) < world_size:
                if time.monotonic() > deadline:
                    raise dist.DistStoreError(
                        f"Timed out after {int(timeout.total_seconds()) + 1} seconds waiting for clients. "
                        f"{came}/{world_size} clients joined."
                    )
                time.sleep(0.01)

    dist.TCPStore.__init__ = __init__


def install_launcher():
    sys.path.insert(0, str(ROOT / "python"))
    os.environ["REGROUP_BIN"] = BINARY
    import regroup

    regroup.install()
    import torch.distributed.run as launch
    ours = launch.main

    def main(args=None):
        try:
            ours(args)
        except SystemExit as error:  # Flags that do not go together: our program cannot raise anything else.
            if error.code == BAD_START:
                raise ValueError("regroup run has refused its flags; it says why above") from error
            raise

    launch.main = main


def install_etcd():
    """Where there is no etcd, tests of it are skipped, and not with them all others of their files."""
    if shutil.which("etcd"):
        return
    from torch.distributed.elastic.rendezvous import etcd_server

    def skip(*_):
        raise unittest.SkipTest("no etcd")

    etcd_server.EtcdServer.start = etcd_server.EtcdServer.stop = lambda *_, **__: None
    etcd_server.EtcdServer.get_endpoint = etcd_server.EtcdServer.get_client = skip


def install():
    install_store()
    install_launcher()
