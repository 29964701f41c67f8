// A few numbers that two processes share: a small file in memory, mapped into both. It has no name
// on any disk, so no other process can create it first and nothing is left behind; and it cannot be
// made shorter, which would kill a process that reads its end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "io/file/pipe.h"
#include "regroup/result.h"

namespace regroup::io {

class SharedCells {
 public:
  // Only our user may open it, and only while the object is there. All cells are 0.
  static Result<std::unique_ptr<SharedCells>> create(std::size_t cells);
  // Opens the cells that another process has created, by their path(). Nothing else is mapped: in
  // another namespace, or when its owner has ended, the path may be that of any file.
  static Result<std::unique_ptr<SharedCells>> open(const std::string& path, std::size_t cells);
  ~SharedCells();
  SharedCells(const SharedCells&) = delete;
  SharedCells& operator=(const SharedCells&) = delete;

  // For processes that see ours in /proc.
  const std::string& path() const { return path_; }
  std::atomic<std::int64_t>& operator[](std::size_t cell) const { return cells_[cell]; }

 private:
  SharedCells(std::string path, std::size_t cells);
  Result<void> map(int fd);

  std::string path_;
  std::size_t count_;
  Descriptor fd_;  // The owner's.
  std::atomic<std::int64_t>* cells_ = nullptr;
};

}  // namespace regroup::io
