// Finds workers that the kernel does not let go: in uninterruptible sleep (state D), at every look,
// for longer than a limit. A hung device or network file system does that.
//
// Lives on the loop's thread. Only looks; what becomes of them is the caller's.
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
    std::function<std::map<int, pid_t>()> pids;  // Of those who run, by local rank.
    // Each once, with what to say of it.
    std::function<void(int local_rank, const std::string& why)> found;
  };

  // A limit of zero: nobody is looked at.
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
