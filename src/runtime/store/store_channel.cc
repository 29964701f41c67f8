#include "runtime/store/store_channel.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/text.h"
#include "io/loop/clock.h"
#include "runtime/common/backoff.h"
#include "runtime/common/limits.h"
#include "wire/session/session.h"

namespace regroup::runtime {
namespace {

using namespace core::store;

constexpr std::string_view kGreet = "greet";

// Old servers read the number as the upper bytes of a length. With its lower three bytes set they
// close at once; with zeros there they would try to make room for tens of gigabytes.
std::uint32_t ping_nonce() { return static_cast<std::uint32_t>(::getpid()) | 0x00010101; }

std::string describe(std::string_view action, std::string_view key, const io::Address& address) {
  std::string text(action);
  if (!key.empty()) text += " " + printable(key);
  return text + " at " + address.text();
}

}  // namespace

StoreChannel::StoreChannel(io::ClientSocket socket, const io::Address& address)
    : socket_(std::move(socket)),
      address_(address),
      local_address_(socket_->local_address()),
      parser_(kLargestAnswer) {}

const char* StoreChannel::Failure::advice() const {
  if (!answered) return "Is the store running, and is this its address?";
  if (why.kind == ErrorKind::Timeout)
    return "Something listens there but does not answer: a store that is stuck, or no store.";
  return "Something listens there, but it is no store of PyTorch 2.2 or newer.";
}

Result<StoreChannel> StoreChannel::greet(io::ClientSocket socket, const io::Address& address,
                                         Server as, Instant deadline) {
  StoreChannel channel(std::move(socket), address);
  channel.server_ = as;
  // The greeting and the first request go out in one write of at least nine bytes: a server of
  // PyTorch 2.1 or older takes less for an unfinished request and stalls, for all its clients.
  wire::append_greeting(channel.out_);
  if (as == Server::WithPing) {
    const Ping ping{ping_nonce()};
    auto echo = channel.ask(kGreet, {}, ping, deadline);
    if (!echo) return tl::unexpected(echo.error());
    if (std::get<Pong>(*echo).nonce != ping.nonce)
      return fail(ErrorKind::Protocol,
                  address.text() + " is no store: it answered the greeting wrong");
    return channel;
  }
  constexpr int kEnough = 4;  // The greeting's five bytes and these.
  for (int i = 1; i < kEnough; ++i) wire::append_request(channel.out_, NumKeys{});
  auto first = channel.ask(kGreet, {}, NumKeys{}, deadline);
  for (int i = 1; first && i < kEnough; ++i)
    first = channel.receive(wire::ReplyShape::Number, 0, deadline);
  if (!first) return tl::unexpected(first.error());
  return channel;
}

tl::expected<StoreChannel, StoreChannel::Failure> StoreChannel::open_one(const io::Address& address,
                                                                         Instant connect_by,
                                                                         Instant deadline) {
  const auto as = [&](Server kind) -> tl::expected<StoreChannel, Failure> {
    auto socket = io::ClientSocket::connect(address, connect_by);
    if (!socket) return tl::unexpected(Failure{socket.error(), false});
    auto channel = greet(std::move(*socket), address, kind, deadline);
    if (!channel) return tl::unexpected(Failure{channel.error(), true});
    return std::move(*channel);
  };
  auto newer = as(Server::WithPing);
  if (newer || !newer.error().answered || newer.error().why.kind != ErrorKind::Connection)
    return newer;
  // It hung up: an older server, or one that was full, or just starting. If it accepts the older
  // greeting, the newer one gets a second chance.
  auto older = as(Server::WithoutPing);
  if (!older) return older;
  newer = as(Server::WithPing);
  return newer ? std::move(newer) : std::move(older);
}

tl::expected<StoreChannel, StoreChannel::Failure> StoreChannel::try_once(
    const std::vector<io::Address>& addresses, Instant deadline) {
  constexpr Duration kConnectLimit = 5s;
  Failure worst{{ErrorKind::Connection, "there is no address to try"}, false};
  for (const io::Address& address : addresses) {
    auto channel =
        open_one(address, std::min(deadline, io::deadline_after(kConnectLimit)), deadline);
    if (channel) return channel;
    // An error that will not go away tells more than one that came after it.
    if (worst.may_pass()) worst = channel.error();
  }
  return tl::unexpected(worst);
}

Result<StoreChannel> StoreChannel::open(const std::string& host, std::uint16_t port,
                                        Instant deadline) {
  Backoff backoff(20ms, 1s);
  Failure last{{ErrorKind::Timeout, "the time limit is too short"}, false};
  for (;;) {
    auto addresses = io::resolve(host, port, deadline);
    if (addresses) {
      auto channel = try_once(*addresses, deadline);
      if (channel) return std::move(*channel);
      last = channel.error();
      if (!last.may_pass()) break;
    } else {
      last = {addresses.error(), false};
    }
    const Duration pause = backoff.next();
    if (io::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  return fail(last.may_pass() ? ErrorKind::Timeout : last.why.kind,
              fmt::format("cannot reach a store at {}: {}. {}", io::join_host_port(host, port),
                          last.why.message, last.advice()));
}

Result<Reply> StoreChannel::ask(std::string_view action, std::string_view key,
                                const Request& request, Instant deadline) {
  if (broken_) return tl::unexpected(*broken_);
  if (auto sent = send(request, deadline); !sent) return broken(action, key, sent.error());
  const auto* many = std::get_if<MultiGet>(&request);
  const std::size_t count = many != nullptr ? many->keys.size() : 0;
  auto reply = receive(wire::reply_shape(request), count, deadline);
  if (!reply) return broken(action, key, reply.error());
  return reply;
}

Result<void> StoreChannel::wait(std::string_view action, std::string_view key,
                                const Request& request, Instant deadline) {
  if (broken_) return tl::unexpected(*broken_);
  if (auto sent = send(request, deadline); !sent) return broken(action, key, sent.error());
  auto ended = receive(wire::ReplyShape::WaitEnded, 0, deadline);
  if (ended) {
    if (std::get<WaitEnded>(*ended).how == WaitEnd::Arrived) return {};
    return fail(ErrorKind::Cancelled,
                describe(action, key, address_) + ": the server ended the wait");
  }
  if (ended.error().kind != ErrorKind::Timeout) return broken(action, key, ended.error());

  const Instant grace = io::deadline_after(kAnswerGrace);
  if (auto sent = send(CancelWait{}, grace); !sent) return broken(action, key, sent.error());
  auto answer = receive(wire::ReplyShape::WaitEnded, 0, grace);
  if (!answer) return broken(action, key, answer.error());
  if (std::get<WaitEnded>(*answer).how == WaitEnd::Cancelled)
    return fail(ErrorKind::Timeout, describe(action, key, address_) + ": the time limit passed");
  // What we waited for came while we were giving up; the confirmation follows.
  answer = receive(wire::ReplyShape::WaitEnded, 0, grace);
  if (!answer) return broken(action, key, answer.error());
  return {};
}

Result<std::optional<io::ClientSocket>> StoreChannel::into_session(Instant deadline) {
  constexpr std::string_view kAction = "ask for a session";
  const std::vector<std::string_view> keys{wire::kSessionKey};
  auto reply = ask(kAction, {}, Check{keys}, deadline);
  if (!reply) return tl::unexpected(reply.error());
  if (!std::get<Ready>(*reply).all) return std::nullopt;
  // Nothing was said in the session yet, so no answer may be there.
  if (in_.size() > answered_)
    return broken(kAction, {}, {ErrorKind::Protocol, "the server spoke before it was asked"});
  broken_ = Error{ErrorKind::InvalidArgument,
                  "the connection to " + address_.text() + " has become a session"};
  return std::exchange(socket_, std::nullopt);
}

Result<void> StoreChannel::send(const Request& request, Instant deadline) {
  constexpr std::size_t kFirstNewKind = 13;  // Queues, lists and barriers came with later layouts.
  static_assert(std::is_same_v<std::variant_alternative_t<kFirstNewKind, Request>, QueuePush>);
  if (server_ == Server::WithoutPing && request.index() >= kFirstNewKind)
    return fail(ErrorKind::Unsupported, "the server is of PyTorch 2.4 or older and cannot do this");
  in_.consume(answered_);
  answered_ = 0;
  wire::append_request(out_, request);
  auto sent = socket_->send(out_.view(), deadline);
  out_.clear();
  constexpr std::size_t kKeep = 64 * 1024;
  out_.release_if_empty(kKeep);
  return sent;
}

Result<Reply> StoreChannel::receive(wire::ReplyShape shape, std::size_t count, Instant deadline) {
  in_.consume(answered_);
  answered_ = 0;
  for (;;) {
    auto parsed = parser_.parse(shape, count, in_.view(), progress_);
    if (const auto* whole = std::get_if<wire::Whole<Reply>>(&parsed)) {
      answered_ = whole->size;
      return whole->message;
    }
    if (const auto* wrong = std::get_if<wire::Malformed>(&parsed))
      return fail(ErrorKind::Protocol, wrong->reason);
    constexpr std::size_t kRoom = 16 * 1024;
    auto got = socket_->receive(in_.prepare(kRoom), deadline);
    if (!got) return tl::unexpected(got.error());
    in_.commit(*got);
  }
}

tl::unexpected<Error> StoreChannel::broken(std::string_view action, std::string_view key,
                                           const Error& error) {
  Error whole{error.kind, describe(action, key, address_) + ": " + error.message};
  // A request that was never sent has not put the two sides out of step.
  if (error.kind == ErrorKind::Unsupported) return tl::unexpected(whole);
  if (error.kind == ErrorKind::Connection && action != kGreet)
    whole.message +=
        " (the store has ended; or it refused: a store closes on a key over 8 KiB, a value over 8 "
        "MiB, an add to what is no number, an operation it does not know)";
  // The server must not keep waiting for us, or holding what we asked for.
  socket_.reset();
  broken_ = Error{error.kind, "the store connection was lost earlier: " + whole.message};
  return tl::unexpected(whole);
}

}  // namespace regroup::runtime
