"""`regroup rendezvous` as its users meet it: nodes that meet on this machine, wait, leave and are refused."""

import contextlib
import itertools
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from rendezvous_cli_support import LIMIT_S, QUICK, Joining, rendezvous, reserved_port
from store_support import BINARY, ROOT, RegroupServer

RUN = "run"


def store(*arguments):
    return subprocess.run([BINARY, "store", *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S)


class Nodes(unittest.TestCase):
    """With a store beside the nodes, so that none of them has to host it."""

    def setUp(self):
        self.server = self.enterContext(RegroupServer())
        self.endpoint = f"127.0.0.1:{self.server.port}"

    def node(self, name, nnodes, *flags):
        return self.enterContext(Joining("--rdzv-id", RUN, "--rdzv-endpoint", self.endpoint, "--nnodes", nnodes,
                                         "--local-addr", name, *flags))

    def ask(self, command, *flags, run=RUN):
        return rendezvous(command, "--rdzv-id", run, "--rdzv-endpoint", self.endpoint, *flags)

    def shown(self):
        outcome = self.ask("show")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout

    def show_until(self, pattern):
        """Asks until the answer matches, and gives it."""
        end = time.monotonic() + LIMIT_S
        while True:
            outcome = self.ask("show")
            if re.search(pattern, outcome.stdout, re.M):
                return outcome.stdout
            self.assertLess(time.monotonic(), end, f"never {pattern!r}; last: {outcome}")

    def assert_nobody_listed(self):
        outcome = self.ask("show")
        if outcome.returncode == 0:
            self.assertIn("0 nodes, 0 waiting, 0 spares", outcome.stdout)
        else:
            self.assertRegex(outcome.stderr, "nobody has started it|no node has joined it")

    def assert_all_end_well(self, nodes):
        for node in nodes:
            self.assertEqual(node.finish(), 0, node.all_err())
            self.assertEqual(node.all_err(), "")


class Meeting(Nodes):
    def test_two_nodes_meet_and_leave(self):
        nodes = [self.node(name, 2) for name in ("n1", "n2")]
        rounds = [node.next_round() for node in nodes]
        self.assertEqual([(r.round, r.rank, r.world_size) for r in rounds], [(0, 0, 2), (0, 1, 2)])
        self.assertEqual(rounds[0].nodes, ["n1", "n2"])
        self.assertEqual(rounds[0].nodes, rounds[1].nodes)
        self.assertEqual((rounds[0].address, rounds[0].port), (rounds[1].address, rounds[1].port))
        self.assert_all_end_well(nodes)
        self.assert_nobody_listed()

    def test_the_address_of_a_local_run_stays_local(self):
        nodes = [self.enterContext(Joining("--rdzv-id", RUN, "--rdzv-endpoint", self.endpoint, "--nnodes", 2))
                 for _ in range(2)]
        self.assertEqual({node.next_round().address for node in nodes}, {"127.0.0.1"})
        self.assert_all_end_well(nodes)

    def test_names_have_their_natural_order(self):
        names = ["n10", "n1", "n66", "n2", "n7"]
        nodes = [self.node(name, len(names)) for name in names]
        for node, name in zip(nodes, names):
            found = node.next_round()
            self.assertEqual(found.nodes, ["n1", "n2", "n7", "n10", "n66"])
            self.assertEqual(found.nodes[found.rank], name)
        self.assert_all_end_well(nodes)

    def test_wishes_for_a_rank_are_granted(self):
        nodes = [self.node(name, 3, "--node-rank", rank) for name, rank in (("n1", 2), ("n2", 0), ("n3", 1))]
        self.assertEqual([node.next_round().rank for node in nodes], [2, 0, 1])
        self.assert_all_end_well(nodes)

    def test_flags_may_be_written_as_torchrun_writes_them(self):
        nodes = [self.enterContext(Joining(
            f"--rdzv_id={RUN}", f"--rdzv_endpoint={self.endpoint}", "--rdzv_backend=c10d", "--nnodes=2:2",
            "--rdzv_conf=is_host=false,join_timeout=60", f"--node_rank={rank}", f"--local_addr=n{rank}"))
            for rank in (1, 0)]
        self.assertEqual([node.next_round().rank for node in nodes], [1, 0])
        self.assert_all_end_well(nodes)

    def test_a_run_with_room_starts_after_the_last_call(self):
        nodes = [self.node(name, "2:8", "--rdzv-conf", "last_call_timeout=1") for name in ("n1", "n2")]
        self.assertEqual({node.next_round().world_size for node in nodes}, {2})
        for node in nodes:
            self.assertEqual(node.finish(), 0)

    def test_nodes_can_meet_in_a_file(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        where = ("--rdzv-id", RUN, "--rdzv-endpoint", f"{folder}/meeting", "--rdzv-conf", "store_type=file")
        nodes = [self.enterContext(Joining(*where, "--nnodes", 3, "--local-addr", name))
                 for name in ("n3", "n1", "n2")]
        self.assertEqual([node.next_round().rank for node in nodes], [2, 0, 1])
        self.assert_all_end_well(nodes)
        outcome = rendezvous("show", *where)
        self.assertIn("0 nodes", outcome.stdout, outcome.stderr)
        self.assertIn("closed for everybody", rendezvous("close", *where).stdout)

    def test_static_nodes_have_the_ranks_they_were_given(self):
        for world in (2, 3):
            with self.subTest(world), contextlib.ExitStack() as ends:
                port = ends.enter_context(reserved_port())
                ranks = list(range(world))[::-1]
                nodes = [ends.enter_context(Joining(
                    "--rdzv-id", RUN, "--rdzv-backend", "static", "--rdzv-endpoint", f"127.0.0.1:{port}",
                    "--nnodes", world, "--node-rank", rank)) for rank in ranks]
                for node, rank in zip(nodes, ranks):
                    self.assertEqual(node.finish(), 0, node.all_err())
                    self.assertEqual(node.out.rest(), [
                        f"round 0: this node is rank {rank} of {world}",
                        f"workers' store: MASTER_ADDR=127.0.0.1 MASTER_PORT={port}"])

    def test_one_of_the_nodes_hosts_the_store_and_leaves_last(self):
        # Several times: the host must not be gone before the others have taken themselves off the list.
        for turn in range(5):
            with self.subTest(turn), contextlib.ExitStack() as ends:
                port = ends.enter_context(reserved_port())
                nodes = [ends.enter_context(Joining("--rdzv-id", RUN, "--rdzv-endpoint", f"127.0.0.1:{port}",
                                                    "--nnodes", 3, "--local-addr", name))
                         for name in ("n1", "n2", "n3")]
                self.assertEqual([node.next_round().rank for node in nodes], [0, 1, 2])
                self.assert_all_end_well(nodes)

    def test_a_node_alone_may_take_any_port(self):
        outcome = rendezvous("join", "--rdzv-id", RUN, "--rdzv-endpoint", "localhost:0")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("round 0: this node is rank 0 of 1", outcome.stdout)

    def test_runs_of_two_names_do_not_meet(self):
        nodes = [self.enterContext(Joining("--rdzv-id", name, "--rdzv-endpoint", self.endpoint))
                 for name in ("one", "other")]
        self.assertEqual([node.next_round().world_size for node in nodes], [1, 1])


class Staying(Nodes):
    def staying(self, name, nnodes, *flags):
        return self.node(name, nnodes, "--stay", 300, "--rdzv-conf", QUICK, *flags)

    def test_who_stays_follows_those_who_come_and_go(self):
        first = self.staying("n1", "1:2")
        self.assertEqual(first.next_round().nodes, ["n1"])
        second = self.staying("n2", "1:2")
        first.err.until("round 0: 1 node wants to come in; joining the next round")
        self.assertEqual(first.next_round().nodes, ["n1", "n2"])
        self.assertEqual(second.next_round().nodes, ["n1", "n2"])
        second.signal(signal.SIGTERM)
        self.assertEqual(second.finish(), 143)
        first.err.until("round 1: a member is gone; joining the next round")
        self.assertEqual(first.next_round().nodes, ["n1"])

    def test_a_killed_node_is_missed_and_its_rank_goes_to_the_next(self):
        nodes = {name: self.staying(name, "3") for name in ("n1", "n2", "n3")}
        for node in nodes.values():
            self.assertEqual(node.next_round().world_size, 3)
        nodes["n2"].process.kill()
        nodes["n1"].err.until("a member is gone")
        # The missing are those who were there before.
        nodes["n1"].err.until(r"round 1: [12] of 3 nodes joined; missing: .*n2")
        nodes["n99"] = self.staying("n99", "3")
        for name in ("n1", "n3", "n99"):
            self.assertEqual(nodes[name].next_round().nodes, ["n1", "n99", "n3"])

    def test_the_time_to_stay_ends(self):
        nodes = [self.node(name, 2, "--stay", 1, "--rdzv-conf", QUICK) for name in ("n1", "n2")]
        for node in nodes:
            self.assertEqual(node.finish(), 0, node.all_err())
        self.assert_nobody_listed()

    def test_the_time_to_stay_ends_while_waiting_for_the_next_round(self):
        long, short = self.node("n1", 2, "--stay", 6, "--rdzv-conf", QUICK), self.staying("n2", 2)
        short.next_round()
        short.signal()
        self.assertEqual(long.finish(), 0)
        self.assertIn("time to stay is over", long.all_err())
        self.assert_nobody_listed()

    def test_a_spare_waits_and_comes_in_when_it_is_needed(self):
        members = [self.staying(name, 2) for name in ("n1", "n2")]
        for member in members:
            member.next_round()
        spare = self.staying("n3", 2)
        spare.err.until("round 0 is full with 2 nodes; this node is a spare")
        self.assertRegex(self.shown(), r"(?m)^  spare +n3 ")
        members[1].signal()
        self.assertEqual(spare.next_round().nodes, ["n1", "n3"])
        self.assertEqual(members[0].next_round().nodes, ["n1", "n3"])

    def test_a_spare_of_a_run_that_has_ended_is_no_failure(self):
        members = [self.staying(name, 2) for name in ("n1", "n2")]
        for member in members:
            member.next_round()
        spare = self.staying("n3", 2)
        spare.err.until("this node is a spare")
        self.assertEqual(self.ask("close").returncode, 0)
        self.assertEqual(spare.finish(), 0)
        self.assertIn("not needed", spare.all_err())
        for member in members:
            self.assertEqual(member.finish(), 0)
            self.assertIn("has been closed", member.all_err())

    def test_a_store_that_pauses_ends_nothing(self):
        node = self.node("n1", "1:2", "--stay", 300, "--rdzv-conf", QUICK + ",heartbeat_timeout=1,read_timeout=2")
        node.next_round()
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            node.err.until("trying on")
        finally:
            self.server.process.send_signal(signal.SIGCONT)
        node.err.until("the store answers again")
        self.assertIsNone(node.process.poll())


class Waiting(Nodes):
    def test_it_says_who_is_missing_in_plain_lines(self):
        node = self.node("n2", 3, "--expect", "n1,n2,n10")
        found = node.err.until(r"regroup: round 0: 1 of 3 nodes joined; missing: n1, n10; gives up in 9m\d\ds \(join_timeout\)")
        self.assertEqual(found[0], found.string, "one prefix, nothing behind")
        others = [self.node("n1", 3), self.node("n10", 3)]
        for each in (node, *others):
            self.assertEqual(each.next_round().nodes, ["n1", "n2", "n10"])

    def test_it_says_when_the_last_call_ends(self):
        node = self.node("n1", "1:2", "--rdzv-conf", "last_call_timeout=100")
        node.err.until(r"round 0: 1 of 1\.\.2 nodes joined; last call ends in (1m3\ds|9\d s|1m40s)")
        self.assertRegex(self.shown(), r"last call: ends in (1m3\ds|9\d s|1m40s)")

    def test_the_time_limit_names_the_missing_and_takes_the_node_off_the_list(self):
        node = self.node("n1", 2, "--expect", "n1,n2", "--rdzv-conf", "join_timeout=2")
        self.assertEqual(node.finish(), 1)
        self.assertRegex(node.all_err(), r"regroup: the nodes did not meet within 2 s \(join_timeout\): "
                                         r"round 0: \d of 2 nodes joined; missing: .*n2")
        self.assertEqual(node.out.rest(), [])
        self.assert_nobody_listed()

    def test_a_store_that_never_comes_is_told_with_what_one_has_to_know(self):
        with reserved_port() as port:
            outcome = rendezvous("join", "--rdzv-id", RUN, "--rdzv-endpoint", f"127.0.0.1:{port}",
                                 "--rdzv-conf", "is_host=false,join_timeout=1")
        self.assertEqual(outcome.returncode, 1)
        self.assertRegex(outcome.stderr, rf"no store at 127\.0\.0\.1:{port} within 1 s \(join_timeout\)")
        self.assertIn("is_host=true", outcome.stderr)

    def test_static_nodes_that_do_not_come_are_counted(self):
        with reserved_port() as port:
            outcome = rendezvous("join", "--rdzv-id", RUN, "--rdzv-backend", "static", "--nnodes", 3,
                                 "--node-rank", 0, "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-conf", "timeout=1")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("1 of 3 nodes have come", outcome.stderr)


class Interrupted(Nodes):
    def test_ctrl_c_and_sigterm_take_a_waiting_node_off_the_list(self):
        for number, code, word in ((signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")):
            with self.subTest(word):
                node = self.node("n1", 2)
                self.show_until(r"1 node \(n1\)")
                node.signal(number)
                self.assertEqual(node.finish(), code)
                self.assertEqual(node.err.rest()[-1], f"regroup: {word}: left the run '{RUN}'")
                self.assert_nobody_listed()

    def test_whatever_the_moment_nobody_stays_on_the_list(self):
        for turn in range(25):
            with self.subTest(turn):
                nodes = [self.node(name, 2, "--stay", 60) for name in ("n1", "n2")]
                # Every moment of a start is met sooner or later; before the first line of the program
                # the signal just kills.
                time.sleep(turn * 0.001)
                for node in nodes:
                    node.signal()
                for node in nodes:
                    self.assertIn(node.finish(), (130, -signal.SIGINT))
                self.assert_nobody_listed()

    def test_a_node_that_waits_for_the_store_can_be_stopped(self):
        with reserved_port() as port:
            node = self.enterContext(Joining("--rdzv-id", RUN, "--rdzv-endpoint", f"127.0.0.1:{port}",
                                             "--rdzv-conf", "is_host=false"))
            node.err.until("waiting for the store")
            node.signal()
            self.assertEqual(node.finish(), 130)
        self.assertIn("gave up before joining", node.all_err())

    def test_a_node_that_waits_for_a_slow_rank_0_can_be_stopped(self):
        # Rank 0 is sealed into the round and then says nothing.
        slow = self.node("n1", 2)
        self.show_until(r"1 node \(n1\)")
        slow.process.send_signal(signal.SIGSTOP)
        node = self.node("n2", 2)
        self.show_until("complete")
        node.signal()
        self.assertEqual(node.finish(), 130)
        self.assertRegex(self.shown(), r"1 node \(n1\)")

    def test_a_spare_can_be_stopped(self):
        for name in ("n1", "n2"):
            self.node(name, 2, "--stay", 60)
        self.show_until("complete")
        spare = self.node("n3", 2)
        self.show_until(r"^  spare +n3 ")
        spare.signal()
        self.assertEqual(spare.finish(), 130)
        self.assertRegex(self.shown(), r"2 nodes \(n1, n2\), 0 waiting, 0 spares")

    def test_a_second_ctrl_c_does_not_wait_for_anything(self):
        node = self.node("n1", 2)
        self.show_until(r"1 node \(n1\)")
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            end = time.monotonic() + 5  # Leaving is tried for longer.
            while node.process.poll() is None:
                self.assertLess(time.monotonic(), end)
                node.signal()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    node.process.wait(0.1)
            self.assertEqual(node.process.returncode, 130)
        finally:
            self.server.process.send_signal(signal.SIGCONT)


class Showing(Nodes):
    def test_it_shows_every_member(self):
        nodes = [self.node(name, 2, "--stay", 60) for name in ("n1", "n2")]
        for node in nodes:
            node.next_round()
        lines = self.shown().splitlines()
        self.assertEqual(lines[0], f"run '{RUN}', round 0")
        self.assertEqual(lines[1], "complete: the nodes have their ranks")
        self.assertEqual(lines[3].split(), ["rank", "node", "address", "pid", "program", "last", "heartbeat"])
        for rank, node in enumerate(nodes):
            self.assertRegex(lines[4 + rank], rf"^  {rank} +n{rank + 1} +n{rank + 1} +{node.process.pid} +regroup +\d+ s ago$")
        self.assertIn("this machine's clock", lines[-1])

    def test_it_shows_who_waits(self):
        member = self.node("n1", "1:3", "--rdzv-conf", "last_call_timeout=1", "--stay", 60)
        member.next_round()
        member.process.send_signal(signal.SIGSTOP)  # Or it would make room for the next.
        self.node("n2", "1:3")
        self.assertRegex(self.show_until(r"^  waits +n2 "), r"1 node \(n1\), 1 waiting, 0 spares")

    def test_a_run_that_nobody_started_is_told_and_not_created(self):
        before = store("keys", self.endpoint).stdout
        outcome = self.ask("show", run="no such run")
        self.assertEqual((outcome.returncode, outcome.stdout), (1, ""))
        self.assertIn("no run 'no such run' here: nobody has started it", outcome.stderr)
        self.assertEqual(store("keys", self.endpoint).stdout, before)

    def test_a_state_that_cannot_be_read_is_told_and_left_as_it_is(self):
        for text in ("rubbish", "cnViYmlzaA=="):
            with self.subTest(text):
                store("set", self.endpoint, f"torch.rendezvous.{RUN}", text)
                for command in ("show", "close"):
                    outcome = self.ask(command)
                    self.assertEqual((outcome.returncode, outcome.stdout), (1, ""))
                    self.assertIn("cannot be read", outcome.stderr)
                node = self.node("n1", 1)
                self.assertEqual(node.finish(), 1)
                self.assertIn("left as it is", node.all_err())
                self.assertEqual(store("get", self.endpoint, f"torch.rendezvous.{RUN}").stdout, text)

    def test_no_store_at_all_is_a_failure(self):
        with reserved_port() as port:
            for command in ("show", "close"):
                outcome = rendezvous(command, "--rdzv-id", RUN, "--rdzv-endpoint", f"127.0.0.1:{port}", "--timeout", 0.3)
                self.assertEqual(outcome.returncode, 1, outcome)
                self.assertIn(f"127.0.0.1:{port}", outcome.stderr)

    def test_a_file_that_is_not_there_is_not_made(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for command in ("show", "close"):
            outcome = rendezvous(command, "--rdzv-id", RUN, "--rdzv-endpoint", folder / "no", "--rdzv-conf",
                                 "store_type=file")
            self.assertEqual(outcome.returncode, 1)
            self.assertIn(str(folder / "no"), outcome.stderr)
        self.assertEqual(list(folder.iterdir()), [])


class Closing(Nodes):
    def test_it_ends_the_run_for_those_who_wait_and_those_who_come(self):
        waiting = self.node("n1", 2)
        self.show_until(r"1 node \(n1\)")
        outcome = self.ask("close")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertEqual(outcome.stdout, f"run '{RUN}', round 0: closed for everybody; on its list: "
                                         "1 node (n1), 0 waiting, 0 spares\n")
        self.assertEqual(waiting.finish(), 1)
        late = self.node("n2", 2)
        self.assertEqual(late.finish(), 1)
        for node in (waiting, late):
            self.assertIn(f"the run '{RUN}' is closed", node.all_err())
        self.assertIn("closed: the run is over", self.shown())

    def test_twice_is_fine(self):
        self.node("n1", 1).finish()
        self.assertIn("closed for everybody", self.ask("close").stdout)
        again = self.ask("close")
        self.assertEqual(again.returncode, 0)
        self.assertIn("was closed before", again.stdout)

    def test_a_run_that_nobody_started_is_an_error_and_not_created(self):
        outcome = self.ask("close")
        self.assertEqual((outcome.returncode, outcome.stdout), (1, ""))
        self.assertIn(f"no run '{RUN}' here: nobody has started it", outcome.stderr)
        self.assertEqual(store("keys", self.endpoint).stdout, "")


class WrongStarts(unittest.TestCase):
    ENDPOINT = ("--rdzv-endpoint", "localhost:0")

    def assert_refused(self, outcome, *words):
        self.assertEqual(outcome.returncode, 2, outcome)
        self.assertEqual(outcome.stdout, "")
        message = outcome.stderr.strip()
        self.assertEqual((message.count("regroup: "), message.count("\n")), (1, 0), message)
        for word in words:
            self.assertIn(str(word), message)

    def join(self, *flags, run=RUN):
        return rendezvous("join", "--rdzv-id", run, *flags)

    def test_an_empty_run_id(self):
        self.assert_refused(self.join(*self.ENDPOINT, run=""), "run id is empty", "--rdzv-id")
        for command in ("show", "close"):
            self.assert_refused(rendezvous(command, "--rdzv-id", ""), "run id is empty", "--rdzv-id")

    def test_a_missing_run_id(self):
        for command in ("join", "show", "close"):
            self.assert_refused(rendezvous(command), "--rdzv-id", f"regroup rendezvous {command} --help")

    def test_no_nodes(self):
        for nnodes in ("0", "0:2", "-1"):
            self.assert_refused(self.join(*self.ENDPOINT, f"--nnodes={nnodes}"), nnodes.split(":")[0], "at least 1")

    def test_fewer_at_most_than_at_least(self):
        self.assert_refused(self.join(*self.ENDPOINT, "--nnodes", "3:2"), "2, is below", "3")

    def test_a_number_of_nodes_that_is_none(self):
        for nnodes in ("two", "1:", "1:2:3", "1-2"):
            self.assert_refused(self.join(*self.ENDPOINT, f"--nnodes={nnodes}"), f"'{nnodes}'", "2:8", "--nnodes")

    def test_timeouts_that_are_not_above_zero(self):
        keys = ("join_timeout", "last_call_timeout", "close_timeout", "heartbeat_timeout", "keep_alive_interval",
                "read_timeout")
        for key, value in itertools.product(keys, ("-5", "0")):
            with self.subTest(f"{key}={value}"):
                self.assert_refused(self.join(*self.ENDPOINT, "--rdzv-conf", f"{key}={value}"), key, f"{value} s",
                                    "above zero")

    def test_timeouts_that_are_no_numbers(self):
        keys = ("join_timeout", "last_call_timeout", "close_timeout", "heartbeat_timeout", "keep_alive_interval",
                "keep_alive_max_attempt", "read_timeout")
        for key, value in itertools.product(keys, ("soon", "1.5", "5s")):
            with self.subTest(f"{key}={value}"):
                self.assert_refused(self.join(*self.ENDPOINT, "--rdzv-conf", f"{key}={value}"), key, f"'{value}'",
                                    "whole number")

    def test_no_heartbeat_may_be_missed(self):
        self.assert_refused(self.join(*self.ENDPOINT, "--rdzv-conf", "keep_alive_max_attempt=0"),
                            "keep_alive_max_attempt", "at least 1")

    def test_an_endpoint_that_is_none(self):
        for endpoint in ("node-1:port", "node-1:70000", ":29400", "[::1", "[node-1]:29400", "node 1:29400", "http://node-1"):
            with self.subTest(endpoint):
                self.assert_refused(self.join("--rdzv-endpoint", endpoint), f"'{endpoint}'", "HOST:PORT")
                for command in ("show", "close"):
                    self.assert_refused(rendezvous(command, "--rdzv-id", RUN, "--rdzv-endpoint", endpoint),
                                        f"'{endpoint}'", "HOST:PORT")

    def test_port_0_of_another_machine(self):
        self.assert_refused(self.join("--rdzv-endpoint", "192.0.2.1:0"), "port 0")
        self.assert_refused(rendezvous("show", "--rdzv-id", RUN, "--rdzv-endpoint", "localhost:0"), "port 0")

    def test_a_backend_that_nobody_knows(self):
        self.assert_refused(self.join("--rdzv-backend", "c10b"), "'c10b'", "Did you mean c10d?")
        self.assert_refused(self.join("--rdzv-backend", "zookeeper"), "'zookeeper'", "c10d, static")

    def test_options_that_are_no_pairs(self):
        for conf in ("join_timeout", "=5", "a=1,,b=2", "join_timeout="):
            with self.subTest(conf):
                self.assert_refused(self.join(*self.ENDPOINT, "--rdzv-conf", conf), "--rdzv-conf")

    def test_values_that_an_option_does_not_have(self):
        self.assert_refused(self.join(*self.ENDPOINT, "--rdzv-conf", "is_host=perhaps"), "is_host", "'perhaps'")
        self.assert_refused(self.join(*self.ENDPOINT, "--rdzv-conf", "store_type=etcd"), "store_type", "'etcd'",
                            "tcp or file")

    def test_a_file_that_was_not_named(self):
        self.assert_refused(self.join("--rdzv-conf", "store_type=file"), "store_type=file", "path")

    def test_ranks_that_cannot_be(self):
        self.assert_refused(self.join(*self.ENDPOINT, "--node-rank=-1"), "-1", "start at 0")
        self.assert_refused(self.join(*self.ENDPOINT, "--node-rank", "first"), "first", "--node-rank")

    def test_static_nodes_need_an_endpoint_and_a_rank_that_fits(self):
        static = ("--rdzv-backend", "static", "--nnodes", "2")
        self.assert_refused(self.join(*static, "--node-rank", 0), "endpoint")
        static = (*static, "--rdzv-endpoint", "127.0.0.1:29400")
        self.assert_refused(self.join(*static), "--node-rank")
        self.assert_refused(self.join(*static, "--node-rank", 2), "rank is 2", "0 to 1")
        self.assert_refused(self.join(*static, "--node-rank", 1, "--rdzv-conf", "timeout=-1"), "timeout", "-1")

    def test_a_time_to_stay_that_is_none(self):
        for value in ("-1", "long"):
            self.assert_refused(self.join(*self.ENDPOINT, f"--stay={value}"), "--stay", value)

    def test_a_misspelt_flag_or_command(self):
        self.assert_refused(self.join("--rdzv-endpiont", "x"), "--rdzv-endpiont", "did you mean '--rdzv-endpoint'?")
        self.assert_refused(rendezvous("jion", "--rdzv-id", RUN), "'jion'", "did you mean 'join'?")
        self.assert_refused(rendezvous(), "regroup rendezvous --help")

    def test_an_unknown_option_is_only_warned_of(self):
        outcome = self.join(*self.ENDPOINT, "--rdzv-conf", "joint_timeout=5")
        self.assertEqual(outcome.returncode, 0, outcome)
        self.assertIn("rank 0 of 1", outcome.stdout)
        self.assertRegex(outcome.stderr, r"warning .*'joint_timeout'.*ignored.*Did you mean join_timeout\?")

    def test_a_taken_port_is_told_to_who_must_host(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            at = f"127.0.0.1:{holder.getsockname()[1]}"
            outcome = self.join("--rdzv-endpoint", at, "--rdzv-conf", "is_host=true")
        self.assertEqual(outcome.returncode, 2, outcome)
        self.assertIn(at, outcome.stderr)
        self.assertIn("taken", outcome.stderr)


class Docs(unittest.TestCase):

    def test_the_options_of_docs_rendezvous_are_those_of_the_code(self):
        code = ROOT / "src/runtime/rendezvous"
        lists = [re.search(r"> keys\{([^}]*)\}", (code / "rendezvous_settings.cc").read_text())[1],
                 re.search(r"known\.end\(\),\s*\{([^}]*)\}", (code / "c10d_rendezvous.cc").read_text())[1],
                 re.search(r"warn_of_unknown_keys\(parameters, \{([^}]*)\}",
                           (code / "static_rendezvous.cc").read_text())[1]]
        in_code = {key for text in lists for key in re.findall(r'"(\w+)"', text)}
        in_docs = set(re.findall(r"^\| `(\w+)` \| (?:c10d|static) \|", (ROOT / "docs/rendezvous.md").read_text(), re.M))
        self.assertEqual(in_code, in_docs)


if __name__ == "__main__":
    unittest.main()
