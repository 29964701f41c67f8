// A tiny process that outlives us, to clean up if we are killed before we can.
//
// It holds one end of a socket pair, and sleeps. When we are gone without a goodbye it kills the
// sessions and groups it was told of, every process that has our mark in its environment, what
// descends from these and, where there is one, everything in the cgroup, and ends. The mark is for
// daemons without a cgroup: nothing else links one to us once its session, its parent and we are
// gone. One that has cleared its environment, too, or that we may not look at, stays. Last, it removes
// the named pipes it was told of.
//
// It has its own session, so that Ctrl-C does not reach it, and a command line of its own, so that
// `pkill -f train.py` does not find it. It is forked from us and executes no program, so programs
// that embed regroup have it too.
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
  // anything (ProcessSpec::guard): this process may be killed before it gets to say so.
  int descriptor() const { return socket_.get(); }

  // The variable of the environment, and its value, that processes of ours are to be started with.
  static constexpr const char* kMarkName = "REGROUP_GUARD";
  const std::string& mark() const { return mark_; }

  // Leaders of sessions. They must be forgotten before their pid may be reused.
  void watch_session(pid_t leader);
  void forget_session(pid_t leader);
  // A cgroup v2 directory: killed through cgroup.kill, then removed, leaves first.
  void watch_cgroup(const std::string& directory);
  // A named pipe of ours: its path is removed, unless something else is there by then.
  void watch_pipe(const std::string& path);
  // Those that carry the mark may outlive us from now on.
  void forget_mark();

 private:
  Guard(pid_t pid, Descriptor socket, std::string mark);
  void tell(const std::string& line);
  pid_t pid_;
  Descriptor socket_;
  std::string mark_;
  pid_t owner_;  // A forked copy of us must not say goodbye for us.
};

}  // namespace regroup::io
