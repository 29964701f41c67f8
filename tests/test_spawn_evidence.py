"""What the report of a failure shows: the reason as far as anybody knows it, and nothing that nobody knows."""

import json
import os
import re
import resource
import signal
import sys
import tempfile
import unittest
from pathlib import Path

from spawn_support import Spawn, spawn, state_of, until

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
MEGABYTE = 1 << 20


def report_in(err):
    """What we say ourselves, without what the workers wrote before."""
    return err[err.index("regroup: rank "):]


def python(code):
    return ["--", sys.executable, "-c", code]


class WithFolder(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def failed(self, *arguments, code=None, **popen):
        """Its report; the job has to fail."""
        found, self.out, self.err = spawn(*arguments, env={"TMPDIR": str(self.folder)}, **popen)
        self.assertNotEqual(found, 0)
        if code is not None:
            self.assertEqual(found, code, self.err)
        self.assertEqual(self.err.count("regroup: rank "), 1, self.err)
        return report_in(self.err)


class Memory(WithFolder):
    """A kernel kills for memory, or somebody kills by hand; the two are never confused."""

    def skip_without_memory_groups(self):
        code, _, err = spawn("--memory-limit", "1GB", "--", "true", env={"TMPDIR": str(self.folder)})
        if code != 0:
            self.skipTest(f"no memory cgroup is ours to use here: {err.strip()}")

    def test_more_than_the_limit(self):
        self.skip_without_memory_groups()
        for count in (1, 2):
            with self.subTest(workers=count):
                # Every page is touched: memory that nobody uses is free.
                report = self.failed("-n", count, "--memory-limit", "64MB", *python(f"b'x' * {300 * MEGABYTE}"),
                                     code=137)
                self.assertIn("failed: killed by SIGKILL\n", report)
                found = re.search(r"out of memory: the kernel killed it \(oom_kill \+\d+ in its cgroup; "
                                  r"peak (\d+\.\d) MiB of (\d+\.\d) MiB\)", report)
                self.assertTrue(found, report)
                self.assertEqual(found.group(2), "64.0")
                self.assertAlmostEqual(float(found.group(1)), 64.0, delta=4)

    def test_a_child_that_is_killed_is_told_of_its_worker(self):
        self.skip_without_memory_groups()
        child = f"{sys.executable} -c \"b'x' * {300 * MEGABYTE}\""
        report = self.failed("--memory-limit", "64MB", "--", "sh", "-c", f"{child}; exit 3", code=3)
        self.assertIn("out of memory: the kernel killed 1 process of this worker", report)
        self.assertIn("of 64.0 MiB", report)

    def test_less_than_the_limit(self):
        self.skip_without_memory_groups()
        code, _, err = spawn("-n", "2", "--memory-limit", "256MB", *python(f"b'x' * {30 * MEGABYTE}"),
                             env={"TMPDIR": str(self.folder)})
        self.assertEqual((code, err), (0, ""))

    def test_killed_by_hand(self):
        for flags in ([], ["--cgroup", "off"]):
            with self.subTest(flags), Spawn("-n", "2", *flags, "--", "sh", "-c", "echo $$$$; exec sleep 1000",
                                            env={"TMPDIR": str(self.folder)}) as spawned:
                victim = int(spawned.process.stdout.readline())
                os.kill(victim, signal.SIGKILL)
                code, _, err = spawned.finish()
                self.assertEqual(code, 137, err)
                self.assertIn("failed: killed by SIGKILL\n", err)
                self.assertIn(f"pid {victim}, ", err)
                self.assertIn("killed from outside: nothing shows that it was for memory (", err)
                self.assertNotIn("out of memory", err)
                self.assertRegex(err, r"rank [01]: stopped because of it")

    def test_killed_by_hand_with_a_limit(self):
        self.skip_without_memory_groups()
        with Spawn("--memory-limit", "1GB", "--", "sh", "-c", "echo $$$$; exec sleep 1000",
                   env={"TMPDIR": str(self.folder)}) as spawned:
            os.kill(int(spawned.process.stdout.readline()), signal.SIGKILL)
            _, _, err = spawned.finish()
            self.assertIn("no oom_kill counted in its cgroup", err)
            self.assertNotIn("out of memory", err)

    def test_killed_by_us_is_not_from_outside(self):
        script = "trap '' TERM; [ $RANK = 0 ] && { read line <$FIFO; exit 3; }; echo >$FIFO; while :; do sleep 1; done"
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        code, _, err = spawn("-n", "2", "--shutdown-timeout", "0.2", "--", "sh", "-c", script,
                             env={"TMPDIR": str(self.folder), "FIFO": str(fifo)})
        self.assertEqual(code, 3, err)
        self.assertIn("rank 1: stopped because of it", err)
        self.assertNotIn("killed from outside", err)
        self.assertNotIn("memory (", err)


class Python(WithFolder):
    def test_a_traceback_is_shown_once(self):
        report = self.failed(*python("def f():\n  raise ValueError('boom')\nf()"), code=1)
        self.assertTrue(re.match(r"regroup: rank 0 on \S+ failed: ValueError: boom\n", report), report)
        self.assertEqual(report.count("Traceback (most recent call last):"), 1)
        self.assertIn("    Traceback (most recent call last):\n      File \"<string>\", line 3, in <module>\n", report)
        self.assertIn("    ValueError: boom\n", report)
        self.assertNotIn("the last it wrote", report)
        self.assertEqual(self.err.count("Traceback"), 2)  # As the worker printed it, and in the report.

    def test_a_traceback_of_a_redirected_worker_too(self):
        for flags in (["-r", "3"], ["-t", "3"], ["--log-dir", "/dev/null"], ["-r", "3", "--ranks-filter", "5"]):
            with self.subTest(flags):
                report = self.failed(*flags, *python("raise ValueError('boom')"), code=1)
                self.assertIn("failed: ValueError: boom\n", report)
                self.assertEqual(report.count("Traceback"), 1)

    def test_a_long_traceback_keeps_its_end(self):
        code = "import sys\nsys.setrecursionlimit(500)\ndef f(n):\n  g(n)\ndef g(n):\n  f(n + 1)\nf(0)"
        report = self.failed(*python(code), code=1)
        self.assertIn("failed: RecursionError: ", report)
        self.assertLessEqual(report.count("\n"), 70)

    def test_output_at_the_very_end_is_in_it(self):
        """Much on stderr just before the end, as a crash writes it."""
        report = self.failed(*python("import sys\nfor i in range(100000): print('line', i, file=sys.stderr)\n"
                                     "sys.exit(1)"), code=1)
        self.assertIn("    line 99999\n", report)
        self.assertIn("lines before)\n    line 99980\n", report)
        self.assertIn("\nline 99999\nregroup: rank 0", self.err)  # Everything before the report.


class ErrorFiles(WithFolder):
    def written(self, text, *flags, code=1):
        return self.failed(*flags, *python(f"import os, sys\nopen(os.environ['TORCHELASTIC_ERROR_FILE'], 'w')"
                                           f".write({text!r})\nsys.exit({code})"), code=code)

    def test_its_message_is_shown(self):
        recorded = {"message": {"message": "ValueError: from the file",
                                "extraInfo": {"py_callstack": "Traceback: the stack", "timestamp": "1700000000"}}}
        report = self.written(json.dumps(recorded), code=5)
        self.assertIn("failed: ValueError: from the file\n", report)
        self.assertIn("    Traceback: the stack\n", report)
        self.assertIn(", exit code 5\n", report)
        path = re.search(r"  error file: (.*)\n", report).group(1)
        self.assertEqual(json.loads(Path(path).read_text()), recorded)

    def test_a_plain_message_too(self):
        self.assertIn("failed: no GPU\n", self.written(json.dumps({"message": "no GPU"})))

    def test_a_broken_one_is_told(self):
        for text in ("{\"mess", "[]", "nothing", "{\"message\": 3", "\0" * 100, "{}"):
            with self.subTest(text):
                report = self.written(text)
                self.assertIn("failed: ended with exit code 1\n", report)
                self.assertIn("its error file cannot be read", report)

    def test_an_empty_one_is_none(self):
        self.assertNotIn("error file", self.written(""))

    def test_one_of_somebody_who_succeeds_changes_nothing(self):
        code, _, err = spawn(*python("import os; open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write('{')"),
                             env={"TMPDIR": str(self.folder)})
        self.assertEqual((code, err), (0, ""))


class Many(WithFolder):
    def fail_together(self, code):
        """The report of 64 workers that all have failed before the launcher, which sleeps, can stop anybody."""
        ready, gate = self.folder / "ready", self.folder / "gate"
        ready.mkdir()
        wait = (f"import os, time\nopen({str(ready)!r} + '/' + os.environ['RANK'], 'w')\n"
                f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n")
        with Spawn("-n", "64", "-r", "3", *python(wait + code), env={"TMPDIR": str(self.folder)}) as spawned:
            self.assertEqual(until(lambda: len(os.listdir(ready)) == 64), True)
            workers = spawned.workers()
            os.kill(spawned.pid, signal.SIGSTOP)
            gate.touch()
            # Zombies, each of them: one on its way out has lost its environment, but has not ended yet.
            self.assertEqual(until(lambda: all(state_of(pid) == "Z" for pid in workers)), True)
            os.kill(spawned.pid, signal.SIGCONT)
            found, _, err = spawned.finish()
        self.assertEqual(found, 1, err)
        self.assertEqual(err.count("Traceback"), 1)
        return err

    def test_sixty_four_that_fail_alike(self):
        err = self.fail_together("raise ValueError('boom')")
        self.assertLessEqual(err.count("\n"), 20, err)

    def test_who_had_failed_before_is_not_called_stopped(self):
        """They ended before the launcher signalled anybody: one of them may be the real cause."""
        err = self.fail_together("raise ValueError('boom')")
        self.assertRegex(err, r"\n  ranks [0-9, -]+ failed after that: ValueError: boom\n")
        self.assertNotIn("stopped because of it", err)

    def test_sixty_four_that_fail_almost_alike(self):
        """Each has its rank in its message, as NCCL's have."""
        err = self.fail_together("raise ValueError('rank ' + os.environ['RANK'] + ' timed out')")
        self.assertLessEqual(err.count("\n"), 60, err)

    def test_sixty_four_with_long_messages(self):
        """As CUDA's, of several lines."""
        err = self.fail_together("raise ValueError('boom on ' + os.environ['RANK'] + '\\n' + 'advice\\n' * 10)")
        self.assertLessEqual(err.count("\n"), 60, err)

    def test_ranks_are_folded(self):
        report = self.failed("-n", "8", "--", "sh", "-c", "[ $RANK = 3 ] && exit 9; exec sleep 1000", code=9)
        self.assertIn("regroup: rank 3 on ", report)
        self.assertIn("  ranks 0-2, 4-7: stopped because of it\n", report)


class Signals(WithFolder):
    def raised(self, name, **popen):
        return self.failed("--", sys.executable, "-c", f"import os, signal\nos.kill(os.getpid(), signal.{name})",
                           code=128 + getattr(signal, name), cwd=self.folder, **popen)

    def test_a_segfault(self):
        report = self.failed(*python("import ctypes; ctypes.string_at(0)"), code=139, preexec_fn=without_cores)
        self.assertIn("failed: killed by SIGSEGV (segmentation fault)\n", report)
        self.assertIn("no core file (ulimit -c is 0", report)

    def test_a_segfault_with_the_words_of_faulthandler(self):
        report = self.failed("--", sys.executable, "-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(0)",
                             code=139, preexec_fn=without_cores)
        self.assertIn("failed: killed by SIGSEGV (segmentation fault)\n", report)
        self.assertIn("Fatal Python error: Segmentation fault", report)

    def test_an_abort_with_a_core_file(self):
        if CORE_PATTERN.read_text().strip() != "core":
            self.skipTest(f"cores go elsewhere here: {CORE_PATTERN.read_text().strip()}")
        if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
            self.skipTest("no core files are allowed here (ulimit -H -c is 0)")
        report = self.raised("SIGABRT", preexec_fn=with_cores)
        self.assertIn("failed: killed by SIGABRT (aborted)\n", report)
        path, size = re.search(r"  core file: (\S+) \((\d+\.\d) MiB\)\n", report).groups()
        self.assertEqual(Path(path).parent, self.folder.resolve())
        self.assertAlmostEqual(Path(path).stat().st_size / MEGABYTE, float(size), delta=0.1)

    def test_a_bus_error_shows_shared_memory(self):
        report = self.raised("SIGBUS", preexec_fn=without_cores)
        self.assertIn("failed: killed by SIGBUS (bus error)\n", report)
        self.assertRegex(report, r"/dev/shm( is full)?: \S+ \S+ of \S+ \S+ used")

    def test_others_by_name(self):
        for name in ("SIGFPE", "SIGILL", "SIGTERM", "SIGUSR1", "SIGSYS", "SIGXCPU"):
            with self.subTest(name):
                self.assertIn(f"failed: killed by {name} (", self.raised(name, preexec_fn=without_cores))

    def test_what_a_shell_tells_of_its_command(self):
        report = self.failed("--", "sh", "-c", f"{sys.executable} -c 'import os; os.kill(os.getpid(), 11)'; exit $?",
                             code=139, preexec_fn=without_cores)
        self.assertIn("failed: ended with exit code 139\n", report)
        self.assertIn("exit code 139: something it ran was killed by SIGSEGV", report)


def with_cores():
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def without_cores():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Starts(WithFolder):
    def test_what_cannot_be_executed_is_no_exit_code(self):
        code, _, err = spawn("-n", "2", "--", "/no/such/program", env={"TMPDIR": str(self.folder)})
        self.assertEqual(code, 2)
        self.assertEqual(err, "regroup: rank 0 (local rank 0): cannot start '/no/such/program': no such file. "
                              "Check the spelling, and that the file is on this machine.\n")
        self.assertNotIn("127", err)

    def test_one_of_many_that_cannot_be_executed(self):
        """Only the path of one rank is missing, as with a virtual environment that a copy forgot."""
        report = self.failed("-n", "2", "--", "sh", "-c", "exec ./program_$RANK", code=127)
        self.assertIn("exit code 127: a shell did not find the command", report)
        self.assertIn("program_", report)


class Tails(WithFolder):
    def test_one_line_of_a_megabyte(self):
        for end in ("", "\\n"):
            with self.subTest(end):
                report = self.failed("-r", "2", *python(f"import sys\nsys.stderr.write('first\\n' + 'x' * {MEGABYTE} + "
                                                        f"'{end}')\nsys.exit(1)"), code=1)
                self.assertLess(len(report), 2000)
                self.assertRegex(report, r"\n    x{400}\.\.\.\n")

    def test_a_reason_behind_a_long_line(self):
        for flags in ([], ["-r", "2"], ["-t", "2"]):
            with self.subTest(flags):
                report = self.failed(*flags, *python(f"import sys\nsys.stderr.write('x' * {MEGABYTE} + '\\n')\n"
                                                     "raise KeyError('why')"), code=1)
                self.assertIn("failed: KeyError: 'why'\n", report)
                self.assertEqual(report.count("Traceback"), 1)

    def test_a_progress_bar_shows_its_last_state(self):
        report = self.failed("-r", "2", *python("import sys\nfor i in range(101): sys.stderr.write(f'\\r{i}%')\n"
                                                "sys.exit(1)"), code=1)
        self.assertIn("    100%\n", report)
        self.assertNotIn("99%", report)

    def test_bytes_that_are_no_text(self):
        with Spawn("-r", "2", *python("import os\nos.write(2, bytes(range(256)) * 8 + b'\\nend\\n'); os._exit(1)"),
                   env={"TMPDIR": str(self.folder)}, text=False) as spawned:
            code, _, err = spawned.finish()
        self.assertEqual(code, 1)
        self.assertIn(b"    end\n", err)

    def test_nothing_written_is_nothing_shown(self):
        self.assertNotIn("the last it wrote", self.failed("--", "sh", "-c", "exit 4", code=4))


if __name__ == "__main__":
    unittest.main()
