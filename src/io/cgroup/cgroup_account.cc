#include "io/cgroup/cgroup_account.h"

#include "io/cgroup/cgroup_files.h"
#include "io/file/kernel_files.h"

namespace regroup::io {
namespace {

using Parse = std::optional<std::uint64_t> (*)(std::string_view);

std::optional<std::uint64_t> read_number(const std::string& path, Parse parse) {
  const auto text = read_text(path);
  return text ? parse(*text) : std::nullopt;
}

}  // namespace

std::optional<MemoryAccount> read_memory_account(const std::string& directory) {
  if (const auto events = read_text(directory + "/memory.events"))
    return MemoryAccount{.group = directory,
                         .oom_kills = number_of(*events, "oom_kill"),
                         .peak_bytes = read_number(directory + "/memory.peak", parse_number),
                         .limit_bytes = read_number(directory + "/memory.max", parse_limit)};
  if (const auto control = read_text(directory + "/memory.oom_control"))
    return MemoryAccount{
        .group = directory,
        .oom_kills = number_of(*control, "oom_kill"),
        .peak_bytes = read_number(directory + "/memory.max_usage_in_bytes", parse_number),
        .limit_bytes = read_number(directory + "/memory.limit_in_bytes", parse_limit)};
  return {};
}

std::optional<MemoryAccount> own_memory_account(const std::string& proc) {
  const auto v1 = find_own_group(proc, "memory");
  const auto own = v1 ? v1 : find_own_group(proc, "");
  if (!own) return {};
  std::optional<MemoryAccount> nearest;
  std::string directory = own->directory;
  while (true) {
    auto account = read_memory_account(directory);
    if (account && !nearest) nearest = account;
    if (account && account->limit_bytes) {
      // v1 counts a kill only in the group that the process was in, not in those above. We look at
      // our own group and the one with the limit; kills in its other children are missed.
      if (v1 && account->group != nearest->group && nearest->oom_kills)
        account->oom_kills = account->oom_kills.value_or(0) + *nearest->oom_kills;
      return account;
    }
    if (directory.size() <= own->top.size()) return nearest;
    directory.resize(directory.rfind('/'));
  }
}

std::optional<std::uint64_t> machine_oom_kills(const std::string& proc) {
  const auto vmstat = read_text(proc + "/vmstat");
  return vmstat ? number_of(*vmstat, "oom_kill") : std::nullopt;
}

}  // namespace regroup::io
