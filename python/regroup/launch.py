"""`regroup run` in the place of torch.distributed.run, for launchers that call that in Python.

    import regroup
    regroup.install()          # From here on torch.distributed.run's main() and run() start regroup.

With REGROUP_TORCHRUN=1 in the environment this happens by itself at the start of every Python that has this package
installed, which reaches `accelerate launch`, `fabric run`, `tune run` and `python -m torch.distributed.run`.

Those who call run() catch ChildFailedError, or clean up behind it, so the program is a child and not what becomes of
this process; only `python -m regroup.torchrun`, behind which nothing comes, becomes it.
"""

import contextlib
import importlib.abc
import importlib.util
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

TARGET = "torch.distributed.run"
# Signals that ask torchrun to end its run, and those that `regroup run` hands on to its workers.
HANDED_ON = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
BAD_START = 2


class LaunchError(RuntimeError):
    """The run has failed, and not by a worker of this node; `exit_code` is that of `regroup run`."""

    def __init__(self, exit_code, message):
        super().__init__(message)
        self.exit_code = exit_code


def find_binary():
    """The program: REGROUP_BIN, next to this Python, in PATH."""
    given = os.environ.get("REGROUP_BIN")
    if given:
        found = shutil.which(given)
        if found is None:
            raise FileNotFoundError(f"REGROUP_BIN is {given!r}, which is no program. Correct it, or unset it to use "
                                    "the regroup next to this Python, or in PATH.")
        return found
    beside = os.path.dirname(sys.executable or "")
    found = (shutil.which("regroup", path=beside) if beside else None) or shutil.which("regroup")
    if found is None:
        raise FileNotFoundError(f"there is no program regroup in {beside or 'the directory of this Python'} or in PATH. "
                                "Put it there (a link is enough), or name it with REGROUP_BIN.")
    return found


def words_of(args, parser):
    """The command line that `parser` made the namespace `args` of. What is missing in it, or has the default, is left
    out, unless a variable would be taken for it then."""
    words = []
    for action in parser._actions:
        if not action.option_strings or not hasattr(args, action.dest):
            continue
        name = max(action.option_strings, key=len)
        value = getattr(args, action.dest)
        is_given = value != action.default or f"PET_{action.dest.upper()}" in os.environ
        if value is None or action.dest in ("help", "print_completion", "use_env") or not is_given:
            continue
        if isinstance(value, bool):
            words += [name] if value else []
        elif isinstance(value, (list, tuple)):
            words.append(name + "=" + ",".join(str(part).replace(",", ",,") for part in value))
        else:
            words.append(f"{name}={getattr(value, 'value', value)}")
    words += ["--", args.training_script]
    # Of torch.distributed.launch, whose scripts take their rank from an argument unless --use-env is given.
    if not getattr(args, "use_env", True):
        words.append("--local-rank=${local_rank}")
    return words + [str(word) for word in args.training_script_args]


def with_python(words):
    # As torchrun: the workers' Python is this one. A flag, because a variable would reach the workers, too.
    return words if os.environ.get("PYTHON_EXEC") else [f"--python={sys.executable}", *words]


def become(words):
    """This process becomes `torchrun`: its exit codes, its report. Does not return."""
    binary = find_binary()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(binary, ["torchrun", *with_python(words)])


def run_child(words):
    """Runs `regroup run`. Its exit code, what it was told about its workers' ends, the signal that was handed on."""
    binary = find_binary()
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryDirectory(prefix="regroup_") as directory:
        events = os.path.join(directory, "events")
        command = [binary, "run", *with_python([f"--event-log={events}", *words])]
        # It ends if we are killed; and in a group of its own it hears of Ctrl-C once, from us.
        environment = {**os.environ, "REGROUP_PARENT": str(os.getpid())}
        child = None
        handed_on = []

        def hand_on(number, _frame):
            handed_on.append(number)
            if child is not None:
                os.kill(child, number)

        is_main = threading.current_thread() is threading.main_thread()
        previous = {}
        for number in [getattr(signal, name) for name in HANDED_ON] if is_main else []:
            # One that is ignored stays so, for nohup.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                previous[number] = signal.signal(number, hand_on)
        try:
            # The handler is not inherited, but what came before there was a child must not be lost.
            child = os.posix_spawn(binary, command, environment, setpgroup=0)
            for number in handed_on:
                os.kill(child, number)
            status = os.waitpid(child, 0)[1]
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        asked = [number for number in handed_on if code == 128 + number]
        return code, failures_in(events), asked[0] if asked else None


def failures_in(path):
    """Of the workers of this node that failed at the end: the inner metadata of their events."""
    found = []
    try:
        with open(path, encoding="ascii") as lines:
            for line in lines:
                event = json.loads(line)
                if event["source"] != "WORKER" or event["metadata"]["state"] != "FAILED":
                    continue
                outer = event["metadata"]
                inner = json.loads(outer["metadata"])
                found.append({"rank": outer["global_rank"], "local_rank": inner["local_rank"][0],
                              "pid": inner["worker_pid"][0], "exit_code": inner["exit_code"][0],
                              "error": json.loads(outer["raw_error"] or "null")})
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        pass  # Only the description of the failure suffers.
    return found


def shell_code(exit_code):
    return exit_code if exit_code >= 0 else 128 - exit_code


def raise_as_torch(name, code, failures, signalled):
    """What elastic_launch() raises after the same run."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
    if signalled is not None:
        from torch.distributed.elastic.multiprocessing.api import SignalException
        raise SignalException(f"Process {os.getpid()} got signal: {signalled}", sigval=signal.Signals(signalled))
    # Others are stopped after the first, most of them by SIGTERM.
    first = next((failure for failure in failures if shell_code(failure["exit_code"] or 0) == code), None)
    if first is None:
        raise LaunchError(code, f"regroup run has ended with {code}; what it said about that is above")
    described = {}
    now = int(time.time())
    with tempfile.TemporaryDirectory(prefix="regroup_") as directory:
        for failure in failures:
            error = failure["error"]
            path = os.path.join(directory, str(failure["rank"]))
            if isinstance(error, dict) and error.get("message") != "<NONE>":
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(error, file)
            of = ProcessFailure(local_rank=failure["local_rank"], pid=failure["pid"] or 0,
                                exitcode=failure["exit_code"] or 0, error_file=path)
            of.error_file = "<N/A>"  # It is about to be gone.
            of.timestamp = now - (failure is first)
            described[failure["rank"]] = of
    raise ChildFailedError(name, described)


def run(args):
    """In the place of torch.distributed.run.run()."""
    from torch.distributed.run import get_args_parser
    launch(words_of(args, get_args_parser()), "run_script_path" if getattr(args, "run_path", False)
           else args.training_script)


def main(args=None):
    """In the place of torch.distributed.run.main(); the words may have flags of `regroup run`'s own."""
    words = [str(word) for word in (sys.argv[1:] if args is None else args)]
    try:
        launch(words, script_in(words))
    except LaunchError as error:
        if error.exit_code == BAD_START:  # As argparse ends a program.
            raise SystemExit(BAD_START) from None
        raise


def script_in(words):
    """For the report. Flags that are regroup's own may keep torch's parser from finding it."""
    from torch.distributed.run import get_args_parser
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            return get_args_parser().parse_known_args(words)[0].training_script
    except SystemExit:
        return "regroup run"


def launch(words, name):
    code, failures, signalled = run_child(words)
    if code != 0 or signalled is not None:
        raise_as_torch(name, code, failures, signalled)


# ---- Where it is put ----

class Loader(importlib.abc.Loader):
    """Loads the module as its own loader does, and then puts our functions into it."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):  # What only some loaders have, is_package() and the like.
        return getattr(self.inner, name)

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module):
        self.inner.exec_module(module)
        replace(module)

    def get_code(self, fullname):
        # Asked for by `python -m` only, which makes a program of it.
        return compile("from regroup.launch import become; import sys; become(sys.argv[1:])", TARGET, "exec")


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.is_asking = False

    def find_spec(self, name, path=None, target=None):
        if name != TARGET or self.is_asking:
            return None
        self.is_asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader)
        return spec


def replace(module):
    module.run = run
    module.main = main


def install():
    """torch.distributed.run's main() and run() start `regroup run` from here on. PyTorch is not imported for that.

    Call it before others take the two by name: `from torch.distributed.run import run`."""
    if TARGET in sys.modules:
        replace(sys.modules[TARGET])
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def install_if_asked():
    """What regroup.pth calls at the start of every Python."""
    if os.environ.get("REGROUP_TORCHRUN", "") not in ("", "0"):
        install()
