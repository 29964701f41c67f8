// One machine of a run: the real agent, its real conversation with the coordinator, its workers,
// and what joins the three, as runtime/agent and runtime/rounds do.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/agent/agent.h"
#include "core/agent/membership.h"
#include "sim/node/node_workers.h"
#include "sim/node/nodes_plan.h"
#include "sim/node/rounds_at_work.h"
#include "sim/session/connected_node.h"

namespace regroup::sim {

// How a process of a node ended by itself.
struct NodeEnd {
  core::rendezvous::NodeId id;
  core::agent::Ending ending = core::agent::Ending::Succeeded;
  int exit_code = 0;
  // Why the run has failed, as the coordinator of this life told it.
  struct RunFailed {
    std::int64_t life = 0;
    std::string text;
    bool is_ours = false;
  };
  std::optional<RunFailed> run_failed = {};
  std::string verdict = {};   // Another node's failure, as the agent names it.
  bool was_refused = false;   // The coordinator has refused it for good.
  bool run_was_over = false;  // It was told that the run is over.
  bool was_spare = false;
  std::optional<Duration> joined_for = {};  // How long it had been joining, if it was.
};

// What a whole node asks of the world around it, and tells it, besides what every node does.
class NodeSurroundings {
 public:
  virtual ~NodeSurroundings() = default;
  virtual bool may_be_done() const = 0;
  virtual bool is_stuck(std::int64_t round) const = 0;
  // What is wrong with it, or nothing.
  virtual std::optional<std::string> workers_began(std::int32_t node,
                                                   RoundsAtWork::Round round) = 0;
  virtual void ended(std::int32_t node, const NodeEnd& end) = 0;
};

class WholeNode final : public ConnectedNode, private GroupSurroundings {
 public:
  WholeNode(const NodesPlan& plan, std::int32_t index, Broken broken, SessionSurroundings& world,
            NodeSurroundings& work);

  void start() override;
  void crash() override;
  void signal(int number);
  void strike_worker(int number);
  void fail_worker() override;
  void be_done();

  bool is_running() const override { return agent_.has_value(); }
  std::optional<std::int64_t> runs() const override;
  std::int64_t living() const { return workers_ ? workers_->living() : 0; }
  bool has_hanging() const { return workers_ && workers_->has_hanging(); }
  bool was_signalled() const { return signal_ != 0; }
  const core::agent::Agent* agent() const { return agent_ ? &*agent_ : nullptr; }
  bool is_spare() const { return is_spare_; }
  const std::optional<core::coordinator::Sealed>& sealed() const { return sealed_; }

 private:
  using Agent = core::agent::Agent;
  using Membership = core::agent::Membership;

  Instant own_now() const override { return ConnectedNode::own_now(); }
  void after(Duration own, std::function<void()> act) override;
  bool is_stormy() const override { return world_.is_stormy(); }
  bool may_be_done() const override { return work_.may_be_done(); }
  bool is_stuck(std::int64_t round) const override { return work_.is_stuck(round); }
  bool has_others(std::int64_t) const override { return sealed_ && sealed_->world_size > 1; }
  void tell(std::string_view text) const override { ConnectedNode::tell(text); }
  void violated(std::string what) override;
  void worker_failed(int local_rank, int exit_code) override;
  void say_stalled(std::optional<core::hang::Votes> votes) override;
  void say_where(std::vector<core::hang::RankAt> ours) override;
  void group_over(core::agent::GroupEnd end) override;

  void play(const core::agent::Effects& effects);
  void play(Membership::Effects effects);
  void hand_on(const core::coordinator::ForWorkers& message);
  void arm();
  void join();
  void start_workers(int restart_count);
  void must_have_a_reason();
  void report(const std::string& text, std::int64_t rank, int exit_code);
  void ordered(const core::agent::Order& order);
  void note_end(const core::agent::Order& order);
  void finish(core::agent::Ending ending);
  int exit_code(core::agent::Ending ending) const;

  std::vector<core::coordinator::FromAgent> introduction() override;
  void hear(core::coordinator::FromCoordinator message) override;
  bool wants_another(std::string_view why) override;
  void flush();
  void flushed();
  void forget();

  const NodesPlan& nodes_plan_;
  const Broken broken_;
  NodeSurroundings& work_;

  std::optional<Agent> agent_;
  std::optional<Membership> membership_;
  std::optional<NodeWorkers> workers_;
  std::optional<core::coordinator::Sealed> sealed_;
  std::int64_t sealed_in_ = 0;  // The life of the coordinator that has sealed it.

  bool is_refused_ = false;
  std::optional<std::uint64_t> flush_;  // Done once this ping is answered.
  std::optional<Instant> agent_armed_;
  std::optional<Instant> membership_armed_;

  // What follows belongs to this process.
  bool given_up_ = false;
  bool reported_ = false;
  bool is_spare_ = false;
  int signal_ = 0;
  int code_ = 0;  // Of the worker that failed first in the last group.
  std::optional<Instant> joining_since_;
  std::optional<Duration> joined_for_;
  bool run_was_over_ = false;
  std::optional<core::agent::GroupEnd> last_group_;
  std::int64_t last_round_ = 0;  // The round of the last group.
  std::optional<core::coordinator::Stop> last_stop_;
  int restarts_ = 0;
  std::optional<Instant> struck_at_;  // A worker ended by a signal that is to come to us, too.
  std::string failure_text_;          // Of the first worker of this start that failed,
  std::int64_t failed_rank_ = 0;      // and its rank.
  std::optional<NodeEnd::RunFailed> run_failed_;
};

}  // namespace regroup::sim
