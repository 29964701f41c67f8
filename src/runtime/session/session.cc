#include "runtime/session/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "io/loop/clock.h"
#include "io/net/tcp_connection.h"
#include "runtime/common/limits.h"
#include "runtime/common/log.h"

namespace regroup::runtime {

using namespace core::coordinator;

namespace {

// After a connection that has lasted this long, the pauses between tries begin short again.
constexpr Duration kSteady = 1s;

}  // namespace

Session::Session(io::Loop& loop, OpenedSession first, SessionOptions options)
    : loop_(loop),
      options_(std::move(options)),
      helper_(loop, "session"),
      timer_(loop),
      flush_limit_(loop) {
  take_up(std::move(first));
}

Session::~Session() {
  if (connection_) connection_->close();
}

void Session::take_up(OpenedSession opened) {
  talk_.emplace(
      opened.proofs, opened.seals,
      SessionTalk::Settings{.heartbeat_limit = options_.heartbeat_limit, .was_served = was_served_},
      io::now());
  taken_up_ = io::now();
  unsent_since_.reset();
  connection_ = io::connection_of(loop_, std::move(opened.socket));
  if (!connection_->start(*this))
    return lose({.why = "the system does not let us watch the connection"});
  talk_->introduce(options_.introduction(), connection_->output());
  send();
}

void Session::say(const FromAgent& message) {
  if (!talk_) return;
  talk_->say(message, connection_->output());
  send();
}

void Session::send() {
  connection_->flush();
  if (connection_->output().empty())
    unsent_since_.reset();
  else if (!unsent_since_)
    unsent_since_ = io::now();
  arm();
}

void Session::arm() {
  Instant next = talk_->next_deadline();
  if (unsent_since_) next = std::min(next, *unsent_since_ + kSayLimit);
  timer_.set(next, [this] { look(); });
}

void Session::look() {
  // First read what is in the socket: after a slow turn of ours the coordinator only seems silent.
  loop_.read_what_is_ready();
  if (!talk_) return;
  if (unsent_since_ && io::now() - *unsent_since_ >= kSayLimit)
    return lose({.why = "the coordinator does not take what is said"});
  if (const auto end = talk_->on_time(io::now(), connection_->output())) return lose(*end);
  send();
}

void Session::bytes_came() {
  auto [messages, end] = talk_->hear(connection_->input(), io::now());
  was_served_ = was_served_ || talk_->is_served();
  for (FromCoordinator& message : messages) options_.on_message(std::move(message));
  if (!talk_) return;
  if (flush_ && talk_->answered() >= flush_->ping) finish_flush();
  if (end) return lose(*end);
  arm();
}

void Session::lose(const TalkEnd& end) {
  // If the coordinator has served us for a while, we try again at once. If it closes every
  // connection as soon as it has it, the pauses grow.
  if (talk_->is_served_here() && io::now() - taken_up_ >= kSteady) pauses_ = first_pauses();
  // This may be inside a call of the connection, so it is destroyed later.
  connection_->close();
  loop_.post([gone = std::move(connection_)] {});
  connection_ = nullptr;
  talk_.reset();
  timer_.cancel();
  if (flush_) finish_flush();
  if (end.nonsense) {
    // The same nonsense on every connection is logged once.
    if (end.why != complaint_) log_warning(fmt::format("session: {}; connecting again", end.why));
    complaint_ = end.why;
  }
  if (end.refused) return;
  if (options_.on_lost) options_.on_lost(end.why);
  come_back_later();
}

void Session::come_back_later() {
  timer_.set(io::now() + pauses_.next(), [this] {
    helper_.run(options_.connect,
                [this](Result<OpenedSession> opened) { come_back(std::move(opened)); });
  });
}

void Session::come_back(Result<OpenedSession> opened) {
  if (opened) return take_up(std::move(*opened));
  if (opened.error().kind == ErrorKind::Refused) {
    const std::string& why = opened.error().message;
    if (!was_served_) return options_.on_message(Refused{.why = why, .lasting = true});
    if (options_.on_lost && why != refusal_) options_.on_lost(why);
    refusal_ = why;
  }
  come_back_later();
}

void Session::flush(Duration limit, std::function<void()> done) {
  if (!talk_) return loop_.post(std::move(done));
  flush_ = Flush{.ping = talk_->ping(connection_->output()), .done = std::move(done)};
  flush_limit_.set(io::now() + limit, [this] { finish_flush(); });
  send();
}

void Session::finish_flush() {
  flush_limit_.cancel();
  if (!flush_) return;
  loop_.post(std::exchange(flush_, std::nullopt)->done);
}

}  // namespace regroup::runtime
