// One client connection to a store server, greeted and ready for requests. One request at a time.
//
// Once a step has failed in a way that leaves the two sides out of step, every later step fails
// with the same message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_buffer.h"
#include "core/store/messages.h"
#include "io/net/client_socket.h"
#include "regroup/result.h"
#include "wire/store/store_protocol.h"

namespace regroup::runtime {

// How long a server may take, beyond the caller's own limit, to answer what cannot be left half
// done: a wait that is being cancelled, a value whose arrival was just announced.
inline constexpr Duration kAnswerGrace = 10s;

class StoreChannel {
 public:
  struct Failure {
    Error why;
    bool answered = false;  // Something accepted the connection, whatever it is.

    // Trying again may help. It does not with a server that speaks another protocol.
    bool may_pass() const {
      return why.kind == ErrorKind::Timeout || why.kind == ErrorKind::Connection;
    }
    const char* advice() const;
  };

  // Resolves, connects and greets, again and again until the deadline.
  static Result<StoreChannel> open(const std::string& host, std::uint16_t port, Instant deadline);

  // Connects and greets, each address once at most. An address that swallows packets is given up
  // after five seconds, for the next one, or for a new try in case its machine comes up.
  static tl::expected<StoreChannel, Failure> try_once(const std::vector<io::Address>& addresses,
                                                      Instant deadline);

  const io::Address& address() const { return address_; }              // The server's.
  const io::Address& local_address() const { return local_address_; }  // Ours.

  // `action` and `key` are for the message, should it fail. The reply's views are valid until the
  // next call.
  Result<core::store::Reply> ask(std::string_view action, std::string_view key,
                                 const core::store::Request& request, Instant deadline);

  // For Wait and Barrier: on timeout the wait is taken back at the server, and the channel stays
  // usable.
  Result<void> wait(std::string_view action, std::string_view key,
                    const core::store::Request& request, Instant deadline);

  // Asks whether a coordinator is there (wire/session.h). If so, returns the socket, which is a
  // session from the next byte on; every later step of this channel fails. None: there is only a
  // store, and the channel stays usable.
  Result<std::optional<io::ClientSocket>> into_session(Instant deadline);

 private:
  // What the server understands, found out by greeting it.
  enum class Server {
    WithoutPing,  // Layout C: PyTorch 2.2 to 2.4.
    WithPing,     // Layout D and newer.
  };

  StoreChannel(io::ClientSocket socket, const io::Address& address);

  static tl::expected<StoreChannel, Failure> open_one(const io::Address& address,
                                                      Instant connect_by, Instant deadline);
  static Result<StoreChannel> greet(io::ClientSocket socket, const io::Address& address, Server as,
                                    Instant deadline);
  Result<void> send(const core::store::Request& request, Instant deadline);
  Result<core::store::Reply> receive(wire::ReplyShape shape, std::size_t count, Instant deadline);
  tl::unexpected<Error> broken(std::string_view action, std::string_view key, const Error& error);

  std::optional<io::ClientSocket> socket_;  // None once the channel is broken.
  io::Address address_;
  io::Address local_address_;
  Server server_ = Server::WithPing;
  std::optional<Error> broken_;
  ByteBuffer out_;
  ByteBuffer in_;
  std::size_t answered_ = 0;  // Bytes of in_ that the latest reply occupies.
  wire::Progress progress_;
  wire::ReplyParser parser_;
};

}  // namespace regroup::runtime
