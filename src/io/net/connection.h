// Server side of TCP: who listens, and the connections that come of it.
//
// Both live on the loop's thread. A connection holds a small buffer while idle, reads what there is
// in one go, and writes what was queued in one go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/byte_buffer.h"
#include "io/loop/loop.h"
#include "io/net/address.h"
#include "regroup/result.h"

namespace regroup::io {

class Connection;

// Hears what happens to one connection. Called from the loop only, never from inside a call to the
// connection.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void bytes_came() = 0;      // They are in input(); consume what is understood.
  virtual void output_drained() = 0;  // After a flush() that could not write everything.
  virtual void closed(const std::string& reason) = 0;  // By the peer. The last call.
};

class Connection {
 public:
  virtual ~Connection() = default;

  // To be called once, by whoever takes the connection. The owner must outlive it or close() it.
  // False if the kernel cannot watch it: nothing will ever be heard.
  virtual bool start(ConnectionOwner& owner) = 0;

  virtual ByteBuffer& input() = 0;
  virtual ByteBuffer& output() = 0;

  // Writes output() as far as the socket takes it; the rest follows by itself.
  virtual void flush() = 0;

  // Back-pressure: while paused nothing is read, so the peer's own writes come to a stop.
  virtual void pause_reading() = 0;
  virtual void resume_reading() = 0;

  // Nothing follows what is in output(): behind it, the peer reads the end. Reading goes on,
  // because closing with bytes unread would take the answer from a peer that has not read it yet.
  virtual void end_output() = 0;

  // No call to the owner comes after this. What was in the buffers is gone.
  virtual void close() = 0;

  virtual std::string peer() const = 0;
};

class Listener {
 public:
  using OnConnection = std::function<void(std::shared_ptr<Connection>)>;
  using OnTrouble = std::function<void(const std::string&)>;

  // Binds to every address that `host` stands for and to no other; "::" takes IPv4 too, and falls
  // back to 0.0.0.0 where there is no IPv6. Port 0: any port that is free on all of them.
  static Result<std::unique_ptr<Listener>> open(Loop& loop, const std::string& host,
                                                std::uint16_t port, Duration resolve_limit = 10s);
  virtual ~Listener() = default;

  // `on_trouble` hears why a connection could not be accepted (no file descriptors, say); the
  // listener pauses for a moment and goes on.
  virtual void start(OnConnection on_connection, OnTrouble on_trouble) = 0;

  virtual std::uint16_t port() const = 0;
  virtual std::vector<std::string> addresses() const = 0;  // "127.0.0.1:29500"
};

// As many file descriptors as the system allows us: ten thousand clients need them. Returns the
// limit that holds afterwards.
std::size_t raise_descriptor_limit();

}  // namespace regroup::io
