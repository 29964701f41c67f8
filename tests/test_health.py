"""The health port of `regroup run`: true answers in every phase of a run, and clients of every kind beside it."""

import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import struct
import time
import unittest
from pathlib import Path

from run_support import LIMIT_S, QUICK, reserved_port, until
from store_support import ROOT
from test_run import RunTest

PAGES = ("/", "/healthz", "/readyz", "/status", "/metrics")


class Health:
    """Asks one health port."""

    def __init__(self, port, host="127.0.0.1"):
        self.port, self.host = port, host

    def get(self, path, method="GET"):
        """Status and body, over a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def status(self):
        code, body = self.get("/status")
        assert code == 200, body
        return json.loads(body)

    def metrics(self):
        """Samples by name and labels, as they are written."""
        code, body = self.get("/metrics")
        assert code == 200, body
        return dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))

    def until_status(self, **wanted):
        """Waits until /status says all of that."""
        last = {}

        def look():
            nonlocal last
            last = self.status()
            return all(last[name] == value for name, value in wanted.items())
        if not until(look):
            raise AssertionError(f"waited for {wanted}; it is {last}")
        return last

    def connect(self):
        client = socket.create_connection((self.host, self.port), timeout=LIMIT_S)
        return contextlib.closing(client)

    def say(self, data, close_ours=False):
        """What comes back to raw bytes, until the other side closes."""
        with self.connect() as client:
            client.sendall(data)
            if close_ours:
                client.shutdown(socket.SHUT_WR)
            return read_to_end(client)


def read_to_end(client):
    data = b""
    while more := client.recv(65536):
        data += more
    return data


def codes(answers):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+) ", answers)]


class HealthTest(RunTest):
    def health_of(self, run):
        return Health(int(run.err.until(r"health port: .*:(\d+)$", LIMIT_S)[1]))

    def start(self, *flags, port="127.0.0.1:0", env=None):
        run = self.run_alone("--health-port", port, *flags, *self.crew.command(), env=env)
        return run, self.health_of(run)


class Phases(HealthTest):
    def test_while_the_workers_run(self):
        run, health = self.start("-n", "2", "--role", "trainer")
        workers = self.crew.complete(2)
        status = health.until_status(ready=True)
        code, body = health.get("/healthz")
        self.assertEqual((code, body.split(":")[0]), (200, "alive"), body)
        self.assertEqual(health.get("/readyz"), (200, "ready: round 0, node 0 of 1, 2 workers\n"))
        self.assertEqual(status["workers"], [{"local_rank": one.rank, "rank": one.rank, "pid": one.pid,
                                              "state": "running"} for one in workers])
        for name, value in {"state": "HEALTHY", "doing": "running", "alive": True, "role": "trainer", "round": 0,
                            "run_id": workers[0]["TORCHELASTIC_RUN_ID"], "group_rank": 0, "group_world_size": 1,
                            "waiting_for": None, "restarts": 0, "max_restarts": 0, "last_failure": None}.items():
            self.assertEqual(status[name], value, name)
        metrics = health.metrics()
        for name, value in {"regroup_up": "1", "regroup_ready": "1", "regroup_round": "0",
                            'regroup_workers{state="running"}': "2", 'regroup_workers{state="failed"}': "0",
                            'regroup_state{state="HEALTHY"}': "1", "regroup_restarts_total": "0"}.items():
            self.assertEqual(metrics[name], value, name)
        self.assertGreaterEqual(health.status()["uptime_s"], status["uptime_s"])
        self.assertIn("/metrics", health.get("/")[1])
        self.assertEqual(health.get("/nothing")[0], 404)
        self.crew.order(0)
        self.assert_success(run)

    def test_everything_that_is_said_is_documented(self):
        run, health = self.start()
        self.crew.complete(1)
        status = health.until_status(ready=True)
        docs = (ROOT / "docs/health.md").read_text()
        in_docs = set(re.findall(r"^\| `(regroup_\w+)", docs, re.M)) - {"regroup_timers"}
        self.assertEqual({name.split("{")[0] for name in health.metrics()}, in_docs)
        fields = {name for row in re.findall(r"^\| (`[a-z].*?) \|", docs, re.M) for name in re.findall(r"`(\w+)`", row)}
        self.assertEqual(set(status), {name for name in fields if not name.startswith("regroup_")} - {"timers"})
        self.crew.order(0)
        self.assert_success(run)

    def test_while_one_node_waits_for_the_other(self):
        first = self.node("A", "--health-port", "127.0.0.1:0")
        health = self.health_of(first)
        self.assertTrue(until(lambda: "1 of 2" in (health.status()["waiting_for"] or "")), health.status())
        status = health.until_status(doing="joining")
        for name, value in {"state": "INIT", "ready": False, "round": None, "workers": [], "run_id": "job"}.items():
            self.assertEqual(status[name], value, name)
        self.assertEqual(health.get("/healthz")[0], 200)
        code, why = health.get("/readyz")
        self.assertEqual(code, 503)
        self.assertIn("1 of 2 nodes", why)
        metrics = health.metrics()
        self.assertNotIn("regroup_round", metrics)
        self.assertEqual((metrics["regroup_up"], metrics["regroup_ready"]), ("1", "0"))
        second = self.node("B", "--health-port", "127.0.0.1:0")
        other = self.health_of(second)
        self.crew.complete(2)
        ranks = {one.until_status(ready=True)["group_rank"] for one in (health, other)}
        self.assertEqual(ranks, {0, 1})
        self.assertEqual(health.status()["group_world_size"], 2)
        self.crew.order(0)
        self.assert_success(first, second)

    def test_while_the_workers_are_started_again(self):
        run, health = self.start("-n", "2", "--max-restarts", "1")
        first = self.crew.complete(2)
        self.crew.order(7, to=first[1])
        self.crew.complete(2, but=first)
        status = health.until_status(ready=True, restarts=1)
        self.assertEqual((status["round"], status["max_restarts"]), (1, 1))
        failure = status["last_failure"]
        self.assertEqual((failure["rank"], failure["exit_code"]), (1, 7))
        self.assertIn("exit code 7", failure["message"])
        metrics = health.metrics()
        self.assertEqual((metrics["regroup_restarts_total"], metrics["regroup_rounds_total"]), ("1", "2"))
        self.crew.order(0)
        self.assert_success(run)

    def test_while_workers_take_their_time_to_stop(self):
        run = self.run_alone("-n", "2", "--health-port", "127.0.0.1:0", *self.crew.command("stubborn"))
        health = self.health_of(run)
        self.crew.complete(2)
        health.until_status(ready=True)
        run.signal(signal.SIGTERM)
        status = health.until_status(doing="stopping")
        self.assertFalse(status["ready"])
        self.assertIn("2 of 2 workers still run", status["waiting_for"])
        code, why = health.get("/readyz")
        self.assertEqual((code, why.startswith("not ready: stopping: ")), (503, True), why)
        self.assertEqual(health.get("/healthz")[0], 200)
        run.signal(signal.SIGTERM)  # At once.
        self.assertEqual(run.finish()[0], 128 + signal.SIGTERM)

    def test_while_the_others_of_a_failed_one_are_stopped(self):
        run = self.run_alone("-n", "2", "--health-port", "127.0.0.1:0", *self.crew.command("stubborn"))
        health = self.health_of(run)
        first = self.crew.complete(2)
        self.crew.order(3, to=first[0])
        status = health.until_status(doing="stopping")
        self.assertEqual([one["state"] for one in status["workers"]], ["failed", "running"])
        self.assertEqual((status["ready"], status["last_failure"]["exit_code"]), (False, 3))
        run.signal(signal.SIGTERM)
        run.signal(signal.SIGTERM)
        run.finish()

    def test_while_a_node_that_is_done_waits_for_the_other(self):
        first, second = self.node("A", "--health-port", "127.0.0.1:0"), self.node("B")
        health = self.health_of(first)
        workers = self.crew.complete(2)
        self.crew.order(0, to=next(one for one in workers if one.node == "A"))
        status = health.until_status(doing="checking in")
        self.assertEqual((status["state"], status["ready"]), ("SUCCEEDED", False))
        self.assertEqual(health.get("/healthz")[0], 200)
        self.crew.order(0)
        self.assert_success(first, second)

    def test_while_nodes_come(self):
        first = self.node("A", "--health-port", "127.0.0.1:0", nnodes="1:2", conf=QUICK)
        health = self.health_of(first)
        alone = self.crew.complete(1)
        self.assertEqual(health.until_status(ready=True)["group_world_size"], 1)
        second = self.node("B", nnodes="1:2", conf=QUICK)
        self.crew.complete(2, but=alone)
        status = health.until_status(ready=True, group_world_size=2)
        self.assertEqual(status["restarts"], 0)
        self.crew.order(0)
        self.assert_success(first, second)


class Places(HealthTest):
    def test_a_port_alone_is_every_address(self):
        run, health = self.start(port="0")
        for host in ("127.0.0.1", "::1") if socket.has_ipv6 and self.has_ipv6() else ("127.0.0.1",):
            self.assertEqual(Health(health.port, host).get("/healthz")[0], 200)
        self.crew.order(0)
        self.assert_success(run)

    @staticmethod
    def has_ipv6():
        with socket.socket(socket.AF_INET6) as probe:
            try:
                probe.bind(("::1", 0))
            except OSError:
                return False
            return True

    def test_an_address_is_that_one_alone(self):
        run, health = self.start(port="127.0.0.1:0")
        with self.assertRaises(OSError):
            Health(health.port, "127.0.0.2").get("/healthz")
        self.crew.order(0)
        self.assert_success(run)

    def test_the_variable_of_the_original(self):
        run = self.run_alone(*self.crew.command(), env={"TORCHELASTIC_HEALTH_CHECK_PORT": "0"})
        self.assertEqual(self.health_of(run).get("/healthz")[0], 200)
        self.crew.order(0)
        self.assert_success(run)

    def test_the_flag_counts_more_than_the_variable(self):
        with reserved_port() as port:
            run, health = self.start(env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)})
            self.assertNotEqual(health.port, port)
            self.crew.order(0)
            self.assert_success(run)

    def test_a_taken_port_of_the_flag_is_a_start_that_fails(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            place = f"127.0.0.1:{other.getsockname()[1]}"
            code, _, err = self.run_alone("--health-port", place, *self.crew.command()).finish()
        self.assertEqual(code, 2, err)
        self.assertIn(f"no health port: cannot listen on {place}: the port is taken", err)
        self.assertEqual(self.crew.starts(), [])

    def test_a_taken_port_of_the_variable_is_a_warning(self):
        # "::" and 127.0.0.1 are not the same place to take, so this one takes all.
        family = socket.AF_INET6 if self.has_ipv6() else socket.AF_INET
        with socket.create_server(("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6) as other:
            port = other.getsockname()[1]
            self.crew.order(0)
            run = self.run_alone(*self.crew.command(), env={"TORCHELASTIC_HEALTH_CHECK_PORT": str(port)})
            code, _, err = run.finish()
        self.assertEqual(code, 0, err)
        self.assertRegex(err, rf"no health port: cannot listen on .*:{port}: the port is taken")

    def test_what_is_no_port(self):
        code, _, err = self.run_alone("--health-port", "http", *self.crew.command()).finish()
        self.assertEqual(code, 2)
        self.assertIn("--health-port is 'http'; it takes a port", err)
        self.crew.order(0)
        run = self.run_alone(*self.crew.command(), env={"TORCHELASTIC_HEALTH_CHECK_PORT": "http"})
        code, _, err = run.finish()
        self.assertEqual(code, 0, err)
        self.assertIn("TORCHELASTIC_HEALTH_CHECK_PORT is 'http', which is no port", err)

    def test_the_port_goes_with_the_run(self):
        run = self.run_alone(*self.crew.command(), env={"TORCHELASTIC_HEALTH_CHECK_PORT": "0"})
        port = self.health_of(run).port
        self.crew.order(0)
        self.assert_success(run)
        with self.assertRaises(OSError):
            Health(port).get("/healthz")


class Clients(HealthTest):
    """One run with two workers; whatever a client does, others are answered, and the run ends as usual."""

    def setUp(self):
        super().setUp()
        self.launcher, self.health = self.start("-n", "2")
        self.crew.complete(2)
        self.health.until_status(ready=True)

    def tearDown(self):
        self.assertEqual(self.health.get("/healthz")[0], 200)
        self.crew.order(0)
        self.assert_success(self.launcher)
        self.assertEqual([one["TORCHELASTIC_RESTART_COUNT"] for one in self.crew.starts()], ["0", "0"])

    def test_one_connection_for_many_requests(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.health.port, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.connect()
            ours = connection.sock
            for path in PAGES * 5:
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                self.assertEqual(answer.status, 200, path)
                self.assertIs(connection.sock, ours)

    def test_requests_that_do_not_wait_for_answers(self):
        data = b"".join(b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode() for path in (*PAGES, "/none"))
        answers = self.health.say(data * 10 + b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        self.assertEqual(codes(answers), [200, 200, 200, 200, 200, 404] * 10 + [200])

    def test_head(self):
        for path in PAGES:
            answer = self.health.say(b"HEAD %s HTTP/1.0\r\n\r\n" % path.encode())
            self.assertEqual(codes(answer), [200], path)
            self.assertTrue(answer.endswith(b"\r\n\r\n"), answer)
            self.assertGreater(int(re.search(rb"Content-Length: (\d+)", answer)[1]), 0)

    def test_http_1_0(self):
        answer = self.health.say(b"GET /healthz HTTP/1.0\r\n\r\n")
        self.assertEqual(codes(answer), [200])
        self.assertIn(b"Connection: close", answer)
        kept = self.health.say(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /healthz HTTP/1.0\r\n\r\n")
        self.assertEqual(codes(kept), [200, 200])

    def test_half_closed(self):
        for path in PAGES:
            answer = self.health.say(b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode(), close_ours=True)
            self.assertEqual(codes(answer), [200], path)
        self.assertEqual(self.health.say(b"", close_ours=True), b"")
        self.assertEqual(self.health.say(b"GET / HT", close_ours=True), b"")

    def test_rubbish(self):
        for data, code in ((b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 400), (b"\xff" * 20000, 400),
                           (b"\r\n" * 5000, 431), (b"GET\r\n", 400), (b"GET / HTTP/1.1\r\n\r\n", 400),
                           (b"GET /" + b"x" * 10000, 431), (b"GET / HTTP/1.1\r\nA: " + b"x" * 100000, 431),
                           (b"PRI * HTTP/2.0\r\n\r\n", 505), (b"DELETE / HTTP/1.0\r\n\r\n", 405),
                           (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", 405),
                           (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", 413),
                           (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400)):
            with self.subTest(data=data[:40]):
                self.assertEqual(codes(self.health.say(data)), [code])

    def test_another_method_does_not_cost_the_connection(self):
        answers = self.health.say(b"DELETE / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.0\r\n\r\n")
        self.assertEqual(codes(answers), [405, 200])
        self.assertIn(b"\r\nAllow: GET, HEAD\r\n", answers)

    def test_a_byte_at_a_time(self):
        with self.health.connect() as slow:
            for byte in b"GET /readyz HTTP/1.0\r\n\r\n":
                slow.sendall(bytes([byte]))
            self.assertEqual(codes(read_to_end(slow)), [200])

    def test_who_says_nothing_or_half_of_it_is_closed(self):
        with self.health.connect() as silent, self.health.connect() as half:
            half.sendall(b"GET /healthz HTT")
            self.assertEqual(self.health.get("/readyz")[0], 200)
            self.assertEqual(codes(read_to_end(half)), [408])
            self.assertEqual(read_to_end(silent), b"")

    def test_a_thousand_who_say_nothing(self):
        with contextlib.ExitStack() as stack:
            most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (most, hard))
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            crowd = [stack.enter_context(self.health.connect()) for _ in range(1000)]
            # However many there are, whoever asks is answered.
            for path in PAGES:
                self.assertTrue(until(lambda: self.answers(path)), path)
            closed = until(lambda: sum(self.is_closed(one) for one in crowd) >= 1000 - 64)
            self.assertTrue(closed)

    def answers(self, path):
        try:
            return self.health.get(path)[0] == 200
        except OSError:  # Closed to make room for the next of the crowd.
            return False

    @staticmethod
    def is_closed(client):
        client.setblocking(False)
        try:
            return client.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def test_who_asks_and_does_not_read(self):
        with contextlib.ExitStack() as stack:
            for _ in range(80):  # More than it takes at one time.
                greedy = stack.enter_context(self.health.connect())
                greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                greedy.setblocking(False)
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    for _ in range(1000):
                        greedy.send(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n" * 100)
            for path in PAGES:
                self.assertEqual(self.health.get(path)[0], 200, path)

    def test_who_vanishes_in_the_middle(self):
        for cut in range(0, 40, 3):
            with self.health.connect() as client:
                client.sendall(b"GET /status HTTP/1.1\r\nHost: h\r\n\r\n"[:cut])
                # Closing with this option sends a reset and no farewell.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def test_nothing_wakes_up_while_nobody_asks(self):
        [thread] = [task for task in Path(f"/proc/{self.launcher.pid}/task").iterdir()
                    if (task / "comm").read_text() == "health\n"]

        def sleeps():
            """Two seconds without a wake-up; whatever the last questions left behind is over by then."""
            before = self.wake_ups(thread)
            time.sleep(2)
            return self.wake_ups(thread) == before
        self.assertTrue(until(sleeps))
        before = self.wake_ups(thread)
        self.health.get("/healthz")
        self.assertGreater(self.wake_ups(thread), before)

    @staticmethod
    def wake_ups(thread):
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (thread / "status").read_text(), re.M)[1])

    def test_descriptors_come_back(self):
        def count():
            return len(os.listdir(f"/proc/{self.launcher.pid}/fd"))
        before = count()
        for _ in range(200):
            self.health.get("/status")
        self.assertTrue(until(lambda: count() <= before + 1), f"{before} before, {count()} after")


if __name__ == "__main__":
    unittest.main()
