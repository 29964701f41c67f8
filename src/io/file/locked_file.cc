#include "io/file/locked_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "io/loop/clock.h"

namespace regroup::io {
namespace {

tl::unexpected<Error> file_error(const char* action, const std::string& path) {
  return fail(ErrorKind::Io, fmt::format("cannot {} '{}': {}", action, path, std::strerror(errno)));
}

}  // namespace

Result<LockedFile> LockedFile::open(const std::string& path, Lock lock, Instant deadline) {
  const int flags = lock == Lock::Exclusive ? O_RDWR | O_CREAT : O_RDONLY;
  LockedFile file(Descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0644)), path);
  if (!file.fd_) return file.failed("open");
  const int operation = (lock == Lock::Exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  // flock has no deadline. Holders keep the lock for microseconds, so the first tries are quick.
  Duration pause = 50us;
  while (::flock(file.fd_.get(), operation) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file.failed("lock");
    if (now() >= deadline)
      return fail(ErrorKind::Timeout,
                  "cannot lock '" + path + "': another process holds the lock all the time");
    std::this_thread::sleep_for(pause);
    if (pause < 5ms) pause *= 2;
  }
  // The file may have been removed between our open and our lock; what we wrote there would be
  // lost.
  struct stat info {};
  if (::fstat(file.fd_.get(), &info) != 0) return file.failed("look at");
  if (info.st_nlink == 0) return open(path, lock, deadline);
  return file;
}

tl::unexpected<Error> LockedFile::failed(const char* action) const {
  return file_error(action, path_);
}

Result<std::uint64_t> LockedFile::size() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return failed("look at");
  return static_cast<std::uint64_t>(info.st_size);
}

bool LockedFile::is(const FileAnchor& anchor) const {
  struct stat mine {};
  struct stat held {};
  return anchor.fd_ && ::fstat(fd_.get(), &mine) == 0 && ::fstat(anchor.fd_.get(), &held) == 0 &&
         mine.st_dev == held.st_dev && mine.st_ino == held.st_ino;
}

Result<FileAnchor> LockedFile::anchor() const {
  // Not a duplicate of our descriptor, which would share the lock and keep it.
  const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
  Descriptor fd(::open(self.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return failed("hold on to");
  return FileAnchor(std::move(fd));
}

Result<void> LockedFile::read_from(std::uint64_t offset, ByteBuffer& out) const {
  for (;;) {
    const auto room = out.prepare(64 * 1024);
    const ssize_t got = ::pread(fd_.get(), room.data(), room.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read");
    if (got == 0) return {};
    out.commit(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

Result<void> LockedFile::append(std::string_view bytes) {
  const auto before = size();
  if (!before) return tl::unexpected(before.error());
  std::uint64_t end = *before;
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(end));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      auto failure = failed("write to");
      // If this fails too, nothing better is left to do.
      [[maybe_unused]] const auto taken_back = truncate(*before);
      return failure;
    }
    end += static_cast<std::uint64_t>(put);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Result<void> LockedFile::truncate(std::uint64_t size) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) return failed("shorten");
  return {};
}

Result<void> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return file_error("remove", path);
  return {};
}

Result<void> write_file(const std::string& path, std::string_view contents) {
  const std::string fresh = fmt::format("{}.new.{}", path, ::getpid());
  // In a directory that others may write to, a link of theirs may be there: it must not be followed.
  const auto make = [&] {
    return ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  };
  Descriptor fd(make());
  if (!fd && errno == EEXIST && ::unlink(fresh.c_str()) == 0) fd = Descriptor(make());
  if (!fd) return file_error("write", path);
  const bool whole =
      ::write(fd.get(), contents.data(), contents.size()) == static_cast<ssize_t>(contents.size());
  if (fd.close() && whole && std::rename(fresh.c_str(), path.c_str()) == 0) return {};
  auto failure = file_error("write", path);
  ::unlink(fresh.c_str());
  return failure;
}

}  // namespace regroup::io
