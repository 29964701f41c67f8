"""Rank 1 fails while rank 0 waits; rank 0 tells which signal stops it, and ends with 5.

    fail.py FOLDER HOW     torch: raises, recorded by PyTorch; regroup: recorded by us; plain: by nobody;
                           kill: SIGKILL; exit: with 7; wait: does not fail, but waits as well
"""

import os
import signal
import sys
import time
from pathlib import Path


def until_all_are_ready(folder):
    (folder / f"ready{os.environ['RANK']}").touch()
    while not all((folder / f"ready{rank}").exists() for rank in range(int(os.environ["WORLD_SIZE"]))):
        time.sleep(0.01)


def told(number, _frame):
    os.write(1, f"rank {os.environ['RANK']} got signal {number}\n".encode())
    os._exit(5)


def wait():
    while True:
        time.sleep(1000)


def fail(how):
    os.write(2, b"last words\n")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        sys.exit(7)
    raise ValueError("the learning rate is ä")


def main():
    folder, how = Path(sys.argv[1]), sys.argv[2]
    if how == "torch":
        from torch.distributed.elastic.multiprocessing.errors import record
    elif how == "regroup":
        from regroup import record
    else:
        def record(function):
            return function
    if how == "wait" or os.environ["RANK"] == "0":
        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)
        until_all_are_ready(folder)
        wait()
    until_all_are_ready(folder)
    record(fail)(how)


main()
