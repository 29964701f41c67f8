#include "io/cgroup/cgroup_files.h"

#include <unistd.h>

#include "base/text_parts.h"
#include "io/file/kernel_files.h"

namespace regroup::io {
namespace {

// Blanks, tabs, line ends and backslashes in a path are written there as \040, \011, \012, \134.
std::string without_escapes(std::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

bool lists(std::string_view comma_separated, std::string_view wanted) {
  while (!comma_separated.empty())
    if (take_until(comma_separated, ',') == wanted) return true;
  return false;
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool is_for_the_agent(std::string_view directory) {
  const std::string_view name = directory.substr(directory.rfind('/') + 1);
  return name.starts_with(kGroupPrefix) && name.ends_with(kAgentSuffix);
}

}  // namespace

std::vector<CgroupMount> parse_cgroup_mounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  while (!mountinfo.empty()) {
    std::string_view line = take_until(mountinfo, '\n');
    for (int i = 0; i < 3; ++i) take_until(line, ' ');  // Id, parent, device.
    const std::string_view root = take_until(line, ' ');
    const std::string_view point = take_until(line, ' ');
    // Some optional fields, then "-", the type, the source and the options.
    while (!line.empty() && take_until(line, ' ') != "-") continue;
    const std::string_view type = take_until(line, ' ');
    take_until(line, ' ');
    if (type != "cgroup" && type != "cgroup2") continue;
    mounts.push_back({.root = without_escapes(root),
                      .point = without_escapes(point),
                      .unified = type == "cgroup2",
                      .options = std::string(line)});
  }
  return mounts;
}

std::optional<std::string> group_path(std::string_view proc_cgroup, std::string_view controller) {
  while (!proc_cgroup.empty()) {
    std::string_view line = take_until(proc_cgroup, '\n');
    const std::string_view id = take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    // Of v2 the line is "0::/path". A path may hold colons itself.
    if (controller.empty() ? id == "0" && controllers.empty() : lists(controllers, controller))
      return std::string(line);
  }
  return {};
}

std::optional<std::string> directory_in(const CgroupMount& mount, std::string_view path) {
  // "/.." leads out of our cgroup namespace, where we cannot know the names.
  if (!path.starts_with('/') || path.starts_with("/..")) return {};
  if (mount.root != "/") {
    if (!path.starts_with(mount.root)) return {};
    path.remove_prefix(mount.root.size());
    if (!path.empty() && path.front() != '/') return {};
  }
  if (path == "/") path = {};
  return mount.point + std::string(path);
}

std::optional<std::uint64_t> parse_limit(std::string_view text) {
  // v1 has the largest number of whole pages for "none", and it depends on the page's size.
  constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;
  const auto bytes = parse_number(text);
  return bytes && *bytes < kNoLimit ? bytes : std::nullopt;
}

std::optional<OwnGroup> find_own_group(const std::string& proc, std::string_view controller) {
  const auto groups = read_text(proc + "/self/cgroup");
  const auto mountinfo = read_text(proc + "/self/mountinfo");
  if (!groups || !mountinfo) return {};
  const auto path = group_path(*groups, controller);
  if (!path) return {};
  for (const CgroupMount& mount : parse_cgroup_mounts(*mountinfo)) {
    if (mount.unified != controller.empty()) continue;
    if (!mount.unified && !lists(mount.options, controller)) continue;
    auto directory = directory_in(mount, *path);
    // Another mount may hide this one, and the group may be gone already.
    if (!directory || !exists(*directory + "/cgroup.procs")) continue;
    while (directory->size() > mount.point.size() && is_for_the_agent(*directory))
      directory->resize(directory->rfind('/'));
    return OwnGroup{.directory = *directory, .top = mount.point};
  }
  return {};
}

}  // namespace regroup::io
