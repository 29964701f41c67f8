// Descriptors and the watchers that are called when they are ready: one epoll set, the core of a
// loop.
//
// A busy store has a socket ready at every look, so nothing stands between the kernel's list and
// the watcher: no operation, no queue. Lives on the thread of its loop.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>

#include "io/loop/descriptor.h"

namespace regroup::io {

// Called when its descriptor is ready. Level-triggered: it is called again as long as it is. Remove
// a watcher before it is destroyed, and never destroy the one that is running.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void ready(std::uint32_t events) = 0;  // EPOLLIN and so on.
};

class ReadySet {
 public:
  ReadySet();  // Throws std::system_error if there are no descriptors left.
  ReadySet(const ReadySet&) = delete;
  ReadySet& operator=(const ReadySet&) = delete;

  bool add(int fd, std::uint32_t events, Watcher& watcher);
  void change(int fd, std::uint32_t events, Watcher& watcher);
  void remove(int fd, Watcher& watcher);

  // Calls the watchers that are ready now, a batch of them at most. False if none is.
  bool dispatch() { return dispatch_within(0); }

  // The same, but sleeps until one is. False if a signal's handler interrupted the sleep.
  bool sleep_and_dispatch() { return dispatch_within(-1); }

  // Calls every watcher that is ready now, at least once; not from inside a watcher's call.
  void dispatch_all();

  int descriptor() const { return epoll_.get(); }  // Readable when a watcher is ready.

 private:
  bool dispatch_within(int milliseconds);

  Descriptor epoll_;
  // For the dispatch that is under way: a watcher that is removed must not be called any more.
  std::array<epoll_event, 256> batch_;
  int batch_size_ = 0;
  bool more_ = false;  // The last batch was full.
};

}  // namespace regroup::io
