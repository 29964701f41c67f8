// A few numbers that two processes share: a small file, mapped into both.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "regroup/result.h"

namespace regroup::io {

class SharedCells {
 public:
  // Only our user may open it. All cells are 0. An earlier file at the path is replaced, and who
  // has it mapped shares nothing with us. Removed with the object.
  static Result<std::unique_ptr<SharedCells>> create(const std::string& path, std::size_t cells);
  // One that somebody has created.
  static Result<std::unique_ptr<SharedCells>> open(const std::string& path, std::size_t cells);
  ~SharedCells();
  SharedCells(const SharedCells&) = delete;
  SharedCells& operator=(const SharedCells&) = delete;

  const std::string& path() const { return path_; }
  std::atomic<std::int64_t>& operator[](std::size_t cell) const { return cells_[cell]; }

 private:
  SharedCells(std::string path, std::size_t cells, bool is_owner);
  Result<void> map(int fd);

  std::string path_;
  std::size_t count_;
  bool is_owner_;
  std::atomic<std::int64_t>* cells_ = nullptr;
};

}  // namespace regroup::io
