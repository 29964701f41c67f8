#include "io/file/shared_cells.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace regroup::io {
namespace {

// Both processes use plain stores and loads of the machine.
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW;

tl::unexpected<Error> cannot(const char* what, const std::string& path, int error) {
  return fail(ErrorKind::Io,
              fmt::format("cannot {} the file {}, which two processes are to share: {}", what, path,
                          error_in_words(error)));
}

}  // namespace

SharedCells::SharedCells(std::string path, std::size_t cells)
    : path_(std::move(path)), count_(cells) {}

Result<void> SharedCells::map(int fd) {
  const std::size_t bytes = count_ * sizeof cells_[0];
  struct stat info {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSize) != kSize) return cannot("use", path_, EINVAL);
  // Beyond its end the first store would kill us.
  if (::fstat(fd, &info) != 0) return cannot("look at", path_, errno);
  if (static_cast<std::size_t>(info.st_size) < bytes) return cannot("use", path_, EINVAL);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return cannot("map", path_, errno);
  cells_ = static_cast<std::atomic<std::int64_t>*>(mapped);
  return {};
}

Result<std::unique_ptr<SharedCells>> SharedCells::create(std::size_t cells) {
  Descriptor fd(::memfd_create("regroup_cells", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return cannot("make", "in memory", errno);
  const std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), fd.get());
  if (::fchmod(fd.get(), S_IRUSR | S_IWUSR) != 0) return cannot("make", path, errno);
  // Its memory is reserved now: with none left, a store into a hole would kill us.
  if (const int error = ::posix_fallocate(
          fd.get(), 0, static_cast<off_t>(cells * sizeof(std::atomic<std::int64_t>)));
      error != 0)
    return cannot("make", path, error);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSize | F_SEAL_SEAL) != 0) return cannot("seal", path, errno);
  std::unique_ptr<SharedCells> shared(new SharedCells(path, cells));
  if (auto mapped = shared->map(fd.get()); !mapped) return tl::unexpected(mapped.error());
  shared->fd_ = std::move(fd);
  return shared;
}

Result<std::unique_ptr<SharedCells>> SharedCells::open(const std::string& path, std::size_t cells) {
  // Not blocking: the path may have become that of another process's pipe.
  const Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return cannot("open", path, errno);
  std::unique_ptr<SharedCells> shared(new SharedCells(path, cells));
  if (auto mapped = shared->map(fd.get()); !mapped) return tl::unexpected(mapped.error());
  return shared;
}

SharedCells::~SharedCells() {
  if (cells_ != nullptr) ::munmap(cells_, count_ * sizeof cells_[0]);
}

}  // namespace regroup::io
