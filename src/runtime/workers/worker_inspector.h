// Looks at workers from outside: what a backend can have besides regroup/worker_backend.h, for hangs
// and stacks. Local processes have it; a group whose backend has none neither looks for hangs nor
// takes stacks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/hang/hang.h"
#include "runtime/evidence/stacks.h"

namespace regroup::runtime {

// Lives on the loop's thread.
class WorkerInspector {
 public:
  virtual ~WorkerInspector() = default;

  // All workers of the group, by local rank; nothing for those that have ended.
  virtual std::vector<std::optional<core::hang::Sample>> look() = 0;
  struct StacksOrder {
    std::string why;
    Duration limit{};
  };
  // Of all that run. `done` is called once, from the loop, soon after the limit at the latest,
  // unless they are given up before.
  virtual void take_stacks(const StacksOrder& order, std::function<void(const Stacks&)> done) = 0;
  virtual void give_up_stacks() = 0;
  // Stacks that were taken are part of what is told of the group's end, in these words about all
  // nodes if there are any, unless they are forgotten.
  virtual void explain_stacks(const std::string& summary) = 0;
  virtual void forget_stacks() = 0;
};

}  // namespace regroup::runtime
