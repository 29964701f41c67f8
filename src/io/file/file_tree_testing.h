// A directory that plays / for tests of what is read from /proc, /sys and /dev.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace regroup::io {

class FileTree {
 public:
  FileTree() {
    std::string path = testing::TempDir() + "file_tree_XXXXXX";
    root_ = ::mkdtemp(path.data());
  }
  ~FileTree() { std::filesystem::remove_all(root_); }
  FileTree(const FileTree&) = delete;
  FileTree& operator=(const FileTree&) = delete;

  void add(const std::string& path, const std::string& text = "") const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace regroup::io
