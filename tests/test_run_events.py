"""The events and metrics of `regroup run`: torchrun's names, states and keys, in every story a run may have."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from run_support import LIMIT_S, until
from store_support import BINARY
from test_run import RunTest

PREFIX = "torchelastic.worker.status."
KEYS = ["run_id", "global_rank", "group_rank", "worker_id", "role", "hostname", "state", "total_run_time",
        "rdzv_backend", "raw_error", "metadata", "agent_restarts", "duration_ms"]
INNER = ["group_world_size", "entry_point"]
INNER_OF_WORKERS = [*INNER, "local_rank", "role_rank", "role_world_size", "exit_code", "worker_pid"]
METRICS_OF_THE_END = ["flakiness", "run_total", "run_success_with_retries", "run_success_no_retries",
                      "run_failed_with_retries", "run_failed_no_retries"]


class EventsTest(RunTest):
    def setUp(self):
        super().setUp()
        self.log = self.temporary / "events.jsonl"
        self.metrics_log = self.temporary / "metrics.jsonl"
        self.flags = ["--event-log", self.log, "--metrics-log", self.metrics_log]
        self.began = time.time()

    def events(self, text=None):
        """All of them, each checked for its form. The inner metadata is decoded."""
        found = []
        for line in (self.log.read_text() if text is None else text).splitlines():
            event = json.loads(line)
            self.assertEqual(list(event), ["name", "source", "timestamp", "metadata"])
            data = event["metadata"]
            self.assertEqual(list(data), KEYS)
            self.assertEqual(event["name"], PREFIX + data["state"])
            self.assertLess(abs(event["timestamp"] / 1000 - self.began), 3600)
            self.assertIsInstance(event["timestamp"], int)
            self.assertIsInstance(data["total_run_time"], int)
            self.assertEqual(data["duration_ms"] is not None, data["state"] in ("RENDEZVOUS", "ASSIGN_WORKER_RANKS"))
            data["metadata"] = inner = json.loads(data["metadata"])
            if event["source"] == "WORKER":
                self.assertEqual(list(inner), INNER_OF_WORKERS)
                self.assertGreater(int(data["worker_id"]), 1)
                for name in INNER_OF_WORKERS[2:]:
                    self.assertEqual(len(inner[name]), 1)
            else:
                self.assertEqual(event["source"], "AGENT")
                self.assertEqual(list(inner), INNER)
                self.assertIsNone(data["global_rank"])
                self.assertIsNone(data["worker_id"])
            found.append(event)
        return found

    @staticmethod
    def in_short(events):
        return [" ".join(filter(None, [event["source"], event["metadata"]["state"],
                                       str(event["metadata"]["global_rank"])
                                       if event["source"] == "WORKER" else ""])) for event in events]

    def metrics(self):
        """(name, value) of torchrun's, and of ours, in their order."""
        theirs, ours = [], []
        for line in self.metrics_log.read_text().splitlines():
            metric = json.loads(line)
            self.assertEqual(list(metric), ["timestamp", "group_name", "name", "value"])
            self.assertLess(abs(metric["timestamp"] - self.began), 3600)
            self.assertIsInstance(metric["value"], int)
            self.assertIn(metric["group_name"], ("torchelastic", "regroup"))
            (ours if metric["group_name"] == "regroup" else theirs).append((metric["name"], metric["value"]))
        return theirs, ours

    def assert_outcome(self, outcome, flakiness, role="default"):
        values = dict(self.metrics()[0])
        expected = {name: 0 for name in METRICS_OF_THE_END} | {"run_total": 1, outcome: 1, "flakiness": flakiness}
        self.assertEqual({name: values.get(f"workers.{role}.{name}") for name in METRICS_OF_THE_END}, expected)


class Rendezvous(EventsTest):
    KEYS = ["name", "run_id", "message", "hostname", "pid", "node_state", "master_endpoint", "rank", "local_id",
            "error_trace"]

    def steps(self, *flags):
        log = self.temporary / "steps.jsonl"
        run = self.run_alone("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", "job-7",
                             "--rdzv-event-log", log, *flags, "--no-python", "true")
        code = run.finish()[0]
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        for step in steps:
            self.assertEqual(list(step), self.KEYS)
            self.assertEqual((step["run_id"], step["pid"]), ("job-7", run.pid))
        return code, steps

    def test_the_steps_with_a_session(self):
        code, steps = self.steps()
        self.assertEqual(code, 0)
        self.assertEqual([(step["name"].split(":")[1].split(".")[-1], step["node_state"], step["rank"])
                          for step in steps],
                         [("_create_tcp_store", "INIT", None), ("next_rendezvous", "RUNNING", None),
                          ("next_rendezvous", "RUNNING", 0), ("_close", "SUCCEEDED", None)])

    def test_a_join_that_fails(self):
        code, steps = self.steps("--nnodes", "2", "--rdzv-conf", "join_timeout=1")
        self.assertEqual(code, 71)
        self.assertEqual(steps[-1]["node_state"], "FAILED")
        self.assertTrue(steps[-1]["message"].startswith("RendezvousTimeoutError: the nodes did not meet within 1 s"))

    def test_every_step_is_a_line_if_people_want_them(self):
        for level, lines in (("WARNING", []), ("INFO", ["attempts to join"]),
                             ("DEBUG", ["attempts to join", "added itself to the participants of round 0", "as complete",
                                        "has joined round 0", "has closed"])):
            _, _, err = self.run_alone("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-conf",
                                       "session=false", "--no-python", "true", env={"LOGLEVEL": level}).finish()
            for line in lines:
                self.assertIn(line, err, level)
            if not lines:
                self.assertEqual(err, "")


class OneNode(EventsTest):
    def test_a_function_is_the_entry_point_where_torchrun_has_one(self):
        self.crew.order(0)
        run = self.run_alone("--run-path", *self.flags, *self.crew.command())
        self.assertEqual(run.finish()[0], 0)
        self.assertEqual({event["metadata"]["metadata"]["entry_point"] for event in self.events()},
                         {"run_script_path"})

    def test_a_run_that_succeeds(self):
        self.crew.order(0)
        run = self.run_alone("-n", "2", "--role", "trainer", *self.flags, *self.crew.command())
        self.assertEqual(run.finish(), (0, "", ""))
        events = self.events()
        self.assertEqual(self.in_short(events),
                         ["AGENT RENDEZVOUS", "AGENT ASSIGN_WORKER_RANKS", "WORKER START 0", "WORKER START 1",
                          "WORKER SUCCEEDED 0", "WORKER SUCCEEDED 1", "AGENT SUCCEEDED"])
        pids = {one.rank: str(one.pid) for one in self.crew.starts()}
        (run_id,) = {one["TORCHELASTIC_RUN_ID"] for one in self.crew.starts()}
        for event in events:
            data = event["metadata"]
            self.assertEqual(data["run_id"], run_id)
            self.assertEqual(data["role"], "trainer")
            self.assertEqual(data["hostname"], os.uname().nodename)
            self.assertEqual(data["rdzv_backend"], "c10d")
            self.assertIsNone(data["raw_error"])
            self.assertEqual(data["agent_restarts"], 0)
            self.assertEqual(data["metadata"]["entry_point"], os.path.basename(sys.executable))
            if event["source"] == "WORKER":
                rank = data["global_rank"]
                self.assertEqual(data["worker_id"], pids[rank])
                self.assertEqual(data["metadata"], {"group_world_size": 1, "local_rank": [rank], "role_rank": [rank],
                                                    "role_world_size": [2], "exit_code": [None],
                                                    "worker_pid": [None],
                                                    "entry_point": os.path.basename(sys.executable)})
        ranks = [event["metadata"]["group_rank"] for event in events]
        self.assertEqual(ranks, [None, None, 0, 0, 0, 0, 0])
        self.assert_outcome("run_success_no_retries", 0, role="trainer")
        theirs, ours = self.metrics()
        names = [name for name, _ in theirs]
        for call in ("SimpleElasticAgent.run", "SimpleElasticAgent._rendezvous", "SimpleElasticAgent._initialize_workers",
                     "SimpleElasticAgent._assign_worker_ranks", "LocalElasticAgent._start_workers"):
            self.assertEqual(names.count(f"{call}.success"), 1)
            self.assertEqual(names.count(f"{call}.duration.ms"), 1)
            self.assertNotIn(f"{call}.failure", names)
        self.assertIn(("workers.trainer.healthy", 1), theirs)
        self.assertIn(("workers.trainer.succeeded", 1), theirs)
        self.assertEqual([name for name, _ in ours],
                         ["phase.rendezvous.ms", "phase.start.ms", "phase.run.ms", "phase.exit_barrier.ms"])

    def test_a_run_that_fails_names_everybody(self):
        run = self.run_alone("-n", "3", *self.flags, *self.crew.command())
        workers = self.crew.complete(3)
        self.crew.order(7, to=workers[1])
        self.assertEqual(run.finish()[0], 7)
        events = self.events()
        self.assertEqual(self.in_short(events)[5:],
                         ["WORKER FAILED 0", "WORKER FAILED 1", "WORKER FAILED 2", "AGENT SUCCEEDED"])
        told = {event["metadata"]["global_rank"]: event["metadata"] for event in events[5:8]}
        for rank, code in ((0, 143), (1, 7), (2, 143)):
            self.assertEqual(told[rank]["metadata"]["exit_code"], [code])
            self.assertEqual(told[rank]["metadata"]["worker_pid"], [workers[rank].pid])
            self.assertEqual(json.loads(told[rank]["raw_error"]),
                             {"message": "<NONE>", "errorTraits": {"category": "system_terminated_error",
                                                                   "retryability": "False"}})
        self.assert_outcome("run_failed_no_retries", 100)
        theirs, ours = self.metrics()
        self.assertIn(("workers.default.failed", 1), theirs)
        self.assertIn(("LocalElasticAgent._stop_workers.success", 1), theirs)
        self.assertIn("phase.stop.ms", dict(ours))

    def test_one_who_had_ended_well_was_terminated(self):
        run = self.run_alone("-n", "2", *self.flags, *self.crew.command())
        workers = self.crew.complete(2)
        self.crew.order(0, to=workers[0])
        self.assertTrue(until(lambda: not workers[0].lives()))
        self.crew.order(7, to=workers[1])
        self.assertEqual(run.finish()[0], 7)
        self.assertEqual(self.in_short(self.events())[4:],
                         ["WORKER TERMINATED 0", "WORKER FAILED 1", "AGENT SUCCEEDED"])

    def test_the_error_file_is_told_as_it_was_written(self):
        said = {"message": {"message": "ValueError: \u00fcber\nall", "extraInfo": {"py_callstack": "Traceback\n",
                                                                             "timestamp": "1794726077"}}}
        script = self.temporary / "worker.py"
        script.write_text(textwrap.dedent(f"""
            import json, os, sys
            with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
                json.dump({said!r}, file)
            sys.exit(1)
            """))
        self.assertEqual(self.run_alone(*self.flags, script).finish()[0], 1)
        (failed,) = [event for event in self.events() if event["metadata"]["state"] == "FAILED"]
        self.assertEqual(json.loads(failed["metadata"]["raw_error"]), said)
        self.assertTrue(self.log.read_text().isascii())

    def test_a_restart(self):
        self.crew.order(5, to="restart0")
        self.crew.order(0, to="restart1")
        run = self.run_alone("--max-restarts", "3", *self.flags, *self.crew.command())
        self.assertEqual(run.finish()[0], 0)
        events = self.events()
        once = ["AGENT RENDEZVOUS", "AGENT ASSIGN_WORKER_RANKS", "WORKER START 0"]
        self.assertEqual(self.in_short(events), [*once, *once, "WORKER SUCCEEDED 0", "AGENT SUCCEEDED"])
        self.assertEqual([event["metadata"]["agent_restarts"] for event in events], [0, 0, 0, 1, 1, 1, 1, 1])
        self.assertEqual([event["metadata"]["group_rank"] for event in events], [None, None, 0, 0, 0, 0, 0, 0])
        self.assertEqual([event["metadata"]["worker_id"] for event in events if event["metadata"]["state"] == "START"],
                         [str(one.pid) for one in self.crew.starts()])
        self.assert_outcome("run_success_with_retries", 25)
        theirs, _ = self.metrics()
        self.assertEqual([value for name, value in theirs if name == "workers.default.remaining_restarts"],
                         [3, 3, 2, 2])
        names = [name for name, _ in theirs]
        self.assertEqual(names.count("SimpleElasticAgent._restart_workers.success"), 1)
        self.assertEqual(names.count("SimpleElasticAgent._initialize_workers.success"), 2)

    def test_a_spent_budget(self):
        self.crew.order(5)
        run = self.run_alone("--max-restarts", "1", *self.flags, *self.crew.command())
        self.assertEqual(run.finish()[0], 5)
        self.assertEqual(self.in_short(self.events())[-2:], ["WORKER FAILED 0", "AGENT SUCCEEDED"])
        self.assert_outcome("run_failed_with_retries", 100)

    def test_a_signal(self):
        run = self.run_alone("-n", "2", *self.flags, *self.crew.command())
        self.crew.complete(2)
        run.signal(signal.SIGTERM)
        self.assertEqual(run.finish()[0], 128 + signal.SIGTERM)
        events = self.events()
        self.assertEqual(self.in_short(events)[4:], ["AGENT FAILED"])
        self.assertIn("SIGTERM", events[-1]["metadata"]["raw_error"])
        theirs, ours = self.metrics()
        self.assertIn(("SimpleElasticAgent.run.failure", 1), theirs)
        self.assertNotIn("workers.default.run_total", dict(theirs))
        self.assertIn("phase.stop.ms", dict(ours))

    def test_a_program_that_cannot_be_started(self):
        run = self.run_alone(*self.flags, "--no-python", "/nowhere/program")
        self.assertEqual(run.finish()[0], 72)
        events = self.events()
        self.assertEqual(self.in_short(events), ["AGENT RENDEZVOUS", "AGENT ASSIGN_WORKER_RANKS", "AGENT FAILED"])
        self.assertIn("/nowhere/program", events[-1]["metadata"]["raw_error"])
        self.assertIn(("LocalElasticAgent._start_workers.failure", 1), self.metrics()[0])

    def test_a_second_run_appends(self):
        self.crew.order(0)
        for _ in range(2):
            self.assert_success(self.run_alone(*self.flags, *self.crew.command()))
        self.assertEqual(self.in_short(self.events()).count("AGENT SUCCEEDED"), 2)


class Console(EventsTest):
    def test_prints_every_event_as_a_line(self):
        self.crew.order(0)
        for how, env in ((["--event-log-handler", "console"], {}), ([], {"PET_EVENT_LOG_HANDLER": "console"})):
            code, out, err = self.run_alone(*how, *self.crew.command(), env=env).finish()
            self.assertEqual((code, out), (0, ""))
            self.assertEqual(self.in_short(self.events(err)),
                             ["AGENT RENDEZVOUS", "AGENT ASSIGN_WORKER_RANKS", "WORKER START 0", "WORKER SUCCEEDED 0",
                              "AGENT SUCCEEDED"])

    def test_prints_nothing_with_the_other_names(self):
        self.crew.order(0)
        for name in ("null", "dynamic_rendezvous"):
            run = self.run_alone("--event-log-handler", name, *self.crew.command())
            self.assertEqual(run.finish(), (0, "", ""))

    def test_refuses_a_name_that_it_does_not_know(self):
        for how, env in ((["--event-log-handler", "scuba"], {}), ([], {"PET_EVENT_LOG_HANDLER": "scuba"})):
            code, _, err = self.run_alone(*how, *self.crew.command(), env=env).finish()
            self.assertEqual(code, 2)
            self.assertIn("'scuba'", err)
            self.assertIn("console", err)
        self.assertEqual(self.crew.starts(), [])


class Files(EventsTest):
    def test_one_that_cannot_be_written_is_refused_before_anything_starts(self):
        for flag in ("--event-log", "--metrics-log"):
            for path, why in ((self.temporary / "none" / "log", "No such file or directory"),
                              (self.temporary, "Is a directory"), ("", "needs the name of a file")):
                with self.subTest(flag=flag, path=path):
                    code, _, err = self.run_alone(f"{flag}={path}", *self.crew.command()).finish()
                    self.assertEqual(code, 2)
                    self.assertIn(flag, err)
                    self.assertIn(why, err)
                    self.assertEqual(len(err.splitlines()), 1, err)
        self.assertEqual(self.crew.starts(), [])

    def test_a_dry_run_makes_none(self):
        done = subprocess.run([BINARY, "run", "--dry-run", "--event-log", self.log, "--no-python", "true"],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(self.log.exists())

    def test_a_pipe_that_nobody_reads_holds_nothing_up(self):
        os.mkfifo(self.log)
        self.crew.order(0)
        run = self.run_alone(*self.flags, *self.crew.command())
        code, _, err = run.finish()
        self.assertEqual(code, 0, err)
        self.assertIn("nobody has read the last ", err)
        self.assertEqual(len(err.splitlines()), 1, err)

    def test_standard_output_that_is_read_no_more(self):
        run = subprocess.Popen([BINARY, "run", "--event-log", "/dev/stdout", *map(str, self.crew.command())],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            read = "".join(run.stdout.readline() for _ in range(3))
            self.assertEqual(self.in_short(self.events(read))[-1], "WORKER START 0")
            run.stdout.close()
            self.crew.order(0)
            code = run.wait(LIMIT_S)
        finally:
            run.kill()
            _, err = run.wait(), run.stderr.read()
            run.stderr.close()
        self.assertEqual(code, 0, err)
        self.assertEqual(err.count("cannot write to '/dev/stdout': Broken pipe"), 1, err)
        self.assertIn("2 lines could not be written to '/dev/stdout'", err)

    def test_a_pipe_gets_all_lines(self):
        os.mkfifo(self.log)
        # It holds all of them, so they may be read when the run is over.
        with open(os.open(self.log, os.O_RDONLY | os.O_NONBLOCK)) as reader:
            self.crew.order(0)
            self.assert_success(self.run_alone(*self.flags, *self.crew.command()))
            self.assertEqual(self.in_short(self.events(reader.read()))[-1], "AGENT SUCCEEDED")

    def test_a_full_disk_is_told_once_and_counted(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full here; to run it: a system that has one")
        self.crew.order(0)
        code, _, err = self.run_alone("--event-log", "/dev/full", *self.crew.command()).finish()
        self.assertEqual(code, 0)
        self.assertEqual(err.count("No space left on device"), 1, err)
        self.assertIn("5 lines could not be written to '/dev/full'", err)


class TwoNodes(EventsTest):
    def of_node(self, name):
        self.log = self.temporary / f"{name}.jsonl"
        return self.events()

    def node(self, name, *flags, **more):
        return super().node(name, "--event-log", self.temporary / f"{name}.jsonl", *flags, **more)

    def test_each_tells_its_own_part(self):
        a, b = self.node("A", "-n", "2"), self.node("B", "-n", "1")
        workers = self.crew.complete(3)
        self.crew.order(0)
        self.assert_success(a, b)
        world = {}
        for name, count in (("A", 2), ("B", 1)):
            events = self.of_node(name)
            self.assertEqual([event["metadata"]["state"] for event in events],
                             ["RENDEZVOUS", "ASSIGN_WORKER_RANKS", *["START"] * count, *["SUCCEEDED"] * (count + 1)])
            for event in events[2:]:
                data = event["metadata"]
                (group_rank,) = {int(one["GROUP_RANK"]) for one in workers if one.node == name}
                self.assertEqual(data["group_rank"], group_rank)
                self.assertEqual(data["metadata"]["group_world_size"], 2)
                self.assertEqual(data["run_id"], "job")
                if data["state"] == "START":
                    self.assertEqual(data["metadata"]["role_world_size"], [3])
                    world[data["global_rank"]] = int(data["worker_id"])
        self.assertEqual(world, {one.rank: one.pid for one in workers})

    def test_a_failure_here_is_a_restart_of_the_run(self):
        self.check_a_failure_on_b("run", {"A": 1, "B": 1})

    def test_a_failure_here_costs_the_other_nothing_if_each_counts_its_own(self):
        self.check_a_failure_on_b("torchrun", {"A": 0, "B": 1})

    def check_a_failure_on_b(self, policy, counts):
        a, b = (self.node(name, "--max-restarts", "1", "--restart-policy", policy) for name in "AB")
        first = self.crew.complete(2)
        (on_b,) = [one for one in first if one.node == "B"]
        self.crew.order(9, to=on_b)
        self.crew.complete(2, but=first)
        self.crew.order(0)
        self.assert_success(a, b)
        for name, restarts in counts.items():
            events = self.of_node(name)
            starts = [event["metadata"] for event in events if event["metadata"]["state"] == "START"]
            self.assertGreaterEqual(len(starts), 2)
            self.assertEqual(starts[0]["agent_restarts"], 0)
            self.assertEqual(starts[-1]["agent_restarts"], restarts)
            self.assertEqual(events[-1]["metadata"]["agent_restarts"], restarts)
            self.assertEqual(self.in_short(events)[-1], "AGENT SUCCEEDED")

    def test_who_ends_because_of_another_says_so(self):
        a, b = self.node("A"), self.node("B")
        workers = self.crew.complete(2)
        (on_b,) = [one for one in workers if one.node == "B"]
        self.crew.order(9, to=on_b)
        self.assertEqual(b.finish()[0], 9)
        self.assertEqual(a.finish()[0], 73)
        self.assertEqual(self.in_short(self.of_node("B"))[-2:], [f"WORKER FAILED {on_b.rank}", "AGENT SUCCEEDED"])
        last = self.of_node("A")[-1]
        self.assertEqual((last["source"], last["metadata"]["state"]), ("AGENT", "FAILED"))
        self.assertIn(f"rank {on_b.rank}", last["metadata"]["raw_error"])

    def test_who_waits_in_vain(self):
        run = self.node("A", conf="join_timeout=1")
        self.assertEqual(run.finish()[0], 71)
        events = self.of_node("A")
        self.assertEqual(self.in_short(events), ["AGENT RENDEZVOUS", "AGENT FAILED"])
        self.assertGreaterEqual(events[0]["metadata"]["duration_ms"], 900)
        self.assertTrue(events[1]["metadata"]["raw_error"])


if __name__ == "__main__":
    unittest.main()
