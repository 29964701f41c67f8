"""What a signal to `regroup spawn` does to it and to its workers: from a program, from a keyboard, from a terminal
that closes."""

import collections
import contextlib
import fcntl
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import termios
import unittest
from pathlib import Path

from spawn_support import LIMIT_S, Spawn, state_of, until, worker


def ignores(pid, number):
    mask = re.search(r"^SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.M).group(1)
    return bool(int(mask, 16) >> (number - 1) & 1)


class Job(Spawn):
    """Workers that tell of their signals; all output is in files, so that it can be looked at again and again."""

    def __init__(self, *flags, count=2, seconds=0, grace=60, **popen):
        self.count = count
        self.undo = contextlib.ExitStack()
        self.folder = Path(self.undo.enter_context(tempfile.TemporaryDirectory()))
        files = {name: self.undo.enter_context(open(self.folder / name, "a")) for name in ("stdout", "stderr")}
        super().__init__("-n", count, "--shutdown-timeout", grace, *flags, "--", *worker("signals"), seconds,
                         env={"TMPDIR": str(self.folder)}, **{**files, **popen})

    def __enter__(self):
        super().__enter__()
        if not until(lambda: len(self.pids()) == self.count):
            self.__exit__()
            raise AssertionError(f"the workers did not start: {self.out()} {self.err()}")
        return self

    def __exit__(self, *_):
        with self.undo:
            super().__exit__()

    def out(self):
        return (self.folder / "stdout").read_text()

    def err(self):
        return (self.folder / "stderr").read_text()

    def pids(self):
        """Of the workers, and each one's child's."""
        return [(int(own), int(child)) for own, child in re.findall(r"^\d+ ready (\d+) (\d+)$", self.out(), re.M)]

    def heard(self):
        """How often each worker was told each signal: {("0", "SIGTERM"): 1}."""
        return collections.Counter(re.findall(r"^(\d+) (SIG\w+)$", self.out(), re.M))

    def everybody_heard(self, *names, times=1):
        return {(str(rank), name): times for rank in range(self.count) for name in names}

    def wait_heard(self, *names):
        if not until(lambda: all(self.heard()[one] for one in self.everybody_heard(*names))):
            raise AssertionError(f"never heard {names}: {self.out()} {self.err()}")

    def wait_told(self, text):
        if not until(lambda: text in self.err()):
            raise AssertionError(f"never said {text!r}: {self.err()}")

    def end(self):
        """Its exit code; nothing may be left."""
        code, _, _ = self.finish()
        if left := self.alive():
            raise AssertionError(f"{left} outlived the launcher")
        return code


class Signalled(unittest.TestCase):
    """With a directory for temporary files of its own: who was stopped leaves his logs there."""

    def setUp(self):
        self.temporary = self.enterContext(tempfile.TemporaryDirectory())

    def spawn(self, *arguments, env=None):
        return Spawn(*arguments, env={"TMPDIR": self.temporary, **(env or {})})


class HandedOn(Signalled):
    def test_to_every_worker_once_and_to_nobody_else(self):
        with Job(count=3) as job:
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
                os.kill(job.pid, number)
                job.wait_heard(number.name)
            for own, child in job.pids():
                self.assertIn(state_of(own), "SR")
                self.assertIn(state_of(child), "SR", "a helper of a worker got what was meant for the worker")
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 143)
            self.assertEqual(job.heard(), job.everybody_heard("SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTERM"))
            self.assertNotIn("USR", job.err())

    def test_which_ones_can_be_chosen(self):
        with Job("--forward-signals", "USR2,SIGHUP", "--signals-to-handle", "TERM") as job:
            os.kill(job.pid, signal.SIGUSR2)
            job.wait_heard("SIGUSR2")
            os.kill(job.pid, signal.SIGHUP)  # Ends these workers, but by their own choice.
            self.assertEqual(job.end(), 0, job.err())
            self.assertEqual(job.heard(), job.everybody_heard("SIGUSR2", "SIGHUP"))

    def test_one_that_is_in_neither_list_has_its_default(self):
        with Job("--forward-signals", "USR2") as job:
            os.kill(job.pid, signal.SIGUSR1)
            self.assertEqual(job.process.wait(LIMIT_S), -signal.SIGUSR1)
            self.assertEqual(until(lambda: not job.alive()), True)

    def test_a_worker_that_does_not_expect_it_fails_of_it(self):
        with self.spawn("--", "sh", "-c", "echo ready; exec sleep 1000") as spawned:
            self.assertEqual(spawned.process.stdout.readline(), "ready\n")
            os.kill(spawned.pid, signal.SIGUSR1)
            code, _, err = spawned.finish()
            self.assertEqual(code, 128 + signal.SIGUSR1)
            self.assertIn("killed by SIGUSR1", err)

    def test_continue_wakes_whole_groups(self):
        with Job() as job:
            for pids in job.pids():
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                    self.assertEqual(until(lambda: state_of(pid) == "T"), True)
            os.kill(job.pid, signal.SIGCONT)
            for pids in job.pids():
                for pid in pids:
                    self.assertEqual(until(lambda: state_of(pid) in ("S", "R")), True)
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 143)


class Ending(Signalled):
    def test_workers_get_the_same_signal_and_may_finish(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            with self.subTest(number.name), Job() as job:
                os.kill(job.pid, number)
                self.assertEqual(job.end(), 128 + number, job.err())
                self.assertEqual(job.heard(), job.everybody_heard(number.name))
                self.assertEqual(job.out().count("done"), 2)

    def test_one_that_needs_three_seconds_gets_them(self):
        with Job(seconds=3, grace=60) as job:
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 143)
            self.assertEqual(job.out().count("done"), 2)
            self.assertNotIn("SIGKILL", job.err())
            self.assertNotIn("failed", job.err())

    def test_the_sender_is_named(self):
        with Job() as job:
            os.kill(job.pid, signal.SIGTERM)
            job.end()
            name = Path("/proc/self/comm").read_text().strip()
            self.assertIn(f"regroup: SIGTERM from pid {os.getpid()} ({name}): stopping; "
                          "once more, after a second, kills the workers\n", job.err())

    def test_a_second_one_kills_at_once(self):
        for second in (signal.SIGQUIT, signal.SIGINT):
            with self.subTest(second.name), Job(seconds=1000, grace=1000) as job:
                os.kill(job.pid, signal.SIGTERM)
                job.wait_heard("SIGTERM")
                os.kill(job.pid, second)
                self.assertEqual(job.end(), 143)
                self.assertIn(f"{second.name} from pid {os.getpid()} ", job.err())
                self.assertIn("killing the workers", job.err())
                self.assertNotIn("done", job.out())

    def test_after_the_grace_they_are_killed(self):
        with Job(seconds=1000, grace=0.5) as job:
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 143)
            self.assertEqual(job.heard(), job.everybody_heard("SIGTERM"))
            self.assertNotIn("done", job.out())

    def test_without_grace_they_are_killed_at_once(self):
        with Job(seconds=1000, grace=0) as job:
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 143)

    def test_the_grace_may_come_from_the_environment(self):
        command = ["--", *worker("signals"), 1000]
        with self.spawn(*command, env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "0"}) as spawned:
            self.assertRegex(spawned.process.stdout.readline(), "ready")
            os.kill(spawned.pid, signal.SIGTERM)
            self.assertEqual(spawned.finish()[0], 143)

    def test_a_suspended_worker_is_woken_to_end(self):
        with Job(grace=1000) as job:
            for own, _ in job.pids():
                os.kill(own, signal.SIGSTOP)
                self.assertEqual(until(lambda: state_of(own) == "T"), True)
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 143)
            self.assertEqual(job.heard(), job.everybody_heard("SIGTERM"))
            self.assertEqual(job.out().count("done"), 2)

    def test_which_ones_can_be_chosen(self):
        with Job("--signals-to-handle", "SIGUSR1,TERM") as job:
            os.kill(job.pid, signal.SIGUSR1)
            self.assertIn("SIGUSR1 from pid", until(job.err))
            job.wait_heard("SIGUSR1")
            # The workers go on after it; only the grace or another signal ends them.
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 128 + signal.SIGUSR1)

    def test_names_that_are_none_only_warn(self):
        with Job("--signals-to-handle", "SIGTERM,SIGBREAK,SIGKILL", "--forward-signals", "USR1,HUHU") as job:
            for flag, name in (("signals-to-handle", "SIGBREAK"), ("signals-to-handle", "SIGKILL"),
                               ("forward-signals", "HUHU")):
                self.assertIn(f"regroup: --{flag}: '{name}' is no signal that can be caught; it is left out\n",
                              job.err())
            os.kill(job.pid, signal.SIGUSR1)
            job.wait_heard("SIGUSR1")
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 143)


class Ignored(Signalled):
    def test_a_background_job_of_a_script_keeps_ignoring_ctrl_c(self):
        def as_a_shell_does():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGQUIT, signal.SIG_IGN)

        with Job(preexec_fn=as_a_shell_does) as job:
            for own, _ in job.pids():
                self.assertTrue(ignores(own, signal.SIGINT))
                self.assertFalse(ignores(own, signal.SIGTERM))
            os.kill(job.pid, signal.SIGINT)
            os.kill(job.pid, signal.SIGQUIT)
            os.kill(job.pid, signal.SIGUSR1)
            job.wait_heard("SIGUSR1")
            self.assertEqual(job.err(), "")
            os.kill(job.pid, signal.SIGTERM)
            self.assertEqual(job.end(), 143)
            self.assertEqual(job.heard(), job.everybody_heard("SIGUSR1", "SIGTERM"))

    def test_workers_do_not_inherit_what_the_launcher_ignores_for_itself(self):
        with Job() as job:
            self.assertTrue(ignores(job.pid, signal.SIGPIPE))
            self.assertTrue(ignores(job.pid, signal.SIGXFSZ))
        with self.spawn("--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status") as spawned:
            code, out, err = spawned.finish()
            self.assertEqual(code, 0, err)
            blocked, ignored = (int(line.split()[1], 16) for line in out.splitlines())
            self.assertEqual(blocked, 0, out)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
                self.assertFalse(ignored & 1 << number - 1, out)


class Terminal(unittest.TestCase):
    """The launcher has a controlling terminal, and is its foreground job."""

    @contextlib.contextmanager
    def job(self, prefix=(), stdin_only=True, ignored=(), **more):
        master, slave = pty.openpty()
        self.master = master

        def take_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)

        try:
            job = Job(prefix=prefix, stdin=slave, start_new_session=True, preexec_fn=take_terminal,
                      **({} if stdin_only else {"stderr": slave}), **more)
            with job:
                os.close(slave)
                slave = None
                yield job
        finally:
            for descriptor in (self.master, slave):
                if descriptor is not None:
                    os.close(descriptor)

    def close(self):
        os.close(self.master)
        self.master = None

    def test_ctrl_c(self):
        with self.job() as job:
            os.write(self.master, b"\x03")
            self.assertEqual(job.end(), 130, job.err())
            self.assertIn("regroup: SIGINT (Ctrl-C): stopping; once more kills the workers", job.err())
            self.assertEqual(job.heard(), job.everybody_heard("SIGINT"))
            self.assertEqual(job.out().count("done"), 2)

    def test_ctrl_c_twice(self):
        with self.job(seconds=1000, grace=1000) as job:
            os.write(self.master, b"\x03")
            job.wait_heard("SIGINT")
            os.write(self.master, b"\x03")
            self.assertEqual(job.end(), 130, job.err())
            self.assertIn("SIGINT (Ctrl-C): killing the workers", job.err())

    def test_ctrl_backslash(self):
        with self.job() as job:
            os.write(self.master, b"\x1c")
            self.assertEqual(job.end(), 131, job.err())
            self.assertIn("SIGQUIT (Ctrl-\\)", job.err())

    def test_closing_it_ends_the_job(self):
        with self.job(seconds=1) as job:
            self.close()
            self.assertEqual(job.end(), 129, job.err())
            self.assertIn("SIGHUP (terminal closed", job.err())
            self.assertIn("nohup", job.err())
            self.assertEqual(job.heard(), job.everybody_heard("SIGHUP"))
            self.assertEqual(job.out().count("done"), 2)

    def test_closing_it_ends_the_job_though_its_messages_reach_nobody(self):
        with self.job(stdin_only=False) as job:
            self.close()
            self.assertEqual(job.end(), 129)
            self.assertEqual(job.out().count("done"), 2)

    def assert_lives_on(self, job):
        os.kill(job.pid, signal.SIGUSR1)
        job.wait_heard("SIGUSR1")
        self.assertEqual(job.err().replace("nohup: ignoring input\n", ""), "")
        os.kill(job.pid, signal.SIGTERM)
        self.assertEqual(job.end(), 143)
        self.assertEqual(job.heard(), job.everybody_heard("SIGUSR1", "SIGTERM"))

    def test_with_nohup_closing_it_changes_nothing(self):
        if not shutil.which("nohup"):
            self.skipTest("no program nohup here")
        with self.job(prefix=["nohup"]) as job:
            self.close()
            self.assert_lives_on(job)

    def test_ignored_in_another_way_it_is_ignored_too(self):
        with self.job(ignored=[signal.SIGHUP]) as job:
            self.close()
            self.assert_lives_on(job)

    def test_closing_a_shell_s_terminal_leaves_the_grace(self):
        """Bash hands SIGHUP on to its jobs and ends; then the kernel sends it to the foreground job once more."""
        if not shutil.which("bash"):
            self.skipTest("no bash here")
        job = Job(seconds=1)  # Only for its command and its files.
        self.addCleanup(job.undo.close)
        script = f"{shlex.join(map(str, job.command))} >>{job.folder}/stdout 2>>{job.folder}/stderr\n"
        master, slave = pty.openpty()
        shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], env=job.env, stdin=slave, stdout=slave,
                                 stderr=slave, start_new_session=True,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        job.process, job.pid = shell, shell.pid
        try:
            os.close(slave)
            os.write(master, script.encode())
            self.assertEqual(until(lambda: len(job.pids()) == 2), True, job.err())
        finally:
            os.close(master)
            shell.wait(LIMIT_S)
            ended = until(lambda: not job.alive())
            for pid in job.alive():
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(ended, True)
        self.assertIn("SIGHUP", job.err())
        self.assertEqual(job.out().count("done"), 2, job.err())


if __name__ == "__main__":
    unittest.main()
