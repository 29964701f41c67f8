"""The shared rendezvous state, pickled by PyTorch's own classes and by us, and what each makes of the other's.

    REGROUP_SEEDS=50000 dev/test.py --filter test_rendezvous_state     more states
"""

import base64
import contextlib
import os
import pickle
import pickletools
import random
import subprocess
import tempfile
import time
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path

import torch_support  # noqa: F401  Sets PyTorch's environment before it is imported.
import torch.distributed.elastic.rendezvous.dynamic_rendezvous as rendezvous
from store_support import BUILD, LIMIT_S, Lines
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import _NodeDesc, _RendezvousState

SEEDS = int(os.environ.get("REGROUP_SEEDS", 2000))
PROTOCOLS = (3, 4, 5)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
ATTRIBUTES = list(vars(_RendezvousState()))


class Refused(Exception):
    """Our codec did not accept a state."""


class Codec:
    """tests/state_driver.cc, until the block ends."""

    def __enter__(self):
        self._process = subprocess.Popen([BUILD / "test/state_driver"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self._lines = Lines(self._process.stdout)
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        if self._process.wait(LIMIT_S) != 0:
            raise AssertionError(f"the driver ended with {self._process.returncode}")

    def ask(self, *words):
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        line = self._lines.next()
        self._lines.seen.clear()
        if line is None:
            raise AssertionError(f"the driver ended at {words}")
        word, _, rest = line.partition(" ")
        if word != "ok":
            raise Refused(rest)
        return rest

    def recode(self, pickled):
        return base64.b64decode(self.ask("recode", base64.b64encode(pickled).decode()))

    def random(self, seed, nodes):
        return base64.b64decode(self.ask("random", seed, nodes))

    def same(self, seed, nodes, pickled):
        self.ask("same", seed, nodes, base64.b64encode(pickled).decode())

    def show(self, pickled):
        return self.ask("show", base64.b64encode(pickled).decode())


def typed(value):
    """A value in a form that is equal only if the types are, too: for Python 1 == True."""
    if isinstance(value, dict):
        return "dict", {typed(key): typed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, tuple(map(typed, value))
    if isinstance(value, set):
        return "set", frozenset(map(typed, value))
    if isinstance(value, datetime):
        return "datetime", value.replace(tzinfo=None), value.tzinfo
    return type(value).__name__, value


def content(state):
    return {name: typed(value) for name, value in vars(state).items()}


def claims(state):
    nodes = [*state.participants, *state.wait_list, *state.redundancy_list]
    return {node: node.regroup for node in nodes if hasattr(node, "regroup")}


# --- random states of PyTorch's --------------------------------------------------------------------

class Maker:
    """Makes states as PyTorch's nodes could, and stranger ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.zone = self.random.choice([None, timezone.utc])

    def one_in(self, n):
        return self.random.randrange(n) == 0

    def number(self):
        return self.random.getrandbits(self.random.randrange(64))

    def text(self):
        length = self.random.choice([0, 1, 3, 8, 20, 255, 256, 300] if self.one_in(20) else [3, 8, 20])
        return "".join(self.random.choice("abcxyz0123456789-.:äß€🚀") for _ in range(length))[:250]

    def time(self, zone):
        moment = EPOCH + timedelta(days=self.random.randrange(-719162, 2932896) if self.one_in(10) else 20000,
                                   microseconds=self.random.randrange(86400 * 10**6))
        return moment.replace(tzinfo=zone)

    def node(self, number):
        node = _NodeDesc(self.text(), self.number() * self.random.choice([1, 1, 1, -1]), number)
        if self.one_in(10):  # What a node of another version might have.
            vars(node)["fqdn"] = "old-" + self.text()
        if self.one_in(10):
            vars(node)["of_tomorrow"] = self.value(2, [])
        if self.one_in(3):
            vars(node)["regroup"] = f"{self.random.choice(['-', self.number()])}:-:{self.text()}"
        if self.one_in(10):  # The order of the attributes means nothing.
            attributes = list(vars(node).items())
            self.random.shuffle(attributes)
            vars(node).clear()
            vars(node).update(attributes)
        return node

    def key(self):
        return self.random.choice([self.text(), self.number() + 2, (self.text(), None), self.text().encode()[:200]])

    def value(self, depth, nodes):
        def inside():
            return self.value(depth - 1, nodes)
        size = self.random.randrange(4)
        kinds = [lambda: None, lambda: self.one_in(2), lambda: self.number() * self.random.choice([1, -1]),
                 self.text, lambda: self.text().encode()[:200], lambda: self.time(None),
                 lambda: self.time(timezone.utc), lambda: timezone.utc, lambda: timedelta(0)]
        if nodes:
            kinds.append(lambda: self.random.choice(nodes))
        if depth > 0:
            kinds += [lambda: tuple(inside() for _ in range(size)), lambda: [inside() for _ in range(size)],
                      lambda: {self.key(): inside() for _ in range(size)},
                      lambda: {self.key() for _ in range(size)}]
        return self.random.choice(kinds)()

    def again(self, node):
        """An equal node that is another object, as after a trip through a node of PyTorch's."""
        if not self.one_in(4):
            return node
        copy = object.__new__(_NodeDesc)
        vars(copy).update(vars(node))
        return copy

    def state(self, size=None):
        state = _RendezvousState()
        state.round = self.number() >> 1
        state.complete = self.one_in(2)
        state.closed = self.one_in(2)
        if self.one_in(2):
            state.deadline = self.time(self.zone)
        if size is None:
            size = self.random.randrange(40) if self.one_in(20) else self.random.randrange(7)
        nodes = [self.node(number) for number in range(size)]
        for node in nodes:
            self.random.choice([
                lambda n: state.participants.update({n: self.number()}),
                lambda n: state.participants.update({n: self.number()}),
                lambda n: state.wait_list.add(n), lambda n: state.redundancy_list.add(n), lambda n: None])(node)
            if not self.one_in(8):
                state.last_heartbeats[self.again(node)] = self.time(self.zone)
        for _ in range(self.random.randrange(3)):
            setattr(state, "new_" + self.random.choice("abc"), self.value(3, nodes))
        if self.one_in(3):
            attributes = list(vars(state).items())
            self.random.shuffle(attributes)
            vars(state).clear()
            vars(state).update(attributes)
        return state

    def pickled(self, state):
        pickled = pickle.dumps(state, self.random.choice(PROTOCOLS))
        return pickletools.optimize(pickled) if self.one_in(5) else pickled


# --- what `show` says, worked out from the objects that Python loaded ------------------------------

def printable(text):
    raw = text.encode("utf-8", "surrogatepass")
    shown = "".join(chr(c) if 0x20 <= c < 0x7f and c not in b"'\\" else f"\\x{c:02x}" for c in raw[:120])
    return f"'{shown}'" + (f"… ({len(raw)} bytes)" if len(raw) > 120 else "")


def micros(moment):
    return (moment.replace(tzinfo=timezone.utc) - EPOCH) // timedelta(microseconds=1)


def shown_node(node):
    shown = f" {printable(node.addr)}/{node.pid}/{node.local_id}"
    if hasattr(node, "regroup"):
        wish, held, name = node.regroup.split(":", 2)
        shown += f"{{name {printable(name)}"
        shown += "" if wish == "-" else f" wish {wish}"
        shown += ("" if held == "-" else f" held {held}") + "}"
    return shown


def shown_state(state):
    times = [time for time in [state.deadline, *state.last_heartbeats.values()] if time is not None]
    shown = f"round {state.round}" + (" complete" if state.complete else " open")
    shown += " closed" if state.closed else ""
    shown += " naive" if times and times[0].tzinfo is None else " aware"
    shown += f" deadline {micros(state.deadline)}" if state.deadline else ""
    shown += f" seal {state.regroup}" if hasattr(state, "regroup") else ""
    shown += " participants ["
    shown += "".join(f"{shown_node(node)}={state.participants[node]}" for node in sorted(state.participants))
    shown += " ] wait_list [" + "".join(map(shown_node, sorted(state.wait_list)))
    shown += " ] redundancy_list [" + "".join(map(shown_node, sorted(state.redundancy_list)))
    shown += " ] last_heartbeats [" + "".join(
        f" {printable(str(node))}={micros(state.last_heartbeats[node])}" for node in sorted(state.last_heartbeats))
    return shown + " ] extra ["


class StateTest(unittest.TestCase):
    def setUp(self):
        self.codec = self.enterContext(Codec())

    def refusal(self, pickled):
        with self.assertRaises(Refused) as raised:
            self.codec.recode(pickled)
        return str(raised.exception)


class RandomStates(StateTest):
    def check_recoded(self, state, pickled):
        recoded = self.codec.recode(pickled)
        loaded = pickle.loads(recoded)
        self.assertIs(type(loaded), _RendezvousState)
        self.assertEqual(content(loaded), content(state))
        # A list of Python's and one of ours may hold equal nodes that are two objects; what a node
        # says of itself is kept in the lists.
        self.assertEqual(claims(loaded), claims(state))
        for node in [*loaded.participants, *loaded.last_heartbeats, *loaded.wait_list, *loaded.redundancy_list]:
            self.assertLessEqual(set(vars(node)), {"addr", "pid", "local_id", "regroup"})
        self.assertEqual(self.codec.recode(recoded), recoded)

    def test_what_pytorch_pickles_comes_back_from_us_unchanged(self):
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                maker = Maker(seed)
                state = maker.state()
                self.check_recoded(state, maker.pickled(state))

    def test_states_of_several_batches_and_frames(self):
        for size in (256, 999, 1000, 1001, 2001):
            maker = Maker(size)
            state = maker.state(size)
            for protocol in PROTOCOLS:
                with self.subTest(size=size, protocol=protocol):
                    self.check_recoded(state, pickle.dumps(state, protocol))

    def test_what_we_write_is_what_pytorch_loads_and_comes_back_the_same(self):
        for seed in range(SEEDS):
            nodes = 300 if seed % 500 == 0 else seed % 9
            with self.subTest(seed=seed, nodes=nodes):
                pickled = self.codec.random(seed, nodes)
                state = pickle.loads(pickled)
                self.assertEqual(list(map(type, [state, state.complete, state.participants, state.wait_list])),
                                 [_RendezvousState, bool, dict, set])
                shown, _, extra = self.codec.show(pickled).partition(" extra [")
                self.assertEqual(shown + " extra [", shown_state(state))
                fragments = {base64.b64decode(name).decode(): base64.b64decode(fragment)
                             for name, fragment in (word.split(":") for word in extra.split()[:-1])}
                unknown = {name: value for name, value in vars(state).items() if name not in ATTRIBUTES + ["regroup"]}
                alone = {name: pickle.loads(b"\x80\x04" + fragment + b".") for name, fragment in fragments.items()}
                self.assertEqual(typed(alone), typed(unknown))
                for protocol in PROTOCOLS:
                    self.codec.same(seed, nodes, pickle.dumps(state, protocol))

    def test_a_state_without_anything(self):
        for protocol in PROTOCOLS:
            self.check_recoded(_RendezvousState(), pickle.dumps(_RendezvousState(), protocol))


class Refusals(StateTest):
    def broken(self, **attributes):
        state = _RendezvousState()
        node = _NodeDesc("node-a", 1, 0)
        state.participants[node] = 0
        state.last_heartbeats[node] = datetime.now(timezone.utc)
        vars(state).update(attributes)
        return [self.refusal(pickle.dumps(state, protocol)) for protocol in PROTOCOLS]

    def assert_all(self, messages, *words):
        for message in messages:
            for word in words:
                self.assertIn(word, message)

    def test_wrong_types_are_named(self):
        now, naive = datetime.now(timezone.utc), datetime(2024, 1, 1)
        node = _NodeDesc("node-b", 1, 0)
        self.assert_all(self.broken(round=True), "'round' is a bool and not an int")
        self.assert_all(self.broken(round=-1), "'round' is negative")
        self.assert_all(self.broken(round=2**62 + 1), "'round' is too large")
        self.assert_all(self.broken(complete=0), "'complete' is an int and not a bool")
        self.assert_all(self.broken(closed=None), "'closed' is None and not a bool")
        self.assert_all(self.broken(deadline=3), "'deadline' is an int")
        self.assert_all(self.broken(deadline=naive), "mixes times with and without a timezone")
        self.assert_all(self.broken(deadline=now.astimezone(timezone(timedelta(hours=1)))), "UTC", "'deadline'")
        self.assert_all(self.broken(deadline=now.astimezone(timezone(timedelta(0), "GMT"))), "UTC", "'deadline'")
        self.assert_all(self.broken(participants=[]), "'participants' is a list")
        self.assert_all(self.broken(participants={node: True}), "rank of 'node-b' is a bool")
        self.assert_all(self.broken(participants={node: -1}), "rank of 'node-b' is -1")
        self.assert_all(self.broken(participants={"node-b": 1}), "'participants' holds a text in place of a node")
        self.assert_all(self.broken(wait_list={}), "'wait_list' is a dict")
        self.assert_all(self.broken(wait_list={1}), "'wait_list' holds 1 in place of a node")
        self.assert_all(self.broken(last_heartbeats={node: 1.5}), "opcode 0x47", "'last_heartbeats'")
        self.assert_all(self.broken(last_heartbeats={node: 1}), "time of 'node-b' is 1")
        self.assert_all(self.broken(wait_list={_NodeDesc("node-b", True, 0)}), "'pid' of a node is a bool")
        self.assert_all(self.broken(wait_list={_NodeDesc(b"node-b", 1, 0)}), "'addr' of a node is bytes")

    def test_a_value_that_we_cannot_keep_is_named_by_its_attribute(self):
        self.assert_all(self.broken(speed=1.5), "opcode 0x47 at byte", "'speed'")
        self.assert_all(self.broken(size=1 << 80), "more than 64 bits", "'size'")
        self.assert_all(self.broken(path=Path("/tmp")), "of the Python module 'pathlib'", "'path'")
        self.assert_all(self.broken(kind=datetime), "'kind' is or holds a class")
        loop = []
        loop.append(loop)
        self.assert_all(self.broken(loop=loop), "'loop' is nested too deeply, or in itself")
        bomb = ["x" * 200]
        for _ in range(12):
            bomb = [bomb, bomb, bomb]
        self.assert_all(self.broken(bomb=bomb), "'bomb' is too large")

    def test_the_states_of_old_pytorch_are_refused_by_name(self):

        state = _RendezvousState()
        state.participants = {_NodeDesc("0123456789", 1, 0): 0}
        pickled = pickle.dumps(state, 4).replace(b"\x8c\x04addr", b"\x8c\x04fqdn")
        self.assertRegex(self.refusal(pickled), r"'fqdn'.*PyTorch 1\.13.*PyTorch 2\.4 or newer")
        del state.redundancy_list
        self.assertRegex(self.refusal(pickle.dumps(state)), r"'redundancy_list'.*before PyTorch 2\.3.*2\.4 or newer")

    def test_code_in_a_pickle_runs_in_python_and_not_in_us(self):
        with tempfile.TemporaryDirectory() as folder:
            marker = Path(folder) / "marker"

            class Evil:
                def __reduce__(self):
                    return os.system, (f"touch {marker}",)

            for hide in (lambda state: vars(state).update(round=Evil()), lambda state: vars(state).update(new=Evil()),
                         lambda state: vars(state).update(wait_list=[Evil()]), None):
                for protocol in range(6):
                    state = _RendezvousState()
                    if hide:
                        hide(state)
                    pickled = pickle.dumps(state if hide else Evil(), protocol)
                    self.assertIn("corrupt", self.refusal(pickled))
                    self.assertFalse(marker.exists())
                    pickle.loads(pickled)
                    self.assertTrue(marker.exists())  # Or this test would prove nothing.
                    marker.unlink()

    def test_every_protocol_before_3_is_refused(self):
        for protocol in range(3):
            self.assertIn("protocol 3 to 5", self.refusal(pickle.dumps(_RendezvousState(), protocol)))

    def test_a_damaged_state_is_refused_or_is_a_state(self):
        dice = random.Random(7)
        for seed in range(SEEDS):
            pickled = bytearray(Maker(seed).pickled(Maker(seed).state(3)))
            for _ in range(dice.randrange(1, 4)):
                pickled[dice.randrange(len(pickled))] = dice.choice([dice.randrange(256), *b"(.)cRbisou\x85\x94\x93"])
            with contextlib.suppress(Refused):
                recoded = self.codec.recode(pickled)
                self.assertEqual(self.codec.recode(recoded), recoded)
                self.assertIs(type(pickle.loads(recoded)), _RendezvousState)


# --- PyTorch's own machine on states that have gone through us -------------------------------------

def torch_now():
    """The time as this PyTorch writes it: up to 2.5 without a timezone."""
    return datetime.now(timezone.utc).replace(tzinfo=timezone.utc if hasattr(rendezvous, "timezone") else None)


class OurBackend(rendezvous.RendezvousBackend):
    """Keeps one state. Whatever is written is read back as we would have written it."""

    name = "ours"

    def __init__(self, codec):
        self.codec = codec
        self.bits = None
        self.token = 0

    def get_state(self):
        return None if self.bits is None else (self.bits, self.token)

    def set_state(self, state, token=None):
        if token == (self.token or None):
            self.bits, self.token = self.codec.recode(state), self.token + 1
            return self.bits, self.token, True
        return self.bits, self.token, False


class TorchOnOurState(StateTest):
    def setUp(self):
        super().setUp()
        self.backend = OurBackend(self.codec)

    def settings(self, least, most):
        return rendezvous.RendezvousSettings("run", least, most, rendezvous.RendezvousTimeout(),
                                             timedelta(seconds=5), 3)

    def play(self, operation, node, settings):
        holder = rendezvous._BackendRendezvousStateHolder(self.backend, settings, cache_duration=0)
        executor = rendezvous._DistributedRendezvousOpExecutor(node, holder, settings)
        executor.run(operation, time.monotonic() + 20)
        return holder.state

    def waiting_state(self, *nodes):
        """A round that is open, with these in it, as a regroup node would have written it."""
        state = _RendezvousState()
        for node in nodes:
            vars(node)["regroup"] = f"-:-:{node.addr}"
            state.participants[node] = 0
            state.last_heartbeats[node] = torch_now()
        state.regroup = "0:2"
        state.of_tomorrow = ["kept", {"as": b"it is"}]
        self.backend.set_state(pickle.dumps(state))

    def test_a_node_joins_completes_keeps_alive_leaves_and_closes(self):
        ours = [_NodeDesc("node-c", 3, 0), _NodeDesc("node-b", 2, 0)]
        self.waiting_state(*ours)
        theirs = _NodeDesc("node-a", 1, 0)
        settings = self.settings(3, 3)
        state = self.play(rendezvous._RendezvousJoinOp(), theirs, settings)
        self.assertTrue(state.complete)
        self.assertEqual(state.participants, {theirs: 0, ours[1]: 1, ours[0]: 2})
        self.assertEqual({node.addr: getattr(node, "regroup", None) for node in state.participants},
                         {"node-a": None, "node-b": "-:-:node-b", "node-c": "-:-:node-c"})
        self.assertEqual((state.regroup, state.of_tomorrow), ("0:2", ["kept", {"as": b"it is"}]))

        self.play(rendezvous._RendezvousKeepAliveOp(), theirs, settings)
        state = self.play(rendezvous._RendezvousExitOp(), theirs, settings)
        self.assertEqual(sorted(state.participants), sorted(ours))
        state = self.play(rendezvous._RendezvousCloseOp(), theirs, settings)
        self.assertTrue(state.closed)

    def test_a_silent_node_is_dropped(self):
        silent, alive = _NodeDesc("node-s", 1, 0), _NodeDesc("node-t", 1, 0)
        self.waiting_state(silent, alive)
        state = pickle.loads(self.backend.bits)
        state.last_heartbeats[silent] -= timedelta(seconds=60)
        self.backend.bits = self.codec.recode(pickle.dumps(state))
        state = self.play(rendezvous._RendezvousJoinOp(), _NodeDesc("node-u", 1, 0), self.settings(2, 2))
        self.assertEqual([node.addr for node in sorted(state.participants)], ["node-t", "node-u"])
        self.assertNotIn(silent, state.last_heartbeats)

    def test_many_nodes_join_one_after_the_other(self):
        settings = self.settings(12, 12)
        holders = []
        for number in range(12):
            node = _NodeDesc(f"node-{number}", number, 0)
            holder = rendezvous._BackendRendezvousStateHolder(self.backend, settings, cache_duration=0)
            holder.sync()
            executor = rendezvous._DistributedRendezvousOpExecutor(node, holder, settings)
            executor._state = holder.state
            executor._add_to_participants()
            holder.mark_dirty()
            self.assertTrue(holder.sync())
            holders.append(holder)
        self.assertTrue(holders[-1].state.complete)
        self.assertEqual(sorted(holders[-1].state.participants.values()), list(range(12)))


if __name__ == "__main__":
    unittest.main()
