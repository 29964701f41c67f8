#include "io/loop/descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace regroup::io {

Descriptor::~Descriptor() {
  const int error = errno;
  close();
  errno = error;
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  const Descriptor before(std::exchange(fd_, std::exchange(other.fd_, -1)));
  return *this;
}

bool Descriptor::close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

}  // namespace regroup::io
