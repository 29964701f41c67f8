#include "io/process/process_descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

// Raw system calls throughout: sanitizers put code that takes locks around those of libc, and in
// the child of a program with threads such a lock may be held for ever.

namespace regroup::io {
namespace {

constexpr unsigned kCloseRangeOnExec = 1u << 2;  // CLOSE_RANGE_CLOEXEC; missing in older headers.

void close_one(int fd, Closing when) {
  switch (when) {
    case Closing::Now:
      ::syscall(SYS_close, fd);
      return;
    case Closing::OnExec:
      ::syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
      return;
  }
}

// As getdents64(2) writes it.
struct DirectoryEntry {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];
};

// -1: not a number.
int number(const char* text) {
  if (*text == '\0') return -1;
  int value = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return -1;
    value = value * 10 + (*text - '0');
  }
  return value;
}

}  // namespace

void close_descriptors_from(int first, Closing when) {
  const unsigned flags = when == Closing::OnExec ? kCloseRangeOnExec : 0;
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0u, flags) == 0) return;
  close_each_descriptor_from(first, when);
}

void close_each_descriptor_from(int first, Closing when) {
  const int directory = static_cast<int>(
      ::syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory < 0) {
    constexpr rlim_t kMost = 1 << 20;  // Some containers allow a billion.
    rlimit limit{kMost, kMost};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const int end = static_cast<int>(std::min(limit.rlim_cur, kMost));
    for (int fd = first; fd < end; ++fd) close_one(fd, when);
    return;
  }
  // The position in the list is the number itself, so closing along the way skips none.
  alignas(DirectoryEntry) std::array<char, 4096> entries;
  for (;;) {
    const long size = ::syscall(SYS_getdents64, directory, entries.data(), entries.size());
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(entries.data() + at);
      const int fd = number(entry->name);
      if (fd >= first && fd != directory) close_one(fd, when);
      at += entry->size;
    }
  }
  ::syscall(SYS_close, directory);
}

}  // namespace regroup::io
