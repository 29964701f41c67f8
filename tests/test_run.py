"""`regroup run` as its users meet it: nodes that meet, fail, come and go, each a process of its own."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from run_support import Crew, LIMIT_S, QUICK, Run, reserved_port, until
from store_support import BINARY

# torchrun's workers have them.
VARIABLES = {"RANK", "LOCAL_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE", "GROUP_RANK",
             "GROUP_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
             "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
             "TORCHELASTIC_ERROR_FILE", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS"}


class RunTest(unittest.TestCase):
    """With a directory for temporary files, a crew, and an endpoint for several nodes."""

    def setUp(self):
        self.temporary = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.crew = Crew(self.enterContext(tempfile.TemporaryDirectory()))
        self.undo = self.enterContext(contextlib.ExitStack())  # Agents end before the directories do.
        self.port = None

    def run_alone(self, *arguments, env=None, **popen):
        return self.enter(Run(*arguments, env={"TMPDIR": str(self.temporary), **(env or {})}, **popen))

    def enter(self, run):
        return self.undo.enter_context(run)

    def node(self, name, *flags, nnodes="2", conf="", command=None, host=None, env=None):
        """A node of the run, over c10d. Node A hosts the store, whoever is first."""
        if self.port is None:
            self.port = self.undo.enter_context(reserved_port())
        host = name == "A" if host is None else host
        conf = ",".join(filter(None, [f"is_host={str(host).lower()}", conf]))
        return self.enter(Run("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}", "--rdzv-id",
                              "job", "--nnodes", nnodes, "--rdzv-conf", conf, *flags,
                              *(self.crew.command() if command is None else command),
                              env={"TMPDIR": str(self.temporary), "TEST_NODE": name, **(env or {})}))

    def assert_success(self, *runs):
        for run in runs:
            code, _, err = run.finish()
            self.assertEqual(code, 0, err)
        self.assert_nobody_left(*runs)

    def assert_nobody_left(self, *runs):
        for run in runs:
            self.assertTrue(until(lambda: not run.alive()), "somebody of the run lives on")

    def assert_no_temporaries(self):
        self.assertEqual(list(self.temporary.iterdir()), [])


class OneNode(RunTest):
    def test_without_flags(self):
        self.crew.order(0)
        run = self.run_alone(*self.crew.command())
        code, out, err = run.finish()
        self.assertEqual((code, out, err), (0, "", ""))
        (one,) = self.crew.starts()
        self.assertEqual(VARIABLES - set(one.environment), set())
        expected = {"RANK": "0", "LOCAL_RANK": "0", "ROLE_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
                    "ROLE_WORLD_SIZE": "1", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "default",
                    "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
                    "TORCHELASTIC_USE_AGENT_STORE": "True"}
        self.assertEqual({name: one[name] for name in expected}, expected)
        self.assertGreater(int(one["MASTER_PORT"]), 0)
        self.assert_no_temporaries()
        self.assert_nobody_left(run)

    def test_ten_at_once(self):
        self.crew.order(0)
        runs = [self.run_alone("-n", "2", *self.crew.command()) for _ in range(10)]
        self.assert_success(*runs)
        self.assertEqual(len(self.crew.starts()), 20)
        self.assert_no_temporaries()

    def test_ranks_of_several_workers(self):
        self.run_alone("-n", "3", "--role", "trainer", "--max-restarts", "4", *self.crew.command())
        workers = self.crew.complete(3)
        self.assertEqual([one["LOCAL_RANK"] for one in workers], ["0", "1", "2"])
        self.assertEqual({one["ROLE_NAME"] for one in workers}, {"trainer"})
        self.assertEqual({one["TORCHELASTIC_MAX_RESTARTS"] for one in workers}, {"4"})
        self.assertEqual(len({(one["MASTER_ADDR"], one["MASTER_PORT"], one["TORCHELASTIC_RUN_ID"])
                              for one in workers}), 1)


class Restarts(RunTest):
    def counts(self):
        return [one["TORCHELASTIC_RESTART_COUNT"] for one in self.crew.starts()]

    def test_as_long_as_the_budget_lasts(self):
        for restart, code in enumerate((5, 6, 0)):
            self.crew.order(code, to=f"restart{restart}")
        run = self.run_alone("--max-restarts", "2", *self.crew.command())
        code, _, err = run.finish()
        self.assertEqual(code, 0, err)
        self.assertEqual(self.counts(), ["0", "1", "2"])
        for code in (5, 6):
            self.assertEqual(err.count(f" failed: ended with exit code {code}"), 1, err)
        self.assert_no_temporaries()
        self.assert_nobody_left(run)

    def test_everybody_of_the_node_is_started_again(self):
        self.crew.order(0, to="restart1")
        run = self.run_alone("-n", "3", "--max-restarts", "1", *self.crew.command())
        first = self.crew.complete(3)
        self.crew.order(9, to=first[1])
        self.assert_success(run)
        self.assertEqual(sorted(self.counts()), ["0"] * 3 + ["1"] * 3)
        self.assertTrue(self.crew.got_sigterm(first[0]) and self.crew.got_sigterm(first[2]))

    def test_the_grace_holds_after_a_failure_too(self):
        """Without any the others are killed, and not asked first."""
        self.crew.order(0, to="restart1")
        run = self.run_alone("-n", "2", "--max-restarts", "1", "--shutdown-timeout", "0",
                             *self.crew.command("stubborn"))
        first = self.crew.complete(2)
        self.crew.order(9, to=first[1])
        self.assert_success(run)
        self.assertFalse(self.crew.got_sigterm(first[0]))

    def test_a_spent_budget(self):
        self.crew.order(5, to="restart0")
        self.crew.order(6, to="restart1")
        run = self.run_alone("--max-restarts", "1", *self.crew.command())
        code, _, err = run.finish()
        self.assertEqual(code, 6, err)
        self.assertEqual(self.counts(), ["0", "1"])
        for failed in (5, 6):
            self.assertEqual(err.count(f" failed: ended with exit code {failed}"), 1, err)
        self.assert_nobody_left(run)

    def test_the_line_about_a_restart_names_the_exception(self):
        """What a worker writes last comes just before its end, and through a pipe that somebody else reads."""
        script = self.temporary / "late.py"
        script.write_text("import os\nif os.environ['TORCHELASTIC_RESTART_COUNT'] != '3': raise RuntimeError('late')\n")
        runs = [self.run_alone("--max-restarts", "3", "--nproc-per-node", "2", script) for _ in range(3)]
        for run in runs:
            code, _, err = run.finish()
            self.assertEqual(code, 0, err)
            told = [line for line in err.splitlines() if line.startswith("regroup:") and "; restart" in line]
            self.assertEqual(len(told), 3, err)
            for line in told:
                self.assertIn("RuntimeError: late", line)

    def test_many(self):
        self.crew.order(0, to="restart20")
        self.crew.order(5)
        self.assert_success(self.run_alone("--max-restarts", "20", *self.crew.command()))
        self.assertEqual(self.counts(), [str(restart) for restart in range(21)])
        self.assert_no_temporaries()

    def test_the_exit_code_of_torchrun(self):
        self.crew.order(6)
        code, _, err = self.run_alone("--exit-code", "torchrun", *self.crew.command()).finish()
        self.assertEqual(code, 1, err)
        self.assertEqual(err.count(" failed: ended with exit code 6"), 1, err)

    def test_the_exit_code_of_torchrun_is_not_that_of_a_bad_start(self):
        self.crew.order(2)
        code, _, err = self.run_alone("--exit-code", "torchrun", *self.crew.command()).finish()
        self.assertEqual(code, 1, err)


class TwoNodes(RunTest):
    def assert_one_place(self, workers):
        self.assertEqual(len({(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in workers}), 1)
        self.assertEqual({one["TORCHELASTIC_RUN_ID"] for one in workers}, {"job"})

    def test_ranks_over_both(self):
        a, b = self.node("A", "-n", "2"), self.node("B", "-n", "2")
        workers = self.crew.complete(4)
        self.assert_one_place(workers)
        self.assertEqual([one["GROUP_RANK"] for one in workers], ["0", "0", "1", "1"])
        self.assertEqual([one["LOCAL_RANK"] for one in workers], ["0", "1", "0", "1"])
        self.assertEqual({one["GROUP_WORLD_SIZE"] for one in workers}, {"2"})
        self.assertEqual({one.node for one in workers}, {"A", "B"})
        self.crew.order(0)
        self.assert_success(a, b)
        self.assertEqual(len(self.crew.starts()), 4)
        self.assert_no_temporaries()

    def test_different_numbers_of_workers_and_roles(self):
        a, b = self.node("A", "-n", "2", "--role", "reader"), self.node("B", "-n", "3", "--role", "trainer")
        workers = self.crew.complete(5)
        self.assert_one_place(workers)
        for node, role, size in (("A", "reader", 2), ("B", "trainer", 3)):
            mine = [one for one in workers if one.node == node]
            self.assertEqual([one["LOCAL_RANK"] for one in mine], [str(rank) for rank in range(size)])
            self.assertEqual([one["ROLE_RANK"] for one in mine], [str(rank) for rank in range(size)])
            self.assertEqual({(one["ROLE_NAME"], one["ROLE_WORLD_SIZE"], one["LOCAL_WORLD_SIZE"]) for one in mine},
                             {(role, str(size), str(size))})
        self.crew.order(0)
        self.assert_success(a, b)

    def test_one_role_over_both(self):
        a, b = self.node("A", "-n", "2"), self.node("B", "-n", "3")
        workers = self.crew.complete(5)
        self.assertEqual([one["ROLE_RANK"] for one in workers], list("01234"))
        self.assertEqual({one["ROLE_WORLD_SIZE"] for one in workers}, {"5"})
        self.crew.order(0)
        self.assert_success(a, b)

    def fail_on_b(self, *flags):
        """A worker of B fails once; what the workers of both are told of it."""
        a, b = (self.node(name, "-n", "2", "--max-restarts", "1", *flags) for name in "AB")
        first = self.crew.complete(4)
        self.crew.order(9, to=next(one for one in first if one.node == "B"))
        again = self.crew.complete(4, but=first)
        self.assert_one_place(again)
        self.crew.order(0)
        self.assert_success(a, b)
        self.assertEqual(len(self.crew.starts()), 8)
        return ({(one.node, one["TORCHELASTIC_RESTART_COUNT"]) for one in again},
                *("\n".join(one.err.seen) for one in (a, b)))

    def test_a_failure_on_one_restarts_both_and_both_name_it(self):
        counts, a, b = self.fail_on_b()
        self.assertEqual(counts, {("A", "1"), ("B", "1")})
        for told in (a, b):
            self.assertRegex(told, r"rank \d on \S+ failed: ended with exit code 9; restart 1 of 1")

    def test_a_failure_costs_the_one_if_each_counts_its_own(self):
        counts, a, b = self.fail_on_b("--restart-policy", "torchrun")
        self.assertEqual(counts, {("A", "0"), ("B", "1")})
        self.assertRegex(b, r"exit code 9; restart 1 of 1")
        self.assertRegex(a, r"rank \d on \S+ failed: ended with exit code 9: joining the next round")

    def test_failures_on_different_nodes_spend_one_budget(self):
        nodes = {name: self.node(name, "--max-restarts", "2", nnodes="3") for name in "ABC"}
        before = []
        for count, name in enumerate("ABC"):
            now = self.crew.complete(3, but=before)
            self.assertEqual({one["TORCHELASTIC_RESTART_COUNT"] for one in now}, {str(count)})
            self.crew.order(9, to=next(one for one in now if one.node == name))
            before += now
        for name, run in nodes.items():
            code, _, err = run.finish()
            self.assertEqual(code, 9 if name == "C" else 73, err)
            self.assertRegex(err, r"rank 2 on \S+ failed: ended with exit code 9")
        self.assertEqual(len(self.crew.starts()), 9)

    def test_failures_in_turn_each_cost_their_own_node(self):
        a, b = (self.node(name, "--max-restarts", "1", "--restart-policy", "torchrun") for name in "AB")
        before = []
        for name in "AB":
            now = self.crew.complete(2, but=before)
            self.crew.order(9, to=next(one for one in now if one.node == name))
            before += now
        last = self.crew.complete(2, but=before)
        self.assertEqual({one["TORCHELASTIC_RESTART_COUNT"] for one in last}, {"1"})
        self.crew.order(0)
        self.assert_success(a, b)

    def test_a_budget_spent_on_one_ends_both(self):
        a, b = (self.node(name, "-n", "2") for name in "AB")
        first = self.crew.complete(4)
        failing = next(one for one in first if one.node == "B")
        self.crew.order(9, to=failing)
        code, _, err = b.finish()
        self.assertEqual(code, 9, err)
        self.assertEqual(err.count(" failed: ended with exit code 9"), 1, err)
        code, _, err = a.finish()
        self.assertEqual(code, 73, err)
        self.assertEqual(err.count("the run has failed on another node"), 1, err)
        self.assertRegex(err, rf"rank {failing.rank} on \S+ failed: .*exit code 9")
        self.assert_nobody_left(a, b)
        self.assertEqual(len(self.crew.starts()), 4)

    def test_a_budget_spent_on_the_host_ends_both(self):
        a, b = (self.node(name) for name in "AB")
        first = self.crew.complete(2)
        self.crew.order(9, to=next(one for one in first if one.node == "A"))
        code, _, err = a.finish()
        self.assertEqual(code, 9, err)
        code, _, err = b.finish()
        self.assertEqual(code, 73, err)
        self.assertIn("exit code 9", err)
        self.assert_nobody_left(a, b)

    def test_a_budget_spent_on_one_ends_all_three(self):
        nodes = [self.node(name, nnodes="3") for name in "ABC"]
        workers = {one.node: one for one in self.crew.complete(3)}
        self.crew.order(9, to=workers["B"])
        ends = [node.finish() for node in nodes]
        self.assertEqual([code for code, _, _ in ends], [73, 9, 73], ends)
        for _, _, err in ends:
            self.assertIn("exit code 9", err)

    def test_nobody_goes_before_all_have_heard_of_the_failure(self):
        """C begins to look a little later than the others, since it has many to start. If the host of the store went
        as soon as it had heard, C would never hear, and its workers would run on."""
        for _ in range(4):
            a, b = (self.node(name, nnodes="3") for name in "AB")
            c = self.node("C", "-n", "100", "--no-python", nnodes="3", command=["sleep", "1000"])
            self.assertTrue(until(lambda: len(c.workers()) == 100))
            workers = until(lambda: len(living := {one.node: one for one in self.crew.starts() if one.lives()}) == 2
                            and living)
            self.crew.order(9, to=workers["B"])
            ends = [run.finish(30) for run in (a, b, c)]
            self.assertEqual([code for code, _, _ in ends], [73, 9, 73], ends)
            self.assert_nobody_left(a, b, c)

    def test_a_budget_spent_where_the_workers_meet(self):
        """Rank 0 serves the round's store, in which the others look for what became of it."""
        a, b = self.node("A"), self.node("B", "--node-rank", "0")
        workers = self.crew.complete(2)
        self.assertEqual(workers[0].node, "B")
        self.crew.order(9, to=workers[0])
        code, _, err = b.finish()
        self.assertEqual(code, 9, err)
        code, _, err = a.finish()
        self.assertEqual(code, 73, err)
        self.assertIn("exit code 9", err)

    def test_one_waits_for_the_other_at_the_end(self):
        a, b = (self.node(name) for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        self.crew.order(0, to=workers["A"])
        until(lambda: not workers["A"].lives())
        self.assertIsNone(a.process.poll())
        self.crew.order(0, to=workers["B"])
        self.assert_success(a, b)
        self.assertEqual(len(self.crew.starts()), 2)

    def test_a_node_that_fails_after_the_other_has_succeeded(self):
        """The one that is done waits at the end, is not started again, and tells why the run has failed."""
        a, b = (self.node(name) for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        self.crew.order(0, to=workers["A"])
        until(lambda: not workers["A"].lives())
        self.crew.order(9, to=workers["B"])
        code, _, err = b.finish()
        self.assertEqual(code, 9, err)
        code, _, err = a.finish()
        self.assertEqual(code, 73, err)
        self.assertRegex(err, r"the run has failed on another node: rank 1 on \S+ failed: ended with exit code 9")
        self.assertEqual(err.count("exit code 9"), 1, err)
        self.assert_nobody_left(a, b)

    def test_a_restart_after_the_other_has_succeeded(self):
        """Workers that begin again need all the others: those that were done begin again with them."""
        a, b = (self.node(name, "--max-restarts", "1") for name in "AB")
        first = self.crew.complete(2)
        workers = {one.node: one for one in first}
        self.crew.order(0, to=workers["A"])
        until(lambda: not workers["A"].lives())
        self.crew.order(9, to=workers["B"])
        again = self.crew.complete(2, but=first)
        self.assertEqual({one["TORCHELASTIC_RESTART_COUNT"] for one in again}, {"1"})
        self.crew.order(0)
        self.assert_success(a, b)
        for run in (a, b):
            told = [line for line in run.err.seen if "exit code 9" in line]
            self.assertEqual(len(told), 1, told)
            self.assertRegex(told[0], r"rank 1 on \S+ failed: ended with exit code 9; restart 1 of 1")
        self.assert_nobody_left(a, b)

    def test_failures_on_both_at_once(self):
        a, b = (self.node(name, "-n", "2", "--max-restarts", "1") for name in "AB")
        first = self.crew.complete(4)
        for one in first:
            self.crew.order(9, to=one)
        again = self.crew.complete(4, but=first)
        # Whoever hears of the other's failure before his own workers fail is not charged.
        self.assertIn("1", {one["TORCHELASTIC_RESTART_COUNT"] for one in again})
        self.crew.order(0)
        self.assert_success(a, b)

    def test_a_spent_budget_ends_a_node_that_waits_to_start_again(self):
        """Both fail at once, as they do when one takes the other with it: the run fails once, of one cause."""
        a, b = (self.node(name) for name in "AB")
        self.crew.complete(2)
        self.crew.order(9, to="restart0")
        codes = []
        for run in (a, b):
            code, _, err = run.finish()
            codes.append(code)
            self.assertRegex(err, r"rank \d on \S+ failed: ended with exit code 9")
        self.assertIn(9, codes)
        self.assertLessEqual(set(codes), {9, 73})
        self.assert_nobody_left(a, b)

    def test_other_restarts_than_the_run_s_are_warned_of(self):
        a = self.node("A", "--max-restarts", "3", nnodes="1:2")
        self.crew.complete(1)
        b = self.node("B", nnodes="1:2")
        b.err.until("other values than the run's first, which count: --max-restarts")
        self.crew.order(0)
        self.assert_success(a, b)

    def test_a_replacement_that_does_not_come(self):
        a, b = (self.node(name, "--rejoin-timeout", "1s") for name in "AB")
        self.crew.complete(2)
        os.kill(b.pid, signal.SIGKILL)
        code, _, err = a.finish()
        self.assertEqual(code, 71, err)
        self.assertRegex(err, r"did not meet within 1 s \(--rejoin-timeout\): round 1: 1 of 2 nodes joined")

    def test_a_failure_after_the_coordinator_is_gone(self):
        a, b = (self.node(name) for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        os.kill(a.pid, signal.SIGKILL)
        until(lambda: not workers["A"].lives())
        self.crew.order(9, to=workers["B"])
        code, _, err = b.finish()
        self.assertEqual(code, 9, err)

    def test_a_warning_of_one_node_reaches_the_workers_of_all(self):
        command = [*self.crew.command(), "stubborn"]
        a, b = (self.node(name, "--preempt-signal", "SIGTERM", command=command) for name in "AB")
        workers = self.crew.complete(2)
        os.kill(b.pid, signal.SIGTERM)
        for one in workers:
            self.assertTrue(until(lambda one=one: self.crew.got_sigterm(one)), one)
        a.err.until("SIGTERM came to .*: handed on to the workers")
        self.crew.order(0)
        self.assert_success(a, b)

    def test_an_exit_code_that_is_not_started_again(self):
        a, b = (self.node(name, "--max-restarts", "3", "--no-restart-codes", "9") for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        self.crew.order(9, to=workers["B"])
        for run, expected in ((b, 9), (a, 73)):
            code, _, err = run.finish()
            self.assertEqual(code, expected, err)
            self.assertIn("not started again: exit code 9", err)
            self.assertNotIn("restart 1", err)

    def test_the_host_is_gone(self):
        """Workers go on without the store of the rendezvous, and what they do counts."""
        a, b = (self.node(name, nnodes="1:2", conf=f"{QUICK},close_timeout=2") for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        os.kill(a.pid, signal.SIGKILL)
        until(lambda: not workers["A"].lives())
        self.crew.order(0)
        code, _, err = b.finish()
        self.assertEqual(code, 0, err)
        self.assert_nobody_left(a, b)

    def test_static_ranks(self):
        with reserved_port() as port:
            runs = [self.run_alone("--nnodes", "2", "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port",
                                   port, "-n", "2", *self.crew.command(), env={"TEST_NODE": str(rank)})
                    for rank in (1, 0)]
            workers = self.crew.complete(4)
            self.assertEqual([one.node for one in workers], ["0", "0", "1", "1"])
            self.assertEqual([one["GROUP_RANK"] for one in workers], ["0", "0", "1", "1"])
            self.assertEqual({(one["MASTER_ADDR"], one["MASTER_PORT"]) for one in workers},
                             {("127.0.0.1", str(port))})
            self.crew.order(0)
            self.assert_success(*runs)
        self.assert_no_temporaries()

    def test_static_ranks_and_a_failure(self):
        with reserved_port() as port:
            runs = [self.run_alone("--nnodes", "2", "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port",
                                   port, *self.crew.command(), env={"TEST_NODE": str(rank)}) for rank in (0, 1)]
            workers = self.crew.complete(2)
            self.crew.order(9, to=workers[1])
            code, _, err = runs[1].finish()
            self.assertEqual(code, 9, err)
            code, _, err = runs[0].finish()
            self.assertEqual(code, 73, err)
            self.assertIn("exit code 9", err)


    def test_static_ranks_and_a_restart(self):
        with reserved_port() as port:
            runs = [self.run_alone("--nnodes", "2", "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port",
                                   port, "--max-restarts", "1", *self.crew.command(), env={"TEST_NODE": str(rank)})
                    for rank in (0, 1)]
            first = self.crew.complete(2)
            self.crew.order(9, to=first[1])
            again = self.crew.complete(2, but=[first[1]])
            self.assertEqual([one.node for one in again], ["0", "1"])
            self.assertEqual(again[1]["TORCHELASTIC_RESTART_COUNT"], "1")
            self.crew.order(0)
            self.assert_success(*runs)


class Members(RunTest):
    """Nodes come and go."""

    def test_a_node_that_dies_is_dropped(self):
        a = self.node("A", "-n", "2", nnodes="1:2", conf=QUICK)
        b = self.node("B", "-n", "2", nnodes="1:2", conf=QUICK)
        both = self.crew.complete(4)
        os.kill(b.pid, signal.SIGKILL)
        alone = self.crew.complete(2, but=both)
        self.assertEqual({(one.node, one["TORCHELASTIC_RESTART_COUNT"]) for one in alone}, {("A", "0")})
        self.assert_nobody_left(b)
        self.crew.order(0)
        self.assert_success(a)

    def test_rank_0_dies(self):
        """With it the round's store."""
        a = self.node("A", nnodes="1:2", conf=QUICK)
        b = self.node("B", "--node-rank", "0", nnodes="1:2", conf=QUICK)
        both = until(lambda: (now := self.crew.complete(2))[0].node == "B" and now)
        os.kill(b.pid, signal.SIGKILL)
        (alone,) = self.crew.complete(1, but=both)
        self.assertEqual((alone.node, alone["TORCHELASTIC_RESTART_COUNT"]), ("A", "0"))
        self.crew.order(0)
        self.assert_success(a)

    def test_a_third_comes(self):
        nodes = [self.node(name, nnodes="1:3", conf=QUICK) for name in "AB"]
        two = self.crew.complete(2)
        nodes.append(self.node("C", nnodes="1:3", conf=QUICK))
        three = self.crew.complete(3, but=two)
        self.assertEqual({one["TORCHELASTIC_RESTART_COUNT"] for one in three}, {"0"})
        self.assertEqual({one["GROUP_WORLD_SIZE"] for one in three}, {"3"})
        self.assertEqual({one.node for one in three}, {"A", "B", "C"})
        self.assertTrue(all(self.crew.got_sigterm(one) for one in two))
        self.crew.order(0)
        self.assert_success(*nodes)
        self.assert_no_temporaries()

    def test_spares_are_not_needed(self):
        """Several, since each may or may not have looked when the host goes."""
        a = self.node("A", nnodes="1:1")
        first = self.crew.complete(1)
        spares = [self.node(name, nnodes="1:1") for name in "BCDE"]
        for spare in spares:
            spare.err.until("this node is a spare")
        self.assertEqual([one.pid for one in self.crew.complete(1)], [one.pid for one in first])
        self.crew.order(0)
        self.assert_success(a, *spares)
        self.assertEqual({one.node for one in self.crew.starts()}, {"A"})

    def test_a_spare_takes_the_place_of_one_who_has_died(self):
        a, b = (self.node(name, conf=QUICK) for name in "AB")
        two = self.crew.complete(2)
        c = self.node("C", conf=QUICK)
        c.err.until("this node is a spare")
        os.kill(b.pid, signal.SIGKILL)
        again = self.crew.complete(2, but=two)
        self.assertEqual({one.node for one in again}, {"A", "C"})
        self.crew.order(0)
        self.assert_success(a, c)

    def test_workers_that_cannot_be_started_end_their_own_node_only(self):
        a = self.node("A")
        b = self.node("B", "--no-python", command=["/no/such/program"])
        code, _, err = b.finish()
        self.assertEqual(code, 72, err)
        self.assertEqual(err.count("cannot start '/no/such/program'"), 1, err)
        a.err.until("1 of 2 nodes joined")
        self.assertIsNone(a.process.poll())
        self.assertNotIn("/no/such/program", "\n".join(a.err.seen))
        c = self.node("C")
        self.crew.complete(2)
        self.crew.order(0)
        self.assert_success(a, c)


class LateNodes(RunTest):
    def test_one_that_comes_when_another_is_done_makes_nobody_run_again(self):
        a, b = (self.node(name, nnodes="2:3", conf=QUICK) for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        self.crew.order(0, to=workers["B"])
        self.assertTrue(until(lambda: not workers["B"].lives()))
        c = self.node("C", nnodes="2:3", conf=QUICK)
        c.err.until("round 0: other nodes are done, and this node comes in only if a worker fails")
        self.crew.order(0, to=workers["A"])
        self.assert_success(a, b, c)
        self.assertEqual(len(self.crew.starts()), 2)


class Signals(RunTest):
    def test_a_node_that_is_stopped_may_come_back(self):
        a, b = (self.node(name, "-n", "2") for name in "AB")
        first = self.crew.complete(4)
        b.signal(signal.SIGTERM)
        code, _, err = b.finish()
        self.assertEqual(code, 143, err)
        self.assertNotIn("failed:", err)
        self.assertTrue(all(self.crew.got_sigterm(one) for one in first if one.node == "B"))
        self.assert_nobody_left(b)
        self.assertIsNone(a.process.poll())
        b = self.node("B", "-n", "2")
        again = self.crew.complete(4, but=first)
        self.assertEqual({one["TORCHELASTIC_RESTART_COUNT"] for one in again}, {"0"})
        self.crew.order(0)
        self.assert_success(a, b)

    def test_of_both_nodes_at_once(self):
        a, b = (self.node(name, "-n", "2") for name in "AB")
        self.crew.complete(4)
        for run in (a, b):
            run.signal(signal.SIGINT)
        for run in (a, b):
            code, _, err = run.finish()
            self.assertEqual(code, 130, err)
        self.assert_nobody_left(a, b)

    def test_a_run_that_cannot_be_closed_holds_nobody_up(self):
        """The store is gone, and closing has a limit of its own."""
        a, b = (self.node(name, nnodes="1:2", conf=f"{QUICK},close_timeout=1000") for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        os.kill(a.pid, signal.SIGKILL)
        until(lambda: not workers["A"].lives())
        self.crew.order(0)
        code, _, err = b.finish(30)
        self.assertEqual(code, 0, err)

    def test_while_waiting_for_others(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number.name):
                a = self.node("A")
                a.err.until("1 of 2 nodes joined")
                a.signal(number)
                found, _, err = a.finish()
                self.assertEqual(found, code, err)
                self.assert_nobody_left(a)
                self.assertEqual(self.crew.starts(), [])
                self.assert_no_temporaries()

    def test_while_nobody_hosts(self):
        b = self.node("B")
        b.err.until("waiting for the store")
        b.signal(signal.SIGINT)
        code, _, err = b.finish()
        self.assertEqual(code, 130, err)

    def test_the_second_kills(self):
        run = self.run_alone("-n", "2", "--shutdown-timeout", "1000", *self.crew.command("stubborn"))
        workers = self.crew.complete(2)
        run.signal(signal.SIGTERM)
        self.assertTrue(until(lambda: all(map(self.crew.got_sigterm, workers))))
        self.assertIsNone(run.process.poll())
        run.signal(signal.SIGINT)
        code, _, err = run.finish()
        self.assertEqual(code, 143, err)
        self.assert_nobody_left(run)

    def test_a_doubled_one_leaves_the_grace(self):
        """GNU timeout signals its child, and then the child's group."""
        run = self.run_alone("--shutdown-timeout", "1000", *self.crew.command("stubborn"))
        self.crew.complete(1)
        begun = time.monotonic()
        run.signal(signal.SIGTERM)
        run.err.until("SIGTERM from .*: stopping; once more, after a second, kills the workers")
        run.signal(signal.SIGTERM)
        told = run.err.until("SIGTERM from .*(taken for the same|killing)")
        took = time.monotonic() - begun
        self.crew.order(0)
        code, _, err = run.finish()
        self.assertEqual(code, 143, err)
        if took > 1:
            self.skipTest("this machine is too busy to send two signals within a second")
        self.assertEqual(told.group(1), "taken for the same", err)

    def test_one_that_reaches_the_workers_too_is_no_failure(self):
        """Ctrl-C and Slurm signal all processes, and the launcher may be the last to look."""
        run = self.run_alone("-n", "2", "--max-restarts", "3", *self.crew.command())
        first = self.crew.complete(2)
        run.signal(signal.SIGSTOP)
        for one in first:
            os.kill(one.pid, signal.SIGTERM)
        self.assertTrue(until(lambda: not any(one.lives() for one in first)))
        run.signal(signal.SIGTERM)
        run.signal(signal.SIGCONT)
        code, _, err = run.finish()
        self.assertEqual(code, 143, err)
        self.assertNotIn("failed", err)
        self.assertNotIn("restart", err)
        self.assertEqual(len(self.crew.starts()), 2)

    def test_one_that_reaches_a_worker_alone_is_a_failure(self):
        run = self.run_alone("-n", "2", "--max-restarts", "3", *self.crew.command())
        first = self.crew.complete(2)
        os.kill(first[0].pid, signal.SIGTERM)
        run.err.until("rank 0 on .* failed: .*; restart 1 of 3")
        self.crew.complete(2, but=first)
        self.crew.order(0)
        self.assertEqual(run.finish()[0], 0)

    def test_while_waiting_at_the_end(self):
        a, b = (self.node(name) for name in "AB")
        workers = {one.node: one for one in self.crew.complete(2)}
        self.crew.order(0, to=workers["B"])
        until(lambda: not workers["B"].lives())
        b.signal(signal.SIGTERM)
        code, _, err = b.finish()
        self.assertEqual(code, 143, err)
        self.assertIsNone(a.process.poll())

    def test_workers_do_not_outlive_a_killed_agent(self):
        run = self.run_alone("-n", "2", *self.crew.command())
        self.crew.complete(2)
        os.kill(run.pid, signal.SIGKILL)
        self.assert_nobody_left(run)


class NoMeeting(RunTest):
    def test_nobody_else_comes(self):
        code, _, err = (a := self.node("A", conf="join_timeout=2")).finish()
        self.assertEqual(code, 71, err)
        self.assertIn("the nodes did not meet within 2 s (join_timeout)", err)
        self.assertEqual(self.crew.starts(), [])
        self.assert_nobody_left(a)
        self.assert_no_temporaries()

    def test_nobody_hosts(self):
        code, _, err = self.node("B", conf="join_timeout=2").finish()
        self.assertEqual(code, 71, err)
        self.assertIn("(join_timeout)", err)
        self.assertIn(f"127.0.0.1:{self.port}", err)

    def test_with_torchrun_s_exit_code(self):
        code, _, err = self.node("A", "--exit-code", "torchrun", conf="join_timeout=1").finish()
        self.assertEqual(code, 1, err)


class Logs(RunTest):
    def setUp(self):
        super().setUp()
        self.logs = self.temporary / "logs"

    def attempts(self):
        (run,) = self.logs.iterdir()
        return sorted(path.name for path in run.iterdir())

    def test_each_restart_has_its_own(self):
        self.crew.order(5, to="restart0")
        self.crew.order(0, to="restart1")
        code, _, err = self.run_alone("-n", "2", "--max-restarts", "1", "--log-dir", self.logs, "-r", "3",
                                      *self.crew.command()).finish()
        self.assertEqual(code, 0, err)
        self.assertEqual(self.attempts(), ["attempt_0", "attempt_1"])
        (run,) = self.logs.iterdir()
        for attempt in ("attempt_0", "attempt_1"):
            for rank in "01":
                self.assertTrue((run / attempt / rank / "stdout.log").exists(), f"{attempt}/{rank}")

    def test_a_restart_for_nothing_keeps_what_was_written(self):
        a = self.node("A", "--log-dir", self.logs, "-r", "3", nnodes="1:2", conf=QUICK)
        alone = self.crew.complete(1)
        b = self.node("B", nnodes="1:2", conf=QUICK)
        self.crew.complete(2, but=alone)
        self.assertEqual(self.attempts(), ["attempt_0", "attempt_0.1"])
        self.crew.order(0)
        self.assert_success(a, b)
        self.assertEqual(self.attempts(), ["attempt_0", "attempt_0.1"])


class Stuck(RunTest):
    # Until its child ends or becomes another program, who called vfork() is in state D.
    SCRIPT = "import ctypes; libc = ctypes.CDLL(None); libc.vfork() == 0 and libc.sleep(1000)"

    def test_a_worker_that_the_kernel_does_not_let_go_has_failed(self):
        script = self.temporary / "stuck.py"
        script.write_text(self.SCRIPT)
        run = self.run_alone("--evidence", "never", script, env={"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT": "0.3"})
        code, _, err = run.finish()
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"rank 0 on \S+ failed: the kernel has not let it go for \d+ s \(state D")
        self.assert_nobody_left(run)

    def test_a_limit_that_is_none_is_not_looked_at(self):
        self.crew.order(0)
        for limit in ("0", "-1", "soon", ""):
            self.assert_success(self.run_alone(*self.crew.command(),
                                               env={"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT": limit}))


class ErrorFiles(RunTest):
    """What whoever has launched us finds in the file that he named."""

    def left_by(self, *arguments, script="", env=None):
        file, program = self.temporary / "ours.json", self.temporary / "program.py"
        program.write_text(script)
        words = [str(program) if word == "SCRIPT" else word for word in arguments]
        code, _, err = self.run_alone(*words, env={"TORCHELASTIC_ERROR_FILE": str(file), **(env or {})}).finish()
        self.assertNotEqual(code, 0, err)
        return json.loads(file.read_text()) if file.exists() else None

    def test_an_exception_of_a_script_run_by_its_path(self):
        message = self.left_by("--run-path", "SCRIPT", script="raise ValueError('ä')")["message"]
        self.assertEqual((message["message"], message["errorCode"]), ("ValueError: ä", 1))
        self.assertTrue(message["extraInfo"]["timestamp"].isdigit())
        self.assertIn("program.py", message["extraInfo"]["py_callstack"])

    def test_an_exit_of_a_script_run_by_its_path_leaves_none(self):
        self.assertIsNone(self.left_by("--run-path", "SCRIPT", script="import sys; sys.exit(7)"))

    def test_everything_in_a_worker_s_file_is_passed_on(self):
        script = """import os
open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write('{"message": {"message": "gone", "x": [1]}, "y": {}}')
os._exit(7)
"""
        self.assertEqual(self.left_by("SCRIPT", script=script),
                         {"message": {"message": "gone", "x": [1], "errorCode": 7}, "y": {}})

    def test_a_failure_that_is_no_worker_s(self):
        message = self.left_by("--no-python", "/nowhere/at/all")["message"]["message"]
        self.assertIn("/nowhere/at/all", message)
        message = self.left_by("--nproc-per-node", "many", "SCRIPT")["message"]["message"]
        self.assertIn("--nproc-per-node=", message)


class Flags(RunTest):
    def assert_refused(self, *arguments, says, env=None):
        run = self.run_alone(*arguments, env=env)
        code, out, err = run.finish()
        self.assertEqual((code, out), (2, ""), err)
        self.assertTrue(err.startswith("regroup: "), err)
        self.assertEqual(err.count("\n"), 0, err)
        self.assertIn(says, err)
        self.assertEqual(self.crew.starts(), [])
        self.assert_no_temporaries()

    def test_wrong_ones(self):
        for flags, says in {
                ("--nnodes", "0"): "--nnodes", ("--nnodes", "3:2"): "--nnodes", ("--nnodes", "x"): "--nnodes",
                ("-n", "0"): "--nproc-per-node", ("--nproc-per-node", "many"): "--nproc-per-node",
                ("--max-restarts", "-1"): "--max-restarts", ("--max-restarts", "x"): "--max-restarts",
                ("--rdzv-backend", "zeus", "--rdzv-endpoint", "localhost:0"): "zeus",
                ("--rdzv-conf", "join_timeout"): "--rdzv-conf", ("--standalone", "--nnodes", "2"): "--standalone",
                ("--node-rank", "-1"): "--node-rank",
                ("--nnodes", "2", "--node-rank", "2"): "--node-rank", ("--master-port", "65536"): "--master-port",
                ("--no-python", "-m"): "--no-python", ("--redirects", "7"): "--redirects",
                ("--exit-code", "mine"): "--exit-code", ("--shutdown-timeout", "x"): "--shutdown-timeout",
                ("--python", "/no/such/python"): "/no/such/python",
                ("--monitor-interval", "0"): "--monitor-interval", ("--no-such-flag",): "--no-such-flag"}.items():
            with self.subTest(flags):
                self.assert_refused(*flags, *self.crew.command(), says=says)

    def test_no_script(self):
        self.assert_refused(says="regroup run --help")

    def test_a_variable_is_called_by_its_name(self):
        self.assert_refused(*self.crew.command(), env={"PET_NNODES": "x"}, says="PET_NNODES")

    def test_variables_are_defaults(self):
        self.crew.order(0)
        self.assert_success(self.run_alone(*self.crew.command(), env={"PET_NPROC_PER_NODE": "2"}))
        self.assertEqual(len(self.crew.starts()), 2)

    def test_the_level_of_python_s_logging(self):
        """What torchrun's users set to hear more, or less."""
        for level, flags, told in (("INFO", [], True), ("debug", [], True), ("WARNING", [], False),
                                   ("INFO", ["--quiet"], False), ("ERROR", ["--verbose"], True), ("7", [], False)):
            _, _, err = self.run_alone(*flags, "--no-python", "true", env={"LOGLEVEL": level}).finish()
            self.assertEqual("workers started" in err, told, (level, flags))

    def test_a_dry_run_starts_nothing(self):
        run = self.run_alone("--dry-run", "-n", "3", "--max-restarts", "5", "--role", "trainer", "--nnodes", "2:4",
                             "--rdzv-backend", "c10d", "--rdzv-endpoint", "nowhere.invalid:1", "--rdzv-id", "job-17",
                             *self.crew.command("a b"))
        code, out, err = run.finish()
        self.assertEqual((code, err), (0, ""))
        for word in ("obey.py", "'a b'", "3 on this node", "role trainer", "5 restarts", "c10d at nowhere.invalid:1",
                     "run job-17", "2 to 4 nodes"):
            self.assertIn(word, out)
        self.assertEqual(self.crew.starts(), [])
        self.assert_no_temporaries()

    def test_help(self):
        begun = time.monotonic()
        code, out, err = self.run_alone("--help").finish()
        self.assertLess(time.monotonic() - begun, 5)  # torchrun takes longer to say its own.
        self.assertEqual((code, err), (0, ""))
        for group in ("Nodes", "Rendezvous", "Workers", "Output", "Stopping", "What is shown", "Health", "Other"):
            self.assertIn(f"\n{group}:\n", out)
        for flag in ("--nnodes", "--nproc-per-node", "--max-restarts", "--rdzv-endpoint", "--standalone"):
            self.assertIn(flag, out)

    def test_completion_runs_in_bash(self):
        script = ('set -eu; source <("$1" run --print-completion bash); complete -p regroup; '
                  'complete_() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _regroup || true; '
                  'echo "${COMPREPLY[*]-}"; }; '
                  'complete_ regroup ru; complete_ regroup run --max-r; complete_ regroup run --exit-code t; '
                  'complete_ regroup run train.py --max-r')
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", BINARY], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines()[1:], ["run", "--max-restarts", "torchrun", ""])


if __name__ == "__main__":
    unittest.main()
