"""The tree follows its arrows, and dev/layers.py notices when one is broken."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ROOT / "dev" / "layers.py"

# A small tree in which everything is allowed.
GOOD = {
    "src/rooms.txt": """# Rooms, and what each uses.
base:
core/store: base
core/rendezvous: base
core/agent: core/store core/rendezvous
            base
wire/bytes: base
wire: wire/bytes core/store core/rendezvous base
io: base
runtime: wire core/store core/agent io base
cli: runtime base
sim: wire core/agent base
""",
    "include/regroup/result.h": "#include <tl/expected.hpp>\n#include <string>\n",
    "include/regroup/store.h": '#include "regroup/result.h"\n',
    "src/base/bytes.h": '#include <vector>\n#include "regroup/result.h"\n',
    "src/base/testing.h": "#include <gtest/gtest.h>\n",
    "src/core/store/keyspace.h": '#include <chrono>\n#include "base/bytes.h"\n#include "regroup/time.h"\n'
                                 'class Keyspace {};\n',
    "src/core/store/keyspace.cc": '#include "core/store/keyspace.h"\n'
                                  '// No steady_clock here, and no #include <thread>.\n'
                                  '/*\n#include <thread>\n*/\n'
                                  'const char* kText = "// getenv"; int kBig = 1\'000\'000;\n',
    "src/core/store/keyspace_test.cc": "#include <gmock/gmock.h>\n"
                                       '#include "base/testing.h"\n#include "core/store/keyspace.h"\n',
    "src/core/rendezvous/state.h": "",
    "src/core/agent/agent.cc": '#include "core/store/keyspace.h"\n#include "core/rendezvous/state.h"\n',
    "src/wire/parse.cc": '#include "core/store/keyspace.h"\n#include "wire/parse.h"\n',
    "src/wire/parse_fuzz.cc": '#include "wire/parse.h"\n#include "base/testing.h"\n',
    "src/io/loop.h": "#include <sys/socket.h>\n",
    "src/io/loop.cc": "#include <boost/asio/io_context.hpp>\n#include <thread>\n",
    "src/runtime/server.cc": '#include <boost/beast/http.hpp>\n#include "io/loop.h"\n#include "wire/parse.h"\n'
                             '#include "core/store/keyspace.h"\n#include "regroup/store.h"\n',
    "src/cli/main.cc": '#include <iostream>\n#include "runtime/server.h"\n#include "regroup/store.h"\n',
    "src/wire/bytes/reader.h": "struct Reader;\n",
    "src/wire/list.cc": "wire::Reader reader;\n",
    "src/sim/world.cc": '#include "wire/parse.h"\n#include "core/agent/agent.h"\n',
}

# (file, its first line, what the complaint must say)
BAD = [
    ("src/base/a.h", '#include "core/store/keyspace.h"', "base ▶ core/store"),
    ("src/base/a.h", '#include "io/loop.h"', "base ▶ io"),
    ("src/base/a.h", '#include "regroup/store.h"', "base ▶ regroup/store.h"),
    ("src/core/store/a.h", '#include "core/rendezvous/state.h"', "core/store ▶ core/rendezvous"),
    ("src/core/store/a.h", '#include "core/agent/agent.h"', "core/store ▶ core/agent"),
    ("src/core/store/a.h", '#include "wire/parse.h"', "core/store ▶ wire"),
    ("src/core/agent/a.h", '#include "io/loop.h"', "core/agent ▶ io"),
    ("src/core/agent/a.h", '#include "regroup/store.h"', "core/agent ▶ regroup/store.h"),
    ("src/wire/a.cc", '#include "io/loop.h"', "wire ▶ io"),
    ("src/wire/a.cc", '#include "runtime/server.h"', "wire ▶ runtime"),
    ("src/io/a.cc", '#include "core/store/keyspace.h"', "io ▶ core/store"),
    ("src/io/a.cc", '#include "wire/parse.h"', "io ▶ wire"),
    ("src/runtime/a.cc", '#include "cli/flags.h"', "runtime ▶ cli"),
    ("src/runtime/a.cc", '#include "sim/world.h"', "runtime ▶ sim"),
    ("src/cli/a.cc", '#include "wire/parse.h"', "cli ▶ wire"),
    ("src/cli/a.cc", '#include "io/loop.h"', "cli ▶ io"),
    ("src/cli/a.cc", '#include <core/store/keyspace.h>', "cli ▶ core/store"),
    ("src/sim/a.cc", '#include "io/loop.h"', "sim ▶ io"),
    ("src/sim/a.cc", '#include "runtime/server.h"', "sim ▶ runtime"),
    ("src/core/store/a.cc", "#  include <thread>", "core/store ▶ <thread>"),
    ("src/core/store/a_test.cc", "#include <mutex>", "core/store ▶ <mutex>"),
    ("src/core/store/a.cc", "#include <sys/types.h>", "core/store ▶ <sys/types.h>"),
    ("src/wire/a.cc", "#include <unistd.h>", "wire ▶ <unistd.h>"),
    ("src/wire/a.cc", "#include <netinet/in.h>", "wire ▶ <netinet/in.h>"),
    ("src/wire/a.cc", "#include <fstream>", "wire ▶ <fstream>"),
    ("src/wire/a.cc", "#include <random>", "wire ▶ <random>"),
    ("src/wire/a.cc", "#include <spdlog/spdlog.h>", "wire ▶ <spdlog/spdlog.h>"),
    ("src/wire/a.cc", "#include <boost/asio.hpp>", "wire ▶ <boost/asio.hpp>"),
    ("src/wire/a.cc", "auto now = std::chrono::steady_clock::now();", "steady_clock"),
    ("src/core/store/a.h", "using Wall = std::chrono::system_clock;", "system_clock"),
    ("src/core/store/a.cc", 'auto* home = std::getenv("HOME");', "getenv"),
    ("src/io/a.h", "#include <boost/asio/io_context.hpp>", "io ▶ <boost/asio/io_context.hpp>"),
    ("src/runtime/a.h", "#include <boost/beast.hpp>", "runtime ▶ <boost/beast.hpp>"),
    ("src/cli/a.cc", "#include <boost/asio.hpp>", "cli ▶ <boost/asio.hpp>"),
    ("src/base/a.cc", "#include <gtest/gtest.h>", "base ▶ gtest/gtest.h"),
    ("src/io/a.cc", '#include "base/testing.h"', "only tests"),
    ("src/io/a.cc", '#include "loop.h"', "relative to src/"),
    ("src/cli/a.cc", "core::store::Keyspace keys;", "cli ▶ core/store: core::store::Keyspace is used through another header"),
    ("src/cli/a.cc", "auto state = runtime::x; wire::Reader r;", "cli ▶ wire/bytes"),
    ("src/stray.cc", "int main() {}", "belongs to no room"),
    ("src/core/stray.h", "", "belongs to no room"),
    ("include/regroup/a.h", '#include "base/bytes.h"', "include/ ▶ base/bytes.h"),
    ("include/regroup/a.h", "#include <boost/asio.hpp>", "include/ ▶ boost/asio.hpp"),
]


def run_layers(root):
    done = subprocess.run([sys.executable, LAYERS, root], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def write(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


class Layers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path, text in GOOD.items():
            write(self.root, path, text)
        for folder in self.root.glob("src/**/"):
            write(folder, "README.md", "# a room\n")

    def test_our_own_tree_follows_the_arrows(self):
        status, output = run_layers(ROOT)
        self.assertEqual(status, 0, output)

    def test_a_good_tree_passes(self):
        status, output = run_layers(self.root)
        self.assertEqual(status, 0, output)

    def test_each_wrong_arrow_is_named_with_its_file_and_line(self):
        for path, line, complaint in BAD:
            with self.subTest(path=path, line=line):
                file = write(self.root, path, line + "\n")
                status, output = run_layers(self.root)
                file.unlink()
                self.assertEqual(status, 1, output)
                self.assertIn(f"{path}:1: ", output)
                self.assertIn(complaint, output)
                self.assertIn("layers: 1 wrong", output)

    def test_line_numbers_survive_comments_and_raw_strings(self):
        write(self.root, "src/wire/a.cc", '/* one\ntwo */\nauto s = R"x(\n"\n)x";\n#include <thread>\n')
        status, output = run_layers(self.root)
        self.assertEqual(status, 1)
        self.assertIn("src/wire/a.cc:6: wire ▶ <thread>", output)

    def complaint(self):
        status, output = run_layers(self.root)
        self.assertEqual(status, 1, output)
        return output

    def test_files_that_include_each_other_are_named(self):
        write(self.root, "src/io/a.h", '#include "io/b.h"\n')
        write(self.root, "src/io/b.h", "")
        write(self.root, "src/io/b.cc", '#include "io/c.h"\n')
        write(self.root, "src/io/c.h", '#include "io/a.h"\n')
        self.assertIn("src/io/a: includes itself by way of io/b, io/c", self.complaint())

    def test_rooms_that_use_each_other_are_named(self):
        rooms = self.root / "src/rooms.txt"
        rooms.write_text(rooms.read_text().replace("wire/bytes: base", "wire/bytes: wire base"))
        self.assertIn("src/rooms.txt: wire/bytes uses wire, which must stand above it", self.complaint())

    def test_a_room_that_is_too_full_is_named_and_tests_do_not_count(self):
        for number in range(39):
            write(self.root, f"src/io/a{number}.h", "")
            write(self.root, f"src/io/a{number}_test.cc", "")
        self.assertIn("src/io: has 41 sources", self.complaint())

    def test_a_folder_without_a_readme_is_named(self):
        for folder in ("src/io", "src/core/store"):
            with self.subTest(folder=folder):
                readme = self.root / folder / "README.md"
                readme.unlink()
                status, output = run_layers(self.root)
                readme.write_text("# a room\n")
                self.assertEqual(status, 1)
                self.assertIn(f"{folder}: has no README.md", output)


if __name__ == "__main__":
    unittest.main()
