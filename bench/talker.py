#!/usr/bin/env python3
"""A worker that prints, for the benchmark of what carries its output.

    talker.py LINES FOLDER     puts a file `ready<rank>` into the folder, prints so many lines once there is a file
                               `begin`, and stays until there is a file `end`
"""

import os
import sys
import time
from pathlib import Path

LINE_BYTES = 200


def wait_for(file):
    while not file.exists():
        time.sleep(0.005)


def main():
    rank, count, folder = os.environ["LOCAL_RANK"], int(sys.argv[1]), Path(sys.argv[2])
    padding = "x" * LINE_BYTES
    (folder / f"ready{rank}").touch()
    wait_for(folder / "begin")
    for number in range(count):
        print(f"{rank} {number:07} {padding}"[:LINE_BYTES - 1])
    sys.stdout.flush()
    wait_for(folder / "end")


if __name__ == "__main__":
    main()
