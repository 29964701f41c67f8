#include "runtime/coordinator/session_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "io/loop/clock.h"
#include "runtime/common/limits.h"
#include "runtime/coordinator/run_table.h"
#include "wire/session/session.h"

namespace regroup::runtime {

using namespace core::coordinator;
using Stage = Peer::Stage;

SessionTable::SessionTable(PeerHost& host, const SessionLimits& limits)
    : host_(host),
      most_(limits.sessions),
      strangers_(limits.hello),
      leaving_(kSessionGoodbyeLimit) {}

std::unique_ptr<Peer> SessionTable::add(std::shared_ptr<io::Connection> connection,
                                        std::function<void()> drop) {
  auto peer = std::make_unique<Peer>(host_, SessionId{next_session_++}, std::move(connection),
                                     std::move(drop));
  peers_.emplace(peer->id, peer.get());
  ++counters_.sessions_ever;
  strangers_.add(peer->id, io::now());
  if (peers_.size() > most_) {
    complain(fmt::format("refused {}: {} sessions are open, which is the limit",
                         peer->connection->peer(), most_));
    refuse(*peer, "the coordinator has no room for more sessions");
  }
  return peer;
}

void SessionTable::remove(Peer& peer) {
  peer.stage = Stage::Gone;
  peers_.erase(peer.id);
}

Peer* SessionTable::find(SessionId session) const {
  const auto found = peers_.find(session);
  return found == peers_.end() ? nullptr : found->second;
}

void SessionTable::send(Peer& peer, const FromCoordinator& message) {
  if (!peer.is_heard()) return;
  auto& output = peer.connection->output();
  const std::size_t before = output.size();
  // A report may be longer than that: what counts is what was left unread before it.
  if (before > kUnreadBySession) return close_for(peer, "it does not read what it is told");
  wire::append_frame(output, message);
  if (FrameSealer* sealer = peer.gate.outward()) sealer->seal(output, before);
  ++counters_.messages_out;
  counters_.bytes_out += output.size() - before;
  touch(peer);
}

void SessionTable::touch(Peer& peer) {
  if (!std::exchange(peer.touched, true)) touched_.push_back(&peer);
}

void SessionTable::end(Peer& peer) {
  if (!peer.is_heard()) return;
  peer.stage = Stage::Ending;
  if (Run* run = std::exchange(peer.run, nullptr)) --run->sessions;
  leaving_.add(peer.id, io::now());
  touch(peer);
}

void SessionTable::refuse(Peer& peer, std::string why, bool lasting) {
  ++counters_.refused;
  send(peer, Refused{.why = std::move(why), .lasting = lasting});
  end(peer);
}

void SessionTable::close_for(Peer& peer, const std::string& why) {
  ++counters_.refused;
  complain(fmt::format("closed the session of {}: {}", peer.connection->peer(), why));
  drop_at_the_end(peer);
}

void SessionTable::drop_at_the_end(Peer& peer) {
  peer.stage = Stage::Closing;
  closing_.push_back(&peer);
}

bool SessionTable::says_too_much(Peer& peer, int more, Instant now) {
  if (now - peer.second_began >= 1s) {
    peer.second_began = now;
    peer.said_in_second = 0;
  }
  peer.said_in_second += more;
  if (peer.said_in_second <= kMessagesInASecond) return false;
  close_for(peer, "it sends more messages in a second than the limit allows");
  return true;
}

void SessionTable::expire(Instant now) {
  while (const auto late = strangers_.take_late(now))
    if (is_at(*late, Stage::New)) close_for(*find(*late), "it did not say hello");
  while (const auto late = leaving_.take_late(now))
    if (is_at(*late, Stage::Ending)) drop_at_the_end(*find(*late));
}

std::optional<Instant> SessionTable::next_deadline() {
  const auto stranger = strangers_.next([this](SessionId id) { return is_at(id, Stage::New); });
  const auto leaving = leaving_.next([this](SessionId id) { return is_at(id, Stage::Ending); });
  if (!stranger || !leaving) return stranger ? stranger : leaving;
  return std::min(*stranger, *leaving);
}

bool SessionTable::is_at(SessionId session, Stage stage) const {
  const Peer* peer = find(session);
  return peer != nullptr && peer->stage == stage;
}

Peer* SessionTable::next_closing() {
  return told_of_closing_ == closing_.size() ? nullptr : closing_[told_of_closing_++];
}

void SessionTable::finish() {
  for (Peer* peer : touched_) {
    peer->touched = false;
    if (peer->stage == Stage::Closing) continue;
    peer->connection->flush();
    if (peer->stage == Stage::Ending) peer->connection->end_output();
  }
  touched_.clear();
  for (Peer* peer : closing_) {
    remove(*peer);
    peer->drop();
  }
  closing_.clear();
  told_of_closing_ = 0;
}

void SessionTable::clear() {
  for (const auto& [id, peer] : peers_) peer->stage = Stage::Gone;
  peers_.clear();
  strangers_.clear();
  leaving_.clear();
}

CoordinatorCounters SessionTable::counters() const {
  CoordinatorCounters counters = counters_;
  counters.sessions = peers_.size();
  return counters;
}

}  // namespace regroup::runtime
