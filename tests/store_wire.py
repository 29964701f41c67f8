"""The bytes of the store protocol, written down a second time, and a client that speaks them raw.

Nothing here is shared with the C++ code: what both agree on, they agree on by the specification.
"""

import itertools
import socket
import struct

GREETING = bytes.fromhex("00cef7853c")
LIMIT_S = 30.0  # Nothing waits longer than this; a test that gets there has failed.

KEY_LIMIT = 8192
VALUE_LIMIT = 8 * 1024 * 1024
COUNT_LIMIT = 131072


def u64(number):
    return struct.pack("<Q", number)


def i64(number):
    return struct.pack("<q", number)


def text(data):
    return u64(len(data)) + data


def texts(items):
    return u64(len(items)) + b"".join(text(item) for item in items)


def set_(key, value):
    return b"\x01" + text(key) + text(value)


def compare_set(key, expected, desired):
    return b"\x02" + text(key) + text(expected) + text(desired)


def get(key):
    return b"\x03" + text(key)


def add(key, delta):
    return b"\x04" + text(key) + i64(delta)


def check(keys):
    return b"\x05" + texts(keys)


def wait(keys):
    return b"\x06" + texts(keys)


def num_keys():
    return b"\x07"


def delete_key(key):
    return b"\x08" + text(key)


def append(key, value):
    return b"\x09" + text(key) + text(value)


def multi_get(keys):
    return b"\x0a" + texts(keys)


def multi_set(entries):
    return b"\x0b" + u64(len(entries)) + b"".join(text(key) + text(value) for key, value in entries)


def cancel_wait():
    return b"\x0c"


def ping(nonce):
    return b"\x0d" + nonce


def queue_push(key, value):
    return b"\x0e" + text(key) + text(value)


def queue_pop(key):
    return b"\x0f" + text(key)


def queue_len(key):
    return b"\x10" + text(key)


def list_keys():
    return b"\x11"


def barrier(key, world_size):
    return b"\x12" + text(key) + i64(world_size)


class Closed(Exception):
    """The server closed the connection; `before` is what it sent first."""

    def __init__(self, before):
        super().__init__(f"the server closed the connection after {before!r}")
        self.before = before


class RawClient:
    """A connection that sends exactly the bytes it is told to, and keeps every byte that comes."""

    nonces = itertools.count(1)

    def __init__(self, port, greet=True, host="127.0.0.1", limit_s=LIMIT_S):
        self.socket = socket.create_connection((host, port), timeout=limit_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if greet:
            # In one piece with a ping: PyTorch's server takes a greeting only whole.
            echo = self.next_nonce()
            self.send(GREETING + ping(echo))
            if self.receive(4) != echo:
                raise AssertionError("the greeting was not answered with its echo")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    @classmethod
    def next_nonce(cls):
        # Tests keep 0xf5 0xfa out of everything else that they send, so an echo is never mistaken.
        return b"\xf5\xfa" + struct.pack("<H", next(cls.nonces) % 0x10000)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, size):
        """Exactly so many bytes."""
        data = b""
        while len(data) < size:
            data += self._more(data)
        return data

    def _more(self, before):
        try:
            more = self.socket.recv(1 << 20)
        except ConnectionError:  # Closed with something of ours unread: the same to us.
            more = b""
        if not more:
            raise Closed(before)
        return more

    def ask(self, request):
        """Sends a request and a ping behind it, and returns every byte that came before the echo.

        Answers come in order, so this also collects what was sent unasked, such as the end of an
        earlier wait. An empty answer means that there is none, not that there is none yet.
        """
        return self.collect(self.begin(request))

    def begin(self, request=b""):
        echo = self.next_nonce()
        try:
            self.send(request + ping(echo))
        except ConnectionError:
            pass  # Told by collect().
        return echo

    def collect(self, echo):
        data = b""
        while not data.endswith(echo):
            data += self._more(data)
        return data[:-len(echo)]

    def pending(self):
        return self.ask(b"")

    def receive_to_end(self):
        data = b""
        try:
            while True:
                data += self._more(data)
        except Closed as closed:
            return closed.before

    def leave(self):
        """Closes, and returns when the server has noticed."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
            rest = self.receive_to_end()
        except OSError:
            rest = b""
        self.socket.close()
        return rest
