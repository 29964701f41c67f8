"""What a user meets in the program and what docs/ tell of it are the same lists."""

import ast
import functools
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGROUP = os.environ["REGROUP_BIN"]
COMMANDS = [["run"], ["spawn"], ["store"], ["store", "ping"], ["store", "get"], ["store", "set"], ["store", "keys"],
            ["rendezvous", "join"], ["rendezvous", "show"], ["rendezvous", "close"], ["coordinator"], ["status"]]


# Rows of docs/torchrun-parity.md whose test is still to come.
UNPROVED = 0


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
        in_code = set(re.findall(r"constexpr int k\w+ = (\d+);", (ROOT / "src/cli/flags/cli.h").read_text()))
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
        code = (ROOT / "src/wire/store/store_opcodes.h").read_text()
        in_code = {number for name, number in re.findall(r"^  (\w+) = (\d+),", code, re.M)
                   if name != "Validate"}
        of_the_store = (ROOT / "docs/protocol.md").read_text().partition("\n## The session protocol\n")[0]
        in_docs = set(re.findall(r"^\| (\d+) \|", of_the_store, re.M))
        self.assertEqual(in_code, in_docs)

    def test_every_default_limit_is_documented(self):
        text = self.help_of(["store"])
        for flag, documented in (("--max-clients", "100000"), ("--max-keys", "16777216"),
                                 ("--max-memory", str(4 << 30)), ("--max-key-bytes", "8192"),
                                 ("--max-value-bytes", str(8 << 20)), ("--linger", "50")):
            self.assertRegex(text, rf"{flag} \w+={documented}\b")


@functools.cache
def tests_in(file):
    """Class.test of a file, whether or not it can be imported here; with what classes of the same file hand down."""
    classes = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}

    def tests(node):
        own = {item.name for item in node.body if isinstance(item, ast.FunctionDef) and item.name.startswith("test_")}
        bases = (classes[base.id] for base in node.bases if getattr(base, "id", None) in classes)
        return own.union(*map(tests, bases))

    return {f"{name}.{test}" for name, node in classes.items() for test in tests(node)}


class TorchrunParity(unittest.TestCase):
    """docs/torchrun-parity.md: every row has a test, and every test that it names exists."""

    TEXT = (ROOT / "docs/torchrun-parity.md").read_text()
    ROWS = []  # (Section, name, what we do, [test, ...])
    for section in TEXT.split("\n## ")[1:]:
        for name, what, tests in re.findall(r"^\| (?!-)(.+?) \| (.+?) \| (`.+`) \|$", section, re.M):
            ROWS.append((section.split("\n")[0], name, what, re.findall(r"`([^`]+)`", tests)))

    def exists(self, test):
        if found := re.fullmatch(r"(tests/[\w/]+\.py)::(\w+\.test_\w+)", test):
            file = ROOT / found[1]
            return file.exists() and found[2] in tests_in(file)
        if found := re.fullmatch(r"(\w+)_test: (\w+)\.(\w+)", test):
            # Of core_store and runtime_store the first word is the house.
            folder = ROOT / "src" / found[1].replace("_", "/", 1)
            named = re.compile(rf"^TEST(_F|_P)?\({found[2]},\s+{found[3]}\)", re.M)
            return any(named.search(file.read_text()) for file in folder.glob("*_test.cc"))
        return False

    def test_every_test_exists(self):
        self.assertGreater(len(self.ROWS), 150)
        for _, name, _, tests in self.ROWS:
            for test in tests:
                if not test.startswith("TODO-"):
                    self.assertTrue(self.exists(test), f"{name}: no such test: {test}")

    def test_every_line_of_a_table_is_a_row(self):
        lines = re.findall(r"^\|.*", self.TEXT, re.M)
        tables = sum(line.startswith("|---") for line in lines)
        self.assertEqual(len(self.ROWS), len(lines) - 2 * tables)

    def test_every_row_says_whether_it_is_the_same(self):
        for section, name, what, _ in self.ROWS:
            if section != "Flags of our own":
                self.assertRegex(what, r"\b(same|better|refused)\b|^\d+", name)

    def test_every_flag_has_a_row(self):
        text = subprocess.run([REGROUP, "run", "--help"], capture_output=True, text=True, timeout=60,
                              check=True).stdout
        flags = {word for line in re.findall(r"^  (-\S+)", text, re.M) for word in line.split(",")}
        named = {flag for _, name, _, _ in self.ROWS for flag in re.findall(r"`(--?[\w-]+)`", name)}
        self.assertEqual(flags - named, set())

    def test_every_defect_has_a_row(self):
        defects = [int(found[1]) for _, name, _, _ in self.ROWS if (found := re.match(r"A(\d+): ", name))]
        self.assertEqual(defects, list(range(1, 16)))

    def test_what_is_not_proved_is_counted(self):
        unproved = [name for _, name, _, tests in self.ROWS if any(test.startswith("TODO-") for test in tests)]
        self.assertEqual(len(unproved), UNPROVED, unproved)


if __name__ == "__main__":
    unittest.main()
