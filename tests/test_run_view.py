"""What `regroup run` shows: on a terminal, in a pipe, and to programs."""

import json
import re
import signal
import subprocess
import sys
import unittest
from datetime import datetime, timedelta, timezone

from run_support import LIMIT_S, Run, reserved_port, until
from store_support import BINARY
from terminal_support import TerminalRun, screen
from test_run import RunTest

RED, DIM, PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"
COLOUR = r"\x1b\[\d*m"
LIVE = r"\rregroup: waiting for nodes: 1 of 2 here, (\d+) s; (\d+) s left\x1b\[K"


class ViewTest(RunTest):
    def terminal(self, *arguments, env=None, columns=100):
        return self.enter(TerminalRun(*arguments, env={"TMPDIR": str(self.temporary), **(env or {})},
                                      columns=columns))

    def lonely(self, *flags, **more):
        """A node whose run needs another one."""
        return self.terminal("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id",
                             "job", *flags, *self.crew.command(), **more)

    def shell(self, text):
        return ["--no-python", "/bin/sh", "-c", text]


class Terminal(ViewTest):
    def test_a_wait_is_counted(self):
        run = self.lonely()
        first = run.until(LIVE)
        until(lambda: len({found[0] for found in re.findall(LIVE, run.text)}) > 2)
        counts = [(int(so_far), int(left)) for so_far, left in re.findall(LIVE, run.text)]
        self.assertGreater(len(set(counts)), 2, run.text)
        self.assertEqual(sorted(counts), counts)
        self.assertLessEqual(max(so_far + left for so_far, left in counts), 601)
        run.signal(signal.SIGINT)
        code, text = run.finish()
        self.assertEqual(code, 130, text)
        self.assertNotIn("waiting for nodes", "\n".join(screen(text)))
        self.assertIn("regroup: SIGINT", "\n".join(screen(text)))
        self.assertLess(first.start(), text.index("SIGINT"))

    def test_a_wait_for_the_store(self):
        run = self.node_on_terminal("B")
        run.until(r"\rregroup: waiting for the store at 127\.0\.0\.1:\d+, \d+ s; \d+ s left\x1b\[K")
        run.signal(signal.SIGINT)
        code, text = run.finish()
        self.assertEqual(code, 130, text)

    def node_on_terminal(self, name):
        self.port = self.port or self.undo.enter_context(reserved_port())
        return self.terminal("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}",
                             "--rdzv-id", "job", "--rdzv-conf", f"is_host={str(name == 'A').lower()}",
                             *self.crew.command(), env={"TEST_NODE": name})

    def test_nodes_that_are_done_wait_for_the_others(self):
        a, b = self.node_on_terminal("A"), self.node("B", host=False)
        workers = {one.node: one for one in self.crew.complete(2)}
        a.until(r"regroup: round 0: node [01] of 2, 1 of 2 workers, met in [\d.]+ ms\r\n")
        self.crew.order(0, to=workers["A"])
        a.until(r"\rregroup: done here; waiting for the other nodes, \d+ s; \d+ s left\x1b\[K")
        self.crew.order(0)
        code, text = a.finish()
        self.assertEqual(code, 0, text)
        self.assertEqual(screen(text)[-1], "regroup: done: every worker of this node has succeeded")
        self.assert_success(b)

    def test_it_is_cut_to_the_window(self):
        run = self.lonely(columns=20)
        run.until(r"\rregroup: waiting fo\x1b\[K")
        run.signal(signal.SIGINT)
        run.finish()

    def test_what_goes_well_is_told_too(self):
        run = self.terminal("-n", "2", *self.shell("echo hello"))
        code, text = run.finish()
        self.assertEqual(code, 0, text)
        lines = screen(text)
        self.assertRegex(lines[0], r"^regroup: round 0: this node alone, 2 workers, met in [\d.]+ ms$")
        self.assertEqual(sum(bool(re.match(r"regroup: 2 workers up in [\d.]+ ms$", line)) for line in lines), 1, lines)
        self.assertEqual(lines.count("hello"), 2)
        self.assertEqual(lines[-1], "regroup: done: every worker of this node has succeeded")
        self.assertEqual(len(lines), 5, lines)
        self.assertNotRegex(text, COLOUR)  # Nothing is wrong.

    def test_workers_lines_stay_whole(self):
        """Somebody writes while the live line is there."""
        run = self.terminal("--shutdown-timeout", "1000", *self.shell(
            'trap "" TERM; i=0; while [ ! -e "$0/end" ]; do i=$((i+1)); echo "line $i of a worker"; sleep 0.1; done',
        ), self.crew.folder)
        run.until("line 3 of a worker\r\n")
        run.signal(signal.SIGTERM)
        live = r"\rregroup: stopping the workers, \d+ s; \d+ s left\x1b\[K"
        until(lambda: len(re.findall(live, run.text)) > 2)
        self.assertGreater(len(re.findall(live, run.text)), 2)
        (self.crew.folder / "end").touch()
        code, text = run.finish()
        self.assertEqual(code, 143, text)
        lines = [line for line in screen(text) if not line.startswith("regroup: ")]
        self.assertGreater(len(lines), 3)
        self.assertEqual(lines, [f"line {i + 1} of a worker" for i in range(len(lines))])
        self.assertNotIn("stopping the workers,", "\n".join(screen(text)))

    def test_the_cause_is_red_and_hints_are_dim(self):
        code, text = self.terminal(*self.shell("exit 127")).finish()
        self.assertEqual(code, 127, text)
        self.assertRegex(text, re.escape(RED) + r"regroup: rank 0 on \S+ failed: ended with exit code 127" +
                         re.escape(PLAIN))
        self.assertRegex(text, re.escape(DIM) + r"  what to try: .*PATH.*" + re.escape(PLAIN))

    def test_a_restart_says_why(self):
        self.crew.order(3, to="restart0")
        self.crew.order(0, to="restart1")
        code, text = self.terminal("--max-restarts", "2", *self.crew.command()).finish()
        self.assertEqual(code, 0, text)
        lines = screen(text)
        self.assertRegex("\n".join(lines), r"regroup: rank 0 on \S+ failed: ended with exit code 3; restart 1 of 2\n")
        self.assertEqual(lines[-1], "regroup: done: every worker of this node has succeeded, after 1 restart")

    def test_without_colours(self):
        for name, flags, env in (("NO_COLOR", (), {"NO_COLOR": "1"}), ("--color", ("--color", "never"), {})):
            with self.subTest(name):
                code, text = self.terminal(*flags, *self.shell("exit 127"), env=env).finish()
                self.assertEqual(code, 127, text)
                self.assertNotRegex(text, COLOUR)
                self.assertIn("regroup: 1 worker up in ", text)

    def test_the_live_line_needs_no_colours(self):
        run = self.lonely(env={"NO_COLOR": "1"})
        run.until(LIVE)
        run.signal(signal.SIGINT)
        run.finish()

    def test_a_terminal_that_knows_nothing_is_like_a_file(self):
        run = self.lonely(env={"TERM": "dumb"})
        run.until("regroup: round 0: 1 of 2 nodes joined; gives up in .*\r\n")
        run.signal(signal.SIGINT)
        _, text = run.finish()
        self.assertNotIn("\x1b", text)

    def test_quiet_is_quiet(self):
        code, text = self.terminal("-q", *self.shell("echo hello")).finish()
        self.assertEqual((code, text), (0, "hello\r\n"))


class Pipe(ViewTest):
    def test_nothing_is_told_of_what_goes_well(self):
        code, out, err = self.run_alone(*self.shell("echo hello")).finish()
        self.assertEqual((code, out, err), (0, "hello", ""))

    def test_colours_on_demand(self):
        code, _, err = self.run_alone("--color", "always", *self.shell("exit 3")).finish()
        self.assertEqual(code, 3)
        self.assertTrue(err.startswith(RED + "regroup: rank 0 on "), err)

    def test_no_colours_otherwise(self):
        code, _, err = self.run_alone(*self.shell("exit 3")).finish()
        self.assertEqual(code, 3)
        self.assertTrue(err.startswith("regroup: rank 0 on "), err)
        self.assertNotIn("\x1b", err)

    def test_torchrun_s_layout(self):
        code, _, err = self.run_alone("-n", "2", "--report", "torchrun", *self.shell("exit 3")).finish()
        self.assertEqual(code, 3, err)
        self.assertRegex(err, r"ChildFailedError: \n={60}\n/bin/sh FAILED\n-{60}\nFailures:\n")
        self.assertRegex(err, r"Root Cause \(first observed failure\):\n\[[01]\]:\n  time      : \d{4}-")
        self.assertNotIn("regroup:", err)


class Advice(ViewTest):
    def test_a_missing_module_names_the_interpreter(self):
        script = self.temporary / "a.py"
        script.write_text("import no_such_module_anywhere\n")
        code, _, err = self.run_alone(script).finish()
        self.assertEqual(code, 1, err)
        self.assertIn(f"\n  what to try: the workers ran with {sys.executable}: install 'no_such_module_anywhere' "
                      "there, or choose another interpreter (--python)", err)

    def test_a_missing_script_names_the_directory(self):
        code, _, err = self.run_alone("no_such_script.py", cwd=self.temporary).finish()
        self.assertEqual(code, 2, err)
        self.assertIn(f"\n  what to try: the path of the script: it is looked for from {self.temporary}", err)

    def test_without_evidence_there_is_none(self):
        code, _, err = self.run_alone(*self.shell("exit 3")).finish()
        self.assertEqual(code, 3, err)
        self.assertNotIn("what to try", err)


class Json(ViewTest):
    def objects(self, err):
        """Every line is one; their times are those of now."""
        found = [json.loads(line) for line in err.splitlines()]
        for one in found:
            self.assertEqual(list(one)[:4], ["time", "level", "event", "text"])
            self.assertRegex(one["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
            when = datetime.fromisoformat(one["time"])
            self.assertLess(abs(datetime.now(timezone.utc) - when), timedelta(hours=1))
            self.assertIn(one["level"], ("info", "warning", "error"))
        return found

    def events(self, err):
        return {one["event"]: one for one in self.objects(err)}

    def json_run(self, *arguments, without=None):
        run = Run("--log-format", "json", *arguments, env={"TMPDIR": str(self.temporary)})
        run.env.pop(without, None)
        return self.enter(run).finish()

    def test_of_a_success(self):
        code, out, err = self.json_run("-n", "2", *self.shell("echo hello"))
        self.assertEqual((code, out), (0, "hello\nhello"), err)
        found = self.objects(err)
        self.assertEqual([one["event"] for one in found], ["joined", "started", "ended"])
        joined = self.events(err)["joined"]
        self.assertEqual({name: joined[name] for name in ("round", "group_rank", "group_world_size", "world_size",
                                                          "local_world_size")},
                         {"round": 0, "group_rank": 0, "group_world_size": 1, "world_size": 2, "local_world_size": 2})
        self.assertGreater(joined["took_ms"], 0)
        self.assertEqual(self.events(err)["ended"]["ending"], "succeeded")

    def test_of_a_failure(self):
        script = self.temporary / "a.py"
        script.write_text("import sys\nprint('last words', file=sys.stderr)\nraise KeyError('x')\n")
        code, _, err = self.json_run("--max-restarts", "1", "-r", "3", script)
        self.assertEqual(code, 1, err)
        found = self.objects(err)
        failed = [one for one in found if one["event"] == "failed"]
        self.assertEqual([one.get("restart") for one in failed], [1, None])
        self.assertEqual([one["level"] for one in failed], ["warning", "error"])
        ended = found[-1]
        self.assertEqual((ended["event"], ended["level"], ended["ending"], ended["restarts"]),
                         ("ended", "error", "failed", 1))
        failure = ended["failure"]
        self.assertEqual((failure["rank"], failure["exit_code"], failure["signal"], failure["message"]),
                         (0, 1, None, "KeyError: 'x'"))
        self.assertIn("raise KeyError('x')\n", failure["traceback"])
        self.assertIsInstance(failure["evidence"], list)
        self.assertIn("KeyError: 'x'", ended["report"])
        self.assertTrue(ended["logs"].startswith(str(self.temporary)))

    def test_of_a_signal(self):
        code, _, err = self.json_run(*self.shell("kill -9 $$$$"))
        self.assertEqual(code, 137, err)
        failure = self.events(err)["ended"]["failure"]
        self.assertEqual((failure["exit_code"], failure["signal"]), (-9, "SIGKILL"))

    def test_of_a_wait(self):
        run = self.node("A", "--log-format", "json")
        run.err.until('"event": "waiting", "text": "round 0: 1 of 2 nodes joined; ')
        run.signal(signal.SIGTERM)
        code, _, err = run.finish()
        self.assertEqual(code, 143, err)
        self.assertEqual(self.objects(err)[-1]["ending"], "signalled")

    def test_of_nodes_that_do_not_meet(self):
        code, _, err = self.node("A", "--log-format", "json", conf="join_timeout=1").finish()
        self.assertEqual(code, 71, err)
        ended = self.objects(err)[-1]
        self.assertEqual(ended["ending"], "could_not_join")
        self.assertIn("join_timeout", ended["text"])

    def test_warnings_are_objects_too(self):
        code, _, err = self.json_run(
            "-n", "2", "--signals-to-handle", "SIGTERM,SIGNONE", "--rdzv-backend", "c10d", "--rdzv-endpoint",
            "localhost:0", "--rdzv-conf", "no_such_key=1", *self.shell("true"), without="OMP_NUM_THREADS")
        self.assertEqual(code, 0, err)
        warnings = "\n".join(one["text"] for one in self.objects(err) if one["level"] == "warning")
        for part in ("SIGNONE", "OMP_NUM_THREADS is not set", "no_such_key"):
            self.assertIn(part, warnings)

    def test_wrong_flags(self):
        for flags in (["--no-such-flag"], ["--nnodes", "x"], ["--python", "/no/such/python"], ["--max-restarts"]):
            with self.subTest(flags):
                code, out, err = self.json_run(*flags, *self.crew.command())
                self.assertEqual((code, out), (2, ""), err)
                (error,) = self.objects(err)
                self.assertEqual((error["level"], error["event"]), ("error", "error"))

    def test_quiet_is_quiet(self):
        code, _, err = self.json_run("-q", *self.shell("true"))
        self.assertEqual((code, err), (0, ""))

    def test_torchrun_s_report_is_a_text_in_it(self):
        code, _, err = self.json_run("--report", "torchrun", *self.shell("exit 3"))
        self.assertEqual(code, 3, err)
        self.assertIn("\n/bin/sh FAILED\n", self.objects(err)[-1]["report"])

    def test_on_a_terminal(self):
        code, text = self.terminal("--log-format", "json", "--color", "always", *self.shell("exit 3")).finish()
        self.assertEqual(code, 3)
        self.assertEqual(self.objects(text)[-1]["ending"], "failed")


class Flags(ViewTest):
    def test_values_that_there_are_not(self):
        for flag in ("--color", "--log-format", "--report"):
            with self.subTest(flag):
                code, _, err = self.run_alone(flag, "no", *self.crew.command()).finish()
                self.assertEqual(code, 2)
                self.assertIn(f"{flag} is 'no'; it takes ", err)

    def test_completion_knows_the_values(self):
        script = ('source <("$1" run --print-completion bash); '
                  'complete_() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _regroup; '
                  'echo "${COMPREPLY[*]-}"; }; complete_ regroup run --log-format j; complete_ regroup run --color n; '
                  'complete_ regroup run --report ""')
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", BINARY], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.stdout.splitlines(), done.stderr), (["json", "never", "regroup torchrun"], ""))


if __name__ == "__main__":
    unittest.main()
