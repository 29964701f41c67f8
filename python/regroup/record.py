"""Tells the launcher why a worker failed, in the file that TORCHELASTIC_ERROR_FILE names.

    @record
    def main(): ...

The file and the rules are those of PyTorch's `record`, with three differences, all for the sake of whoever
reads it: it is there whole or not at all; trouble with it never hides the worker's own exception; and what
a process below has written there since main() began is kept, because it is nearer to the cause.
"""

import contextlib
import faulthandler
import functools
import json
import os
import stat
import sys
import tempfile
import time
import traceback

# As they stand in the file; the launcher refuses a file of more than 1 MiB.
MESSAGE_LIMIT = 64 << 10
CALL_STACK_LIMIT = 512 << 10

TORCH_ERRORS = "torch.distributed.elastic.multiprocessing.errors"


def record(function=None):
    """Decorates the main function of a worker: once per process. Also as `@record()`."""
    if function is None:
        return record

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        _enable_faulthandler()
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        at_start = _version_of(path)
        try:
            return function(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None  # The caller goes on, as after any good return.
            raise
        except Exception as error:
            # Whatever goes wrong from here on, the caller gets this exception.
            with _only_warns(path):
                if path:
                    _leave_behind(path, at_start, error)
            raise

    return wrapper


def _warn(text):
    with contextlib.suppress(Exception):
        print(f"regroup: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _only_warns(path):
    try:
        yield
    except Exception as trouble:
        _warn(f"cannot write the error file {path}: {type(trouble).__name__}: {trouble}")


def _enable_faulthandler():
    try:
        if not faulthandler.is_enabled():  # Somebody may have sent it elsewhere.
            faulthandler.enable(all_threads=True)
    except Exception as trouble:  # Standard error may be closed, or no file.
        _warn(f"cannot enable faulthandler: {type(trouble).__name__}: {trouble}")


def _leave_behind(path, at_start, error):
    failure = _failure_of_a_child(error)
    if failure is not None:
        _copy_of_a_child(path, failure)
    elif _version_of(path) != at_start and _is_error_file(path):
        _warn(f"the error file {path} is kept as it is: it was written before this failure")
    else:
        _write(path, json.dumps(_describe(error)))


# --- what is written -------------------------------------------------------------------------------

def _describe(error):
    try:
        text = str(error)
    except Exception:
        text = "<exception str() failed>"
    # The first frame is the wrapper's, which helps nobody.
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    stack = "".join(traceback.format_exception(type(error), error, frames))
    return {"message": {"message": _shortened(f"{type(error).__name__}: {text}", MESSAGE_LIMIT, keep_end=False),
                        "extraInfo": {"py_callstack": _shortened(stack, CALL_STACK_LIMIT, keep_end=True),
                                      "timestamp": str(int(time.time()))}}}


def _shortened(text, limit, keep_end):
    """So that it takes no more than `limit` bytes of JSON."""
    text = text.encode("utf-8", "replace").decode()  # Halves of surrogate pairs are no text.
    if len(json.dumps(text)) <= limit:
        return text
    size = limit
    while len(json.dumps(text[-size:] if keep_end else text[:size])) > limit - len("...\n"):
        size = size * 3 // 4
    return "...\n" + text[-size:] if keep_end else text[:size] + "..."


def _failure_of_a_child(error):
    """The first failure of PyTorch's ChildFailedError, else None. If it was raised, its module is loaded."""
    errors = sys.modules.get(TORCH_ERRORS)
    if errors is None or not isinstance(error, errors.ChildFailedError):
        return None
    return error.get_first_failure()[1]


def _copy_of_a_child(path, failure):
    if not os.path.isfile(failure.error_file):
        return  # "<N/A>": it left none, and our own exception says nothing about its cause.
    with open(failure.error_file, "rb") as file:
        content = json.loads(file.read().decode("utf-8", "replace"))
    # The child cannot know how it ended; we do.
    if failure.exitcode and isinstance(content, dict) and isinstance(content.get("message"), dict):
        content["message"]["errorCode"] = failure.exitcode
    _write(path, json.dumps(content))


# --- the file --------------------------------------------------------------------------------------

def _version_of(path):
    """Which file it is and which content: another one after every write."""
    try:
        status = os.stat(path)
        return status.st_ino, status.st_mtime_ns, status.st_size
    except (OSError, TypeError, ValueError):
        return None


def _is_error_file(path):
    try:
        with open(path, "rb") as file:
            return "message" in json.loads(file.read().decode("utf-8", "replace"))
    except Exception:
        return False


def _write(path, text):
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        mode = None
    if mode is None or stat.S_ISREG(mode):
        try:
            _write_and_rename(path, text)
            return
        except OSError:
            if mode is None:
                raise
    # A link, a device, or a file that cannot be replaced, as Kubernetes' /dev/termination-log is a mount.
    # Not blocking: a pipe that nobody reads must not hold up a process that is about to end.
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def _write_and_rename(path, text):
    descriptor, temporary = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path) or ".")
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # The launcher may be another user.
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
