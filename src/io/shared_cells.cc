#include "io/shared_cells.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/pipe.h"

namespace regroup::io {
namespace {

// Both processes use plain stores and loads of the machine.
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

tl::unexpected<Error> cannot(const char* what, const std::string& path, int error) {
  return fail(ErrorKind::Io, std::string("cannot ") + what + " the file " + path +
                                 ", which two processes are to share: " + error_in_words(error));
}

}  // namespace

SharedCells::SharedCells(std::string path, std::size_t cells, bool is_owner)
    : path_(std::move(path)), count_(cells), is_owner_(is_owner) {}

Result<void> SharedCells::map(int fd) {
  const std::size_t bytes = count_ * sizeof cells_[0];
  struct stat info {};
  // Beyond its end the first store would kill us.
  if (::fstat(fd, &info) != 0) return cannot("look at", path_, errno);
  if (static_cast<std::size_t>(info.st_size) < bytes) return cannot("use", path_, EINVAL);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return cannot("map", path_, errno);
  cells_ = static_cast<std::atomic<std::int64_t>*>(mapped);
  return {};
}

Result<std::unique_ptr<SharedCells>> SharedCells::create(const std::string& path,
                                                         std::size_t cells) {
  ::unlink(path.c_str());
  const OwnedFd fd(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!fd) return cannot("make", path, errno);
  std::unique_ptr<SharedCells> shared(new SharedCells(path, cells, true));
  // Its memory is taken now: on a full disk a store into a hole would kill us.
  if (const int error = ::posix_fallocate(
          fd.get(), 0, static_cast<off_t>(cells * sizeof(std::atomic<std::int64_t>)));
      error != 0)
    return cannot("make", path, error);
  if (auto mapped = shared->map(fd.get()); !mapped) return tl::unexpected(mapped.error());
  return shared;
}

Result<std::unique_ptr<SharedCells>> SharedCells::open(const std::string& path, std::size_t cells) {
  const OwnedFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return cannot("open", path, errno);
  std::unique_ptr<SharedCells> shared(new SharedCells(path, cells, false));
  if (auto mapped = shared->map(fd.get()); !mapped) return tl::unexpected(mapped.error());
  return shared;
}

SharedCells::~SharedCells() {
  if (cells_ != nullptr) ::munmap(cells_, count_ * sizeof cells_[0]);
  if (is_owner_) ::unlink(path_.c_str());
}

}  // namespace regroup::io
