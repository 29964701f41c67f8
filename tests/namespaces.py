"""Small networks of their own: each machine is a network, mount and host-name namespace on this one.

A machine lives as long as the process that holds it, and that process ends when its standard input does:
nothing is left behind, however the test ends. No packet leaves the namespaces.
"""

import contextlib
import subprocess
import tempfile
import unittest
from pathlib import Path

LIMIT_S = 60.0


class Machine:
    """Has its own interfaces, host name, /etc/hosts and /etc/resolv.conf. The two files are empty at first."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory()))
            self.hosts, self.resolver = folder / "hosts", folder / "resolv.conf"
            self.hosts.touch()
            self.resolver.touch()
            setup = (f"hostname {self.name} && ip link set lo up && mount --bind {self.hosts} /etc/hosts && "
                     f"mount --bind {self.resolver} /etc/resolv.conf && echo ready && exec cat")
            try:
                self._holder = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "sh", "-c", setup],
                                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                text=True)
            except FileNotFoundError as error:
                raise unittest.SkipTest(f"no program to make namespaces with: {error}") from None
            undo.callback(self._end)
            if self._holder.stdout.readline() != "ready\n":
                raise unittest.SkipTest("this machine does not allow network namespaces (root is needed): "
                                        + self._holder.stderr.read().strip())
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self._undo.close()

    def _end(self):
        self._holder.stdin.close()
        self._holder.wait(LIMIT_S)
        self._holder.stdout.close()
        self._holder.stderr.close()

    @property
    def pid(self):
        return self._holder.pid

    @property
    def prefix(self):
        """In front of a command, makes it run there, as the same process."""
        return ["nsenter", "--target", str(self.pid), "--net", "--mount", "--uts", "--"]

    def run(self, *command):
        return subprocess.run([*self.prefix, *map(str, command)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT_S)

    def do(self, *command):
        done = self.run(*command)
        if done.returncode != 0:
            raise AssertionError(f"{self.name}: {' '.join(map(str, command))}: {done.stderr.strip()}")
        return done.stdout


def connect(a, b, link, address_a, address_b):
    """A cable between two machines: an interface of this name in both, with these addresses (with /BITS)."""
    made = a.run("ip", "link", "add", link, "type", "veth", "peer", "name", link, "netns", b.pid)
    if made.returncode != 0:
        raise unittest.SkipTest(f"this machine has no virtual cables (veth): {made.stderr.strip()}")
    for machine, address in ((a, address_a), (b, address_b)):
        if ":" in address:
            added = machine.run("ip", "-6", "addr", "add", address, "dev", link, "nodad")
            if added.returncode != 0:
                raise unittest.SkipTest(f"this machine has no IPv6: {added.stderr.strip()}")
        else:
            machine.do("ip", "addr", "add", address, "dev", link)
    for machine in (a, b):
        machine.do("ip", "link", "set", link, "up")
