// What all groups of workers of one launcher share, from the first start to the last: the directory
// of their cgroups, the guard, the log pump.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/cgroup/cgroup.h"
#include "io/process/guard.h"
#include "regroup/workers.h"
#include "runtime/output/log_pump.h"

namespace regroup::runtime {

class WorkerHost {
 public:
  // Call it early: the guard keeps a copy of our memory, and on cgroup v2 memory is counted only if
  // this process is still alone in its group. `for_processes` is false where the workers are none of
  // this machine: there is nothing to guard then.
  static Result<std::unique_ptr<WorkerHost>> open(const WorkersSpec& spec,
                                                  bool for_processes = true);

  LogPump& pump() { return *pump_; }
  // Goes to the spec's `warn`; without one to standard error, between lines of workers.
  void warn(const std::string& line);
  // Children that this process had before it became us by exec. They are not ours to end.
  const std::vector<pid_t>& strangers() const { return strangers_; }
  io::Guard* guard() { return guard_.get(); }           // May be null.
  io::CgroupTree* cgroups() { return cgroups_.get(); }  // May be null.

 private:
  Result<void> open_containment(const WorkersSpec& spec);
  Result<void> open_cgroups(const WorkersSpec& spec);

  std::function<void(const std::string&)> warn_;
  std::function<std::string(const std::string&)> warning_line_;
  std::vector<pid_t> strangers_;
  // Made in this order and destroyed in the reverse one: the guard is in our cgroup.
  std::unique_ptr<io::CgroupTree> cgroups_;
  std::unique_ptr<io::Guard> guard_;
  std::unique_ptr<LogPump> pump_;
};

}  // namespace regroup::runtime
