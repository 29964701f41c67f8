#include "io/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "io/tcp_connection.h"

namespace regroup::io {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Most requests of a store are far smaller than the first; ten thousand idle clients hold it each.
constexpr std::size_t kFirstRead = 1024;
constexpr std::size_t kLargestRead = 256 * 1024;
// What an idle connection may keep of a buffer that had to grow.
constexpr std::size_t kIdleOutput = 4096;

class TcpConnection final : public Connection, public std::enable_shared_from_this<TcpConnection> {
 public:
  explicit TcpConnection(tcp::socket socket) : socket_(std::move(socket)) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    socket_.non_blocking(true, ignored);
    // Asked now, because a peer that went away has no address any more.
    const auto endpoint = socket_.remote_endpoint(ignored);
    if (!ignored) peer_ = join_host_port(endpoint.address().to_string(), endpoint.port());
  }

  void start(ConnectionOwner& owner) override {
    owner_ = &owner;
    read();
  }

  ByteBuffer& input() override { return input_; }
  ByteBuffer& output() override { return output_; }
  std::string peer() const override { return peer_; }

  void flush() override {
    if (waiting_to_write_ || output_.empty() || !socket_.is_open()) return;
    error_code error;
    const auto bytes = output_.view();
    const std::size_t sent = socket_.write_some(asio::buffer(bytes.data(), bytes.size()), error);
    if (error && error != asio::error::would_block) {
      // The owner may be in the middle of something: it hears of this from the loop.
      asio::post(socket_.get_executor(), [self = shared_from_this(), error] { self->lost(error); });
      return;
    }
    output_.consume(sent);
    if (output_.empty()) {
      output_.release_if_empty(kIdleOutput);
      return;
    }
    waiting_to_write_ = true;
    socket_.async_wait(tcp::socket::wait_write,
                       [self = shared_from_this()](const error_code& failed) {
                         self->waiting_to_write_ = false;
                         if (failed || self->owner_ == nullptr) return;
                         self->flush();
                         if (self->output_.empty()) self->owner_->output_drained();
                       });
  }

  void pause_reading() override { paused_ = true; }

  void resume_reading() override {
    if (!paused_) return;
    paused_ = false;
    read();
  }

  void close() override {
    owner_ = nullptr;
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  void read() {
    if (reading_ || paused_ || owner_ == nullptr) return;
    reading_ = true;
    input_.release_if_empty(next_read_);
    const auto room = input_.prepare(next_read_).first(next_read_);
    socket_.async_read_some(asio::buffer(room.data(), room.size()),
                            [self = shared_from_this()](const error_code& error, std::size_t size) {
                              self->reading_ = false;
                              if (self->owner_ == nullptr) return;
                              if (error) return self->lost(error);
                              self->input_.commit(size);
                              // A full read means that more is coming: read in larger pieces, until
                              // it stops.
                              self->next_read_ = size == self->next_read_
                                                     ? std::min(self->next_read_ * 2, kLargestRead)
                                                 : size <= kFirstRead ? kFirstRead
                                                                      : self->next_read_;
                              self->owner_->bytes_came();
                              self->read();
                            });
  }

  void lost(const error_code& error) {
    if (owner_ == nullptr) return;
    ConnectionOwner& owner = *owner_;
    close();
    owner.closed(error == asio::error::eof ? "closed by the peer" : error.message());
  }

  tcp::socket socket_;
  ConnectionOwner* owner_ = nullptr;
  ByteBuffer input_;
  ByteBuffer output_;
  std::string peer_;
  std::size_t next_read_ = kFirstRead;
  bool reading_ = false;
  bool paused_ = false;
  bool waiting_to_write_ = false;
};

}  // namespace

std::shared_ptr<Connection> adopt_connection(Loop& loop, int fd, int family) {
  tcp::socket socket(loop.context());
  error_code error;
  socket.assign(family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, error);
  if (error) return nullptr;
  return std::make_shared<TcpConnection>(std::move(socket));
}

}  // namespace regroup::io
