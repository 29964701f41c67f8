// The sessions at one port: who is there, what is on its way to them, and who has to go.
//
// Nothing is flushed or closed before the end of the event that is under way (finish()), so nobody
// goes away while somebody is dealt with.
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
  // `host` hears what the peers do.
  SessionTable(PeerHost& host, const SessionLimits& limits);

  // One too many has been told so, and is ending already.
  std::unique_ptr<Peer> add(std::shared_ptr<io::Connection> connection, std::function<void()> drop);
  void remove(Peer& peer);
  Peer* find(core::coordinator::SessionId session) const;

  // Dooms a peer that has not read what it was told before.
  void send(Peer& peer, const core::coordinator::FromCoordinator& message);
  // By the rules: it has a while to read what it was told, and to close. Its run knows of it.
  void end(Peer& peer);
  // Said to it, then the end. Lasting: it need not come back.
  void refuse(Peer& peer, std::string why, bool lasting = false);
  // It has broken the rules: counted, logged, and closed at the end of the event.
  void doom(Peer& peer, const std::string& why);
  // Counts what it says, and dooms it if that is too much.
  bool says_too_much(Peer& peer, int more, Instant now);

  // Dooms those who have not said hello, or have not closed, in time.
  void expire(Instant now);
  std::optional<Instant> next_deadline();

  // The end of an event: first the runs of the doomed are told, which may doom others; then comes
  // finish().
  Peer* next_doomed();
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

  // Of the event that is under way.
  std::vector<Peer*> touched_;
  std::vector<Peer*> doomed_;
  std::size_t told_of_doomed_ = 0;
};

}  // namespace regroup::runtime
