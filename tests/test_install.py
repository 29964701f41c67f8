"""An installed regroup is enough to run it and to build a program on it."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["REGROUP_BUILD"])

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(embedding LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(regroup REQUIRED)
add_executable(program program.cc)
target_link_libraries(program PRIVATE regroup::regroup)
"""

PROGRAM = """
#include <iostream>

#include "regroup/store.h"

int main() {
  auto server = regroup::StoreServer::start({});
  if (!server) return 1;
  auto store = regroup::connect_tcp_store({.host = "127.0.0.1", .port = (*server)->port()});
  if (!store || !(*store)->set("greeting", "hello")) return 1;
  std::cout << *(*store)->get("greeting");
}
"""


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        cls.run_checked("cmake", "--install", BUILD, "--prefix", cls.prefix)

    @staticmethod
    def run_checked(*command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def test_the_installed_binary_runs(self):
        self.assertRegex(self.run_checked(self.prefix / "bin" / "regroup", "--version"), r"regroup \d")

    def test_a_program_can_be_built_on_what_was_installed(self):
        source = self.folder / "source"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT)
        (source / "program.cc").write_text(PROGRAM)
        self.run_checked("cmake", "-G", "Ninja", "-S", source, "-B", self.folder / "build",
                         f"-DCMAKE_PREFIX_PATH={self.prefix}")
        self.run_checked("cmake", "--build", self.folder / "build")
        self.assertEqual(self.run_checked(self.folder / "build" / "program"), "hello")


if __name__ == "__main__":
    unittest.main()
