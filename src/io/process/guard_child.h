// The guard's own life. For this room alone.
#pragma once

namespace regroup::io {

// In a forked child, all signals blocked. Each packet of `socket` is one line:
//
//   +123     watch the session of leader 123
//   -123     forget it
//   c/path   watch the cgroup with this directory
//   bye      end without doing anything
//
// `parent` is a pidfd of who talks to us, or -1: a process that was forked from it may hold the
// other end of the socket longer than it lives.
[[noreturn]] void run_guard(int socket, int parent);

}  // namespace regroup::io
