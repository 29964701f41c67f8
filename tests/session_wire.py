"""The bytes of the session protocol, written down a second time, and a client that speaks them raw.

Nothing here is shared with the C++ code: what both agree on, they agree on by docs/protocol.md.
"""

import hashlib
import hmac
import os
import struct

import store_wire
from store_wire import RawClient

KEY = b"regroup/session/1"
HELLO, JOIN, FAILED, DONE, LEAVE, PING, LOOK, WARN, PROVE, PROOF = range(1, 11)
WELCOME, PROGRESS, SEALED, STOP, OVER, REFUSED, PONG, REPORT, WARNED, CHALLENGE, COUNTERPROOF = range(65, 76)
LARGEST_FRAME = 64 * 1024
SEAL_BYTES = 16
HIGHEST = 1 << 62
LONGEST = 10 * 365 * 24 * 3600 * 10**9  # Ten years, in nanoseconds.


def u32(number):
    return struct.pack("<I", number)


def i64(number):
    return struct.pack("<q", number)


def flag(value):
    return b"\1" if value else b"\0"


def text(data):
    return u32(len(data)) + data


def optional(value):
    """`value`: bytes, or None."""
    return b"\0" if value is None else b"\1" + value


def frame(kind, fields=b""):
    return u32(1 + len(fields)) + bytes([kind]) + fields


def place(round_, rank, world_size):
    return i64(round_) + i64(rank) + i64(world_size)


def rules(min_nodes=2, max_nodes=2, last_call=30 * 10**9, heartbeat_limit=5 * 10**9, reconnect_grace=10**8,
          max_restarts=0, window=0, per_node=False, crash_loop=0, crash_loop_time=0, codes=(), strikes=0, changes=None):
    return (i64(min_nodes) + i64(max_nodes) + i64(last_call) + i64(heartbeat_limit) + i64(reconnect_grace)
            + i64(max_restarts) + i64(window) + flag(per_node) + i64(crash_loop) + i64(crash_loop_time)
            + u32(len(codes)) + b"".join(map(i64, codes)) + i64(strikes) + optional(None if changes is None else i64(changes)))


def hello(run_id, address=b"127.0.0.9", pid=1, local_id=0, version=1, name=b"stranger", wish=None, held=None,
          role=b"default", workers=1, running=None, restarts=0, welcomed=False, run_rules=None):
    """`held`: (round, rank, world size); `running`: the same, and restart count and whether it is done."""
    return frame(HELLO, u32(version) + text(run_id) + text(address) + i64(pid) + i64(local_id) + text(name)
                 + optional(None if wish is None else i64(wish)) + optional(None if held is None else place(*held))
                 + text(role) + i64(workers)
                 + optional(None if running is None else place(*running[:3]) + i64(running[3]) + flag(running[4]))
                 + i64(restarts) + flag(welcomed) + (rules() if run_rules is None else run_rules))


def join(number, address=b"127.0.0.9", port=1):
    return frame(JOIN, struct.pack("<Q", number) + text(address) + struct.pack("<H", port))


def failed(round_, rank=0, node=b"stranger", exit_code=1, what=b"failed"):
    return frame(FAILED, i64(round_) + i64(rank) + text(node) + i64(exit_code) + text(what))


def done(round_):
    return frame(DONE, i64(round_))


def leave(why=b"", close=False):
    return frame(LEAVE, text(why) + flag(close))


def ping(number):
    return frame(PING, struct.pack("<Q", number))


def warn(number):
    return frame(WARN, i64(number))


def look(run_id=b""):
    return frame(LOOK, text(run_id))


def prove(nonce):
    return frame(PROVE, nonce)


def proof_of(side, secret, nonces):
    """`side`: "agent" or "coordinator"; `nonces`: the agent's, and behind it the coordinator's."""
    return hmac.digest(secret, b"regroup session 1: " + side.encode() + nonces, hashlib.sha256)


class Sealer:
    """Of one side's frames, on one connection."""

    def __init__(self, side, secret, nonces):
        self.key = hmac.digest(secret, b"regroup session 1: frames of the " + side.encode() + nonces, hashlib.sha256)
        self.number = 0

    def seal(self, whole_frame):
        made = hmac.digest(self.key, struct.pack("<Q", self.number) + whole_frame, hashlib.sha256)
        self.number += 1
        return made[:SEAL_BYTES]

    def sealed(self, frames):
        """Each of them with its seal behind it."""
        sealed = b""
        while frames:
            (length,) = struct.unpack_from("<I", frames)
            one, frames = frames[:4 + length], frames[4 + length:]
            sealed += one + self.seal(one)
        return sealed


class RawSession(RawClient):
    """A connection that is a session, and sends what it is told to."""

    theirs = None  # The coordinator's sealer, once it has proven itself.

    def __init__(self, port, **more):
        super().__init__(port, **more)
        try:
            self.send(store_wire.check([KEY]))
            if self.receive(1) != b"\0":
                raise AssertionError("there is no coordinator")
        except BaseException:
            self.socket.close()
            raise

    def next_frame(self):
        """The kind of the next one, and its fields."""
        (length,) = struct.unpack("<I", self.receive_exactly(4))
        body = self.receive_exactly(length)
        if self.theirs is not None and self.receive_exactly(SEAL_BYTES) != self.theirs.seal(u32(length) + body):
            raise AssertionError("a frame without a good seal")
        return body[0], body[1:]

    def challenged(self, nonce=None):
        """Asks for a proof; gives both nonces."""
        nonce = os.urandom(32) if nonce is None else nonce
        self.send(prove(nonce))
        kind, challenge = self.next_frame()
        if kind != CHALLENGE:
            raise AssertionError(f"frame {kind} instead of a challenge: {challenge!r}")
        return nonce + challenge

    def prove_with(self, secret, more):
        """Says `more` behind the proof. The coordinator's answer to the proof: its kind, its fields, and those that it
        should have."""
        nonces = self.challenged()
        self.send(frame(PROOF, proof_of("agent", secret, nonces)) + Sealer("agent", secret, nonces).sealed(more))
        answer = self.next_frame()
        if answer[0] == COUNTERPROOF:
            self.theirs = Sealer("coordinator", secret, nonces)
        return *answer, proof_of("coordinator", secret, nonces)

    def until_frame(self, kind):
        while (got := self.next_frame())[0] != kind:
            pass
        return got[1]

    def receive_exactly(self, size):
        """Leaves what follows where it is."""
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionError:
                more = b""
            if not more:
                raise store_wire.Closed(data)
            data += more
        return data
