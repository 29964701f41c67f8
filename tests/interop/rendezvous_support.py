"""Nodes of a rendezvous, PyTorch's and ours, each a process of its own, driven alike.

A node answers one command at a time. start() and finish() are apart, because most commands of a
rendezvous wait for the other nodes: start all, then finish all. Whatever a test leaves behind ends with
its context manager, and at the latest with the test's process.
"""

import base64
import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import pickle
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path

from store_support import BUILD, Lines
from torch_support import dist
from torch.distributed.elastic.rendezvous import api, c10d_rendezvous_backend, dynamic_rendezvous

LIMIT_S = 60.0
DRIVER = BUILD / "test/rendezvous_driver"

# Nobody is dropped for being slow, and only a full round is sealed. Tests say where they need less.
CALM = {"join_timeout": 120, "last_call_timeout": 100, "close_timeout": 60, "heartbeat_timeout": 30,
        "keep_alive_interval": 1, "keep_alive_max_attempt": 100, "read_timeout": 60}
# The last call and the silence limit pass while a test waits.
QUICK = CALM | {"last_call_timeout": 1}
MORTAL = QUICK | {"keep_alive_max_attempt": 4}

KINDS = {"RendezvousClosedError": "closed", "RendezvousGracefulExitError": "not needed",
         "RendezvousTimeoutError": "timeout", "RendezvousConnectionError": "connection",
         "RendezvousStateError": "corrupt"}


class NodeError(Exception):
    """A call of a node failed. PyTorch's kinds have the names of ours."""

    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class Node:
    def ask(self, command, *arguments, limit_s=LIMIT_S):
        self.start(command, *arguments)
        return self.finish(limit_s)

    def __repr__(self):
        return f"{self.kind} node {self.address}"


class OurNode(Node):
    kind = "our"

    def __init__(self, endpoint, run_id, nodes, address, config, node_rank=None, environment=None):
        self.address = address
        command = [DRIVER, "handler", "backend=c10d", f"endpoint={endpoint}", f"run_id={run_id}",
                   f"min={nodes[0]}", f"max={nodes[1]}", f"local_addr={address}",
                   "config=" + ",".join(f"{key}={value}" for key, value in ({"is_host": 0} | config).items())]
        if node_rank is not None:
            command.append(f"node_rank={node_rank}")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, errors="replace",
                                         env=os.environ | (environment or {}))
        self._out, self._err = Lines(self._process.stdout), Lines(self._process.stderr)
        self._ended_by_test = False
        try:
            self.use_agent_store = self.finish()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self):
        return self._process.pid

    def start(self, command, *arguments):
        self._process.stdin.write(" ".join([command, *map(str, arguments)]) + "\n")
        self._process.stdin.flush()

    def finish(self, limit_s=LIMIT_S):
        try:
            line = self._out.next(limit_s)
        except AssertionError:
            raise AssertionError(f"{self}: no answer within {limit_s} s") from None
        if line is None:
            raise AssertionError(f"{self} ended with {self._process.wait(LIMIT_S)}: {self._err.rest()}")
        answer = json.loads(line)
        if "error" in answer:
            raise NodeError(answer["error"], answer["message"])
        return answer["answer"]

    def interrupt(self):
        self.start("interrupt")

    def kill(self):
        """As a machine dies: nobody is told."""
        self._ended_by_test = True
        self._process.kill()
        self._process.wait()

    def close(self):
        if self._ended_by_test:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # Interrupts what it waits for, and ends it.
        try:
            status = self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self} did not end at the end of its input") from None
        if status != 0:
            raise AssertionError(f"{self} ended with {status}: {self._err.rest()}")


# A server from which the processes of PyTorch's nodes are forked: importing it once is slow enough.
_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(["torch.distributed.elastic.rendezvous.dynamic_rendezvous"])


class TorchNode(Node):
    kind = "PyTorch's"

    def __init__(self, endpoint, run_id, nodes, address, config, environment=None):
        self.address = address
        self._pipe, its_end = _fork.Pipe()
        self._process = _fork.Process(target=_run_torch_node, daemon=True,
                                      args=(its_end, endpoint, run_id, nodes, address, config, environment or {}))
        self._process.start()
        its_end.close()
        try:
            self.finish()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self):
        return self._process.pid

    def start(self, command, *arguments):
        self._pipe.send((command, *arguments))

    def finish(self, limit_s=LIMIT_S):
        if not self._pipe.poll(limit_s):
            raise AssertionError(f"{self}: no answer within {limit_s} s")
        try:
            word, *rest = self._pipe.recv()
        except EOFError:
            self._process.join(LIMIT_S)
            raise AssertionError(f"{self} ended with {self._process.exitcode}") from None
        if word == "error":
            raise NodeError(*rest)
        return rest[0]

    def kill(self):
        self._process.kill()
        self._process.join(LIMIT_S)

    # It may be waiting for somebody, and PyTorch's handler cannot be interrupted.
    close = kill


def _end_with_parent():
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _run_torch_node(pipe, endpoint, run_id, nodes, address, config, environment):
    """In the process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ.update(environment)
    try:
        parameters = api.RendezvousParameters("c10d", endpoint, run_id, *nodes, local_addr=address, is_host=False,
                                              **config)
        backend, store = c10d_rendezvous_backend.create_backend(parameters)
        handler = dynamic_rendezvous.create_handler(store, backend, parameters)
        # Older versions do not take these from the parameters.
        for name, value in (("keep_alive_interval", timedelta(seconds=config["keep_alive_interval"])),
                            ("keep_alive_max_attempt", config["keep_alive_max_attempt"])):
            object.__setattr__(handler.settings, name, value)
    except Exception as error:
        pipe.send(("error", type(error).__name__, str(error)))
        return
    pipe.send(("made", None))
    info = None
    while True:
        try:
            command, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            if command == "next":
                info = handler.next_rendezvous()
                bootstrap = info.bootstrap_store_info
                state = handler._state_holder.state
                answer = {"round": state.round, "rank": info.rank, "world_size": info.world_size,
                          "address": bootstrap.master_addr, "port": bootstrap.master_port,
                          "nodes": [node.addr for node in sorted(state.participants, key=state.participants.get)]}
            elif command == "set":
                answer = info.store.set(*arguments)
            elif command == "get":
                answer = info.store.get(*arguments).decode()
            elif command == "has":
                answer = info.store.check(arguments)
            else:
                call = {"closed": handler.is_closed, "waiting": handler.num_nodes_waiting,
                        "close": handler.set_closed, "shutdown": handler.shutdown}[command]
                answer = call(*arguments)
            pipe.send(("answer", answer))
        except Exception as error:
            name = type(error).__name__
            pipe.send(("error", KINDS.get(name, name), str(error)))


class Run:
    """One run: makes nodes, and looks at the shared state past them. open_client() gives a store of PyTorch's.

    shared: rank 0's agent serves the workers' store, as is usual. PyTorch's agent tells where only once, so that
    another of its kind that comes later waits in vain; not shared, rank 0 tells it in every round.
    """

    def __init__(self, endpoint, open_client, run_id, undo, nodes, config, shared):
        self.endpoint = endpoint
        self.client = open_client
        self.run_id = run_id
        self.key = f"torch.rendezvous.{run_id}"
        self.nodes = nodes  # (min, max)
        self.config = config
        self._undo = undo
        self._environment = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "0" if shared else "1"}
        self._next_host = 1

    def ours(self, address=None, node_rank=None, environment=None):
        return self._keep(OurNode(self.endpoint, self.run_id, self.nodes, address or self._address(), self.config,
                                  node_rank, self._environment | (environment or {})))

    def torch(self, address=None):
        return self._keep(TorchNode(self.endpoint, self.run_id, self.nodes, address or self._address(), self.config,
                                    self._environment))

    def _address(self):
        # The whole of 127.0.0.0/8 is this machine; PyTorch's rank 0 serves on its address.
        self._next_host += 1
        return f"127.0.0.{self._next_host}"

    def _keep(self, node):
        self._undo.callback(node.close)
        return node

    def raw_state(self):
        return self.client().get(self.key)

    def state(self):
        """As PyTorch reads it; None before there is one."""
        text = self.raw_state()
        if text == c10d_rendezvous_backend.C10dRendezvousBackend._NULL_SENTINEL.encode():
            return None
        return pickle.loads(base64.b64decode(text, validate=True))


def eventually(question, limit_s=LIMIT_S, what=""):
    """Asks until the answer is not empty, and returns it."""
    deadline = time.monotonic() + limit_s
    while True:
        if answer := question():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what or question}")
        time.sleep(0.05)


def torchruns_order(nodes):
    """Nodes in the order of the ranks that torchrun gives."""
    return sorted(nodes, key=lambda node: (node.address, node.pid))


def store_answers(address, port):
    """Whether a worker of PyTorch can use the store there."""
    store = dist.TCPStore(address, port, is_master=False, timeout=timedelta(seconds=20))
    store.set("a worker's key", "its value")
    return store.get("a worker's key") == b"its value"


# --- a clock that is wrong ----------------------------------------------------------------------

# Straight to the kernel and not to the next clock_gettime: a sanitizer's own may not be ready yet.
_SHIFTED_CLOCK = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  const char* shift = getenv("TEST_CLOCK_SHIFT_S");
  if (result == 0 && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += atol(shift);
  return result;
}

int gettimeofday(struct timeval* now, void* zone) {
  struct timespec exact;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  if (out) *out = exact.tv_sec;
  return exact.tv_sec;
}
"""


def c_compiler():
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


@contextlib.contextmanager
def shifted_clock():
    """Yields a function from seconds to the environment in which a program's wall clock is shifted by them."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "clock.c", Path(folder) / "clock.so"
        source.write_text(_SHIFTED_CLOCK)
        subprocess.run([c_compiler(), "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        # The address sanitizer wants to be first of all libraries, for reasons that do not matter here.
        asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        yield lambda seconds: {"LD_PRELOAD": str(library), "TEST_CLOCK_SHIFT_S": str(seconds),
                               "ASAN_OPTIONS": asan.lstrip(":")}
