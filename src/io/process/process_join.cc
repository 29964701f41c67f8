#include "io/process/process_join.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace regroup::io {
namespace {

// A process that forks faster than we look is given up after this many rounds.
constexpr int kLooks = 10;

std::string members_of(int directory) {
  const Descriptor file(::openat(directory, "cgroup.procs", O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> some;
  for (ssize_t size; file.get() >= 0 && (size = ::read(file.get(), some.data(), some.size())) > 0;)
    text.append(some.data(), static_cast<std::size_t>(size));
  return text;
}

void move(int procs, pid_t pid) {
  const std::string number = std::to_string(pid);
  // It is gone, or the kernel refused: then its memory is counted with ours, as before.
  [[maybe_unused]] const ssize_t ignored = ::write(procs, number.data(), number.size());
}

void move_with_descendants(const LateJoin& join) {
  move(join.procs.get(), join.pid);
  std::set<pid_t> moved{join.pid};
  for (int look = 0; look < kLooks; ++look) {
    bool found = false;
    const std::string members = members_of(join.born_in.get());
    for (std::string_view rest = members; !rest.empty();) {
      pid_t pid = 0;
      std::from_chars(rest.data(), rest.data() + rest.size(), pid);
      if (pid > 0 && moved.insert(pid).second) {
        move(join.procs.get(), pid);
        found = true;
      }
      const std::size_t end = rest.find('\n');
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    if (!found) return;
  }
}

void move_all(const std::vector<LateJoin>& joins) {
  for (const LateJoin& join : joins) move_with_descendants(join);
}

}  // namespace

std::shared_future<void> join_late(std::vector<LateJoin> joins) {
  auto shared = std::make_shared<std::vector<LateJoin>>(std::move(joins));
  try {
    return std::async(std::launch::async, [shared] { move_all(*shared); }).share();
  } catch (const std::system_error&) {
    move_all(*shared);  // No thread could be started, so it is done here, only later.
    return {};
  }
}

}  // namespace regroup::io
