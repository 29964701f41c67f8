// Client side of TCP: a socket that waits, with a deadline on every step. For threads that may
// block.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/instant.h"
#include "io/loop/descriptor.h"
#include "io/net/address.h"
#include "regroup/result.h"

namespace regroup::io {

class ClientSocket {
 public:
  static Result<ClientSocket> connect(const Address& address, Instant deadline);

  // A timeout may leave part of it sent: the connection cannot be used afterwards.
  Result<void> send(std::string_view bytes, Instant deadline);

  // Reads what there is, at least one byte. An end of the stream is an error.
  Result<std::size_t> receive(std::span<char> room, Instant deadline);

  // From any thread: nothing more is sent, and a call in which another thread waits ends at once
  // with an error, as do later ones. Bytes that came before may still be received first.
  void shut_down();

  // The socket is the caller's from now on.
  Descriptor release() { return std::move(socket_); }

  // Our address, as the peer's machine sees it if there is no address translation in between.
  Address local_address() const;

 private:
  explicit ClientSocket(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
};

}  // namespace regroup::io
