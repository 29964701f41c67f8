#include "runtime/evidence/evidence.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "io/file/kernel_files.h"
#include "io/loop/clock.h"
#include "io/net/interfaces.h"
#include "runtime/evidence/evidence_core.h"
#include "runtime/evidence/evidence_facts.h"
#include "runtime/evidence/evidence_kernel_log.h"
#include "runtime/evidence/evidence_pids.h"

namespace regroup::runtime {
namespace {

std::optional<Filled> filling_of(const char* path) {
  struct statvfs about {};
  if (::statvfs(path, &about) != 0) return {};
  return Filled{.used = (about.f_blocks - about.f_bfree) * about.f_frsize,
                .total = about.f_blocks * about.f_frsize};
}

// Free space for users other than root, who may not use the reserve.
bool is_disk_full(const std::string& file) {
  struct statvfs about {};
  return ::statvfs(file.c_str(), &about) == 0 && about.f_blocks > 0 && about.f_bavail == 0;
}

bool core_limit_is_zero() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0;
}

CorePlace core_place_of(const Ended& ended, bool pids_are_the_kernels) {
  const auto pattern = io::read_text("/proc/sys/kernel/core_pattern");
  if (!pattern) return {};
  std::error_code ignored;
  const auto directory =
      ended.directory.empty() ? std::filesystem::current_path(ignored).string() : ended.directory;
  return core_place(
      {.text = *pattern,
       .uses_pid = io::read_text("/proc/sys/kernel/core_uses_pid").value_or("0") != "0\n"},
      {.pid = ended.pid,
       .kernel_pid = pids_are_the_kernels ? std::optional(ended.pid) : std::nullopt,
       .signal = ended.exit.signal,
       .directory = directory,
       .program = ended.program,
       .host = io::host_name(),
       .user = ::getuid(),
       .group = ::getgid()});
}

Facts gather(const Ended& ended, const Before& before, const io::CgroupLeaf* leaf) {
  Facts facts;
  facts.pid = ended.pid;
  facts.exit = ended.exit;
  facts.signalled_by_us = ended.signalled_by_us;
  if (leaf != nullptr)
    if (auto account = leaf->memory(); account.oom_kills) facts.leaf = std::move(account);
  facts.own = io::own_memory_account();
  // We may have been moved meanwhile; the counters of two different groups cannot be compared.
  if (before.own && facts.own && before.own->group == facts.own->group)
    facts.own_kills = grown_by(before.own->oom_kills, facts.own->oom_kills);
  facts.machine_kills = grown_by(before.machine_oom_kills, io::machine_oom_kills());
  if (before.kernel_log) facts.kernel_log = before.kernel_log->killed_for_memory(ended.pid);
  facts.shared_memory = filling_of("/dev/shm");
  facts.pids_are_the_kernels = pids_are_the_kernels();
  facts.core_limit_is_zero = core_limit_is_zero();
  if (ended.exit.core_dumped) {
    facts.core = core_place_of(ended, facts.pids_are_the_kernels);
    if (!facts.core.glob.empty()) facts.core_file = find_core(facts.core.glob, before.wall_micros);
  }
  if (!ended.log_file.empty() && is_disk_full(ended.log_file)) facts.full_log = ended.log_file;
  return facts;
}

}  // namespace

Before look_before_start() {
  return {.own = io::own_memory_account(),
          .machine_oom_kills = io::machine_oom_kills(),
          .wall_micros = io::utc_micros(),
          .kernel_log = KernelLog::open_at_end()};
}

Evidence take_evidence(const Ended& ended, const Before& before, const io::CgroupLeaf* leaf) {
  return judge(gather(ended, before, leaf));
}

}  // namespace regroup::runtime
