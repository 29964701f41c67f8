// Where workers are, taken while they are still alive: before a hung or condemned group is ended.
//
// For all of them at once, on a thread of its own, and bounded: what /proc shows, the dump of
// Python's faulthandler where the worker has registered it (python/regroup, `dump_on_hang`), and
// what py-spy says, where it is installed, or gdb, where it is and can be in time: not for a
// program with much code, such as PyTorch (kDebuggedCode).
//
//   StackTaker taker(targets, {.file = directory + "/stacks.txt"}, [](Stacks stacks) { ... });
//   // `done` is called once, on the taker's thread, unless the taker is destroyed before.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "regroup/time.h"
#include "wire/text/stack_dump.h"

namespace regroup::runtime {

struct StackTarget {
  int local_rank = 0;
  int global_rank = 0;
  pid_t pid = 0;          // Not reaped while the taker lives.
  std::string program;    // As started; py-spy is also looked for beside it.
  std::string dump_file;  // Where the worker's faulthandler writes; may be empty.
};

struct StackOptions {
  Duration limit = 5s;
  int dump_signal = 0;    // Sent only to workers that catch it; 0: none.
  std::string file = {};  // Where all of it is written; empty: nowhere.
  std::string why = {};   // Its first line.
  std::string path = {};  // Where py-spy and gdb are looked for; empty: our own PATH.
  // Returns what a worker wrote last to stderr: a dump may be there. Called from the taker's
  // thread.
  std::function<std::string(int local_rank)> tail = {};
};

struct WorkerStack {
  int local_rank = 0;
  int global_rank = 0;
  wire::Whereabouts at;
  std::string python;  // The main thread's frames, innermost first, a line each; may be empty.
};

struct Stacks {
  std::vector<WorkerStack> workers;
  std::vector<wire::RankAt> ranks() const;  // Their global ranks.
  std::string summary;                      // core::hang::where_they_are.
  std::string file;                         // Empty: it could not be written, or was not asked for.
};

class StackTaker {
 public:
  StackTaker(std::vector<StackTarget> targets, StackOptions options,
             const std::function<void(Stacks)>& done);
  ~StackTaker();  // Gives up: helpers are killed. A disk that hangs is not waited for.
  StackTaker(const StackTaker&) = delete;
  StackTaker& operator=(const StackTaker&) = delete;

  // Children of this process that are not workers. From any thread.
  std::vector<pid_t> helpers() const;

  // What is known already, without a file: if writing that hangs, `done` is not called. From any
  // thread.
  Stacks so_far() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // Shared with the thread.
};

}  // namespace regroup::runtime
