"""Writes numbered lines to its streams, as fast as it can and in pieces that end anywhere, mostly inside a line.
What a line looks like is told here alone: the reader imports it.

    lines.py LINES STREAMS [FILE]      STREAMS: "out", "out,err", or "half": workers of odd rank have both;
                                       then waits until there is such a FILE
"""

import os
import random
import sys
import time

LENGTH = 200
DESCRIPTORS = {"out": 1, "err": 2}


def line(rank, stream, number):
    """Its padding differs from the neighbours', so a piece of one in another would be seen."""
    head = b"%d %s %07d " % (rank, stream.encode(), number)
    return head.ljust(LENGTH - 1, b"%c" % (97 + (3 * rank + number) % 26)) + b"\n"


def streams_of(rank, word):
    return (["out", "err"] if rank % 2 else ["out"]) if word == "half" else word.split(",")


def pieces(text, dice):
    """Of one byte to far more than a pipe holds."""
    view, begin = memoryview(text), 0
    while begin < len(text):
        end = begin + int(2 ** dice.uniform(0, 21))
        yield view[begin:end]
        begin = end


def write_all(descriptor, piece):
    while piece:
        piece = piece[os.write(descriptor, piece):]


def main():
    rank, count = int(os.environ["LOCAL_RANK"]), int(sys.argv[1])
    streams = streams_of(rank, sys.argv[2])
    dice = random.Random(rank)
    texts = [(DESCRIPTORS[stream], pieces(b"".join(line(rank, stream, i) for i in range(count)), dice))
             for stream in streams]
    while texts:
        descriptor, rest = dice.choice(texts)
        if piece := next(rest, None):
            write_all(descriptor, piece)
        else:
            texts.remove((descriptor, rest))
    while len(sys.argv) > 3 and not os.path.exists(sys.argv[3]):
        time.sleep(0.01)


if __name__ == "__main__":
    main()
