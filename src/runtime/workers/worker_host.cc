#include "runtime/workers/worker_host.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "io/process/process.h"
#include "io/process/process_table.h"
#include "runtime/common/log.h"

namespace regroup::runtime {

void WorkerHost::warn(const std::string& line) {
  if (warn_) return warn_(line);
  if (pump_) return pump_->print(warning_line_ ? warning_line_(line) : "regroup: " + line);
  if (!warning_line_) return log_warning(line);
  print_line(warning_line_(line));
}

Result<std::unique_ptr<WorkerHost>> WorkerHost::open(const WorkersSpec& spec, bool for_processes) {
  auto host = std::make_unique<WorkerHost>();
  WorkerHost* const self = host.get();
  host->warn_ = spec.warn;
  host->warning_line_ = spec.warning_line;
  host->strangers_ = io::children();
  if (for_processes)
    if (auto opened = host->open_containment(spec); !opened) return tl::unexpected(opened.error());
  auto pump = LogPump::start({.prefix_template = spec.prefix_template,
                              .out_filters = spec.out_filters,
                              .err_filters = spec.err_filters,
                              .max_bytes = spec.log_max_bytes,
                              .keep = spec.log_keep,
                              .warning_line = spec.warning_line,
                              .warn = [self](const std::string& line) { self->warn(line); }});
  if (!pump) return tl::unexpected(pump.error());
  host->pump_ = std::move(*pump);
  return host;
}

Result<void> WorkerHost::open_containment(const WorkersSpec& spec) {
  if (!io::find_process(::getpid()))
    warn("/proc cannot be read here: processes that workers leave behind are not seen");
  if (auto opened = open_cgroups(spec); !opened) return opened;
  if (auto guard = io::Guard::start()) {
    guard_ = std::move(*guard);
  } else {
    warn(guard.error().message);
  }
  if (guard_ && cgroups_)
    for (const std::string& directory : cgroups_->directories()) guard_->watch_cgroup(directory);
  return {};
}

Result<void> WorkerHost::open_cgroups(const WorkersSpec& spec) {
  if (spec.cgroup == CgroupUse::Off) {
    if (spec.memory_limit == 0) return {};
    return fail(
        ErrorKind::InvalidArgument,
        "a memory limit (--memory-limit) needs control groups, and --cgroup=off switches them off");
  }
  auto opened = io::CgroupTree::open(std::to_string(::getpid()));
  std::string trouble;
  if (!opened) {
    trouble = opened.error().message;
  } else if (spec.memory_limit != 0 && !(*opened)->counts_memory()) {
    trouble = "no memory limit can be set: the memory controller is not ours to use below " +
              (*opened)->directory();
  } else {
    cgroups_ = std::move(*opened);
    return {};
  }
  // It would be noticed too late that a requested limit is not enforced.
  if (spec.cgroup == CgroupUse::Require || spec.memory_limit != 0)
    return fail(ErrorKind::Refused, trouble);
  return {};
}

}  // namespace regroup::runtime
