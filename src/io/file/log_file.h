// A file that output is appended to, and that can be rotated: renamed, and begun anew under its
// name.
#pragma once

#include <string>
#include <string_view>

#include "io/file/pipe.h"
#include "regroup/result.h"

namespace regroup::io {

class LogFile {
 public:
  // Empty, mode 0644 as far as the umask allows. Not inherited by processes.
  static Result<LogFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  int descriptor() const { return fd_.get(); }
  bool is_regular() const { return regular_; }  // Others (/dev/null, a FIFO) cannot be rotated.
  Descriptor take_descriptor() { return std::move(fd_); }

  Put write(std::string_view bytes) { return write_all(fd_.get(), bytes); }

  // PATH becomes PATH.1, that PATH.2, and so on; what was PATH.`keep` is removed. With nothing to
  // keep the file is emptied. After a failure it goes on where it was, perhaps under the name
  // PATH.1.
  Result<void> rotate(int keep);

 private:
  LogFile(std::string path, Descriptor fd, bool regular)
      : path_(std::move(path)), fd_(std::move(fd)), regular_(regular) {}
  std::string path_;
  Descriptor fd_;
  bool regular_;
};

// The last `most` bytes of a file; fewer if it is shorter, nothing if it cannot be read.
std::string read_end(const std::string& path, std::size_t most);

}  // namespace regroup::io
