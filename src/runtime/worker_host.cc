#include "runtime/worker_host.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "runtime/log.h"

namespace regroup::runtime {

void warn(const WorkersSpec& spec, const std::string& line) {
  if (spec.warn) {
    spec.warn(line);
  } else {
    log_warning(line);
  }
}

Result<std::unique_ptr<WorkerHost>> WorkerHost::open(const WorkersSpec& spec) {
  auto host = std::make_unique<WorkerHost>();
  if (auto opened = host->open_cgroups(spec); !opened) return tl::unexpected(opened.error());
  if (auto guard = io::Guard::start()) {
    host->guard_ = std::move(*guard);
  } else {
    warn(spec, guard.error().message);
  }
  if (host->guard_ && host->cgroups_)
    for (const std::string& directory : host->cgroups_->directories())
      host->guard_->watch_cgroup(directory);
  auto pump = LogPump::start({.prefix_template = spec.prefix_template,
                              .out_filters = spec.out_filters,
                              .err_filters = spec.err_filters,
                              .max_bytes = spec.log_max_bytes,
                              .keep = spec.log_keep,
                              .warn = spec.warn ? spec.warn : log_warning});
  if (!pump) return tl::unexpected(pump.error());
  host->pump_ = std::move(*pump);
  return host;
}

Result<void> WorkerHost::open_cgroups(const WorkersSpec& spec) {
  if (spec.cgroup == CgroupUse::Off) {
    if (spec.memory_limit == 0) return {};
    return fail(ErrorKind::InvalidArgument,
                "a memory limit needs control groups, and they are switched off");
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
  // A limit that was asked for and is not there would be found out too late.
  if (spec.cgroup == CgroupUse::Require || spec.memory_limit != 0)
    return fail(ErrorKind::Refused, trouble);
  return {};
}

}  // namespace regroup::runtime
