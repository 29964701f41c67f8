#include "io/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "io/ready_set.h"
#include "io/tcp_connection.h"

namespace regroup::io {
namespace {

// Most requests of a store are far smaller than the first; ten thousand idle clients hold it each.
constexpr std::size_t kFirstRead = 1024;
constexpr std::size_t kLargestRead = 256 * 1024;
// What an idle connection may keep of a buffer that had to grow.
constexpr std::size_t kIdleOutput = 4096;

class TcpConnection final : public Connection, private Watcher {
 public:
  TcpConnection(ReadySet& sockets, int fd, const Address& peer)
      : sockets_(sockets), fd_(fd), peer_(peer) {
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  ~TcpConnection() override { close(); }

  void start(ConnectionOwner& owner) override {
    owner_ = &owner;
    watch();
  }

  ByteBuffer& input() override { return input_; }
  ByteBuffer& output() override { return output_; }
  std::string peer() const override { return peer_.text(); }

  void flush() override {
    if (blocked_ || output_.empty() || fd_ < 0) return;
    const auto bytes = output_.view();
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    // Of an error the owner hears later, when the socket reports it: now he may be in the middle of
    // something.
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return;
    output_.consume(sent > 0 ? static_cast<std::size_t>(sent) : 0);
    blocked_ = !output_.empty();
    if (blocked_)
      watch();
    else
      output_.release_if_empty(kIdleOutput);
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
    if (fd_ < 0) return;
    if (watched_) sockets_.remove(fd_, *this);
    ::close(std::exchange(fd_, -1));
  }

 private:
  void watch() {
    const std::uint32_t wanted = (paused_ ? 0u : EPOLLIN) | (blocked_ ? EPOLLOUT : 0u);
    if (owner_ == nullptr || (watched_ && wanted == watching_)) return;
    if (watched_)
      sockets_.change(fd_, wanted, *this);
    else
      watched_ = sockets_.add(fd_, wanted, *this);
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
    input_.release_if_empty(next_read_);
    const auto room = input_.prepare(next_read_);
    const ssize_t got = ::recv(fd_, room.data(), next_read_, MSG_DONTWAIT);
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
  }

  void lost(const std::string& reason) {
    ConnectionOwner& owner = *owner_;
    close();
    owner.closed(reason);
  }

  ReadySet& sockets_;
  int fd_;
  Address peer_;
  ConnectionOwner* owner_ = nullptr;
  ByteBuffer input_;
  ByteBuffer output_;
  std::size_t next_read_ = kFirstRead;
  std::uint32_t watching_ = 0;
  bool watched_ = false;
  bool paused_ = false;
  bool blocked_ = false;  // The socket takes no more at present; the rest waits for EPOLLOUT.
};

}  // namespace

std::shared_ptr<Connection> adopt_connection(Loop& loop, int fd, const Address& peer) {
  return std::make_shared<TcpConnection>(loop.sockets(), fd, peer);
}

}  // namespace regroup::io
