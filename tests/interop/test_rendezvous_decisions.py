"""Our decision tables beside PyTorch's own code: the same states, nodes, settings and times go into both.

The action must be the same, and where it changes the state, so must the state after it: PyTorch reads it
from the bytes that we would store. What regroup adds to the state (attributes of its own on nodes and
state) is not compared; that PyTorch ignores it and carries it along is. Where we depart from PyTorch on
purpose, expected_action() and expected_content() say how, and a test by name shows it.

    REGROUP_SEEDS=5000 dev/test.py --filter test_rendezvous_decisions     more seeds
    REGROUP_SEED=17 dev/test.py --filter test_rendezvous_decisions        one seed
"""

import base64
import json
import os
import pickle
import random
import subprocess
import time
import types
import unittest
from collections import Counter
from datetime import datetime, timedelta, timezone
from unittest import mock

from rendezvous_support import DRIVER
from store_support import LIMIT_S, Lines
from torch.distributed.elastic.rendezvous import api, dynamic_rendezvous as rdzv

SEEDS = int(os.environ.get("REGROUP_SEEDS", 150))
ONE_SEED = os.environ.get("REGROUP_SEED")
ROWS = 40  # For each seed.
TIME_LIMIT_S = 40  # For the default number of seeds, on a slow machine: stop early, having played many.

AWARE = hasattr(rdzv, "timezone")  # PyTorch 2.6 and newer stamp with a time zone.
SECOND = 1_000_000  # All times are whole microseconds.
INTERVAL = 5 * SECOND
LAST_CALL = 30 * SECOND
ROLLBACK = 5 * SECOND
UTC = 1_750_000_000 * SECOND

OPERATIONS = {"join": rdzv._RendezvousJoinOp, "exit": rdzv._RendezvousExitOp, "close": rdzv._RendezvousCloseOp,
              "keep_alive": rdzv._RendezvousKeepAliveOp}
ACTIONS = {"KEEP_ALIVE": "keep alive", "ADD_TO_PARTICIPANTS": "add to participants",
           "ADD_TO_WAIT_LIST": "add to wait list", "ADD_TO_REDUNDANCY_LIST": "add to redundancy list",
           "REMOVE_FROM_PARTICIPANTS": "remove from participants", "REMOVE_FROM_WAIT_LIST": "remove from wait list",
           "REMOVE_FROM_REDUNDANCY_LIST": "remove from redundancy list", "MARK_RENDEZVOUS_COMPLETE": "mark complete",
           "MARK_RENDEZVOUS_CLOSED": "mark closed", "SYNC": "sync", "ERROR_CLOSED": "error: closed",
           "ERROR_TIMEOUT": "error: timeout", "FINISH": "finish"}
STAMPING = {"keep alive", "add to participants", "add to wait list", "add to redundancy list"}
# Both tables agree on each of these at least once, or the test is not worth its name.
ALL_ACTIONS = {*ACTIONS.values(), "graceful exit"}


def moment(micros):
    when = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
    return when if AWARE else when.replace(tzinfo=None)


def micros_of(when):
    if when is None:
        return None
    return (when.replace(tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def settings_of(row):
    timeout = rdzv.RendezvousTimeout(last_call=timedelta(microseconds=LAST_CALL))
    return rdzv.RendezvousSettings("run", row["min"], row["max"], timeout, timedelta(microseconds=INTERVAL), 3)


def content(state):
    """All of PyTorch's own, and nothing of ours. Nodes compare by their three fields."""
    return {"round": state.round, "complete": state.complete, "deadline": micros_of(state.deadline),
            "closed": state.closed, "participants": dict(state.participants), "wait_list": set(state.wait_list),
            "redundancy_list": set(state.redundancy_list),
            "last_heartbeats": {node: micros_of(stamp) for node, stamp in state.last_heartbeats.items()}}


class Pytorch:
    """The real operations and the real mutations, at a time that we choose."""

    class _Changed(Exception):
        pass

    class _Holder:
        def __init__(self, state):
            self.state = state

        def sync(self):
            return None

        def mark_dirty(self):
            raise Pytorch._Changed

    def __init__(self, row):
        self.row = row
        self.settings = settings_of(row)

    def _at_its_time(self):
        when = moment(self.row["utc"])
        clock = types.SimpleNamespace(now=lambda zone=None: when, utcnow=lambda: when)
        return mock.patch.multiple(rdzv, datetime=clock,
                                   time=types.SimpleNamespace(monotonic=lambda: self.row["now"] / SECOND))

    def decide(self):
        context = rdzv._RendezvousContext(self.row["node"], self.row["state"], self.settings)
        with self._at_its_time():
            try:
                action = OPERATIONS[self.row["operation"]]()(context, self.row["give_up"] / SECOND)
            except api.RendezvousGracefulExitError:
                return "graceful exit"
        return ACTIONS[action.name]

    def apply(self, action):
        """The state after it; None where PyTorch itself stumbles over the state."""
        state = pickle.loads(pickle.dumps(self.row["state"]))
        executor = rdzv._DistributedRendezvousOpExecutor(self.row["node"], self._Holder(state), self.settings)
        executor._record = lambda **_: None  # It walks the stack for every line, which takes long.
        name = next(name for name, ours in ACTIONS.items() if ours == action)
        with self._at_its_time():
            try:
                executor.run(lambda *_: rdzv._Action[name], 0)
            except self._Changed:
                return state
            except KeyError:
                return None
        raise AssertionError(f"{action} changes nothing")

    def heartbeat_due(self):
        with self._at_its_time():
            return rdzv._should_keep_alive(rdzv._RendezvousContext(self.row["node"], self.row["state"], self.settings))


class Ours:
    def __enter__(self):
        self._process = subprocess.Popen([DRIVER, "decide"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lines = Lines(self._process.stdout)
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            status = self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError("the driver did not end") from None
        if status != 0:
            raise AssertionError(f"the driver ended with {status}")

    def decide(self, row):
        """(action, bytes of the state after it or None)."""
        state, node = row["state"], row["node"]
        values = {name: row[name] for name in ("operation", "min", "max", "now", "give_up", "utc")}
        # These two come from the node's own clocks with us; here they are as PyTorch would have them.
        values["heartbeat_due"] = int(Pytorch(row).heartbeat_due())
        values["last_call_over"] = int(state.deadline is not None and state.deadline < moment(row["utc"]))
        values["last_call"] = LAST_CALL
        values["node"] = f"{node.addr},{node.pid},{node.local_id}"
        values["state"] = base64.b64encode(pickle.dumps(state)).decode()
        self._process.stdin.write(" ".join(f"{name}={value}" for name, value in values.items()) + "\n")
        self._process.stdin.flush()
        line = self._lines.next()
        if line is None:
            raise AssertionError(f"the driver ended at {values}")
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(f"{answer} at {values}")
        answer = answer["answer"]
        return answer["action"], base64.b64decode(answer["state"]) if "state" in answer else None


def is_broken(state, seal):
    """A member of the sealed round is gone, as far as can be seen. `seal`: what regroup wrote at the sealing."""
    size = len(state.participants)
    if seal and seal[0] == state.round:
        return seal[1] != size
    return any(rank >= size for rank in state.participants.values())


def expected_action(row, seal=None):
    """PyTorch's; but we do not start with a broken round, nor wait for one that is full, nor leave the spares of one
    that is more than full."""
    theirs = Pytorch(row).decide()
    state = row["state"]
    if (row["operation"] == "join" and theirs == "finish" and state.complete and row["node"] in state.participants
            and is_broken(state, seal)):
        return "remove from participants"
    if (row["operation"] == "join" and theirs in ("sync", "keep alive") and state.complete
            and row["node"] in state.wait_list - state.redundancy_list and len(state.participants) >= row["max"]):
        return "add to redundancy list"
    if theirs == "remove from redundancy list" and len(state.participants) > row["max"]:
        return Pytorch(row | {"max": len(state.participants)}).decide()
    return theirs


def expected_content(row, action):
    """PyTorch's; but our stamp always changes, so that others see it live, and who waits for a round that is
    sealed full is a spare from then on. None where PyTorch stumbles."""
    after = Pytorch(row).apply(action)
    if after is None:
        return None
    after = content(after)
    node, utc = row["node"], row["utc"]
    if action in STAMPING and micros_of(row["state"].last_heartbeats.get(node)) == utc:
        after["last_heartbeats"][node] = utc + 1
    if is_sealed_by(row, after["complete"]) and len(after["participants"]) == row["max"]:
        after["redundancy_list"] |= after["wait_list"]
        after["wait_list"] = set()
    if action == "add to redundancy list":
        after["wait_list"] -= {node}
    return after


def is_sealed_by(row, complete_after):
    return complete_after and not row["state"].complete


class Rows:
    """Random rows, most of them on an edge: times that are equal or one microsecond apart, full and almost full
    rounds, nodes on each of the lists and on none."""

    def __init__(self, seed):
        self.dice = random.Random(seed)

    def near(self, *edges):
        return self.dice.choice(edges) + self.dice.choice((0, 0, -1, 1, -SECOND, SECOND))

    def node(self, pids=3):
        # Addresses whose order as text is not that of their numbers.
        host = self.dice.choice(("10.0.0.10", "10.0.0.2", "n1", "n10", "n2", "Ä-node", "[::1]"))
        return rdzv._NodeDesc(host, self.dice.choice((9, 10, 65535)[:pids]), self.dice.randrange(2))

    def nodes(self, count):
        nodes = set()
        while len(nodes) < count:
            nodes.add(self.node())
        nodes = list(nodes)
        self.dice.shuffle(nodes)
        return nodes

    def state(self, row, sound=True):
        dice, state = self.dice, rdzv._RendezvousState()
        state.round = dice.choice((0, 1, 7, 300, 70000))
        state.complete = dice.random() < 0.5
        state.closed = dice.random() < 0.1
        if dice.random() < 0.6:
            state.deadline = moment(self.near(UTC, UTC + LAST_CALL))
        sizes = [row["min"] - 2, row["min"] - 1, row["min"], row["max"] - 1, row["max"], row["max"] + 1, 0]
        joined = max(0, dice.choice(sizes))
        others = self.nodes(joined + dice.randrange(6))
        ranks = list(range(joined))
        if dice.random() < 0.3:  # Somebody has left: a hole.
            ranks = sorted(dice.sample(range(joined + 2), joined))
        state.participants = {node: rank if state.complete else 0 for node, rank in zip(others, ranks)}
        for node in others[joined:]:
            dice.choice((state.wait_list, state.redundancy_list)).add(node)
        listed = [*state.participants, *state.wait_list, *state.redundancy_list]
        for node in listed:
            if sound or dice.random() < 0.7:
                state.last_heartbeats[node] = moment(self.near(UTC, UTC - INTERVAL, UTC - 3 * INTERVAL))
        if not sound:  # What no node writes, but a future one might.
            for node in self.nodes(2):
                dice.choice((state.wait_list, state.redundancy_list)).add(node)
                state.last_heartbeats[self.node()] = moment(self.near(UTC))
        return state

    def row(self, sound=True):
        dice = self.dice
        low = dice.choice((1, 1, 2, 3, 5))
        row = {"operation": dice.choice(("join", "join", "join", "exit", "close", "keep_alive")), "utc": UTC,
               "min": low, "max": low + dice.choice((0, 0, 1, 2, 4))}
        row["state"] = state = self.state(row, sound)
        listed = [list(state.participants), list(state.wait_list), list(state.redundancy_list), [self.node()]]
        row["node"] = dice.choice(dice.choice([nodes for nodes in listed if nodes]))
        row["give_up"] = 1000 * SECOND
        # In eighths of a second, which PyTorch's floating point has exactly.
        row["now"] = row["give_up"] + dice.choice((-8, 0, 0, 1, 8, 39, 40, 40, 41, 80, -800)) * SECOND // 8
        return row


def seeds():
    if ONE_SEED is not None:
        yield int(ONE_SEED)
        return
    started = time.monotonic()
    for seed in range(SEEDS):
        if "REGROUP_SEEDS" not in os.environ and time.monotonic() - started > TIME_LIMIT_S:
            return
        yield seed


def show(row):
    return {name: content(value) if name == "state" else value for name, value in row.items()}


class Decisions(unittest.TestCase):
    def setUp(self):
        self.ours = self.enterContext(Ours())
        self.met = Counter()

    def compare(self, row, seal=None, says=""):
        """Returns the action and the bytes of the state after it, where there is one."""
        says = f"{says} {show(row)}"
        wanted = expected_action(row, seal)
        action, after = self.ours.decide(row)
        self.assertEqual(action, wanted, says)
        self.met[action] += 1
        if after is None:
            return action, None
        expected = expected_content(row, action)
        if expected is None:  # PyTorch stumbles; ours only has to stay on its feet.
            return action, after
        state = pickle.loads(after)
        self.assertEqual(self.without_order(content(state), row, state),
                         self.without_order(expected, row, state), f"after {action}: {says}")
        return action, after

    @staticmethod
    def without_order(content, row, after):
        """Among nodes of regroup alone the ranks follow rules of our own; otherwise they are PyTorch's."""
        if is_sealed_by(row, after.complete) and all(is_regroup(node) for node in after.participants):
            return content | {"participants": (set(content["participants"]), set(content["participants"].values()))}
        return content

    def test_the_tables_and_the_states_after_them_are_pytorchs(self):
        for seed in seeds():
            rows = Rows(seed)
            for number in range(ROWS):
                self.compare(rows.row(), says=f"seed {seed}, row {number}:")
        if ONE_SEED is None:
            self.assertEqual(ALL_ACTIONS - set(self.met), set(), self.met)

    def test_states_that_no_node_writes_are_decided_alike(self):
        for seed in seeds():
            rows = Rows(f"unsound {seed}")
            for number in range(ROWS // 4):
                self.compare(rows.row(sound=False), says=f"seed {seed}, row {number}:")

    def test_a_run_of_both_kinds_walks_alike(self):
        """Each node in turn does what the tables say; the next one finds what PyTorch or we have written."""
        for seed in seeds():
            self.walk(seed)
        if ONE_SEED is None:
            self.assertGreater(self.met["mark complete"], 0, self.met)
            self.assertGreater(self.met["remove from participants"], 0, self.met)

    def walk(self, seed):
        dice = random.Random(f"walk {seed}")
        nodes = Rows(f"walk {seed}").nodes(dice.choice((2, 3, 5)))
        torchs = set(dice.sample(nodes, dice.randrange(len(nodes) + 1)))
        low = dice.randrange(1, len(nodes) + 1)
        high = dice.randrange(low, len(nodes) + 1)
        state, utc, seal = rdzv._RendezvousState(), UTC, None
        for step in range(ROWS):
            utc += dice.choice((0, 1, SECOND, INTERVAL, LAST_CALL))
            row = {"operation": dice.choice(("join", "join", "join", "join", "exit", "keep_alive")), "utc": utc,
                   "min": low, "max": high, "node": dice.choice(nodes), "state": state, "give_up": 1000 * SECOND,
                   "now": (1000 + dice.choice((-1, -1, -1, -1, 1))) * SECOND}
            action, after = self.compare(row, seal, f"seed {seed}, step {step}:")
            if after is None or (row["node"] in torchs and Pytorch(row).decide() != action):
                continue
            if row["node"] in torchs and expected_content(row, action) is not None:
                before, state = state, Pytorch(row).apply(action)
            else:
                before, state = state, pickle.loads(after)
                if state.complete and not before.complete:
                    seal = (state.round, len(state.participants))
            # Whoever writes keeps what others have said of themselves.
            for node in state.participants:
                self.assertEqual(is_regroup(node), node not in torchs, f"seed {seed}, step {step}: {node}")

    def test_times_are_compared_as_strictly_as_there(self):
        """Each edge by name; the random rows meet them too, but do not say so."""
        node, other = rdzv._NodeDesc("a", 1, 0), rdzv._NodeDesc("b", 2, 0)
        limit = 1000 * SECOND

        def row(**changes):
            state = rdzv._RendezvousState()
            state.participants = {node: 0, other: 0}
            state.last_heartbeats = {node: moment(UTC), other: moment(UTC)}
            for name, value in changes.pop("state", {}).items():
                setattr(state, name, value)
            return {"operation": "join", "utc": UTC, "min": 2, "max": 3, "node": node, "state": state,
                    "now": limit, "give_up": limit} | changes

        waits = {"participants": {other: 0}, "complete": True, "wait_list": {node}}
        due = {"last_heartbeats": {node: moment(UTC - INTERVAL)}}
        edges = {
            "exactly at the limit is in time": (row(), "sync"),
            "an eighth later the node takes itself off": (row(now=limit + SECOND // 8), "remove from participants"),
            "it may do so until the end of the rollback": (row(now=limit + ROLLBACK), "remove from participants"),
            "and not after": (row(now=limit + ROLLBACK + SECOND // 8), "error: timeout"),
            "so may a waiting node": (row(now=limit + ROLLBACK, state=waits), "remove from wait list"),
            "and neither after": (row(now=limit + ROLLBACK + SECOND // 8, state=waits), "error: timeout"),
            "a last call that ends now is not over": (row(state={"deadline": moment(UTC)}), "sync"),
            "a microsecond ago it is": (row(state={"deadline": moment(UTC - 1)}), "mark complete"),
            "a heartbeat as old as the interval is due": (row(state=due), "keep alive"),
            "a microsecond younger it is not": (
                row(state={"last_heartbeats": {node: moment(UTC - INTERVAL + 1)}}), "sync"),
            "a full round seals without a last call": (
                row(min=3, state={"participants": {other: 0, rdzv._NodeDesc("c", 3, 0): 0}}), "add to participants"),
            "exit at the limit is in time": (row(operation="exit"), "remove from participants"),
            "exit after it is not": (row(operation="exit", now=limit + SECOND // 8), "error: timeout"),
            "close at the limit is in time": (row(operation="close"), "mark closed"),
            "close after it is not": (row(operation="close", now=limit + SECOND // 8), "error: timeout"),
            "a closed run needs no closing, however late": (
                row(operation="close", now=limit * 2, state={"closed": True}), "finish"),
            "a heartbeat at the limit is in time": (row(operation="keep_alive", state=due), "keep alive"),
            "a heartbeat after it is not": (
                row(operation="keep_alive", now=limit + SECOND // 8, state=due), "error: timeout"),
            "a heartbeat that is not due is never late": (
                row(operation="keep_alive", now=limit * 2), "finish"),
        }
        for name, (one, action) in edges.items():
            with self.subTest(name):
                self.assertEqual(Pytorch(one).decide(), action)
                self.assertEqual(self.compare(one)[0], action)

    def test_a_late_reader_does_not_start_with_a_broken_round(self):
        """In PyTorch's table each member starts with the ranks it finds."""
        a, b, c = (rdzv._NodeDesc(name, 1, 0) for name in "abc")

        def row(participants):
            state = rdzv._RendezvousState()
            state.complete, state.participants = True, participants
            state.last_heartbeats = dict.fromkeys(participants, moment(UTC))
            return {"operation": "join", "utc": UTC, "min": 1, "max": 3, "node": a, "state": state, "now": 0,
                    "give_up": SECOND}

        for participants, ours in (({a: 0, b: 1, c: 2}, "finish"), ({a: 0, c: 2}, "remove from participants"),
                                   ({a: 1, b: 2}, "remove from participants"), ({a: 2}, "remove from participants"),
                                   # The last one has gone, and PyTorch's seal does not say that there was one.
                                   ({a: 0, b: 1}, "finish")):
            with self.subTest(participants):
                self.assertEqual(Pytorch(row(participants)).decide(), "finish")
                self.assertEqual(self.compare(row(participants))[0], ours)

        # Sealed by us, that can be seen too.
        open_round = row({b: 0, c: 0})
        open_round["state"].complete = False
        _, sealed = self.compare(open_round)
        for gone, ours in ((None, "finish"), (b, "remove from participants"), (c, "remove from participants")):
            state = pickle.loads(sealed)
            self.assertTrue(state.complete)
            if gone:
                one = open_round | {"operation": "exit", "node": gone, "state": state}
                state = Pytorch(one).apply("remove from participants")
            with self.subTest("sealed by us", gone=gone):
                late = open_round | {"state": state}
                self.assertEqual(Pytorch(late).decide(), "finish")
                self.assertEqual(self.compare(late, seal=(state.round, 3))[0], ours)

    def test_a_round_that_is_sealed_full_leaves_nobody_waiting(self):
        """In PyTorch's table they wait on; the members see that, meet again, and leave another one waiting."""
        a, b, c = (rdzv._NodeDesc(name, 1, 0) for name in "abc")
        for most, wait_list, redundancy_list in ((2, set(), {c}), (3, {c}, set())):
            with self.subTest(max=most):
                state = rdzv._RendezvousState()
                state.participants, state.wait_list = {a: 0, b: 0}, {c}
                state.deadline = moment(UTC - 1)
                state.last_heartbeats = dict.fromkeys((a, b, c), moment(UTC - SECOND))
                row = {"operation": "join", "utc": UTC, "min": 2, "max": most, "node": a, "state": state, "now": 0,
                       "give_up": SECOND}
                action, after = self.compare(row)
                self.assertEqual(action, "mark complete")
                self.assertEqual(Pytorch(row).apply(action).wait_list, {c})
                after = pickle.loads(after)
                self.assertEqual((after.wait_list, after.redundancy_list), (wait_list, redundancy_list))

    def test_who_waits_for_a_round_that_pytorch_sealed_full_becomes_a_spare(self):
        a, w = (rdzv._NodeDesc(name, 1, 0) for name in "aw")
        state = rdzv._RendezvousState()
        state.complete, state.participants, state.wait_list = True, {a: 0}, {w}
        state.last_heartbeats = dict.fromkeys((a, w), moment(UTC - SECOND))
        row = {"operation": "join", "utc": UTC, "min": 1, "max": 1, "node": w, "state": state, "now": 0,
               "give_up": SECOND}
        self.assertEqual(Pytorch(row).decide(), "sync")
        action, after = self.compare(row)
        self.assertEqual(action, "add to redundancy list")
        after = pickle.loads(after)
        self.assertEqual((after.wait_list, after.redundancy_list), (set(), {w}))


def is_regroup(node):
    return "regroup" in vars(node)


if __name__ == "__main__":
    unittest.main()
