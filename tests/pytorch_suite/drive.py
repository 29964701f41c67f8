"""Runs one test file of PyTorch's, with regroup behind it or without, and writes what came out of each test.

python drive.py FILE OUT.json [--plain] [--only TEXT]
"""

import argparse
import importlib
import json
import os
import signal
import sys
import unittest
from pathlib import Path

import shims

LIMIT_S = int(os.environ.get("PYTORCH_TEST_LIMIT", "180"))


class TooLong(Exception):
    pass


class Outcomes(unittest.TestResult):
    """Every test with its outcome; one that takes too long is ended, and the next one begins."""

    def __init__(self, out):
        super().__init__()
        self.out, self.found = out, {}

    def note(self, test, outcome, why=""):
        self.found.setdefault(test.id(), {"outcome": outcome, "why": why[-2000:]})
        self.out.write_text(json.dumps(self.found))  # Each time: a crash must not lose the others.

    def startTest(self, test):
        super().startTest(test)
        self.before = set(shims.servers.of_port)
        signal.alarm(LIMIT_S)

    def stopTest(self, test):
        signal.alarm(0)
        shims.end_servers(but=self.before)
        super().stopTest(test)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        self.note(test, "skipped", reason)

    def addFailure(self, test, error):
        self.note(test, "failed", self._exc_info_to_string(error, test))

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)

    def addExpectedFailure(self, test, _error):
        self.note(test, "passed")

    def addUnexpectedSuccess(self, test):
        self.note(test, "failed", "an unexpected success")


def each(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from each(one)
        else:
            yield one


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()

    def alarm(*_):
        raise TooLong(f"longer than {LIMIT_S} s")

    signal.signal(signal.SIGALRM, alarm)
    shims.install_etcd()
    if not arguments.plain:
        shims.install()
    sys.path.insert(0, str(arguments.file.resolve().parent))
    sys.argv = [str(arguments.file)]
    module = importlib.import_module(arguments.file.stem)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    chosen = unittest.TestSuite(test for test in each(suite) if arguments.only in test.id())
    result = Outcomes(arguments.out)
    chosen.run(result)
    arguments.out.write_text(json.dumps(result.found))
    sys.stdout.flush()
    shims.end_servers()
    os._exit(0)  # Threads of a test that was ended may hang.


if __name__ == "__main__":
    main()
