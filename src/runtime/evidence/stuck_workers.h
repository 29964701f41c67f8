// Finds workers that are stuck in the kernel: in uninterruptible sleep (state D), at every look,
// for longer than a limit. A hung device or network file system does that.
//
// Lives on the loop's thread. It only looks; the caller decides what to do with them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

#include "io/loop/loop.h"
#include "regroup/time.h"

namespace regroup::runtime {

class StuckWorkers {
 public:
  struct Questions {
    std::function<std::map<int, pid_t>()> pids;  // Of the workers that run, by local rank.
    // Called once for each, with a description of it.
    std::function<void(int local_rank, const std::string& why)> found;
  };

  // A limit of zero: no worker is looked at.
  StuckWorkers(io::Loop& loop, Duration limit, Questions questions);

 private:
  struct Seen {
    Instant since;
    bool told = false;
  };

  void look();

  Duration limit_;
  Questions questions_;
  io::Timer next_;
  std::map<pid_t, Seen> seen_;
};

}  // namespace regroup::runtime
