"""A worker's sign of life: it must come again within a limit, or the launcher ends the worker.

    for batch in batches:
        regroup.heartbeat(60)
        ...

A beat is a store into a file that the launcher has mapped, too: a microsecond or so. Without a watchdog nothing happens.
"""

import mmap
import os
import threading
import time

from regroup import timer

FILE_VARIABLE = "REGROUP_HEARTBEAT_FILE"
# The cells of the file: 64-bit integers of this machine.
BEAT, LIMIT, CELLS = 0, 1, 8
# The launcher's file cannot be made shorter or longer. What can is somebody else's: a path in /proc may come to mean
# another file.
GET_SEALS, SEALS = 1034, 0x2 | 0x4

_cells = None  # Of the file, once it is mapped; () if nobody watches.
_told, _stored = None, 0  # The limit that the launcher has heard of; the same as a cell holds it.
_lock = threading.Lock()


def _after_fork():
    global _lock
    _lock = threading.Lock()  # A thread that is not here may have held it.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def heartbeat(limit, *, _now=time.monotonic_ns):
    """This worker gets on; `limit` seconds from now at the latest it will say so again. None: no beat is expected.

    A worker has one heartbeat, whichever of its threads and processes beats.
    """
    if not _cells and _open() == ():
        return
    _cells[BEAT] = _now()  # First: with the old beat, a shorter limit might have run out already.
    if limit != _told or _cells[LIMIT] != _stored:  # The cell: another process of this worker may have changed it.
        _tell(limit)


def heartbeat_stop():
    """From now on no beat is expected, until the next."""
    heartbeat(None)


def _open():
    global _cells
    with _lock:
        if _cells is None:
            path = os.environ.get(FILE_VARIABLE)
            try:
                import fcntl  # Not everywhere, and needed only under a launcher.
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            except (ImportError, OSError, TypeError, ValueError):
                _cells = ()
                return _cells
            try:
                sealed = fcntl.fcntl(file, GET_SEALS) & SEALS == SEALS
                _cells = memoryview(mmap.mmap(file, CELLS * 8)).cast("q") if sealed else ()
            except (OSError, ValueError):
                _cells = ()
            finally:
                os.close(file)
        return _cells


def _tell(limit):
    global _told, _stored
    with _lock:
        stored = 0 if limit is None else int(min(limit * 1e9, 1 << 62))
        _cells[LIMIT] = stored
        # Of a limit that is gone the launcher learns when it looks next.
        # Not the pipe that timers are configured for: the file is the launcher's.
        path = os.environ.get(timer.PIPE_VARIABLE)
        if limit is not None and path:
            timer.send(path, "heartbeat", -1, 0, heartbeat=True)
        _told, _stored = limit, stored
