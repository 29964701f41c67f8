// What the guard process does. For this room alone.
#pragma once

#include <string>

namespace regroup::io {

// In a forked child, all signals blocked. Each packet of `socket` is one line:
//
//   +123     watch the session of leader 123
//   -123     forget it
//   c/path   watch the cgroup with this directory
//   p/path   remove this named pipe at the end
//   leave    what carries the mark is not ours any more
//   bye      end without doing anything
//
// `parent` is a pidfd of the process that talks to us, or -1. It is needed because a process that
// was forked from the parent may hold the other end of the socket longer than the parent lives.
//
// `mark` is the entry of the environment by which processes are ours ("NAME=value").
[[noreturn]] void run_guard(int socket, int parent, const std::string& mark);

}  // namespace regroup::io
