// The loop: one thread that sleeps until something is ready, and then runs what was asked for.
//
// Everything handed to it runs on the thread that calls run(). Only post() and stop() may be called
// from other threads.
//
// In one turn the descriptors that are ready are served first, then a signal, then the timers that
// are due, then what was posted before the turn. What comes meanwhile has the next turn, so a busy
// source cannot hold up the others.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "base/instant.h"
#include "regroup/result.h"

namespace regroup::io {

class ReadySet;

struct LoopOptions {
  // After something happened, look again for this long before going to sleep. A client that waits
  // for our answer asks again within microseconds, and a sleep and a wake-up cost more than that:
  // both sides gain. It yields to other processes, and stops by itself when it does not pay (see
  // loop.cc). Zero: sleep at once.
  Duration linger{};
};

struct SignalEvent {
  int number = 0;
  pid_t sender = 0;        // 0: the kernel, or a process outside of our pid namespace.
  bool by_kernel = false;  // As for Ctrl-C.
};

class Loop {
 public:
  // Fails only where the system has nothing left: no descriptors, no memory.
  static Result<std::unique_ptr<Loop>> open(const LoopOptions& options = {});
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs until stop(), even if that was called before. Work that is left then is never done: a loop
  // runs once.
  void run();
  void stop();
  void post(std::function<void()> task);  // In the order of the calls.

  // Delivers everything that has been sent to us by now. For a timer's task that judges which peers
  // have been silent: after a slow turn of ours the timer may fire before what is in the sockets
  // has been read. Not from inside a call of a connection.
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
