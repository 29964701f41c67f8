// A file descriptor that is ours to close.
#pragma once

namespace regroup::io {

// Closed when it goes; errno is as before then, so that it can still tell why it went. -1: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  // False: errno says why what was written may be lost. It is closed all the same.
  bool close();

 private:
  int fd_;
};

}  // namespace regroup::io
