#!/usr/bin/env python3
"""Runs the unittest file FILE and writes what became of every single test, as JSON.

    dev/unittest_json.py FILE --json OUT [--filter WORD]
    dev/unittest_json.py FILE --list

OUT: {"tests": [{"name", "outcome": "passed" | "failed" | "skipped", "reason"}], "running": name or null}.
dev/test.py reads it. It is written before every test, so that a crash leaves the name of its culprit.
Every test that the file defines appears, also those that a skipped or broken setUpClass kept from
running: nothing may drop out of the count silently.
"""

import argparse
import ast
import functools
import importlib.util
import json
import sys
import traceback
import unittest
from pathlib import Path


def tests_in_source(file):
    """Names (Class.test) of the tests in a file that cannot be imported, for want of a module."""
    classes = {node.name: node for node in ast.parse(Path(file).read_text()).body
               if isinstance(node, ast.ClassDef)}

    def bases(node):
        return [getattr(base, "attr", getattr(base, "id", "")) for base in node.bases]

    def is_test_case(node):
        return any(base.endswith("TestCase") or base in classes and is_test_case(classes[base])
                   for base in bases(node))

    def tests(node):
        inherited = [name for base in bases(node) if base in classes for name in tests(classes[base])]
        own = [item.name for item in node.body
               if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name.startswith("test")]
        return list(dict.fromkeys(inherited + own))

    return [f"{name}.{test}" for name, node in classes.items() if is_test_case(node) for test in tests(node)]


def load(file):
    # Tests may share helpers that lie beside them or in tests/ itself.
    for folder in [file.parent, *(p for p in file.parents if p.name == "tests")]:
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def name_of(test):
    # A failed setUpClass is reported by a stand-in whose id reads "setUpClass (file.Class)".
    return ".".join(test.id().split(".")[-2:]) if isinstance(test, unittest.TestCase) else test.id()


def write_report(path, outcomes, running):
    tests = [{"name": name, "outcome": outcome, "reason": reason}
             for name, (outcome, reason) in outcomes.items()]
    path.write_text(json.dumps({"tests": tests, "running": running}, indent=1))


class Recorder(unittest.TextTestResult):
    def __init__(self, report, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.report = report
        self.outcomes = {}  # name -> (outcome, reason)
        self.stand_ins = {}  # id of a failed or skipped fixture -> (outcome, reason)

    def note(self, test, outcome, reason=""):
        if not isinstance(test, unittest.TestCase):
            self.stand_ins[test.id()] = (outcome, reason)
        elif self.outcomes.get(name_of(test), ("",))[0] != "failed":  # A failed part fails the whole.
            self.outcomes[name_of(test)] = (outcome, reason)

    def startTest(self, test):
        super().startTest(test)
        write_report(self.report, self.outcomes, name_of(test))

    def addSuccess(self, test):
        super().addSuccess(test)
        if name_of(test) not in self.outcomes:  # Its subtests may have spoken already.
            self.note(test, "passed")

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed", last_line(err))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed", last_line(err))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failed", last_line(err))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(getattr(test, "test_case", test), "skipped", reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "passed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "failed", "passed, though it is marked as an expected failure")


def last_line(err):
    return traceback.format_exception_only(*err[:2])[-1].strip().split("\n")[0]


def account(names, result):
    """Every name with its outcome; one that never ran inherits that of the fixture that stopped it."""
    outcomes = dict(result.outcomes)
    for name in names:
        if name in outcomes:
            continue
        group = name.split(".")[0]
        for fixture, (outcome, reason) in result.stand_ins.items():
            if fixture.endswith(f".{group})") or fixture.startswith("setUpModule"):
                outcomes[name] = (outcome, reason if outcome == "skipped" else f"{fixture}: {reason}")
                break
        else:
            outcomes[name] = ("failed", "did not run")
    # A broken teardown stops no test, so it has to be counted by itself.
    for fixture, (outcome, reason) in result.stand_ins.items():
        if outcome == "failed" and fixture.startswith("tearDown"):
            outcomes[fixture] = (outcome, reason)
    return outcomes


def run(file, word, report):
    try:
        suite = load(file)
    except unittest.SkipTest as skip:
        return {name: ("skipped", str(skip)) for name in tests_in_source(file) or ["(the whole file)"]
                if word in name}
    except BaseException as error:  # SystemExit too: a test file must not end the run quietly.
        traceback.print_exc()
        return {"(import)": ("failed", f"{type(error).__name__}: {error}")}
    tests = [test for test in flatten(suite) if word in name_of(test)]
    names = [name_of(test) for test in tests]
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2,
                                     resultclass=functools.partial(Recorder, report))
    return account(names, runner.run(unittest.TestSuite(tests)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--filter", default="", help="only tests whose Class.test contains this")
    parser.add_argument("--list", action="store_true", help="name the tests without importing the file")
    args = parser.parse_args()
    if args.list:
        print("\n".join(tests_in_source(args.file)))
        return 0
    if not args.json:
        parser.error("--json OUT is needed to run tests")
    outcomes = run(args.file.resolve(), args.filter, args.json)
    write_report(args.json, outcomes, None)
    return 1 if any(outcome == "failed" for outcome, _ in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
