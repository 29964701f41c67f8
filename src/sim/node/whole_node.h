// One machine of a run: the real agent, its real conversation with the coordinator, its workers, and
// what joins the three, as runtime/agent and runtime/rounds do.
//
// A process that ended is followed by another, under the same name, if the world says so.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_buffer.h"
#include "core/agent/agent.h"
#include "core/agent/membership.h"
#include "sim/node/node_workers.h"
#include "sim/node/nodes_plan.h"
#include "sim/session/session_invariants.h"
#include "sim/session/session_links.h"
#include "sim/world/trace.h"

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
  std::string verdict = {};   // The agent's: another node's failure.
  bool was_refused = false;   // For good, by the coordinator.
  bool run_was_over = false;  // It was told so.
  bool was_spare = false;
  std::optional<Duration> joined_for = {};  // It was joining, for so long.
};

// What a whole node can do to the world around it.
class NodeSurroundings {
 public:
  virtual ~NodeSurroundings() = default;
  virtual Instant now() const = 0;
  virtual void later(std::int32_t node, Instant at, std::function<void()> act) = 0;
  // Ends in on_connected() or on_unreachable().
  virtual void connect(std::int32_t node) = 0;
  virtual std::int64_t life() const = 0;  // Of the coordinator's host.
  virtual Links& links() = 0;
  virtual bool is_stormy() const = 0;
  virtual bool may_be_done() const = 0;
  virtual bool is_stuck(std::int64_t round) const = 0;
  virtual void group_failed(std::int32_t node, std::int64_t round) = 0;
  virtual void ended(std::int32_t node, const NodeEnd& end) = 0;
  virtual SessionInvariants& invariants() = 0;
  virtual const Trace& trace() const = 0;
};

class WholeNode final : private GroupSurroundings {
 public:
  WholeNode(const NodesPlan& plan, std::int32_t index, Broken broken, NodeSurroundings& world);
  WholeNode(const WholeNode&) = delete;
  WholeNode& operator=(const WholeNode&) = delete;

  void start();
  void crash();  // Its workers die with it.
  void signal(int number);
  void kill_worker();
  void be_done();

  void on_connected(LinkId link);
  void on_unreachable();
  void on_bytes(LinkId link, std::string_view bytes);  // None: the connection is lost.

  bool is_running() const { return agent_.has_value(); }
  std::int64_t process() const { return process_; }
  core::rendezvous::NodeId id() const;
  std::optional<LinkId> link() const { return link_; }
  std::optional<std::int64_t> runs() const;  // Workers are there, of this round.
  std::int64_t living() const { return workers_ ? workers_->living() : 0; }
  bool has_hanging() const { return workers_ && workers_->has_hanging(); }
  bool was_signalled() const { return signal_ != 0; }
  const core::agent::Agent* agent() const { return agent_ ? &*agent_ : nullptr; }
  const std::string& group() const { return self_.group; }
  bool is_spare() const { return is_spare_; }
  const std::optional<core::coordinator::Sealed>& sealed() const { return sealed_; }

 private:
  using Agent = core::agent::Agent;
  using Membership = core::agent::Membership;

  Instant own_now() const override;
  void after(Duration own, std::function<void()> act) override;
  bool is_stormy() const override { return world_.is_stormy(); }
  bool may_be_done() const override { return world_.may_be_done(); }
  bool is_stuck(std::int64_t round) const override { return world_.is_stuck(round); }
  bool has_others(std::int64_t) const override { return sealed_ && sealed_->world_size > 1; }
  void tell(std::string_view text) const override;
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
  void report(const std::string& text, std::int64_t rank, int exit_code);
  void ordered(const core::agent::Order& order);
  void note_end(const core::agent::Order& order);
  void finish(core::agent::Ending ending);
  int exit_code(core::agent::Ending ending) const;

  void say(const core::coordinator::FromAgent& message);
  void hear(core::coordinator::FromCoordinator message);
  void flush();
  void flushed();
  void lose_connection(std::string_view why);
  void look_at_connection(LinkId link);
  void forget();

  const NodesPlan& plan_;
  const SessionNodePlan& self_;
  const std::int32_t index_;
  const Broken broken_;
  NodeSurroundings& world_;
  Dice dice_;

  std::int64_t process_ = 0;
  std::optional<Agent> agent_;
  std::optional<Membership> membership_;
  std::optional<NodeWorkers> workers_;
  std::optional<core::coordinator::Sealed> sealed_;

  std::optional<LinkId> link_;
  std::int64_t link_life_ = 0;
  bool connecting_ = false;
  bool is_refused_ = false;
  ByteBuffer in_;
  Duration retry_{};
  Instant heard_;
  std::uint64_t pings_ = 0;
  std::optional<std::uint64_t> flush_;  // Done once this ping is answered.
  std::optional<Instant> agent_armed_;
  std::optional<Instant> membership_armed_;

  // Of this process.
  bool given_up_ = false;
  bool reported_ = false;
  bool is_spare_ = false;
  int signal_ = 0;
  int code_ = 0;  // Of the worker that failed first in the last group.
  std::optional<Instant> joining_since_;
  std::optional<Duration> joined_for_;
  bool run_was_over_ = false;
  std::optional<core::agent::GroupEnd> last_group_;
  bool has_order_ = false;  // Since the last group was over, or came to be.
  int restarts_ = 0;
  std::optional<NodeEnd::RunFailed> run_failed_;
};

}  // namespace regroup::sim
