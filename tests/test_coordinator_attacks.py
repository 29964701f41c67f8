"""Whoever reaches the port may speak to the coordinator: liars, mutes, floods and crowds. Beside all of them a good
job of two nodes starts, loses a worker, recovers and ends well. Node A hosts the coordinator.

REGROUP_CROWD says how many half-open connections come (2000)."""

import contextlib
import itertools
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

import session_wire as wire
import store_wire
from run_support import until
from session_wire import RawSession
from store_support import BINARY
from store_wire import RawClient
from test_run import RunTest

CROWD = int(os.environ.get("REGROUP_CROWD", "2000"))
RUN = b"job"

ABSURD_RULES = wire.rules(min_nodes=wire.HIGHEST, max_nodes=wire.HIGHEST, last_call=wire.LONGEST,
                          heartbeat_limit=0, reconnect_grace=wire.LONGEST, max_restarts=wire.HIGHEST,
                          window=wire.LONGEST, per_node=True, crash_loop=wire.HIGHEST, crash_loop_time=wire.LONGEST,
                          codes=[-2**63, 2**63 - 1] * 128, strikes=wire.HIGHEST, changes=0)
# Allowed by the limits of the protocol, and of no use to anybody.
ABSURD = {
    "rules": {"run_rules": ABSURD_RULES},
    "workers without end": {"workers": 1 << 31},
    "a wish": {"wish": wire.HIGHEST},
    "a place of long ago": {"held": (0, 0, 1)},
    "a place of a time to come": {"held": (wire.HIGHEST, wire.HIGHEST, wire.HIGHEST)},
    "it runs the last round of all": {"running": (wire.HIGHEST, 0, wire.HIGHEST, wire.HIGHEST, True)},
    "it runs as rank 0, and is done": {"running": (0, 0, 2, 0, True)},
    "a rank beyond its world": {"running": (0, wire.HIGHEST, 1, 0, False)},
    "the name of node B": {"name": b"127.0.0.2"},
    "long texts": {"name": b"n" * 896, "address": b"a" * 1024, "role": b"r" * 4096},
    "texts that are none": {"name": bytes(range(128)), "address": b"\0\n\x1b[31m", "role": b"\xff" * 99},
    "empty texts": {"name": b"", "address": b"", "role": b"", "pid": -2**63, "local_id": 2**63 - 1},
    "a newer version": {"version": 2**32 - 1},
}
# Frames that end their connection.
RUBBISH = {
    "a frame without a kind": wire.u32(0),
    "a frame of 4 GiB": wire.u32(2**32 - 1) + b"\1",
    "a frame just over the limit": wire.u32(wire.LARGEST_FRAME) + b"\1" * 100,
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "ones": b"\xff" * 1000,
    "a warning of nobody": wire.warn(signal.SIGKILL),
    "a join of nobody": wire.join(1),
    "a done of nobody": wire.done(0),
    "the end of a run, of nobody": wire.leave(b"over", close=True),
    "half a hello in a whole frame": wire.frame(wire.HELLO, wire.u32(1) + wire.text(RUN)),
    "version 0": wire.hello(RUN, version=0),
    "no workers": wire.hello(RUN, workers=0),
    "more workers than there may be": wire.hello(RUN, workers=(1 << 31) + 1),
    "no nodes": wire.hello(RUN, run_rules=wire.rules(min_nodes=0)),
    "a negative time": wire.hello(RUN, run_rules=wire.rules(reconnect_grace=-1)),
    "a flag of 2": wire.frame(wire.LEAVE, wire.text(b"") + b"\2"),
    "a text beyond the limit": wire.hello(RUN, role=b"n" * 4097),
    "a name beyond the limit": wire.hello(RUN, name=b"n" * 897) + wire.join(1),
    "an address beyond the limit": wire.hello(RUN, address=b"a" * 1025) + wire.join(1),
    "a name that is no UTF-8": wire.hello(RUN, name=b"\xff") + wire.join(1),
    "an address that is no UTF-8": wire.hello(RUN, address=b"\x80") + wire.join(1),
    "too many exit codes": wire.hello(RUN, run_rules=wire.rules(codes=[1] * 257)),
    "hello twice": wire.hello(RUN, pid=2) * 2,
}


SECRET = b"what all nodes of the job know"


class AttackTest(RunTest):
    secret_file = None
    def setUp(self):
        super().setUp()
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.guests = self.enterContext(contextlib.ExitStack())
        self.numbers = itertools.count(1000)

    def host(self, *flags):
        """Node A, once its coordinator is there."""
        a = self.node("A", "--max-restarts", "3", "--local-addr", "127.0.0.1", *self.secret_flags(), *flags)
        self.assertTrue(until(lambda: self.look().returncode == 0), a.err.seen)
        return a

    def other(self):
        return self.node("B", "--max-restarts", "3", "--local-addr", "127.0.0.2", *self.secret_flags())

    def secret_flags(self):
        return [] if self.secret_file is None else ["--rdzv-secret-file", self.secret_file]

    def look(self):
        return subprocess.run([BINARY, "status", f"127.0.0.1:{self.port}", "--run", "job", *self.secret_flags()],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def session(self):
        return self.guests.enter_context(RawSession(self.port))

    def recovers(self, before, restart):
        """A worker of node B dies, and all are started again."""
        os.kill(next(one.pid for one in before if one.node == "B"), signal.SIGKILL)
        again = self.crew.complete(2, but=before)
        self.assertEqual({(one.node, one["TORCHELASTIC_RESTART_COUNT"]) for one in again},
                         {("A", str(restart)), ("B", str(restart))})
        return again

    def ends_well(self, *nodes):
        self.crew.order(0)
        self.assert_success(*nodes)

    def starts_recovers_and_ends(self, a):
        """Node B comes to the attack that is under way."""
        b = self.other()
        self.recovers(self.crew.complete(2), 1)
        self.ends_well(a, b)
        self.assertEqual(len(self.crew.starts()), 4)

    def keep_at_it(self, attack, threads):
        """In so many threads, again and again until the test ends; gives the list of its successes."""
        stop, times = threading.Event(), []

        def run():
            while not stop.is_set():
                try:
                    times.append(attack())
                except (OSError, store_wire.Closed, AssertionError):
                    stop.wait(0.001)  # Closed, or the coordinator has ended with its run.
        crowd = [threading.Thread(target=run) for _ in range(threads)]
        for thread in crowd:
            thread.start()
            self.guests.callback(thread.join)
        self.guests.callback(stop.set)
        self.assertTrue(until(lambda: len(times) >= threads))
        return times


class Attacks(AttackTest):
    # ---- what is said ----

    def test_rubbish_ends_its_own_session_only(self):
        a = self.host()
        for name, data in RUBBISH.items():
            with self.subTest(name), RawSession(self.port) as liar:
                liar.send(data)
                # Whatever it has become is shown to nodes without a session.
                with RawClient(self.port) as reader:
                    reader.ask(store_wire.get(b"/torch.rendezvous." + RUN))
                liar.receive_to_end()
        self.starts_recovers_and_ends(a)

    def test_rubbish_all_the_time(self):
        dice = random.Random(7)
        kinds = [*range(0, 12), *range(60, 80), 255]

        def attack():
            with RawSession(self.port) as liar:
                for _ in range(20):
                    liar.send(wire.frame(dice.choice(kinds), dice.randbytes(dice.randrange(200))))
                return liar.receive_to_end()
        a = self.host()
        times = self.keep_at_it(attack, 4)
        self.starts_recovers_and_ends(a)
        self.assertGreater(len(times), 4)

    def test_a_frame_of_a_newer_peer_is_no_rubbish(self):
        a = self.host()
        newer = self.session()
        newer.send(wire.frame(63, b"whatever") + wire.look(RUN))
        newer.until_frame(wire.REPORT)
        self.starts_recovers_and_ends(a)

    def test_absurd_hellos(self):
        """Before node B is there, and after."""
        a = self.host()
        for name, values in ABSURD.items():
            with self.subTest(name):
                guest = self.session()
                guest.send(wire.hello(RUN, **{"pid": next(self.numbers), **values}) + wire.ping(1))
                guest.until_frame(wire.WELCOME)
                guest.until_frame(wire.PONG)
        b = self.other()
        before = self.crew.complete(2)
        for name, values in ABSURD.items():
            with self.subTest(f"{name}, and wants to come in"):
                guest = self.session()
                guest.send(wire.hello(RUN, **{"pid": next(self.numbers), **values})
                           + wire.join(2**64 - 1, b"x" * 4096, 0)
                           + wire.failed(0, wire.HIGHEST, b"x" * 4096, -2**63, b"\n\x1b[31m" * 100)
                           + wire.warn(signal.SIGKILL) + wire.done(0) + wire.ping(1))
                guest.until_frame(wire.PONG)
        self.assertEqual([one.pid for one in self.crew.complete(2)], [one.pid for one in before])
        self.recovers(before, 1)
        self.assertEqual(self.look().returncode, 0)
        self.ends_well(a, b)
        self.assertEqual(len(self.crew.starts()), 4)

    def test_somebody_says_that_it_is_node_b(self):
        """It takes node B's session away, and node B comes back; the workers do not notice."""
        a, b = self.host(), self.other()
        before = self.crew.complete(2)
        for _ in range(5):
            with RawSession(self.port) as liar:
                liar.send(wire.hello(RUN, address=b"127.0.0.2", pid=b.pid, name=b"127.0.0.2"))
                liar.until_frame(wire.WELCOME)
                liar.receive_to_end()  # Node B is back.
        self.assertEqual([one.pid for one in self.crew.complete(2)], [one.pid for one in before])
        self.recovers(before, 1)
        self.ends_well(a, b)

    # ---- what is not said, or not heard ----

    def test_half_a_frame_and_silence(self):
        a = self.host()
        whole = wire.hello(RUN, pid=next(self.numbers))
        for cut in range(1, len(whole), 3):
            self.session().send(whole[:cut])
        self.starts_recovers_and_ends(a)

    def test_a_crowd_of_half_open_connections(self):
        a = self.host()
        words = [b"", store_wire.GREETING[:3], store_wire.GREETING,
                 store_wire.GREETING + store_wire.check([wire.KEY])[:-3],
                 store_wire.GREETING + store_wire.check([wire.KEY]),
                 store_wire.GREETING + store_wire.wait([b"/never"])]
        for number in range(CROWD):
            one = self.guests.enter_context(socket.create_connection(("127.0.0.1", self.port), 30))
            one.sendall(words[number % len(words)])
        self.starts_recovers_and_ends(a)

    def test_silent_connections_leave_descriptors_for_the_job(self):
        a = self.host()
        resource.prlimit(a.pid, resource.RLIMIT_NOFILE, (256, 256))
        for _ in range(300):
            self.guests.enter_context(socket.create_connection(("127.0.0.1", self.port), 30))
        self.starts_recovers_and_ends(a)

    def test_sessions_that_are_told_much_and_never_read(self):
        a, b = self.host(), self.other()
        before = self.crew.complete(2)
        deaf = []
        for _ in range(200):
            one = self.session()
            one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            one.send(wire.hello(RUN, pid=next(self.numbers)) + wire.join(1))
            deaf.append(one)
        pings = b"".join(wire.ping(number) for number in range(900))

        def attack():
            for one in deaf:
                with contextlib.suppress(OSError):
                    one.socket.settimeout(0.01)
                    one.send(pings)
                    one.send(wire.look() * 2)
            return True
        self.keep_at_it(attack, 1)
        for restart in (1, 2, 3):
            before = self.recovers(before, restart)
        self.ends_well(a, b)

    # ---- too much ----

    def test_floods_of_looks(self):
        a = self.host()

        def attack():
            with RawSession(self.port) as curious:
                curious.send(wire.look() * 1000)
                return curious.receive_to_end()  # It is closed: nobody has to look so often.
        times = self.keep_at_it(attack, 4)
        self.starts_recovers_and_ends(a)
        self.assertGreater(len(times), 4)

    def test_floods_of_hellos_and_joins(self):
        """Spares that come and go all the time. They come after node B: a run without a secret lets in who comes."""
        a, b = self.host(), self.other()
        before = self.crew.complete(2)

        def attack():
            with RawSession(self.port) as guest:
                guest.send(wire.hello(RUN, pid=next(self.numbers)) + wire.join(1) + wire.ping(1))
                guest.until_frame(wire.PONG)
                # Closing with this option sends a reset and no farewell.
                guest.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return True
        times = self.keep_at_it(attack, 4)
        before = self.recovers(before, 1)
        self.recovers(before, 2)
        self.ends_well(a, b)
        self.assertGreater(len(times), 4)

    def test_runs_of_nobody(self):
        """Each hello makes a run of its own."""
        a = self.host()

        def attack():
            with RawSession(self.port) as guest:
                guest.send(wire.hello(b"run %d" % next(self.numbers), run_rules=ABSURD_RULES) + wire.join(1)
                           + wire.ping(1))
                guest.until_frame(wire.PONG)
                return True
        times = self.keep_at_it(attack, 4)
        self.starts_recovers_and_ends(a)
        self.assertGreater(len(times), 4)


class OneNode(AttackTest):
    """A run of one node has a port on loopback, which every user of the machine reaches."""

    def test_is_not_ended_by_others(self):
        run = self.run_alone("--max-restarts", "1", *self.crew.command())
        (worker,) = self.crew.complete(1)
        run_id = worker["TORCHELASTIC_RUN_ID"].encode()
        (self.port,) = [port for port in listening_ports(run.pid) if is_coordinator(port)]
        for pid in (1, run.pid):
            with RawSession(self.port) as guest:
                guest.send(wire.hello(run_id, pid=pid, run_rules=wire.rules(min_nodes=1, max_nodes=1))
                           + wire.join(1) + wire.leave(b"over", close=True))
                self.assertIn(b"for the node that hosts it alone", guest.receive_to_end())
        with RawClient(self.port) as reader:
            key = b"/torch.rendezvous." + run_id
            shown = reader.ask(store_wire.get(key))
            reader.ask(store_wire.set_(key, b"anything") + store_wire.set_(key, shown[8:]))
        look = subprocess.run([BINARY, "status", f"127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        self.assertEqual(look.returncode, 0, look.stderr)
        self.assertIn(run_id.decode(), look.stdout)
        os.kill(worker.pid, signal.SIGKILL)
        (again,) = self.crew.complete(1, but=[worker])
        self.assertEqual(again["TORCHELASTIC_RESTART_COUNT"], "1")
        self.ends_well(run)


def listening_ports(pid):
    sockets = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    ports = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
            for fields in map(str.split, list(lines)[1:]):
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                    ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def is_coordinator(port):
    with RawClient(port) as client:
        client.send(store_wire.check([wire.KEY]))
        return client.receive(1) == b"\0"


class Secret(AttackTest):
    """The job has a secret, and the others do not know it."""

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.secret_file = os.path.join(folder, "secret")
        with open(os.open(self.secret_file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(SECRET + b"\n")

    def assert_refused(self, stranger, pattern):
        kind, fields = stranger.next_frame()
        self.assertEqual(kind, wire.REFUSED)
        self.assertIn(pattern, fields)
        self.assertEqual(fields[-1:], b"\1")  # Trying again is useless.
        self.assertEqual(stranger.receive_to_end(), b"")

    def test_who_knows_it_is_heard(self):
        """So that what the others are told is not what all are told."""
        a = self.host()
        friend = self.session()
        kind, proof, right = friend.prove_with(SECRET, wire.look(RUN))
        self.assertEqual((kind, proof), (wire.COUNTERPROOF, right))
        friend.until_frame(wire.REPORT)
        self.starts_recovers_and_ends(a)

    def test_without_it_nothing_is_heard(self):
        a, b = self.host(), self.other()
        before = self.crew.complete(2)
        words = {"hello": wire.hello(RUN, pid=1) + wire.join(1), "look": wire.look(), "end": wire.leave(close=True),
                 "node B": wire.hello(RUN, address=b"127.0.0.2", pid=b.pid, name=b"127.0.0.2"),
                 "warning": wire.warn(signal.SIGKILL), "proof of nothing": wire.frame(wire.PROOF, bytes(32))}
        for name, data in words.items():
            with self.subTest(name), RawSession(self.port) as stranger:
                stranger.send(data)
                self.assert_refused(stranger, b"wants a secret")
            with self.subTest(f"{name}, once asked for a proof"), RawSession(self.port) as stranger:
                stranger.challenged()
                stranger.send(data)
                self.assert_refused(stranger, b"")
        self.assertEqual([one.pid for one in self.crew.complete(2)], [one.pid for one in before])
        self.recovers(before, 1)
        self.ends_well(a, b)
        self.assertEqual(len(self.crew.starts()), 4)

    def test_a_flood_of_wrong_proofs(self):
        a = self.host()

        def attack():
            with RawSession(self.port) as guesser:
                kind, _, _ = guesser.prove_with(os.urandom(16), wire.hello(RUN, pid=next(self.numbers)) + wire.join(1))
                return kind
        times = self.keep_at_it(attack, 4)
        self.starts_recovers_and_ends(a)
        self.assertGreater(len(times), 4)
        self.assertEqual(set(times), {wire.REFUSED})

    def test_what_was_heard_on_another_connection_is_worth_nothing(self):
        """Somebody has heard all of a session that went well, and says the agent's part of it again."""
        a = self.host()
        nonce = os.urandom(32)
        with RawSession(self.port) as friend:
            nonces = friend.challenged(nonce)
            proof = wire.frame(wire.PROOF, wire.proof_of("agent", SECRET, nonces))
            friend.send(proof + wire.look(RUN))
            heard = friend.next_frame()[1]
        for said_again in (proof, wire.frame(wire.PROOF, heard)):
            with RawSession(self.port) as liar:
                self.assertNotEqual(liar.challenged(nonce), nonces)
                liar.send(said_again + wire.hello(RUN, pid=1) + wire.join(1))
                self.assert_refused(liar, b"not the coordinator's")
        self.starts_recovers_and_ends(a)

    def test_a_proof_that_was_handed_on(self):
        """Somebody has lured a node into proving itself to him, hands that on, and then speaks for himself."""
        a, b = self.host(), self.other()
        before = self.crew.complete(2)
        for words in (wire.hello(RUN, pid=1) + wire.join(1), wire.look(RUN) + wire.look(RUN),
                      wire.hello(RUN, pid=2) + wire.leave(close=True)):
            with RawSession(self.port) as liar:
                nonces = liar.challenged()
                liar.send(wire.frame(wire.PROOF, wire.proof_of("agent", SECRET, nonces)) + words)
                # Closed, perhaps even before the coordinator's own proof was on its way.
                self.assertLessEqual(len(liar.receive_to_end()), len(wire.frame(wire.COUNTERPROOF, bytes(32))))
        self.assertEqual([one.pid for one in self.crew.complete(2)], [one.pid for one in before])
        self.recovers(before, 1)
        self.ends_well(a, b)
        self.assertEqual(len(self.crew.starts()), 4)

    def test_half_a_proof_and_silence(self):
        a = self.host()
        for words in (wire.prove(bytes(32))[:20], wire.prove(bytes(32)), b""):
            self.session().send(words)
        self.starts_recovers_and_ends(a)

    def test_the_state_in_the_store_changes_nothing(self):
        """What torchrun's nodes do to meet: read the state, swap another in."""
        key = b"/torch.rendezvous." + RUN
        a, b = self.host(), self.other()
        before = self.crew.complete(2)

        def attack():
            with RawClient(self.port) as store:
                state = store.ask(store_wire.get(key))[8:]
                store.ask(store_wire.compare_set(key, state, b"gANuZXc="))
                store.ask(store_wire.set_(key, state) + store_wire.delete_key(key))
                return state
        attack()
        close = subprocess.run([BINARY, "rendezvous", "close", "--rdzv-endpoint", f"127.0.0.1:{self.port}",
                                "--rdzv-id", "job"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertIn("was closed before", close.stdout, close.stderr)
        self.keep_at_it(attack, 1)
        self.assertEqual([one.pid for one in self.crew.complete(2)], [one.pid for one in before])
        self.recovers(before, 1)
        self.ends_well(a, b)
        self.assertEqual(len(self.crew.starts()), 4)


if __name__ == "__main__":
    unittest.main()
