// What the guard process does. For this room alone.
#pragma once

namespace regroup::io {

// In a forked child, all signals blocked. Each packet of `socket` is one line:
//
//   +123     watch the session of leader 123
//   -123     forget it
//   c/path   watch the cgroup with this directory
//   bye      end without doing anything
//
// `parent` is a pidfd of the process that talks to us, or -1. It is needed because a process that
// was forked from the parent may hold the other end of the socket longer than the parent lives.
[[noreturn]] void run_guard(int socket, int parent);

}  // namespace regroup::io
