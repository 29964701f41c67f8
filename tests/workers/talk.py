"""A worker that writes to both streams and ends well.

    talk.py          a few plain lines, each in one write, that tell rank and stream
    talk.py HEX      these bytes, in one write, to both streams

Less than a page to each stream: who reads a file while it grows never meets half a write.
"""

import os
import sys

LINES = ["one", "two, three", "  deep \t in", "café 🚀", "nul \0 escape \x1b[31m red \x1b[m", "vt \x0b",
         "last"]


def main():
    for descriptor, stream in ((1, "stdout"), (2, "stderr")):
        if len(sys.argv) > 1:
            os.write(descriptor, bytes.fromhex(sys.argv[1]))
            continue
        for number, text in enumerate(LINES):
            os.write(descriptor, f"rank {os.environ['RANK']} {stream} {number}: {text}\n".encode())
        os.write(descriptor, b"\n")


main()
