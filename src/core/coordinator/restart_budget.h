// Counts what a run may still spend: restarts of the whole run or of each node, failures right
// after the start, changes of members; and how often each node was the first to fail.
//
// Values in, values out: it stops nothing and sends nothing. The coordinator asks before it starts
// workers again, and acts on the answer.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/instant.h"
#include "core/coordinator/messages.h"
#include "core/rendezvous/state.h"

namespace regroup::core::coordinator {

class RestartBudget {
 public:
  explicit RestartBudget(const RunRules& rules) : rules_(rules) {}

  // `max_restarts`: of this node alone; it matters where each node counts its own.
  void admit(const rendezvous::NodeId& node, std::int64_t max_restarts);
  void forget(const rendezvous::NodeId& node);

  // Counting goes on from what a node says of the time before ours: the restarts that it was told
  // of, as far as the rules allow so many, and those of a round that it is still in.
  void recall(const rendezvous::NodeId& node, std::int64_t told);
  void resume(const rendezvous::NodeId& node, std::int64_t restart_count);

  void on_round_started(Instant now) {
    round_started_ = now;
    resumed_.reset();
  }

  struct Culprit {
    rendezvous::NodeId node;
    // Strikes are counted by name: a node that was started again has another id. Empty: none.
    std::string name;
  };
  struct Decision {
    bool restart = false;
    std::string note = {};  // Why not, if the reason is not that restarts are used up.
  };
  // The first failure of a round. If a restart is allowed, this call spends it; but not if the
  // round is from before our time, and a node was told of more restarts than its workers were. Then
  // an earlier coordinator has spent one on the failure of this round.
  Decision on_failure(const Culprit& culprit, std::int64_t exit_code, Instant now);
  // A round is stopped because its set of members changes.
  Decision on_members_changed();

  // Why a node is not let in that was the first to fail too often. Empty: it is let in.
  std::string why_barred(const std::string& name) const;

  std::int64_t restarts() const { return restarts_; }  // Of the run.
  // What the node's workers are told: its own restarts where each node counts, else those of the
  // run.
  std::int64_t restart_count(const rendezvous::NodeId& node) const;

 private:
  struct Own {
    std::int64_t restarts = 0;
    std::int64_t max_restarts = 0;
  };
  void raise(const rendezvous::NodeId& node, std::int64_t restarts);
  Decision may_restart(const rendezvous::NodeId& node, std::int64_t exit_code, Instant now);

  const RunRules rules_;
  std::int64_t restarts_ = 0;
  std::map<rendezvous::NodeId, Own> own_;
  std::deque<Instant> within_window_;  // When workers were started again, the earliest first.
  Instant round_started_;
  std::optional<std::int64_t> resumed_;  // What workers of a round from before our time were told.
  std::int64_t quick_failures_ = 0;      // In a row.
  std::int64_t member_changes_ = 0;
  std::map<std::string, std::int64_t> strikes_;  // By name.
};

}  // namespace regroup::core::coordinator
