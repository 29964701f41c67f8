#!/usr/bin/env python3
"""PyTorch's own tests of its store, launcher and elastic agent, with regroup behind them.

    tests/pytorch_suite/run.py --source PYTORCH --python VENV/bin/python [--only TEXT] [--plain]

PYTORCH is a checkout of pytorch/pytorch, of the version that the Python has (only test/distributed is
read); the Python has torch and expecttest. `--plain` runs the same without regroup: what fails there,
too, is no fault of ours. shims.py says what is put where.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE_LIMIT_S = 1800
FILES = (
    "test_store.py",
    "launcher/test_run.py",
    "launcher/launch_test.py",
    "launcher/test_api.py",
    "launcher/api_test.py",
    "elastic/agent/server/test/api_test.py",
    "elastic/agent/server/test/local_elastic_agent_test.py",
    "elastic/agent/server/test/shutdown_timeout_test.py",
    "elastic/agent/server/test/exit_barrier_timeout_test.py",
    "elastic/events/lib_test.py",
    "elastic/metrics/api_test.py",
    "elastic/multiprocessing/api_test.py",
    "elastic/multiprocessing/test_api.py",
    "elastic/multiprocessing/errors/api_test.py",
    "elastic/multiprocessing/errors/error_handler_test.py",
    "elastic/multiprocessing/redirects_test.py",
    "elastic/multiprocessing/tail_log_test.py",
    "elastic/rendezvous/api_test.py",
    "elastic/rendezvous/c10d_rendezvous_backend_test.py",
    "elastic/rendezvous/dynamic_rendezvous_test.py",
    "elastic/rendezvous/static_rendezvous_test.py",
    "elastic/rendezvous/utils_test.py",
    "elastic/timer/api_test.py",
    "elastic/timer/file_based_local_timer_test.py",
    "elastic/timer/local_timer_test.py",
    "elastic/utils/distributed_test.py",
    "elastic/utils/logging_test.py",
    "elastic/utils/util_test.py",
    "elastic/utils/data/cycling_iterator_test.py",
)

# Tests that look inside PyTorch's own process, where with the shims a program of another language is.
KNOWN = {
    "test_take_over_listen_socket": "the arguments of TCPStore hand a listening socket to no other program",
    "TCPStoreTest.test_repr": "shows that the server is in the same process",
    "test_capture_logs": "reads what its own process prints, where another program prints now",
    "test_launch_elastic_agent_raise_exception": "replaces a method of the Python agent, which does not run",
    "test_launch_elastic_worker_raise_exception": "counts calls of the Python agent's events.record",
    "test_nproc_gpu_launch_configurations": "replaces torch's count of GPUs in its own process",
    "test_nproc_xpu_launch_configurations": "replaces torch's count of GPUs in its own process",
    "test_launch_shutdown": "replaces the Python agent",
    "test_default_nproc_with": "replaces torch's count of GPUs in its own process",
}


def outcomes(source, python, file, plain=False, only=""):
    """name -> {outcome, why}. A file that cannot be imported is one failure."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        log = Path(folder) / "log"
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "TORCHELASTIC_"))}
        env.update(PYTHONPATH=str(HERE), OMP_NUM_THREADS="1", TMPDIR=folder)
        command = [
            python,
            HERE / "drive.py",
            Path(source) / "test/distributed" / file,
            out,
            "--only",
            only,
            *(["--plain"] if plain else []),
        ]
        with open(log, "w") as sink:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env, cwd=folder, start_new_session=True
            )
            why = ""
            try:
                process.wait(FILE_LIMIT_S)
                if process.returncode:
                    why = f"ended with {process.returncode}"
            except subprocess.TimeoutExpired:
                why = f"longer than {FILE_LIMIT_S} s"
            finally:
                try:
                    os.killpg(process.pid, 9)
                except ProcessLookupError:
                    pass
                process.wait()
        found = json.loads(out.read_text()) if out.exists() else {}
        if why:
            found[f"{file} as a whole"] = {
                "outcome": "failed",
                "why": f"{why}: {log.read_text(errors='replace')[-1500:]}",
            }
        return found


def known(name):
    return next((why for part, why in KNOWN.items() if part in name), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--source", required=True, help="a checkout of pytorch/pytorch")
    parser.add_argument("--python", default=os.environ.get("TORCH_PYTHON", sys.executable))
    parser.add_argument("--file", action="append", help="only this one of test/distributed")
    parser.add_argument("--only", default="", help="tests with this in their names")
    parser.add_argument("--plain", action="store_true", help="without regroup")
    parser.add_argument("--verbose", "-v", action="store_true", help="why tests failed")
    arguments = parser.parse_args()
    total = {"passed": 0, "failed": 0, "skipped": 0}
    expected = 0
    for file in arguments.file or FILES:
        if not (Path(arguments.source) / "test/distributed" / file).exists():
            print(f"{file}: skipped, not in {arguments.source}", flush=True)
            continue
        found = outcomes(arguments.source, arguments.python, file, arguments.plain, arguments.only)
        count = {kind: sum(one["outcome"] == kind for one in found.values()) for kind in total}
        for kind in total:
            total[kind] += count[kind]
        print(f"{file}: " + ", ".join(f"{number} {kind}" for kind, number in count.items()), flush=True)
        for name, one in found.items():
            if one["outcome"] == "failed":
                why = None if arguments.plain else known(name)
                expected += why is not None
                print(f"    {name}{f' (expected: {why})' if why else ''}", flush=True)
                if arguments.verbose or why is None:
                    print("        " + one["why"].strip()[-700:].replace("\n", "\n        "), flush=True)
    print(
        f"{total['passed']} passed, {total['failed']} failed ({expected} of them expected), {total['skipped']} skipped"
    )
    return 1 if total["failed"] > expected else 0


if __name__ == "__main__":
    sys.exit(main())
