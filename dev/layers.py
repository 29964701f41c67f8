#!/usr/bin/env python3
"""Reads every #include under src/ and include/ and names each one that points the wrong way.

    dev/layers.py [ROOT]

The arrows are those of ARCHITECTURE.md. An arrow that is only written down wears away.
"""

import fnmatch
import re
import sys
from pathlib import Path

# What each room may include besides itself. Inside core only core/agent and core/coordinator know other rooms of core.
ARROWS = {
    "base": [],
    "core": ["base"],
    "core/agent": ["base", "core"],
    "core/coordinator": ["base", "core/rendezvous"],
    "wire": ["base", "core"],
    "io": ["base"],
    "runtime": ["base", "core", "wire", "io"],
    "cli": ["base", "runtime"],
    "sim": ["base", "core", "wire"],
}

# The public headers that are vocabulary for all; the others are promises kept by runtime.
PUBLIC_FOR_ALL = {"regroup/records.h", "regroup/result.h", "regroup/time.h"}
PUBLIC_FOR_SOME = {"runtime", "cli"}

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


def room_of(path):
    """The room of a path relative to src/, or None: "core/store/keyspace.h" is in core/store."""
    parts = path.split("/")
    if parts[0] == "core":
        return "/".join(parts[:2]) if len(parts) > 2 else None
    return parts[0] if parts[0] in ARROWS and len(parts) > 1 else None


def house_of(room):
    return room.split("/")[0]


def may_include(room, other):
    if room == other:
        return True
    arrows = ARROWS.get(room) or ARROWS[house_of(room)]
    return other in arrows or house_of(other) in arrows


def is_like(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def is_test_file(name):
    return name.endswith(("_test.cc", "_fuzz.cc")) or is_testing_header(name)


def is_testing_header(name):
    return "testing" in name.rsplit("/", 1)[-1]


def without_comments_and_literals(text):
    """The same text with the same line breaks, so that line numbers stay true."""
    return NOT_CODE.sub(lambda m: " " + "\n" * m.group().count("\n"), text)


def judge_room_include(path, room, style, name):
    """Why the file `path` (relative to src/) may not include `name`, or None."""
    if name.startswith("regroup/"):
        if name not in PUBLIC_FOR_ALL and room not in PUBLIC_FOR_SOME:
            return f"{room} ▶ {name}: only runtime and cli know this public header"
        return None
    if is_testing_header(name) and room_of(name) and not is_test_file(path):
        return f"{path} ▶ {name}: only tests include testing headers"
    other = room_of(name)
    if other:
        if not may_include(room, other):
            return f"{room} ▶ {other}: {room} may not include {name}"
        return None
    if is_like(name, TEST_HEADERS):
        if not is_test_file(path):
            return f"{room} ▶ {name}: only tests include it"
        return None
    if house_of(room) in PURE and is_like(name, IMPURE_HEADERS):
        return f"{room} ▶ <{name}>: no clock, thread, socket, file or system header in core and wire"
    if is_like(name, NETWORK_HEADERS) and not (room in NETWORK_ROOMS and path.endswith(".cc")):
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


def check_tree(root):
    src, include = root / "src", root / "include"

    for file in sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cc")):
        path = file.relative_to(src).as_posix()
        room = room_of(path)
        if room is None:
            yield f"src/{path}:1: belongs to no room; rooms are src/base, core/*, wire, io, runtime, cli, sim"
            continue
        yield from check_file(f"src/{path}", file.read_text(),
                              lambda style, name: judge_room_include(path, room, style, name),
                              house_of(room) in PURE)

    for file in sorted(p for p in include.rglob("*") if p.is_file()):
        yield from check_file(file.relative_to(root).as_posix(), file.read_text(),
                              lambda style, name: judge_public_include(name), False)

    for folder in sorted([*src.glob("*/"), *src.glob("core/*/")]):
        if folder.is_dir() and not (folder / "README.md").is_file():
            yield f"{folder.relative_to(root).as_posix()}: has no README.md that says its job"


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
