"""`regroup run --watchdog`: workers that hang are ended for it, and nobody else is."""

import contextlib
import json
import os
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from run_support import Run, until
from spawn_support import WORKERS
from store_support import BINARY

TIMERS = WORKERS / "timers.py"
SET_CLOCK = Path(BINARY).parent / "test" / "libset_clock.so"
OURS = ("TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_TIMER_FILE", "REGROUP_HEARTBEAT_FILE")


class WatchdogTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.temporary = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.undo = self.enterContext(contextlib.ExitStack())  # Runs end before the directories do.
        for name in OURS:  # Whoever runs this test may be watched over.
            if name in os.environ:
                self.addCleanup(os.environ.__setitem__, name, os.environ.pop(name))

    def run_worker(self, act, *flags, watchdog=True, env=None):
        return self.undo.enter_context(
            Run(*(["--watchdog"] if watchdog else []), *flags, TIMERS, act, self.folder,
                env={"TMPDIR": str(self.temporary), **(env or {})}))

    def finish(self, act, *flags, **more):
        """Exit code, standard output, standard error."""
        return self.run_worker(act, *flags, **more).finish()


class Timers(WatchdogTest):
    def test_who_keeps_his_times_is_left_in_peace(self):
        code, _, err = self.finish("fine", "-n", "4")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_who_is_late_is_ended_and_the_report_says_why(self):
        code, _, err = self.finish("late", "-n", "2")
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"timer expired: scope stuck after \S+ s")
        self.assertIn("SIGKILL", err)

    def test_a_restart_follows_as_after_any_failure(self):
        code, _, err = self.finish("late", "-n", "2", "--max-restarts", "1", "-v")
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"rank 1 on .* failed: timer expired: scope stuck after \S+ s; restart 1 of 1")
        self.assertRegex(err, r"watchdog: timers are taken at .*/watchdog_timer_[0-9a-f-]{36}\n")
        self.assertRegex(err, r"watchdog: process \d+ gets SIGKILL")
        self.assertIn("watchdog: stopped", err)

    def test_its_events_are_torchruns(self):
        log = self.folder / "events"
        code, _, err = self.finish("late", "-n", "2", "--event-log", log)
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        events = [*map(json.loads, log.read_text().splitlines())]
        found = [event for event in events if event["metadata"]["state"] == "RUNNING"]
        self.assertEqual([event["name"] for event in found],
                         ["watchdog started", "timer expired", "kill worker process", "watchdog stopped"])
        # Its end is part of the agent's work.
        self.assertEqual((events[-1]["source"], events[-1]["metadata"]["state"]), ("AGENT", "SUCCEEDED"))
        for event in found:
            self.assertEqual(event["source"], "AGENT")
            self.assertEqual(list(event["metadata"]), [
                "run_id", "global_rank", "group_rank", "worker_id", "role", "hostname", "state", "total_run_time",
                "rdzv_backend", "raw_error", "metadata", "agent_restarts"])
        inner = json.loads(found[2]["metadata"]["metadata"])
        self.assertEqual(list(inner), ["watchdog_event", "worker_pid", "scope_id", "expiration_time", "signal"])
        self.assertEqual((inner["scope_id"], inner["signal"]), ("stuck", str(int(signal.SIGKILL))))
        self.assertAlmostEqual(float(inner["expiration_time"]), found[2]["timestamp"] / 1000, delta=60)
        self.assertEqual(json.loads(found[0]["metadata"]["metadata"]), {"watchdog_event": "watchdog started"})

    def test_a_worker_may_heed_its_signal_and_has_failed_all_the_same(self):
        code, out, err = self.finish("terminated")
        self.assertEqual((code, out), (5, "terminated"), err)
        self.assertIn("timer expired: scope stuck", err)

    def test_a_signal_that_is_a_message_ends_nobody(self):
        code, out, err = self.finish("told")
        self.assertEqual((code, out), (0, "lives on"), err)
        self.assertIn("gets SIGUSR1: timer expired: scope slow", err)

    def test_a_timer_without_a_signal_ends_nobody_and_others_still_count(self):
        code, _, err = self.finish("without_signal")
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("scope 'still there'", err)

    def test_the_timers_of_who_has_ended_are_gone(self):
        code, _, err = self.finish("ends_with_its_timer_set", "-n", "2", "-v")
        self.assertEqual(code, 0, err)
        self.assertNotIn("timer expired", err)

    def test_a_workers_child_is_ended_alone(self):
        code, out, err = self.finish("grandchild")
        self.assertEqual((code, out), (0, f"child ended by {signal.SIGKILL}"), err)
        self.assertRegex(err, r"process \d+ \(\S+\) gets SIGKILL: timer expired: scope loader")

    def test_broken_lines_cost_a_warning_each_and_nobody_his_timer(self):
        code, _, err = self.finish("rubbish")
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("timer expired: scope stuck", err)
        self.assertEqual(len(re.findall("the timer pipe: a line is ignored", err)), 14, err)

    def test_nobody_else_is_ended_whatever_a_line_says(self):
        with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as stranger:
            (self.folder / "stranger").write_text(str(stranger.pid))
            code, _, err = self.finish("strangers")
            self.assertEqual(code, 0, err)
            self.assertIsNone(stranger.poll())
        self.assertEqual(len(re.findall("a timer of process .* is ignored", err)), 3, err)
        self.assertEqual(len(re.findall('its "pid" is none', err)), 2, err)

    @unittest.skipUnless(SET_CLOCK.exists(), f"there is no {SET_CLOCK.name}; to run it: build the target set_clock")
    def test_setting_the_clock_neither_ends_nor_saves_anybody(self):
        shift = self.folder / "shift"
        shift.write_bytes(struct.pack("q", 0))
        code, out, err = self.finish("set_clock", env={"LD_PRELOAD": str(SET_CLOCK), "SET_CLOCK_FILE": str(shift)})
        self.assertEqual(out.splitlines(), ["alive after 3600", "alive after -7200"], err)
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertRegex(err, r"timer expired: scope stuck after \S+ s")


class Heartbeats(WatchdogTest):
    def test_who_beats_lives_and_who_stops_it_says_so(self):
        code, _, err = self.finish("beats", "-n", "2")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_who_falls_silent_is_ended_and_started_again(self):
        code, _, err = self.finish("falls_silent", "-n", "2", "--max-restarts", "1")
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"rank 1 on .* failed: no heartbeat for .* s \(limit 0\.5 s\); restart 1 of 1")

    def test_the_heartbeat_of_who_has_ended_is_not_missed(self):
        code, _, err = self.finish("beats_and_ends", "-n", "2")
        self.assertEqual((code, err), (0, ""))

    def test_a_worker_cannot_harm_the_launcher_by_its_file(self):
        code, out, err = self.finish("truncates")
        self.assertEqual((code, out), (128 + signal.SIGKILL, ""), err)
        self.assertRegex(err, r"no heartbeat for .* s \(limit 0\.3 s\)")

    def test_what_lies_beside_the_pipe_is_left_alone(self):
        beside = self.temporary / "timers.heartbeat.0"
        beside.write_text("precious")
        code, _, err = self.finish("fine", env={"TORCHELASTIC_TIMER_FILE": str(self.temporary / "timers")})
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([(path, path.read_text()) for path in self.temporary.iterdir()], [(beside, "precious")])

    def test_without_a_watchdog_nothing_happens(self):
        code, _, err = self.finish("beats_unwatched", watchdog=False)
        self.assertEqual((code, err), (0, ""))


class ThePipe(WatchdogTest):
    def path(self):
        return self.temporary / "timers"

    def test_torchruns_variables_switch_it_on(self):
        env = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1", "TORCHELASTIC_TIMER_FILE": str(self.path())}
        run = self.run_worker("late", watchdog=False, env=env)
        code, _, err = run.finish()
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("timer expired", err)
        self.assertFalse(self.path().exists())
        code, _, err = self.finish("fine", watchdog=False, env={**env, "TORCHELASTIC_ENABLE_FILE_TIMER": "true"})
        self.assertEqual(code, 1, err)  # Only 1 means yes, as with torchrun; the worker finds nobody.
        self.assertIn("TimerError", err)

    def test_a_launcher_within_a_launcher_has_its_own(self):
        env = {"TMPDIR": str(self.temporary), "TORCHELASTIC_ENABLE_FILE_TIMER": "1",
               "TORCHELASTIC_TIMER_FILE": str(self.path())}
        outer = self.undo.enter_context(Run("--no-python", BINARY, "run", TIMERS, "late", self.folder, env=env))
        code, _, err = outer.finish()
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertIn("timer expired: scope stuck", err)

    def test_a_relative_path_is_the_launchers(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        env = {"TMPDIR": str(self.temporary), "TORCHELASTIC_TIMER_FILE": "timers"}
        run = self.undo.enter_context(Run("--watchdog", "-v", TIMERS, "goes_elsewhere", elsewhere, env=env,
                                          cwd=self.temporary))
        code, _, err = run.finish()
        self.assertEqual(code, 0, err)
        self.assertIn(f"watchdog: timers are taken at {self.path()}\n", err)

    def test_without_it_workers_are_told_so(self):
        code, _, err = self.finish("fine", watchdog=False)
        self.assertEqual(code, 1)
        self.assertIn("regroup run --watchdog", err)

    def test_it_is_for_one_user_alone(self):
        env = {"TORCHELASTIC_TIMER_FILE": str(self.path())}
        run = self.run_worker("late", "--max-restarts", "0", env=env)
        self.assertTrue(until(self.path().exists))
        mode = self.path().lstat().st_mode
        self.assertTrue(stat.S_ISFIFO(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        run.finish()

    def test_what_an_earlier_run_has_left_is_replaced(self):
        for leave in (lambda: os.mkfifo(self.path()), lambda: self.path().touch()):
            leave()
            code, _, err = self.finish("fine", env={"TORCHELASTIC_TIMER_FILE": str(self.path())})
            self.assertEqual((code, err), (0, ""))

    def test_what_is_somebodys_is_refused_and_stays(self):
        self.path().write_text("precious")
        folder = self.temporary / "folder"
        folder.mkdir()
        in_use = self.temporary / "in_use"
        os.mkfifo(in_use)
        reader = os.open(in_use, os.O_RDWR)
        self.addCleanup(os.close, reader)
        for path, why in ((self.path(), "something in it"), (folder, "neither a pipe nor"),
                          (in_use, "somebody reads it"), (self.temporary / "none" / "pipe", "No such file")):
            code, _, err = self.finish("fine", env={"TORCHELASTIC_TIMER_FILE": str(path)})
            self.assertEqual(code, 2, err)
            self.assertRegex(err, f"cannot make the pipe {path}: .*{why}.*[Cc]hoose another path")
        self.assertEqual(self.path().read_text(), "precious")


class Storms(WatchdogTest):
    def test_many_clients_lose_nothing_though_the_launcher_is_killed_and_started_again(self):
        env = {"TORCHELASTIC_TIMER_FILE": str(self.temporary / "timers")}
        first = self.run_worker("storm", env=env)
        self.assertTrue(until((self.folder / "storm.0").exists), "the storm did not begin")
        first.signal(signal.SIGKILL)
        first.process.wait()
        self.assertTrue(until(lambda: not first.alive()), "somebody of the first run lives on")
        code, out, err = self.finish("storm", env=env)
        self.assertEqual(out, "200 clients, 0 wrong", err)
        self.assertEqual(code, 0, err)
        self.assertFalse((self.temporary / "timers").exists())


if __name__ == "__main__":
    unittest.main()
