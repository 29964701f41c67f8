"""torchrun and `regroup spawn` side by side: the same flags and the same workers, and what becomes of them.

Where the two differ on purpose there is a row with its reason in one of the tables NOT_SET,
SHOWN_OTHERWISE, TAKEN_OTHERWISE and HOW_IT_ENDS."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import io
import json
import re
import select
import signal
import stat
import sys
import tempfile
import unittest
from pathlib import Path

import torch_support  # noqa: F401  Sets PyTorch's environment before it is imported.
from spawn_support import LIMIT_S, Spawn, until, worker
from store_support import ROOT
from torch.distributed import run as torch_run

# With an endpoint of its own torchrun keeps the run id it is given; alone on a machine it makes one up.
ONE_NODE = ("--nnodes", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")

# With it torchrun does not warn that it sets it, and its output is text in the same encoding everywhere.
QUIET = {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}

RUN_ID = "my.run_7"


class Torchrun(Spawn):
    """A running torchrun; as with Spawn, nothing of it outlives the block."""

    def __init__(self, *arguments, prefix=(), **more):
        super().__init__(**more)
        self.command = [*prefix, sys.executable, "-m", "torch.distributed.run", *map(str, arguments)]


@dataclasses.dataclass
class Outcome:
    code: int
    out: bytes
    err: bytes
    tree: dict  # Path below the log directory -> (mode, content; None for a folder). Random parts are stars.


def starred(path):
    """A path without what is random in it: the ends of torchelastic_XXX and of <run id>_XXX."""
    return re.sub(rf"(?<![^/])(torchelastic|none|{re.escape(RUN_ID)})_[^/]+", r"\1_*", str(path))


def tree_of(root):
    return {starred(path.relative_to(root)): (oct(stat.S_IMODE(path.stat().st_mode)),
                                              path.read_bytes() if path.is_file() else None)
            for path in sorted(root.rglob("*"))}


def run(side, command, flags=(), count=2, env=None, own_log_dir=True, **more):
    """Runs `command` to its end: `side` is Spawn or Torchrun. Its temporary directory is its own."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        arguments = [*(ONE_NODE if side is Torchrun else ()), "--nproc-per-node", count,
                     *(("--log-dir", root) if own_log_dir else ()), *flags,
                     "--no-python" if side is Torchrun else "--", *command]
        env = {**QUIET, "TMPDIR": folder, **(env or {})}
        with side(*arguments, env=env, text=False, umask=0o027, **more) as running:
            code, out, err = running.finish()
        return Outcome(code, out, err, tree_of(root))


def both(*arguments, **more):
    """What torchrun made of it, and what we did."""
    return run(Torchrun, *arguments, **more), run(Spawn, *arguments, **more)


def all_both(jobs):
    """The same of many, two at a time: name -> both. A job is the (arguments, keywords) of both()."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = {name: pool.submit(both, *arguments, **more) for name, (arguments, more) in jobs.items()}
    return {name: future.result() for name, future in futures.items()}


class SpawnTestCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


# --- output ------------------------------------------------------------------------------------------

def by_rank(output):
    """The lines that tell their rank, in order, by rank."""
    ranks = collections.defaultdict(list)
    for line in output.split(b"\n"):
        if found := re.search(rb"rank (\d+) std", line):
            ranks[found[1]].append(line)
    return ranks


class Output(SpawnTestCase):
    FLAGS = {
        "none": "",
        "out": "-r 1",
        "err": "-r 2",
        "all": "-r 3",
        "tee out": "-t 1",
        "tee err": "-t 2",
        "tee all": "-t 3",
        "by rank": "-r 0:1,1:3",
        "tee of rank 0": "-t 0:2 -r 1",
        "tee of rank 1": "-t 1:3 -r 0:1,1:1",
        "tee, filter": "-t 3 --local-ranks-filter 1",
        "by rank, filter": "-r 0:3 --local-ranks-filter 0",
        "err, filter": "-r 2 --local-ranks-filter 0",
        "id": f"--rdzv-id {RUN_ID} -r 1 -t 2 --role trainer",
        "duplicates": ["-t", "3", "--duplicate-stdout-filters", "one,two,, three",
                       "--duplicate-stderr-filters", "1: ,nothing,last"],
        "duplicates, filter": "-t 1 -r 3 --local_ranks_filter 0 --duplicate_stdout_filters one "
                              "--duplicate_stderr_filters one",
    }
    WITHOUT_LOG_DIR = {"discard": "-t 3 --log-dir /dev/null", "discard, filter": "-r 3 --local-ranks-filter 0 "
                       "--log-dir /dev/null", "temporary": "-t 3"}
    TEMPLATE = "<$$ ${role_name} $rank/${local_rank} ${unknown} $ {>"

    @classmethod
    def setUpClass(cls):
        jobs = {}
        for name, flags in {**cls.FLAGS, **cls.WITHOUT_LOG_DIR}.items():
            flags = flags.split() if isinstance(flags, str) else flags
            jobs[name] = ((worker("talk"), flags), {"own_log_dir": name in cls.FLAGS})
        template = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": cls.TEMPLATE}
        jobs["template"] = ((worker("talk"), ["-t", "3"]), {"env": template})
        cls.outcomes = all_both(jobs)

    def assert_same_lines(self, theirs, ours):
        """The same lines, and those of a rank in the same order. Between ranks there is no order."""
        self.assertEqual(sorted(theirs.split(b"\n")), sorted(ours.split(b"\n")))
        self.assertEqual(by_rank(theirs), by_rank(ours))

    def test_all_end_well(self):
        for name, (theirs, ours) in self.outcomes.items():
            with self.subTest(name):
                self.assertEqual((theirs.code, ours.code), (0, 0), ours.err)

    def test_the_log_directories_are_the_same(self):
        for name, (theirs, ours) in self.outcomes.items():
            if name == "temporary":
                continue
            with self.subTest(name):
                self.assertEqual({path: mode for path, (mode, _) in theirs.tree.items()},
                                 {path: mode for path, (mode, _) in ours.tree.items()})
                for path, (_, content) in theirs.tree.items():
                    if "filtered" in path:  # One file of all ranks.
                        self.assert_same_lines(content, ours.tree[path][1])
                    else:
                        self.assertEqual(content, ours.tree[path][1], path)

    def test_a_temporary_directory_is_gone_after_a_success(self):
        # Nobody asked for it; torchrun's are never removed. After a failure it is kept: see Failures.
        theirs, ours = self.outcomes["temporary"]
        self.assertIn("torchelastic_*/none_*/attempt_0/1/stdout.log", theirs.tree)
        self.assertEqual(ours.tree, {})

    def test_the_consoles_are_the_same(self):
        for name, (theirs, ours) in self.outcomes.items():
            with self.subTest(name):
                self.assert_same_lines(theirs.out, ours.out)
                self.assert_same_lines(theirs.err, ours.err)

    def test_the_comparisons_had_something_to_compare(self):
        tree = self.outcomes["by rank"][0].tree
        self.assertEqual({path: mode for path, (mode, _) in tree.items()}, {
            "none_*": "0o700", "none_*/attempt_0": "0o750", "none_*/attempt_0/0": "0o750",
            "none_*/attempt_0/0/stdout.log": "0o640", "none_*/attempt_0/1": "0o750",
            "none_*/attempt_0/1/stderr.log": "0o640", "none_*/attempt_0/1/stdout.log": "0o640"})
        self.assertIn(b"rank 1 stdout 0: one\n", tree["none_*/attempt_0/1/stdout.log"][1])
        self.assertIn(f"{RUN_ID}_*", self.outcomes["id"][0].tree)
        self.assertEqual(self.outcomes["discard"][0].tree, {})
        filtered = self.outcomes["duplicates"][0].tree["none_*/attempt_0/filtered_stdout.log"][1]
        self.assertEqual(filtered.count(b"\n"), 4)
        for name, prefix in (("tee all", b"[default1]:"), ("id", b"[trainer1]:"),
                             ("template", b"<$ default 1/1 ${unknown} $ {>")):
            self.assertIn(b"\n" + prefix + b"rank 1 stderr 0: one\n", b"\n" + self.outcomes[name][0].err)

    def test_the_flag_for_the_prefix_does_what_the_variable_does(self):
        # PyTorch 2.13 has only the variable.
        ours = run(Spawn, worker("talk"), ["-t", "3", "--log-line-prefix-template", self.TEMPLATE])
        self.assert_same_lines(self.outcomes["template"][0].out, ours.out)


class Lines(SpawnTestCase):
    """Teed output that is no plain line."""

    SHOWN_OTHERWISE = [  # What is written, torchrun's console, ours, and why.
        (b"bar 1\rbar 2\r\n", b"[default0]:bar 1\n[default0]:bar 2\n", b"[default0]:bar 2\r\n",
         "torchrun makes a line of every state of a progress bar; only the last one is worth a line"),
        (b"dos\r\n", b"[default0]:dos\n", b"[default0]:dos\r\n", "bytes are not ours to change"),
        (b"bad \xff\xc3( \xe2\x82.\n", "[default0]:bad \ufffd\ufffd( \ufffd.\n".encode(),
         b"[default0]:bad \xff\xc3( \xe2\x82.\n", "likewise: the console may know what they mean"),
        (b"end", b"[default0]:end", b"[default0]:end\n", "the next line would go on behind it"),
    ]

    def test_what_is_shown_otherwise(self):
        written, theirs, ours = (b"".join(row[column] for row in self.SHOWN_OTHERWISE) for column in range(3))
        flags = ["-t", "3", "--duplicate-stdout-filters", ""]
        for outcome, expected in zip(both([*worker("talk"), written.hex()], flags, count=1), (theirs, ours)):
            self.assertEqual(outcome.code, 0, outcome.err)
            self.assertEqual(outcome.out, expected)
            self.assertEqual(outcome.err, expected)
            logs = "none_*/attempt_0"
            self.assertEqual(outcome.tree[f"{logs}/filtered_stdout.log"][1], expected)
            self.assertEqual(outcome.tree[f"{logs}/0/stdout.log"][1], written)
            self.assertEqual(outcome.tree[f"{logs}/0/stderr.log"][1], written)

    def test_half_a_line_waits_for_the_rest(self):
        # torchrun shows what is there; the rest then gets a prefix in the middle of the line.
        shown = []
        for side, first in ((Torchrun, b"[default0]:half "), (Spawn, b"")):
            go = self.folder / side.__name__
            arguments = [*(ONE_NODE if side is Torchrun else ()), "-t", "1", "--log-dir", self.folder,
                         "--no-python" if side is Torchrun else "--", *worker("halves"), go]
            with side(*arguments, env={**QUIET, "PYTHONUNBUFFERED": "1"}, text=False, bufsize=0) as running:
                before = b""
                while len(before) < len(first) and select.select([running.process.stdout], [], [], LIMIT_S)[0]:
                    before += running.process.stdout.read(1) or b"(it ended)"
                go.touch()
                code, out, err = running.finish()
            self.assertEqual(code, 0, err)
            shown.append(before + out)
        self.assertEqual(shown, [b"[default0]:half [default0]:line\n", b"[default0]:half line\n"])


# --- how workers are started -------------------------------------------------------------------------

class Start(SpawnTestCase):
    NOT_SET = {  # By us, but by torchrun: where there is no rendezvous there is no store to be found.
        "MASTER_ADDR": "no rendezvous",
        "MASTER_PORT": "no rendezvous",
        "TORCHELASTIC_USE_AGENT_STORE": "no store",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "PyTorch has a default, and a newer one",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "torchrun's note to itself, which leaks",
        "OMP_NUM_THREADS": "torchrun sets 1 when there are two workers and it is not set, whatever they are",
    }
    MACROS = ["${local_rank}", "$local_rank", "x${local_rank}y", "$local_rank.x", "$local_rankx",
              "$local_rank$local_rank", "$$", "$$local_rank", "$${local_rank}", "$$$local_rank", "$$$$", "a$", "$",
              "${local_rank", "${ local_rank}", "${local_rank }", "$LOCAL_RANK", "${Local_Rank}", "${}", "$1", "${1}",
              "$_", "$ local_rank", "$unknown", "ä$local_rankä", "\udcff$local_rank", "$ſ", "${ranks}", "$role", "",
              " ", "a\nb", "--lr=${local_rank}", "-", "--", "-h", "--help", "--log-dir", "-r"]
    LEFT_ALONE = ["${rank}", "$rank", "${role_name}", "$role_name"]

    @classmethod
    def setUpClass(cls):
        cls.told = []
        odd = {"REGROUP_TEST_ODD": "a\nb=c \udcff", "REGROUP_TEST_EMPTY": ""}
        for side in (Torchrun, Spawn):
            with tempfile.TemporaryDirectory() as folder:
                command = [*worker("tell"), folder, *cls.MACROS, *cls.LEFT_ALONE]
                outcome = run(side, command, env={"TMPDIR": "/tmp", **odd}, prefix=("env", "-u", "OMP_NUM_THREADS"))
                if outcome.code != 0:
                    raise AssertionError(outcome.err)
                cls.told.append([json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in (0, 1)])

    def test_the_environment_is_torchruns(self):
        theirs, ours = ([told["environment"] for told in side] for side in self.told)
        for rank in (0, 1):
            missing = theirs[rank].keys() - ours[rank].keys()
            self.assertEqual(missing, set(self.NOT_SET))
            for side in (theirs, ours):
                # Every run has a word of its own, and a log directory; ours have what docs/workers.md names.
                of_ours = ("REGROUP_TEST_WORD", "REGROUP_DUMP_", "REGROUP_GUARD")
                side[rank] = {name: value for name, value in side[rank].items()
                              if name not in (*self.NOT_SET, "_") and not name.startswith(of_ours)}
                file = side[rank].pop("TORCHELASTIC_ERROR_FILE")
                self.assertRegex(starred(file), rf"^/.*/none_\*/attempt_0/{rank}/error\.json$")
            self.assertEqual(theirs[rank], ours[rank])
        self.assertEqual(ours[1]["ROLE_WORLD_SIZE"], "2")

    def test_arguments_are_torchruns(self):
        theirs, ours = ([told["arguments"] for told in side] for side in self.told)
        for rank in (0, 1):
            for at, written in enumerate(self.MACROS):
                self.assertEqual(theirs[rank][at], ours[rank][at], written)
            self.assertEqual(len(theirs[rank]), len(ours[rank]))
        count = len(self.MACROS)
        self.assertEqual(theirs[1][count:], self.LEFT_ALONE)
        self.assertEqual(ours[1][count:], self.LEFT_ALONE)
        self.assertEqual(ours[1][:3], ["1", "1", "x1y"])

    def test_all_else_is_torchruns(self):
        for theirs, ours in zip(*self.told):
            # torchrun's workers outlive it when it is killed.
            self.assertEqual((theirs.pop("parent-death signal"), ours.pop("parent-death signal")),
                             (0, signal.SIGKILL))
            for what in theirs.keys() - {"environment", "arguments"}:
                self.assertEqual(theirs[what], ours[what], what)

    def test_without_files_there_is_no_error_file(self):
        files = []
        script = ["/bin/sh", "-c", "echo ${TORCHELASTIC_ERROR_FILE-unset}"]
        for outcome in both(script, ["--log-dir", "/dev/null"], own_log_dir=False,
                            env={"TORCHELASTIC_ERROR_FILE": "/nowhere/of/the/parent.json"}):
            files.append(outcome.out)
        self.assertEqual(files, [b"\n\n", b"\n\n"])


class Flags(SpawnTestCase):
    """What is accepted and what is refused. torchrun's own parser is asked here, without a run."""

    ALIKE = [
        ("--redirect=3",), ("--local-ranks-filter=",), ("-r=3",),("-r", "3"), ("-r3",), ("--redirects=3",), ("-t", "0:1,1:2"), ("-r", "4"), ("-r", "-1"), ("-r", "0:4"),
             ("-r", "0:1,"), ("-r", ",0:1"), ("-r", "0:1 ,1:1"), ("-r", "0:1,0:2"), ("-r", "x"), ("-r", "0:1:1"),
             ("-r", ""), ("-t", "7:3"), ("--local-ranks-filter", ""), ("--local-ranks-filter", "0, 1"),
             ("--local-ranks-filter", "7"), ("--local-ranks-filter", "x"), ("--local-ranks-filter", "0,"),
             ("--local_ranks_filter=0",), ("--duplicate-stdout-filters", ""), ("--rdzv_id", "a"), ("--role", "a b")]
    TAKEN_OTHERWISE = [  # Flags, whether torchrun takes them, whether we do, and why.
        (("-r", "10:3"), False, True, "there are machines with more than ten GPUs"),
        (("--local-ranks-filter", "0-1"), False, True, "ranges are new"),
        (("--local-ranks-filter=-1",), True, False, "no worker has that rank, so nobody would be heard"),
    ]

    def theirs(self, flags):
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                torch_run.config_from_args(torch_run.parse_args(["--log-dir", "/dev/null", *flags, "train.py"]))
            except (Exception, SystemExit):
                return False
        return True

    def ours(self, flags):
        with Spawn("--log-dir", "/dev/null", *flags, "--", "true") as running:
            code, _, err = running.finish()
        self.assertIn(code, (0, 2), err)
        return code == 0

    def test_what_torchrun_takes_we_take(self):
        for flags in self.ALIKE:
            self.assertEqual(self.theirs(flags), self.ours(flags), flags)

    def test_what_we_take_otherwise(self):
        for flags, theirs, ours, _ in self.TAKEN_OTHERWISE:
            self.assertEqual((self.theirs(flags), self.ours(flags)), (theirs, ours), flags)


# --- failures ----------------------------------------------------------------------------------------

@dataclasses.dataclass
class Cause:
    rank: int
    exit_code: int  # Python's: -n for signal n.
    signal_name: str
    message: str
    error_file: str
    traceback: list  # Its lines.


def kept(path):
    """A path below the temporary directory, which every run has for itself."""
    return re.sub(r"^.*/(?=torchelastic_)", "", starred(path))


def torchruns_report(err):
    report = err.decode().rpartition("Root Cause (first observed failure):\n")[2]
    found = re.search(r"  rank +: (?P<rank>\d+) \(local_rank: \d+\)\n"
                      r"  exitcode +: (?P<code>-?\d+) \(pid: \d+\) *(\((?P<signal>\w+)\))?\n"
                      r"  error_file: (?P<file>.*)\n"
                      r"  traceback +: (?P<text>.*?)\n *\n?=====", report, re.DOTALL)
    lines = found["text"].replace("\n  ", "\n").split("\n")
    return Cause(int(found["rank"]), int(found["code"]), found["signal"] or "", lines[-1],
                 kept(found["file"]), lines)


def our_report(err):
    report = err.decode()
    found = re.search(r"^regroup: rank (?P<rank>\d+) on \S+ failed: (?P<message>.*)\n"
                      r"  local rank \d+, pid \d+, at [0-9:]+, (exit code (?P<code>\d+)|killed by (?P<signal>\w+))$",
                      report, re.MULTILINE)
    file = re.search(r"^  error file: (.*)$", report, re.MULTILINE)
    code = int(found["code"]) if found["code"] else -signal.Signals[found["signal"]]
    lines = re.findall(r"^    (.*)$", report[found.end():], re.MULTILINE)
    return Cause(int(found["rank"]), code, found["signal"] or "", found["message"],
                 kept(file[1]) if file else "<N/A>", lines)


class Failures(SpawnTestCase):
    HOW_IT_ENDS = {  # How a worker fails -> our exit code, which is its own. torchrun's is always 1.
        "torch": 1,
        "regroup": 1,
        "plain": 1,
        "exit": 7,
        "kill": 128 + signal.SIGKILL,
    }

    @classmethod
    def setUpClass(cls):
        cls.outcomes = {}
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
            jobs = {}
            for how in cls.HOW_IT_ENDS:
                for side in (Torchrun, Spawn):
                    place = Path(folder) / f"{how}_{side.__name__}"
                    place.mkdir()
                    jobs[how, side] = pool.submit(run, side, [*worker("fail"), place, how], own_log_dir=False,
                                                  env={"PYTHONPATH": str(ROOT / "python")})
        for how in cls.HOW_IT_ENDS:
            cls.outcomes[how] = [jobs[how, side].result() for side in (Torchrun, Spawn)]
        cls.causes = {how: (torchruns_report(theirs.err), our_report(ours.err))
                      for how, (theirs, ours) in cls.outcomes.items()}

    def test_exit_codes(self):
        for how, code in self.HOW_IT_ENDS.items():
            self.assertEqual([outcome.code for outcome in self.outcomes[how]], [1, code], how)

    def test_the_cause_is_torchruns(self):
        for how, (theirs, ours) in self.causes.items():
            self.assertEqual((theirs.rank, theirs.exit_code, theirs.signal_name, theirs.error_file),
                             (ours.rank, ours.exit_code, ours.signal_name, ours.error_file), how)
            self.assertEqual(ours.rank, 1)

    def test_a_recorded_exception_is_shown_as_torchrun_shows_it(self):
        message = "ValueError: the learning rate is ä"
        for how in ("torch", "regroup"):
            theirs, ours = self.causes[how]
            self.assertEqual(theirs.traceback, ours.traceback)
            self.assertEqual((theirs.message, ours.message), (message, message))
            self.assertEqual(ours.error_file, "torchelastic_*/none_*/attempt_0/1/error.json")

    def test_an_exception_that_nobody_recorded_is_shown_all_the_same(self):
        # torchrun only tells how to enable tracebacks.
        theirs, ours = self.causes["plain"]
        self.assertIn("To enable traceback", theirs.message)
        self.assertEqual(ours.message, "ValueError: the learning rate is ä")
        self.assertEqual(ours.traceback[0], "Traceback (most recent call last):")
        self.assertEqual(ours.traceback[-1], ours.message)

    def test_how_it_ended_is_told_where_there_is_no_exception(self):
        theirs, ours = self.causes["kill"]
        self.assertRegex(theirs.message, r"^Signal 9 \(SIGKILL\) received by PID \d+$")
        self.assertEqual((ours.signal_name, ours.message.partition(" (")[0]), ("SIGKILL", "killed by SIGKILL"))
        theirs, ours = self.causes["exit"]
        self.assertIn("To enable traceback", theirs.message)
        self.assertEqual(ours.message, "ended with exit code 7")
        # torchrun does not show what came last.
        for how in ("kill", "exit"):
            self.assertEqual(self.causes[how][1].traceback, ["last words"])

    def test_the_others_get_sigterm(self):
        for how, (theirs, ours) in self.outcomes.items():
            self.assertEqual((theirs.out, ours.out), 2 * (b"rank 0 got signal 15\n",), how)
            # torchrun counts its own victim as one more failure.
            self.assertIn(b"exitcode  : 5 ", theirs.err)
            self.assertIn(b"\n  rank 0: stopped because of it\n", ours.err)
            self.assertNotIn(b"exit code 5", ours.err)

    def test_the_temporary_directory_is_kept(self):
        """Unless nothing was written there."""
        for how, (theirs, ours) in self.outcomes.items():
            if how not in ("torch", "regroup"):
                self.assertEqual(ours.tree, {}, how)
                continue
            self.assertEqual({path: mode for path, (mode, _) in theirs.tree.items()},
                             {path: mode for path, (mode, _) in ours.tree.items()}, how)
            self.assertIn("torchelastic_*/none_*/attempt_0/1", ours.tree)

    def test_the_error_files_are_the_same(self):
        for how in ("torch", "regroup"):
            contents = []
            for outcome in self.outcomes[how]:
                mode, text = outcome.tree["torchelastic_*/none_*/attempt_0/1/error.json"]
                content = json.loads(text)
                self.assertTrue(content["message"]["extraInfo"].pop("timestamp").isdigit())
                contents.append((mode, content))
            self.assertEqual(*contents)


class Interrupted(SpawnTestCase):
    def test_workers_get_the_signal_that_the_launcher_got(self):
        for side, expected in ((Torchrun, 1), (Spawn, 128 + signal.SIGINT)):
            place = self.folder / side.__name__
            place.mkdir()
            arguments = [*(ONE_NODE if side is Torchrun else ()), "--nproc-per-node", "2", "--log-dir", "/dev/null",
                         "--no-python" if side is Torchrun else "--", *worker("fail"), place, "wait"]
            with side(*arguments, env=QUIET) as running:
                self.assertTrue(until(lambda: len(list(place.glob("ready*"))) == 2 or running.process.poll()))
                running.process.send_signal(signal.SIGINT)
                code, out, err = running.finish()
            self.assertEqual(sorted(out.split("\n")), ["", "rank 0 got signal 2", "rank 1 got signal 2"], err)
            self.assertEqual(code, expected, err)


if __name__ == "__main__":
    unittest.main()
