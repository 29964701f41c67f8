"""Countdown timers: how long a piece of a worker's work may take at most; the launcher ends who takes longer.

    with regroup.expires(30):
        dist.all_reduce(tensor)

    @regroup.expires(600, scope="checkpoint")
    def save(): ...

The lines in the pipe are those of PyTorch's FileTimerClient, so this works under torchrun's file timer, too.
"""

import errno
import functools
import inspect
import json
import os
import select
import signal as signals
import stat
import sys
import time

PIPE_VARIABLE = "TORCHELASTIC_TIMER_FILE"
PATIENCE_S = 10  # With a pipe that is full.
# A pipe takes so much in one piece; PyTorch forgets to count the newline.
WHOLE_WRITE = getattr(select, "PIPE_BUF", 4096)

_path = None  # As configured; None: what the variable says.
_client = None  # As configured; None: the pipe.


class TimerError(RuntimeError):
    """A timer could not be set: the message says why, and what to do."""


def configure(path=None):
    """Chooses the pipe of the launcher; without a path, the one that it has named in the environment.

    Or a client with acquire(scope_id, expiration_time) and release(scope_id), as PyTorch's timers have.
    """
    global _path, _client
    if _is_client(path):
        _path, _client = None, path
        return
    _path, _client = None if path is None else os.fspath(path), None
    if path is None and not os.environ.get(PIPE_VARIABLE):
        raise TimerError(_nobody_watches())


def _is_client(what):
    return callable(getattr(what, "acquire", None)) and callable(getattr(what, "release", None))


class _Pipe:
    """A client that writes to the launcher's pipe, with a signal."""

    def __init__(self, path, signal):
        self._path = path
        self._signal = signal

    def acquire(self, scope_id, expiration_time):
        send(self._path, scope_id, expiration_time, self._signal)

    def release(self, scope_id):
        send(self._path, scope_id, -1, 0)


class expires:  # noqa: N801: it reads as a verb.
    """This process is ended if the block, or a call of the function, takes longer than `after` seconds.

    The scope names the work; without one it is the file and line. A scope has one timer, so blocks within one another
    need different ones. `signal` is what ends the process. With `optional` it is no error if nobody watches. `client` is
    used instead of the configured one (see configure()); a client chooses its signal itself.
    """

    def __init__(self, after, scope=None, client=None, *, signal=signals.SIGKILL, optional=False):
        if client is not None and not _is_client(client):
            raise TypeError(f"client is {client!r}; it needs acquire(scope_id, expiration_time) and release(scope_id)")
        self._client = client
        self._after = float(after)
        self._named = scope is not None
        if scope is None:
            caller = sys._getframe(1)
            scope = f"{caller.f_code.co_filename}#{caller.f_lineno}"
        self._scope = str(scope)
        self._signal = int(signal)
        self._optional = optional
        self._held = []  # Of blocks within one another, whether the timer was set.

    def __enter__(self):
        client = self._client or _client
        if client is None and pipe_path() is not None:
            client = _Pipe(pipe_path(), self._signal)
        self._held.append(None)
        if client is None:
            if self._optional:
                return self
            self._held.pop()
            raise TimerError(_nobody_watches())
        try:
            client.acquire(self._scope, time.time() + self._after)
        except BaseException:
            self._held.pop()
            raise
        self._held[-1] = client
        return self

    def __exit__(self, kind, *_):
        client = self._held.pop()
        if client is not None:
            try:
                client.release(self._scope)
            except Exception:
                if kind is None:  # Else the exception of the block says more.
                    raise
        return False

    def _again(self):
        return expires(self._after, self._scope, self._client, signal=self._signal, optional=self._optional)

    def __call__(self, function):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("expires() cannot decorate a generator: its body runs after the call. Use it as "
                            "'with' inside.")
        if not self._named:
            code = getattr(inspect.unwrap(function), "__code__", None)
            if code is not None:  # Else (a partial, a builtin) the scope stays this line.
                self._scope = f"{code.co_filename}#{code.co_firstlineno}"
        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def wrapper(*args, **kwargs):
                with self._again():
                    return await function(*args, **kwargs)
        else:
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                with self._again():
                    return function(*args, **kwargs)
        return wrapper


def pipe_path():
    return _path or os.environ.get(PIPE_VARIABLE) or None


def _nobody_watches():
    return ("no timer can be set: no launcher watches over this process. Start it with 'regroup run --watchdog', or with "
            "expires(..., optional=True) do without.")


def send(path, scope, expiration, signal, **more):
    """One line into the pipe, whole or not at all."""
    line = json.dumps({"version": 1, "pid": os.getpid(), "scope_id": scope, "expiration_time": expiration,
                       "signal": signal, **more}).encode("ascii") + b"\n"
    if len(line) > WHOLE_WRITE:
        raise TimerError(f"the scope of a timer is too long: its line would have {len(line)} bytes, and a pipe carries "
                         f"{WHOLE_WRITE} in one piece. Choose a shorter one.")
    what = f"cannot write to the timer pipe {path}"
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise TimerError(f"{what}: nobody reads it. Its launcher has ended.") from None
        hint = f" Is {PIPE_VARIABLE} set by hand?" if error.errno == errno.ENOENT else ""
        raise TimerError(f"{what}: {error.strerror}.{hint}") from None
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            raise TimerError(f"{what}: it is no pipe.")
        _write(pipe, line, what)
    finally:
        os.close(pipe)


def _write(pipe, line, what):
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            os.write(pipe, line)  # All of it: so short a line is never cut.
            return
        except BlockingIOError:
            left = until - time.monotonic()
            if left <= 0:
                raise TimerError(f"{what}: it is full, and its launcher does not read it.") from None
            time.sleep(0.001)  # The launcher empties it at once, if it can.
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise TimerError(f"{what}: nobody reads it any more.") from None
            raise TimerError(f"{what}: {error.strerror}.") from None
