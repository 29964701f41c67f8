"""What workers write arrives: whole, in order, where it was asked for, whatever console and disk do."""

import fcntl
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "workers"))
import lines  # noqa: E402
from spawn_support import LIMIT_S, Spawn, until, worker  # noqa: E402

LONG_S = 5 * LIMIT_S  # For what moves hundreds of megabytes.
FILES = {"out": "stdout.log", "err": "stderr.log"}


class Drain(threading.Thread):
    """Reads a descriptor to its end, or until the terminal behind it is gone."""

    def __init__(self, descriptor):
        super().__init__(daemon=True)
        self.descriptor, self.parts = descriptor, []
        self.start()

    def run(self):
        try:
            while part := os.read(self.descriptor, 1 << 20):
                self.parts.append(part)
        except OSError:  # EIO: nobody has the terminal open any more.
            pass

    def all(self):
        self.join(LONG_S)
        assert not self.is_alive(), "the console is still open"
        return b"".join(self.parts)


class OutputTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.logs = self.folder / "logs"
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()

    def start(self, *arguments, **popen):
        return Spawn(*arguments, env={"TMPDIR": str(self.temporary)}, **{"text": False, **popen})

    def spawn(self, *arguments, limit_s=LONG_S, **popen):
        """Runs to its end: exit code, standard output, standard error."""
        with self.start(*arguments, **popen) as spawned:
            return spawned.finish(limit_s)

    def shell(self, script, *flags, **popen):
        """What the workers print, each a shell script; nothing may be wrong."""
        code, out, err = self.spawn(*flags, "--", "sh", "-c", script, **popen)
        self.assertEqual(code, 0, err)
        return out, err

    def attempt(self, logs=None):
        return self.only((logs or self.logs).glob("none_*/attempt_0"))

    def only(self, found):
        found = list(found)
        self.assertEqual(len(found), 1, found)
        return found[0]

    def files(self):
        """What the log files hold, by their path."""
        attempt = self.attempt()
        return {str(path.relative_to(attempt)): path.read_bytes()
                for path in sorted(attempt.rglob("*")) if path.is_file()}

    def check_files_of_lines(self, ranks, count, word):
        for rank in range(ranks):
            for stream in lines.streams_of(rank, word):
                with self.subTest(rank=rank, stream=stream):
                    expected = b"".join(lines.line(rank, stream, i) for i in range(count))
                    # Not assertEqual: twenty megabytes of difference help nobody.
                    self.assertTrue((self.attempt() / str(rank) / FILES[stream]).read_bytes() == expected)

    def check_console_lines(self, text):
        """Every line is one whole line of one worker behind its prefix, and later than its last one.

        Returns how many lines there are of each (rank, stream), and the others.
        """
        reached, count, others = {}, {}, []
        self.assertEqual(text[-1:], b"\n")
        for line in text.splitlines(keepends=True):
            if not (match := re.match(rb"\[default(\d+)\]:(\d+) (out|err) (\d{7}) ", line)):
                others.append(line)
                continue
            rank, stream, number = int(match[1]), match[3].decode(), int(match[4])
            self.assertEqual(line, b"[default%d]:" % rank + lines.line(rank, stream, number))
            self.assertGreater(number, reached.get((rank, stream), -1))
            reached[rank, stream] = number
            count[rank, stream] = count.get((rank, stream), 0) + 1
        return count, others


class Flood(OutputTest):
    def test_nothing_is_lost_split_or_out_of_order(self):
        """Eight workers, 1,200,000 lines, 240 MB, on one console that is read, and in the files."""
        ranks, count = 8, 100_000
        code, out, _ = self.spawn("-n", ranks, "-t", "3", "--log-dir", self.logs, "--", *worker("lines"), count, "half",
                                  stderr=subprocess.STDOUT)
        self.check_files_of_lines(ranks, count, "half")
        shown, others = self.check_console_lines(out)
        self.assertEqual(others, [])
        self.assertEqual(shown, {(rank, stream): count
                                 for rank in range(ranks) for stream in lines.streams_of(rank, "half")})
        self.assertEqual(code, 0)

    def test_a_console_that_reads_late_is_told_what_it_missed(self):
        """100 MB while nobody reads. The workers end their work; then the console is read again."""
        ranks, count = 4, 125_000
        go = self.folder / "go"
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        with self.start("-n", ranks, "-t", "1", "--log-dir", self.logs, "--", *worker("lines"), count, "out", go,
                        stdout=writer) as spawned:
            os.close(writer)

            def written():
                return sum(path.stat().st_size for path in self.logs.rglob("stdout.log"))

            total = ranks * count * lines.LENGTH
            self.assertEqual(until(lambda: written() == total, LONG_S), True, written())
            self.check_files_of_lines(ranks, count, "out")
            console = Drain(reader)
            go.touch()
            code, _, err = spawned.finish()
            self.assertEqual((code, err), (0, b""))
            shown, others = self.check_console_lines(console.all())
        missing = 0
        for line in others:
            match = re.fullmatch(rb"regroup: (\d+) lines were not shown, because the console did not read; "
                                 rb"the files have them\n", line)
            self.assertTrue(match, line)
            missing += int(match[1])
        self.assertGreater(missing, 0)
        self.assertEqual(sum(shown.values()) + missing, ranks * count)

    def test_a_console_that_never_reads(self):
        ranks, count = 4, 125_000
        reader, writer = os.pipe()
        with self.start("-n", ranks, "-t", "1", "--log-dir", self.logs, "--", *worker("lines"), count, "out",
                        stdout=writer) as spawned:
            os.close(writer)
            code, _, err = spawned.finish(LONG_S)
            console = Drain(reader).all()
            os.close(reader)
        self.assertEqual(code, 0, err)
        self.check_files_of_lines(ranks, count, "out")
        # A full pipe ends wherever it is full.
        shown, others = self.check_console_lines(console[:console.rindex(b"\n") + 1])
        self.assertEqual(others, [])
        self.assertGreater(sum(shown.values()), 0)


class LastWords(OutputTest):
    """Of workers that are gone right behind them."""

    LAUNCHES, WORKERS = 20, 50

    def check_thousand(self, prefix, *flags):
        script = ("echo first out $RANK; echo first err $RANK >&2; printf \"last err $RANK\" >&2; "
                  "exec printf \"last out $RANK\"")
        for launch in range(self.LAUNCHES):
            out, err = self.shell(script, "-n", self.WORKERS, *flags)
            for stream, text in (("out", out), ("err", err)):
                with self.subTest(launch=launch, stream=stream):
                    expected = [prefix.format(rank) + f"{word} {stream} {rank}\n"
                                for rank in range(self.WORKERS) for word in ("first", "last")]
                    self.assertEqual(sorted(text.decode().splitlines(keepends=True)), sorted(expected))

    def test_they_are_there_every_time_when_teed(self):
        self.check_thousand("[default{}]:", "-t", "3")

    def test_they_are_there_every_time_as_they_are(self):
        self.check_thousand("")

    def test_they_are_in_the_files(self):
        script = "printf \"last err $RANK\" >&2; exec printf \"last out $RANK\""
        for flag in ("-t", "-r"):
            logs = self.folder / flag
            self.shell(script, "-n", self.WORKERS, flag, "3", "--log-dir", logs)
            for rank in range(self.WORKERS):
                for stream, name in FILES.items():
                    self.assertEqual((self.attempt(logs) / str(rank) / name).read_text(), f"last {stream} {rank}")

    def test_of_a_python_that_leaves_at_once(self):
        script = "import os; print('last of', os.environ['RANK'], flush=True); os._exit(0)"
        for flags in ((), ("-t", "3")):
            code, out, err = self.spawn("-n", "8", *flags, "--", sys.executable, "-c", script)
            self.assertEqual((code, err), (0, b""))
            self.assertEqual(sorted(line.split(b":")[-1] for line in out.splitlines()),
                             [b"last of %d" % rank for rank in range(8)])


class Disk(OutputTest):
    def small_disk(self):
        """A megabyte."""
        if os.geteuid() != 0:
            self.skipTest("a file system of its own needs root")
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True,
                                 text=True)
        if mounted.returncode != 0:
            self.skipTest(f"a file system of its own cannot be mounted here: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=True)
        return disk

    def test_a_full_one_costs_a_warning(self):
        """The console has everything, the worker goes on, and once there is room the file tells what it lacks."""
        disk = self.small_disk()
        filler, go = disk / "filler", self.folder / "go"
        filler.write_bytes(bytes(512 * 1024))
        count = 10_000
        script = (f"import os, sys, time\n"
                  f"for i in range({count}): print('line', i, 'x' * 180)\n"
                  f"print('waits', flush=True)\n"
                  f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
                  f"print('after')\n")
        seen = b""
        with self.start("-t", "1", "--log-dir", disk, "--", sys.executable, "-c", script) as spawned:
            while not seen.endswith(b"[default0]:waits\n") and (part := spawned.process.stdout.readline()):
                seen += part
            filler.unlink()
            go.touch()
            code, out, err = spawned.finish()
        self.assertEqual(code, 0, err)
        said = [f"line {i} {'x' * 180}\n" for i in range(count)] + ["waits\n", "after\n"]
        self.assertEqual((seen + out).decode(), "".join("[default0]:" + line for line in said))
        log = self.attempt(disk) / "0" / "stdout.log"
        self.assertEqual(err.decode(), f"regroup: cannot write to '{log}': No space left on device. The worker goes "
                                       f"on, and what it writes is lost to this file until there is room.\n")
        mark = r"\n?\[regroup: (\d+) bytes were lost here: No space left on device\]\n"
        kept, missing, after = re.fullmatch(f"(.*?){mark}(.*)", log.read_text(), re.DOTALL).groups()
        everything = "".join(said)
        self.assertTrue(everything.startswith(kept))
        self.assertEqual(after, "after\n")
        self.assertEqual(len(kept) + int(missing) + len(after), len(everything))

    def test_the_warning_cuts_into_no_line(self):
        """On the one console of both, where all is written by turns."""
        ranks, count, disk = 4, 10_000, self.small_disk()
        code, out, _ = self.spawn("-n", ranks, "-t", "1", "--log-dir", disk, "--", *worker("lines"), count, "out",
                                  stderr=subprocess.STDOUT)
        self.assertEqual(code, 0)
        shown, others = self.check_console_lines(out)
        self.assertEqual(shown, {(rank, "out"): count for rank in range(ranks)})
        for line in others:
            self.assertRegex(line, rb"^regroup: cannot write to .*\n$")

    def test_a_full_one_and_a_console_that_never_reads(self):
        """The warning cannot be told, and stops nobody."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        with self.start("-n", "2", "-t", "1", "--log-dir", self.small_disk(), "--", *worker("lines"), "50000", "out",
                        stdout=writer, stderr=writer) as spawned:
            os.close(writer)
            code, _, _ = spawned.finish()
        self.assertEqual(code, 0)

    def test_rotation(self):
        """Whole lines, the newest in stdout.log, and no file more than were asked for."""
        limit, keep = 10 * 1024, 2
        script = "i=0; while [ $i -lt 5000 ]; do echo $RANK line $i; i=$((i+1)); done; echo small >&2"
        for flag in ("-t", "-r"):
            with self.subTest(flag=flag):
                self.logs = self.folder / flag
                self.shell(script, "-n", "2", flag, "3", "--log-dir", self.logs, "--log-max-bytes", "10KB",
                           "--log-keep", keep)
                files = self.files()
                names = ("stderr.log", "stdout.log", "stdout.log.1", "stdout.log.2")
                self.assertEqual(sorted(files), [f"{rank}/{name}" for rank in range(2) for name in names])
                for rank in range(2):
                    out = [files[f"{rank}/{name}"] for name in ("stdout.log.2", "stdout.log.1", "stdout.log")]
                    self.assertTrue(all(0 < len(text) <= limit for text in out), list(map(len, out)))
                    self.assertTrue(all(text.endswith(b"\n") for text in out))
                    newest = b"".join(out).splitlines()
                    self.assertEqual(newest, [b"%d line %d" % (rank, i) for i in range(5000 - len(newest), 5000)])
                    self.assertGreater(len(out[0]), limit // 2)
                    self.assertEqual(files[f"{rank}/stderr.log"], b"small\n")

    def test_a_directory_of_its_own_lives_as_long_as_it_is_needed(self):
        for flags in ((), ("-t", "3"), ("-r", "3"), ("--log-dir", "/dev/null")):
            self.shell("echo something; echo more >&2", "-n", "2", *flags)
            self.assertEqual(list(self.temporary.iterdir()), [], flags)
        code, _, err = self.spawn("-n", "2", "-t", "3", "--", "sh", "-c", "echo why; exit 3")
        self.assertEqual(code, 3)
        kept = self.only(self.temporary.iterdir())
        self.assertRegex(kept.name, "^torchelastic_")
        self.assertIn(f"  logs: {self.attempt(kept)}\n", err.decode())
        self.assertIn("why\n", [path.read_text() for path in kept.rglob("stdout.log")])


class Bytes(OutputTest):
    def test_binary_passes_unchanged(self):
        """Of a line with a carriage return the console shows the last state, if it is teed; so that is left out."""
        every = bytes(byte for byte in range(256) if byte != ord("\n")) + b"\n"
        shown = every.replace(b"\r", b"")
        script = "import sys; sys.stdout.buffer.write({0}); sys.stderr.buffer.write({0})"
        code, out, err = self.spawn("--", sys.executable, "-c", script.format(every))
        self.assertEqual((code, out, err), (0, every, every))
        code, out, err = self.spawn("-t", "3", "--", sys.executable, "-c", script.format(shown))
        self.assertEqual((code, out, err), (0, b"[default0]:" + shown, b"[default0]:" + shown))
        for flag in ("-t", "-r"):
            self.logs = self.folder / flag
            code, _, _ = self.spawn(flag, "3", "--log-dir", self.logs, "--", sys.executable, "-c", script.format(every))
            self.assertEqual((code, self.files()), (0, {"0/stderr.log": every, "0/stdout.log": every}))

    def test_a_line_of_ten_megabytes_is_whole(self):
        size = 10_000_000
        script = f"import sys; sys.stdout.write('<' + 'x' * {size} + '>\\n')"
        code, out, err = self.spawn("-n", "3", "-t", "1", "--log-dir", self.logs, "--", sys.executable, "-c", script)
        self.assertEqual((code, err), (0, b""))
        line = b"<" + b"x" * size + b">\n"
        expected = [b"[default%d]:%s" % (rank, line) for rank in range(3)]
        self.assertTrue(sorted(out.splitlines(keepends=True)) == expected)
        self.assertTrue(all(text == line for name, text in self.files().items() if name.endswith("stdout.log")))

    BAR = ("import sys, time\n"
           "for done in range(101):\n"
           "    sys.stderr.write(f'\\r{done}% done'); sys.stderr.flush()\n"
           "    if done % 20 == 0: time.sleep(0.05)\n"
           "sys.stderr.write('\\n')\n")

    def test_a_bar_that_is_teed_to_a_pipe_shows_its_last_state(self):
        code, out, err = self.spawn("-n", "2", "-t", "3", "--log-dir", self.logs, "--", sys.executable, "-c", self.BAR)
        self.assertEqual((code, out), (0, b""))
        self.assertEqual(sorted(err.splitlines()), [b"[default0]:100% done", b"[default1]:100% done"])
        whole = "".join(f"\r{done}% done" for done in range(101)) + "\n"
        self.assertEqual(self.files()["1/stderr.log"], whole.encode())

    def test_a_bar_lives_on_a_terminal(self):
        """A worker sees a terminal as wide as ours, and its bar is there before it is complete."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        script = ("import os, sys, time\n"
                  "print(os.isatty(1), os.isatty(2), os.get_terminal_size(1).columns)\n"
                  "sys.stderr.write('\\r 50%'); sys.stderr.flush()\n"
                  f"while not os.path.exists({str(self.folder / 'go')!r}): time.sleep(0.01)\n"
                  "sys.stderr.write('\\r100%\\n')\n")
        with self.start("--", sys.executable, "-c", script, stdout=slave, stderr=slave) as spawned:
            os.close(slave)
            console = Drain(master)
            self.assertEqual(until(lambda: b"\r 50%" in b"".join(console.parts)), True, console.parts)
            (self.folder / "go").touch()
            code, _, _ = spawned.finish()
            text = console.all()
        self.assertEqual(code, 0, text)
        self.assertIn(b"True True 77\r\n", text)
        self.assertIn(b"\r100%\r\n", text)


class Order(OutputTest):
    """What a worker writes to stdout and stderr in turns is seen in that order where both go to the same place."""

    COUNT = 400

    def console(self, place):
        """What both streams are, and what gives their text in the end."""
        if place == "a file":
            file = open(self.folder / "console", "wb")
            self.addCleanup(file.close)
            return file.fileno(), lambda: (self.folder / "console").read_bytes()
        ours, theirs = os.pipe() if place == "a pipe" else pty.openpty()
        self.addCleanup(os.close, ours)
        drain = Drain(ours)

        def text():
            os.close(theirs)
            return drain.all().replace(b"\r\n", b"\n")
        return theirs, text

    def run_in(self, place, *arguments):
        """Exit code and lines; of one worker and of two, with `spawn`, which carries output as `run` does."""
        descriptor, text = self.console(place)
        code, _, _ = self.spawn(*arguments, stdout=descriptor, stderr=descriptor)
        return code, text().decode().splitlines()

    def test_it_is_kept(self):
        for place in ("a file", "a pipe", "a terminal"):
            for workers in (1, 2):
                with self.subTest(place=place, workers=workers):
                    code, shown = self.run_in(place, "-n", workers, "--", *worker("alternate"), self.COUNT)
                    self.assertEqual(code, 0, shown)
                    self.assertEqual(len(shown), workers * self.COUNT)
                    for rank in range(workers):
                        mine = [line for line in shown if line.startswith(f"rank {rank} ")]
                        self.assertEqual(mine, [f"rank {rank} line {i}" for i in range(self.COUNT)])

    def test_a_failure_is_still_explained(self):
        for place in ("a file", "a pipe", "a terminal"):
            with self.subTest(place=place):
                code, shown = self.run_in(place, "--", *worker("alternate"), 4, "fail")
                self.assertEqual(code, 1)
                self.assertEqual(shown[:4], [f"rank 0 line {i}" for i in range(4)])
                report = "\n".join(shown).partition("regroup: rank 0 on ")[2]
                self.assertIn("failed: ValueError: the loss is not a number\n", report)
                self.assertIn("    Traceback (most recent call last):\n", report)

    def test_without_a_traceback_the_last_lines_of_both_are_told(self):
        code, shown = self.run_in("a pipe", "--", "sh", "-c", "echo step 1; echo reason >&2; exit 3")
        self.assertEqual((code, shown[:2]), (3, ["step 1", "reason"]))
        self.assertIn("  the last it wrote:\n    step 1\n    reason", "\n".join(shown))

    def test_two_places_stay_two(self):
        code, out, err = self.spawn("--", *worker("alternate"), 4)
        self.assertEqual((code, out, err), (0, b"rank 0 line 0\nrank 0 line 2\n", b"rank 0 line 1\nrank 0 line 3\n"))


class Choices(OutputTest):
    """Who is shown where: torchrun's flags."""

    def words(self, text):
        return sorted(text.decode().splitlines())

    def test_prefixes(self):
        out, err = self.shell("echo a; echo b >&2", "-n", "2", "-t", "3", "--role", "trainer")
        self.assertEqual(self.words(out), ["[trainer0]:a", "[trainer1]:a"])
        self.assertEqual(self.words(err), ["[trainer0]:b", "[trainer1]:b"])
        out, err = self.shell("echo a; echo b >&2", "-n", "2")
        self.assertEqual((self.words(out), self.words(err)), (["a", "a"], ["b", "b"]))

    def test_a_template_with_everything(self):
        host = socket.gethostname().split(".")[0]
        template = "<${role_name},${role},${local_rank},${rank},${hostname},${host},${time},$$,${other}> "
        out, _ = self.shell("echo a", "-n", "2", "-t", "1", "--role", "it", "--log-line-prefix-template", template)
        time = r"\d\d:\d\d:\d\d\.\d{3}"
        for rank, line in enumerate(self.words(out)):
            self.assertRegex(line, f"^<it,it,{rank},{rank},{host},{host},{time},\\$,\\${{other}}> a$")
        with Spawn("-t", "1", "--", "echo", "a", text=False,
                   env={"TMPDIR": str(self.temporary),
                        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "${rank}|"}) as spawned:
            self.assertEqual(spawned.finish(), (0, b"0|a\n", b""))

    def test_filters_of_ranks(self):
        """Those who are left out are silent on the console, and have their files all the same."""
        for flag in ("--local-ranks-filter", "--ranks-filter"):
            with self.subTest(flag=flag):
                self.logs = self.folder / flag
                out, err = self.shell("echo a$RANK; echo b$RANK >&2", "-n", "5", "-t", "1", "--log-dir", self.logs,
                                      flag, "0,2-3")
                self.assertEqual(self.words(out), ["[default0]:a0", "[default2]:a2", "[default3]:a3"])
                self.assertEqual(self.words(err), ["b0", "b2", "b3"])
                self.assertEqual(self.files(), {f"{rank}/stdout.log": b"a%d\n" % rank for rank in range(5)})
        out, err = self.shell("echo a$RANK", "-n", "4", "--local-ranks-filter", "0,1", "--ranks-filter", "1,2")
        self.assertEqual(self.words(out), ["a1"])

    def test_duplicates(self):
        script = "echo one,two $RANK; echo three $RANK; echo one $RANK; echo four $RANK; echo three $RANK >&2"
        self.shell(script, "-n", "2", "-t", "3", "--log-dir", self.logs,
                   "--duplicate-stdout-filters", "one,,two,three", "--duplicate-stderr-filters", "four")
        files = self.files()
        self.assertEqual(self.words(files["filtered_stdout.log"]),
                         ["[default0]:one,two 0", "[default0]:three 0", "[default1]:one,two 1", "[default1]:three 1"])
        self.assertEqual(files["filtered_stderr.log"], b"")
        self.assertEqual(files["1/stdout.log"], b"one,two 1\nthree 1\none 1\nfour 1\n")

    def test_streams_by_rank(self):
        out, err = self.shell("echo a$RANK; echo b$RANK >&2", "-n", "3", "-r", "0:1,1:3", "--log-dir", self.logs)
        self.assertEqual((self.words(out), self.words(err)), (["a2"], ["b0", "b2"]))
        self.assertEqual(self.files(), {"0/stdout.log": b"a0\n", "1/stdout.log": b"a1\n", "1/stderr.log": b"b1\n"})

    def test_ranks_of_two_digits(self):
        for flag, shown in (("-r", []), ("-t", ["[default10]:a10"])):
            with self.subTest(flag=flag):
                self.logs = self.folder / flag
                out, _ = self.shell("echo a$RANK", "-n", "12", flag, "10:3", "--log-dir", self.logs)
                others = [f"a{rank}" for rank in range(12) if rank != 10]
                self.assertEqual(self.words(out), sorted(others + shown))
                self.assertEqual(self.files(), {"10/stdout.log": b"a10\n", "10/stderr.log": b""})


class Reports(OutputTest):
    """The reason is in the report, wherever the stream that told it went."""

    WAYS = {"teed": ("-t", "2"), "straight to a file": ("-r", "2"), "to the console": (),
            "to a file that rotates": ("-r", "2", "--log-max-bytes", "1MB"), "nowhere": ("--local-ranks-filter", "7")}

    def test_the_last_lines_of_stderr(self):
        script = "for i in 1 2 3; do echo reason $i of $RANK >&2; done; echo noise; printf 'the last one' >&2; exit 5"
        for way, flags in self.WAYS.items():
            with self.subTest(way=way):
                code, _, err = self.spawn("-n", "1", *flags, "--", "sh", "-c", script)
                self.assertEqual(code, 5)
                self.assertIn("  the last it wrote to stderr:\n    reason 1 of 0\n    reason 2 of 0\n"
                              "    reason 3 of 0\n    the last one\n", err.decode())

    def test_a_traceback(self):
        script = ("import sys\ndef step(): raise ValueError('boom')\n"
                  "try: step()\nfinally: print('tidy', file=sys.stderr)")
        for way, flags in self.WAYS.items():
            with self.subTest(way=way):
                code, _, err = self.spawn("-n", "1", *flags, "--", sys.executable, "-c", script)
                self.assertEqual(code, 1)
                report = err.decode().partition("regroup: rank 0 on ")[2]
                self.assertIn("failed: ValueError: boom\n", report)
                self.assertIn("    Traceback (most recent call last):\n", report)
                self.assertIn(", in step\n", report)

    def test_the_console_has_it_as_well_where_it_was_asked_for(self):
        for way, shown in (("teed", 2), ("straight to a file", 1), ("to the console", 2)):
            code, _, err = self.spawn("-n", "1", *self.WAYS[way], "--", "sh", "-c", "echo reason >&2; exit 5")
            self.assertEqual((code, err.count(b"reason")), (5, shown), way)


if __name__ == "__main__":
    unittest.main()
