#!/usr/bin/env python3
"""Reads every #include under src/ and include/ and names each one that points the wrong way.

    dev/layers.py [ROOT]

The rooms and their arrows are in src/rooms.txt, which CMake reads, too. An arrow that is only written down wears away.
Also named: files that include each other in a circle, a room's type that is used without its header, folders that are
too full or say nothing of themselves.
"""

import collections
import fnmatch
import re
import sys
from pathlib import Path

# More sources than this, tests aside, make a corridor of a room.
FULL = 40

# The public headers that are vocabulary for all; the others are promises kept by runtime.
PUBLIC_FOR_ALL = {"regroup/records.h", "regroup/result.h", "regroup/run_rules.h", "regroup/time.h"}
PUBLIC_FOR_SOME = {"runtime", "cli"}
# Simulated workers are behind the same seam as real ones.
PUBLIC_FOR_SIM = {"regroup/worker_backend.h"}

# Rooms that decide: the same events at the same instants must give the same effects in every run.
PURE = {"core", "wire"}
IMPURE_HEADERS = """
    thread mutex shared_mutex condition_variable atomic future semaphore latch barrier stop_token
    pthread.h random ctime time.h iostream fstream filesystem csignal signal.h unistd.h fcntl.h poll.h
    netdb.h sched.h spawn.h dirent.h sys/* linux/* netinet/* net/* arpa/* boost/asio* boost/beast*
    boost/process* boost/thread* boost/filesystem* spdlog/*
""".split()
IMPURE_WORDS = re.compile(
    r"\b(steady_clock|system_clock|high_resolution_clock|random_device|this_thread|getenv)\b")

NETWORK_HEADERS = ["boost/asio*", "boost/beast*"]
NETWORK_ROOMS = {"io", "runtime"}
TEST_HEADERS = ["gtest/*", "gmock/*"]
PUBLIC_LIBRARIES = {"tl/expected.hpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Comments and literals, so that a word in prose is not taken for a call. Literals come out first
# where they start first: "//" inside a string opens no comment.
NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/
      | R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"
      | "(?:\\.|[^"\\\n])*" | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'
    """, re.VERBOSE | re.DOTALL)


class Rooms:
    """What src/rooms.txt says: each room, and what it may include besides itself."""

    def __init__(self, text):
        text = re.sub(r"\n[ ]+", " ", re.sub(r"#[^\n]*", "", text))
        self.uses = {}
        self.wrong = []
        for line in filter(str.strip, text.split("\n")):
            room, colon, uses = line.partition(":")
            if not colon:
                self.wrong.append(f"src/rooms.txt: «{line.strip()}» is not «room: what it uses»")
                continue
            for other in uses.split():
                if other not in self.uses:
                    self.wrong.append(f"src/rooms.txt: {room} uses {other}, which must stand above it")
            self.uses[room] = set(uses.split())

    def of(self, path):
        """The room of a path relative to src/, or None: "core/store/keyspace.h" is in core/store."""
        folder = path.rpartition("/")[0]
        return folder if folder in self.uses else None

    def may_include(self, room, other, is_test):
        """Tests may also use what the rooms that they use are made of."""
        return room == other or other in (self.reached_from(room) if is_test else self.uses[room])

    def reached_from(self, room):
        found, todo = set(), [room]
        while todo:
            new = self.uses.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found


def house_of(room):
    return room.split("/")[0]


def is_like(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def is_test_file(name):
    return name.endswith(("_test.cc", "_fuzz.cc")) or is_testing_header(name)


def is_testing_header(name):
    return "testing" in name.rsplit("/", 1)[-1]


def without_comments_and_literals(text):
    """The same text with the same line breaks, so that line numbers stay true."""
    return NOT_CODE.sub(lambda m: " " + "\n" * m.group().count("\n"), text)


def judge_room_include(rooms, path, room, style, name):
    """Why the file `path` (relative to src/) may not include `name`, or None."""
    if name.startswith("regroup/"):
        known = PUBLIC_FOR_ALL | PUBLIC_FOR_SIM if house_of(room) == "sim" else PUBLIC_FOR_ALL
        if name not in known and house_of(room) not in PUBLIC_FOR_SOME:
            return f"{room} ▶ {name}: only runtime and cli know this public header"
        return None
    if is_testing_header(name) and rooms.of(name) and not is_test_file(path):
        return f"{path} ▶ {name}: only tests include testing headers"
    other = rooms.of(name)
    if other:
        if not rooms.may_include(room, other, is_test_file(path)):
            return f"{room} ▶ {other}: {room} may not include {name}"
        return None
    if is_like(name, TEST_HEADERS):
        if not is_test_file(path):
            return f"{room} ▶ {name}: only tests include it"
        return None
    if house_of(room) in PURE and is_like(name, IMPURE_HEADERS):
        return f"{room} ▶ <{name}>: no clock, thread, socket, file or system header in core and wire"
    if is_like(name, NETWORK_HEADERS) and not (house_of(room) in NETWORK_ROOMS and path.endswith(".cc")):
        return f"{room} ▶ <{name}>: only .cc files of io and runtime include Asio and Beast"
    if style == '"':
        return f'{room} ▶ "{name}": write it relative to src/ ("{room}/...") or to include/'
    return None


def judge_public_include(name):
    if name.startswith("regroup/") or name in PUBLIC_LIBRARIES:
        return None
    if "/" not in name and not name.endswith(".h"):
        return None  # The standard library.
    return f"include/ ▶ {name}: public headers include the standard library, tl/expected and each other"


def check_file(shown, text, judge, pure):
    # Include names are literals too, so they are read from the raw lines; the cleaned lines say
    # whether the directive itself stands in a comment.
    clean = without_comments_and_literals(text).split("\n")
    for number, (raw, code) in enumerate(zip(text.split("\n"), clean), start=1):
        match = INCLUDE.match(raw)
        if match and re.match(r"\s*#\s*include", code):
            wrong = judge(*match.groups())
            if wrong:
                yield f"{shown}:{number}: {wrong}"
        elif pure and (word := IMPURE_WORDS.search(code)):
            yield f"{shown}:{number}: {word.group()}: core and wire read no clock and no environment"


# A name of another room, as code writes it: core::store::Keyspace, io::Loop.
QUALIFIED = re.compile(r"\b(core::[a-z_]+|wire|io|runtime|cli|sim)::([A-Za-z_]\w*)")
DECLARED = re.compile(r"\b(?:class|struct|enum class|using)\s+(\w+)\b(?!\s*::)|\b(\w+)\(")


class Names:
    """Which room's headers declare a name of a namespace; names of several rooms tell nothing."""

    def __init__(self, rooms, files):
        self.rooms = rooms
        self.of_name = collections.defaultdict(set)
        for path, code in files.items():
            if not path.endswith(".h"):
                continue
            room = rooms.of(path)
            for pair in DECLARED.findall(code):
                self.of_name[self.namespace_of(room), pair[0] or pair[1]].add(room)

    @staticmethod
    def namespace_of(room):
        return room.replace("/", "::") if room.startswith("core/") else house_of(room)

    def judge(self, room, code, is_test):
        """What the line uses of a room that is not open to this one, or None."""
        for namespace, name in QUALIFIED.findall(code):
            homes = self.of_name.get((namespace, name), set())
            if len(homes) == 1:
                home, = homes
                if not self.rooms.may_include(room, home, is_test):
                    return f"{room} ▶ {home}: {namespace}::{name} is used through another header"
        return None


def circles(files):
    """Groups of files of one room that include each other; a header and its .cc count as one."""
    def stem(path):
        return path.rpartition(".")[0]

    arrows = collections.defaultdict(set)
    for path, text in files.items():
        if is_test_file(path):
            continue
        for _, name in (match.groups() for match in map(INCLUDE.match, text.split("\n")) if match):
            if name in files and stem(name) != stem(path):
                arrows[stem(path)].add(stem(name))
    reach = {}

    def reached(start):
        if start not in reach:
            seen, todo = set(), [start]
            while todo:
                for other in arrows.get(todo.pop(), ()):
                    if other not in seen:
                        seen.add(other)
                        todo.append(other)
            reach[start] = seen
        return reach[start]

    found = {tuple(sorted(b for b in reached(a) if a in reached(b))) for a in list(arrows) if a in reached(a)}
    return sorted(found)


def check_tree(root):
    src, include = root / "src", root / "include"
    rooms = Rooms((src / "rooms.txt").read_text())
    yield from rooms.wrong

    raw = {file.relative_to(src).as_posix(): file.read_text()
           for file in sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cc"))}
    code = {path: without_comments_and_literals(text) for path, text in raw.items() if rooms.of(path)}
    names = Names(rooms, code)
    for path, text in raw.items():
        room = rooms.of(path)
        if room is None:
            yield f"src/{path}:1: belongs to no room; the rooms are in src/rooms.txt"
            continue
        yield from check_file(f"src/{path}", text,
                              lambda style, name: judge_room_include(rooms, path, room, style, name),
                              house_of(room) in PURE)
        for number, line in enumerate(code[path].split("\n"), start=1):
            if wrong := names.judge(room, line, is_test_file(path)):
                yield f"src/{path}:{number}: {wrong}"

    for circle in circles(raw):
        yield f"src/{circle[0]}: includes itself by way of {', '.join(circle[1:]) or 'itself'}"

    for file in sorted(p for p in include.rglob("*") if p.is_file()):
        yield from check_file(file.relative_to(root).as_posix(), file.read_text(),
                              lambda style, name: judge_public_include(name), False)

    for folder in sorted({*rooms.uses, *map(house_of, rooms.uses)}):
        if not (src / folder / "README.md").is_file():
            yield f"src/{folder}: has no README.md that says its job"
        count = sum(path.rpartition("/")[0] == folder and not is_test_file(path) for path in raw)
        if count > FULL:
            yield f"src/{folder}: has {count} sources; more than {FULL} are too many for one room"


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    wrong = list(check_tree(root))
    for line in wrong:
        print(line)
    if wrong:
        print(f"layers: {len(wrong)} wrong")
        return 1
    print("layers: every include follows the arrows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
