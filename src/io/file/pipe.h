// Descriptors that the output of processes flows through.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/loop/descriptor.h"
#include "regroup/result.h"

namespace regroup::io {

struct Pipe {
  Descriptor read;   // Does not block.
  Descriptor write;  // Blocks, as programs expect of their output.
  std::size_t capacity = 0;
};
// Of `capacity` bytes, or less where the system limits memory for pipes.
Result<Pipe> make_pipe(std::size_t capacity);

struct Got {
  std::size_t bytes = 0;
  bool end = false;  // The other end is closed, and everything was read.
};
// Reads until `room` is full or there is nothing more for now. For a pipe or the master of a
// pseudo-terminal.
Got read_available(int fd, std::span<char> room);

// Writes all of it, waiting as long as it takes. The error is errno in words. Fewer bytes are
// written than asked for only with an error.
struct Put {
  std::size_t bytes = 0;
  int error = 0;  // errno; 0: none.
};
Put write_all(int fd, std::string_view bytes);

// The text of an errno, for messages.
std::string error_in_words(int error);

Result<Descriptor> open_null();        // To write to: /dev/null.
Result<Descriptor> duplicate(int fd);  // Not inherited by processes.

enum class FdKind { Closed, Terminal, File, Device, Stream };  // Stream: a pipe or a socket.
FdKind kind_of(int fd);
// The same file, pipe, socket or device; also one terminal by two names, as /dev/tty is.
bool is_same_file(int fd, int other);

// Counts wake-ups, for a thread that waits for descriptors.
class WakeUp {
 public:
  static Result<WakeUp> open();
  int descriptor() const { return fd_.get(); }  // Readable once ring() was called.
  void ring() const;
  void clear() const;

 private:
  explicit WakeUp(Descriptor fd) : fd_(std::move(fd)) {}
  Descriptor fd_;
};

}  // namespace regroup::io
