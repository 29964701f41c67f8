"""A worker that gets stuck, or only looks as if it were.

    stall.py WHAT [RANK]

Everybody does a few quick steps. Then rank RANK (default 0) does WHAT in a function called load(), and all others wait for
it, without end, in a function called wait_for_others():

    sleep        for ever
    pipe         reads from a pipe that nobody writes to
    once         for ever if this is the first start; ends well if it is another
    checkpoint   writes and syncs a file for STALL_SECONDS, using next to no CPU time; then everybody ends well
    first-step   sleeps for STALL_SECONDS before the first step; then everybody ends well
    fail         ends with 3 once the others wait
With STALL_DUMP set, it is ready to give its stacks. With STALL_PIPE set, writing the file of stacks hangs. With
STALL_CODE set, it maps so many bytes as code, as a program with large libraries does.
"""

import os
import sys
import time
from pathlib import Path

if os.environ.get("STALL_DUMP"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    import regroup
    assert regroup.dump_on_hang()

if os.environ.get("STALL_PIPE") and os.environ["RANK"] == "0":
    os.mkfifo(Path(os.environ["TORCHELASTIC_ERROR_FILE"]).parents[1] / "stacks.txt")

if os.environ.get("STALL_CODE"):
    import mmap
    import tempfile
    with tempfile.NamedTemporaryFile(dir=os.environ["STALL_FOLDER"]) as library:
        library.truncate(int(os.environ["STALL_CODE"]))
        code = mmap.mmap(library.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)

what, stuck_rank = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
stuck = int(os.environ["RANK"]) == stuck_rank
seconds = float(os.environ.get("STALL_SECONDS", "0"))
finished = Path(os.environ.get("STALL_FOLDER", ".")) / "finished"


def load():
    if what == "checkpoint":
        end = time.monotonic() + seconds
        with open(finished.with_name("checkpoint"), "wb") as file:
            while time.monotonic() < end:
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
                time.sleep(0.05)
        finished.touch()
    elif what == "pipe":
        os.read(os.pipe()[0], 1)
    elif what == "fail":
        while len(list(finished.parent.glob("waits.*"))) < int(os.environ["WORLD_SIZE"]) - 1:
            time.sleep(0.01)
        sys.exit(3)
    elif what != "once" or os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        time.sleep(100000)
    else:
        finished.touch()


def wait_for_others():
    end, _ = os.pipe()
    finished.with_name(f"waits.{os.environ['RANK']}").touch()
    # As a collective waits: on a descriptor, not by looking again and again.
    if what in ("checkpoint", "once"):
        import select
        while not finished.exists():
            select.select([end], [], [], 0.5)
    else:
        os.read(end, 1)


if what == "first-step":
    time.sleep(seconds)
for step in range(3):
    print(f"step {step}", flush=True)
if what == "first-step":
    sys.exit(0)
if stuck:
    load()
else:
    wait_for_others()
