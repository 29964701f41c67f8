#include "io/process/guard_child.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/loop/clock.h"
#include "io/loop/descriptor.h"
#include "io/process/process_descriptors.h"
#include "io/process/process_table.h"
#include "io/process/signals.h"

namespace regroup::io {
namespace {

constexpr const char* kGuardName = "regroup-guard";
constexpr Duration kLongestCleanup = 5s;
constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 20'000'000};

// Nothing of ours may stay open here: a guard with our standard output would keep the reader of a
// pipeline waiting after we have ended.
void keep_only(int& socket, int& parent) {
  constexpr int kFirstSafe = 5;
  const int high_socket = ::fcntl(socket, F_DUPFD_CLOEXEC, kFirstSafe);
  const int high_parent = parent < 0 ? -1 : ::fcntl(parent, F_DUPFD_CLOEXEC, kFirstSafe);
  if (high_socket < 0) ::_exit(1);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd)
    if (null < 0)
      ::close(fd);
    else if (null != fd)
      ::dup2(null, fd);
  socket = ::dup2(high_socket, 3);
  if (high_parent < 0)
    ::close(4);
  else
    ::dup2(high_parent, 4);
  parent = high_parent < 0 ? -1 : 4;
  close_descriptors_from(kFirstSafe, Closing::Now);
}

void write_one(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t size = ::write(fd, "1", 1);
  ::close(fd);
}

// The directory and all below it, leaves first.
void list_tree(const std::string& directory, std::vector<std::string>& all) {
  if (DIR* entries = ::opendir(directory.c_str())) {
    while (const dirent* entry = ::readdir(entries))
      if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
        list_tree(directory + "/" + entry->d_name, all);
    ::closedir(entries);
  }
  all.push_back(directory);
}

// The processes in it, without zombies: the kernel leaves those out.
std::vector<pid_t> members(const std::string& cgroup) {
  std::vector<pid_t> pids;
  FILE* file = std::fopen((cgroup + "/cgroup.procs").c_str(), "re");
  if (file == nullptr) return pids;
  int pid = 0;
  while (std::fscanf(file, "%d", &pid) == 1)
    if (pid > 1) pids.push_back(pid);
  std::fclose(file);
  return pids;
}

// Our command line is the launcher's, with the name of the script in it: `pkill -f train.py` would
// end the guard before it is needed. Through the file, because only that says what cannot be
// written, where a wrong address would end us.
void change_command_line() {
  const auto area = own_command_line();
  if (!area) return;
  std::string text(kGuardName);
  text.resize(area->size);  // Shorter or longer, and zeros behind it.
  text.back() = '\0';
  const Descriptor memory(::open("/proc/self/mem", O_WRONLY | O_CLOEXEC));
  if (memory) [[maybe_unused]]
    const ssize_t size =
        ::pwrite(memory.get(), text.data(), text.size(), static_cast<off_t>(area->address));
}

class GuardState {
 public:
  explicit GuardState(std::string mark) : mark_(std::move(mark)) {}

  // False: it was a goodbye.
  bool hear(std::string_view line) {
    if (line == "bye") return false;
    if (line == "leave") {
      mark_.clear();
      return true;
    }
    const std::string rest(line.substr(1));
    if (line[0] == 'c') cgroups_.push_back(rest);
    if (line[0] == 'p') pipes_.push_back(rest);
    if (line[0] == '-') sessions_.erase(std::atoi(rest.c_str()));
    if (line[0] == '+' || line[0] == '*') {
      const pid_t leader = std::atoi(rest.c_str());
      // Its parent says so, too, a moment later: once is enough to look at it.
      if (line[0] == '+' && spoke_.erase(leader) > 0) return true;
      if (line[0] == '*') spoke_.insert(leader);
      const auto process = find_process(leader);
      // One that spoke for itself and is gone could not be started: nobody says so later, and its
      // number may become somebody else's.
      if (leader > 1 && (process || line[0] == '+'))
        sessions_[leader] = process ? process->start_time : 0;
    }
    return true;
  }

  void clean_up() {
    const Instant until = deadline_after(kLongestCleanup);
    // Twice, because a process may be started while the list is read.
    for (int quiet = 0; quiet < 2 && now() < until;) {
      const bool in_groups = kill_cgroups();
      quiet = kill_processes() || in_groups ? 0 : quiet + 1;
      ::nanosleep(&kPause, nullptr);
    }
    // The kernel takes a moment to free a group whose last process has died.
    while (!remove_cgroups() && now() < until) ::nanosleep(&kPause, nullptr);
    for (const std::string& path : pipes_) {
      struct stat info {};
      if (::lstat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) ::unlink(path.c_str());
    }
  }

 private:
  // A leader's number that belongs to another process by now: the leader's session is over, to the
  // last member.
  bool recycled(pid_t leader, std::uint64_t start_time) const {
    const auto process = find_process(leader);
    return start_time != 0 && process && process->start_time != start_time;
  }

  // Whether any process was found. Kills by group, which hits all its members at once, including
  // those that are forking.
  bool kill_processes() {
    std::erase_if(sessions_,
                  [&](const auto& session) { return recycled(session.first, session.second); });
    const auto all = list_processes();
    Roots roots;
    for (const auto& [leader, start_time] : sessions_) roots.leaders.insert(leader);
    for (const ProcessInfo& process : all) {
      // Of a launcher that a worker has started: it has its own to end, and then ends itself.
      if (process.name == kGuardName) roots.spared.insert(process.pid);
      if (has_in_environment(process.pid, mark_)) roots.marked.insert(process.pid);
    }
    roots.spared.insert(::getpid());
    bool found = false;
    for (const ProcessInfo& process : belonging_to(all, roots)) {
      found = true;
      const bool is_theirs = sessions_.contains(process.session) ||
                             roots.marked.contains(process.session) ||
                             roots.marked.contains(process.group);
      if (is_theirs && process.group > 1) ::kill(-process.group, SIGKILL);  // -1: every process.
      signal_exactly(process, SIGKILL);
    }
    return found;
  }

  bool kill_cgroups() {
    bool found = false;
    for (const std::string& cgroup : cgroups_) {
      write_one(cgroup + "/cgroup.kill");
      std::vector<std::string> tree;
      list_tree(cgroup, tree);
      for (const std::string& directory : tree)
        for (const pid_t pid : members(directory)) {
          found = true;
          ::kill(pid, SIGKILL);  // For kernels before 5.14, which have no cgroup.kill.
        }
    }
    return found;
  }

  bool remove_cgroups() {
    bool all = true;
    for (const std::string& cgroup : cgroups_) {
      std::vector<std::string> tree;
      list_tree(cgroup, tree);
      for (const std::string& directory : tree)
        if (::rmdir(directory.c_str()) != 0 && errno != ENOENT) all = false;
    }
    return all;
  }

  std::string mark_;                         // Empty: none.
  std::set<pid_t> spoke_;                    // For themselves, and their parent has not yet.
  std::map<pid_t, std::uint64_t> sessions_;  // With the time when the leader started; 0: not known.
  std::vector<std::string> cgroups_;
  std::vector<std::string> pipes_;
};

// Sleeps until there is something to read, or no writer left. False: there is no writer left.
bool wait_for_line(int socket, int parent) {
  std::array<pollfd, 2> ends{{{.fd = socket, .events = POLLIN, .revents = 0},
                              {.fd = parent, .events = POLLIN, .revents = 0}}};
  while (::poll(ends.data(), ends.size(), -1) < 0 && errno == EINTR) {
  }
  // Lines that were sent before the end still count, above all a goodbye.
  return ends[0].revents != 0;
}

}  // namespace

void run_guard(int socket, int parent, const std::string& mark) {
  ::setsid();
  change_command_line();
  ::prctl(PR_SET_NAME, kGuardName, 0, 0, 0);
  if (::chdir("/") != 0) ::_exit(1);  // So that it keeps no file system busy.
  keep_only(socket, parent);
  GuardState state(mark);
  std::array<char, 8192> line;
  while (wait_for_line(socket, parent)) {
    const ssize_t size = ::recv(socket, line.data(), line.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size <= 0) break;
    if (!state.hear({line.data(), static_cast<std::size_t>(size)})) ::_exit(0);
  }
  state.clean_up();
  ::_exit(0);
}

}  // namespace regroup::io
