"""Nodes that hold a session with their coordinator: workers die, agents are killed at any moment, networks are cut.
Node A hosts the coordinator.

REGROUP_LOOPS says how often a node is killed and started again (20), REGROUP_SEED how (another one in every run)."""

import json
import os
import random
import re
import signal
import subprocess
import time
import unittest

from namespaces import Machine, connect
from run_support import LIMIT_S, Run, until
from store_support import BINARY
from test_coordinator import CoordinatorTest
from test_run import RunTest

LOOPS = int(os.environ.get("REGROUP_LOOPS", "20"))
SEED = int(os.environ.get("REGROUP_SEED", random.randrange(1 << 32)))

# Nothing here waits for a last call but those who begin a run that could be larger.
CONF = "last_call_timeout=1"


def pids(workers):
    return [one.pid for one in workers]


def look(endpoint, prefix=()):
    """The run as its coordinator tells it; None: there is no answer, or it is not known yet."""
    told = subprocess.run([*prefix, BINARY, "status", endpoint, "--run", "job", "--json"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S)
    return json.loads(told.stdout)["runs"][0] if told.returncode == 0 else None


def of_node(name, workers):
    return next(one for one in workers if one.node == name)


class Deaths(RunTest):
    def test_a_worker_of_b_dies(self):
        a, b = (self.node(name, "-n", "2", "--max-restarts", "1") for name in "AB")
        first = self.crew.complete(4)
        dead = of_node("B", first)
        os.kill(dead.pid, signal.SIGKILL)
        again = self.crew.complete(4, but=first)
        self.assertTrue(all(self.crew.got_sigterm(one) for one in first if one is not dead))
        self.assertEqual({one["TORCHELASTIC_RESTART_COUNT"] for one in again}, {"1"})
        self.assertEqual([one.node for one in again], [one.node for one in first])
        self.crew.order(0)
        self.assert_success(a, b)
        self.assertEqual(len(self.crew.starts()), 8)

    def test_an_agent_is_killed_and_comes_back(self):
        a, b = (self.node(name, nnodes="1:2", conf=CONF) for name in "AB")
        both = self.crew.complete(2)
        b.process.kill()
        (alone,) = self.crew.complete(1, but=both)
        self.assertEqual((alone.node, alone["TORCHELASTIC_RESTART_COUNT"]), ("A", "0"))
        self.assertTrue(self.crew.got_sigterm(of_node("A", both)))
        a.err.until("is gone: its connection was closed")
        self.assert_nobody_left(b)
        b = self.node("B", nnodes="1:2", conf=CONF)
        again = self.crew.complete(2, but=[*both, alone])
        self.assertEqual({(one.node, one["TORCHELASTIC_RESTART_COUNT"]) for one in again}, {("A", "0"), ("B", "0")})
        self.crew.order(0)
        self.assert_success(a, b)

    def test_a_host_that_is_not_let_in_again_stays_for_the_others(self):
        """It hosts their coordinator, which once went with it."""
        flags = ["--max-restarts", "3", "--node-strikes", "1", "--local-addr"]
        a = self.node("A", *flags, "127.0.0.1", nnodes="1:2", conf=CONF)
        b = self.node("B", *flags, "127.0.0.2", nnodes="1:2", conf=CONF)
        both = self.crew.complete(2)
        self.crew.order(7, to=of_node("A", both))
        (alone,) = self.crew.complete(1, but=both)
        self.assertEqual((alone.node, alone["TORCHELASTIC_RESTART_COUNT"]), ("B", "1"))
        a.err.until("stays until the other nodes have ended")
        self.crew.order(0)
        self.assert_success(b)
        code, _, err = a.finish()
        self.assertEqual(code, 7)
        self.assertIn("is not let in again (--node-strikes)", err)

    def test_a_spare_takes_the_place_and_another_is_not_needed(self):
        names = "ABCD"
        nodes = {name: self.node(name, nnodes="4") for name in names}
        first = self.crew.complete(4)
        for name in "EF":
            nodes[name] = self.node(name, nnodes="4")
            nodes[name].err.until("this node is a spare")
        self.assertEqual(pids(self.crew.complete(4)), pids(first))
        lost = nodes.pop("C")
        lost.process.kill()
        again = self.crew.complete(4, but=first)
        came = {one.node for one in again} - {*names}
        self.assertEqual({one.node for one in again}, {"A", "B", "D", *came})
        self.assertIn(came, ({"E"}, {"F"}))
        self.crew.order(0)
        self.assert_success(*nodes.values())
        self.assertEqual({one.node for one in self.crew.starts()}, {*names, *came})

    def test_every_node_tells_the_same_cause(self):
        for restarts in (1, 0):
            with self.subTest(restarts=restarts):
                nodes = [self.node(name, "-n", "2", "--max-restarts", restarts, nnodes="3") for name in "ABC"]
                first = self.crew.complete(6)
                # All others are stopped because of it, and end with a code of their own, which nobody may tell.
                self.crew.order(41, to=of_node("B", first))
                if restarts:
                    self.crew.complete(6, but=first)
                    self.crew.order(0)
                ends = [node.finish() for node in nodes]
                self.assertEqual([code for code, _, _ in ends], [0] * 3 if restarts else [73, 41, 73], ends)
                causes = [set(re.findall(r"rank \d+ on \S+ failed: [^;\n]*exit code 41", err)) for _, _, err in ends]
                self.assertEqual([len(cause) for cause in causes], [1, 1, 1], ends)
                self.assertEqual(len(set.union(*causes)), 1, ends)
                for file in self.crew.folder.iterdir():
                    file.unlink()

    def test_a_failure_that_is_seen_after_the_verdict_is_no_cause(self):
        """B's agent stands still while A's worker fails, the run ends because of it, and B's worker fails, too."""
        a, b = (self.node(name) for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        b.signal(signal.SIGSTOP)
        self.crew.order(41, to=workers["A"])
        self.assertTrue(until(lambda: (look(f"127.0.0.1:{self.port}") or {}).get("closed")))
        self.crew.order(42, to=workers["B"])
        self.assertTrue(until(lambda: not workers["B"].lives()))
        b.signal(signal.SIGCONT)
        ends = [node.finish() for node in (a, b)]
        self.assertEqual([code for code, _, _ in ends], [41, 73], ends)
        for _, _, err in ends:
            self.assertEqual(err.count("exit code 41"), 2 if "local rank" in err else 1, err)
            self.assertNotIn("exit code 42", err)

    def test_a_signal_to_the_host_leaves_the_others_alone(self):
        """The coordinator goes with its host. Workers that can do without the host's run on."""
        a, b = (self.node(name, nnodes="1:2", conf=CONF) for name in "AB")
        worker = of_node("B", self.crew.complete(2))
        a.signal(signal.SIGTERM)
        self.assertEqual(a.finish()[0], 143)
        b.err.until("the coordinator cannot be reached")
        self.crew.order(0)
        code, _, err = b.finish()
        self.assertEqual(code, 0, err)
        self.assertFalse(self.crew.got_sigterm(worker))
        self.assertEqual(len(self.crew.starts()), 2)


class Mistakes(CoordinatorTest):
    def test_a_run_that_was_begun_with_wrong_flags_may_be_begun_again(self):
        """At a coordinator that stays, under the same run id: it is the new flags that count."""
        self.coordinator()
        wrong = self.node(1, nnodes="3")
        wrong.err.until("1 of 3 nodes joined")
        wrong.signal(signal.SIGINT)
        self.assertEqual(wrong.finish()[0], 130)
        a, b = self.node(1), self.node(2)
        self.crew.complete(2)
        self.crew.order(0)
        self.assert_success(a, b)
        self.assertNotIn("other values", "\n".join(a.err.seen))


class Loops(RunTest):
    """Node B is killed by any signal at any moment and started again; node A runs on. The death of an agent costs no
    restart, and there are none to spend."""

    def test_one_may_run_without_the_other(self):
        self.kill_and_start_again("1:2", (LOOPS + 1) // 2)

    def test_one_waits_for_the_other(self):
        self.kill_and_start_again("2", LOOPS // 2)

    def kill_and_start_again(self, nnodes, loops):
        print(f"REGROUP_SEED={SEED} REGROUP_LOOPS={LOOPS}: {loops} loops with --nnodes {nnodes}", flush=True)
        dice = random.Random(f"{SEED} {nnodes}")
        a, b = (self.node(name, nnodes=nnodes, conf=CONF) for name in "AB")
        world = self.crew.complete(2)
        for loop in range(loops):
            stage = dice.choice(("runs", "any time", "has said hello", "workers start"))
            number = dice.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
            story = f"loop {loop}: killed by {number.name}, {stage}"
            if stage != "runs":
                self.kill(b, dice.choice((signal.SIGKILL, signal.SIGTERM)), story)
                b = self.node("B", nnodes=nnodes, conf=CONF)
                self.wait_for(stage, b, dice)
            self.kill(b, number, story)
            self.assertIsNone(a.process.poll(), (story, a.err.seen))
            b = self.node("B", nnodes=nnodes, conf=CONF)
            try:
                world = self.crew.complete(2, but=[one for one in world if one.node == "B"])
            except AssertionError as error:
                raise AssertionError(f"{story}: {error}: {a.err.seen} {b.err.seen}") from None
            self.assertEqual({one["TORCHELASTIC_RESTART_COUNT"] for one in world}, {"0"}, story)
            self.forget_the_dead()
        self.crew.order(0)
        self.assert_success(a, b)

    def wait_for(self, stage, b, dice):
        if stage == "any time":  # From before it has said anything until its workers run.
            time.sleep(dice.uniform(0, 0.2))
        elif stage == "has said hello":  # About to join, or joined, or already told that the round is sealed.
            self.assertTrue(until(lambda: len(look(f"127.0.0.1:{self.port}")["nodes"]) == 2))
        else:  # They have not come to their own first line, most of the time.
            self.assertTrue(until(b.workers))

    def kill(self, b, number, story):
        b.signal(number)
        code, _, err = b.finish()
        # A signal that comes before the agent is ready for it ends it as it ends any program.
        self.assertIn(code, (-number, 128 + number), (story, err))
        self.assert_nobody_left(b)

    def forget_the_dead(self):
        """Else every look at the workers reads more."""
        for one in self.crew.starts():
            if not one.lives():
                (self.crew.folder / f"start.{one.pid}.json").unlink()


class Cuts(RunTest):
    """Both nodes on machines of their own, and a network that loses everything for a while: no packet tells anybody."""

    PORT = 29400
    ADDRESSES = {"A": "10.1.0.1", "B": "10.1.0.2"}

    def setUp(self):
        super().setUp()
        self.machines = {name: self.enterContext(Machine(f"node-{name.lower()}")) for name in "AB"}
        connect(*self.machines.values(), "cable", *(f"{address}/24" for address in self.ADDRESSES.values()))
        self.endpoint = f"{self.ADDRESSES['A']}:{self.PORT}"

    def node_at(self, name, *flags):
        run = Run("--rdzv-backend", "c10d", "--rdzv-endpoint", self.endpoint, "--rdzv-id", "job", "--nnodes", "1:2",
                  "--rdzv-conf", CONF, *flags, *self.crew.command(),
                  env={"TMPDIR": str(self.temporary), "TEST_NODE": name})
        run.command = [*self.machines[name].prefix, *run.command]
        return self.enter(run)

    def cut(self):
        """What each sends goes to a card that is not there."""
        for name, other in ("AB", "BA"):
            self.machines[name].do("ip", "neigh", "replace", self.ADDRESSES[other], "lladdr", "02:00:00:00:00:77",
                                   "dev", "cable", "nud", "permanent")

    def mend(self):
        for name, other in ("AB", "BA"):
            self.machines[name].do("ip", "neigh", "del", self.ADDRESSES[other], "dev", "cable")

    def silence_of_b(self):
        nodes = look(self.endpoint, self.machines["A"].prefix)["nodes"]
        return next(one["silent_for"] for one in nodes if one["address"] == self.ADDRESSES["B"])

    def test_longer_than_the_limit(self):
        a, b = (self.node_at(name, "--heartbeat-limit", "2s") for name in "AB")
        both = self.crew.complete(2)
        self.cut()
        a.err.until("node-b is gone: nothing was heard for 2 s")
        alone = until(lambda: [one for one in self.crew.starts("A") if one.lives() and one["WORLD_SIZE"] == "1"])
        self.assertEqual([one["TORCHELASTIC_RESTART_COUNT"] for one in alone], ["0"])
        self.assertTrue(of_node("B", both).lives())  # Nobody could tell B.
        self.mend()
        b.err.until("this node was dropped from the round")
        again = self.crew.complete(2, but=[*both, *alone])
        self.assertEqual({(one.node, one["TORCHELASTIC_RESTART_COUNT"]) for one in again}, {("A", "0"), ("B", "0")})
        self.crew.order(0)
        self.assert_success(a, b)

    def test_shorter_than_the_limit(self):
        a, b = (self.node_at(name, "--heartbeat-limit", "12s") for name in "AB")
        both = self.crew.complete(2)
        self.cut()
        self.assertTrue(until(lambda: self.silence_of_b() > 5))  # A ping was due after 4.
        self.mend()
        self.assertTrue(until(lambda: self.silence_of_b() < 4))
        self.assertEqual(pids(self.crew.complete(2)), pids(both))
        self.crew.order(0)
        self.assert_success(a, b)
        self.assertEqual(len(self.crew.starts()), 2)


if __name__ == "__main__":
    unittest.main()
