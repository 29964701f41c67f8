"""python/regroup/timer.py: what it writes into the pipe, and what it says when it cannot. Needs no PyTorch, and no launcher."""

import asyncio
import contextlib
import fcntl
import functools
import importlib.util
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import regroup  # noqa: E402
from regroup import beat, timer  # noqa: E402

LIMIT_S = 60


class TimerTestCase(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = str(self.folder / "pipe")
        os.mkfifo(self.path)
        self.pipe = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, self.pipe)
        os.environ[timer.PIPE_VARIABLE] = self.path
        self.addCleanup(os.environ.pop, timer.PIPE_VARIABLE, None)
        regroup.configure()

    def lines(self):
        try:
            return [json.loads(line) for line in os.read(self.pipe, 1 << 20).splitlines()]
        except BlockingIOError:
            return []


class Recorder:
    """A client of the user's own, such as PyTorch's."""

    def __init__(self):
        self.calls = []

    def acquire(self, scope_id, expiration_time):
        self.calls.append(("acquire", scope_id, expiration_time))

    def release(self, scope_id):
        self.calls.append(("release", scope_id))


class Clients(TimerTestCase):
    def test_a_client_may_be_configured(self):
        client = Recorder()
        regroup.configure(client)
        before = time.time()
        with regroup.expires(30, scope="step"):
            self.assertEqual([call[:2] for call in client.calls], [("acquire", "step")])
            self.assertGreaterEqual(client.calls[0][2], before + 30)
        self.assertEqual(client.calls[1:], [("release", "step")])
        self.assertEqual(self.lines(), [])
        regroup.configure()
        with regroup.expires(30):
            self.assertEqual(len(self.lines()), 1)

    def test_a_call_may_have_a_client_of_its_own(self):
        client = Recorder()

        @regroup.expires(30, client=client)
        def work():
            return 7

        self.assertEqual(work(), 7)
        self.assertEqual([call[0] for call in client.calls], ["acquire", "release"])
        self.assertEqual(self.lines(), [])
        with self.assertRaisesRegex(TypeError, "acquire"):
            regroup.expires(30, client="pipe")


class Expires(TimerTestCase):
    def test_a_block_acquires_and_releases(self):
        before = time.time()
        with regroup.expires(30, scope="step"):
            acquired, = self.lines()
        released, = self.lines()
        self.assertEqual(list(acquired), ["version", "pid", "scope_id", "expiration_time", "signal"])
        self.assertEqual((acquired["version"], acquired["pid"], acquired["scope_id"], acquired["signal"]),
                         (1, os.getpid(), "step", signal.SIGKILL))
        self.assertGreaterEqual(acquired["expiration_time"], before + 30)
        self.assertLessEqual(acquired["expiration_time"], time.time() + 30)
        self.assertEqual(released, {"version": 1, "pid": os.getpid(), "scope_id": "step", "expiration_time": -1,
                                    "signal": 0})

    def test_an_exception_releases_and_goes_on(self):
        with self.assertRaises(ZeroDivisionError), regroup.expires(30, scope="step"):
            raise ZeroDivisionError
        self.assertEqual([line["expiration_time"] < 0 for line in self.lines()], [False, True])

    def test_the_scope_is_the_callers_file_and_line(self):
        with regroup.expires(30):
            pass
        with regroup.expires(30):
            pass
        scopes = [line["scope_id"] for line in self.lines()]
        self.assertEqual(scopes[0], scopes[1])
        self.assertEqual(scopes[2], scopes[3])
        self.assertNotEqual(scopes[0], scopes[2])
        file, line = scopes[0].rsplit("#", 1)
        self.assertEqual((Path(file).name, Path(file).read_text().splitlines()[int(line) - 1].strip()),
                         (Path(__file__).name, "with regroup.expires(30):"))

    def test_the_signal_may_be_chosen(self):
        with regroup.expires(30, signal=signal.SIGTERM):
            pass
        self.assertEqual([line["signal"] for line in self.lines()], [15, 0])

    def test_it_decorates_functions(self):
        @regroup.expires(30)
        def factorial(n):
            """Of n."""
            return 1 if n == 0 else n * factorial(n - 1)

        self.assertEqual((factorial(3), factorial.__name__, factorial.__doc__), (6, "factorial", "Of n."))
        lines = self.lines()
        self.assertEqual([line["expiration_time"] < 0 for line in lines], [False] * 4 + [True] * 4)
        self.assertRegex(lines[0]["scope_id"], r"test_python_timer\.py#\d+$")

    def test_it_decorates_whatever_can_be_called(self):
        self.assertEqual(regroup.expires(30)(functools.partial(int, base=2))("11"), 3)
        acquired, _ = self.lines()
        self.assertRegex(acquired["scope_id"], r"test_python_timer\.py#\d+$")

    def test_it_decorates_coroutines_for_as_long_as_they_run(self):
        seen = []

        @regroup.expires(30, "save")
        async def save():
            await asyncio.sleep(0)
            seen.extend(self.lines())

        coroutine = save()
        self.assertEqual(self.lines(), [])
        asyncio.run(coroutine)
        self.assertEqual([line["expiration_time"] > 0 for line in seen], [True])
        self.assertEqual([line["expiration_time"] for line in self.lines()], [-1])

    def test_it_refuses_generators(self):
        with self.assertRaisesRegex(TypeError, "generator"):
            @regroup.expires(30)
            def numbers():
                yield 1

    def test_the_pid_is_that_of_whoever_calls(self):
        guard = regroup.expires(30, "forked")
        child = os.fork()
        if child == 0:
            with guard:
                os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual([line["pid"] for line in self.lines()], [child])

    def test_threads_do_not_mix_their_lines(self):
        def work(number):
            for _ in range(50):
                with regroup.expires(30, scope=f"{number}" * 50):
                    pass
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        lines = []
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            lines += self.lines()
            time.sleep(0.001)
        for thread in threads:
            thread.join()
        lines += self.lines()
        self.assertEqual(len(lines), 800)


class Trouble(TimerTestCase):
    def test_nobody_watches(self):
        del os.environ[timer.PIPE_VARIABLE]
        with self.assertRaisesRegex(regroup.TimerError, "regroup run --watchdog"):
            with regroup.expires(30):
                self.fail("the block has run")
        with self.assertRaisesRegex(regroup.TimerError, "regroup run --watchdog"):
            regroup.configure()
        with regroup.expires(30, optional=True):
            pass
        os.environ[timer.PIPE_VARIABLE] = self.path
        self.assertEqual(self.lines(), [])

    def test_the_launcher_has_ended(self):
        left_over = str(self.folder / "left_over")
        os.mkfifo(left_over)
        for path, why in ((left_over, "nobody reads it"), (str(self.folder / "none"), "No such file")):
            os.environ[timer.PIPE_VARIABLE] = path
            with self.assertRaisesRegex(regroup.TimerError, why):
                with regroup.expires(30):
                    self.fail("the block has run")

    def test_a_file_is_no_pipe_and_stays_as_it_is(self):
        file = self.folder / "file"
        file.write_text("precious")
        regroup.configure(file)
        with self.assertRaisesRegex(regroup.TimerError, "no pipe"):
            with regroup.expires(30):
                pass
        self.assertEqual(file.read_text(), "precious")

    def test_a_scope_that_is_too_long_is_refused(self):
        with self.assertRaisesRegex(regroup.TimerError, "Choose a shorter one"):
            with regroup.expires(30, "x" * 4096):
                pass
        self.assertEqual(self.lines(), [])
        longest = "x" * (timer.WHOLE_WRITE - 200)
        with regroup.expires(30, longest):
            pass
        self.assertEqual(len(self.lines()), 2)

    def test_a_full_pipe_is_waited_for(self):
        full = 0
        while True:
            try:
                full += os.write(self.pipe, b"x" * 4096)
            except BlockingIOError:
                break
        done = threading.Event()

        def work():
            with regroup.expires(30):
                done.set()
        thread = threading.Thread(target=work)
        thread.start()
        got = b""
        deadline = time.monotonic() + LIMIT_S
        while thread.is_alive() and time.monotonic() < deadline:
            try:
                got += os.read(self.pipe, 1 << 20)
            except BlockingIOError:
                time.sleep(0.001)
        thread.join(LIMIT_S)
        self.assertTrue(done.is_set())
        with contextlib.suppress(BlockingIOError):  # What came after the last look.
            got += os.read(self.pipe, 1 << 20)
        self.assertEqual(len([line for line in got[full:].splitlines() if json.loads(line)]), 2)

    def test_the_blocks_own_exception_counts_more_than_a_launcher_that_is_gone(self):
        with self.assertRaises(ZeroDivisionError), regroup.expires(30):
            os.unlink(self.path)
            raise ZeroDivisionError
        os.mkfifo(self.path)


class Heartbeat(TimerTestCase):
    def setUp(self):
        super().setUp()
        self.file = os.memfd_create("heartbeat", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, self.file)
        os.truncate(self.file, 64)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        os.environ[beat.FILE_VARIABLE] = f"/proc/{os.getpid()}/fd/{self.file}"
        self.addCleanup(os.environ.pop, beat.FILE_VARIABLE, None)
        beat._cells, beat._told, beat._stored = None, None, 0

    def cells(self):
        return struct.unpack("qq", os.pread(self.file, 16, 0))

    def test_a_beat_stores_the_time_and_only_a_new_limit_is_told(self):
        before = time.monotonic_ns()
        regroup.heartbeat(30)
        last, limit = self.cells()
        self.assertTrue(before <= last <= time.monotonic_ns())
        self.assertEqual(limit, 30 * 10**9)
        line, = self.lines()
        self.assertEqual((line["pid"], line["expiration_time"], line["heartbeat"]), (os.getpid(), -1, True))
        regroup.heartbeat(30)
        self.assertGreater(self.cells()[0], last)
        self.assertEqual(self.lines(), [])
        regroup.heartbeat(0.5)
        self.assertEqual((self.cells()[1], len(self.lines())), (5 * 10**8, 1))

    def test_who_stops_is_not_watched_and_may_begin_again(self):
        regroup.heartbeat(30)
        regroup.heartbeat_stop()
        self.assertEqual((self.cells()[1], len(self.lines())), (0, 1))
        regroup.heartbeat(30)
        self.assertEqual((self.cells()[1], len(self.lines())), (30 * 10**9, 1))

    def in_a_child(self, work):
        child = os.fork()
        if child == 0:
            try:
                work()
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_limit_that_another_process_has_changed_is_told_again(self):
        regroup.heartbeat(30)
        self.in_a_child(regroup.heartbeat_stop)
        self.assertEqual((self.cells()[1], len(self.lines())), (0, 1))
        regroup.heartbeat(30)
        self.assertEqual((self.cells()[1], len(self.lines())), (30 * 10**9, 1))
        regroup.heartbeat_stop()
        self.in_a_child(lambda: regroup.heartbeat(30))
        self.assertEqual((self.cells()[1], len(self.lines())), (30 * 10**9, 1))
        regroup.heartbeat_stop()
        self.assertEqual(self.cells()[1], 0)

    def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have(self):
        with beat._lock:
            self.in_a_child(lambda: regroup.heartbeat(30))
        self.assertEqual(len(self.lines()), 1)

    def test_a_limit_may_be_endless(self):
        for limit in (float("inf"), 1e300):
            regroup.heartbeat(limit)
            self.assertEqual((self.cells()[1], len(self.lines())), (1 << 62, 1))

    def test_the_launcher_is_told_though_timers_go_elsewhere(self):
        other = str(self.folder / "other")
        os.mkfifo(other)
        regroup.configure(other)
        regroup.heartbeat(30)
        self.assertEqual(len(self.lines()), 1)

    def test_without_a_file_nothing_happens(self):
        for path in (str(self.folder / "none"), ""):
            os.environ[beat.FILE_VARIABLE] = path
            beat._cells = None
            regroup.heartbeat(30)
            regroup.heartbeat_stop()
        self.assertEqual(self.lines(), [])

    def test_a_file_that_is_not_the_launchers_stays_as_it_is(self):
        file = self.folder / "precious"
        file.write_bytes(b"x" * 64)
        os.environ[beat.FILE_VARIABLE] = str(file)
        regroup.heartbeat(30)
        self.assertEqual((file.read_bytes(), self.lines()), (b"x" * 64, []))


class WithoutPyTorch(unittest.TestCase):
    def test_nothing_but_the_standard_library_is_imported(self):
        code = ("import sys, regroup, regroup.timer\n"
                "assert not any(name.split('.')[0] in ('torch', 'numpy') for name in sys.modules)\n")
        subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=str(ROOT / "python")), check=True,
                       timeout=LIMIT_S)
        self.assertIsNotNone(importlib.util.find_spec("regroup"))


if __name__ == "__main__":
    unittest.main()
