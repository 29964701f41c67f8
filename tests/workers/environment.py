"""Writes its environment, arguments and directory as JSON, to a file of its rank in the directory it was given.

    environment.py DIRECTORY [ARGUMENTS...]
"""

import json
import os
import sys
from pathlib import Path

# Python may have set LC_CTYPE for itself; the kernel has what it was started with.
started_with = Path("/proc/self/environ").read_bytes().decode().split("\0")
known = {"environment": dict(entry.split("=", 1) for entry in started_with if entry),
         "arguments": sys.argv[2:], "directory": os.getcwd()}
Path(sys.argv[1], os.environ["RANK"]).write_text(json.dumps(known))
