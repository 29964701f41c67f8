#include "io/file/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "io/loop/descriptor.h"

namespace regroup::io {

Result<RegularFile> read_regular_file(const std::string& path, std::size_t most) {
  const auto unreadable = [](int error) {
    return fail(ErrorKind::InvalidArgument, "cannot be read: " + std::string(std::strerror(error)));
  };
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return unreadable(errno);
  struct stat about {};
  RegularFile file;
  ssize_t got = 0;
  const bool is_known = ::fstat(fd.get(), &about) == 0;
  const bool is_regular = is_known && S_ISREG(about.st_mode);
  std::array<char, 1024> room;
  while (is_regular && file.contents.size() <= most &&
         (got = ::read(fd.get(), room.data(), room.size())) > 0)
    file.contents.append(room.data(), static_cast<std::size_t>(got));
  if (!is_known || got < 0) return unreadable(errno);
  if (!is_regular) return fail(ErrorKind::InvalidArgument, "is no regular file");
  file.mode = about.st_mode;
  return file;
}

}  // namespace regroup::io
