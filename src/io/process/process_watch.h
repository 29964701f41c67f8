// A process that another one has started, such as a child's child: reports its end, and signals it,
// never a process that got its number later.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "io/loop/descriptor.h"
#include "io/process/process_table.h"
#include "regroup/result.h"

namespace regroup::io {

class EndWatch;
class Loop;

class ProcessWatch {
 public:
  // Null: there is no such process. Fails if there are no descriptors left, or the kernel is too
  // old for it (before Linux 5.3).
  static Result<std::unique_ptr<ProcessWatch>> open(pid_t pid);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Calls back on the loop's thread, once, when it has ended; at once if it has already. The
  // callback may destroy the watch. False: no descriptors or memory left.
  bool watch(Loop& loop, std::function<void()> ended);

  pid_t pid() const { return pid_; }
  // errno; 0: it was sent. ESRCH: the process has ended.
  int signal(int number) const;

 private:
  ProcessWatch(pid_t pid, Descriptor fd);

  pid_t pid_;
  Descriptor fd_;
  std::unique_ptr<EndWatch> watch_;
};

// Whether it is alive and belongs to the roots, as belonging_to() would say, judged by its
// ancestors only.
bool belongs_to(pid_t pid, const Roots& roots);

}  // namespace regroup::io
