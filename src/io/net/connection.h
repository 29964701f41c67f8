// Server side of TCP: a connection that a client has made to us (io/net/listener.h).
//
// Lives on the loop's thread. It holds a small buffer while idle, reads what there is in one go,
// and writes what was queued in one go.
#pragma once

#include <string>

#include "base/byte_buffer.h"

namespace regroup::io {

// Is told what happens to one connection. Called from the loop only, never from inside a call to
// the connection.
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

  // To be called once, by the code that takes the connection. The owner must outlive it or close()
  // it. False if the kernel cannot watch it: then no call will ever come.
  virtual bool start(ConnectionOwner& owner) = 0;

  virtual ByteBuffer& input() = 0;
  virtual ByteBuffer& output() = 0;

  // Writes output() as far as the socket takes it; the rest is written later without another call.
  virtual void flush() = 0;

  // Back-pressure: while paused nothing is read, so the peer's own writes come to a stop.
  virtual void pause_reading() = 0;
  virtual void resume_reading() = 0;

  // Nothing follows what is in output(): after it, the peer reads the end. Reading goes on, because
  // closing with bytes unread would take the answer from a peer that has not read it yet.
  virtual void end_output() = 0;

  // No call to the owner comes after this. What was in the buffers is gone.
  virtual void close() = 0;

  virtual std::string peer() const = 0;
  // The kernel gives the lowest number that is free, so this process has more descriptors than
  // this. Below zero once it is closed.
  virtual int descriptor() const = 0;
};

}  // namespace regroup::io
