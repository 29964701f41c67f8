"""`regroup spawn` as its users meet it: what it takes, what it refuses, what workers get, and how it exits."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from spawn_support import LIMIT_S, Spawn, children_of, name_of, spawn, until, worker
from store_support import BINARY, ROOT

RANK_VARIABLES = {"RANK", "LOCAL_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE", "GROUP_RANK",
                  "GROUP_WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
                  "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE"}


class WithFolder(unittest.TestCase):
    """With a directory for temporary files of its own, and one for everything else."""

    def setUp(self):
        self.temporary = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def spawn(self, *arguments, env=None, **popen):
        return spawn(*arguments, env={"TMPDIR": str(self.temporary), **(env or {})}, **popen)

    def assert_no_temporaries(self):
        self.assertEqual(list(self.temporary.iterdir()), [])


class BadInput(WithFolder):
    def assert_refused(self, *arguments, says, env=None):
        """One message, exit code 2, nothing started, nothing left."""
        with tempfile.TemporaryDirectory() as folder:
            with Spawn(*arguments, env={"TMPDIR": str(self.temporary), **(env or {})}, cwd=folder) as spawned:
                code, out, err = spawned.finish()
                self.assertEqual(spawned.alive(), [])
            self.assertEqual(os.listdir(folder), [], "something ran, or was left")
        self.assertEqual((code, out), (2, ""), err)
        self.assertTrue(err.startswith("regroup: ") and err.endswith("\n"), err)
        self.assertEqual(err.count("\n"), 1, err)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, err)
        self.assert_no_temporaries()

    def test_values_of_flags(self):
        """With and without the two dashes: what is wrong is the value, not the command behind it."""
        for flag, values in {
                "--nproc-per-node": ["0", "-3", "many", "1.5", "99999999999999999999", "5000"],
                "--redirects": ["4", "x", "0:9", "0:", ":1", "-1", "1,2", "a:1"],
                "--tee": ["4", "x", "0:9", "0:", ":1", "-1"],
                "--ranks-filter": ["a", "3-1", "-1", "1,,2", "1-", "0 1"],
                "--local-ranks-filter": ["a", "3-1", "-1", "1,,2", "1-"],
                "--cgroup": ["maybe", "", "ON"],
                "--log-keep": ["-1", "x", "1.5", "99999999"],
                "--log-max-bytes": ["x", "5XB", "-5", "1.2.3"],
                "--memory-limit": ["x", "5Q", "-5", "99999999EB"],
                "--shutdown-timeout": ["x", "-1", "inf", "nan", "1e10", "5x"]}.items():
            for value in values:
                for dashes in ([], ["--"]):
                    with self.subTest(flag=flag, value=value, dashes=dashes):
                        self.assert_refused(flag, value, *dashes, "touch", "ran", says=flag)

    def test_a_flag_without_its_value(self):
        for flag in ("-n", "--redirects", "--log-dir"):
            with self.subTest(flag):
                self.assert_refused(flag, says=[flag, "takes a value, but nothing follows it"])

    def test_an_empty_value_does_not_eat_the_command(self):
        """As `--log-dir=$UNSET command` gives."""
        for flags in (["--log-dir="], ["--ranks-filter="], ["--log-dir", ""]):
            self.assertEqual(spawn(*flags, "echo", "ran"), (0, "ran\n", ""))
        self.assert_refused("-n=", "touch", "ran", says="--nproc-per-node")

    def test_the_last_of_two_counts(self):
        code, out, err = spawn("--tee", "1", "--tee", "0", "echo", "ran")
        self.assertEqual((code, out), (0, "ran\n"), err)

    def test_a_flag_may_be_cut_short(self):
        code, out, err = spawn("--log-di=/dev/null", "--nproc=2", "echo", "ran")
        self.assertEqual((code, out), (0, "ran\nran\n"), err)
        self.assert_refused("--log=3", "touch", "ran", says=["--log-dir", "--log-keep"])

    def test_an_unknown_flag_with_what_may_be_meant(self):
        for typed, meant in {"--shutdown-timeot": "--shutdown-timeout", "--nproc-per-mode": "--nproc-per-node",
                             "--log_dri": "--log-dir", "--memory-limt": "--memory-limit"}.items():
            for command in (["touch", "ran"], ["--", "touch", "ran"]):
                with self.subTest(typed=typed, command=command):
                    self.assert_refused(f"{typed}=3", *command,
                                        says=[f"unknown flag '{typed}'; did you mean {meant}?",
                                              "See 'regroup spawn --help'."])
        self.assert_refused("-z", "touch", "ran", says="unknown flag '-z'")

    def test_no_command(self):
        for arguments in ([], ["--"], ["-n", "2"], ["-n", "2", "--"]):
            with self.subTest(arguments):
                self.assert_refused(*arguments, says=["no command to run", "regroup spawn -n 4 python train.py"])

    def test_a_program_that_cannot_be(self):
        plain = self.temporary / "plain"
        for name, says in {"no_such_program": ["'no_such_program': no such file in PATH", "Check the spelling"],
                           "./no_such_program": ["no such file, as seen from the working directory"],
                           "/no/such/program": ["'/no/such/program': no such file"],
                           str(plain): ["is not executable", "chmod +x"],
                           "/tmp": ["'/tmp' is a directory"],
                           "/dev/null": ["is not a regular file"],
                           "": ["cannot start ''"]}.items():
            for count in (1, 3):
                with self.subTest(program=name, count=count), contextlib.ExitStack() as undo:
                    if name == str(plain):
                        folder = undo.enter_context(tempfile.TemporaryDirectory())
                        plain = Path(folder, "plain")
                        plain.write_text("echo hi\n")
                        name = str(plain)
                    self.assert_refused("-n", count, "--", name, says=[*says, "rank 0 (local rank 0): cannot start"])

    def test_scripts_that_nothing_can_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, says in {"#!/no/such/python\n": "names the interpreter '/no/such/python'",
                               "#!/bin/sh\r\necho hi\r\n": "dos2unix"}.items():
                with self.subTest(text):
                    script = Path(folder, "script")
                    script.write_text(text)
                    script.chmod(0o755)
                    self.assert_refused(script, says=["cannot start", says])

    def test_a_log_directory_that_cannot_be(self):
        with tempfile.NamedTemporaryFile() as file:
            self.assert_refused("--log-dir", file.name, "touch", "ran",
                                says=[file.name, "it is a file, not a directory. Choose another --log-dir."])
            self.assert_refused("--log-dir", f"{file.name}/logs", "touch", "ran",
                                says=[f"{file.name}/logs", "Choose another --log-dir."])
        self.assert_refused("--log-dir", "/proc/logs", "touch", "ran", says="/proc/logs")

    def test_the_shutdown_timeout_of_the_environment(self):
        for value in ("abc", "", "-1", "nan", "inf", "5s"):
            with self.subTest(value):
                self.assert_refused("touch", "ran", env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": value},
                                    says=[f"TORCH_ELASTIC_SHUTDOWN_TIMEOUT is '{value}'", "--shutdown-timeout"])

    def test_the_flag_wins_over_a_wrong_environment(self):
        code, _, err = self.spawn("--shutdown-timeout", "5", "true", env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "abc"})
        self.assertEqual((code, err), (0, ""))

    def test_a_memory_limit_without_control_groups(self):
        self.assert_refused("--memory-limit", "64MB", "--cgroup", "off", "touch", "ran", says="control groups")


class Commands(WithFolder):
    def test_everything_behind_the_command_belongs_to_it(self):
        own = ["--tee", "-n", "5", "--", "a", "--help", "--no-such-flag", "-r3", "--", "", "a b"]
        for dashes in ([], ["--"]):
            with self.subTest(dashes):
                code, out, err = self.spawn(*dashes, sys.executable, "-c", "import sys; print(sys.argv[1:])", *own)
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(out, f"{own}\n")
        self.assert_no_temporaries()

    def test_a_command_may_begin_with_a_dash(self):
        code, _, err = self.spawn("--", "--no-such-program")
        self.assertEqual(code, 2)
        self.assertIn("cannot start '--no-such-program'", err)

    def test_the_command_of_another_command(self):
        """A worker that is itself a launcher with dashes of its own."""
        code, out, err = self.spawn("-n", "2", "--", BINARY, "spawn", "-n", "2", "--", "echo", "--", "hi")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, "-- hi\n" * 4)

    def test_dashes_and_underscores(self):
        logs = self.folder / "logs"
        for flags in (
                ["--nproc-per-node=2", "--rdzv-id=job", "--log-dir", logs, "--log-line-prefix-template", "<${rank}>",
                 "--local-ranks-filter", "0-1", "--ranks-filter=1", "--duplicate-stdout-filters=x",
                 "--duplicate-stderr-filters=y", "--shutdown-timeout=1", "--signals-to-handle=TERM", "--tee=3"],
                ["--nproc_per_node=2", "--rdzv_id=job", "--log_dir", logs, "--log_line_prefix_template", "<${rank}>",
                 "--local_ranks_filter", "0-1", "--ranks_filter=1", "--duplicate_stdout_filters=x",
                 "--duplicate_stderr_filters=y", "--shutdown_timeout=1", "--signals_to_handle=TERM", "-t", "3"]):
            with self.subTest(flags):
                code, out, err = self.spawn(*flags, "echo", "hi")
                self.assertEqual((code, out, err), (0, "<1>hi\n", ""))
        runs = list(logs.iterdir())
        self.assertEqual(len(runs), 2)
        for run in runs:
            self.assertTrue(run.name.startswith("job_"))
            for rank in "01":
                self.assertEqual((run / "attempt_0" / rank / "stdout.log").read_text(), "hi\n")

    def test_short_flags(self):
        for flags in (["-n", "2", "-r", "1"], ["-n2", "-r1"], ["-r", "0:1,1:1", "-n", "2"]):
            with self.subTest(flags):
                code, out, _ = self.spawn(*flags, "echo", "hi")
                self.assertEqual((code, out), (0, ""))

    def test_help_names_every_documented_flag(self):
        code, out, err = self.spawn("--help")
        self.assertEqual((code, err), (0, ""))
        text = (ROOT / "docs/cli.md").read_text().split("## regroup spawn")[1].split("\n## ")[0]
        flags = [line.split()[1].strip("`") for line in text.splitlines() if line.startswith("| `--")]
        self.assertGreater(len(flags), 15)
        for flag in flags:
            self.assertIn(flag, out)

    def test_verbose_says_when_they_run(self):
        for count, words in ((1, "1 worker started in"), (3, "3 workers started in")):
            code, _, err = self.spawn("-v", "-n", count, "true")
            self.assertEqual(code, 0)
            self.assertRegex(err, rf"^regroup: {words} \d+\.\d ms\n$")

    def test_success_leaves_no_word_and_no_file(self):
        for flags in ([], ["--tee", "3"], ["-r", "3"]):
            with self.subTest(flags):
                self.assertEqual(self.spawn("-n", "3", *flags, "true"), (0, "", ""))
                self.assert_no_temporaries()

    def test_a_start_that_fails_leaves_nothing_in_the_log_directory(self):
        logs = self.folder / "logs"
        logs.mkdir()
        self.assertEqual(self.spawn("--log-dir", logs, "--", "/no/such/program")[0], 2)
        self.assertEqual(list(logs.iterdir()), [])


class Surroundings(WithFolder):
    """What a worker is given."""

    def run_workers(self, *flags, env=None, then=(), **popen):
        """What each of them found."""
        with Spawn(*flags, "--", *worker("environment"), self.folder, *then,
                   env={"TMPDIR": str(self.temporary), **(env or {})}, **popen) as spawned:
            code, _, err = spawned.finish()
            self.assertEqual((code, err), (0, ""))
            self.given = spawned.env
        return [json.loads(file.read_text()) for file in sorted(self.folder.iterdir(), key=lambda f: int(f.name))]

    def test_the_environment_is_ours_and_the_ranks(self):
        odd = {"ODD": "a=b\nc\t'\"$x", "EMPTY": "", "UMLAUT": "ü", "RANK": "77", "MASTER_PORT": "1"}
        found = self.run_workers("-n", "3", "--role", "trainer", "--rdzv-id", "job", env=odd)
        self.assertEqual(len(found), 3)
        for rank, one in enumerate(found):
            environment = dict(one["environment"])
            error_file = environment.pop("TORCHELASTIC_ERROR_FILE")
            self.assertRegex(error_file, rf"^{self.temporary}/torchelastic_\w+/job_\w+/attempt_0/{rank}/error\.json$")
            # What dump_on_hang() needs.
            self.assertEqual(environment.pop("REGROUP_DUMP_FILE"), error_file.replace("error.json", "dump.txt"))
            self.assertEqual(environment.pop("REGROUP_DUMP_SIGNAL"), "44")
            self.assertRegex(environment.pop("REGROUP_GUARD"), "^[0-9a-f]{32}$")
            expected = {**self.given, "RANK": str(rank), "LOCAL_RANK": str(rank), "ROLE_RANK": str(rank),
                        "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "ROLE_WORLD_SIZE": "3", "GROUP_RANK": "0",
                        "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "trainer", "TORCHELASTIC_RUN_ID": "job",
                        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0"}
            self.assertEqual(environment, expected)
            self.assertEqual(set(one["environment"]) - set(self.given),
                             RANK_VARIABLES - {"RANK"} | {"REGROUP_DUMP_FILE", "REGROUP_DUMP_SIGNAL", "REGROUP_GUARD"})

    def test_the_error_file_is_in_the_log_directory(self):
        logs = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (found,) = self.run_workers("--log-dir", logs)
        error_file = Path(found["environment"]["TORCHELASTIC_ERROR_FILE"])
        self.assertEqual(error_file.parts[-3:], ("attempt_0", "0", "error.json"))
        self.assertIn(logs, error_file.parents)
        self.assertTrue(error_file.parent.is_dir())

    def test_a_relative_log_directory_is_told_whole(self):
        place = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (found,) = self.run_workers("--log-dir", "logs", cwd=place)
        self.assertIn(place / "logs", Path(found["environment"]["TORCHELASTIC_ERROR_FILE"]).parents)

    def test_without_files_there_is_no_error_file(self):
        (found,) = self.run_workers("--log-dir", "/dev/null")
        self.assertEqual(found["environment"]["TORCHELASTIC_ERROR_FILE"], "")
        self.assert_no_temporaries()

    def test_an_error_file_of_a_launcher_above_is_not_theirs(self):
        for flags in ([], ["--log-dir", "/dev/null"]):
            (found,) = self.run_workers(*flags, env={"TORCHELASTIC_ERROR_FILE": "/above/error.json"})
            self.assertNotEqual(found["environment"]["TORCHELASTIC_ERROR_FILE"], "/above/error.json")

    def test_a_run_s_name_cannot_lead_elsewhere(self):
        (found,) = self.run_workers("--rdzv-id", "../../a b/c")
        self.assertEqual(found["environment"]["TORCHELASTIC_RUN_ID"], "../../a b/c")
        error_file = Path(found["environment"]["TORCHELASTIC_ERROR_FILE"])
        self.assertEqual(Path(os.path.normpath(error_file)), error_file)
        self.assertIn(self.temporary, error_file.parents)

    def test_macros_in_arguments(self):
        found = self.run_workers("-n", "2", "--role", "eval", then=[
            "${local_rank}", "--gpu=$local_rank", "${rank}/x", "${role_name}", "$$", "$${rank}", "${nobody}", "100%",
            "$HOME", "${rank", "$"])
        for rank, one in enumerate(found):
            self.assertEqual(one["arguments"], [f"{rank}", f"--gpu={rank}", "${rank}/x", "${role_name}", "$", "${rank}",
                                                "${nobody}", "100%", "$HOME", "${rank", "$"])

    def test_the_directory_is_ours(self):
        place = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        for one in self.run_workers("-n", "2", cwd=place):
            self.assertEqual(one["directory"], str(place))

    def test_standard_input_is_ours(self):
        with tempfile.TemporaryFile("w+") as file:
            file.write("from our input\n")
            file.seek(0)
            code, out, _ = self.spawn("cat", stdin=file)
            self.assertEqual((code, out), (0, "from our input\n"))

    def test_no_other_descriptor(self):
        reader, writer = os.pipe()
        with open(reader), open(writer, "w"):
            # Beside the three there is only the one that it lists them with.
            code, out, err = self.spawn("--", sys.executable, "-c", "import os; print(os.listdir('/proc/self/fd'))",
                                        pass_fds=[reader, writer])
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(out, "['0', '1', '2', '3']\n")


class ExitCodes(WithFolder):
    def test_of_one_worker(self):
        for script, expected in {"exit 0": 0, "exit 1": 1, "exit 2": 2, "exit 42": 42, "exit 127": 127, "exit 143": 143,
                                 "exit 255": 255, "kill -KILL $$$$": 137, "kill -SEGV $$$$": 139,
                                 "kill -ABRT $$$$": 134, "kill -TERM $$$$": 143, "kill -INT $$$$": 130,
                                 "kill -USR1 $$$$": 138, "kill -RTMIN $$$$": 128 + signal.SIGRTMIN}.items():
            with self.subTest(script):
                code, _, err = self.spawn("--", "bash", "-c", script)
                self.assertEqual(code, expected, err)
                self.assertEqual(err == "", expected == 0, err)
                if expected > 0:
                    self.assertIn("regroup: rank 0 on ", err)
                    self.assertNotIn("logs:", err)  # There are none.

    def test_the_first_that_fails_counts(self):
        """The second fails with another code when it is stopped because of the first."""
        ready = self.folder / "ready"
        script = (f"if [ $RANK = 1 ]; then until [ -e {ready} ]; do sleep 0.01; done; exit 7; fi; "
                  f"trap 'exit 9' TERM; touch {ready}; while :; do sleep 0.01; done")
        code, _, err = self.spawn("-n", "2", "--", "sh", "-c", script)
        self.assertEqual(code, 7, err)
        self.assertIn("regroup: rank 1 on ", err)
        self.assertIn("failed: ended with exit code 7\n", err)
        self.assertIn("rank 0: stopped because of it\n", err)

    def test_a_success_among_failures_is_none(self):
        code, _, err = self.spawn("-n", "3", "--", "sh", "-c", "exit $((LOCAL_RANK == 2 ? 5 : 0))")
        self.assertEqual(code, 5, err)
        self.assertIn("regroup: rank 2 on ", err)

    def test_after_a_signal_to_the_launcher(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            for script in ("echo ready; exec sleep 1000",
                           "trap 'exit 3' TERM INT HUP QUIT; echo ready; while :; do sleep 0.01; done"):
                with (self.subTest(signal=number.name, script=script),
                      Spawn("--", "sh", "-c", script, env={"TMPDIR": str(self.temporary)}) as spawned):
                    self.assertEqual(spawned.process.stdout.readline(), "ready\n")
                    os.kill(spawned.pid, number)
                    code, _, err = spawned.finish()
                    self.assertEqual(code, 128 + number, err)
                    self.assertNotIn("failed:", err)

    def test_what_a_signal_leaves_in_the_temporary_directory_is_named(self):
        with Spawn("-r", "1", "--", "sh", "-c", "echo ready >&2; exec sleep 1000",
                   env={"TMPDIR": str(self.temporary)}) as spawned:
            self.assertEqual(spawned.process.stderr.readline(), "ready\n")
            os.kill(spawned.pid, signal.SIGTERM)
            _, _, err = spawned.finish()
        for left in self.temporary.iterdir():
            self.assertIn(str(left), err)

    def test_a_console_that_is_gone_is_no_failure_of_workers(self):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w") as gone:
            code, _, err = self.spawn("--tee", "1", "--", "sh", "-c", "echo hi; exit 6", stdout=gone)
        self.assertEqual(code, 6, err)

    def test_it_has_one_child_more_than_workers(self):
        """The guard."""
        with Spawn("-n", "2", "--", "sh", "-c", "echo ready; exec sleep 1000",
                   env={"TMPDIR": str(self.temporary)}) as spawned:
            for _ in range(2):
                self.assertEqual(spawned.process.stdout.readline(), "ready\n")
            self.assertEqual(until(lambda: sorted(map(name_of, children_of(spawned.pid)))
                                   == ["regroup-guard", "sleep", "sleep"]), True)
            os.kill(spawned.pid, signal.SIGTERM)
            self.assertEqual(spawned.finish()[0], 143)

    def test_the_run_is_over_though_nobody_reads_its_output(self):
        process = subprocess.Popen([BINARY, "spawn", "-n", "2", "--tee", "3", "--", "sh", "-c", "echo hi; exit 4"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "TMPDIR": str(self.temporary)})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.wait(LIMIT_S), 4)


if __name__ == "__main__":
    unittest.main()
