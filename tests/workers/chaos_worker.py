"""A worker of tests/chaos.py: does what the plan says for its rank and restart, and leaves a file named after its pid.

chaos_worker.py FOLDER PLAN    PLAN is JSON: lines, bytes, seconds, fails, hangs, deaf, children
"""

import json
import os
import signal
import sys
import time

folder, plan = sys.argv[1], json.loads(sys.argv[2])
rank, restart = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]

CHILD = (
    "import signal, sys, time; sys.argv[1] == 'deaf' and signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
)


def child(kind):
    """Something that outlives us: a child, one with its own session, or a daemon that no tree shows."""
    if os.fork():
        return
    if kind != "plain":
        os.setsid()
    if kind == "daemon" and os.fork():
        os._exit(0)
    # With its environment, by which the guard of a killed launcher knows it; without one it would stay.
    os.execv(
        sys.executable, [sys.executable, "-SE", "-c", CHILD, "deaf" if plan["deaf"] else "", plan["marker"]]
    )


def say(fd, data):
    try:
        os.write(fd, data)
    except OSError:
        pass  # Nobody reads, or the disk is full: no reason for a worker to fail.


if plan["deaf"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(f"{folder}/pid.{os.getpid()}", "w"):
    pass
for kind in plan["children"]:
    child(kind)
for number in range(plan["lines"]):
    say(1 + number % 2, b"rank %s line %d %s\n" % (rank.encode(), number, b"x" * plan["bytes"]))
if rank in plan["hangs"].get(restart, []):
    time.sleep(600)
deadline = time.monotonic() + plan["seconds"]
while (left := deadline - time.monotonic()) > 0:
    time.sleep(left)
sys.exit(plan["fails"].get(restart, {}).get(rank, 0))
