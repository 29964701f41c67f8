"""A terminal in which `regroup run` runs, and what a person sees on it in the end."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading

from run_support import Run
from spawn_support import LIMIT_S, until

COMMAND = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


class TerminalRun(Run):
    """A running `regroup run` whose three streams are one terminal, until the block ends."""

    def __init__(self, *arguments, env=None, columns=100):
        super().__init__(*arguments, env={"TERM": "xterm", **(env or {})})
        if "NO_COLOR" not in (env or {}):
            self.env.pop("NO_COLOR", None)
        self.columns = columns
        self.text = ""

    def __enter__(self):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, self.columns, 0, 0))
        self.popen = {"stdin": slave, "stdout": slave, "stderr": slave}
        super(Run, self).__enter__()
        os.close(slave)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.alive():
            if pid != self.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)
        self.reader.join(LIMIT_S)
        os.close(self.master)

    def read(self):
        with contextlib.suppress(OSError):  # Of a terminal that nobody has open any more.
            while data := os.read(self.master, 65536):
                self.text += data.decode(errors="replace")

    def until(self, pattern, limit_s=LIMIT_S):
        """The first place where it was written."""
        found = until(lambda: re.search(pattern, self.text), limit_s)
        if not found:
            raise AssertionError(f"no {pattern!r} within {limit_s} s in {self.text!r}")
        return found

    def finish(self, limit_s=LIMIT_S):
        """Its exit code, and all that was written."""
        code = self.process.wait(limit_s)
        self.reader.join(limit_s)
        return code, self.text


def screen(text):
    """The lines that are seen in the end. Everything but erasing to the end and colours is unknown to us."""
    lines, column = [[]], 0
    at = 0
    while at < len(text):
        if command := COMMAND.match(text, at):
            at = command.end()
            if command[2] == "K":
                assert command[1] in ("", "0"), command[0]
                del lines[-1][column:]
            else:
                assert command[2] == "m", f"{command[0]!r} in {text!r}"
            continue
        if text[at] == "\r":
            column = 0
        elif text[at] == "\n":
            lines.append([])
        else:
            lines[-1][column:column + 1] = [text[at]]
            column += 1
        at += 1
    return ["".join(line) for line in lines if line]
