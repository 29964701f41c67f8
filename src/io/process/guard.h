// A tiny process that outlives us, to clean up if we are killed before we can.
//
// It holds one end of a socket pair, and sleeps. When we are gone without a goodbye it kills the
// sessions and groups it was told of and, where there is one, everything in the cgroup, and ends.
// It has its own session, so that Ctrl-C does not reach it. It is forked from us and executes no
// program, so programs that embed regroup have it too.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "io/loop/descriptor.h"
#include "regroup/result.h"

namespace regroup::io {

class Guard {
 public:
  // Call it before much memory is in use: it keeps a copy of what is there.
  static Result<std::unique_ptr<Guard>> start();
  ~Guard();  // Says goodbye: it ends without doing anything. Waits for it.
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  pid_t pid() const;  // For Roots::spared and reap_orphans: it is our child, and not an orphan.

  // Where a process that is being started says itself that it leads a session, before it executes
  // anything (ProcessSpec::guard): we may be killed before we get to say so.
  int descriptor() const { return socket_.get(); }

  // Leaders of sessions. They must be forgotten before their pid may be reused.
  void watch_session(pid_t leader);
  void forget_session(pid_t leader);
  // A cgroup v2 directory: killed through cgroup.kill, then removed, leaves first.
  void watch_cgroup(const std::string& directory);

 private:
  Guard(pid_t pid, Descriptor socket);
  void tell(const std::string& line);
  pid_t pid_;
  Descriptor socket_;
  pid_t owner_;  // A forked copy of us must not say goodbye for us.
};

}  // namespace regroup::io
