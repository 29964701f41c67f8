"""Stacks of a worker that hangs, for the launcher's report."""

import faulthandler
import os

_file = None  # faulthandler keeps only the descriptor: it must stay open.


def dump_on_hang() -> bool:
    """Lets the launcher ask this worker for its Python stacks before it ends it.

    Call it once, early, in every worker. When the launcher judges that the workers hang, or a timer has
    expired, the stacks of all threads are in its report and in stacks.txt beside the logs. They are taken
    without the interpreter's help, so also from a worker that is stuck in C code.

    False: this process was not started by `regroup run`, or with `--evidence never`; nothing was done.
    """
    global _file
    path, signal = os.environ.get("REGROUP_DUMP_FILE"), os.environ.get("REGROUP_DUMP_SIGNAL")
    if not path or not signal:
        return False
    file = open(path, "ab", buffering=0)
    faulthandler.register(int(signal), file=file, all_threads=True, chain=False)
    _file = file
    return True
