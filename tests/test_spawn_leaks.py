"""Nothing outlives the job: whoever dies, of whatever, at whatever moment."""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from spawn_support import LIMIT_S, Spawn, name_of, spawn, state_of, until, worker
from store_support import BINARY

ROUNDS = int(os.environ.get("REGROUP_KILL_ROUNDS", "200"))
MODES = ("off", "auto")
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def cgroups(pids):
    """Directories of these launchers; other tests may run beside us."""
    return [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names
            if (found := re.match(r"regroup-(\d+)", name)) and int(found[1]) in pids]


def runs_as_nobody():
    try:
        return subprocess.run([BINARY, "--version"], stdout=subprocess.DEVNULL, cwd="/", **NOBODY).returncode == 0
    except OSError:
        return False


class Family(unittest.TestCase):
    """Workers with eight children each; one is in its own session, one ignores SIGTERM, two are daemons."""

    def start(self, mode, *then, flags=()):
        return Spawn("-n", "2", "--cgroup", mode, "--shutdown-timeout", "1", *flags, "--", *worker("family"), *then,
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
                with self.subTest(cgroup=mode, then=then), \
                        self.start(mode, then, flags=("--children", "end")) as spawned:
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

    def kill_the_launcher(self, spawned):
        self.wait_ready(spawned)
        # Daemons are ready a moment before their parents have left.
        self.assertEqual(until(lambda: len(spawned.workers()) == 2 * 9), True, spawned.workers())
        os.kill(spawned.pid, signal.SIGKILL)
        spawned.process.wait(LIMIT_S)
        self.assert_nothing_left(spawned)

    def test_sigkill_of_the_launcher(self):
        """The kernel ends the workers, the guard everybody else, daemons in sessions of their own included."""
        for mode in MODES:
            with self.subTest(cgroup=mode), self.start(mode) as spawned:
                self.kill_the_launcher(spawned)

    def test_sigkill_of_the_launcher_of_a_user_without_rights(self):
        if not runs_as_nobody():
            self.skipTest("needs root, and a binary that the user nobody can reach")
        script = "sleep 1000 & (setsid sleep 1000 &); setsid sh -c 'setsid sleep 1000 &'; echo ready; sleep 1000"
        with Spawn("-n", "2", "--", "/bin/sh", "-c", script, cwd="/", **NOBODY) as spawned:
            self.wait_ready(spawned)
            self.assertEqual(until(lambda: len(spawned.workers()) == 2 * 5), True, spawned.workers())
            os.kill(spawned.pid, signal.SIGKILL)
            spawned.process.wait(LIMIT_S)
            self.assert_nothing_left(spawned)

    def test_a_daemon_that_no_worker_started_is_left_alone(self):
        stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        try:
            with self.start("off") as spawned:
                self.kill_the_launcher(spawned)
            self.assertIsNone(stranger.poll())
        finally:
            stranger.kill()
            stranger.wait()

    def test_the_guard_is_not_found_by_the_name_of_the_script(self):
        """`pkill -9 -f train.py` ends the launcher and the workers: the guard must be there to end the others."""
        with self.start("off") as spawned:
            self.wait_ready(spawned)
            guards = [pid for pid in spawned.alive() if name_of(pid) == "regroup-guard"]
            self.assertEqual(len(guards), 1)
            line = Path(f"/proc/{guards[0]}/cmdline").read_bytes()
            self.assertEqual(line.rstrip(b"\0"), b"regroup-guard")
            os.kill(spawned.pid, signal.SIGKILL)
            self.assert_nothing_left(spawned)

    def test_a_second_signal_kills_at_once(self):
        with Spawn("-n", "2", "--shutdown-timeout", "1000", "--", *worker("family")) as spawned:
            self.wait_ready(spawned)
            os.kill(spawned.pid, signal.SIGTERM)
            self.assertIn("once more, after a second, kills the workers", spawned.process.stderr.readline())
            os.kill(spawned.pid, signal.SIGINT)  # The same one would be taken for the same request.
            code, _, err = spawned.finish()
            self.assertEqual(code, 143)
            self.assertIn("killing the workers", err)
            self.assert_nothing_left(spawned)


class Children(unittest.TestCase):
    """What workers that have succeeded left running: an upload in a session of its own, or a helper in theirs."""

    # The upload reads a pipe that the test holds, so it runs for as long as the test wants.
    AWAY = "setsid sh -c 'read go < $FIFO; echo uploaded'"
    COMMANDS = {"spawn": lambda *flags: ["-n", "1", *flags, "--"],
                "run": lambda *flags: ["--no-python", *flags, "--"]}

    def start(self, command, flags, script, **env):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.fifo = os.path.join(folder, "fifo")
        os.mkfifo(self.fifo)
        started = Spawn(*self.COMMANDS[command](*flags), "sh", "-c", script,
                        env={"FIFO": self.fifo, "TMPDIR": folder, **env})
        started.command[1] = command
        return started

    def told(self, spawned, text):
        """The line of standard error with this text, and its pids."""
        for line in spawned.process.stderr:
            if text in line:
                return line, [int(pid) for pid in re.findall(r"\(pid (\d+)\)", line)]
        self.fail(f"it did not say: {text}")

    def let_upload_end(self):
        with open(self.fifo, "w") as fifo:
            fifo.write("go\n")

    def test_an_upload_is_waited_for(self):
        for command in self.COMMANDS:
            for mode in MODES:
                with self.subTest(command=command, cgroup=mode), \
                        self.start(command, ("--cgroup", mode), self.AWAY + " &") as spawned:
                    line, pids = self.told(spawned, "waiting 5m00s at most for ")
                    self.assertIn("--children=wait:TIME", line)
                    self.assertEqual([name_of(pid) for pid in pids], ["sh"])
                    self.assertEqual(spawned.process.poll(), None)
                    self.let_upload_end()
                    code, out, err = spawned.finish()
                    self.assertEqual((code, out), (0, "uploaded\n"), err)

    def test_an_upload_may_be_left(self):
        for command in self.COMMANDS:
            for mode in MODES:
                with self.subTest(command=command, cgroup=mode), \
                        self.start(command, ("--cgroup", mode, "--children", "leave"),
                                   self.AWAY + " > /dev/null 2>&1 &") as spawned:
                    _, (pid,) = self.told(spawned, "left running (--children=leave): ")
                    code, _, err = spawned.finish()
                    self.assertEqual(code, 0, err)
                    self.assertIn(state_of(pid), ("S", "R", "D"))
                    self.let_upload_end()
                    self.assertEqual(until(lambda: state_of(pid) in (None, "Z")), True)

    def test_one_that_takes_too_long_is_ended_and_told(self):
        with self.start("spawn", ("--children", "wait:0.1"), self.AWAY + " &") as spawned:
            code, out, err = spawned.finish()
            self.assertEqual((code, out), (0, ""), err)
            self.assertRegex(err, r"ending 'sh' \(pid \d+\), which did not end within ")

    def test_none_is_waited_for_if_that_is_the_wish(self):
        with self.start("run", (), self.AWAY + " &", PET_CHILDREN="end") as spawned:
            code, out, err = spawned.finish()
            self.assertEqual((code, out), (0, ""), err)
            self.assertRegex(err, r"ending what they left running: 'sh' \(pid \d+\)")

    def test_a_signal_ends_the_wait(self):
        for command in self.COMMANDS:
            with self.subTest(command=command), self.start(command, (), self.AWAY + " &") as spawned:
                self.told(spawned, "waiting 5m00s at most for ")
                os.kill(spawned.pid, signal.SIGTERM)
                code, _, err = spawned.finish()
                self.assertEqual(code, 143, err)
                self.assertEqual(spawned.alive(), [])

    def test_sigkill_of_the_launcher_ends_what_it_waits_for(self):
        for mode in MODES:
            with self.subTest(cgroup=mode), self.start("run", ("--cgroup", mode), self.AWAY + " &") as spawned:
                self.told(spawned, "waiting 5m00s at most for ")
                os.kill(spawned.pid, signal.SIGKILL)
                spawned.process.wait(LIMIT_S)
                self.assertEqual(until(lambda: not spawned.alive()), True)

    def test_what_stayed_in_the_session_is_ended_and_told(self):
        with self.start("spawn", (), "sleep 1000 & sleep 1001 &") as spawned:
            code, _, err = spawned.finish()
            self.assertEqual(code, 0, err)
            self.assertRegex(err, r"ending what they left running: 'sleep' \(pid \d+\), 'sleep' \(pid \d+\)\n")

    def test_after_a_failure_nothing_is_waited_for(self):
        with self.start("run", (), self.AWAY + " & exit 3") as spawned:
            code, _, err = spawned.finish()
            self.assertEqual(code, 3, err)
            self.assertNotIn("waiting", err)
            self.assertEqual(spawned.alive(), [])


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
                self.assertEqual(until(lambda: not spawned.alive()), True,
                                 f"REGROUP_SEED={seed}, round {turn}: {number!r} to {name_of(victim)}, cgroup {mode}: "
                                 f"{[(pid, name_of(pid)) for pid in spawned.alive()]} left")
        # What a launcher left that was killed before it had a guard, the next one clears away.
        spawn("true")
        self.assertEqual(until(lambda: not cgroups(launchers)), True, f"REGROUP_SEED={seed}: {cgroups(launchers)}")


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
