// Reads /proc: which processes run, which is whose child, what each waits for.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace regroup::io {

struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  char state = '?';              // R, S, D, Z, T, ... as of /proc/PID/stat.
  std::uint64_t start_time = 0;  // With the pid it identifies one process for ever.
  std::string name;              // Of the program, cut by the kernel to 15 bytes.
};

// All processes that /proc shows. Those that end while we read are left out.
std::vector<ProcessInfo> list_processes();

// Empty: there is no such process.
std::optional<ProcessInfo> find_process(pid_t pid);

// A line of /proc/PID/stat. Empty: it is not one.
std::optional<ProcessInfo> parse_process_stat(std::string_view line);

// Whether it was started with this entry ("NAME=value") in its environment. False also where we may
// not look.
bool has_in_environment(pid_t pid, std::string_view entry);

// Where our own memory holds what /proc shows as our command line. Empty: /proc does not say.
struct CommandLineArea {
  std::uint64_t address = 0;
  std::size_t size = 0;
};
std::optional<CommandLineArea> own_command_line();

// Where in the kernel it sleeps; empty if it does not, or if we may not know.
std::string wait_channel(pid_t pid);

struct Roots {
  // Leaders of sessions, as start_processes makes them, including dead ones. Their sessions, groups
  // and descendants belong to them. A process that has such a number but is in another session is a
  // stranger.
  std::set<pid_t> leaders;
  // Our own pid: its children that are not leaders are adopted orphans, and belong too. 0: none.
  pid_t reaper = 0;
  std::set<pid_t> marked = {};  // These belong, and so do their descendants.
  std::set<pid_t> spared = {};  // These never belong, and neither do their descendants.
};

// The processes of `all` that are alive and belong to the roots: the leaders themselves, their
// descendants, members of their sessions and groups, adopted orphans, and again the descendants of
// all these. Zombies are left out. Pure.
std::vector<ProcessInfo> belonging_to(const std::vector<ProcessInfo>& all, const Roots& roots);

}  // namespace regroup::io
