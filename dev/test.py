#!/usr/bin/env python3
"""Runs the tests of one build and ends with the line `N passed, N failed, N skipped`.

    dev/test.py [--preset release] [--unit-only] [--filter WORD] [--again] [--jobs N] [--list] [-v] [--json FILE]

Three kinds of suites:
  unit     build/<preset>/test/*_test    GoogleTest binaries
  replay   build/<preset>/test/*_replay  every stored input of fuzz/<name>, one test each
  python   tests/**/test_*.py            whole-binary tests; those in tests/interop/ run under the Python
                                         that dev/torch-python finds

Suites run side by side, as many as there are cores. A Python file with a line `ALONE = "why"` is run
after them, with nothing beside it; so is, with --again, each test that failed.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "dev"))
sys.dont_write_bytecode = True
import unittest_json  # noqa: E402

# Whoever starts us with nohup, or in the background, has them ignored; tests of signals need them.
USUAL_SIGNALS = ["env", "--default-signal=HUP,INT,QUIT,PIPE,TERM"]

TORCH_CURE = ("set TORCH_PYTHON to a Python with PyTorch 2.4 or newer, "
              "or give this machine a package index for pip; then run again without TORCH=none")


@dataclasses.dataclass
class Test:
    name: str
    outcome: str  # passed, failed or skipped
    reason: str = ""


@dataclasses.dataclass
class Suite:
    name: str  # Unique: the binary's name or the file's path.
    kind: str  # unit, replay or python
    path: Path
    needs_torch: bool = False
    alone: bool = False  # It measures time, or looks at the whole machine.


@dataclasses.dataclass
class Run:
    """One finished process."""
    status: int  # Negative: the signal that ended it, as subprocess tells it.
    timed_out: bool
    output: str
    seconds: float

    def trouble(self):
        """What went wrong with the process itself, or an empty string."""
        if self.timed_out:
            return f"still running after {self.seconds:.0f} s, killed with its process group"
        if self.status < 0:
            try:
                return f"ended by {signal.Signals(-self.status).name}"
            except ValueError:
                return f"ended by signal {-self.status}"
        return f"exit status {self.status}" if self.status else ""


class Processes:
    """Starts processes, each in a group of its own, and can end all that still run."""

    def __init__(self, limit_s, env):
        self.limit_s = limit_s
        self.env = env
        self.running = set()
        self.lock = threading.Lock()

    def start(self, command, **more):
        with self.lock:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=ROOT, start_new_session=True, **more)
            self.running.add(process)
        return process

    def forget(self, process):
        with self.lock:
            self.running.discard(process)

    def run(self, command, log):
        started = time.monotonic()
        # Into a file and not a pipe: a forgotten grandchild that holds a pipe open would hang us.
        with open(log, "wb") as out:
            process = self.start([*USUAL_SIGNALS, *command], stdout=out, stderr=out, env=self.env)
            timed_out = False
            try:
                process.wait(self.limit_s)
            except subprocess.TimeoutExpired:
                timed_out = True
            finally:
                # Also after a good end: nothing that a test started may outlive it.
                self.kill(process)
                process.wait()
                self.forget(process)
        output = log.read_text(errors="replace")
        return Run(process.returncode, timed_out, output, time.monotonic() - started)

    @staticmethod
    def kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def kill_all(self):
        with self.lock:
            for process in self.running:
                self.kill(process)


# --- unit ---------------------------------------------------------------------------------------

def gtest_outcomes(report):
    """Tests in a GoogleTest JSON report."""
    for group in report.get("testsuites", []):
        for item in group.get("testsuite", []):
            name = f"{group['name']}.{item['name']}"
            if item.get("failures"):
                first = item["failures"][0]["failure"].strip().split("\n")
                yield Test(name, "failed", " ".join(line.strip() for line in first[:3]))
            elif item.get("status") == "NOTRUN":
                yield Test(name, "skipped", "disabled in its source (DISABLED_)")
            elif item.get("result") == "SKIPPED":
                yield Test(name, "skipped")
            else:
                yield Test(name, "passed")


def gtest_skip_reasons(output):
    """Test name -> message of GTEST_SKIP(), which the JSON report leaves out."""
    reasons, name, lines = {}, None, None
    for line in output.split("\n"):
        if line.startswith("[ RUN "):
            name, lines = line.split("]", 1)[1].strip(), None
        elif line.startswith("[  SKIPPED ]"):
            if name and lines:
                reasons[name] = " ".join(lines).strip()
            name = lines = None
        elif name and line.rstrip().endswith(": Skipped"):
            lines = []
        elif lines is not None:
            lines.append(line.strip())
    return reasons


def gtest_outcomes_from_output(output, trouble):
    """What can be said of a binary that died before it wrote its report."""
    running = None
    for line in output.split("\n"):
        match = re.match(r"\[ *(RUN|OK|FAILED|SKIPPED) *\] ([^\s,]+\.[^\s,]+)", line)
        if not match:
            continue
        word, name = match.groups()
        if word == "RUN":
            running = name
        elif name == running:  # The closing summary repeats names; they have been counted.
            running = None
            outcome = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[word]
            yield Test(name, outcome)
    yield Test(running or "(outside any test)", "failed", trouble)


def run_unit(suite, only, args, processes, launcher):
    """All tests of the suite; with `only`, those whose name contains it."""
    stem = suite.name + (".again" if only else "")
    report = args.results / f"{stem}.json"
    report.unlink(missing_ok=True)
    command = [*launcher, suite.path, f"--gtest_output=json:{report}", "--gtest_color=no"]
    if only:
        command.append(f"--gtest_filter=*{only}*")
    run = processes.run(command, args.results / f"{stem}.log")
    try:
        tests = list(gtest_outcomes(json.loads(report.read_text())))
    except (OSError, ValueError):
        tests = list(gtest_outcomes_from_output(run.output, run.trouble() or "wrote no report"))
    reasons = gtest_skip_reasons(run.output)
    for test in tests:
        if test.outcome == "skipped":
            test.reason = test.reason or reasons.get(test.name, "it does not say why")
    if run.trouble() and not any(test.outcome == "failed" for test in tests):
        tests.append(Test("(outside any test)", "failed", run.trouble()))
    return run, tests


# --- replay -------------------------------------------------------------------------------------

def run_replay(suite, _, args, processes, launcher):
    corpus = Path("fuzz") / suite.name.removesuffix("_replay")
    run = processes.run([*launcher, suite.path, corpus], args.results / f"{suite.name}.log")
    count = re.search(r"(\d+) inputs?\b", run.output)
    wrong = run.trouble()
    if not wrong and not (count and int(count.group(1))):
        wrong = "replayed no input"  # An empty corpus proves nothing.
    return run, [Test(f"every input of {corpus}", "failed" if wrong else "passed", wrong)]


# --- python -------------------------------------------------------------------------------------

def run_python(suite, only, args, processes, python):
    stem = suite.name.replace("/", "_") + (".again" if only else "")
    report = args.results / f"{stem}.json"
    report.unlink(missing_ok=True)
    command = [python, ROOT / "dev/unittest_json.py", suite.path, "--json", report]
    if only:
        command += ["--filter", only]
    run = processes.run(command, args.results / f"{stem}.log")
    tests, running = [], None
    if report.exists():
        content = json.loads(report.read_text())
        tests, running = [Test(**test) for test in content["tests"]], content["running"]
    else:
        tests.append(Test("(the whole file)", "failed", run.trouble() or "wrote no report"))
    if running and running not in {test.name for test in tests}:
        tests.append(Test(running, "failed", run.trouble() or "ended in the middle"))
    if run.trouble() and not any(test.outcome == "failed" for test in tests):
        tests.append(Test("(outside any test)", "failed", run.trouble()))
    return run, tests


def find_torch(processes):
    """(python, why there is none). A TORCH_PYTHON that does not serve is the caller's mistake and ends us."""
    reason = ""
    with processes.start([ROOT / "dev/torch-python"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True) as process:
        for line in process.stderr:
            if line.startswith("PyTorch: "):
                print(line.strip(), flush=True)  # It takes a minute: say so while it lasts.
            else:
                reason = line.strip()
        python = process.stdout.read().strip()
    processes.forget(process)
    if process.returncode == 0:
        return python, ""
    if process.returncode == 2:
        sys.exit(f"dev/test.py: {reason}")
    return None, reason or f"dev/torch-python ended with {process.returncode}"


# --- all together -------------------------------------------------------------------------------

def runs_alone(file):
    return re.search(r'^ALONE = "', file.read_text(), re.M) is not None


def find_suites(args):
    folder = args.build / "test"
    suites = [Suite(p.name, "unit", p) for p in sorted(folder.glob("*_test")) if os.access(p, os.X_OK)]
    suites += [Suite(p.name, "replay", p) for p in sorted(folder.glob("*_replay")) if os.access(p, os.X_OK)]
    if not args.unit_only:
        files = [p.relative_to(ROOT) for p in sorted((ROOT / "tests").rglob("test_*.py"))]
        # Those that need PyTorch come last: the quick answers first.
        files.sort(key=lambda p: "interop" in p.parts)
        suites += [Suite(str(p), "python", p, "interop" in p.parts, runs_alone(ROOT / p)) for p in files]
    return suites


def tests_of(suite):
    """The names of a suite's tests, without running any."""
    if suite.kind == "replay":
        return [f"every input of fuzz/{suite.name.removesuffix('_replay')}"]
    if suite.kind == "python":
        return unittest_json.tests_in_source(ROOT / suite.path)
    listing = subprocess.run([suite.path, "--gtest_list_tests"], capture_output=True, text=True).stdout
    names, group = [], ""
    for line in listing.split("\n"):
        line = line.split("#")[0].rstrip()
        if line.startswith("  "):
            names.append(group + line.strip())
        elif line.endswith("."):
            group = line
    return names


def count(tests, outcome):
    return sum(test.outcome == outcome for test in tests)


def fold(names, tests):
    """One line for a suite of which no test ran, a line each for the others."""
    suites = {}
    for name in names:
        suites.setdefault(name.split(": ")[0], []).append(name)
    for suite, of_suite in suites.items():
        if len(of_suite) == sum(test.name.startswith(f"{suite}: ") for test in tests) > 1:
            yield f"{suite}: all of its {len(of_suite)} tests"
        else:
            yield from of_suite


def totals(tests):
    return f"{count(tests, 'passed')} passed, {count(tests, 'failed')} failed, {count(tests, 'skipped')} skipped"


def test_environment(args):
    env = dict(os.environ, REGROUP_BIN=str(args.build / "regroup"), REGROUP_BUILD=str(args.build),
               PYTHONDONTWRITEBYTECODE="1")
    # A sanitizer's finding must end the process: a report that scrolls by fails no test.
    env.setdefault("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1")
    env.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    env.setdefault("TSAN_OPTIONS", "halt_on_error=1:second_deadlock_stack=1")
    return env


def sanitizer_launcher(preset):
    """ThreadSanitizer cannot start where the kernel scatters memory too widely; setarch -R prevents that."""
    launcher = ["setarch", platform.machine(), "-R"]
    if preset == "tsan":
        try:
            if subprocess.run([*launcher, "true"], capture_output=True).returncode == 0:
                return launcher
        except OSError:
            pass
    return []


class Conductor:
    """Runs suites, prints a line for each, and keeps what became of every test."""

    def __init__(self, args):
        self.args = args
        self.processes = Processes(args.limit, test_environment(args))
        self.launcher = sanitizer_launcher(args.preset)
        self.torch = None  # A future of find_torch().
        self.tests = []
        self.to_try_again = []
        self.lock = threading.Lock()

    def record(self, suite, run, tests):
        with self.lock:
            self.tests += [dataclasses.replace(test, name=f"{suite.name}: {test.name}") for test in tests]
            failed = count(tests, "failed") > 0
            again = any(test.outcome == "passed" and test.reason for test in tests)
            if run and (failed or again or self.args.verbose):
                print(f"---- output of {suite.name}")
                print(run.output.rstrip())
                print(f"---- end of {suite.name}")
            mark = "FAIL" if failed else "skip" if count(tests, "passed") == 0 else "ok"
            print(f"{mark:<5}{suite.name:<44} {totals(tests)}  {run.seconds if run else 0:.1f} s", flush=True)

    def run_once(self, suite, only):
        """(run, tests); no run where PyTorch is needed and there is none."""
        if suite.kind == "unit":
            return run_unit(suite, only, self.args, self.processes, self.launcher)
        if suite.kind == "replay":
            return run_replay(suite, only, self.args, self.processes, self.launcher)
        python, reason = self.torch.result() if suite.needs_torch else (sys.executable, "")
        if python:
            return run_python(suite, only, self.args, self.processes, python)
        names = [name for name in tests_of(suite) if self.args.filter in f"{suite.name}: {name}"]
        return None, [Test(name, "skipped", f"no PyTorch: {reason}") for name in names]

    def run_suite(self, suite):
        only = self.args.filter if self.args.filter not in suite.name else ""
        run, tests = self.run_once(suite, only)
        if self.args.again and run and not run.timed_out and count(tests, "failed"):
            with self.lock:
                self.to_try_again.append((suite, run, tests))
                print(f"again {suite.name}: {count(tests, 'failed')} failed, to be tried once more at the end", flush=True)
        else:
            self.record(suite, run, tests)

    def try_again(self, suite, run, tests):
        # Machines, and the programs that we are compared with, have bad moments. A test that fails by itself fails again.
        for index, test in enumerate(tests):
            if test.outcome == "failed" and "." in test.name:
                _, second = self.run_once(suite, test.name)
                if [one.outcome for one in second if one.name == test.name] == ["passed"]:
                    tests[index] = Test(test.name, "passed", f"at the second try; first: {test.reason}")
        self.record(suite, run, tests)

    def run_all(self, suites):
        beside = [suite for suite in suites if not suite.alone]
        pool = concurrent.futures.ThreadPoolExecutor(self.args.jobs)
        look = concurrent.futures.ThreadPoolExecutor(1)  # PyTorch may have to be installed: begin at once.
        try:
            if any(suite.needs_torch for suite in suites):
                self.torch = look.submit(find_torch, self.processes)
            for done in concurrent.futures.as_completed([pool.submit(self.run_suite, suite) for suite in beside]):
                done.result()
            for suite in suites:
                if suite.alone:
                    self.run_suite(suite)
            for suite, run, tests in self.to_try_again:
                self.try_again(suite, run, tests)
        except BaseException:
            for one in (pool, look):
                one.shutdown(wait=False, cancel_futures=True)
            self.processes.kill_all()
            raise
        finally:
            pool.shutdown()
            look.shutdown()

    def report(self):
        skipped = [test for test in self.tests if test.outcome == "skipped"]
        failed = [test for test in self.tests if test.outcome == "failed"]
        if skipped:
            print("\nskipped:")
            reasons = {}
            for test in skipped:
                reasons.setdefault(test.reason, []).append(test.name)
            for reason, names in reasons.items():
                print(f"  {reason}")
                if reason.startswith("no PyTorch"):
                    print(f"  to run them: {TORCH_CURE}")
                print("\n".join(f"    {line}" for line in fold(names, self.tests)))
        again = [test for test in self.tests if test.outcome == "passed" and test.reason]
        if again:
            print("\npassed at the second try only:")
            for test in again:
                print(f"  {test.name}: {test.reason}")
        if failed:
            print("\nfailed:")
            for test in failed:
                print(f"  {test.name}" + (f": {test.reason}" if test.reason else ""))
        if len(skipped) == len(self.tests):
            print(f"\nno test ran: is build/{self.args.preset} built, and does the filter match anything?")
        if self.args.json:
            outcomes = {word: count(self.tests, word) for word in ("passed", "failed", "skipped")}
            self.args.json.parent.mkdir(parents=True, exist_ok=True)
            self.args.json.write_text(json.dumps(outcomes) + "\n")
        print(f"\n{totals(self.tests)}", flush=True)
        return 1 if failed or len(skipped) == len(self.tests) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--preset", default="release", help="which build to test (default: release)")
    parser.add_argument("--unit-only", action="store_true", help="no Python tests")
    parser.add_argument("--filter", default="", metavar="WORD", help="only suites or tests whose name contains it")
    parser.add_argument("--again", action="store_true",
                        help="a test that failed is run once more by itself, and named if it passes then")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="so many suites side by side (default: one for each core)")
    parser.add_argument("--list", action="store_true", help="name the tests and run none")
    parser.add_argument("--limit", type=float, default=600, metavar="S", help="seconds for one process (default: 600)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the totals here")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the output of good suites too")
    args = parser.parse_args()
    args.build = ROOT / "build" / args.preset
    args.results = args.build / "test-results"
    args.results.mkdir(parents=True, exist_ok=True)

    suites = [s for s in find_suites(args) if not args.filter or args.filter in s.name
              or any(args.filter in name for name in tests_of(s))]
    if args.list:
        for suite in suites:
            for name in tests_of(suite):
                if args.filter in suite.name or args.filter in name:
                    print(f"{suite.name}: {name}")
        return 0
    conductor = Conductor(args)
    try:
        conductor.run_all(suites)
    except KeyboardInterrupt:
        print("\ninterrupted")
        conductor.report()
        return 130
    return conductor.report()


if __name__ == "__main__":
    # A plain kill must take our children along, exactly as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
