#!/usr/bin/env python3
"""Runs that have a bad day, one after the other, and each of them must end as it should.

    tests/chaos.py --minutes 10 --seed 7      # until the time is over; failures are told, with their folders
    tests/chaos.py --replay 7:31              # run 31 of seed 7 once more
    tests/chaos.py --plan 7:31                # what that run does, without doing it

A seed decides everything that is done: how many nodes there are and how they meet, what the workers
do, which of them, of the launchers and of the coordinator is killed, stopped and continued, and when,
which limits and which consoles they have, and whether strangers talk rubbish to every port meanwhile.
What comes of it depends on the machine's mood as well; a failure mostly comes again, not always.

After every run: the exit codes are among those that the plan allows (`Verdict`), everything ended in
time, and no process, no socket of the coordinator and no file in TMPDIR is left.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pty
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import chaos_world as world
from rendezvous_cli_support import reserved_port
from store_support import BINARY

HERE = Path(__file__).resolve().parent
LIMIT_S = 90.0  # For whatever has to come: only a run that is stuck gets there.
GONE_S = 15.0  # For what a killed launcher leaves to its guard.
SHORT_STOP_S = 0.8  # Nobody is lost for being stopped so long: far below --heartbeat-limit.
STRANGER_UIDS = 61000  # And above: one for each program, since processes are counted for each user.


# --- the plan -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Node:
    start_s: float
    flags: list
    console: str
    limits: dict


@dataclasses.dataclass
class Fault:
    at_s: float
    target: str  # node, worker, coordinator
    act: str  # KILL, TERM, INT, HUP, STOP (continued after `lasts_s`)
    which: int
    lasts_s: float = 0.0
    again_s: float = -1.0  # A killed coordinator is started again after this, a killed node replaced. Negative: never.


@dataclasses.dataclass
class Plan:
    seed: str
    apart: bool
    secret: bool
    endpoint: bool
    lowest: int
    highest: int
    per_node: int
    max_restarts: int
    pinned: bool
    as_stranger: bool
    rubbish: bool
    coordinator_limits: dict
    worker: dict
    nodes: list
    faults: list

    @property
    def endless(self):
        """Somebody hangs on purpose: we end the run by SIGTERM to all launchers."""
        return (
            bool(self.worker["hangs"])
            or any(node.console == "unread" for node in self.nodes)
            and self.worker["lines"] > 100
        )


def some(rng, probability):
    return rng.random() < probability


def make_worker(rng, ranks, max_restarts):
    fails, hangs = {}, {}
    for restart in range(rng.choice([0, 0, 0, 1, 1, 2, max_restarts + 1])):
        fails[str(restart)] = {str(rng.randrange(ranks)): rng.choice([1, 3, 7]) for _ in range(rng.choice([1, 1, 2]))}
    if some(rng, 0.12):
        hangs[str(rng.randrange(len(fails) + 1))] = [str(rng.randrange(ranks))]
    return {
        "kind": rng.choice(["python", "python", "sh"]),
        "lines": rng.choice([0, 3, 3, 40, 3000]),
        "bytes": rng.choice([0, 60, 3000]),
        "seconds": rng.choice([0, 0.05, 0.3, 1.0, 2.0]),
        "fails": fails,
        "hangs": hangs,
        "deaf": some(rng, 0.15),
        "children": rng.choice([[], [], [], ["plain"], ["session"], ["daemon"], ["plain", "session", "daemon"]]),
    }


def make_limits(rng):
    if some(rng, 0.6):
        return {}
    return rng.choice(
        [
            {"NOFILE": 16},
            {"NOFILE": 24},
            {"NOFILE": 40},
            {"NOFILE": 64},
            {"NOFILE": 256},
            {"FSIZE": 0},
            {"FSIZE": 4096},
            {"NPROC": 3},
            {"NPROC": 6},
            {"NPROC": 12},
            {"AS": 1 << 29},
            {"AS": 1 << 30},
        ]
    )


def make_faults(rng, nodes, apart):
    faults = []
    for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 8])):
        target = rng.choice(["node", "worker", "worker"] + ["coordinator"] * apart)
        act = rng.choice(["KILL", "KILL", "TERM", "INT", "STOP", "STOP"] + ["HUP"] * (target == "node"))
        faults.append(
            Fault(round(rng.uniform(0, 3), 3), target, act, rng.randrange(nodes if target == "node" else 100))
        )
        if act == "STOP":
            faults[-1].lasts_s = rng.choice([0.05, 0.3, SHORT_STOP_S, 3.0])
        if act == "KILL" and target != "worker" and some(rng, 0.6):
            faults[-1].again_s = rng.choice([0.0, 0.2, 1.5])
    return sorted(faults, key=lambda fault: fault.at_s)


def make_plan(seed):
    rng = random.Random(f"chaos {seed}")
    highest = rng.choice([1, 1, 2, 2, 3, 4])
    lowest = rng.choice([highest, highest, rng.randint(1, highest)])
    apart = some(rng, 0.4)
    spares = rng.choice([0, 0, 0, 1]) if highest > 1 or apart else 0
    count = highest + spares
    endpoint = apart or count > 1
    per_node, max_restarts = rng.choice([1, 1, 2, 3]), rng.choice([0, 1, 1, 3])
    secret = some(rng, 0.4)
    as_stranger = os.getuid() == 0 and some(rng, 0.3)
    nodes = []
    for _ in range(count):
        flags = rng.choice(
            [[], [], ["--tee", "3"], ["--redirects", "3"], ["--tee", "3", "--log-dir", "LOGS"], ["-t", "1", "-r", "2"]]
        )
        for more in (
            ["-v"],
            ["-q"],
            ["--log-format", "json"],
            ["--health-port", "127.0.0.1:0"],
            ["--watchdog"],
            ["--event-log", "EVENTS"],
            ["--metrics-log", "METRICS"],
            ["--evidence", "always"],
            ["--cgroup", "off"],
            ["--hang-timeout", "60"],
        ):
            if some(rng, 0.12):
                flags = flags + more
        if "-v" in flags and "-q" in flags:
            flags.remove("-q")
        nodes.append(
            Node(
                round(rng.choice([0, 0, rng.uniform(0, 1)]), 3),
                flags,
                rng.choice(["file"] * 6 + ["null", "unread", "unread", "closed", "terminal", "slow"]),
                make_limits(rng),
            )
        )
    worker = make_worker(rng, lowest * per_node, max_restarts)
    if worker["kind"] == "sh" and any(node.console == "closed" for node in nodes):
        worker["kind"] = "python"  # Without a reader, echo ends sh: a failure of the worker, and rightly so.
    return Plan(
        str(seed),
        apart,
        secret,
        endpoint,
        lowest,
        highest,
        per_node,
        max_restarts,
        endpoint and not apart and some(rng, 0.7),
        as_stranger,
        some(rng, 0.5),
        rng.choice([{}, {}, {}, {"NOFILE": 64}, {"FSIZE": 4096}]) if apart else {},
        worker,
        nodes,
        make_faults(rng, count, apart),
    )


# --- the run ------------------------------------------------------------------------------------


class Launcher:
    """One process of ours, its console, and what was done to it."""

    def __init__(self, name, command, folder, env, console="file", limits=None, uid=None):
        self.name, self.console, self.limits = name, console, dict(limits or {})
        self.signals = []  # What it got from us, by name.
        self.folder = folder
        self.files = []
        out = self._open(folder / f"{name}.out", console)
        err = (
            self._open(folder / f"{name}.err", "file" if console in ("closed", "slow") else console)
            if console != "terminal"
            else out
        )

        # A terminal belongs to a session, so that its launcher has one; the others have one to be away from ours.
        def begin():
            return subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=env,
                cwd=folder,
                start_new_session=True,
                preexec_fn=lambda: self._prepare(uid),
            )

        try:
            self.process = begin()
        except BlockingIOError:  # The other nodes of this user left no room for even one process more.
            del self.limits["NPROC"]
            self.process = begin()
        self.started = time.monotonic()
        self.ended = None
        for fd in {out, err}:
            os.close(fd)

    def _prepare(self, uid):
        for name, value in self.limits.items():
            hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
            resource.setrlimit(
                getattr(resource, f"RLIMIT_{name}"),
                (value if hard == resource.RLIM_INFINITY else min(value, hard),) * 2,
            )
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)

    def _open(self, path, console):
        if console == "null":
            return os.open("/dev/null", os.O_WRONLY)
        if console in ("unread", "closed", "slow"):
            reader, writer = os.pipe()
            if console == "closed":
                os.close(reader)
            elif console == "slow":
                threading.Thread(target=self._read, args=(reader, path, 0.05), daemon=True).start()
            else:
                self.files.append((reader, path))
            return writer
        if console == "terminal":
            master, slave = pty.openpty()
            threading.Thread(target=self._read, args=(master, path, 0), daemon=True).start()
            return slave
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    @staticmethod
    def _read(fd, path, pause_s):
        with open(path, "wb") as file, contextlib.suppress(OSError):
            while data := os.read(fd, 1 << 16):
                file.write(data)
                time.sleep(pause_s)
        os.close(fd)

    def poll(self):
        if self.ended is None and self.process.poll() is not None:
            self.ended = time.monotonic()
        return self.process.returncode

    def signal(self, name):
        if self.poll() is None:
            self.signals.append(name)
            self.process.send_signal(getattr(signal, f"SIG{name}"))

    def close(self):
        for reader, path in self.files:
            os.set_blocking(reader, False)
            with contextlib.suppress(OSError):
                path.write_bytes(os.read(reader, 1 << 20))
            os.close(reader)
        self.files = []

    def tail(self):
        text = ""
        for file in (self.folder / f"{self.name}.out", self.folder / f"{self.name}.err"):
            with contextlib.suppress(OSError):
                lines = [line for line in file.read_text(errors="replace").splitlines() if "xxxx" not in line]
                text += "".join(f"      {line[:300]}\n" for line in lines[-12:])
        return text


def python_for(uid):
    """A Python that this user may execute, or None. Ours may lie in root's home."""
    for candidate in ([] if uid else [Path(sys.executable)]) + [
        Path("/usr/bin/python3"),
        Path("/usr/local/bin/python3"),
    ]:
        with contextlib.suppress(OSError):
            where = candidate.resolve(strict=True)
            if not uid or all(folder.stat().st_mode & 1 for folder in [where, *where.parents]):
                return candidate
    return None


class World:
    """One run: carries the plan out, and says what was wrong."""

    def __init__(self, plan, folder, binary):
        self.plan, self.folder, self.binary = plan, folder, binary
        self.log, self.wrong = [], []
        self.begin = time.monotonic()
        self.nodes, self.coordinator, self.coordinators = [], None, []
        self.worker_signals = set()
        self.worker_failures = 0
        self.due = []  # (when, what): continuing, starting again.
        self.marker = f"chaos-{os.getpid()}-{plan.seed}"
        for name in ("tmp", "work", "home"):
            (folder / name).mkdir()
            (folder / name).chmod(0o1777)
        (folder / "secret").write_text("a secret of thirty-two bytes, or more\n")
        uid = STRANGER_UIDS + os.getpid() % 2000 if plan.as_stranger else None
        if uid:
            os.chown(folder, uid, uid)
            os.chown(folder / "secret", uid, uid)
        (folder / "secret").chmod(0o600)
        self.uid = uid
        python = python_for(uid)
        if python is None:
            plan.worker["kind"] = "sh"
        self.env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder / "home"),
            "PYTHON_EXEC": str(python or sys.executable),
            "REGROUP_CHAOS": self.marker,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
        }

    def say(self, text):
        self.log.append(f"{time.monotonic() - self.begin:7.2f}  {text}")

    def start_coordinator(self, port):
        plan, flags = self.plan, []
        if plan.secret:
            flags = ["--rdzv-secret-file", self.folder / "secret"]
        name = f"coordinator{len(self.coordinators)}"
        self.coordinator = Launcher(
            name,
            [self.binary, "coordinator", "--port", port, "--port-file", self.folder / name, *flags],
            self.folder,
            self.env,
            limits=plan.coordinator_limits,
            uid=self.uid,
        )
        self.coordinators.append(self.coordinator)
        self.say(f"{name} started")
        return world.until(lambda: (self.folder / name).exists() or self.coordinator.poll() is not None, LIMIT_S)

    def start_node(self, index, replaces=None):
        plan = self.plan
        node = plan.nodes[index]
        name = f"node{len(self.nodes)}"
        count = str(plan.highest) if plan.lowest == plan.highest else f"{plan.lowest}:{plan.highest}"
        conf = "join_timeout=15,last_call_timeout=1,close_timeout=5"
        command = [
            self.binary,
            "run",
            "--nproc-per-node",
            plan.per_node,
            "--max-restarts",
            plan.max_restarts,
            "--shutdown-timeout",
            2,
        ]
        if plan.endpoint:
            if plan.pinned:
                conf += f",is_host={'true' if index == 0 else 'false'}"
            command += [
                "--nnodes",
                count,
                "--rdzv-backend",
                "c10d",
                "--rdzv-id",
                "chaos",
                "--rdzv-endpoint",
                f"127.0.0.1:{self.port}",
                "--rejoin-timeout",
                "4s",
                "--exit-barrier-timeout",
                30,
                "--local-addr",
                "127.0.0.1",
                "--rdzv-conf",
                conf,
            ]
            if plan.secret:
                command += ["--rdzv-secret-file", self.folder / "secret"]
        elif plan.secret:  # There is nobody to keep out; `--standalone` instead, for variety.
            command += ["--standalone"]
        # What workers left behind lives for minutes, and would be waited for as long.
        command += ["--children", "end" if plan.per_node == 1 else "wait:1s"]
        for flag in node.flags:
            command.append(
                {
                    "LOGS": self.folder / "work" / f"logs{name}",
                    "EVENTS": self.folder / "work" / f"events{name}",
                    "METRICS": self.folder / "work" / f"metrics{name}",
                }.get(flag, flag)
            )
        worker = plan.worker
        if worker["kind"] == "sh":
            fails = worker["fails"]
            rank, code = next(((rank, code) for ranks in fails.values() for rank, code in ranks.items()), ("-", 0))
            hang = next((ranks[0] for ranks in worker["hangs"].values()), None)
            command += [
                "--no-python",
                shutil.which("sh"),
                self.folder.parent / "chaos_worker.sh",
                self.folder / "work",
                300 if hang is not None else worker["seconds"],
                ",".join(fails),
                code,
                rank,
                "deaf" if worker["deaf"] else "",
                self.marker,
            ]
        else:
            command += [
                self.folder.parent / "chaos_worker.py",
                self.folder / "work",
                json.dumps({**worker, "marker": self.marker}),
            ]
        launcher = Launcher(name, command, self.folder, self.env, node.console, node.limits, self.uid)
        launcher.index = index
        self.nodes.append(launcher)
        self.say(f"{name} started, pid {launcher.process.pid}{f', in the place of {replaces}' if replaces else ''}")

    def workers(self):
        """Pids of workers that run now."""
        found = []
        for file in (self.folder / "work").glob("pid.*"):
            pid = int(file.name[4:])
            with contextlib.suppress(OSError):
                if self.marker.encode() in Path(f"/proc/{pid}/environ").read_bytes() and pid not in {
                    n.process.pid for n in self.nodes
                }:
                    found.append(pid)
        return sorted(found)

    def do(self, fault):
        if fault.target == "worker":
            pids = self.workers()
            if not pids:
                return
            pid = pids[fault.which % len(pids)]
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, getattr(signal, f"SIG{fault.act}"))
                self.say(f"worker {pid} got {fault.act}")
                if fault.act == "STOP":
                    self.due.append((time.monotonic() + fault.lasts_s, lambda: self.resume(pid)))
                else:
                    self.worker_signals.add(fault.act)
                    self.worker_failures += 1
            return
        living = (
            [one for one in self.nodes if one.poll() is None and one.index == fault.which]
            if fault.target == "node"
            else [self.coordinator]
        )
        for one in living:
            if one.poll() is None:
                one.signal(fault.act)
                self.say(f"{one.name} got {fault.act}{f' for {fault.lasts_s} s' if fault.act == 'STOP' else ''}")
                if fault.act == "STOP":
                    self.due.append(
                        (
                            time.monotonic() + fault.lasts_s,
                            lambda one=one: one.poll() is None and one.process.send_signal(signal.SIGCONT),
                        )
                    )
                elif fault.again_s >= 0:
                    again = (
                        (lambda: self.start_coordinator(self.port))
                        if fault.target == "coordinator"
                        else (lambda one=one: self.start_node(one.index, one.name))
                    )
                    self.due.append((time.monotonic() + fault.again_s, again))

    @staticmethod
    def resume(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def servers(self):
        return [one.process.pid for one in [*self.nodes, self.coordinator] if one and one.poll() is None]

    def carry_out(self):
        plan = self.plan
        with contextlib.ExitStack() as undo:
            self.port = undo.enter_context(reserved_port())
            idle = None
            if plan.apart:
                if not self.start_coordinator(self.port) or self.coordinator.poll() is not None:
                    self.wrong.append(f"the coordinator did not start: {self.coordinator.poll()}")
                    return
                idle = world.sockets(self.coordinator.process.pid)
            self.begin = time.monotonic()
            if plan.rubbish:
                rubbish = undo.enter_context(world.Rubbish(plan.seed, self.servers))
            self.due += [
                (self.begin + node.start_s, lambda index=index: self.start_node(index))
                for index, node in enumerate(plan.nodes)
            ]
            self.due += [(self.begin + fault.at_s, lambda fault=fault: self.do(fault)) for fault in plan.faults]
            self.play()
            if plan.rubbish:
                rubbish.__exit__()
                self.say(f"{rubbish.sent} times rubbish")
            if plan.apart:
                self.end_coordinator(idle)
        self.look_for_what_is_left()
        for one in [*self.nodes, *self.coordinators]:
            one.close()
        self.judge()

    def play(self):
        plan = self.plan
        asked = None  # When we asked all to end.
        while True:
            now = time.monotonic()
            for entry in sorted(self.due, key=lambda entry: entry[0]):
                if entry[0] <= now:
                    self.due.remove(entry)
                    entry[1]()
            world.reap_adopted({one.process.pid for one in [*self.nodes, *self.coordinators]})
            living = [one for one in self.nodes if one.poll() is None]
            if not living and not self.due:
                return
            if plan.endless and not self.due and asked is None and now > self.begin + 4:
                asked = now
                for one in living:
                    one.signal("TERM")
                self.say("all got TERM, since somebody hangs")
            last = max([asked or 0, self.begin, *[one.started for one in self.nodes]])
            if now > last + LIMIT_S:
                self.wrong.append(f"{', '.join(one.name for one in living)} did not end within {LIMIT_S:.0f} s")
                for one in living:
                    for pid in [one.process.pid, *world.descendants(one.process.pid)]:
                        self.say(f"    there is {world.described(pid)}")
                    one.process.kill()
                    one.process.wait()
                    one.hung = True
                return
            time.sleep(0.01)

    def end_coordinator(self, idle):
        one = self.coordinator
        if one.poll() is None:
            if len(self.coordinators) == 1 and not world.until(
                lambda: world.sockets(one.process.pid) <= idle, GONE_S
            ):
                self.wrong.append(
                    f"the coordinator had {idle} sockets, and has {world.descriptors(one.process.pid)}"
                )
            one.signal("TERM")
            if world.until(lambda: one.poll() is not None, LIMIT_S) is False:
                self.wrong.append("the coordinator does not end")
                one.process.kill()
        one.process.wait()
        for one in self.coordinators:
            usual = {0} | ({-9} if "KILL" in one.signals else set())
            usual |= {2} if one.limits else set()
            if one is not self.coordinators[0]:
                usual |= {2}  # Started again while somebody else had the port.
            if one.poll() not in usual:
                self.wrong.append(f"{one.name} ended with {one.poll()}, not with {sorted(usual)}")

    def look_for_what_is_left(self):
        ours = {one.process.pid for one in [*self.nodes, *self.coordinators]}

        def left():
            world.reap_adopted(ours)
            return {pid: state for pid, state in world.descendants(os.getpid()).items() if state != "Z"}

        world.until(lambda: not left(), GONE_S)
        for pid in left():
            self.wrong.append(f"left: {world.described(pid)}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        world.until(lambda: not left(), GONE_S)
        logs_stay = any(one.poll() != 0 for one in self.nodes)
        for path in sorted((self.folder / "tmp").iterdir()):
            if not (logs_stay and path.name.startswith("torchelastic_")):
                self.wrong.append(f"left: TMPDIR/{path.name}{'/' if path.is_dir() else ''}")

    def judge(self):
        verdict = Verdict(self)
        for one in self.nodes:
            self.say(f"{one.name} ended with {one.poll()}; it may with {sorted(verdict.allowed(one))}")
            if one.poll() not in verdict.allowed(one) and not hasattr(one, "hung"):
                self.wrong.append(f"{one.name} ended with {one.poll()}; allowed are {sorted(verdict.allowed(one))}")
        codes = [one.poll() for one in self.nodes]
        if verdict.must_fail and not set(codes) & verdict.codes and not verdict.rough:
            self.wrong.append(
                f"no node ended with the code of a worker that failed, {sorted(verdict.codes)}, but with {codes}"
            )
        texts = " ".join(file.read_text(errors="replace") for file in self.folder.glob("*.err"))
        for bad in ("CHECK", "terminate called", "core dumped", "AddressSanitizer"):
            if bad in texts:
                self.wrong.append(
                    f"standard error has «{bad}»: " + next(line for line in texts.splitlines() if bad in line)[:300]
                )


class Verdict:
    """Which exit codes a plan allows, given what was done.

    A run is *rough* where more was done than it promises to survive: its nodes may succeed, fail to meet
    (71), or fail because another did (73). It is gentle where fewer workers were ended than there are
    restarts, and where the nodes that were ended are not missed: then everybody succeeds.
    """

    def __init__(self, done):
        plan = done.plan
        self.plan, self.done = plan, done
        self.codes = {code for ranks in plan.worker["fails"].values() for code in ranks.values()}
        if plan.worker["kind"] == "sh" and plan.worker["fails"]:
            self.codes = {next(code for ranks in plan.worker["fails"].values() for code in ranks.values())}
        self.codes |= {{"KILL": 137, "TERM": 143, "INT": 130, "HUP": 129}[act] for act in done.worker_signals}
        if done.worker_signals:
            self.codes |= {1}  # Python's KeyboardInterrupt, and a deaf one that is interrupted.
        hurt = [one for one in done.nodes if set(one.signals) - {"STOP"}]
        stops = [fault.lasts_s for fault in plan.faults if fault.act == "STOP"]
        limited = any(one.limits for one in [*done.nodes, *done.coordinators])
        lost_coordinator = any(set(one.signals) - {"STOP"} for one in done.coordinators[:-1]) or (
            bool(done.coordinator) and "KILL" in done.coordinator.signals
        )
        host_is_safe = plan.apart or plan.pinned and not any(one.index == 0 for one in hurt) or not plan.endpoint
        enough = len(plan.nodes) - len({one.index for one in hurt}) >= plan.lowest
        failures = len(plan.worker["fails"]) + done.worker_failures
        self.rough = (
            limited
            or lost_coordinator
            or plan.endless
            or any(length > SHORT_STOP_S for length in stops)
            or bool(hurt)
            and not (host_is_safe and enough)
            or len(done.nodes) > len(plan.nodes)
            or any(set(one.signals) - {"STOP", "KILL"} for one in done.coordinators[:1] if done.coordinators[1:])
        )
        self.may_fail = failures > plan.max_restarts
        self.must_fail = len(plan.worker["fails"]) > plan.max_restarts and not hurt
        # A node that comes when the run is over, or that no round has room for.
        self.may_be_late = plan.lowest < plan.highest or len(plan.nodes) > plan.highest or bool(hurt)
        self.coordinator_signalled = any({"TERM", "INT"} & set(one.signals) for one in done.coordinators) and any(
            fault.target == "coordinator" for fault in plan.faults
        )

    def allowed(self, one):
        codes = {{"TERM": 143, "INT": 130, "HUP": 129, "KILL": -9}[name] for name in one.signals if name != "STOP"}
        if one.signals:  # Before it has taken hold of its signals.
            codes |= {-getattr(signal, f"SIG{name}") for name in one.signals if name != "STOP"}
        if not (self.must_fail and not self.rough and not one.signals):
            codes |= {0}
        if self.may_fail:
            codes |= self.codes | {73}
        if self.rough or self.coordinator_signalled:
            # A worker's code, where the restart it was good for did not come about.
            codes |= {0, 71, 73, *self.codes}
        if self.may_be_late:
            codes |= {0, 71}
        if "FSIZE" in one.limits:  # A worker that writes its own file.
            codes |= {128 + signal.SIGXFSZ}
        if one.limits:
            codes |= {1, 2, 71, 72, 73, *self.codes}
            if "NPROC" in one.limits or "AS" in one.limits or "NOFILE" in one.limits:
                codes |= {1, 2, 126, 127, 134, 137, 139}  # Of the workers, whose limits these are as well.
        if any(other.limits for other in self.done.nodes):
            codes |= {1, 2, 72, 126, 127} & {1, 73} | {73}
        return codes


# --- one after the other ------------------------------------------------------------------------


class Chaos:
    def __init__(self, keep=None):
        self.folder = Path(tempfile.mkdtemp(prefix="chaos-"))
        self.folder.chmod(0o755)
        # Its own copy, readable for all: the build may be replaced meanwhile, or lie where others may not look.
        self.binary = self.folder / "regroup"
        shutil.copy2(BINARY, self.binary)
        for worker in (HERE / "workers").glob("chaos_worker.*"):
            shutil.copy(worker, self.folder)
            (self.folder / worker.name).chmod(0o644)
        self.keep = Path(keep) if keep else None
        self.runs = self.faults = self.failed = 0

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, seed):
        """What was wrong, as text, or nothing."""
        plan = make_plan(seed)
        folder = self.folder / f"run-{seed.replace(':', '-')}"
        folder.mkdir()
        done = World(plan, folder, self.binary)
        began = time.monotonic()
        try:
            done.carry_out()
        finally:
            for one in [*done.nodes, *done.coordinators]:
                if one.poll() is None:
                    one.process.kill()
                    one.process.wait()
        self.runs += 1
        self.faults += sum(1 for line in done.log if " got " in line)
        text = ""
        if done.wrong:
            self.failed += 1
            text = "".join(
                [
                    f"run {seed} went wrong after {time.monotonic() - began:.1f} s (tests/chaos.py --replay {seed}):\n",
                    *(f"    {what}\n" for what in done.wrong),
                    f"    plan: {json.dumps(dataclasses.asdict(plan))}\n",
                    *(f"    {line}\n" for line in done.log),
                    *(
                        f"    {one.name} ({one.console}, {one.limits}):\n{one.tail()}"
                        for one in [*done.nodes, *done.coordinators]
                    ),
                ]
            )
            if self.keep:
                with contextlib.suppress(shutil.Error):  # A pipe cannot be copied.
                    shutil.copytree(folder, self.keep / folder.name, dirs_exist_ok=True)
                (self.keep / folder.name / "report.txt").write_text(text)
        shutil.rmtree(folder, ignore_errors=True)
        return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first run of the seed")
    parser.add_argument("--replay", metavar="SEED:RUN", action="append")
    parser.add_argument("--plan", metavar="SEED:RUN")
    parser.add_argument("--keep", metavar="FOLDER", help="where the folders of failed runs go")
    parser.add_argument("--verbose", "-v", action="store_true", help="a line for every run")
    arguments = parser.parse_args()
    if arguments.plan:
        print(json.dumps(dataclasses.asdict(make_plan(arguments.plan)), indent=1))
        return 0
    world.adopt_orphans()
    chaos = Chaos(arguments.keep)
    began = time.monotonic()
    try:
        number = arguments.first
        while (
            number - arguments.first < len(arguments.replay)
            if arguments.replay
            else time.monotonic() < began + 60 * arguments.minutes
        ):
            seed = arguments.replay[number] if arguments.replay else f"{arguments.seed}:{number}"
            at = time.monotonic()
            text = chaos.run(seed)
            if arguments.verbose:
                print(f"{seed}: {'WRONG' if text else 'good'}, {time.monotonic() - at:.1f} s", flush=True)
            if text:
                print(text, flush=True)
            number += 1
    finally:
        chaos.close()
    print(
        f"seed {arguments.seed}: {chaos.runs} runs, {chaos.faults} faults, {chaos.failed} went wrong, "
        f"{time.monotonic() - began:.0f} s"
    )
    return 1 if chaos.failed else 0


if __name__ == "__main__":
    sys.exit(main())
