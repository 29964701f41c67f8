#!/usr/bin/env python3
"""Measures regroup beside its peers: a table on stdout, and build/bench.json.

    bench/run.py [--quick] [--turns N] [--seconds S] [--only PATTERN] [--pin] [--json FILE]

Ours and the peer are measured in turns (A B A B ...) in this one run; a row is the median of the turns'
ratios ours / peer (in few rows: differences), with the lowest and the highest. bench/README.md tells how to
read the rows.
"""

import argparse
import collections
import contextlib
import csv
import dataclasses
import json
import os
import platform
import re
import resource
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Optional

from launches import Failure, Launches
from two_nodes import TwoNodes, why_no_machines

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("REGROUP_BUILD", ROOT / "build/release"))
REGROUP = os.environ.get("REGROUP_BIN", str(BUILD / "regroup"))
STORE_LOAD = str(BUILD / "test/store_load")
RENDEZVOUS_LOAD = str(BUILD / "test/rendezvous_load")
SESSION_LOAD = str(BUILD / "test/session_load")
WORKERS_LOAD = str(BUILD / "test/workers_load")
CLOCKED_WORKER = str(BUILD / "test/clocked_worker")
TIMER_LOAD = str(BUILD / "test/timer_load")
TORCH_SIDE = str(ROOT / "bench/torch_side.py")
TALKER = str(ROOT / "bench/talker.py")

CLIENT_COUNTS = (1, 4, 16)
CROWD = 10_000
# Nodes that meet, and how often: PyTorch's take seconds, then minutes. After MEETING_LIMIT they are given up,
# and count as if they had met just then.
MEETINGS = {64: 5, 128: 2, 256: 1}
MEETING_LIMIT = 120
# Nodes with a coordinator: beside as many of PyTorch's; and very many, beside few of our own.
COORDINATED = {64: 5, 128: 2}
COORDINATED_CROWDS, COORDINATED_FEW = {1_000: 0.3, 10_000: 2}, 100  # How many seconds they may take to join.
# Redis and ours get the same: connections, requests on their way on each, bytes of a value.
CONNECTIONS, DEPTH, VALUE_BYTES = 50, 16, 64
REQUESTS_PER_SECOND = 500_000  # Turns --seconds into a number of requests, the same one for both.
STARTED, DEATHS = 256, 1000
LAUNCHED, LAUNCHED_CROWD = 8, 64
# Two nodes, one of which loses something: who has not recovered after LOSS_LIMIT seconds is given up, and counts as if
# it had just then. torchrun never does if the other node is gone, so there are few turns.
LOSS_LIMIT, LOSS_TURNS, HEARTBEAT_LIMIT = 60, 3, 2
TALKERS, TALKER_LINES = 8, 100_000
EXPIRIES, LIVE_TIMERS, TIMER_REQUESTS, TIMER_WRITERS, BEATS = 200, 100_000, 400_000, 4, 100_000
LONGEST_START = 120  # PyTorch's launcher takes seconds.
SILENCE = 10  # After so long nothing more is expected on a console.

# PyTorch asks DNS for the name of every address it connects to. A lost answer should not cost 5 seconds.
TORCH_ENVIRONMENT = dict(os.environ, RES_OPTIONS="timeout:1 attempts:1")
TORCH_CURE = ("set TORCH_PYTHON to a Python with PyTorch 2.4 or newer, or give this machine a package index "
              "for pip; and no TORCH=none")
REDIS_CURE = "install redis-server and redis-tools (dev/setup bench does)"


# --- processes ----------------------------------------------------------------------------------

PINS = {}  # With --pin: which cores a "server" gets, and which a "load".


def pinning(role):
    return (lambda: os.sched_setaffinity(0, PINS[role])) if PINS else None


class Process:
    """A child that talks in lines. Leaving its context ends it."""

    role = "load"

    def __init__(self, *command, env=None):
        self.name = " ".join(Path(word).name for word in map(str, command[:3]))
        self.errors = tempfile.TemporaryFile()
        self.child = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=self.errors, text=True, env=env, preexec_fn=pinning(self.role))
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.child.stdin.close()  # Our own programs end by this alone.
        self.child.terminate()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        self.errors.close()

    def say(self, text):
        try:
            self.child.stdin.write(text + "\n")
            self.child.stdin.flush()
        except OSError as error:
            raise self.failure() from error

    def hear(self):
        line = self.child.stdout.readline()
        if not line:
            raise self.failure()
        return line.strip()

    def hear_ready(self):
        if (line := self.hear()) != "ready":
            raise Failure(f"{self.name} said {line!r}")

    def failure(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(5)
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace").strip().split("\n")[-1]
        return Failure(f"{self.name} ended with status {self.child.returncode}: {last}")

    def cpu_seconds(self):
        """Of all its threads, to the nanosecond; utime and stime of /proc/PID/stat count in ticks of 10 ms."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def resident_bytes(self):
        return int(re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())[1]) * 1024


class Server(Process):
    """A store server that says where it listens."""

    role = "server"

    def __init__(self, *command, env=None):
        super().__init__(*command, env=env)
        self.port = int(self.hear().rsplit(":", 1)[1])


class Launcher(Process):
    """Starts talkers, and tees what they print to our pipe."""

    role = "anywhere"  # Its workers may run wherever it may.

    def wait_until(self, condition):
        deadline = time.monotonic() + LONGEST_START
        while not condition():
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise self.failure()
            time.sleep(0.01)

    def drain(self, seconds):
        """What there is of its output: nothing at the end, or when nothing comes for so long."""
        if not select.select([self.child.stdout], [], [], seconds)[0]:
            return b""
        return os.read(self.child.stdout.fileno(), 1 << 20)


class Redis(Process):
    role = "server"

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:  # Redis does not know "any free port".
            self.port = free.getsockname()[1]
        super().__init__("redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "",
                         "--appendonly", "no", "--loglevel", "warning")
        deadline = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as probe:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(16) == b"+PONG\r\n":
                        return
            except OSError:
                pass
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise self.failure()
            time.sleep(0.01)


def our_server():
    return Server(REGROUP, "store", "--host", "127.0.0.1", "--port", "0")


def our_coordinator():
    return Server(REGROUP, "coordinator", "--host", "127.0.0.1", "--port", "0")


# --- measurements -------------------------------------------------------------------------------

@dataclasses.dataclass
class Metric:
    name: str  # Also the key of its value in what a measurement returns.
    unit: str
    # ">= 1.3": of the ratio. "<= 2 s": of our own number, or of the difference. "<= 0.01 and <= 2 s": both.
    target: str = ""
    # What a turn gives: the "ratio" ours / peer, the "difference" ours - peer, or "ours" alone; then the target is one
    # for every turn.
    compare: str = "ratio"

    def values(self, ours, peer):
        """One for each turn."""
        if self.compare == "ratio":
            # A server that got no page more for a small crowd would make a ratio to nothing.
            return [x / y for x, y in zip(ours, peer) if y > 0]
        return ours if self.compare == "ours" else [x - y for x, y in zip(ours, peer)]

    def reached(self, row):
        return all(self.is_within(one, row) for one in self.target.split(" and "))

    def is_within(self, target, row):
        sign, limit, *unit = target.split()
        values = row["ours"] if unit and self.compare == "ratio" else row["values"]
        if self.compare != "ours":
            values = [statistics.median(values)]
        return all(value >= float(limit) if sign == ">=" else value <= float(limit) for value in values)


@dataclasses.dataclass
class Measurement:
    name: str
    peer_name: str
    metrics: list
    ours: Callable[[], dict]
    peer: Callable[[], dict]
    turns: int = 1_000_000  # At most so many.
    missing: Optional[str] = None  # Why there is no peer, and what would make it run.

    def row_name(self, metric):
        return f"{self.name}, {metric.name}"


class Bench:
    """Holds what the measurements share. Servers and clients start when first used and end with the bench."""

    def __init__(self, options, torch):
        self.options = options
        self.torch = torch
        self.stack = contextlib.ExitStack()
        self.started = {}
        self.launches = Launches(REGROUP, CLOCKED_WORKER, WORKERS_LOAD, torch)
        self.two_nodes = TwoNodes(self.launches, 3 if options.quick else LOSS_LIMIT)
        round_of_all = CONNECTIONS * DEPTH
        self.requests = max(1, round(options.seconds * REQUESTS_PER_SECOND / round_of_all)) * round_of_all

    def use(self, start):
        """What start() returns; the same one every time."""
        if start not in self.started:
            self.started[start] = self.stack.enter_context(start())
        return self.started[start]

    def torch_server(self):
        return Server(self.torch, TORCH_SIDE, "server", env=TORCH_ENVIRONMENT)

    def torch_clients(self):
        clients = Process(self.torch, TORCH_SIDE, "clients", env=TORCH_ENVIRONMENT)
        clients.hear_ready()
        return clients

    # PyTorch's client, one operation after the other in each of several processes.
    def torch_load(self, start_server, op, clients):
        server, load = self.use(start_server), self.use(self.torch_clients)
        load.say(json.dumps({"port": server.port, "op": op, "clients": clients, "seconds": self.options.seconds}))
        load.hear_ready()
        cpu = server.cpu_seconds()
        load.say("go")
        answer = json.loads(load.hear())
        cpu = server.cpu_seconds() - cpu
        load.say("done")
        return {"throughput": answer["rate"], "median latency": answer["median_us"], "p99 latency": answer["p99_us"],
                "server CPU per op": cpu / answer["operations"] * 1e6}

    # Pipelined requests on many connections, from one thread.
    def our_pipeline(self, op):
        server = self.use(our_server)
        with Process(STORE_LOAD, op, "--port", server.port, "--connections", CONNECTIONS, "--depth", DEPTH,
                     "--value-bytes", VALUE_BYTES, "--requests", self.requests) as load:
            load.hear_ready()
            cpu = server.cpu_seconds()
            load.say("go")
            seconds = json.loads(load.hear())["seconds"]
            cpu = server.cpu_seconds() - cpu
        return {"throughput": self.requests / seconds, "server CPU per op": cpu / self.requests * 1e6}

    def redis_benchmark(self, op, requests):
        command = ["redis-benchmark", "-h", "127.0.0.1", "-p", self.use(Redis).port, "-c", CONNECTIONS, "-P", DEPTH,
                   "-d", VALUE_BYTES, "-n", requests, "-t", op, "--csv"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              preexec_fn=pinning("load"))
        if done.returncode != 0:
            raise Failure(f"redis-benchmark ended with status {done.returncode}: {done.stderr.strip()}")
        return float(next(csv.DictReader(done.stdout.splitlines()))["rps"])

    def redis_pipeline(self, op):
        if op == "get":
            self.redis_benchmark("set", CONNECTIONS * DEPTH)  # Or there would be nothing to get.
        server = self.use(Redis)
        cpu = server.cpu_seconds()
        rate = self.redis_benchmark({"add": "incr"}.get(op, op), self.requests)
        cpu = server.cpu_seconds() - cpu
        return {"throughput": rate, "server CPU per op": cpu / self.requests * 1e6}

    # A crowd of clients. The server is a new one each time: memory once grown is not given back.
    def crowd(self, start_server, clients):
        with start_server() as server, \
                Process(STORE_LOAD, "connect", "--port", server.port, "--connections", clients) as load:
            load.hear_ready()
            before = server.resident_bytes()
            load.say("go")
            seconds = json.loads(load.hear())["seconds"]
            return {"time until all are greeted": seconds,
                    "memory per idle client": (server.resident_bytes() - before) / clients}

    # All nodes of a run join at once: a thread each in one process, connections of their own, the shared state in
    # PyTorch's server, for both.
    def our_meeting(self, nodes):
        server = self.use(self.torch_server)
        run_id = f"regroup-{time.monotonic_ns()}"
        with Process(RENDEZVOUS_LOAD, f"127.0.0.1:{server.port}", nodes, 1, run_id) as load:
            return {"time until all have ranks": float(load.hear())}

    def torch_meeting(self, nodes):
        server = self.use(self.torch_server)
        with Process(self.torch, TORCH_SIDE, "rendezvous", server.port, nodes, MEETING_LIMIT,
                     env=TORCH_ENVIRONMENT) as load:
            answer = json.loads(load.hear())
        if answer["met"] < nodes:
            print(f" (PyTorch's: {answer['met']} of {nodes} nodes have ranks after {MEETING_LIMIT} s, given up)",
                  end="", flush=True)
        return {"time until all have ranks": answer["seconds"]}

    # All nodes of a run join at once, with a coordinator of their own; their agents are played by one process.
    def sessions(self, nodes):
        """All that session_load has measured."""
        idle = 0.1 if self.options.quick else 5  # Three pings of each, at the default heartbeat limit.
        with our_coordinator() as server, Process(SESSION_LOAD, f"127.0.0.1:{server.port}", "--nodes", nodes,
                                                  "--server-pid", server.pid, "--idle-seconds", idle) as load:
            return json.loads(load.hear())

    def our_coordinated_meeting(self, nodes):
        return {"time until all have ranks": self.sessions(nodes)["join"]["seconds"]}

    def coordinated(self, nodes):
        report = self.sessions(nodes)

        def of_node(phase, what):
            return report[phase][f"{what}_sent"] + report[phase][f"{what}_received"]
        return {"join to all sealed": report["join"]["seconds"],
                "one lost to all sealed again": report["lost"]["seconds"],
                "one fails to all told": report["failed_told_seconds"],
                "one fails to all sealed again": report["failed"]["seconds"],
                "all done to all told": report["done"]["seconds"],
                "messages per node to join": of_node("join", "messages"),
                "bytes per node to join": of_node("join", "bytes"),
                "idle bytes per node and second": of_node("idle", "bytes"),
                "server CPU per node to join": report["join"]["server_cpu_seconds"] / nodes * 1e6,
                "server memory per node": report["server_bytes_per_node"]}

    def coordinator_rows(self, torch_missing, quick, most):
        rows = [Measurement(f"coordinator, {nodes} nodes", "PyTorch", [Metric("time until all have ranks", "s")],
                            lambda nodes=nodes: self.our_coordinated_meeting(nodes),
                            lambda nodes=nodes: self.torch_meeting(nodes), turns, torch_missing)
                for nodes, turns in ({4: 1} if quick else COORDINATED).items()]
        few = 4 if quick else COORDINATED_FEW
        for nodes, limit in ({8: 0} if quick else COORDINATED_CROWDS).items():
            nodes = min(nodes, most)
            rows.append(Measurement(
                f"coordinator, {nodes} nodes", f"{few} nodes",
                [Metric("join to all sealed", "s", f"<= {limit} s"),
                 Metric("one lost to all sealed again", "s", "<= 2 s"),
                 Metric("one fails to all told", "s"),
                 Metric("one fails to all sealed again", "s", "<= 2 s"),
                 Metric("all done to all told", "s"),
                 Metric("messages per node to join", "messages", "<= 1"),
                 Metric("bytes per node to join", "bytes", "<= 1"),
                 Metric("idle bytes per node and second", "bytes", compare="ours"),
                 Metric("server CPU per node to join", "us", compare="ours"),
                 Metric("server memory per node", "bytes", compare="ours")],
                lambda nodes=nodes: self.coordinated(nodes), lambda: self.coordinated(few)))
        return rows

    # Workers that begin to print when all are there, and stay until the launcher's own CPU time has been read: what
    # importing PyTorch costs is no part of carrying output.
    def our_talkers(self, talkers, lines):
        return self.talk(talkers, lines, [REGROUP, "spawn", "-n", talkers, "-t", "3", "--log-dir"], "--")

    def torch_talkers(self, talkers, lines):
        return self.talk(talkers, lines, [self.torch, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                                          talkers, "--tee", "3", "--log-dir"], "--no-python", TORCH_ENVIRONMENT)

    def talk(self, talkers, lines, command, last_flag, env=None):
        with tempfile.TemporaryDirectory() as name:
            folder, parts, line_ends = Path(name), [], 0
            worker = [last_flag, sys.executable, TALKER, lines, folder]
            with Launcher(*command, folder / "logs", *worker, env=env) as launcher:
                launcher.wait_until(lambda: len(list(folder.glob("ready*"))) == talkers)
                cpu, began = launcher.cpu_seconds(), time.monotonic()
                (folder / "begin").touch()
                ended = began
                while line_ends < talkers * lines and (part := launcher.drain(SILENCE)):
                    ended = time.monotonic()
                    parts.append(part)
                    line_ends += part.count(b"\n")
                cpu = launcher.cpu_seconds() - cpu
                (folder / "end").touch()
                while part := launcher.drain(SILENCE):
                    parts.append(part)
                if launcher.child.wait(SILENCE) != 0:
                    raise launcher.failure()
        text = b"\n" + b"".join(parts)
        shown = text.count(b"\n[default")
        return {"throughput": len(text) / 1e6 / (ended - began), "launcher CPU per line": cpu / max(shown, 1) * 1e6,
                "lines lost": talkers * lines - shown}

    def workers_load(self, *words):
        """The numbers that it prints, sorted."""
        done = subprocess.run([WORKERS_LOAD, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise Failure(f"workers_load {words} ended with status {done.returncode}: {done.stderr.strip()}")
        return sorted(map(float, done.stdout.split()))

    def start(self, who, workers):
        return {"time beyond the kernel's own": self.workers_load("start", who, workers)[0]}

    def deaths(self, who, count):
        micros = [seconds * 1e6 for seconds in self.workers_load("deaths", who, count)]
        return {"median": statistics.median(micros), "p99": micros[int(0.99 * (len(micros) - 1))]}

    # Timers: one client for both servers. Ours is the launcher itself, PyTorch's is what its agent runs.
    @contextlib.contextmanager
    def timer_client(self, ours, *words, program=(TIMER_LOAD,)):
        """(client, server): the running client of the pipe, and who serves it; for ours the client is its worker."""
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/timers"
            env = dict(TORCH_ENVIRONMENT, TORCHELASTIC_TIMER_FILE=path, PYTHONPATH=str(ROOT / "python"))
            if ours:
                with Process(REGROUP, "run", "-q", "--watchdog", "--no-python", *program, *words, env=env) as launcher:
                    yield launcher, launcher
            else:
                with Process(self.torch, TORCH_SIDE, "timers", path, env=env) as server:
                    server.hear_ready()
                    with Process(*program, *words, env=env) as client:
                        yield client, server

    def timer_numbers(self, ours, count, *words, **more):
        with self.timer_client(ours, *words, **more) as (client, _):
            return [float(client.hear()) for _ in range(count)]

    def expiries(self, ours, live):
        count = 5 if self.options.quick else EXPIRIES if ours else EXPIRIES // 10  # PyTorch's take 0.1 s each.
        micros = sorted(seconds * 1e6 for seconds in self.timer_numbers(ours, count, "expiry", count, live))
        return {"median": statistics.median(micros), "p99": micros[int(0.99 * (len(micros) - 1))]}

    def timer_requests(self, ours):
        count = 2_000 if self.options.quick else TIMER_REQUESTS if ours else TIMER_REQUESTS // 10
        return {"throughput": count / self.timer_numbers(ours, 1, "flood", count, TIMER_WRITERS)[0]}

    def idle_wake_ups(self, ours):
        """Of the thread that serves timers, while one is set and nothing happens."""
        def switches(server):
            tasks = [server.pid] if ours else os.listdir(f"/proc/{server.pid}/task")
            return sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", Path(
                f"/proc/{server.pid}/task/{task}/status").read_text(), re.M)[1]) for task in tasks)
        with self.timer_client(ours, "hold") as (client, server):
            client.hear_ready()
            time.sleep(0.2)  # What came with the start is over.
            before = switches(server)
            time.sleep(self.options.seconds)
            return {"per second": (switches(server) - before) / self.options.seconds}

    def beats(self, ours, python):
        """Both are measured by the same client at once; the peer's turn takes the other number."""
        count = 1_000 if self.options.quick else BEATS
        code = ("import sys, time, regroup; n = int(sys.argv[2]); t = time.monotonic; a = t()\n"
                "for _ in range(n): regroup.heartbeat(600)\n"
                "b = t()\n"
                "for _ in range(n): time.monotonic_ns()\n"
                "print(b - a, t() - b, sep='\\n')")
        program = (sys.executable, "-c", code) if python else (TIMER_LOAD,)
        beaten, read = self.timer_numbers(True, 2, "beat", count, program=program)
        return {"time per beat": (beaten if ours else read) / count * 1e6}

    def timer_rows(self, torch_missing, quick):
        live = 1_000 if quick else LIVE_TIMERS
        rows = [Measurement(f"timers, expiry to signal{with_live}", "PyTorch",
                            [Metric("median", "us"), Metric("p99", "us", "<= 2000 us")],
                            lambda live=live: self.expiries(True, live), lambda live=live: self.expiries(False, live),
                            missing=torch_missing)
                for live, with_live in ((0, ""), (live, f", {live:,} live"))]
        rows.append(Measurement("timers, requests through one pipe", "PyTorch",
                                [Metric("throughput", "/s", ">= 200000 /s")],
                                lambda: self.timer_requests(True), lambda: self.timer_requests(False),
                                missing=torch_missing))
        rows.append(Measurement("timers, wake-ups while idle", "PyTorch",
                                [Metric("per second", "/s", "<= 0 /s", compare="ours")],
                                lambda: self.idle_wake_ups(True), lambda: self.idle_wake_ups(False),
                                missing=torch_missing))
        for language, target in (("C++", "<= 5 us"), ("Python", "<= 30 us")):
            rows.append(Measurement(f"heartbeat in {language}", "a reading of the clock",
                                    [Metric("time per beat", "us", target)],
                                    lambda python=language == "Python": self.beats(True, python),
                                    lambda python=language == "Python": self.beats(False, python)))
        return rows

    def measurements(self, torch_missing, redis_missing):
        def torch_row(op, clients):
            plural = "client" if clients == 1 else "clients"
            return Measurement(
                f"store {op}, {clients} {plural}", "PyTorch",
                [Metric("throughput", "/s", ">= 1.3"), Metric("median latency", "us"), Metric("p99 latency", "us"),
                 Metric("server CPU per op", "us", "<= 0.5")],
                lambda: self.torch_load(our_server, op, clients),
                lambda: self.torch_load(self.torch_server, op, clients), missing=torch_missing)

        def redis_row(op):
            return Measurement(
                f"store {op}, {CONNECTIONS} clients x {DEPTH} pipelined", "Redis",
                [Metric("throughput", "/s", ">= 1.0"), Metric("server CPU per op", "us")],
                lambda: self.our_pipeline(op), lambda: self.redis_pipeline(op), missing=redis_missing)

        def crowd_row(clients):
            return Measurement(
                f"store connect, {clients} clients", "PyTorch",
                [Metric("time until all are greeted", "s", "<= 2 s"),
                 Metric("memory per idle client", "bytes", "<= 8192 bytes")],
                lambda: self.crowd(our_server, clients),
                lambda: self.crowd(self.torch_server, clients), missing=torch_missing)

        def meeting_row(nodes, turns):
            target = "<= 2 s" if nodes == 256 else ""
            return Measurement(
                f"rendezvous, {nodes} nodes", "PyTorch", [Metric("time until all have ranks", "s", target)],
                lambda: self.our_meeting(nodes), lambda: self.torch_meeting(nodes), turns, torch_missing)

        def talkers_row(talkers, lines):
            return Measurement(
                f"output, {talkers} workers x {lines:,} lines teed", "torchrun",
                [Metric("throughput", "MB/s"), Metric("launcher CPU per line", "us", "<= 0.2"),
                 Metric("lines lost", "lines", "<= 0 lines", compare="ours")],
                lambda: self.our_talkers(talkers, lines), lambda: self.torch_talkers(talkers, lines),
                missing=torch_missing)

        def start_row(workers):
            return Measurement(
                f"workers, {workers} started", "a bare fork and exec",
                [Metric("time beyond the kernel's own", "s", "<= 0.1 s", compare="difference")],
                lambda: self.start("ours", workers), lambda: self.start("kernel", workers))

        def deaths_row(count):
            return Measurement(
                "worker death to event", "a wake-up by a pipe",
                [Metric("median", "us"), Metric("p99", "us", "<= 2000 us")],
                lambda: self.deaths("ours", count), lambda: self.deaths("sleep", count))

        def launch_row(name, metric, measure, workers):
            return Measurement(f"run, {workers} workers{name}", "torchrun", metric,
                               lambda: measure("ours", workers), lambda: measure("torchrun", workers),
                               missing=torch_missing)

        def launch_rows(workers):
            return [
                launch_row("", [Metric("command to workers run", "ms", "<= 0.01 and <= 15 ms"),
                                Metric("memory of the launcher", "MB", "<= 10 MB")], self.launches.start, workers),
                launch_row(" that end at once", [Metric("command to its end", "ms")], self.launches.whole_job, workers),
                launch_row(", one fails", [Metric("worker's end to new workers run", "ms", "<= 20 ms")],
                           self.launches.restart, workers)]

        def launch_crowd_row(workers):
            return Measurement(
                f"run, {workers} workers started", "a bare fork and exec",
                [Metric("time beyond the kernel's own", "ms", "<= 60 ms", compare="difference")],
                lambda: self.launches.crowd("ours", workers), lambda: self.launches.crowd("kernel", workers))

        def two_nodes_row(name, metric, measure, turns, missing=torch_missing, peer="torchrun"):
            return Measurement(f"run, 2 nodes, {name}", peer, [metric], lambda: measure("ours"),
                               lambda: measure("torchrun"), turns, missing)

        def two_nodes_rows():
            again = "the other's workers run again"
            silent = HEARTBEAT_LIMIT * 1000 + 200
            return [
                two_nodes_row("a worker of one dies", Metric("all workers run again", "ms", "<= 50 ms"),
                              self.two_nodes.worker_dies, 1_000_000),
                two_nodes_row("the agent of one is killed", Metric(again, "ms", "<= 200 ms"),
                              self.two_nodes.agent_is_killed, LOSS_TURNS),
                two_nodes_row(f"one is cut off, heartbeat limit {HEARTBEAT_LIMIT} s",
                              Metric(again, "ms", f"<= {silent} ms"),
                              lambda who: self.two_nodes.network_goes_silent(who, f"{HEARTBEAT_LIMIT}s"), LOSS_TURNS,
                              torch_missing or why_no_machines(), "torchrun on two machines")]

        quick = self.options.quick
        meetings = {4: 1} if quick else MEETINGS
        crowd = crowd_size(quick)
        return ([torch_row(op, clients) for op in ("get", "add") for clients in CLIENT_COUNTS]
                + [redis_row(op) for op in ("get", "set", "add")]
                + [crowd_row(crowd)]
                + [meeting_row(nodes, turns) for nodes, turns in meetings.items()]
                + self.coordinator_rows(torch_missing, quick, crowd)
                + [talkers_row(2, 100) if quick else talkers_row(TALKERS, TALKER_LINES),
                   start_row(4 if quick else STARTED), deaths_row(5 if quick else DEATHS)]
                + launch_rows(2 if quick else LAUNCHED)
                + two_nodes_rows()
                + [launch_crowd_row(4 if quick else LAUNCHED_CROWD)]
                + self.timer_rows(torch_missing, quick))


def crowd_size(quick):
    """As many clients as the limit on open files allows; the names of the rows tell how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    clients = 500 if quick else CROWD
    spare = 100
    if hard != resource.RLIM_INFINITY and hard < clients + spare:
        print(f"only {hard - spare} instead of {clients} clients connect: the hard limit on open files is {hard} "
              f"(ulimit -Hn)")
        clients = hard - spare
    return clients


# --- the run ------------------------------------------------------------------------------------

def measure(measurement, turns):
    """The rows of one measurement."""
    ours, peer = [], []
    turns = min(turns, measurement.turns)
    for _ in range(turns):
        ours.append(measurement.ours())
        peer.append(measurement.peer())
    rows = []
    for metric in measurement.metrics:
        a, b = ([turn[metric.name] for turn in side] for side in (ours, peer))
        values = metric.values(a, b)
        if not values:
            raise Failure(f"{metric.name} of {measurement.peer_name} is zero")
        row = {"name": measurement.row_name(metric), "peer_name": measurement.peer_name, "unit": metric.unit,
               "compare": metric.compare, "median": statistics.median(values), "lowest": min(values),
               "highest": max(values), "turns": turns, "target": metric.target or None, "ours": a, "peer": b,
               "values": values}
        row["reached"] = metric.reached(row) if metric.target else None
        rows.append(row)
    return rows


def number(value):
    if abs(value) >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def print_table(rows, quick):
    width = max(len(row["name"]) for row in rows) + 1
    for row in rows:
        turns = "1 turn" if row["turns"] == 1 else f"{row['turns']} turns"
        numbers = [row[key] for key in ("median", "lowest", "highest")]
        if row["compare"] == "ratio":
            digits = 2 if row["median"] >= 0.1 else 4
            median, lowest, highest = (f"{value:.{digits}f}" for value in numbers)
        else:
            median, lowest, highest = map(number, numbers)
            median += f" {row['unit']}"
        value = f"{row['compare']} {median} ({lowest}..{highest} over {turns})"
        line = f"{row['name'] + ':':<{width}} {value:<38}"
        if not quick:
            whose = "ours " if row["compare"] == "ratio" and not (row["target"] or "0")[-1].isdigit() else ""
            verdict = f"target {whose}{row['target']}: {'reached' if row['reached'] else 'MISSED'}"
            line += f" {verdict if row['target'] else '':<36}"
        ours, peer = (number(statistics.median(row[side])) for side in ("ours", "peer"))
        print(f"{line} [{ours} beside {peer} {row['unit']} of {row['peer_name']}]")


def find_torch():
    """(python, why there is none)"""
    done = subprocess.run([ROOT / "dev/torch-python"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode == 2:  # The caller named one that does not serve.
        sys.exit(f"bench/run.py: {done.stderr.strip()}")
    if done.returncode == 0:
        return done.stdout.strip(), None
    reason = done.stderr.strip().split("\n")[-1]
    return None, f"no PyTorch: {reason}; to run it: {TORCH_CURE}"


def version(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true",
                        help="one tiny turn of everything: shows that it runs, and says nothing about targets")
    parser.add_argument("--turns", type=int, help="measure both sides so often (default: 9)")
    parser.add_argument("--seconds", type=float, help="length of one measurement of one side (default: 1)")
    parser.add_argument("--only", default="", metavar="PATTERN",
                        help="only rows in whose name this regular expression is found")
    parser.add_argument("--pin", action="store_true",
                        help="give the server (ours and the peer's) a core of its own and its clients the others")
    parser.add_argument("--json", type=Path, default=ROOT / "build/bench.json", metavar="FILE")
    options = parser.parse_args()
    options.turns = options.turns or (1 if options.quick else 9)
    options.seconds = options.seconds or (0.05 if options.quick else 1.0)
    if options.turns < 1 or options.seconds <= 0:
        parser.error("--turns and --seconds must be positive")
    if options.pin:
        *others, last = sorted(os.sched_getaffinity(0))
        if not others:
            parser.error("--pin needs two cores")
        PINS.update(server={last}, load=set(others), anywhere={*others, last})
    for program in (REGROUP, STORE_LOAD, RENDEZVOUS_LOAD, SESSION_LOAD, WORKERS_LOAD, CLOCKED_WORKER, TIMER_LOAD):
        if not os.access(program, os.X_OK):
            sys.exit(f"bench/run.py: there is no {program}; `make build` makes it")
    return options


def main():
    options = parse_options()
    torch, torch_missing = find_torch()
    redis_missing = None if shutil.which("redis-server") and shutil.which("redis-benchmark") else (
        f"no redis-server or redis-benchmark on PATH; to run it: {REDIS_CURE}")
    rows, skipped, failed = [], collections.defaultdict(list), []
    bench = Bench(options, torch)
    with bench.stack:
        pattern = re.compile(options.only)
        wanted = [m for m in bench.measurements(torch_missing, redis_missing)
                  if any(pattern.search(m.row_name(metric)) for metric in m.metrics)]
        for place, measurement in enumerate(wanted, 1):
            names = [name for name in map(measurement.row_name, measurement.metrics) if pattern.search(name)]
            if measurement.missing:
                skipped[measurement.missing] += names
                continue
            print(f"[{place}/{len(wanted)}] {measurement.name}, beside {measurement.peer_name} ...", end="",
                  flush=True)
            start = time.monotonic()
            try:
                rows += [row for row in measure(measurement, options.turns) if row["name"] in names]
                print(f" {time.monotonic() - start:.0f} s", flush=True)
            except Failure as failure:
                failed.append({"name": measurement.name, "reason": str(failure)})
                print(" failed", flush=True)

    if rows:
        print()
        print_table(rows, options.quick)
    for reason, names in skipped.items():
        print(f"\nskipped: {reason}")
        print("\n".join(f"  {name}" for name in names))
    for failure in failed:
        print(f"\nfailed: {failure['name']}: {failure['reason']}")
    if not wanted:
        print(f"no row is called like {options.only!r}")

    report = {"quick": options.quick, "pinned": options.pin, "turns": options.turns, "seconds": options.seconds,
              "machine": {"cores": len(os.sched_getaffinity(0)), "system": platform.platform()},
              "pytorch": torch and version(torch, TORCH_SIDE, "version"),
              "redis": None if redis_missing else version("redis-server", "--version"),
              "rows": rows, "failed": failed,
              "skipped": [{"name": name, "reason": reason} for reason, names in skipped.items() for name in names]}
    if options.quick:
        for row in rows:
            row["reached"] = None
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if failed or not wanted else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # A plain kill must end our children too.
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
