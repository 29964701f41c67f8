// Counts what a run may still spend: restarts of the whole run or of each node, failures right
// after the start, changes of members; and how often each node was the first to fail.
//
// Values in, values out: it stops nothing and tells nobody. The coordinator asks before it starts
// workers again, and acts on the answer.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "base/instant.h"
#include "core/coordinator/messages.h"
#include "core/rendezvous/state.h"

namespace regroup::core::coordinator {

class RestartBudget {
 public:
  explicit RestartBudget(const RunRules& rules) : rules_(rules) {}

  // `max_restarts`: of this node alone; it counts where each node counts its own.
  void admit(const rendezvous::NodeId& node, std::int64_t max_restarts);
  void forget(const rendezvous::NodeId& node);

  // What a node says of the time before ours is counted on: the restarts that it was told of, as
  // far as the rules allow so many; and those of a round that it is still in.
  void recall(const rendezvous::NodeId& node, std::int64_t told);
  void resume(const rendezvous::NodeId& node, std::int64_t restart_count);

  void on_round_started(Instant now) { round_started_ = now; }

  struct Culprit {
    rendezvous::NodeId node;
    std::string name;  // Strikes are counted by name: a node that was started again has another id.
  };
  struct Decision {
    bool restart = false;
    std::string note = {};  // Why not, if it is not for want of restarts.
  };
  // The first failure of a round. A restart that is allowed is spent by it.
  Decision on_failure(const Culprit& culprit, std::int64_t exit_code, Instant now);
  // A round is stopped for another set of members.
  Decision on_members_changed();

  // A node that was the first to fail too often: why it is not let in. Empty: it is.
  std::string why_barred(const std::string& name) const;

  std::int64_t restarts() const { return restarts_; }  // Of the run.
  // What the node's workers are told: its own where each node counts, else those of the run.
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
  std::int64_t quick_failures_ = 0;  // In a row.
  std::int64_t member_changes_ = 0;
  std::map<std::string, std::int64_t> strikes_;  // By name.
};

}  // namespace regroup::core::coordinator
