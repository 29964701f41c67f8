#include "io/cgroup/cgroup_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

namespace regroup::io {
namespace {

constexpr int kNamesTried = 100;

std::vector<std::string> children(const std::string& directory) {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), ::closedir);
  if (!open) return found;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..")
      found.push_back(directory + "/" + std::string(name));
  }
  return found;
}

bool remove_once(const std::string& directory) {
  for (const std::string& child : children(directory)) remove_once(child);
  return ::rmdir(directory.c_str()) == 0 || errno == ENOENT;
}

}  // namespace

Result<std::string> make_group(const std::string& parent, const std::string& name) {
  constexpr mode_t kMode = 0755;
  const std::string wanted = parent + "/" + name;
  std::string path = wanted;
  for (int i = 2; i <= kNamesTried + 1; ++i) {
    if (::mkdir(path.c_str(), kMode) == 0) return path;
    if (errno != EEXIST)
      return fail(ErrorKind::Io, fmt::format("cannot make {}: {}", path, std::strerror(errno)));
    path = wanted;
    path += fmt::format(".{}", i);
  }
  return fail(ErrorKind::Io, fmt::format("cannot make {}: it and {} more of the name are in use. "
                                         "Remove those that are not needed.",
                                         wanted, kNamesTried - 1));
}

void remove_abandoned_groups(const std::string& parent, const std::string& prefix) {
  for (const std::string& directory : children(parent)) {
    if (!std::string_view(directory).substr(parent.size() + 1).starts_with(prefix)) continue;
    if (const Descriptor lock = lock_group(directory)) remove_once(directory);
  }
}

Descriptor lock_group(const std::string& directory) {
  Descriptor group(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (group && ::flock(group.get(), LOCK_EX | LOCK_NB) != 0) group.close();
  return group;
}

bool remove_group(const std::string& directory) {
  using std::chrono::milliseconds;
  for (milliseconds pause{1}; pause <= milliseconds{16}; pause *= 2) {
    if (remove_once(directory)) return true;
    if (errno != EBUSY) return false;
    std::this_thread::sleep_for(pause);
  }
  return remove_once(directory);
}

}  // namespace regroup::io
