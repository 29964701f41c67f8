"""A worker with timers: timers.py ACT FOLDER. Uses python/regroup, or with CLIENT=torch PyTorch's own client."""

import array
import contextlib
import fcntl
import json
import os
import signal
import struct
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

PIPE = os.environ.get("TORCHELASTIC_TIMER_FILE")
LONG = 3000  # Seconds that no test takes.

if os.environ.get("CLIENT") == "torch":
    from torch.distributed.elastic.timer import FileTimerClient, configure, expires
    configure(FileTimerClient(PIPE))

    def acquire(scope, after):
        FileTimerClient(PIPE).acquire(scope, time.time() + after)

    def release(scope):
        FileTimerClient(PIPE).release(scope)
else:
    from regroup import expires, timer

    def acquire(scope, after, number=signal.SIGKILL):
        timer.send(timer.pipe_path(), scope, time.time() + after, int(number))

    def release(scope):
        timer.send(timer.pipe_path(), scope, -1, 0)

RANK = int(os.environ["RANK"])
RESTARTS = int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def say(text):
    print(text, flush=True)


def write(text):
    with open(PIPE, "wb", buffering=0) as pipe:
        pipe.write(text.encode())


def until_read():
    """Until the launcher has read all that is in its pipe. It has looked at its clock before that."""
    pipe = os.open(PIPE, os.O_WRONLY | os.O_NONBLOCK)
    left = array.array("i", [1])
    while left[0]:
        fcntl.ioctl(pipe, termios.FIONREAD, left)
        time.sleep(0.001)
    os.close(pipe)


def for_ever():
    while True:
        signal.pause()


# --- what a worker does -----------------------------------------------------------------------------

def fine(_):
    for n in range(20):
        with expires(LONG, scope=f"step {n % 3}"):
            pass


def goes_elsewhere(folder):
    os.chdir(folder)
    fine(folder)


def late(_):
    """The last worker hangs, at its first start; the others wait for it."""
    if RANK == int(os.environ["WORLD_SIZE"]) - 1 and RESTARTS == 0:
        with expires(0.3, scope="stuck"):
            for_ever()
    if RESTARTS == 0:
        for_ever()
    fine(_)


def terminated(_):
    def leave(*_):
        say("terminated")
        sys.exit(5)
    signal.signal(signal.SIGTERM, leave)
    acquire("stuck", 0.1, signal.SIGTERM)
    for_ever()


def told(_):
    """A signal that is a message."""
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    acquire("slow", 0.1, signal.SIGUSR1)
    while not heard:
        time.sleep(0.01)
    say("lives on")


def without_signal(_):
    acquire("nothing", -1, 0)
    acquire("still there", 0.3)
    for_ever()


# Rank 0 is gone before so many seconds have passed; there is nothing left to do for it.
SOON = 4


def end_at_once(folder):
    (folder / "ended").touch()
    os._exit(0)


def until_ended(folder):
    """Until what rank 0 has left behind would have run out."""
    while not (folder / "ended").exists():
        time.sleep(0.01)
    time.sleep(SOON + 1)


def ends_with_its_timer_set(folder):
    """Rank 0 leaves its timer behind; rank 1 is there long after that has expired."""
    if RANK == 0:
        acquire("left", SOON)
        end_at_once(folder)
    until_ended(folder)
    fine(folder)


def strangers(folder):
    """Timers for the launcher, for init, for the one who started the test, for nobody."""
    for pid in (os.getppid(), 1, int((folder / "stranger").read_text()), 4194304):
        write(json.dumps({"version": 1, "pid": pid, "scope_id": "theirs", "expiration_time": 0, "signal": 9}) + "\n")
    for pid in (0, -1):
        write(json.dumps({"version": 1, "pid": pid, "scope_id": "all", "expiration_time": 0, "signal": 9}) + "\n")
    until_read()
    fine(folder)
    until_read()


def rubbish(_):
    good = json.dumps({"version": 1, "pid": os.getpid(), "scope_id": "stuck", "expiration_time": time.time() + 0.2,
                       "signal": 9})
    write('not json\n{"version": 1, "pid": 17\n\n[]\n{"half": ')
    write(good + "\n")
    write("\xff\n" * 10)
    for_ever()


def grandchild(_):
    child = os.fork()
    if child == 0:
        acquire("loader", 0.1)
        for_ever()
    _, status = os.waitpid(child, 0)
    say(f"child ended by {os.WTERMSIG(status)}")
    fine(_)


def set_clock(_):
    def step(seconds):
        with open(os.environ["SET_CLOCK_FILE"], "r+b", buffering=0) as file:
            shift, = struct.unpack("q", file.read(8))
            file.seek(0)
            file.write(struct.pack("q", shift + seconds))
    for seconds in (3600, -7200):
        before = time.time()
        acquire("long", 600)
        until_read()
        step(seconds)
        assert abs(time.time() - before - seconds) < 1000, "the clock was not set"
        fine(_)  # The launcher looks at its clock.
        until_read()
        time.sleep(0.5)
        say(f"alive after {seconds}")
    acquire("stuck", 1)
    until_read()
    step(-3600)
    fine(_)
    for_ever()


def beats(_):
    """More often than it must, then with another limit, then not at all, and that is fine."""
    from regroup import heartbeat, heartbeat_stop
    for limit in (30, 60):
        for _ in range(20):
            heartbeat(limit)
            time.sleep(0.01)
    heartbeat(SOON)
    heartbeat_stop()
    time.sleep(SOON + 1)
    heartbeat(30)


def falls_silent(_):
    from regroup import heartbeat
    if RANK == 1 and RESTARTS == 0:
        heartbeat(30)
        heartbeat(0.5)
        for_ever()
    end = time.monotonic() + (30 if RESTARTS == 0 else 0.5)
    while time.monotonic() < end:
        heartbeat(30)
        time.sleep(0.01)


def beats_and_ends(folder):
    """Rank 0 ends with its heartbeat on; rank 1 is there long after that."""
    from regroup import heartbeat
    heartbeat(SOON if RANK == 0 else LONG)
    if RANK == 0:
        end_at_once(folder)
    until_ended(folder)


def truncates(_):
    """Nothing that a worker does to its heartbeat's file harms the launcher."""
    from regroup import heartbeat
    path = os.environ["REGROUP_HEARTBEAT_FILE"]
    heartbeat(LONG)
    for harm in (lambda: open(path, "wb").close(), lambda: os.truncate(path, 0), lambda: os.truncate(path, 1 << 30)):
        with contextlib.suppress(OSError):
            harm()
            say("the file has another size")
    heartbeat(0.3)
    for_ever()


def beats_unwatched(_):
    from regroup import heartbeat, heartbeat_stop
    heartbeat(0.1)
    heartbeat_stop()
    heartbeat(None)


def storm(folder):
    """Many processes at once. The odd ones are late in the end; nobody else may be ended."""
    clients, requests = int(os.environ.get("CLIENTS", "200")), 20
    children = []
    for number in range(clients):
        child = os.fork()
        if child:
            children.append(child)
            continue
        try:
            for n in range(requests):
                while True:
                    # PyTorch's client gives up on a full pipe; whoever uses it tries again.
                    with contextlib.suppress(BlockingIOError):
                        if n % 2:
                            release(f"scope {n // 2}")
                        else:
                            acquire(f"scope {n // 2}", LONG)
                        break
            if number % 2:
                acquire("stuck", 0)
                for_ever()
        except BaseException as error:
            say(f"client {number}: {error!r}")
            os._exit(1)
        os._exit(0)
    (folder / f"storm.{RESTARTS}").touch()
    (folder / "storm.pid").write_text(str(os.getpid()))
    wrong = 0
    for number, child in enumerate(children):
        _, status = os.waitpid(child, 0)
        if status != (signal.SIGKILL if number % 2 else 0):
            say(f"client {number} ended with {status}")
            wrong += 1
    say(f"{clients} clients, {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]))
