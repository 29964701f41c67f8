// A named pipe that we read and any process of ours may write to.
//
//   auto fifo = Fifo::create("/tmp/watchdog_timer_…");     // There from now on, with a reader.
//   (*fifo)->watch(loop, [&] { (*fifo)->read(…); });
//
// Lives on one thread. The path is removed with the object, if it is still ours.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/file/pipe.h"
#include "regroup/result.h"
#include "regroup/time.h"

namespace regroup::io {

class Loop;

class Fifo {
 public:
  // Only our user may open it. A pipe that an earlier run has left, without a reader, and an empty
  // file are replaced; anything else at the path may belong to another program, and is refused.
  static Result<std::unique_ptr<Fifo>> create(const std::string& path);
  ~Fifo();
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;

  // Calls back while there is something to read. False: no descriptors or memory left.
  bool watch(Loop& loop, std::function<void()> readable);

  // What is there, at most `room`; never waits, and never reports an end.
  std::size_t read(std::span<char> room) const;

  const std::string& path() const { return path_; }
  std::size_t capacity() const { return capacity_; }  // Of the pipe, in bytes.

 private:
  struct Watch;
  Fifo(std::string path, Descriptor fd);

  std::string path_;
  Descriptor fd_;
  std::size_t capacity_ = 0;
  dev_t device_ = 0;
  ino_t file_ = 0;
  std::unique_ptr<Watch> watch_;
};

// Writes a text of at most PIPE_BUF bytes as a whole into another process's named pipe: opens it,
// writes, closes it. Waits while the pipe is full, at most `patience`. Raises no SIGPIPE.
// InvalidArgument: too long, or there is no pipe at the path. Connection: the pipe has no reader.
// Timeout: it has one that does not read.
Result<void> write_to_fifo(const std::string& path, std::string_view text, Duration patience);

}  // namespace regroup::io
