"""`regroup coordinator` and `regroup status`, with nodes and workers of real runs."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import unittest
import unittest.mock
from pathlib import Path

from run_support import Crew, LIMIT_S, Run, reserved_port, until
from store_support import BINARY, Lines, RegroupServer


class Coordinator(RegroupServer):
    """`regroup coordinator`, until the block ends."""

    COMMAND = "coordinator"

    def kill(self):
        self.process.kill()
        self.process.wait(LIMIT_S)


def regroup(*arguments):
    return subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S)


class CoordinatorTest(unittest.TestCase):
    """With a port that stays the same, and a crew."""

    def setUp(self):
        self.temporary = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.crew = Crew(self.enterContext(tempfile.TemporaryDirectory()))
        self.port = self.enterContext(reserved_port())
        self.endpoint = f"127.0.0.1:{self.port}"
        self.undo = self.enterContext(contextlib.ExitStack())  # Agents end before the directories do.

    def coordinator(self, *flags):
        return self.undo.enter_context(Coordinator(*flags, port=self.port))

    def node(self, number, *flags, run_id="job", nnodes="2", command=None, env=None):
        """A node whose name is its address: the ranks are in the order of the numbers."""
        return self.undo.enter_context(Run(
            "--rdzv-backend", "c10d", "--rdzv-endpoint", self.endpoint, "--rdzv-id", run_id, "--nnodes", nnodes,
            "--local-addr", f"127.0.0.{number}", "--rdzv-conf", "is_host=false", *flags,
            *(self.crew.command() if command is None else command),
            env={"TMPDIR": str(self.temporary), "TEST_NODE": str(number), **(env or {})}))

    def look(self, run_id="job"):
        """The run, as a program is told of it."""
        told = regroup("status", self.endpoint, "--run", run_id, "--json")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertEqual(told.stdout.count("\n"), 1)
        (run,) = json.loads(told.stdout)["runs"]
        return run

    def seen(self, condition, run_id="job"):
        """The run, once it is as it should be. It may not be known yet."""
        def look():
            told = regroup("status", self.endpoint, "--run", run_id, "--json")
            if told.returncode != 0:
                return None
            (run,) = json.loads(told.stdout)["runs"]
            return run if condition(run) else None
        run = until(look)
        self.assertIsNotNone(run, regroup("status", self.endpoint).stdout)
        return run

    def assert_success(self, *runs):
        for run in runs:
            code, _, err = run.finish()
            self.assertEqual(code, 0, err)


def members(run):
    return [(node["rank"], node["name"]) for node in run["nodes"]
            if node["place"] == "member" and node["connected"]]


BOTH = [(0, "127.0.0.1"), (1, "127.0.0.2")]


class Groups(CoordinatorTest):
    """Only whole groups of nodes are in a round."""

    def grouped(self, number, group, nnodes="2:4"):
        return self.node(number, "--segment", "2", "--topology-key", group, "--max-restarts", "1", nnodes=nnodes)

    def test_a_spare_of_the_group_takes_the_place_of_a_lost_node(self):
        self.coordinator()
        a, b = (self.grouped(number, "left", nnodes="2") for number in (1, 2))
        first = self.crew.complete(2)
        c = self.grouped(3, "right", nnodes="2")  # Came first, but its group is not whole.
        self.seen(lambda run: len(run["nodes"]) == 3)
        d = self.grouped(4, "left", nnodes="2")
        run = self.seen(lambda run: len(run["nodes"]) == 4)
        self.assertEqual((run["segment"], [node["group"] for node in run["nodes"]]),
                         (2, ["left", "left", "right", "left"]))
        self.assertIn("2 of 2 nodes, in groups of 2, 2 spares", regroup("status", self.endpoint).stdout)
        b.process.kill()
        self.crew.complete(2, but=first)
        run = self.seen(lambda run: run["round"] == 1 and len(members(run)) == 2)
        self.assertEqual(members(run), [(0, "127.0.0.1"), (1, "127.0.0.4")])
        self.crew.order(0)
        self.assert_success(a, c, d)

    def test_a_group_that_is_broken_is_out_until_it_is_whole(self):
        self.coordinator()
        a, b = self.grouped(1, "left"), self.grouped(2, "left")
        c, d = self.grouped(3, "right"), self.grouped(4, "right")
        first = self.crew.complete(4)
        d.process.kill()
        second = self.crew.complete(2, but=first)
        run = self.seen(lambda run: len(members(run)) == 2)
        self.assertEqual(members(run), BOTH)
        self.seen(lambda run: [node["name"] for node in run["nodes"] if node["place"] == "spare"] == ["127.0.0.3"])
        e = self.grouped(5, "right")
        self.crew.complete(4, but=first + second)
        run = self.seen(lambda run: len(members(run)) == 4)
        self.assertEqual([node["group"] for node in run["nodes"]], ["left", "left", "right", "right"])
        self.crew.order(0)
        self.assert_success(a, b, c, e)

    def test_what_cannot_be_is_said(self):
        for flags, why in ((["--segment", "2"], "Pass --topology-key"),
                           (["--segment", "0", "--topology-key", "x"], "a number of nodes, 1 or more"),
                           (["--segment", "3", "--topology-key", "x"], "must be multiples of it; it is 2:4")):
            code, _, err = self.node(1, *flags, nnodes="2:4").finish()
            self.assertEqual(code, 2, err)
            self.assertIn(why, err)
        self.coordinator()
        self.grouped(1, "left")
        self.seen(lambda run: run["nodes"])
        code, _, err = self.node(2, nnodes="2:4").finish()
        self.assertNotEqual(code, 0)
        self.assertIn("does not say which is its own (--topology-key)", err)


class Status(CoordinatorTest):
    def test_shows_the_nodes_of_a_run(self):
        self.coordinator()
        a, b = self.node(1, "--max-restarts", "3", "-n", "2"), self.node(2, "--max-restarts", "3", "-n", "2")
        self.crew.complete(4)
        run = self.look()
        self.assertEqual((run["round"], run["sealed"], run["closed"], run["restarts"], run["max_restarts"]),
                         (0, True, False, 0, 3))
        self.assertEqual(members(run), BOTH)
        self.assertEqual([(node["address"], node["workers"], node["has_session"]) for node in run["nodes"]],
                         [("127.0.0.1", 2, True), ("127.0.0.2", 2, True)])
        told = regroup("status", self.endpoint)
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertEqual(told.stdout.split("\n"), [
            "run 'job', round 0: runs",
            "  2 of 2 nodes; restarts: 0 of 3",
            "  rank  node       address    place   workers  connection",
            "  0     127.0.0.1  127.0.0.1  member  2        connected",
            "  1     127.0.0.2  127.0.0.2  member  2        connected",
            ""])
        self.crew.order(0)
        self.assert_success(a, b)
        over = self.look()
        self.assertEqual((over["closed"], over["succeeded"]), (True, True))
        self.assertEqual(regroup("status", self.endpoint).stdout, "run 'job', round 0: has succeeded\n")

    def test_says_who_is_missing_and_why_workers_were_started_again(self):
        self.coordinator()
        self.node(1, "--max-restarts", "1", nnodes="1:2")
        run = self.seen(lambda run: members(run) or run["awaited"])
        self.assertIn("1 of 1..2 nodes joined", run["awaited"])
        self.assertIn("  awaited: round 0: 1 of 1..2 nodes joined; last call ends in ",
                      regroup("status", self.endpoint).stdout)
        self.node(2, "--max-restarts", "1", nnodes="1:2")
        first = self.crew.complete(2)
        self.crew.order(7, to=first[1])
        self.crew.complete(2, but=first)
        run = self.seen(lambda run: members(run) == BOTH and run["restarts"] == 1)
        self.assertIn("exit code 7", run["last_verdict"])
        text = regroup("status", self.endpoint).stdout
        self.assertIn("2 of 1..2 nodes; restarts: 1 of 1", text)
        self.assertRegex(text, r"\n  last verdict: .*exit code 7")

    def test_runs_at_one_coordinator_are_apart(self):
        self.coordinator()
        for run_id in ("one", "two"):
            self.node(1, run_id=run_id, nnodes="1")
        for run_id in ("one", "two"):
            self.assertEqual(members(self.seen(members, run_id)), [(0, "127.0.0.1")])
        heads = re.findall(r"^run .*$", regroup("status", self.endpoint).stdout, re.M)
        self.assertEqual(heads, ["run 'one', round 0: runs", "run 'two', round 0: runs"])
        told = regroup("status", self.endpoint, "--run", "two")
        self.assertEqual(re.findall(r"^run .*$", told.stdout, re.M), ["run 'two', round 0: runs"])
        unknown = regroup("status", self.endpoint, "--run", "three")
        self.assertEqual((unknown.returncode, unknown.stdout), (1, ""))
        self.assertEqual(unknown.stderr, f"regroup: no run 'three' at {self.endpoint}; there are 'one', 'two'\n")

    def test_of_a_coordinator_without_runs(self):
        self.coordinator()
        told = regroup("status", self.endpoint)
        self.assertEqual((told.returncode, told.stdout), (0, f"no run has come to {self.endpoint} yet\n"))
        told = regroup("status", self.endpoint, "--run", "job", "--json")
        self.assertEqual((told.returncode, told.stdout), (1, ""))
        self.assertIn("no run has come there yet", told.stderr)


class NoCoordinator(unittest.TestCase):
    def assert_fails(self, endpoint, pattern, *flags, code=1):
        told = regroup("status", endpoint, *flags)
        self.assertEqual((told.returncode, told.stdout), (code, ""))
        self.assertRegex(told.stderr, rf"^regroup: {pattern}.*\n$")

    def test_nobody_listens(self):
        with reserved_port() as port:
            for flags in ((), ("--watch",), ("--json",)):
                self.assert_fails(f"127.0.0.1:{port}", rf"nobody answers at 127\.0\.0\.1:{port}: .*refused\. "
                                                       "Is the coordinator running", *flags)

    def test_a_plain_store(self):
        with RegroupServer() as server:
            self.assert_fails(f"127.0.0.1:{server.port}",
                              rf"the server at 127\.0\.0\.1:{server.port} is a plain store: only runs of regroup "
                              "have a status")

    def something_else(self, answer):
        """A port that says this to everybody, or nothing."""
        listener = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        undo = self.enterContext(contextlib.ExitStack())

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection = undo.enter_context(listener.accept()[0])
                    if answer:
                        connection.sendall(answer)
        thread = threading.Thread(target=serve)
        thread.start()
        # Closing does not wake who accepts.
        undo.callback(thread.join, LIMIT_S)
        undo.callback(listener.shutdown, socket.SHUT_RDWR)
        return listener.getsockname()[1]

    def test_a_port_that_speaks_something_else(self):
        port = self.something_else(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
        self.assert_fails(f"127.0.0.1:{port}", rf"no coordinator at 127\.0\.0\.1:{port}: .*Something else listens")

    def test_a_port_that_says_nothing(self):
        port = self.something_else(b"")
        self.assert_fails(f"127.0.0.1:{port}", rf"no coordinator at 127\.0\.0\.1:{port}: .*does not answer",
                          "--timeout", "0.1")

    def test_wrong_flags(self):
        for arguments in ((), ("127.0.0.1:0",), ("127.0.0.1:70000",), ("127.0.0.1:1", "--interval", "0"),
                          ("127.0.0.1:1", "--timeout", "x"), ("127.0.0.1:1", "--wach"), ("127.0.0.1:1", "more")):
            told = regroup("status", *arguments)
            self.assertEqual((told.returncode, told.stdout), (2, ""), arguments)
            self.assertRegex(told.stderr, r"^regroup: .*See 'regroup status --help'\.\n$")
        for arguments in (("--port", "-1"), ("--max-runs", "0"), ("--hots", "::"), ("keys",)):
            told = regroup("coordinator", *arguments)
            self.assertEqual((told.returncode, told.stdout), (2, ""), arguments)
            self.assertRegex(told.stderr, r"^regroup: .*See 'regroup coordinator --help'\.\n$")


class Serving(CoordinatorTest):
    def test_started_again_while_workers_run(self):
        first = self.coordinator()
        a, b = self.node(1, "--max-restarts", "3"), self.node(2, "--max-restarts", "3")
        workers = self.crew.complete(2)
        before = self.look()
        first.kill()
        self.coordinator()
        after = self.seen(lambda run: members(run) == BOTH)
        self.assertEqual([worker.pid for worker in self.crew.complete(2)], [worker.pid for worker in workers])
        self.assertEqual((after["round"], after["sealed"], after["awaited"], after["restarts"]),
                         (before["round"], True, "", 0))
        os.kill(workers[1].pid, signal.SIGKILL)
        again = self.crew.complete(2, but=workers)
        self.assertEqual({worker["TORCHELASTIC_RESTART_COUNT"] for worker in again}, {"1"})
        run = self.seen(lambda run: members(run) == BOTH and run["restarts"] == 1)
        self.assertEqual(run["round"], before["round"] + 1)
        self.assertIn("SIGKILL", run["last_verdict"])
        self.crew.order(0)
        self.assert_success(a, b)
        self.assertEqual(len(self.crew.starts()), 4)

    def test_asked_to_stop_it_stays_until_the_run_has_ended(self):
        coordinator = self.coordinator()
        a, b = self.node(1), self.node(2)
        self.crew.complete(2)
        coordinator.process.terminate()
        coordinator.err.until(r"Terminated from process \d+: stays until 2 nodes in 1 run under way have said goodbye; "
                              "a second signal ends it at once")
        self.assertEqual(members(self.look()), BOTH)  # Whoever looks is answered, and is not waited for.
        self.assertIsNone(coordinator.process.poll())
        self.crew.order(0)
        self.assert_success(a, b)
        self.assertEqual(coordinator.process.wait(LIMIT_S), 0)
        self.assertRegex("\n".join(coordinator.err.rest()), "stopping, every node has said goodbye$")
        self.assertFalse(coordinator.port_file.exists())

    def test_nodes_that_are_killed_are_not_waited_for(self):
        coordinator = self.coordinator()
        a = self.node(1, nnodes="1")
        self.crew.complete(1)
        coordinator.process.terminate()
        coordinator.err.until("stays until 1 node in 1 run under way has said goodbye")
        a.process.kill()
        self.assertEqual(coordinator.process.wait(LIMIT_S), 0)
        self.assertRegex("\n".join(coordinator.err.rest()), "every node has said goodbye, or is gone$")

    def test_a_second_signal_ends_it_at_once(self):
        coordinator = self.coordinator()
        a, b = self.node(1), self.node(2)
        workers = self.crew.complete(2)
        coordinator.process.send_signal(signal.SIGINT)
        coordinator.err.until("stays until 2 nodes")
        coordinator.process.send_signal(signal.SIGINT)
        self.assertEqual(coordinator.process.wait(LIMIT_S), 0)
        coordinator.err.until("2 nodes lose their coordinator, the workers run on")
        self.coordinator()
        self.seen(lambda run: members(run) == BOTH)
        self.assertEqual([worker.pid for worker in self.crew.complete(2)], [worker.pid for worker in workers])
        self.crew.order(0)
        self.assert_success(a, b)

    def test_without_runs_it_ends_when_it_is_asked_to(self):
        coordinator = self.coordinator("--stats")
        self.assertEqual(int(coordinator.port_file.read_text()), self.port)
        coordinator.process.terminate()
        self.assertEqual(coordinator.process.wait(LIMIT_S), 0)
        self.assertEqual(coordinator.out.rest(), [f"listening on {self.endpoint}"])
        last = coordinator.err.rest()[-3:]
        for line, pattern in zip(last, ("coordinator: stopping, Terminated", "store: clients 0 now",
                                        "coordinator: sessions 0 now")):
            self.assertIn(pattern, line)

    def test_counters(self):
        coordinator = self.coordinator()
        self.node(1, nnodes="1")
        self.crew.complete(1)
        coordinator.process.send_signal(signal.SIGUSR1)
        coordinator.err.until(r"info store: clients \d+ now")
        coordinator.err.until(r"info coordinator: sessions 1 now, 1 ever; runs under way 1, nodes 1; "
                              r"messages in [1-9]\d*, out [1-9]\d*;")

    def test_a_taken_port(self):
        with RegroupServer() as store:
            told = regroup("coordinator", "--port", store.port)
            self.assertEqual(told.returncode, 2)
            self.assertIn(f"127.0.0.1:{store.port}", told.stderr)


class Secret(CoordinatorTest):
    def secret(self, name, text="what the nodes of the job know\n", mode=0o600):
        file = self.temporary / name
        file.write_text(text)
        file.chmod(mode)
        return ["--rdzv-secret-file", str(file)]

    def status(self, *flags):
        return regroup("status", self.endpoint, *flags)

    def assert_fails(self, told, code, pattern):
        self.assertEqual((told.returncode, told.stdout), (code, ""))
        self.assertRegex(told.stderr, pattern)
        self.assertEqual(told.stderr.count("\n"), 1)

    def test_nodes_that_know_it_meet_and_recover(self):
        ours = self.secret("ours")
        self.coordinator(*ours)
        a, b = (self.node(number, "--max-restarts", "3", *ours) for number in (1, 2))
        workers = self.crew.complete(2)
        os.kill(workers[1].pid, signal.SIGKILL)
        self.crew.complete(2, but=workers)
        self.assertRegex(self.status(*ours).stdout, "127.0.0.2")
        self.crew.order(0)
        self.assert_success(a, b)

    def test_a_node_with_another_or_none_is_told_so(self):
        ours = self.secret("ours")
        coordinator = self.coordinator(*ours, "--stats")
        for flags, pattern in ((self.secret("another", "what nobody else knows"), "the secret is not the coordinator's"),
                               ((), "this coordinator wants a secret: --rdzv-secret-file")):
            code, out, err = self.node(1, *flags).finish()
            self.assertEqual((code, out), (71, ""), err)
            self.assertIn(pattern, err)
            coordinator.err.until(f"warning coordinator: refused 127.0.0.1:[0-9]+: {pattern}")
        self.assertEqual(self.crew.starts(), [])
        coordinator.process.terminate()
        self.assertEqual(coordinator.process.wait(LIMIT_S), 0)
        self.assertIn("refused 2", coordinator.err.rest()[-1])

    def test_a_node_with_one_wants_no_coordinator_without(self):
        self.coordinator()
        code, _, err = self.node(1, *self.secret("ours")).finish()
        self.assertEqual(code, 71)
        self.assertIn("this coordinator has no secret, this node has one (--rdzv-secret-file)", err)

    def test_a_node_with_one_wants_no_plain_store(self):
        with RegroupServer() as store:
            self.endpoint = f"127.0.0.1:{store.port}"
            code, _, err = self.node(1, *self.secret("ours")).finish()
            self.assertEqual(code, 71)
            self.assertIn("is no coordinator of regroup and knows no secret (--rdzv-secret-file)", err)

    def test_a_coordinator_that_comes_back_with_another_is_not_heeded(self):
        self.comes_back(self.secret("another", "what nobody else knows"), "the secret is not the coordinator's")

    def test_a_coordinator_that_comes_back_without_is_not_heeded(self):
        self.comes_back([], "this coordinator has no secret, this node has one")

    def comes_back(self, flags, why):
        """The workers run on to their end, and nobody is told to stop them."""
        ours = self.secret("ours")
        first = self.coordinator(*ours)
        a, b = self.node(1, *ours), self.node(2, *ours)
        workers = self.crew.complete(2)
        first.kill()
        second = self.coordinator(*flags)
        for _ in range(2):
            second.err.until(f"refused 127.0.0.1:[0-9]+: {why}")
        self.assertEqual([worker.pid for worker in self.crew.complete(2)], [worker.pid for worker in workers])
        self.crew.order(0)
        for run in (a, b):
            code, _, err = run.finish()
            self.assertEqual((code, err.count(why)), (0, 1), err)
        self.assertEqual(len(self.crew.starts()), 2)

    def test_status(self):
        ours = self.secret("ours")
        self.coordinator(*ours)
        self.assertEqual(self.status(*ours).returncode, 0)
        self.assert_fails(self.status(), 1, "this coordinator wants a secret: --rdzv-secret-file")
        self.assert_fails(self.status(*self.secret("another", "what nobody else knows")), 1,
                          "the secret is not the coordinator's")

    def test_by_a_variable(self):
        file = self.secret("ours")[1]
        variable = {"PET_RDZV_SECRET_FILE": file}
        with unittest.mock.patch.dict(os.environ, variable):
            self.coordinator()
            self.assertEqual(self.status().returncode, 0)
        self.assert_fails(self.status(), 1, "wants a secret")
        run = self.node(1, nnodes="1", env=variable)
        self.crew.complete(1)
        self.crew.order(0)
        self.assert_success(run)
        with unittest.mock.patch.dict(os.environ, {"PET_RDZV_SECRET_FILE": ""}):  # Set from what is not set, say.
            self.assert_fails(regroup("coordinator", "--port", "0"), 2, "PET_RDZV_SECRET_FILE: the secret file")

    def test_a_file_that_is_wrong_is_told_before_anything_starts(self):
        missing = str(self.temporary / "missing")
        short = self.secret("short", "x")[1]
        node = ["run", "--rdzv-backend", "c10d", "--rdzv-endpoint", self.endpoint, "--rdzv-secret-file"]
        for file, pattern in ((missing, "No such file"), (short, "1 bytes"), (str(self.temporary), "no regular file"),
                              ("", "cannot be read")):
            for command in (["status", self.endpoint, "--rdzv-secret-file", file],
                            ["coordinator", "--port", self.port, "--rdzv-secret-file", file],
                            [*node, file, "train.py"], [*node, file, "--dry-run", "train.py"]):
                with self.subTest(command[0], file=file):
                    self.assert_fails(regroup(*command), 2, f"--rdzv-secret-file: the secret file .*{pattern}")
        ours = self.secret("ours")
        self.assert_fails(regroup("run", "--rdzv-backend", "static", "--rdzv-endpoint", self.endpoint, *ours, "x.py"),
                          2, "--rdzv-secret-file needs a coordinator")
        for conf in ("session=false", "store_type=file"):
            told = regroup("run", "--rdzv-backend", "c10d", "--rdzv-endpoint", self.endpoint, "--rdzv-conf", conf, *ours,
                           "x.py")
            self.assertEqual(told.returncode, 2, told.stderr)
            self.assertIn("needs a session with a coordinator", told.stderr)

    def test_dry_run_names_the_file(self):
        told = regroup("run", "--dry-run", *self.secret("ours"), "--no-python", "true")
        self.assertRegex(told.stdout, "secret: +in .*ours")

    def test_a_file_that_others_may_read_is_warned_of(self):
        ours = self.secret("ours", mode=0o644)
        coordinator = self.coordinator(*ours)
        coordinator.err.until("ours' is open to other users of this machine; 'chmod 600' closes it")
        self.assertIn("chmod 600", self.status(*ours).stderr)
        run = self.node(1, *ours, nnodes="1")
        self.crew.complete(1)
        self.crew.order(0)
        code, _, err = run.finish()
        self.assertEqual((code, err.count("chmod 600")), (0, 1), err)


class Watching(CoordinatorTest):
    def watch(self, *flags):
        process = subprocess.Popen([BINARY, "status", self.endpoint, "--watch", "--interval", "0.2", *flags],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.undo.callback(process.wait, LIMIT_S)
        self.undo.callback(process.kill)
        process.out, process.err = Lines(process.stdout), Lines(process.stderr)
        return process

    def assert_ends_quietly(self, process):
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT_S), 0)
        process.out.rest()
        return process.err.rest()

    def test_a_coordinator_that_goes_away_and_comes_back(self):
        first = self.coordinator()
        self.node(1, nnodes="1")
        (worker,) = self.crew.complete(1)
        watch = self.watch("--run", "job")
        for _ in range(2):
            self.assertEqual(watch.out.next(), "run 'job', round 0: runs")
            watch.out.until("^  0  .*connected$")
            self.assertEqual(watch.out.next(), "")
        first.kill()
        watch.err.until(r"^regroup: .*Trying again\.$")
        self.coordinator()
        while watch.out.next() != "run 'job', round 0: runs":
            pass
        watch.out.until("^  0  .*connected$")
        self.assertEqual(len(self.assert_ends_quietly(watch)), 1)  # Said once, however often it was tried.
        self.assertTrue(worker.lives())

    def test_as_json(self):
        self.coordinator()
        self.node(1, nnodes="1")
        self.crew.complete(1)
        watch = self.watch("--json")
        for _ in range(2):
            self.assertEqual(json.loads(watch.out.next())["runs"][0]["run_id"], "job")
        self.assertEqual(self.assert_ends_quietly(watch), [])

    def test_on_a_terminal_the_last_look_is_replaced(self):
        self.coordinator()
        self.node(1, nnodes="1")
        self.crew.complete(1)
        master, slave = pty.openpty()
        self.undo.callback(os.close, master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 44, 0, 0))
        process = subprocess.Popen([BINARY, "status", self.endpoint, "--watch", "--interval", "0.2"], stdin=slave,
                                   stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"})
        self.undo.callback(process.wait, LIMIT_S)
        self.undo.callback(process.kill)
        os.close(slave)
        text = ""
        while text.count("\x1b[J") < 4:
            text += os.read(master, 65536).decode()
        looks = [look.replace("\r", "") for look in text.split("\x1b[J")[1:3]]
        self.assertEqual(looks[0].count("\n"), 4)
        self.assertTrue(looks[0].endswith("\x1b[4A"), looks)  # Up to where it began.
        self.assertEqual(looks[0], looks[1])
        lines = looks[0].split("\n")[:-1]
        self.assertEqual(lines[0], "run 'job', round 0: runs")
        self.assertLessEqual(max(map(len, lines)), 44)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(LIMIT_S), 0)


if __name__ == "__main__":
    unittest.main()
