// Ctrl-C and SIGTERM, and the end of a time limit, as one flag that waiting calls look at.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "regroup/time.h"

namespace regroup::cli {

// One per process. Its methods may be called from any thread.
class Interruption {
 public:
  // From now on a thread of its own waits for the two signals. They are blocked in this thread and
  // in those that it starts later, so no system call is cut short: make it before any thread. A
  // second signal ends the process at once, for people who have waited long enough.
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // True once a signal has come, or the time is over.
  std::shared_ptr<const std::atomic<bool>> flag() const;

  // Raises the flag also after this time. Call it once.
  void expire_after(Duration limit);

  // True as soon as the flag is raised, false after `limit`.
  bool wait_for(Duration limit) const;

  int signal_number() const;        // 0: none has come.
  int exit_code() const;            // As a shell gives it for the signal: 130, 143.
  std::string signal_name() const;  // For people: "Ctrl-C", "SIGTERM".

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace regroup::cli
