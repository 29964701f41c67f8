"""Who is started again, and what the workers are told of it: torchrun and `regroup run`, told the same story.

Every node is on this machine. What is compared are the restart counts that the workers of each node have seen, one
after the other. A change of members that nobody asked for (a heartbeat that a loaded machine has delayed) starts
workers once more with the count that they had: that one changes nothing here."""

import concurrent.futures
import contextlib
import tempfile
import unittest
from pathlib import Path

import torch_support  # noqa: F401  Sets PyTorch's environment before it is imported.
from rendezvous_cli_support import reserved_port
from run_support import Crew
from torchrun_support import SIDES, Server

CONF = "keep_alive_interval=10,keep_alive_max_attempt=6,last_call_timeout=1"


def setUpModule():
    Server.get()


class Story:
    """A run of one side while it is told."""

    def __init__(self, side, stack):
        self.side, self.stack = side, stack
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.crew = Crew(stack.enter_context(tempfile.TemporaryDirectory()))
        self.port = stack.enter_context(reserved_port())
        self.nodes = {}

    def node(self, name, *flags):
        self.nodes[name] = self.stack.enter_context(self.side(
            self.folder / name, *flags, *self.crew.command(), env={"TEST_NODE": name}))

    def node_of_c10d(self, name, *flags, nnodes="2"):
        if self.side is not SIDES[0]:
            flags = ("--restart-policy", "torchrun", *flags)  # Else ours are counted for the whole run.
        host = "true" if name == "A" else "false"
        self.node(name, "--nnodes", nnodes, "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{self.port}",
                  "--rdzv-id", "job", "--rdzv-conf", f"is_host={host},{CONF}", *flags)

    def node_of_static(self, name, rank, *flags):
        self.node(name, "--nnodes", "2", "--node-rank", rank, "--master-port", self.port, *flags)

    def fail(self, worker, count):
        """One fails; waits until a whole new world of so many is there."""
        before = self.crew.complete(count)
        self.crew.order(3, to=next(one for one in before if one.node == worker[0] and one["LOCAL_RANK"] == worker[1]))
        return self.crew.complete(count, but=before)

    def end(self, *names):
        return [self.nodes[name].finish() for name in names or self.nodes]

    def counts(self):
        """Node -> the restart counts that its workers were told, each once, the first one first."""
        return {name: list(dict.fromkeys(one["TORCHELASTIC_RESTART_COUNT"] for one in self.crew.starts(name)))
                for name in self.nodes}

    def maximum(self):
        return {one["TORCHELASTIC_MAX_RESTARTS"] for one in self.crew.starts()}


def both(story):
    """What it gives for each side, both told at once."""
    def tell(side):
        with contextlib.ExitStack() as stack:
            return story(Story(side, stack))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(tell, SIDES))


class OneNode(unittest.TestCase):
    def assert_both(self, story, expected):
        self.assertEqual(both(story), [expected, expected])

    def test_every_worker_of_the_node_is_started_again(self):
        def story(run):
            run.node("A", "--nproc-per-node", 3, "--max-restarts", 2)
            run.fail(("A", "1"), 3)
            last = run.fail(("A", "2"), 3)
            run.crew.order(0)
            (outcome,) = run.end()
            starts = [one["TORCHELASTIC_RESTART_COUNT"] for one in run.crew.starts()]
            return outcome.code, run.counts(), run.maximum(), sorted(starts), [one["RANK"] for one in last]

        self.assert_both(story, (0, {"A": ["0", "1", "2"]}, {"2"}, sorted("012" * 3), ["0", "1", "2"]))

    def test_a_budget_that_is_spent(self):
        def story(run):
            run.crew.order(3)
            run.node("A", "--max-restarts", 2)
            (outcome,) = run.end()
            return outcome.code, [one["TORCHELASTIC_RESTART_COUNT"] for one in run.crew.starts()]

        self.assert_both(story, (1, ["0", "1", "2"]))

    def test_no_budget(self):
        def story(run):
            run.crew.order(3)
            run.node("A")
            (outcome,) = run.end()
            return outcome.code, run.counts(), run.maximum()

        self.assert_both(story, (1, {"A": ["0"]}, {"0"}))

    def test_a_variable_gives_the_budget(self):
        def story(run):
            run.crew.order(0, to="restart1")
            run.crew.order(3, to="restart0")
            run.nodes["A"] = run.stack.enter_context(run.side(
                run.folder / "A", *run.crew.command(), env={"TEST_NODE": "A", "PET_MAX_RESTARTS": "1"}))
            (outcome,) = run.end()
            return outcome.code, run.counts(), run.maximum()

        self.assert_both(story, (0, {"A": ["0", "1"]}, {"1"}))


class TwoNodes(unittest.TestCase):
    def assert_both(self, story, expected):
        self.assertEqual(both(story), [expected, expected])

    def test_a_failure_costs_its_own_node_a_restart_and_the_other_none(self):
        def story(run):
            for name in "AB":
                run.node_of_c10d(name, "--nproc-per-node", 2, "--max-restarts", 2)
            run.fail(("B", "1"), 4)
            run.crew.order(0)
            return [outcome.code for outcome in run.end()], run.counts(), run.maximum()

        self.assert_both(story, ([0, 0], {"A": ["0"], "B": ["0", "1"]}, {"2"}))

    def test_failures_in_turn(self):
        def story(run):
            for name in "AB":
                run.node_of_c10d(name, "--max-restarts", 3)
            for name in "BABB":
                run.fail((name, "0"), 2)
            run.crew.order(0)
            return [outcome.code for outcome in run.end()], run.counts()

        self.assert_both(story, ([0, 0], {"A": ["0", "1"], "B": ["0", "1", "2", "3"]}))

    def test_each_node_has_its_own_budget(self):
        def story(run):
            run.node_of_c10d("A", "--max-restarts", 1)
            run.node_of_c10d("B", "--max-restarts", 4)
            for name in "BAB":
                run.fail((name, "0"), 2)
            run.crew.order(0)
            return ([outcome.code for outcome in run.end()], run.counts(),
                    {one.node: one["TORCHELASTIC_MAX_RESTARTS"] for one in run.crew.starts()})

        self.assert_both(story, ([0, 0], {"A": ["0", "1"], "B": ["0", "1", "2"]}, {"A": "1", "B": "4"}))

    def test_static_nodes_do_not_hear_of_each_other_s_restarts(self):
        def story(run):
            for rank, name in enumerate("AB"):
                run.node_of_static(name, rank, "--max-restarts", 2)
            before = {one.node: one for one in run.crew.complete(2)}
            run.crew.order(3, to=before["B"])
            after = {one.node: one for one in run.crew.complete(2, but=[before["B"]])}
            run.crew.order(0)
            return ([outcome.code for outcome in run.end()], run.counts(), before["A"].pid == after["A"].pid,
                    [after[name]["RANK"] for name in "AB"])

        self.assert_both(story, ([0, 0], {"A": ["0"], "B": ["0", "1"]}, True, ["0", "1"]))

    def test_a_budget_that_is_spent(self):
        # torchrun's other node runs on as if nothing had happened, until its own workers fail; ours ends with the run.
        def story(run):
            run.node_of_c10d("A", "--max-restarts", 2)
            run.node_of_c10d("B", "--max-restarts", 1)
            last = run.fail(("B", "0"), 2)
            mine, its = (next(one for one in last if one.node == name) for name in "AB")
            run.crew.order(3, to=its)
            (b,) = run.end("B")
            runs_on = run.side is SIDES[0]
            if runs_on:
                run.crew.order(3, to=mine)
            (a,) = run.end("A")
            return b.code, a.code, run.counts()["B"], run.crew.got_sigterm(mine)

        theirs, ours = both(story)
        self.assertEqual(theirs, (1, 1, ["0", "1"], False))
        self.assertEqual(ours, (1, 1, ["0", "1"], True))


if __name__ == "__main__":
    unittest.main()
