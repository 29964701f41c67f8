#include "io/net/tcp_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "io/loop/limits.h"
#include "io/loop/ready_set.h"
#include "io/net/keep_alive.h"

namespace regroup::io {
namespace {

class TcpConnection final : public Connection, private Watcher {
 public:
  TcpConnection(ReadySet& sockets, Descriptor socket, const Address& peer)
      : sockets_(sockets), socket_(std::move(socket)), peer_(peer) {
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    keep_alive(socket_.get());
  }
  ~TcpConnection() override { close(); }

  bool start(ConnectionOwner& owner) override {
    owner_ = &owner;
    watch();
    return watched_;
  }

  ByteBuffer& input() override { return input_; }
  ByteBuffer& output() override { return output_; }
  std::string peer() const override { return peer_.text(); }
  int descriptor() const override { return socket_ ? socket_.get() : -1; }

  void flush() override {
    if (blocked_ || output_.empty() || !socket_) return;
    const auto bytes = output_.view();
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // A broken socket reports itself to the loop: the owner, which may be in the middle of
    // something, is told from there.
    output_.consume(sent > 0 ? static_cast<std::size_t>(sent) : 0);
    blocked_ = !output_.empty();
    if (blocked_) {
      watch();
    } else {
      output_.release_if_empty(kIdleOutput);
      if (ending_) ::shutdown(socket_.get(), SHUT_WR);
    }
  }

  void end_output() override {
    ending_ = true;
    if (output_.empty() && socket_) ::shutdown(socket_.get(), SHUT_WR);
  }

  void pause_reading() override {
    paused_ = true;
    watch();
  }

  void resume_reading() override {
    paused_ = false;
    watch();
  }

  void close() override {
    owner_ = nullptr;
    if (!socket_) return;
    if (watched_) sockets_.remove(socket_.get(), *this);
    socket_.close();
    input_ = {};
    output_ = {};
  }

 private:
  void watch() {
    const std::uint32_t wanted = (paused_ ? 0u : EPOLLIN) | (blocked_ ? EPOLLOUT : 0u);
    if (owner_ == nullptr || (watched_ && wanted == watching_)) return;
    if (watched_)
      sockets_.change(socket_.get(), wanted, *this);
    else
      watched_ = sockets_.add(socket_.get(), wanted, *this);
    watching_ = wanted;
  }

  void ready(std::uint32_t events) override {
    if ((events & EPOLLOUT) != 0) drain();
    if (owner_ == nullptr) return;
    if (!paused_)
      read();
    else if ((events & (EPOLLERR | EPOLLHUP)) != 0)
      lost("the connection broke");
  }

  void drain() {
    blocked_ = false;
    flush();
    watch();
    if (output_.empty()) owner_->output_drained();
  }

  void read() {
    const auto room = input_.prepare(next_read_);
    const ssize_t got = ::recv(socket_.get(), room.data(), next_read_, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got < 0) return lost(std::strerror(errno));
    if (got == 0) return lost("closed by the peer");
    const auto size = static_cast<std::size_t>(got);
    input_.commit(size);
    // A full read means that more is coming: read in larger pieces, until it stops.
    if (size == next_read_)
      next_read_ = std::min(next_read_ * 2, kLargestRead);
    else if (size <= kFirstRead)
      next_read_ = kFirstRead;
    owner_->bytes_came();
    input_.release_if_empty(kFirstRead);
  }

  void lost(const std::string& reason) {
    ConnectionOwner& owner = *owner_;
    close();
    owner.closed(reason);
  }

  ReadySet& sockets_;
  Descriptor socket_;
  Address peer_;
  ConnectionOwner* owner_ = nullptr;
  ByteBuffer input_;
  ByteBuffer output_;
  std::size_t next_read_ = kFirstRead;
  std::uint32_t watching_ = 0;
  bool watched_ = false;
  bool paused_ = false;
  bool ending_ = false;   // The end of the stream follows the output.
  bool blocked_ = false;  // The socket takes no more at present; the rest waits for EPOLLOUT.
};

}  // namespace

std::shared_ptr<Connection> adopt_connection(Loop& loop, Descriptor socket, const Address& peer) {
  return std::make_shared<TcpConnection>(loop.sockets(), std::move(socket), peer);
}

std::shared_ptr<Connection> connection_of(Loop& loop, ClientSocket socket) {
  Descriptor descriptor = socket.release();
  Address peer;
  peer.size = sizeof peer.storage;
  if (::getpeername(descriptor.get(), peer.get(), &peer.size) != 0) peer.size = 0;
  return adopt_connection(loop, std::move(descriptor), peer);
}

}  // namespace regroup::io
