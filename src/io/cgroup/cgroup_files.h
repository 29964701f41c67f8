// The files of control groups: where ours are, and what they say. Everything that reads text is
// pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace regroup::io {

// One line of /proc/self/mountinfo that mounts a hierarchy.
struct CgroupMount {
  std::string root;   // Which group is seen at the mount point; "/" outside of containers.
  std::string point;  // Where.
  bool unified = false;
  std::string options;  // Of the hierarchy; for v1 they name its controllers.
};
std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo);

// The group that /proc/self/cgroup gives for a v1 controller, or for v2 if the controller is "".
std::optional<std::string> group_path(std::string_view proc_cgroup, std::string_view controller);

// The directory of a group, as seen through a mount; empty if the mount does not show it.
std::optional<std::string> directory_in(const CgroupMount& mount, std::string_view path);

// A file that holds a limit. "max", and the huge numbers that v1 has instead, mean none.
std::optional<std::uint64_t> parse_limit(std::string_view text);

// A directory of ours, and the highest one above it that can be seen.
struct OwnGroup {
  std::string directory;
  std::string top;
};

// Where this process is, for a v1 controller or for v2 (""). A group that we made only to move out
// of the way (kAgentSuffix) counts as the one above it. `proc` is /proc, or a test's.
std::optional<OwnGroup> find_own_group(const std::string& proc, std::string_view controller);

inline constexpr std::string_view kGroupPrefix = "regroup-";
inline constexpr std::string_view kAgentSuffix = "-agent";

}  // namespace regroup::io
