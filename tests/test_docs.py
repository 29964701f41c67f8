"""What a user meets in the program and what docs/ tell of it are the same lists."""

import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGROUP = os.environ["REGROUP_BIN"]
COMMANDS = [["run"], ["spawn"], ["store"], ["store", "ping"], ["store", "get"], ["store", "set"], ["store", "keys"],
            ["rendezvous", "join"], ["rendezvous", "show"], ["rendezvous", "close"]]


class Docs(unittest.TestCase):
    def help_of(self, command):
        return subprocess.run([REGROUP, *command, "--help"], capture_output=True, text=True,
                              timeout=60, check=True).stdout

    def test_every_flag_is_documented_and_every_documented_flag_exists(self):
        in_help = set()
        for command in COMMANDS:
            in_help |= set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", self.help_of(command), re.M))
        in_docs = set(re.findall(r"^\| `(--[a-z-]+)[` ]", (ROOT / "docs" / "cli.md").read_text(), re.M))
        self.assertEqual(in_help - {"--help"}, in_docs)

    def test_every_exit_code_is_documented(self):
        in_code = set(re.findall(r"constexpr int k\w+ = (\d+);", (ROOT / "src/cli/cli.h").read_text()))
        in_docs = set(re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "cli.md").read_text(), re.M))
        self.assertEqual(in_code, in_docs)

    def test_every_event_and_metric_is_documented(self):
        code = (ROOT / "src/core/agent/recorder.cc").read_text()
        docs = (ROOT / "docs/events.md").read_text()
        states = re.findall(r'"([A-Z_]{4,})"', code)
        calls = re.findall(r'"(?:Simple|Local)ElasticAgent\.(\w+)"', code)
        metrics = re.findall(r'add_metric\(records, "(\w+)"', code)
        phases = re.findall(r'add_phase\(records, "(\w+)"', code)
        for found in (states, calls, metrics, phases):
            self.assertGreaterEqual(len(found), 5)
        for word in [*(f"| {state} |" for state in states), *calls, *metrics, *(f"phase.{one}.ms" for one in phases)]:
            self.assertIn(word, docs)

    def test_every_opcode_is_documented(self):
        code = (ROOT / "src/wire/store_opcodes.h").read_text()
        in_code = {number for name, number in re.findall(r"^  (\w+) = (\d+),", code, re.M)
                   if name != "Validate"}
        in_docs = set(re.findall(r"^\| (\d+) \|", (ROOT / "docs/protocol.md").read_text(), re.M))
        self.assertEqual(in_code, in_docs)

    def test_every_default_limit_is_documented(self):
        text = self.help_of(["store"])
        for flag, documented in (("--max-clients", "100000"), ("--max-keys", "16777216"),
                                 ("--max-memory", str(4 << 30)), ("--max-key-bytes", "8192"),
                                 ("--max-value-bytes", str(8 << 20)), ("--linger", "50")):
            self.assertRegex(text, rf"{flag} \w+={documented}\b")


if __name__ == "__main__":
    unittest.main()
