"""torchrun's events and metrics and ours, of the same command line: names, states, keys and values are the same,
but for clocks, pids and the host's name."""

import json
import os
import signal
import sys
import tempfile
import unittest
from pathlib import Path

from torch_support import VERSION, torch  # First: it sets PyTorch's environment.
from spawn_support import Spawn, until
from store_support import BINARY

LIMIT_S = 120.0

# torchrun has no flag for its metrics, nor for the events of its rendezvous, so they are taken where a program would
# take them.
TORCHRUN = """
import json, logging, sys
from torch.distributed import run
from torch.distributed.elastic import metrics
from torch.distributed.elastic.events import handlers

handlers._log_handlers["dynamic_rendezvous"] = logging.FileHandler(sys.argv[1] + ".rendezvous")

class Keep(metrics.MetricHandler):
    def emit(self, data):
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps(data._asdict()) + "\\n")

metrics.configure(Keep())
run.main(sys.argv[2:])
"""

# Does what its first argument says: for every restart a letter. s: succeeds. w: rank 1 writes an error file and
# fails, the others wait. x: it ends with 3. r: it says that it runs, and waits.
WORKER = """
import json, os, sys, time
folder, plan = sys.argv[1:]
rank = int(os.environ["RANK"])
letter = plan[int(os.environ["TORCHELASTIC_RESTART_COUNT"])]
if letter == "x":
    sys.exit(3)
if letter == "w" and rank == 1:
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        json.dump({"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": "Traceback: \\u00e9\\n",
                                                                           "timestamp": "1794726077"}}}, file)
    sys.exit(1)
if letter != "s":
    open(os.path.join(folder, f"runs.{rank}"), "w").close()
    time.sleep(1000)
"""


class Launcher(Spawn):
    """A launcher with its workers, until the block ends. What it says goes into a file."""

    def __init__(self, command, output):
        super().__init__(env={"OMP_NUM_THREADS": "1", "PYTHON_EXEC": sys.executable, "LC_ALL": "C.UTF-8"})
        for name in [name for name in self.env if name.startswith("PET_") or name == "LOGLEVEL"]:
            del self.env[name]
        self.command = [str(word) for word in command]
        self.output = output

    def __enter__(self):
        with open(self.output, "wb") as file:
            self.popen.update(stdout=file, stderr=file)
            return super().__enter__()

    def wait(self):
        return self.process.wait(LIMIT_S)


def json_or_text(text):
    try:
        return json.loads(text)
    except ValueError:
        return "a text"  # For people: a traceback of torchrun's, a sentence of ours.


def events_of(output):
    """With what differs from run to run replaced by what it is."""
    events = []
    for line in output.read_text(errors="replace").splitlines():
        if not line.startswith('{"name"'):
            continue
        event = json.loads(line)
        data = event["metadata"]
        inner = json.loads(data["metadata"])
        assert isinstance(event["timestamp"], int) and isinstance(data["total_run_time"], int), line
        event["timestamp"] = "a time"
        data["total_run_time"] = "seconds"
        assert data["hostname"], line
        data["hostname"] = "a name"
        if data["worker_id"] is not None:
            pid = int(data["worker_id"])
            assert inner["worker_pid"] in ([None], [pid]), line
            data["worker_id"] = "a pid"
            inner["worker_pid"] = ["a pid" if one else None for one in inner["worker_pid"]]
        if data["duration_ms"] is not None:
            assert isinstance(data["duration_ms"], float), line
            data["duration_ms"] = "a duration"
        if data["raw_error"] is not None:
            data["raw_error"] = json_or_text(data["raw_error"])
        data["metadata"] = list(inner.items())
        event["metadata"] = list(data.items())
        events.append(list(event.items()))
    return events


def metrics_of(path):
    """(name, value) of torchrun's. What it tells of every look at healthy workers is left out; ours are never looked
    at."""
    found = []
    for line in path.read_text().splitlines():
        metric = json.loads(line)
        assert list(metric) == ["timestamp", "group_name", "name", "value"], line
        assert isinstance(metric["timestamp"], float) and isinstance(metric["value"], int), line
        if metric["group_name"] != "torchelastic" or "._monitor_workers." in metric["name"]:
            continue
        if metric["name"].endswith(".healthy"):
            assert found.pop()[0].endswith(".remaining_restarts"), line
            continue
        found.append((metric["name"], "a duration" if metric["name"].endswith(".ms") else metric["value"]))
    return found


def steps_of(path):
    """Of the rendezvous, with what differs from run to run replaced by what it is."""
    steps = []
    for line in path.read_text().splitlines():
        step = json.loads(line)
        node = f"{step['hostname']}_{step['pid']}_{step['local_id']}"
        step["message"] = step["message"].replace(node, "a node").replace(str(step["pid"]), "a pid")
        assert step["hostname"] and isinstance(step["pid"], int), line
        step["hostname"], step["pid"] = "a name", "a pid"
        if step["local_id"] is not None:
            step["local_id"] = "a number"
        if step["node_state"] == "FAILED":
            step["message"] = step["message"].split(": ")[0]  # The reason is in our own words.
            assert step["error_trace"], line
            step["error_trace"] = "a text"
        steps.append(list(step.items()))
    return steps


@unittest.skipIf(VERSION < (2, 13), f"PyTorch {torch.__version__} tells fewer events; to run it: use PyTorch 2.13")
class Events(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "torchrun.py").write_text(TORCHRUN)
        (self.folder / "worker.py").write_text(WORKER)

    def rendezvous(self, plan, *flags):
        """The steps of both; ours without a session, because torchrun has none."""
        conf = ["--rdzv-conf", "keep_alive_interval=600,join_timeout=" + ("1" if flags else "60")]
        self.launch("torchrun", plan, *flags, *conf)
        ours = self.folder / "steps.jsonl"
        self.launch("ours", plan, *flags, *conf[:1], conf[1] + ",session=false", "--rdzv-event-log", ours)
        return steps_of(ours), steps_of(self.folder / "torchrun" / "metrics.jsonl.rendezvous")

    def test_the_steps_of_a_rendezvous(self):
        ours, theirs = self.rendezvous("s")
        self.assertEqual(ours, theirs)
        self.assertEqual([dict(step)["name"].split(".")[-1] for step in ours],
                         ["py:_create_tcp_store", "next_rendezvous", "_add_to_participants", "_keep_alive",
                          "_mark_rendezvous_complete", "run", "next_rendezvous", "_mark_rendezvous_closed", "run",
                          "_close"])

    def test_the_steps_of_a_rendezvous_to_which_nobody_comes(self):
        ours, theirs = self.rendezvous("s", "--nnodes", "2")
        self.assertEqual(ours[-1], theirs[len(ours) - 1])
        self.assertEqual(dict(ours[-1])["message"], "RendezvousTimeoutError")
        self.assertEqual(ours, theirs[:len(ours)])
        # torchrun then closes the run, for those that come later, too.
        self.assertEqual([dict(step)["name"].split(".")[-1] for step in theirs[len(ours):]],
                         ["_mark_rendezvous_closed", "run", "_close"])

    def launch(self, who, plan, *flags, act=None):
        """Exit code, events, metrics."""
        folder = self.folder / who
        folder.mkdir()
        output, metrics = folder / "output", folder / "metrics.jsonl"
        command = ([sys.executable, self.folder / "torchrun.py", metrics] if who == "torchrun"
                   else [BINARY, "run", "--metrics-log", metrics])
        flags = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", "job-7", "--role", "trainer",
                 "--event-log-handler", "console", *flags]
        with Launcher([*command, *flags, self.folder / "worker.py", folder, plan], output) as launcher:
            if act:
                act(launcher, folder)
            code = launcher.wait()
        return code, events_of(output), metrics_of(metrics)

    def compare(self, plan, *flags, act=None):
        """What both say, which is the same."""
        theirs_code, theirs, their_metrics = self.launch("torchrun", plan, *flags, act=act)
        ours_code, ours, our_metrics = self.launch("ours", plan, *flags, act=act)
        self.assertTrue(theirs)
        self.assertEqual(ours, theirs)
        self.assertEqual(our_metrics, their_metrics)
        self.assertEqual(ours_code == 0, theirs_code == 0)
        return [(dict(event)["source"], dict(dict(event)["metadata"])) for event in ours]

    def test_a_run_that_succeeds(self):
        told = self.compare("s", "--nproc-per-node", "2")
        self.assertEqual([f"{source} {data['state']}" for source, data in told],
                         ["AGENT RENDEZVOUS", "AGENT ASSIGN_WORKER_RANKS", "WORKER START", "WORKER START",
                          "WORKER SUCCEEDED", "WORKER SUCCEEDED", "AGENT SUCCEEDED"])

    def test_a_failure_and_a_restart(self):
        told = self.compare("ws", "--nproc-per-node", "2", "--max-restarts", "3")
        self.assertEqual(told[-1][1]["agent_restarts"], 1)

    def test_a_spent_budget(self):
        told = self.compare("ww", "--nproc-per-node", "2", "--max-restarts", "1")
        states = {data["global_rank"]: (data["state"], dict(data["metadata"])["exit_code"], data["raw_error"])
                  for source, data in told[-3:-1] if source == "WORKER"}
        self.assertEqual(states[0], ("FAILED", [-signal.SIGTERM], {"message": "<NONE>"}))
        self.assertEqual(states[1][:2], ("FAILED", [1]))
        self.assertEqual(states[1][2]["message"]["message"], "ValueError: boom")

    def test_a_failure_without_an_error_file(self):
        told = self.compare("x")
        self.assertEqual(told[-2][1]["raw_error"]["errorTraits"]["category"], "system_terminated_error")

    def test_a_signal(self):
        def act(launcher, folder):
            self.assertTrue(until(lambda: len(list(folder.glob("runs.*"))) == 2, LIMIT_S))
            os.kill(launcher.pid, signal.SIGTERM)

        told = self.compare("r", "--nproc-per-node", "2", act=act)
        self.assertEqual(told[-1][1]["state"], "FAILED")
        self.assertEqual(told[-1][1]["raw_error"], "a text")

    def test_nobody_comes(self):
        told = self.compare("s", "--nnodes", "2", "--rdzv-conf", "join_timeout=1")
        self.assertEqual([data["state"] for _, data in told], ["RENDEZVOUS", "FAILED"])


if __name__ == "__main__":
    unittest.main()
