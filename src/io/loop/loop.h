// The loop: one thread that sleeps until something is ready, and then runs what was asked for.
//
// Everything handed to it runs on the thread that calls run(). Only post() and stop() may be called
// from other threads.
//
// In one turn those descriptors that are ready are served first, then a signal, then the timers
// that are due, then what was posted before the turn. What comes meanwhile has the next turn, so
// nobody who keeps asking for more holds up the others.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "base/instant.h"
#include "regroup/result.h"

namespace regroup::io {

class ReadySet;

struct LoopOptions {
  // After something happened, look again for so long before going to sleep. A client that waits for
  // our answer asks again within microseconds, and a sleep and a wake-up cost more than that: both
  // sides gain. It gives way to other processes, and stops by itself when it does not pay (see
  // loop.cc). Zero: sleep at once.
  Duration linger{};
};

struct SignalEvent {
  int number = 0;
  pid_t sender = 0;        // 0: the kernel, or somebody outside of our pid namespace.
  bool by_kernel = false;  // As for Ctrl-C.
};

class Loop {
 public:
  // Fails only where the system has nothing left: no descriptors, no memory.
  static Result<std::unique_ptr<Loop>> open(const LoopOptions& options = {});
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Until stop(), also one from before. What is still to be done then is never done: a loop runs
  // once.
  void run();
  void stop();
  void post(std::function<void()> task);  // In the order of the calls.

  // Whoever has sent something hears it now. For a timer's task that judges who has been silent:
  // after a slow turn of ours its moment may come before what lies in the sockets has been read.
  // Not from inside a call of a connection.
  void read_what_is_ready();

  // The signal no longer interrupts anything; it becomes an event. Threads that exist already must
  // have it blocked, so call this before starting any.
  Result<void> on_signal(int number, std::function<void(const SignalEvent&)> handler);

  // For the other rooms of io.
  ReadySet& sockets();

 private:
  friend class Timer;
  struct Impl;
  explicit Loop(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One deadline. Setting it again replaces the earlier one. It does not outlive its loop; its own
// task may destroy it.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  // Never runs before the instant, nor from inside this call.
  void set(Instant at, std::function<void()> task);
  void cancel();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace regroup::io
