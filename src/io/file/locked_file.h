// A file that several processes append to, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/byte_buffer.h"
#include "base/instant.h"
#include "io/loop/descriptor.h"
#include "regroup/result.h"

namespace regroup::io {

enum class Lock { Shared, Exclusive };

// Holds on to a file without a lock, so that one that was removed and made again under the same
// name can be told from it: as long as it is held, its number in the file system is not given to
// another.
class FileAnchor {
 public:
  FileAnchor() = default;

 private:
  friend class LockedFile;
  explicit FileAnchor(Descriptor fd) : fd_(std::move(fd)) {}
  Descriptor fd_;
};

// Open and locked for as long as the object lives.
class LockedFile {
 public:
  // An exclusive lock creates the file (mode 0644); for a shared one it must exist. Tries to get
  // the lock until the deadline.
  static Result<LockedFile> open(const std::string& path, Lock lock, Instant deadline);

  Result<std::uint64_t> size() const;

  // Whether it is the file that the anchor holds, whatever its name.
  bool is(const FileAnchor& anchor) const;
  Result<FileAnchor> anchor() const;

  // Appends the bytes from `offset` to the end of the file to `out`.
  Result<void> read_from(std::uint64_t offset, ByteBuffer& out) const;

  // All of it or nothing: a torn record at the end would hang PyTorch's readers for ever, so a
  // write that a full disk cut short is taken back.
  Result<void> append(std::string_view bytes);

  // Cuts off everything after `size`.
  Result<void> truncate(std::uint64_t size);

 private:
  LockedFile(Descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  tl::unexpected<Error> failed(const char* action) const;

  Descriptor fd_;  // Closing it gives up the lock.
  std::string path_;
};

Result<void> remove_file(const std::string& path);

// Replaces the file in one step, so that a reader sees the old contents or the new. A link is
// replaced, too; where it leads to is not touched.
Result<void> write_file(const std::string& path, std::string_view contents);

}  // namespace regroup::io
