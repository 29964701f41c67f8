"""Tells of every signal that it gets, a line each, and goes on; SIGTERM, SIGINT, SIGHUP and SIGQUIT end it with 0,
after the seconds it was given. It has a child that would die of any of them. What it was started to ignore it
ignores.

    signals.py [SECONDS]
"""

import os
import signal
import sys
import time

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
GOING_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)


def tell(text):
    # In one write, so that no other worker's words come in between.
    os.write(1, f"{os.environ['RANK']} {text}\n".encode())


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    reader, writer = os.pipe()
    helper = os.fork()
    if helper == 0:
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        os.write(writer, b".")
        while True:
            time.sleep(1000)
    os.read(reader, 1)
    asked = []

    def on_signal(number, _):
        tell(signal.Signals(number).name)
        if number in ENDING:
            asked.append(number)

    for number in (*ENDING, *GOING_ON):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, on_signal)
    tell(f"ready {os.getpid()} {helper}")
    while not asked:
        time.sleep(0.005)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.005)
    tell("done")


main()
