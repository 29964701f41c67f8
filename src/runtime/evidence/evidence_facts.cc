#include "runtime/evidence/evidence_facts.h"

#include <fmt/core.h>

#include <csignal>
#include <utility>

#include "base/text.h"
#include "io/process/signals.h"

namespace regroup::runtime {
namespace {

std::string processes_in_words(std::uint64_t count) {
  return fmt::format("{} {}", count, count == 1 ? "process" : "processes");
}

// A shell that ran something says how that ended in its own exit code: 128 and the signal.
constexpr int kShellBase = 128;

// The signal that ended the worker, or what it ran as far as its exit code tells.
int deadly_signal(const io::ProcessExit& exit) {
  if (exit.signal != 0) return exit.signal;
  switch (const int signal = exit.code - kShellBase) {
    case SIGINT:
    case SIGILL:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGKILL:
    case SIGSEGV:
    case SIGTERM:
      return signal;
    default:
      return 0;
  }
}

class Judgement {
 public:
  explicit Judgement(const Facts& facts) : facts_(facts) {}

  Evidence take() && {
    evidence_.memory = facts_.leaf ? facts_.leaf : facts_.own;
    evidence_.peak_rss_bytes = facts_.exit.peak_rss_bytes;
    if (facts_.signalled_by_us) say("stopped by us");
    tell_of_memory();
    tell_of_exit_code();
    tell_of_shared_memory();
    tell_of_core();
    if (!facts_.full_log.empty()) say("the disk of its log is full (" + facts_.full_log + ")");
    if (facts_.exit.peak_rss_bytes > 0 && !told_peak_) say("peak memory " + peak_rss());
    tell_of_missing_core();
    return std::move(evidence_);
  }

 private:
  void say(std::string line) { evidence_.lines.push_back(std::move(line)); }

  std::string peak_rss() const {
    return size_in_words(static_cast<std::uint64_t>(facts_.exit.peak_rss_bytes));
  }

  std::uint64_t leaf_kills() const { return facts_.leaf ? facts_.leaf->oom_kills.value_or(0) : 0; }

  // What the worker and its surroundings used, of what they may use: "; peak 64.0 MiB of 64.0 MiB".
  std::string use_of_leaf() {
    std::string text;
    if (facts_.leaf && facts_.leaf->peak_bytes) {
      told_peak_ = true;
      text += "; peak " + size_in_words(*facts_.leaf->peak_bytes);
      if (facts_.leaf->limit_bytes) return text + " of " + size_in_words(*facts_.leaf->limit_bytes);
    } else if (facts_.leaf && facts_.leaf->limit_bytes) {
      return "; limit " + size_in_words(*facts_.leaf->limit_bytes);
    }
    if (facts_.own && facts_.own->limit_bytes)
      text += "; the limit around it is " + size_in_words(*facts_.own->limit_bytes);
    return text;
  }

  void tell_of_memory() {
    const bool killed = deadly_signal(facts_.exit) == SIGKILL;
    // The count is for every process in the group. If we killed this worker, or it was not killed
    // at all, the kernel killed another process of it.
    const bool itself =
        !facts_.kernel_log.empty() || (facts_.exit.signal == SIGKILL && !facts_.signalled_by_us);
    if (leaf_kills() > 0 || !facts_.kernel_log.empty()) {
      evidence_.out_of_memory = OutOfMemory::Proven;
      const std::string what = itself ? "it" : processes_in_words(leaf_kills()) + " of this worker";
      const std::string how = leaf_kills() > 0
                                  ? fmt::format("oom_kill +{} in its cgroup", leaf_kills())
                                  : "the kernel's log: " + facts_.kernel_log;
      say(fmt::format("out of memory: the kernel killed {} ({}{})", what, how, use_of_leaf()));
      return;
    }
    if (!killed || facts_.signalled_by_us) return;
    if (!is_cleared_by_its_group() && facts_.own_kills.value_or(0) > 0) {
      evidence_.out_of_memory = OutOfMemory::Likely;
      say_likely(
          *facts_.own_kills,
          facts_.own && facts_.own->limit_bytes ? "in this container" : "in our control group",
          fmt::format("{} oom_kill +{}{}", group(), *facts_.own_kills, use_of_own()));
    } else if (!is_cleared_by_its_group() && !facts_.own_kills &&
               facts_.machine_kills.value_or(0) > 0) {
      evidence_.out_of_memory = OutOfMemory::Likely;
      say_likely(*facts_.machine_kills, "on this machine",
                 fmt::format("/proc/vmstat oom_kill +{}", *facts_.machine_kills));
    } else {
      say_no_sign();
    }
  }

  // A process that is killed for memory, for whichever limit, is counted in the group it is in. So
  // where the worker's own group counted none, the kills around it hit others; and where the group
  // around it counted none, so did those on the rest of the machine.
  bool is_cleared_by_its_group() const { return facts_.leaf && facts_.leaf->oom_kills == 0u; }

  std::string group() const { return facts_.own ? facts_.own->group : std::string{}; }

  std::string use_of_own() const {
    std::string text;
    if (facts_.own && facts_.own->limit_bytes)
      text += "; limit " + size_in_words(*facts_.own->limit_bytes);
    if (facts_.own && facts_.own->peak_bytes)
      text += (text.empty() ? "; peak " : ", peak ") + size_in_words(*facts_.own->peak_bytes);
    return text;
  }

  void say_likely(std::uint64_t count, const std::string& where, const std::string& shown_by) {
    say(fmt::format("probably out of memory: while it ran the kernel killed {} for memory {} ({})",
                    processes_in_words(count), where, shown_by));
  }

  void say_no_sign() {
    std::string looked_at;
    if (is_cleared_by_its_group())
      looked_at = "no oom_kill counted in its cgroup";
    else if (facts_.own_kills)
      looked_at = "no oom_kill counted in " + group();
    else if (facts_.machine_kills)
      looked_at = "no oom_kill counted on this machine";
    else
      looked_at = "no counter of oom_kill is readable here";
    if (facts_.exit.peak_rss_bytes > 0) looked_at += "; peak RSS " + peak_rss();
    told_peak_ = true;
    const std::string nothing = "nothing shows that it was for memory (" + looked_at + ")";
    if (facts_.exit.signal == SIGKILL) {
      say("killed from outside: " + nothing);
    } else {
      say(exit_code_line() + "; " + nothing);
      told_exit_code_ = true;
    }
  }

  std::string exit_code_line() const {
    return fmt::format("exit code {}: something it ran was killed by {}", facts_.exit.code,
                       io::signal_name(deadly_signal(facts_.exit)));
  }

  void tell_of_exit_code() {
    if (facts_.exit.signal != 0 || told_exit_code_) return;
    if (facts_.exit.code == 126)
      say("exit code 126: a shell found the command and could not execute it");
    else if (facts_.exit.code == 127)
      say("exit code 127: a shell did not find the command, or the program lacks a shared library");
    else if (deadly_signal(facts_.exit) != 0)
      say(exit_code_line());
  }

  void tell_of_shared_memory() {
    if (deadly_signal(facts_.exit) != SIGBUS || !facts_.shared_memory) return;
    const auto [used, total] = *facts_.shared_memory;
    if (total == 0) return;
    const std::string use = fmt::format("{} of {} used", size_in_words(used), size_in_words(total));
    if (used >= total - total / 20)
      say("/dev/shm is full: " + use +
          "; give the container more (--shm-size, or an emptyDir with medium: Memory)");
    else
      say("/dev/shm: " + use);
  }

  void tell_of_core() {
    if (!facts_.exit.core_dumped) return;
    if (!facts_.core.handler.empty()) {
      evidence_.core_file = facts_.core.handler;
      say("core handed to " + facts_.core.handler + how_to_get_core());
    } else if (facts_.core_file) {
      evidence_.core_file = facts_.core_file->path;
      say(fmt::format("core file: {} ({})", facts_.core_file->path,
                      size_in_words(facts_.core_file->bytes)));
    } else if (!facts_.core.expected.empty()) {
      evidence_.core_file = facts_.core.expected;
      say("core written, but not found at " + facts_.core.expected +
          " (/proc/sys/kernel/core_pattern)");
    }
  }

  // The handler runs outside of every container, and stores cores there.
  std::string how_to_get_core() const {
    const bool here = facts_.pids_are_the_kernels;
    std::string text = here ? "" : ", on the host of this container";
    if (facts_.core.handler == "systemd-coredump")
      text += here ? fmt::format(": coredumpctl info {}", facts_.pid) : ": coredumpctl list";
    else if (facts_.core.handler == "apport")
      text += ": see /var/crash";
    return text;
  }

  void tell_of_missing_core() {
    if (facts_.exit.core_dumped || facts_.signalled_by_us || !makes_core(facts_.exit.signal))
      return;
    if (facts_.core_limit_is_zero)
      say("no core file (ulimit -c is 0; ulimit -c unlimited before the start gets one)");
  }

  const Facts& facts_;
  Evidence evidence_;
  bool told_peak_ = false;
  bool told_exit_code_ = false;
};

}  // namespace

Evidence judge(const Facts& facts) { return Judgement(facts).take(); }

std::optional<std::uint64_t> grown_by(std::optional<std::uint64_t> before,
                                      std::optional<std::uint64_t> after) {
  if (!before || !after || *after < *before) return {};
  return *after - *before;
}

}  // namespace regroup::runtime
