// The sockets of a loop, watched directly: an epoll set of its own inside the loop.
//
// A busy store has a socket ready at every look, and what a general loop does for each of them (an
// operation, a handler, a queue) is a good part of what a request costs. docs/decisions.md has the
// numbers. For this room alone; lives on the loop's thread.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>

#include "io/loop/descriptor.h"

namespace regroup::io {

// Hears that its descriptor is ready. Level-triggered: it is called again as long as it is. Remove
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

  // Calls those who are ready now, a batch of them at most. False if nobody is.
  bool dispatch();

  // Calls everybody who is ready now, once at least; not from inside a watcher's call.
  void dispatch_all();

  int descriptor() const { return epoll_.get(); }  // Readable when somebody is ready.

 private:
  Descriptor epoll_;
  // Of the dispatch that is under way: a watcher that is removed must not be called any more.
  std::array<epoll_event, 256> batch_;
  int batch_size_ = 0;
  bool more_ = false;  // The last batch was full.
};

}  // namespace regroup::io
