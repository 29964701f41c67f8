"""Writes lines to stdout and stderr in turns, as a script with print and logging does: alternate.py COUNT [fail]"""

import logging
import os
import sys

logging.basicConfig(format="%(message)s", level=logging.INFO)  # To stderr.
rank = os.environ["RANK"]
for step in range(0, int(sys.argv[1]), 2):
    print(f"rank {rank} line {step}", flush=True)
    logging.info("rank %s line %d", rank, step + 1)
if sys.argv[2:] == ["fail"]:
    raise ValueError("the loss is not a number")
