"""A worker that tells, as JSON in the file FOLDER/<rank>.json, how it was started.

    tell.py FOLDER [ARGUMENTS...]
"""

import ctypes
import json
import os
import resource
import sys
from pathlib import Path

PR_GET_PDEATHSIG = 2


def signals(name):
    """A mask of /proc/self/status, in hexadecimal."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(name + ":"))


def parent_death_signal():
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(number))
    return number.value


def main():
    umask = os.umask(0)
    found = {
        "arguments": sys.argv[2:],
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "umask": umask,
        "own session": os.getsid(0) == os.getpid(),
        "own group": os.getpgid(0) == os.getpid(),
        "niceness": os.nice(0),
        "ignored signals": signals("SigIgn"),
        "blocked signals": signals("SigBlk"),
        # The last one is the folder that is being listed.
        "descriptors": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
        "stdin": os.readlink("/proc/self/fd/0"),
        "limits": {name: resource.getrlimit(getattr(resource, name))
                   for name in dir(resource) if name.startswith("RLIMIT_")},
        "affinity": sorted(os.sched_getaffinity(0)),
        "parent-death signal": parent_death_signal(),
    }
    (Path(sys.argv[1]) / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


main()
