"""Nothing outlives the job: whoever dies, of whatever, at whatever moment."""

import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from spawn_support import LIMIT_S, Spawn, name_of, spawn, state_of, until, worker

ROUNDS = int(os.environ.get("REGROUP_KILL_ROUNDS", "200"))
MODES = ("off", "auto")


def cgroups(pids):
    """Directories of these launchers; other tests may run beside us."""
    return [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names
            if (found := re.match(r"regroup-(\d+)", name)) and int(found[1]) in pids]


class Family(unittest.TestCase):
    """Workers with eight children each; one is in its own session, one ignores SIGTERM, two are daemons."""

    def start(self, mode, *then):
        return Spawn("-n", "2", "--cgroup", mode, "--shutdown-timeout", "1", "--", *worker("family"), *then,
                     stdout=subprocess.PIPE)

    def wait_ready(self, spawned):
        for _ in range(2):
            self.assertEqual(spawned.process.stdout.readline(), "ready\n")

    def assert_nothing_left(self, spawned):
        self.assertEqual(until(lambda: not spawned.alive()), True, [name_of(pid) for pid in spawned.alive()])
        self.assertEqual(until(lambda: not cgroups({spawned.pid})), True, cgroups({spawned.pid}))

    def test_a_segfault(self):
        for mode in MODES:
            with self.subTest(cgroup=mode), self.start(mode, "segfault") as spawned:
                code, _, err = spawned.finish()
                self.assertEqual(spawned.alive(), [])  # At once: the launcher does not end before they have.
                self.assertEqual(code, 128 + signal.SIGSEGV, err)
                self.assertIn("rank 0 on ", err)
                self.assertIn("killed by SIGSEGV (segmentation fault)", err)
                self.assertIn("rank 1: stopped because of it", err)
                self.assert_nothing_left(spawned)

    def test_workers_that_are_gone_before_their_children(self):
        for mode in MODES:
            for then, expected in (("exit", 3), ("leave", 0)):
                with self.subTest(cgroup=mode, then=then), self.start(mode, then) as spawned:
                    code, _, err = spawned.finish()
                    self.assertEqual(code, expected, err)
                    self.assertEqual(spawned.alive(), [])
                    self.assert_nothing_left(spawned)

    def test_a_signal_to_the_launcher(self):
        for mode in MODES:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                with self.subTest(cgroup=mode, signal=number), self.start(mode) as spawned:
                    self.wait_ready(spawned)
                    os.kill(spawned.pid, number)
                    code, _, err = spawned.finish()
                    self.assertEqual(spawned.alive(), [])
                    self.assertEqual(code, 128 + number, err)
                    self.assertIn(f"{signal.Signals(number).name} from pid {os.getpid()} (python", err)
                    self.assert_nothing_left(spawned)

    def test_ctrl_c(self):
        """Typed at a terminal: the launcher's whole process group gets it."""
        for mode in MODES:
            with self.subTest(cgroup=mode), self.start(mode) as spawned:
                self.wait_ready(spawned)
                os.kill(spawned.pid, signal.SIGINT)
                code, _, err = spawned.finish()
                self.assertEqual(spawned.alive(), [])
                self.assertEqual(code, 130, err)
                self.assert_nothing_left(spawned)

    def test_sigkill_of_the_launcher(self):
        """The kernel ends the workers, the guard everybody else; daemons that left the session only with cgroups."""
        for mode in MODES:
            with self.subTest(cgroup=mode), self.start(mode) as spawned:
                self.wait_ready(spawned)
                # Daemons are ready a moment before their parents have left.
                self.assertEqual(until(lambda: len(spawned.workers()) == 2 * 9), True, spawned.workers())
                everybody = spawned.workers()
                os.kill(spawned.pid, signal.SIGKILL)
                spawned.process.wait(LIMIT_S)
                if mode == "off":
                    sessions = {pid for pid in everybody if os.path.exists(f"/proc/{pid}")
                                and os.getsid(pid) != pid}
                    until(lambda: not sessions & set(spawned.alive()))
                    self.assertEqual(until(lambda: "regroup-guard" not in map(name_of, spawned.alive())), True)
                    left = spawned.alive()
                    # One child in a session of its own and two daemons for each worker: their parents are gone,
                    # so nothing ties them to us any more.
                    self.assertLessEqual(len(left), 2 * 3)
                    self.assertTrue(all(os.getsid(pid) == pid for pid in left))
                else:
                    self.assert_nothing_left(spawned)

    def test_a_second_signal_kills_at_once(self):
        with Spawn("-n", "2", "--shutdown-timeout", "1000", "--", *worker("family")) as spawned:
            self.wait_ready(spawned)
            os.kill(spawned.pid, signal.SIGTERM)
            self.assertIn("once more kills them at once", spawned.process.stderr.readline())
            os.kill(spawned.pid, signal.SIGTERM)
            code, _, err = spawned.finish()
            self.assertEqual(code, 143)
            self.assertIn("killing the workers", err)
            self.assert_nothing_left(spawned)


class Rounds(unittest.TestCase):
    def test_kills_at_random_moments(self):
        """The launcher, or a worker, gets a random signal at a random moment, from before the first fork on."""
        seed = int(os.environ.get("REGROUP_SEED", random.SystemRandom().randrange(1 << 32)))
        dice = random.Random(seed)
        script = "sleep 1000 & setsid sleep 1000 & (sleep 1000 &) ; trap '' USR1; sleep 0.05; wait"
        launchers = set()
        for turn in range(ROUNDS):
            mode = dice.choice(MODES)
            with Spawn("-n", "3", "--cgroup", mode, "--shutdown-timeout", "0.2", "--", "sh", "-c", script) as spawned:
                launchers.add(spawned.pid)
                time.sleep(dice.random() * 0.08)
                number = dice.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL, signal.SIGSEGV])
                workers = spawned.workers()
                victim = spawned.pid if dice.random() < 0.6 or not workers else dice.choice(workers)
                try:
                    os.kill(victim, number)
                except ProcessLookupError:
                    pass
                if victim != spawned.pid:
                    # A grandchild's death need not end anything.
                    os.kill(spawned.pid, signal.SIGTERM)
                spawned.finish()
                killed = victim == spawned.pid and number in (signal.SIGKILL, signal.SIGSEGV)

                def left():
                    """Without cgroups nobody finds those who left their session, once the launcher is killed."""
                    return [pid for pid in spawned.alive()
                            if not (killed and mode == "off" and state_of(pid) and session_of(pid) == pid)]

                self.assertEqual(until(lambda: not left()), True,
                                 f"REGROUP_SEED={seed}, round {turn}: {number!r} to {name_of(victim)}, cgroup {mode}: "
                                 f"{[(pid, name_of(pid)) for pid in left()]} left")
        # What a launcher left that was killed before it had a guard, the next one clears away.
        spawn("true")
        self.assertEqual(until(lambda: not cgroups(launchers)), True, f"REGROUP_SEED={seed}: {cgroups(launchers)}")


def session_of(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


class Launcher(unittest.TestCase):
    def test_it_keeps_no_zombies(self):
        """A worker that leaves a daemon behind every moment: each becomes the launcher's child, and is reaped."""
        script = "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sleep 0.01 &) ; done; sleep 0.5; echo now; sleep 1000"
        with Spawn("--", "sh", "-c", script) as spawned:
            self.assertEqual(spawned.process.stdout.readline(), "now\n")

            def zombies():
                children = Path(f"/proc/{spawned.pid}/task/{spawned.pid}/children").read_text().split()
                return [pid for pid in children if state_of(pid) == "Z"]

            self.assertEqual(until(lambda: not zombies()), True, zombies())

    def test_as_pid_1_it_reaps_everything(self):
        """In a pid namespace of its own, where every orphan is its child whatever it does."""
        if os.geteuid() != 0:
            self.skipTest("a pid namespace of its own needs root")
        script = "(sleep 0.01 &) ; (setsid sleep 1000 &) ; sleep 0.2; exit 5"
        inside = f"exec {' '.join(map(str, Spawn().command))} --shutdown-timeout 1 -- sh -c '{script}'"
        done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", inside],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("ended with exit code 5", done.stderr)


if __name__ == "__main__":
    unittest.main()
