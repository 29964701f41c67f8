// A port that is ours before anything listens on it.
//
// The kernel chose it and it stays bound, so the kernel gives it to no one else: neither to a bind
// to port 0 nor to an outgoing connection. It does not listen. A server that sets SO_REUSEADDR, as
// PyTorch's and ours do, may still bind and listen on it, in any process; when that server is gone,
// the port is reserved as before. So the number can be given to a worker that will open the port
// much later, without the race of finding a free port and closing it again.
//
// It is released when the object is destroyed; a server that listens on it goes on.
//
// It is no lock: a program that asks for exactly this number, with SO_REUSEADDR, gets it too.
#pragma once

#include <cstdint>
#include <utility>

#include "io/loop/descriptor.h"
#include "regroup/result.h"

namespace regroup::io {

class ReservedPort {
 public:
  // On all interfaces: IPv6 and IPv4 where there is IPv6, else IPv4.
  static Result<ReservedPort> open();

  std::uint16_t port() const { return port_; }

 private:
  ReservedPort(Descriptor socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}
  Descriptor socket_;
  std::uint16_t port_;
};

}  // namespace regroup::io
