"""Writes half a line, and the rest once the file GO is there.

    halves.py GO
"""

import os
import sys
import time

os.write(1, b"half ")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
os.write(1, b"line\n")
