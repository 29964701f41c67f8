"""PyTorch's own rendezvous handlers and ours in one run: they meet, part and meet again.

Every story is told twice, on PyTorch's store server and on ours. No test looks at the clock to say that
something was too slow: what must happen is waited for, however long it takes; only what must not happen too
early is timed.
"""

import base64
import concurrent.futures
import contextlib
import itertools
import os
import pickle
import signal
import tempfile
import time
import unittest
from datetime import timedelta
from pathlib import Path

from rendezvous_support import (CALM, LIMIT_S, MORTAL, QUICK, NodeError, Run, c_compiler, eventually, shifted_clock,
                                store_answers, torchruns_order)
from store_support import RegroupServer
from torch_support import VERSION, dist, torch_client, torch_server

SILENCE_S = MORTAL["keep_alive_interval"] * MORTAL["keep_alive_max_attempt"]
NEEDS_COMPILER = unittest.skipIf(c_compiler() is None, "no C compiler for a library that shifts the clock; "
                                                       "to run it: install gcc")

NEEDS_NEW_RANK_0 = unittest.skipIf(VERSION < (2, 13), "before PyTorch 2.13 a node that becomes rank 0 later dies of an "
                                                      "assertion; to run it: use PyTorch 2.13")


class OnOneStore:
    """What the stories need. A subclass has open_store(), which returns the endpoint."""

    config = {}

    def setUp(self):
        self.endpoint = self.open_store()
        self.undo = self.enterContext(contextlib.ExitStack())
        self.numbers = itertools.count(1)

    def client(self):
        return torch_client(int(self.endpoint.rsplit(":")[1]))

    def run_of(self, least, most, config=CALM, shared=True):
        return Run(self.endpoint, self.client, f"run-{next(self.numbers)}", self.undo, (least, most),
                   config | self.config, shared)

    def side_by_side(self, story, *cases):
        """Stories that mostly wait do so together, each in a run of its own."""
        def tell(case):
            try:
                story(*case)
            except BaseException as error:
                error.add_note(f"in {story.__name__}{case}")
                raise

        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            list(pool.map(tell, cases))

    def meet(self, *nodes):
        """All of them, in one round. What each was told, in the order of the nodes."""
        for node in nodes:
            node.start("next")
        return self.met(*nodes)

    def met(self, *nodes):
        """As meet(), for nodes that are on their way."""
        return self.agree(nodes, [node.finish() for node in nodes])

    def gather(self, *nodes, under_way=()):
        """As meet(), where a last call may end before all are there: whoever meets too few goes on, as an agent
        does when others wait. Some may be under way already."""
        for node in nodes:
            node.start("next")
        nodes += tuple(under_way)
        deadline = time.monotonic() + LIMIT_S

        def join(node):
            while (info := node.finish())["world_size"] != len(nodes):
                self.assertLess(time.monotonic(), deadline, f"{node} has always met too few, as now: {info}")
                node.start("next")
            return info

        with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
            return self.agree(nodes, list(pool.map(join, nodes)))

    def agree(self, nodes, infos):
        """Everybody sees one and the same round."""
        told = dict(zip(nodes, infos))
        self.assertEqual({info["world_size"] for info in infos}, {len(nodes)}, told)
        self.assertEqual(sorted(info["rank"] for info in infos), list(range(len(nodes))), told)
        self.assertEqual(len({info["round"] for info in infos}), 1, told)
        by_rank = sorted(nodes, key=lambda node: told[node]["rank"])
        if any(node.kind != "our" for node in nodes):
            self.assertEqual(by_rank, torchruns_order(nodes))
        for info in infos:
            self.assertEqual(info["nodes"], [node.address for node in by_rank])
        self.assertEqual(len({(info["address"], info["port"]) for info in infos}), 1, told)
        return infos

    def pair(self, infos):
        """Where the workers' store is. It answers a worker."""
        pair = infos[0]["address"], infos[0]["port"]
        self.assertTrue(store_answers(*pair))
        return pair

    def assert_all_see(self, nodes, command, wanted):
        """By and by: a node may answer from memory for a second."""
        for node in nodes:
            eventually(lambda: node.ask(command) == wanted, what=f"{command} of {node} is {wanted}")

    def assert_fails(self, kind, node, command=None):
        with self.assertRaises(NodeError) as raised:
            node.ask(command) if command else node.finish()
        self.assertEqual(raised.exception.kind, kind, raised.exception)
        return raised.exception.message

    def let_join(self, run, node, where):
        """Starts a node and waits until it is on that list."""
        node.start("next")
        eventually(lambda: (state := run.state()) and any(one.pid == node.pid for one in getattr(state, where)),
                   what=f"{node} is in {where}")


class Stories(OnOneStore):
    # --- meeting -------------------------------------------------------------------------------

    def test_a_full_round_is_sealed_at_once_in_torchruns_order(self):
        run = self.run_of(2, 4)  # The last call would take longer than this test may.
        nodes = [run.ours("127.0.0.20"), run.torch("127.0.0.3"), run.torch("127.0.0.10"), run.ours("127.0.0.2")]
        self.meet(*nodes)
        # One store of the round for all.
        nodes[0].ask("set", "from-ours", "1")
        nodes[1].ask("set", "from-torch", "2")
        for node in nodes:
            self.assertEqual((node.ask("get", "from-ours"), node.ask("get", "from-torch")), ("1", "2"))

    def test_the_end_of_the_last_call_seals_a_round(self):
        def story(*kinds):
            run = self.run_of(2, 3, QUICK | {"last_call_timeout": 2})
            first, second = (getattr(run, kind)() for kind in kinds)
            self.let_join(run, first, "participants")
            started = time.monotonic()
            second.start("next")
            self.met(first, second)
            self.assertGreater(time.monotonic() - started, 1.9)

        self.side_by_side(story, ("torch", "ours"), ("ours", "torch"))

    def test_whoever_meets_nobody_gives_up_and_leaves_no_trace(self):
        def story(kind):
            run = self.run_of(2, 2, CALM | {"join_timeout": 1})
            self.assert_fails("timeout", getattr(run, kind)(), "next")
            self.assertEqual(content(run.state()), {"round": 0})

        def content(state):
            return {name: value for name, value in vars(state).items() if value or name == "round"}

        self.side_by_side(story, ("torch",), ("ours",))

    def test_an_interruption_ends_the_wait(self):
        run = self.run_of(2, 2)
        node = run.ours()
        self.let_join(run, node, "participants")
        node.interrupt()
        self.assert_fails("cancelled", node)
        self.assert_fails("cancelled", node, "next")

    def test_both_kinds_count_the_same_nodes_waiting(self):
        run = self.run_of(2, 4, QUICK, shared=False)
        members = [run.torch(), run.ours()]
        self.gather(*members)
        self.assert_all_see(members, "waiting", 0)
        late = [run.ours(), run.torch()]
        for count, node in enumerate(late, 1):
            self.let_join(run, node, "wait_list")
            self.assert_all_see(members, "waiting", count)
        self.assertTrue(members[1].ask("status")["must_rejoin"])
        self.gather(*members, under_way=late)

    # --- parting -------------------------------------------------------------------------------

    def test_nodes_leave_and_come_again(self):
        run = self.run_of(2, 3, QUICK)
        a, b, ours = run.torch(), run.torch(), run.ours()
        first = self.gather(a, b, ours)
        ours.ask("leave")
        self.assertFalse(ours.ask("status")["member"])
        second = self.gather(a, b)
        self.assertGreater(second[0]["round"], first[0]["round"])
        self.let_join(run, ours, "wait_list")
        self.assert_all_see([a, b], "waiting", 1)
        self.gather(a, b, under_way=[ours])
        # One of PyTorch's goes into the next round: ours is told that the old one is over.
        self.let_join(run, a, "wait_list")
        status = eventually(lambda: (now := ours.ask("status"))["must_rejoin"] and now)
        self.assertTrue(status["member"])
        self.assertFalse(status["whole"])
        self.assert_all_see([b, ours], "waiting", 1)
        self.gather(b, ours, under_way=[a])

    def test_a_silent_node_is_dropped_and_may_come_again(self):
        def story(victim_kind, killed):
            run = self.run_of(2, 3, MORTAL, shared=False)
            torch, ours, victim = run.torch(), run.ours(), getattr(run, victim_kind)()
            self.gather(torch, ours, victim)
            if killed:
                victim.kill()
            else:
                os.kill(victim.pid, signal.SIGSTOP)
            status = eventually(lambda: (now := ours.ask("status"))["must_rejoin"] and now)
            self.assertTrue(status["member"])
            self.assertFalse(status["whole"])
            self.gather(torch, ours)
            if killed:
                victim = getattr(run, victim_kind)(victim.address)
            else:
                os.kill(victim.pid, signal.SIGCONT)
                # It goes by what it saw last until it looks again.
                eventually(lambda: not victim.ask("status")["member"])
            self.let_join(run, victim, "wait_list")
            self.assert_all_see([torch, ours], "waiting", 1)
            self.gather(torch, ours, under_way=[victim])

        self.side_by_side(story, ("ours", True), ("torch", True), ("ours", False))

    def test_a_spare_takes_over(self):
        def story(*kinds):
            run = self.run_of(1, 2, MORTAL | {"last_call_timeout": CALM["last_call_timeout"]}, shared=False)
            stays, goes, spare = (getattr(run, kind)() for kind in kinds)
            self.meet(stays, goes)
            self.let_join(run, spare, "redundancy_list")
            self.assert_all_see([stays, goes], "waiting", 0)  # A spare disturbs nobody.
            if goes.kind == "our":
                goes.ask("leave")
            else:
                goes.kill()
            self.assert_all_see([stays], "waiting", 1)
            stays.start("next")
            self.met(stays, spare)

        self.side_by_side(story, ("ours", "torch", "ours"), ("torch", "ours", "torch"), ("torch", "ours", "ours"),
                          ("ours", "torch", "torch"))

    def test_two_spares_for_one_seat_do_not_keep_the_run_busy(self):
        run = self.run_of(1, 2)
        stays, goes, *spares = nodes = [run.ours() for _ in range(4)]
        self.meet(stays, goes)
        for spare in spares:
            self.let_join(run, spare, "redundancy_list")
        goes.ask("leave")
        for spare in spares:
            eventually(lambda: any(one.pid == spare.pid for one in run.state().wait_list))
        stays.start("next")
        state = eventually(lambda: (now := run.state()).round == 1 and now.complete and now)
        # Any two of the three; where PyTorch's nodes seal, the third would be waited for, round after round.
        members = [node for node in nodes if any(one.pid == node.pid for one in state.participants)]
        self.met(*members)
        left, = {stays, *spares} - set(members)
        eventually(lambda: any(one.pid == left.pid for one in run.state().redundancy_list))
        self.assert_all_see(members, "waiting", 0)
        members[0].ask("close")
        self.assert_fails("not needed", left)

    def test_either_kind_closes_the_run_for_all(self):
        def story(command, closer):
            run = self.run_of(1, 2)
            members = {"torch": run.torch(), "ours": run.ours()}
            self.meet(*members.values())
            self.assert_all_see(members.values(), "closed", False)
            spares = [run.torch(), run.ours()]
            for spare in spares:
                self.let_join(run, spare, "redundancy_list")
            members[closer].ask(command)
            self.assert_all_see(members.values(), "closed", True)
            for spare in spares:
                self.assert_fails("not needed", spare)
            for node in members.values():
                self.assert_fails("closed", node, "next")
            self.assert_fails("closed", run.ours(), "next")  # And it stays closed.
            members["ours"].ask("close")  # Twice is fine.

        self.side_by_side(story, ("close", "torch"), ("close", "ours"), ("shutdown", "torch"), ("shutdown", "ours"))

    # --- staying -------------------------------------------------------------------------------

    def stay(self, run, nodes):
        """Nobody is dropped, though more time passes than a silent node has."""
        before = run.state()
        end = time.monotonic() + 1.5 * SILENCE_S
        while time.monotonic() < end:
            for node in nodes:
                if node.kind == "our":
                    self.assertEqual(node.ask("status"), {"member": True, "whole": True, "closed": False,
                                                          "waiting": 0, "must_rejoin": False})
                else:
                    self.assertEqual(node.ask("waiting"), 0)
            time.sleep(0.3)
        after = run.state()
        self.assertEqual((after.round, after.participants), (before.round, before.participants))
        for node, stamp in before.last_heartbeats.items():
            self.assertGreater(after.last_heartbeats[node], stamp)
        return after

    def test_both_kinds_keep_each_other_alive(self):
        run = self.run_of(3, 3, MORTAL)
        nodes = [run.torch(), run.ours(), run.torch()]
        self.meet(*nodes)
        self.stay(run, nodes)

    @NEEDS_COMPILER
    def test_ours_meet_with_clocks_ten_minutes_apart(self):
        shifted_by = self.enterContext(shifted_clock())
        run = self.run_of(2, 3, MORTAL)
        nodes = [run.ours(environment=shifted_by(seconds)) for seconds in (0, 600)]
        self.gather(*nodes)
        state = self.stay(run, nodes)
        stamps = sorted(state.last_heartbeats.values())
        self.assertGreater(stamps[1] - stamps[0], timedelta(minutes=9))  # So their clocks were apart.
        self.gather(*nodes)

    # --- the bootstrap pair --------------------------------------------------------------------

    def test_pytorchs_rank_0_serves_the_workers(self):
        run = self.run_of(2, 4, QUICK)
        torch, ours = run.torch(), run.ours()
        pair = self.pair(self.gather(torch, ours))
        self.assertEqual(pair[0], torch.address)
        # It says so only once: in later rounds the keys are not there.
        again = self.gather(torch, ours)
        self.assertEqual(self.pair(again), pair)
        late = run.ours()
        self.assertEqual(self.pair(self.gather(torch, ours, late)), pair)
        # Not even the first of ranks may serve by itself then: PyTorch's nodes stay with what they know.
        first = run.ours("127.0.0.1")
        infos = self.gather(first, torch, ours, late)
        self.assertEqual(infos[0]["rank"], 0)
        self.assertEqual(self.pair(infos), pair)

    def test_our_rank_0_serves_the_workers(self):
        run = self.run_of(2, 4, QUICK)
        ours, torch = run.ours(), run.torch()
        pair = self.pair(self.gather(ours, torch))
        self.assertEqual(pair[0], ours.address)
        again = self.gather(ours, torch)
        self.assertEqual(self.pair(again), pair)
        # Written anew in every round, so that those who come late find it, whatever they are.
        self.assertEqual((ours.ask("get", "MASTER_ADDR"), ours.ask("get", "MASTER_PORT")), (pair[0], str(pair[1])))
        self.assertEqual(self.pair(self.gather(ours, torch, run.torch(), run.ours())), pair)

    @NEEDS_NEW_RANK_0
    def test_pytorchs_node_takes_over_the_workers_store_from_ours(self):
        run = self.run_of(2, 3, QUICK)
        first, torch, ours = run.ours(), run.torch(), run.ours()
        before = self.pair(self.gather(first, torch, ours))
        first.ask("leave")
        first.close()
        after = self.pair(self.gather(torch, ours))
        self.assertEqual((before[0], after[0]), (first.address, torch.address))

    def test_among_ours_whoever_is_rank_0_serves(self):
        run = self.run_of(2, 3, QUICK)
        a, b, c = run.ours(), run.ours(), run.ours()
        pair = self.pair(self.gather(a, b, c))
        self.assertEqual(pair[0], a.address)
        self.assertEqual(self.pair(self.gather(a, b, c)), pair)
        a.ask("leave")
        a.close()
        self.assertEqual(self.pair(self.gather(b, c))[0], b.address)

    # --- what is no state ----------------------------------------------------------------------

    def test_what_is_no_state_is_reported_and_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            trap = Path(folder) / "sprung"

            class Hostile:
                def __reduce__(self):
                    return os.system, (f"touch {trap}",)

            wrong = {"no base64": b"This is *no* base64!", "no pickle": base64.b64encode(b"no pickle"),
                     "another thing": base64.b64encode(pickle.dumps({"round": 1})),
                     "hostile": base64.b64encode(pickle.dumps(Hostile())),
                     "hostile inside": base64.b64encode(pickle.dumps([1, {2: Hostile()}]))}
            for name, text in wrong.items():
                with self.subTest(name):
                    run = self.run_of(1, 1)
                    run.client().set(run.key, text)
                    node = run.ours()
                    for command in ("next", "status", "close", "leave"):
                        self.assert_fails("corrupt", node, command)
                    self.assertEqual(run.raw_state(), text)
                    node.close()
            self.assertFalse(trap.exists())

    def test_a_state_that_is_damaged_later_is_left_alone_by_heartbeats_too(self):
        run = self.run_of(1, 1)
        node = run.ours()
        self.meet(node)
        damaged = run.raw_state()[:-8] + b"AAAAAAA="
        run.client().set(run.key, damaged)
        eventually(lambda: self.fails_as_corrupt(node))
        time.sleep(2.5 * CALM["keep_alive_interval"])  # Must not happen: the more time, the likelier it shows.
        self.assertEqual(run.raw_state(), damaged)
        self.assert_fails("corrupt", node, "next")
        self.assertEqual(run.raw_state(), damaged)

    @staticmethod
    def fails_as_corrupt(node):
        try:
            node.ask("status")
        except NodeError as error:
            return error.kind == "corrupt"
        return False

    # --- ranks among ours ----------------------------------------------------------------------

    def ranks(self, nodes, infos):
        return {node.address: info["rank"] for node, info in zip(nodes, infos)}

    def test_names_are_ordered_as_people_do(self):
        run = self.run_of(3, 3)
        nodes = [run.ours(name) for name in ("n10", "n2", "n1")]
        self.assertEqual(self.ranks(nodes, self.meet(*nodes)), {"n1": 0, "n2": 1, "n10": 2})

    def test_a_wish_for_a_rank_comes_first(self):
        run = self.run_of(4, 4)
        nodes = [run.ours("n1", node_rank=3), run.ours("n2"), run.ours("n3", node_rank=0), run.ours("n4")]
        self.assertEqual(self.ranks(nodes, self.meet(*nodes)), {"n3": 0, "n2": 1, "n4": 2, "n1": 3})

    def test_survivors_keep_their_ranks(self):
        run = self.run_of(3, 3)
        nodes = [run.ours(name) for name in ("n1", "n2", "n3")]
        self.assertEqual(self.ranks(nodes, self.meet(*nodes)), {"n1": 0, "n2": 1, "n3": 2})
        n1, n2, n3 = nodes
        n2.ask("leave")
        n0 = run.ours("n0")
        self.let_join(run, n0, "wait_list")
        for node in (n1, n3):
            eventually(lambda: node.ask("status")["must_rejoin"])
            node.start("next")
        self.assertEqual(self.ranks([n1, n0, n3], self.met(n1, n0, n3)), {"n1": 0, "n0": 1, "n3": 2})


class OnPyTorchsServer(Stories, unittest.TestCase):
    def open_store(self):
        return f"127.0.0.1:{self.enterContext(torch_server())}"


class OnOurServer(Stories, unittest.TestCase):
    def open_store(self):
        return f"127.0.0.1:{self.enterContext(RegroupServer()).port}"


class OnAFile(OnOneStore, unittest.TestCase):
    config = {"store_type": "file"}

    def open_store(self):
        return os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "store")

    def client(self):
        return dist.FileStore(self.endpoint)

    def test_both_kinds_meet_again_and_close(self):
        run = self.run_of(1, 3)
        nodes = [run.torch(), run.ours(), run.torch()]
        pair = self.pair(self.meet(*nodes))
        self.assertEqual(self.pair(self.meet(*nodes)), pair)
        nodes[1].ask("close")
        self.assert_all_see(nodes, "closed", True)


if __name__ == "__main__":
    unittest.main()
