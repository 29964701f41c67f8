// The sessions at one port: which are there, what is on its way to them, and which are to be
// closed.
//
// Nothing is flushed or closed before the end of the current event (finish()), so no session
// disappears while it is being handled.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/coordinator/coordinator.h"
#include "runtime/common/complaints.h"
#include "runtime/coordinator/coordinator_counters.h"
#include "runtime/coordinator/session_peer.h"

namespace regroup::runtime {

class SessionTable {
 public:
  // `host` is told what the peers do.
  SessionTable(PeerHost& host, const SessionLimits& limits);

  // If there are too many, the new one has been told so, and is ending already.
  std::unique_ptr<Peer> add(std::shared_ptr<io::Connection> connection, std::function<void()> drop);
  void remove(Peer& peer);
  Peer* find(core::coordinator::SessionId session) const;

  // Closes a peer that has too much unread already.
  void send(Peer& peer, const core::coordinator::FromCoordinator& message);
  // A regular end: it has a while to read what it was told, and to close. Its run knows of it.
  void end(Peer& peer);
  // Tells it why, then ends it. `lasting`: it should not come back.
  void refuse(Peer& peer, std::string why, bool lasting = false);
  // It has broken the rules: it is counted, logged, and closed at the end of the event.
  void close_for(Peer& peer, const std::string& why);
  // Counts its messages, and closes it if there are too many.
  bool says_too_much(Peer& peer, int more, Instant now);

  // Closes peers that have not said hello, or have not closed, in time.
  void expire(Instant now);
  std::optional<Instant> next_deadline();

  // At the end of an event: first the runs of the closing peers are told, which may close others;
  // then comes finish().
  Peer* next_closing();
  void finish();

  void clear();
  CoordinatorCounters counters() const;
  void count_message() { ++counters_.messages_in; }
  void count_bytes(std::size_t bytes) { counters_.bytes_in += bytes; }
  void complain(const std::string& line) { complaints_.add(line); }

 private:
  bool is_at(core::coordinator::SessionId session, Peer::Stage stage) const;
  void touch(Peer& peer);
  void drop_at_the_end(Peer& peer);

  PeerHost& host_;
  const std::size_t most_;
  std::unordered_map<core::coordinator::SessionId, Peer*> peers_;
  std::uint64_t next_session_ = 1;
  WaitingLine strangers_;
  WaitingLine leaving_;
  CoordinatorCounters counters_;
  Complaints complaints_{"coordinator"};

  // For the current event.
  std::vector<Peer*> touched_;
  std::vector<Peer*> closing_;
  std::size_t told_of_closing_ = 0;
};

}  // namespace regroup::runtime
