// What a coordinator host keeps of one session, and of the sessions that it waits for.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/coordinator/coordinator.h"
#include "runtime/coordinator/session_service.h"
#include "runtime/session/frame_reader.h"
#include "runtime/session/session_gate.h"

namespace regroup::runtime {

struct Run;
struct Peer;

class PeerHost {
 public:
  virtual ~PeerHost() = default;
  virtual void hear(Peer& peer) = 0;
  virtual void forget(Peer& peer) = 0;
};

struct Peer final : SessionPeer {
  enum class Stage {
    New,      // It has said nothing yet.
    Looking,  // It has asked how things are, and belongs to no run.
    InARun,
    Ending,   // It was told why; its messages are ignored from now on.
    Closing,  // Is dropped at the end of the turn.
    Gone,
  };

  Peer(PeerHost& h, core::coordinator::SessionId i, std::shared_ptr<io::Connection> c,
       std::function<void()> d)
      : host(h), id(i), connection(std::move(c)), drop(std::move(d)) {}
  void bytes_came() override { host.hear(*this); }
  void closed() override { host.forget(*this); }

  bool is_heard() const {
    return stage == Stage::New || stage == Stage::Looking || stage == Stage::InARun;
  }

  PeerHost& host;
  const core::coordinator::SessionId id;
  const std::shared_ptr<io::Connection> connection;
  const std::function<void()> drop;
  Stage stage = Stage::New;
  SessionGate gate;  // Until it is passed, no message is acted on.
  FrameReader<core::coordinator::FromAgent> reader;
  Run* run = nullptr;      // Set for one that is in a run, or was dropped from it.
  bool touched = false;    // It has something to flush.
  std::size_t seen = 0;    // Bytes of its input that have been counted.
  Instant second_began{};  // For the limit on messages.
  int said_in_second = 0;
};

// Sessions that have a time limit for their next step. The limit is the same for all, so they are
// in order; whether one has taken the step is checked only at the front.
class WaitingLine {
 public:
  explicit WaitingLine(Duration limit) : limit_(limit) {}

  void add(core::coordinator::SessionId session, Instant now) {
    line_.emplace_back(now + limit_, session);
  }
  void clear() { line_.clear(); }

  // When the first of those for which `is_waiting(session)` holds is late.
  template <class IsWaiting>
  std::optional<Instant> next(IsWaiting is_waiting) {
    while (!line_.empty() && !is_waiting(line_.front().second)) line_.pop_front();
    if (line_.empty()) return std::nullopt;
    return line_.front().first;
  }

  std::optional<core::coordinator::SessionId> take_late(Instant now) {
    if (line_.empty() || line_.front().first > now) return std::nullopt;
    const auto late = line_.front().second;
    line_.pop_front();
    return late;
  }

 private:
  const Duration limit_;
  std::deque<std::pair<Instant, core::coordinator::SessionId>> line_;
};

}  // namespace regroup::runtime
