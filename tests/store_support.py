"""Starts and stops what the store tests need: our server, and a driver of our C++ client.

Every process ends with its context manager; everything that waits has a limit.
"""

import contextlib
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("REGROUP_BUILD", ROOT / "build/release"))
BINARY = Path(os.environ.get("REGROUP_BIN", BUILD / "regroup"))
LIMIT_S = 30.0


class Lines:
    """Lines from a pipe, as they come, without ever blocking the process that writes them."""

    def __init__(self, pipe):
        self._pipe = pipe
        self._queue = queue.Queue()
        self.seen = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        with self._pipe:
            for line in self._pipe:
                self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def next(self, limit_s=LIMIT_S):
        """The next line, or None at the end."""
        try:
            line = self._queue.get(timeout=limit_s)
        except queue.Empty:
            raise AssertionError(f"no line came within {limit_s} s; before: {self.seen}") from None
        if line is None:
            self._queue.put(None)
            return None
        self.seen.append(line)
        return line

    def until(self, pattern, limit_s=LIMIT_S):
        """The first new line that matches."""
        while (line := self.next(limit_s)) is not None:
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the output ended without {pattern!r}; it was: {self.seen}")

    def rest(self, limit_s=LIMIT_S):
        while self.next(limit_s) is not None:
            pass
        return self.seen


class RegroupServer:
    """`regroup store` on a free port, until the block ends."""

    COMMAND = "store"

    def __init__(self, *flags, host="127.0.0.1", port=0):
        self.host = host
        self._asked_port = port
        self._flags = flags

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            folder = undo.enter_context(tempfile.TemporaryDirectory())
            self.port_file = Path(folder) / "port"
            command = [BINARY, self.COMMAND, "--host", self.host, "--port", str(self._asked_port),
                       "--port-file", self.port_file, *self._flags]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, errors="replace",
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            undo.callback(self._end)
            self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)
            self.listening = self.out.next()
            if self.listening is None:
                raise AssertionError(f"the server ended at once: {self.err.rest()}")
            self.port = int(self.listening.rsplit(":", 1)[1])
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self._undo.close()

    def _end(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not end on SIGTERM") from None

    @property
    def pid(self):
        return self.process.pid

    def counters(self):
        """What SIGUSR1 prints, by name."""
        self.process.send_signal(signal.SIGUSR1)
        line = self.err.until(r"malformed \d+").string
        found = {name: int(number) for name, number in
                 re.findall(r"(clients|requests|keys|queues|waiting|memory|malformed|refused|silent|turned away) (\d+)",
                            line)}
        found["ever"] = int(re.search(r"(\d+) ever", line).group(1))
        return found

    def memory_kib(self, what="VmRSS"):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{what}:\s+(\d+) kB", status).group(1))


class StoreError(Exception):
    """An error that our C++ store reported."""

    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def _encode(argument):
    if isinstance(argument, bytes):
        return "x" + argument.hex()
    if isinstance(argument, (int, str)):
        return str(argument)
    raise TypeError(f"neither text nor number: {argument!r}")


def _decode(answer):
    word, *rest = answer.split(" ")
    if word == "error":
        raise StoreError(rest[0], " ".join(rest[1:]))
    if word == "number":
        return int(rest[0])
    if word == "value":
        return bytes.fromhex(rest[0][1:])
    if word == "values":
        return [bytes.fromhex(item[1:]) for item in rest]
    return {"ok": None, "none": None, "true": True, "false": False}[word]


class Driver:
    """Our C++ stores, driven by tests/store_driver.cc. Texts are bytes, times are milliseconds."""

    def __init__(self, *connect):
        self._connect = connect

    def __enter__(self):
        self._process = subprocess.Popen([BUILD / "test/store_driver"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self._lines = Lines(self._process.stdout)
        try:
            if self._connect:
                self.ask("connect", *self._connect)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.stdin.close()  # The end of its input is the end of the driver.
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError("the driver did not end; a call of its hangs") from None
        if self._process.returncode != 0:
            raise AssertionError(f"the driver ended with {self._process.returncode}")

    def start(self, command, *arguments):
        """Begins a call; finish() returns its answer. For calls that wait for somebody else."""
        self._process.stdin.write(" ".join([command, *map(_encode, arguments)]) + "\n")
        self._process.stdin.flush()

    def finish(self, limit_s=LIMIT_S):
        line = self._lines.next(limit_s)
        if line is None:
            raise AssertionError("the driver ended in the middle of a call")
        return _decode(line)

    def ask(self, command, *arguments):
        self.start(command, *arguments)
        return self.finish()

    def __getattr__(self, command):
        if command.startswith("_"):
            raise AttributeError(command)
        return lambda *arguments: self.ask(command, *arguments)


def tcp_driver(port, timeout_ms=20000, *more):
    return Driver("tcp", "127.0.0.1", port, timeout_ms, *more)


@contextlib.contextmanager
def running(function, *arguments):
    """Runs a function beside the block; the handle's result() gives what it returned or raised."""
    outcome = queue.Queue()

    def run():
        try:
            outcome.put((function(*arguments), None))
        except BaseException as error:  # Handed over to result().
            outcome.put((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    class Handle:
        @staticmethod
        def result(limit_s=LIMIT_S):
            try:
                value, error = outcome.get(timeout=limit_s)
            except queue.Empty:
                raise AssertionError(f"still running after {limit_s} s") from None
            if error is not None:
                raise error
            return value

    yield Handle
    thread.join(LIMIT_S)
