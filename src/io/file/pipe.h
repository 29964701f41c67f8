// Descriptors that the output of processes flows through.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "regroup/result.h"

namespace regroup::io {

// Closed when it goes. -1: none.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_;
};

struct Pipe {
  OwnedFd read;   // Does not block.
  OwnedFd write;  // Blocks, as programs expect of their output.
  std::size_t capacity = 0;
};
// Of `capacity` bytes, or less where the system is sparing with memory.
Result<Pipe> make_pipe(std::size_t capacity);

struct Got {
  std::size_t bytes = 0;
  bool end = false;  // Nobody holds the other end any more, and all was read.
};
// Until `room` is full or there is nothing more for now. Of a pipe or the master of a
// pseudo-terminal.
Got read_available(int fd, std::span<char> room);

// All of it, waiting as long as it takes. The error is errno in words. Fewer bytes were written
// than asked for only with an error.
struct Put {
  std::size_t bytes = 0;
  int error = 0;  // errno; 0: none.
};
Put write_all(int fd, std::string_view bytes);

// What people call an errno.
std::string error_in_words(int error);

Result<OwnedFd> open_null();        // To write to: /dev/null.
Result<OwnedFd> duplicate(int fd);  // Not inherited by processes.

enum class FdKind { Closed, Terminal, File, Device, Stream };  // Stream: a pipe or a socket.
FdKind kind_of(int fd);
bool is_same_file(int fd, int other);

// Counts wake-ups, for a thread that waits for descriptors.
class WakeUp {
 public:
  static Result<WakeUp> open();
  int descriptor() const { return fd_.get(); }  // Readable once somebody has called ring().
  void ring() const;
  void clear() const;

 private:
  explicit WakeUp(OwnedFd fd) : fd_(std::move(fd)) {}
  OwnedFd fd_;
};

}  // namespace regroup::io
