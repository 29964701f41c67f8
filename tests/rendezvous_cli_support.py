"""Nodes of a rendezvous that are `regroup rendezvous join`, each a process of its own.

Every process ends with its context manager; everything that waits has a limit.
"""

import contextlib
import dataclasses
import re
import signal
import socket
import subprocess

from store_support import BINARY, Lines

LIMIT_S = 60.0

# A shell's background job ignores Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# For tests in which nodes come and go: the last call and the silence limit pass while a test waits.
QUICK = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5"


def rendezvous(*arguments):
    return subprocess.run([BINARY, "rendezvous", *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S)


@dataclasses.dataclass
class Round:
    """What a node prints when it has joined."""
    round: int
    rank: int
    world_size: int
    address: str
    port: int
    nodes: list


class Joining:
    """A node, until the block ends. `prefix` is a command that runs the node's."""

    def __init__(self, *flags, prefix=()):
        self.command = [*prefix, BINARY, "rendezvous", "join", *map(str, flags)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT_S)

    def next_round(self, limit_s=LIMIT_S):
        try:
            head = self.out.until(r"^round (\d+): this node is rank (\d+) of (\d+)$", limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; standard error: {self.err_so_far()}") from None
        number, rank, world_size = map(int, head.groups())
        where = re.fullmatch(r"workers' store: MASTER_ADDR=(\S+) MASTER_PORT=(\d+)", self.out.next())
        nodes = []
        for expected in range(world_size):
            found = re.fullmatch(r"  rank (\d+)  (\S+)(  \(this node\))?", self.out.next())
            assert int(found[1]) == expected and bool(found[3]) == (expected == rank), found.string
            nodes.append(found[2])
        return Round(number, rank, world_size, where[1], int(where[2]), nodes)

    def err_so_far(self):
        with contextlib.suppress(AssertionError):
            while self.err.next(0.2) is not None:
                pass
        return self.err.seen

    def signal(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def finish(self, limit_s=LIMIT_S):
        """Waits for its end and gives the exit code."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {limit_s} s: {self.out.seen} {self.err_so_far()}") from None

    def all_err(self):
        return "\n".join(self.err.rest())


@contextlib.contextmanager
def reserved_port(address="127.0.0.1"):
    """A port that is nobody else's. Bound and not listening: a server of ours can still take it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((address, 0))
        yield holder.getsockname()[1]
