"""torchrun and `regroup run --exit-code torchrun` side by side: the same arguments, variables and workers, and what
becomes of them.

Where the two differ on purpose there is a row with its reason in one of the tables OTHERWISE."""

import collections
import concurrent.futures
import contextlib
import functools
import io
import json
import logging
import os
import re
import signal
import sys
import tempfile
import unittest
from pathlib import Path

import torch_support  # noqa: F401  Sets PyTorch's environment before it is imported.
from rendezvous_cli_support import reserved_port
from spawn_support import WORKERS, until
from store_support import ROOT
from torch.distributed import run as torch_run
from torchrun_support import LIMIT_S, SIDES, Ours, Server, starred

TELL = [WORKERS / "tell.py", "TELL"]
TALK = WORKERS / "talk.py"
UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"

# With an endpoint of its own torchrun keeps the run id it is given; alone on a machine it makes one up.
C10D = "--rdzv-backend c10d --rdzv-endpoint localhost:PORT --rdzv-id my.run_7"


def setUpModule():
    Server.get()


class Job:
    """What both sides get: the arguments of each node, and what is set (None: not set) in their environment. PORT is
    a free port, other on each side; LOGS and TELL are folders of each node's own."""

    def __init__(self, *arguments, nodes=1, env=None, **more):
        each = [(words.split() if isinstance(words, str) else list(words)) for words in arguments]
        self.nodes = each if len(each) > 1 else each * nodes
        self.env, self.more = env or {}, more


def run(side, job, folder):
    """The outcomes of its nodes."""
    with contextlib.ExitStack() as stack:
        port = str(stack.enter_context(reserved_port()))
        running = []
        for at, words in enumerate(job.nodes):
            words = [str(word).replace("PORT", port) for word in words]
            env = {name: value and value.replace("PORT", port) for name, value in job.env.items()}
            running.append(stack.enter_context(side(Path(folder) / f"{side.__name__}{at}", *words, env=env,
                                                    **job.more)))
        outcomes = [one.finish() for one in running]
        for one, outcome in zip(running, outcomes):
            outcome.told = {int(file.stem): json.loads(file.read_text()) for file in one.told.glob("*.json")}
            outcome.folder = one.folder
            outcome.started = (one.told / "started").exists()
            file = one.folder / "error.json"
            outcome.file = file.read_text() if file.exists() else None
        return outcomes


def without_our_own(environment, than):
    """What we tell our workers beyond what torchrun tells its own has our name."""
    return {name: value for name, value in environment.items()
            if name in than or not name.startswith("REGROUP_")}


def run_all(jobs):
    """Name -> (torchrun's outcomes, ours), many at a time."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = {}
        for at, (name, job) in enumerate(jobs.items()):
            place = Path(folder) / str(at)
            place.mkdir()
            futures[name] = [pool.submit(run, side, job, place) for side in SIDES]
        return {name: tuple(future.result() for future in pair) for name, pair in futures.items()}


def of_each(check):
    """A test of every node of every job: of the job's name, torchrun's outcome, and ours."""
    @functools.wraps(check)
    def test(self):
        for name, pair in self.outcomes.items():
            for theirs, ours in zip(*pair):
                with self.subTest(name):
                    check(self, name, theirs, ours)
    return test


class Differential(unittest.TestCase):
    """Runs JOBS once, for all tests of the class."""

    maxDiff = None
    JOBS = {}

    @classmethod
    def setUpClass(cls):
        cls.outcomes = run_all(cls.JOBS)

    def assert_codes(self, theirs, ours, code):
        self.assertEqual((theirs.code, ours.code), (code, code),
                         f"{theirs.err.decode(errors='replace')}\n---\n{ours.err.decode(errors='replace')}")


# --- the environment of workers ----------------------------------------------------------------------

def static(rank, address="127.0.0.1", nnodes=2, count=1):
    return ["--nnodes", nnodes, "--node-rank", rank, "--master-addr", address, "--master-port", "PORT",
            "--nproc-per-node", count, *TELL]


class Environment(Differential):
    OWN = {  # Every run has its own; what is right for it.
        # torchrun gives the machine's name; we give the address, which needs no name service.
        "MASTER_ADDR": r"^\S+$",
        "MASTER_PORT": r"^[1-9]\d*$",
        "TORCHELASTIC_ERROR_FILE": r"^/.*/tmp/torchelastic_\*/[^/]+_\*/attempt_0/\d+/error\.json$",
        "REGROUP_TEST_WORD": ".",
        "TMPDIR": ".",
    }
    STATIC = {"MASTER_ADDR", "MASTER_PORT"}  # Not their own where they are given.
    JOBS = {
        "nothing": Job(TELL),
        "several": Job(["--nproc-per-node", 3, *TELL], env={"OMP_NUM_THREADS": None}),
        "one": Job(["--nproc-per-node=1", *TELL], env={"OMP_NUM_THREADS": None}),
        "no threads": Job(["--nproc_per_node=2", *TELL], env={"OMP_NUM_THREADS": ""}),
        "standalone": Job(["--standalone", "--nproc-per-node", 2, "--rdzv-id", "lost", "--role", "trainer",
                           "--max-restarts", 3, *TELL]),
        "the user's": Job(["--nproc-per-node", 2, *TELL], env={
            "OMP_NUM_THREADS": "7", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "CUDA_VISIBLE_DEVICES": "4, 5"}),
        "an outer launcher's": Job(["--nproc-per-node", 1, *TELL], env={
            "RANK": "8", "WORLD_SIZE": "9", "LOCAL_RANK": "7", "GROUP_RANK": "6", "ROLE_NAME": "outer",
            "MASTER_ADDR": "nowhere", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "outer",
            "TORCHELASTIC_RESTART_COUNT": "5", "TORCHELASTIC_MAX_RESTARTS": "6",
            "TORCHELASTIC_USE_AGENT_STORE": "maybe", "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGUSR1",
            "TORCHELASTIC_ERROR_FILE": "/nowhere/error.json"}),
        "virtual local rank": Job(["--nproc-per-node", 2, "--virtual-local-rank", *TELL]),
        "virtual local rank of a list": Job(["--nproc-per-node", 2, "--virtual_local_rank", *TELL],
                                            env={"CUDA_VISIBLE_DEVICES": "5, 7 ,6"}),
        "signals": Job(["--signals-to-handle", "SIGTERM,SIGUSR2", *TELL]),
        "one node with an endpoint": Job(f"--nnodes 1 {C10D}".split() + TELL),
        "no name": Job(["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:PORT", "--rdzv-id", "", *TELL]),
        "two nodes": Job(f"--nnodes 2 --nproc-per-node 2 --max-restarts 3 --role trainer {C10D}".split() + TELL,
                         nodes=2),
        "two nodes without a shared store": Job(f"--nnodes 2 {C10D}".split() + TELL, nodes=2,
                                                env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}),
        "two nodes that are alike": Job(f"--nnodes=2 --nproc-per-node=2 {C10D}".split() + TELL, nodes=2,
                                        env={"TORCH_ELASTIC_WORKER_IDENTICAL": "1"}),
        "a file": Job(["--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "LOGS/meet", "--rdzv-id",
                       "filed", "--rdzv-conf", "store_type=file,last_call_timeout=1", *TELL]),
        "static, one node": Job(static(0, nnodes=1, count=2)),
        "static, without a rank": Job(["--master-port", "PORT", "--rdzv-id", "named", *TELL]),
        "static, endpoint": Job(["--rdzv-endpoint", "127.0.0.1:PORT", "--rdzv-backend", "static", *TELL]),
        "static": Job(static(0, count=2), static(1, count=2)),
        "static, range": Job(static(0, nnodes="1:2"), static(1, nnodes="1:2")),
        "static, numbers": Job(static(0, count=2), static(1, count=1)),
        "static, name": Job(static(0, "localhost"), static(1, "localhost")),
        "static, endpoint of two": Job(*(["--nnodes", 2, "--node-rank", rank, "--rdzv-endpoint", "localhost:PORT",
                                          "--role", f"role{rank}", "--nproc-per-node", 2 - rank, *TELL]
                                         for rank in (0, 1))),
        "static, variables": Job(*(["--node_rank", rank, *TELL] for rank in (0, 1)),
                                 env={"PET_NNODES": "2", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": "PORT"}),
    }
    if Path("/proc/net/if_inet6").exists():
        JOBS["static, IPv6"] = Job(static(0, "[::1]"), static(1, "[::1]"))

    @of_each
    def test_all_end_well(self, name, theirs, ours):
        self.assert_codes(theirs, ours, 0)

    def test_every_variable_is_torchruns(self):
        for name, pair in self.outcomes.items():
            with self.subTest(name):
                theirs, ours = ({rank: told["environment"] for one in side for rank, told in one.told.items()}
                                for side in pair)
                self.assertEqual(theirs.keys(), ours.keys())
                self.assertTrue(theirs)
                for rank in theirs:
                    self.assert_same(name, rank, theirs[rank], ours[rank])

    def assert_same(self, name, rank, theirs, ours):
        own = dict(self.OWN)
        if name.startswith("static"):
            own["MASTER_PORT"] = r"^[1-9]\d*$"
            self.assertEqual(theirs["MASTER_ADDR"], ours["MASTER_ADDR"])
        if theirs["TORCHELASTIC_RUN_ID"] not in ("my.run_7", "named", "none", "filed"):
            own["TORCHELASTIC_RUN_ID"] = r"^\d{20,40}$" if name == "no name" else UUID
        if "_" in theirs or "_" in ours:
            own["_"] = "."
        if "PET_MASTER_PORT" in theirs:
            own["PET_MASTER_PORT"] = "."
        for variable, pattern in own.items():
            self.assertRegex(starred(theirs.pop(variable)), pattern, variable)
            self.assertRegex(starred(ours.pop(variable)), pattern, variable)
        self.assertEqual(theirs, without_our_own(ours, theirs), f"rank {rank}")

    def ours(self, name, variable):
        told = {rank: one["environment"] for side in self.outcomes[name][1] for rank, one in side.told.items()}
        return [told[rank].get(variable) for rank in sorted(told)]

    def test_the_comparisons_had_something_to_compare(self):
        self.assertEqual(self.ours("several", "OMP_NUM_THREADS"), ["1"] * 3)
        self.assertEqual(self.ours("one", "OMP_NUM_THREADS"), [None])
        self.assertEqual(self.ours("no threads", "OMP_NUM_THREADS"), ["", ""])
        self.assertEqual(self.ours("the user's", "TORCH_NCCL_ASYNC_ERROR_HANDLING"), ["0", "0"])
        self.assertEqual(self.ours("virtual local rank", "CUDA_VISIBLE_DEVICES"), ["0", "1"])
        self.assertEqual(self.ours("virtual local rank", "LOCAL_RANK"), ["0", "0"])
        self.assertEqual(self.ours("virtual local rank of a list", "CUDA_VISIBLE_DEVICES"), ["5", "7"])
        self.assertEqual(self.ours("signals", "TORCHELASTIC_SIGNALS_TO_HANDLE"), ["SIGTERM,SIGUSR2"])
        self.assertEqual(self.ours("an outer launcher's", "TORCHELASTIC_SIGNALS_TO_HANDLE"),
                         ["SIGTERM,SIGINT,SIGHUP,SIGQUIT"])
        self.assertEqual(self.ours("two nodes", "GROUP_RANK"), ["0", "0", "1", "1"])
        self.assertEqual(self.ours("two nodes", "TORCHELASTIC_USE_AGENT_STORE"), ["True"] * 4)
        self.assertEqual(self.ours("two nodes without a shared store", "TORCHELASTIC_USE_AGENT_STORE"), ["False"] * 2)
        self.assertEqual(self.ours("static, numbers", "LOCAL_WORLD_SIZE"), ["2", "2", "1"])
        self.assertEqual(self.ours("static, endpoint of two", "ROLE_WORLD_SIZE"), ["2", "2", "1"])
        self.assertEqual(self.ours("static, endpoint of two", "ROLE_RANK"), ["0", "1", "0"])

    @of_each
    def test_all_else_of_a_worker_is_torchruns(self, name, theirs, ours):
        for rank in theirs.told.keys() & ours.told.keys():
            pair = [dict(one.told[rank]) for one in (theirs, ours)]
            # torchrun's workers outlive it when it is killed.
            self.assertEqual([one.pop("parent-death signal") for one in pair], [0, signal.SIGKILL])
            directories = [one.pop("directory") for one in pair]
            self.assertEqual(directories, [str(theirs.folder), str(ours.folder)])
            for what in pair[0].keys() - {"environment", "arguments"}:
                self.assertEqual(pair[0][what], pair[1][what], what)


# --- output ------------------------------------------------------------------------------------------

def by_rank(output):
    """The lines that tell their rank, in order, by rank."""
    ranks = collections.defaultdict(list)
    for line in output.split(b"\n"):
        if found := re.search(rb"rank (\d+) std", line):
            ranks[found[1]].append(line)
    return ranks


def logs(flags, *more, script=(TALK,), log_dir="LOGS", **keywords):
    words = flags.split() if isinstance(flags, str) else flags
    return Job(["--nproc-per-node", 2, *(["--log-dir", log_dir] if log_dir else []), *words, *more, *script],
               **keywords)


class Logs(Differential):
    TEMPLATE = "<$$ ${role_name} $rank/${local_rank} ${unknown} $ {>"
    JOBS = {
        "none": logs(""),
        "out": logs("-r 1"),
        "err": logs("-r2"),
        "all": logs("--redirects=3"),
        "tee out": logs("-t 1"),
        "tee err": logs("--tee 2"),
        "tee all": logs("-t3"),
        "tee and redirect": logs("-t 1 -r 2"),
        "by rank": logs("-r 0:1,1:3"),
        "tee of one rank": logs("-t 1:3 -r 0:1,1:1"),
        "nested folder": logs("-r 3", log_dir="LOGS/a/b"),
        "underscores": logs(["--log_dir", "LOGS", "-r", "3"], log_dir=None),
        "filter": logs("-t 3 --local-ranks-filter 1"),
        "filter without files": logs("--local_ranks_filter=0"),
        "filter and redirects": logs("-r 0:3 --local-ranks-filter 0"),
        "empty filter": logs(["-t", "3", "--local-ranks-filter", ""]),
        "filter of both": logs(["-t", "1", "--local-ranks-filter", " 1 , 0"]),
        "name": logs(f"-r 1 -t 2 --role trainer {C10D}"),
        "duplicates": logs(["-t", "3", "--duplicate-stdout-filters", "one,two,, three", "--duplicate-stderr-filters",
                            "1: ,nothing,last"]),
        "duplicates of what is filtered": logs("-t 1 -r 3 --local_ranks_filter 0 --duplicate_stdout_filters one "
                                               "--duplicate_stderr_filters one"),
        "template": logs("-t 3", env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": TEMPLATE}),
        "nowhere": logs("-t 3", log_dir="/dev/null"),
        "nowhere, filter": logs("-r 3 --local-ranks-filter 0", log_dir="/dev/null"),
        "temporary": logs("-t 3", log_dir=None),
        "restarts": logs("-r 3 --max-restarts 2 --no-python", script=(
            # The pause is for the others to have said it, too: the first that fails ends them.
            "/bin/sh", "-c",
            "echo attempt $TORCHELASTIC_RESTART_COUNT; sleep 0.5; test $TORCHELASTIC_RESTART_COUNT = 2")),
        "nothing is said": logs("-r 3 --no-python", script=("true",)),
    }
    OTHERWISE = {"temporary": "torchrun never removes its own; ours is gone after a success"}

    def assert_same_lines(self, theirs, ours):
        """The same lines, and those of a rank in the same order. Between ranks there is no order."""
        self.assertEqual(sorted(theirs.split(b"\n")), sorted(ours.split(b"\n")))
        self.assertEqual(by_rank(theirs), by_rank(ours))

    @of_each
    def test_all_end_well(self, name, theirs, ours):
        self.assert_codes(theirs, ours, 0)

    @of_each
    def test_the_trees_and_what_is_in_them_are_torchruns(self, name, theirs, ours):
        if name in self.OTHERWISE:
            return
        self.assertEqual({path: mode for path, (mode, _) in theirs.tree.items()},
                         {path: mode for path, (mode, _) in ours.tree.items()})
        for path, (_, content) in theirs.tree.items():
            if "filtered" in path:  # One file of all ranks.
                self.assert_same_lines(content, ours.tree[path][1])
            else:
                self.assertEqual(content, ours.tree[path][1], path)

    def test_a_temporary_directory_is_gone_after_a_success(self):
        (theirs,), (ours,) = self.outcomes["temporary"]
        self.assertIn("torchelastic_*/UUID_*/attempt_0/1/stdout.log", theirs.tree)
        self.assertEqual(ours.tree, {})

    @of_each
    def test_the_consoles_are_torchruns(self, name, theirs, ours):
        self.assert_same_lines(theirs.out, ours.out)
        if name != "restarts":  # Each tells of failures in its own words.
            self.assert_same_lines(theirs.err, ours.err)

    def test_the_comparisons_had_something_to_compare(self):
        tree = self.outcomes["restarts"][0][0].tree
        self.assertEqual(tree["UUID_*/attempt_1/1/stdout.log"], ("0o640", b"attempt 1\n"))
        self.assertIn("my.run_7_*", self.outcomes["name"][1][0].tree)
        self.assertIn("a/b/UUID_*/attempt_0/0/stderr.log", self.outcomes["nested folder"][1][0].tree)
        self.assertEqual(self.outcomes["nowhere"][1][0].tree, {})
        self.assertEqual(len(by_rank(self.outcomes["filter"][1][0].out)), 1)
        for name, prefix in (("tee all", b"[default1]:"), ("name", b"[trainer1]:"),
                             ("template", b"<$ default 1/1 ${unknown} $ {>")):
            self.assertIn(b"\n" + prefix + b"rank 1 stderr 0: one\n", b"\n" + self.outcomes[name][1][0].err)


# --- what is run -------------------------------------------------------------------------------------

ARGUMENTS = ["${local_rank}", "x${local_rank}y", "$$", "$unknown", "", "a b", "--help", "-r", "--", "--nnodes=7",
             "--log-dirs", "-m"]
SAY = """import json, os, sys
print(json.dumps([sys.argv, __name__, sys.executable, __file__]))
"""


class Commands(Differential):
    """Scripts, modules, programs, paths: what they find in sys.argv."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        script = str(Path(folder) / "say.py")
        Path(script).write_text(SAY)
        jobs = {
            "script": Job([script, *ARGUMENTS]),
            "relative script": Job(["say.py", "1"], directory=folder),
            "dashes before": Job(["--", script, *ARGUMENTS]),
            "dashes behind": Job([script, "--", "1", "--", "2"]),
            "module": Job(["-m", "say", *ARGUMENTS], env={"PYTHONPATH": folder}),
            "module, long": Job(["--module", "say"], directory=folder),
            "letters together": Job(["-mr0", "say"], directory=folder),
            "program": Job(["--no-python", sys.executable, "-u", script, *ARGUMENTS]),
            "program in PATH": Job(["--no_python", "echo", *ARGUMENTS]),
            "run-path": Job(["--run-path", script, *ARGUMENTS]),
            "run-path before all": Job(["--run_path", "--no-python", "-m", script, "1"]),
            "variables": Job(["say"], directory=folder, env={"PET_MODULE": "1", "PET_NO_PYTHON": "0"}),
            "another Python": Job([script], env={"PYTHON_EXEC": os.path.realpath(sys.executable)}),
        }
        cls.outcomes = run_all(jobs)

    @of_each
    def test_all_end_well(self, name, theirs, ours):
        self.assert_codes(theirs, ours, 0)

    @of_each
    def test_scripts_find_the_same(self, name, theirs, ours):
        self.assertEqual(theirs.out, ours.out)
        self.assertEqual(theirs.err, ours.err)
        self.assertTrue(ours.out, name)

    def test_the_comparisons_had_something_to_compare(self):
        said = json.loads(self.outcomes["script"][1][0].out)
        self.assertEqual(said[0][1:5], ["0", "x0y", "$", "$unknown"])
        self.assertEqual(json.loads(self.outcomes["dashes behind"][1][0].out)[0][1:], ["1", "--", "2"])


COUNT = ["--no-python", "/bin/sh", "-c", "echo rank $RANK std $WORLD_SIZE $OMP_NUM_THREADS"]


class Nproc(Differential):
    """Numbers of workers, as they may be written."""

    JOBS = {text: Job([f"--nproc-per-node={text}", *COUNT])
            for text in ("1", "3", " 2 ", "+2", "0_2", "cpu", "auto", "0", "-1", "", "gpu", "xpu", "cuda", "2.0",
                         "two")}
    JOBS["variable"] = Job(COUNT, env={"PET_NPROC_PER_NODE": "2"})
    JOBS["flag and variable"] = Job(["--nproc_per_node", 3, *COUNT], env={"PET_NPROC_PER_NODE": "2"})
    JOBS["the last counts"] = Job(["--nproc-per-node", 4, "--nproc_per_node", 2, *COUNT])

    @of_each
    def test_both_start_as_many_or_none(self, name, theirs, ours):
        self.assertEqual(sorted(theirs.out.split(b"\n")), sorted(ours.out.split(b"\n")))
        self.assertEqual(theirs.code == 0, ours.code == 0, ours.err)
        self.assertEqual(ours.code, 0 if ours.out else 2)

    def test_the_comparisons_had_something_to_compare(self):
        for name, count in (("variable", 2), ("flag and variable", 3), ("the last counts", 2), ("cpu", None)):
            out = self.outcomes[name][1][0].out
            self.assertEqual(out.count(b"\n"), count or len(os.sched_getaffinity(0)), name)


class Variables(Differential):
    """Every PET_ variable that has an effect one can see, alone and with a flag that says otherwise."""

    ALL = {"PET_NNODES": "1:1", "PET_NPROC_PER_NODE": "2", "PET_RDZV_BACKEND": "c10d",
           "PET_RDZV_ENDPOINT": "localhost:PORT", "PET_RDZV_ID": "named", "PET_RDZV_CONF": "join_timeout=100",
           "PET_STANDALONE": "0", "PET_MAX_RESTARTS": "4", "PET_MONITOR_INTERVAL": "0.05", "PET_START_METHOD": "fork",
           "PET_EVENT_LOG_HANDLER": "null", "PET_ROLE": "actor", "PET_MODULE": "0", "PET_NO_PYTHON": "0",
           "PET_RUN_PATH": "0", "PET_REDIRECTS": "1", "PET_TEE": "2", "PET_LOCAL_RANKS_FILTER": "1",
           "PET_DUPLICATE_STDOUT_FILTERS": "stdout", "PET_DUPLICATE_STDERR_FILTERS": "one,two",
           "PET_NODE_RANK": "0", "PET_LOCAL_ADDR": "localhost", "PET_SIGNALS_TO_HANDLE": "SIGTERM",
           "PET_SHUTDOWN_TIMEOUT": "17", "PET_VIRTUAL_LOCAL_RANK": "1"}
    TELL_AND_TALK = ["--no-python", "/bin/sh", "-c", f"'{sys.executable}' '{WORKERS}/tell.py' TELL && "
                     f"exec '{sys.executable}' '{TALK}'"]
    JOBS = {
        "all": Job(TELL_AND_TALK, env={**ALL, "PET_LOG_DIR": "LOGS"}),
        "flags win": Job(["--nproc-per-node", 3, "--rdzv-id", "other", "--max-restarts", 1, "--role", "critic", "-r", 2,
                          "-t", 0, "--local-ranks-filter", 0, "--signals-to-handle", "SIGINT", "--log-dir", "LOGS/own",
                          *TELL_AND_TALK], env={**ALL, "PET_LOG_DIR": "/nowhere/at/all"}),
        "flags are on": Job(["--no-python", "true"], env={"PET_NO_PYTHON": "-3"}),
        "standalone": Job(TELL_AND_TALK, env={"PET_STANDALONE": "1", "PET_RDZV_ID": "lost"}),
        "an empty name": Job(TELL_AND_TALK, env={"PET_RDZV_ID": "", "PET_ROLE": ""}),
    }

    @of_each
    def test_workers_find_what_torchruns_find(self, name, theirs, ours):
        own = {*Environment.OWN, "_", "PET_RDZV_ENDPOINT", "PET_LOG_DIR", "PWD"}
        self.assert_codes(theirs, ours, 0)
        self.assertEqual(theirs.told.keys(), ours.told.keys())
        for rank in theirs.told:
            pair = [{variable: value for variable, value in one.told[rank]["environment"].items()
                     if variable not in own} for one in (theirs, ours)]
            if name in ("standalone", "an empty name"):
                for environment in pair:
                    self.assertRegex(environment.pop("TORCHELASTIC_RUN_ID"), UUID)
            self.assertEqual(pair[0], without_our_own(pair[1], pair[0]))

    @of_each
    def test_output_goes_where_torchruns_goes(self, name, theirs, ours):
        self.assertEqual(sorted(theirs.out.split(b"\n")), sorted(ours.out.split(b"\n")))
        self.assertEqual(by_rank(theirs.err), by_rank(ours.err))

    def test_the_trees_of_logs_are_torchruns(self):
        for name, file in (("all", "named_*/attempt_0/filtered_stderr.log"),
                           ("flags win", "own/other_*/attempt_0/2/stderr.log")):
            (theirs,), (ours,) = self.outcomes[name]
            self.assertEqual(*({path: mode for path, (mode, _) in one.tree.items()} for one in (theirs, ours)))
            self.assertIn(file, ours.tree)


# --- what is taken and what is refused ---------------------------------------------------------------

class Taken(unittest.TestCase):
    """torchrun's own parser is asked here, without a run; we are asked for a dry run."""

    ALIKE = [
        # Numbers of nodes.
        "--nnodes 1", "--nnodes 2", "--nnodes 1:4", "--nnodes=+2", "--nnodes= 2", "--nnodes=1_0", "--nnodes=1:",
        "--nnodes=:2", "--nnodes=", "--nnodes 1:2:3", "--nnodes 0", "--nnodes 0:2", "--nnodes 4:2", "--nnodes=-1",
        "--nnodes two", "--nnodes 2.0",
        # Spellings.
        "--nproc-per-node=2", "--nproc_per_node=2", "--nnod 2", "--redirect=3", "--no-such-flag",
        "--no-such-flag=1", "-x", "--nnodes", "--rdzv-id=a=b", "-r3", "-r=3", "-mr3",
        "-rm", "--standalone=1", "--module=1", "--log-d a", "--rdzv a", "-t -1", "--role -x", "--role=-x", "--role --",
        # Numbers.
        "--max-restarts 0", "--max-restarts=-1", "--max-restarts 1.5", "--max-restarts x", "--max-restarts=",
        "--monitor-interval 0.5", "--monitor-interval 5", "--monitor-interval x", "--monitor-interval=",
        "--shutdown-timeout 0", "--shutdown-timeout 9", "--shutdown-timeout x", "--shutdown-timeout=-1",
        "--node-rank 0", "--node-rank x", "--master-port x", "--master-port 1.5", "--master-port=",
        # Choices.
        "--start-method fork", "--start-method forkserver", "--start-method spawn", "--start-method thread",
        "--numa-binding x", "--logs-specs nobody", "--logs-specs default", "--no-python -m", "--use-env",
        # Output.
        "-r 0", "-r 4", "-r 0:4", "-r 0:1,", "-r ,0:1", "-r 0:1,0:2", "-r x", "-r 0:1:1", "-r=", "-t 7:3", "-t 2,3",
        "--local-ranks-filter=", "--local-ranks-filter 0,1", "--local-ranks-filter x", "--local-ranks-filter 0,",
        "--local-ranks-filter 7", "--duplicate-stdout-filters=", "--duplicate-stderr-filters a,,b",
        # The rendezvous.
        "--rdzv-conf a=1", "--rdzv-conf a=1,b=2", "--rdzv-conf=", "--rdzv-conf a", "--rdzv-conf =1", "--rdzv-conf a=",
        "--rdzv-conf a=1,,b=2", "--rdzv-conf a=b=c", "--rdzv-id=", "--rdzv-endpoint=", "--rdzv-endpoint host:1",
        "--master-addr=", "--master-addr [::1]", "--local-addr=", "--local-addr x",
        # Signals: unknown ones are only told of.
        "--signals-to-handle SIGTERM", "--signals-to-handle SIGNOTHING", "--signals-to-handle=",
    ]
    VARIABLES = [("NNODES", "2"), ("NNODES", "x"), ("NNODES", ""), ("MAX_RESTARTS", "x"), ("MAX_RESTARTS", ""),
                 ("MAX_RESTARTS", "-1"), ("MASTER_PORT", ""), ("MASTER_PORT", "x"), ("NODE_RANK", "x"),
                 ("MONITOR_INTERVAL", "x"), ("SHUTDOWN_TIMEOUT", ""), ("STANDALONE", "true"), ("STANDALONE", ""),
                 ("STANDALONE", "0"), ("STANDALONE", "2"), ("MODULE", "yes"), ("MODULE", " 1 "), ("NO_PYTHON", "0"),
                 ("RUN_PATH", "1.0"), ("VIRTUAL_LOCAL_RANK", "no"), ("REDIRECTS", "7"), ("TEE", ""), ("ROLE", ""),
                 ("RDZV_CONF", "a"), ("LOCAL_RANKS_FILTER", "x"), ("LOGS_SPECS", "nobody"), ("NUMA_BINDING", "x"),
                 ("PRINT_COMPLETION", "fish"), ("NO_SUCH_THING", "1"), ("DUPLICATE_STDOUT_FILTERS", "")]
    OTHERWISE = [  # Flags, whether torchrun takes them, whether we do, and why.
        ("-r 10:3", False, True, "there are machines with more than ten GPUs"),
        ("--local-ranks-filter 0-1", False, True, "ranges are new"),
        ("--local-ranks-filter=-1", True, False, "no worker has that rank, so nobody would be heard"),
        ("--shutdown-timeout 1.5", False, True, "half seconds do no harm"),
        ("--nnodes=1:2 --standalone", True, True, "said, since no other node can come"),
        ("--standalone --nnodes=2", True, False, "torchrun waits ten minutes for a node that cannot come"),
        ("--nnodes=2 --node-rank 2", True, False, "torchrun waits for a node with a rank that is there"),
        ("--node-rank=-1 --nnodes 2", True, False, "likewise"),
        ("--master-port 65536 --nnodes 2", True, False, "no such port; torchrun's store says so later"),
        ("--master-port=-1 --nnodes 2", True, False, "likewise"),
        ("--monitor-interval 0", True, False, "torchrun fails when it makes its agent"),
        ("--nproc-per-node 0", True, False, "likewise"),
        ("--rdzv-conf backend=c10d", True, False, "torchrun fails when it makes its rendezvous"),
        ("--rdzv-backend nowhere", True, False, "likewise"),
        ("--rdzv-endpoint host", True, False, "likewise: the static backend has no port to fall back on"),
        ("--event-log-handler nobody", True, False, "torchrun fails at the first event"),
        ("--print-completion bash", False, True, "PyTorch 2.14 has it"),
        ("--log-line-prefix-template x", False, True, "PyTorch 2.14 has it; 2.13 only the variable"),
        ("-n 2", False, True, "short for --nproc-per-node"),
        ("--nproc 2", False, True, "torchrun finds its own two spellings ambiguous"),
        ("--max 1", False, True, "likewise"),
        ("--nproc-per_node=2", False, True, "a dash is an underscore, wherever it is"),
    ]

    def theirs(self, words, env=None):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.ExitStack() as stack:
            for name, value in (env or {}).items():
                os.environ[name] = value
                stack.callback(os.environ.pop, name)
            logging.disable()  # Its warnings.
            stack.callback(logging.disable, logging.NOTSET)
            try:
                torch_run.config_from_args(torch_run.parse_args(["--log-dir", "/dev/null", *words]))
            except (Exception, SystemExit):
                return False
        return True

    def ours(self, words, env=None):
        with tempfile.TemporaryDirectory() as folder:
            with Ours(folder, "--dry-run", "--log-dir", "/dev/null", *words, env=env) as running:
                outcome = running.finish()
        self.assertIn(outcome.code, (0, 2), outcome.err)
        if outcome.code == 2:  # One message, and nothing else.
            self.assertEqual((outcome.out, outcome.err.count(b"\n")), (b"", 1), outcome.err)
        return outcome.code == 0

    def test_flags(self):
        for flags in self.ALIKE:
            words = [*re.split(" (?! |[0-9])" if "= " in flags else " ", flags), "train.py"]
            with self.subTest(flags):
                self.assertEqual(self.theirs(words), self.ours(words))

    VARIABLES_OTHERWISE = [  # Torchrun does not look at choices there.
        ("START_METHOD", "thread", True, False, "it would fail later, or mean nothing"),
        ("EVENT_LOG_HANDLER", "nobody", True, False, "torchrun fails at the first event"),
    ]

    def test_variables_that_are_taken_otherwise(self):
        for name, value, theirs, ours, _ in self.VARIABLES_OTHERWISE:
            env = {f"PET_{name}": value}
            self.assertEqual((self.theirs(["train.py"], env), self.ours(["train.py"], env)), (theirs, ours), name)

    def test_variables(self):
        for name, value in self.VARIABLES:
            with self.subTest(f"{name}={value}"):
                env = {f"PET_{name}": value}
                self.assertEqual(self.theirs(["train.py"], env), self.ours(["train.py"], env))

    def test_what_is_taken_otherwise(self):
        for flags, theirs, ours, _ in self.OTHERWISE:
            words = [*flags.split(), "train.py"]
            with self.subTest(flags):
                self.assertEqual((self.theirs(words), self.ours(words)), (theirs, ours))

    def test_no_script(self):
        for words in ([], ["--nnodes", "2"], ["--"], ["-m"]):
            self.assertEqual((self.theirs(words), self.ours(words)), (False, False), words)

    def test_what_belongs_to_the_script(self):
        # torchrun looks at it all the same (issue 120601), and finds abbreviations in it.
        for words, theirs in ((["--log", "x"], False), (["--d", "4"], False), (["--max=4"], False),
                              (["--nnodes", "x"], True), (["--help"], True), (["--no-such"], True), (["-r"], True)):
            words = ["train.py", *words]
            self.assertEqual((self.theirs(words), self.ours(words)), (theirs, True), words)


class Refused(Differential):
    """What torchrun finds wrong only when it begins: both end with a failure, and start nothing."""

    START = ["--no-python", "touch", "TELL/started"]
    JOBS = {
        "backend": Job(["--rdzv-backend", "nowhere", "--rdzv-endpoint", "localhost:PORT", *START]),
        "no workers": Job(["--nproc-per-node", 0, *START]),
        "interval": Job(["--monitor-interval", 0, *START]),
        "timeout": Job(["--shutdown-timeout=-1", *START]),
        "conf": Job([*C10D.split(), "--rdzv-conf", "backend=c10d", *START]),
        "store type": Job([*C10D.split(), "--rdzv-conf", "store_type=odd", *START]),
        "time": Job([*C10D.split(), "--rdzv-conf", "join_timeout=soon", *START]),
        "no time": Job([*C10D.split(), "--rdzv-conf", "join_timeout=0", *START]),
        "static time": Job(["--master-port", "PORT", "--rdzv-conf", "timeout=soon", *START]),
        "is_host": Job([*C10D.split(), "--rdzv-conf", "is_host=perhaps", *START]),
        "port": Job(["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:x", *START]),
        "static port": Job(["--rdzv-endpoint", "localhost", *START]),
        "program": Job(["--no-python", "/nowhere/at/all", "TELL/started"]),
        "log dir": Job(["--log-dir", "/proc/self/status/x", *START]),
        "gpus": Job(["--nproc-per-node", 2, "--virtual-local-rank", *START], env={"CUDA_VISIBLE_DEVICES": "3"}),
        "no GPU to be near to": Job(["--numa-binding", "node", *START], env={"CUDA_VISIBLE_DEVICES": ""}),
        "event handler": Job(["--event-log-handler", "nobody", *START]),
        "run id": Job(["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:PORT", "--rdzv-id", "a/b", "-r", "3",
                       "--log-dir", "LOGS", *START]),
        "usage": Job(["--no-such-flag", *START]),
        "port 0": Job(["--master-port", 0, *START]),
        "etcd": Job(["--rdzv-backend", "etcd", "--rdzv-endpoint", "localhost:PORT", *START]),
        "nowhere to duplicate": Job(["-t", 3, "--log-dir", "/dev/null", "--duplicate-stdout-filters", "x", *START]),
    }
    WE_RUN = {"run id": "a slash is no part of a file's name; the folder gets another one",
              "nowhere to duplicate": "where no files are wanted there is nothing to write"}
    THEY_RUN = {"port 0": "their workers are told to meet at port 0, where nobody is"}

    @of_each
    def test_both_fail(self, name, theirs, ours):
        self.assertIn(theirs.code, (0,) if name in self.THEY_RUN else (1, 2), theirs.err)
        self.assertIn(ours.code, (0,) if name in self.WE_RUN else (1, 2), ours.err)

    @of_each
    def test_nothing_is_started(self, name, theirs, ours):
        self.assertEqual((theirs.started, ours.started), (name in self.THEY_RUN, name in self.WE_RUN))

    @of_each
    def test_we_say_it_in_few_lines_where_torchrun_shows_its_own_stack(self, name, theirs, ours):
        self.assertLessEqual(ours.err.count(b"\n"), 3, ours.err)
        if theirs.code == 1:
            self.assertIn(b"Traceback", theirs.err)


# --- how a run ends ----------------------------------------------------------------------------------

def script(text):
    return ["--nproc-per-node", 2, "--no-python", "/bin/sh", "-c", text]


class ExitCodes(Differential):
    """With --exit-code torchrun."""

    JOBS = {
        "success": (Job(script("exit 0")), 0),
        "a code": (Job(script("exit 3")), 1),
        "the code of a bad start": (Job(script("exit 2")), 1),
        "a large code": (Job(script("exit 255")), 1),
        "one of two": (Job(script("test $RANK = 0")), 1),
        "one is done early": (Job(script("test $RANK = 0 || sleep 1")), 0),
        "killed": (Job(script("kill -KILL $$$$")), 1),
        "terminated": (Job(script("kill -TERM $$$$")), 1),
        "restarts that help": (Job(["--max-restarts", 2, *script("test $TORCHELASTIC_RESTART_COUNT = 2")]), 0),
        "restarts that do not": (Job(["--max-restarts", 2, *script("exit 4")]), 1),
        "nobody else comes": (Job([*f"--nnodes 2 {C10D}".split(), "--rdzv-conf", "join_timeout=1",
                                   *script("true")]), 1),
        "static, nobody else comes": (Job(["--nnodes", 2, "--master-port", "PORT", "--rdzv-conf", "timeout=1",
                                           *script("true")]), 1),
        "help": (Job(["--help"]), 0),
    }
    CODES = {name: code for name, (_, code) in JOBS.items()}
    JOBS = {name: job for name, (job, _) in JOBS.items()}

    @of_each
    def test_are_torchruns(self, name, theirs, ours):
        self.assert_codes(theirs, ours, self.CODES[name])


class Interrupted(unittest.TestCase):
    """A signal to the launcher: the workers get the same one, and both end with 1."""

    def interrupt(self, side, number, *flags):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        with side(folder, "--nproc-per-node", 2, "--log-dir", "/dev/null", *flags, WORKERS / "fail.py", "TELL",
                  "wait") as running:
            self.assertTrue(until(lambda: len(list(running.told.glob("ready*"))) == 2, LIMIT_S), running.said())
            running.signal(number)
            outcome = running.finish()
            self.assertTrue(until(lambda: not running.workers(), LIMIT_S))
        self.assertEqual(outcome.code, 1, outcome.err)
        return sorted(outcome.out.decode().split("\n"))

    def test_by_what_both_handle(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            told = [self.interrupt(side, number) for side in SIDES]
            self.assertEqual(told, [["", *(f"rank {rank} got signal {number}" for rank in (0, 1))]] * 2)

    def test_by_one_that_is_asked_for(self):
        # A worker that knows nothing of it dies of it.
        for side in SIDES:
            self.assertEqual(self.interrupt(side, signal.SIGUSR1, "--signals-to-handle", "SIGUSR1"), [""])


class ErrorFiles(Differential):
    """What workers leave, and what the launcher itself leaves for whoever has launched it."""

    RAISE = "raise ValueError('the learning rate is ä')\n"
    RECORDED = f"from regroup import record\n\n\n@record\ndef main():\n    {RAISE}\n\nmain()\n"
    BY_HAND = "import json, os\nopen(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write({!r})\nos._exit(7)\n"
    SCRIPTS = {
        "recorded": RECORDED,
        "a text": BY_HAND.format('{"message": "gone", "timestamp": 1700000000}'),
        "more of it": BY_HAND.format('{"message": {"message": "gone", "errorCode": 3, "extraInfo": {"timestamp": '
                                     '"1700000000", "py_callstack": "stack\\\\nof calls", "more": [1]}, "x": 2}}'),
        "none": "import os\nos._exit(3)\n",
        "exit": "from regroup import record\nimport sys\nrecord(sys.exit)(4)\n",
    }

    @classmethod
    def setUpClass(cls):
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        jobs = {}
        env = {"PYTHONPATH": str(ROOT / "python"), "TORCHELASTIC_ERROR_FILE": "error.json"}
        for name, text in cls.SCRIPTS.items():
            script = folder / f"{name.replace(' ', '_')}.py"
            script.write_text(text)
            jobs[name] = Job(["--log-dir", "LOGS", script], env=env)
        for name, text in (("raises", cls.RAISE), ("exits", "import sys\nsys.exit(5)\n"),
                           ("exits well", "import sys\nsys.exit(0)\n"), ("says why", "import sys\nsys.exit('why')\n")):
            script = folder / f"path_{name.replace(' ', '_')}.py"
            script.write_text(text)
            jobs[f"run-path {name}"] = Job(["--log-dir", "LOGS", "--run-path", script], env=env)
        cls.outcomes = run_all(jobs)

    @of_each
    def test_codes(self, name, theirs, ours):
        self.assert_codes(theirs, ours, 0 if name == "run-path exits well" else 1)

    def content(self, text, of_run_path):
        if text is None:
            return None
        content = json.loads(text)
        extra = content["message"]["extraInfo"] if isinstance(content["message"], dict) else {}
        if "timestamp" in extra:
            self.assertTrue(extra.pop("timestamp").isdigit())
        if of_run_path:  # What is above the script in the stack is each one's own.
            extra["py_callstack"] = extra["py_callstack"].partition('path_raises.py"')[2]
        return content

    def of_worker(self, outcome, of_run_path):
        return self.content(outcome.tree.get("UUID_*/attempt_0/0/error.json", (None, None))[1], of_run_path)

    @of_each
    def test_of_workers(self, name, theirs, ours):
        contents = [self.of_worker(one, name.startswith("run-path")) for one in (theirs, ours)]
        self.assertEqual(*contents)
        if name in ("recorded", "run-path raises"):
            self.assertEqual(contents[1]["message"]["message"], "ValueError: the learning rate is ä")
            self.assertIn("the learning rate", contents[1]["message"]["extraInfo"]["py_callstack"])

    @of_each
    def test_of_the_launcher(self, name, theirs, ours):
        files = [one.file for one in (theirs, ours)]
        self.assertEqual(*(self.content(file, name.startswith("run-path")) for file in files))


if __name__ == "__main__":
    unittest.main()
