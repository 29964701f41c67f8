"""What tests/chaos.py needs of the machine: who descends from us, who listens where, what is left, and rubbish.

Linux only. `adopt_orphans()` makes this process the parent of every descendant whose own parent has
ended, so that nothing a run started can hide: not a daemon, not one with a clean environment.
"""

import contextlib
import ctypes
import os
import random
import socket
import struct
import threading
import time
from pathlib import Path

import store_wire as wire
import session_wire

SUBREAPER = 36


def adopt_orphans():
    if ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def parents():
    """pid -> (parent, state), of all processes."""
    found = {}
    for folder in os.scandir("/proc"):
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(folder.path, "stat").read_bytes().rpartition(b")")[2].split()
                found[int(folder.name)] = (int(fields[1]), fields[0].decode())
    return found


def descendants(of):
    """pid -> state."""
    tree, found, front = parents(), {}, [of]
    while front:
        above = front.pop()
        for pid, (parent, state) in tree.items():
            if parent == above and pid not in found:
                found[pid] = state
                front.append(pid)
    return found


def described(pid):
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        status = Path(f"/proc/{pid}/status").read_text()
        fields = {line.split(":")[0]: line.split(":")[1].strip() for line in status.splitlines() if ":" in line}
        return f"{pid} (parent {fields['PPid']}, state {fields['State']}, name {fields['Name']}): {words[:200]}"
    return f"{pid} (gone meanwhile)"


def reap_adopted(ours):
    """Those who were left to us and have ended. `ours` are the children that somebody else waits for."""
    for pid, (parent, state) in parents().items():
        if parent == os.getpid() and state == "Z" and pid not in ours:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def descriptors(pid):
    found = {}
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found[fd] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


def sockets(pid):
    """How many it has. Files do not count: a log may be opened at its first line."""
    return sum(target.startswith("socket:") for target in descriptors(pid).values())


def listening_ports(pids):
    """Ports on which one of these processes listens, IPv4 and IPv6."""
    sockets = set()
    for pid in pids:
        sockets |= {target[8:-1] for target in descriptors(pid).values() if target.startswith("socket:")}
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in sockets:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


class Rubbish:
    """Strangers at every port of the processes that `pids()` names, until the block ends."""

    def __init__(self, seed, pids, crowd=24):
        self.random = random.Random(seed)
        self.pids = pids
        self.crowd = crowd
        self.sent = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def _run(self):
        open_ones = []
        while not self.over.wait(0.05):
            for port in listening_ports(self.pids()):
                with contextlib.suppress(OSError):
                    stranger = socket.create_connection(("127.0.0.1", port), timeout=0.2)
                    open_ones.append(stranger)
                    stranger.setblocking(False)
                    stranger.send(self._words())
                    self.sent += 1
            while len(open_ones) > self.crowd:
                self._close(open_ones.pop(self.random.randrange(len(open_ones))))
        for stranger in open_ones:
            self._close(stranger)

    def _close(self, stranger):
        if self.random.random() < 0.3:  # With a reset, and whatever was not read yet is lost.
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stranger.close()

    def _words(self):
        rng = self.random
        key = b"/rubbish/%d" % rng.randrange(50)
        value = rng.randbytes(rng.choice([0, 1, 100, 20000]))
        requests = [
            wire.set_(key, value),
            wire.get(key),
            wire.add(b"/rubbish/n%d" % rng.randrange(5), 1),
            wire.check([key]),
            wire.wait([key, b"/rubbish/never"]),
            wire.num_keys(),
            wire.delete_key(key),
            wire.append(key, value),
            wire.multi_set([(key, value)]),
            wire.compare_set(key, b"", value),
            wire.queue_push(key, value),
            wire.queue_pop(key),
            wire.queue_len(key),
            wire.list_keys(),
            wire.cancel_wait(),
            wire.barrier(b"/rubbish/barrier", 1 << 40),
            wire.multi_get([key]),
            wire.ping(b"\1\2\3\4"),
        ]
        session = wire.GREETING + wire.check([session_wire.KEY])
        kind = rng.randrange(8)
        if kind == 0:
            return b""  # Silence.
        if kind == 1:
            return rng.randbytes(rng.randrange(1, 300))
        if kind == 2:
            return wire.GREETING + rng.randbytes(rng.randrange(1, 300))
        if kind == 3:
            return b"GET /status HTTP/1.1\r\nHost: x\r\n" + b"\r\n" * rng.randrange(2)
        if kind == 4:
            words = wire.GREETING + rng.choice(requests)
            return words[: rng.randrange(1, len(words))]
        if kind == 5:
            return session + rng.randbytes(rng.randrange(200))
        if kind == 6:
            return session + session_wire.hello(b"rubbish-%d" % rng.randrange(4)) + session_wire.join(0)
        return wire.GREETING + b"".join(rng.choice(requests) for _ in range(rng.randrange(1, 12)))


def until(what, limit_s, pause_s=0.02):
    """What `what()` returns once it is true, or what it returned last."""
    deadline = time.monotonic() + limit_s
    while not (result := what()) and time.monotonic() < deadline:
        time.sleep(pause_s)
    return result
