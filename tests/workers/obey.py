"""A worker that writes down how it was started, and then does what it is told.

    obey.py FOLDER [stubborn]

It leaves FOLDER/start.<pid>.json, and ends with the code that it finds in the first of these files of FOLDER:
order.<pid>, order.restart<restart count>, order.all. A SIGTERM leaves FOLDER/term.<pid>; it ends with 143, unless
it is stubborn.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
PID = os.getpid()


def told(_number, _frame):
    (FOLDER / f"term.{PID}").touch()
    if "stubborn" not in sys.argv:
        os._exit(143)


def leave(name, text):
    """Whoever sees the file sees all of it."""
    unfinished = FOLDER / f"unfinished.{PID}"
    unfinished.write_text(text)
    unfinished.rename(FOLDER / name)


def orders():
    for name in (f"order.{PID}", f"order.restart{os.environ['TORCHELASTIC_RESTART_COUNT']}", "order.all"):
        if (FOLDER / name).exists():
            return int((FOLDER / name).read_text())
    return None


signal.signal(signal.SIGTERM, told)
leave(f"start.{PID}.json", json.dumps({"pid": PID, "at": time.monotonic(), "environment": dict(os.environ)}))
while (code := orders()) is None:
    time.sleep(0.01)
sys.exit(code)
