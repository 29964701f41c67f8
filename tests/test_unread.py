"""A standard error that nobody reads stops no server and no launcher: they answer, and they end when they are asked."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import store_wire as wire
from rendezvous_cli_support import reserved_port
from run_support import Crew, Run
from spawn_support import until
from store_support import BINARY
from store_wire import RawClient

IN_TIME_S = 20  # It takes two; a machine may be busy.
RUBBISH = b"GET / HTTP/1.1\r\n\r\n"


class FullPipe:
    """A pipe that takes not one byte more until it is read."""

    def __init__(self):
        self.read, self.write = os.pipe()
        flags = fcntl.fcntl(self.write, fcntl.F_GETFL)
        fcntl.fcntl(self.write, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        self.filled = 0
        try:
            while True:
                self.filled += os.write(self.write, b"." * 1024)
        except BlockingIOError:
            pass
        fcntl.fcntl(self.write, fcntl.F_SETFL, flags)

    def rest(self):
        """What was written to it since, once nobody has it open."""
        os.close(self.write)
        with open(self.read, "rb") as pipe:
            return pipe.read()[self.filled:].decode()


class Unread(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, command, **popen):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **popen)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def disturb(self, port):
        """Enough for some lines of the log."""
        for _ in range(3):
            with RawClient(port, greet=False) as stranger:
                stranger.send(RUBBISH)
                self.assertEqual(stranger.receive_to_end(), b"")

    def assert_it_serves(self, port):
        with RawClient(port) as client:
            self.assertEqual(client.ask(wire.add(b"/turns", 1)), wire.i64(1))

    def test_servers(self):
        servers = []
        for command in ("store", "coordinator"):
            pipe = FullPipe()
            port_file = self.folder / command
            server = self.start([BINARY, command, "--port", "0", "--port-file", port_file],
                                stdout=pipe.write, stderr=pipe.write)
            port = int(until(lambda: port_file.exists() and port_file.read_text()))
            self.disturb(port)
            server.send_signal(signal.SIGUSR1)
            self.disturb(port)
            self.assert_it_serves(port)
            server.send_signal(signal.SIGTERM)
            servers.append((server, pipe))
        for server, pipe in servers:
            self.assertEqual(server.wait(IN_TIME_S), 0)
            pipe.rest()

    def test_a_reader_that_comes_back_gets_the_lines(self):
        pipe = FullPipe()
        port_file = self.folder / "port"
        server = self.start([BINARY, "store", "--port", "0", "--port-file", port_file],
                            stdout=subprocess.DEVNULL, stderr=pipe.write)
        port = int(until(lambda: port_file.exists() and port_file.read_text()))
        self.disturb(port)
        self.assert_it_serves(port)
        server.send_signal(signal.SIGTERM)
        text = pipe.rest()
        self.assertEqual(server.wait(IN_TIME_S), 0)
        self.assertRegex(text, r"(?m)^regroup: \[.*\] warning store: .*127\.0\.0\.1:\d+")
        self.assertRegex(text, r"(?m)^regroup: \[.*\] info store: stopping")
        self.assertEqual([line for line in text.splitlines() if not line.startswith("regroup: ")], [])

    def test_a_launcher(self):
        pipe = FullPipe()
        crew = Crew(self.folder)
        with reserved_port() as port:
            run = Run("--nnodes", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
                      *crew.command())
            process = self.start(run.command, env=run.env, stdout=subprocess.DEVNULL, stderr=pipe.write)
            crew.complete(1)
            self.disturb(port)
            self.assert_it_serves(port)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(IN_TIME_S), 128 + signal.SIGTERM)
        pipe.rest()

    def test_a_command_that_fails(self):
        commands = []
        for words in (["run", "--no-such-flag", "x"], ["store", "--port", "-1"], ["spawn"]):
            pipe = FullPipe()
            commands.append((self.start([BINARY, *words], stdout=subprocess.DEVNULL, stderr=pipe.write), pipe))
        for command, pipe in commands:
            self.assertEqual(command.wait(IN_TIME_S), 2, command.args)
            pipe.rest()


# The disk is full until the worker has written its first line.
FILLS_THE_DISK = """
import os, pathlib, subprocess, sys
binary, folder = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder], check=True)
filler = pathlib.Path(folder, "filler")
log = open(folder + "/log", "wb")
try:
    with filler.open("wb", buffering=0) as disk:
        while True: disk.write(bytes(4096))
except OSError:
    pass
script = f"import os; print('first', flush=True); os.unlink({str(filler)!r}); print('second', flush=True)"
done = subprocess.run([binary, "run", "--no-python", sys.executable, "-c", script], stdout=log, stderr=log)
sys.stdout.write(pathlib.Path(folder, "log").read_text())
sys.exit(done.returncode)
"""


class FullDisk(unittest.TestCase):
    def test_is_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            may_mount = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", folder],
                                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if may_mount.returncode != 0:
                self.skipTest("needs the right to mount (root)")
            done = subprocess.run(["unshare", "-m", sys.executable, "-c", FILLS_THE_DISK, BINARY, folder],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in ("first", "second"):
            self.assertIn(f"\n{line}\n", "\n" + done.stdout)


if __name__ == "__main__":
    unittest.main()
