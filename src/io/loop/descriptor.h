// A file descriptor that is ours to close.
#pragma once

namespace regroup::io {

// Closed when destroyed; that leaves errno unchanged, so that the caller can still tell what
// failed. -1: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  // False: what was written may be lost, and errno says why. It is closed in any case.
  bool close();

 private:
  int fd_;
};

}  // namespace regroup::io
