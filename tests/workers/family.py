"""A worker with eight children: one in a session of its own, one that ignores SIGTERM, two with children of
their own whose parents are gone. Says "ready" when all of them run, then waits, or does what it was told.

    family.py [segfault|exit|leave]
"""

import ctypes
import os
import signal
import sys
import time


def sleep_for_ever():
    while True:
        time.sleep(1000)


def child(ready, prepare):
    if os.fork() == 0:
        prepare()
        os.write(ready, b".")
        sleep_for_ever()


def orphan_of_an_orphan():
    """Daemonises: the usual two forks, so that its parent is gone at once."""
    if os.fork() != 0:
        os._exit(0)
    os.setsid()


PREPARATIONS = [
    lambda: None,
    os.setsid,
    lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    lambda: os.setpgid(0, 0),
    orphan_of_an_orphan,
    orphan_of_an_orphan,
    lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    lambda: None,
]


def main():
    then = sys.argv[1] if len(sys.argv) > 1 else "wait"
    reader, writer = os.pipe()
    for prepare in PREPARATIONS:
        child(writer, prepare)
    count = 0
    while count < len(PREPARATIONS):
        count += len(os.read(reader, 100))
    print("ready", flush=True)
    if then == "segfault" and os.environ["LOCAL_RANK"] == "0":
        ctypes.string_at(0)
    if then == "exit":
        os._exit(3)
    if then == "leave":
        os._exit(0)
    sleep_for_ever()


main()
