// The rounds of a node that has a session with the coordinator of its run. This carries out the
// effects of core::agent::Membership on the loop, and sends and receives through the session.
//
// In a round with nodes that have no session (torchrun's), ranks are exchanged and the end is
// awaited through the round's store, as those nodes do it. That blocks, and runs on a helper.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/agent/membership.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"
#include "io/loop/loop.h"
#include "regroup/rendezvous.h"
#include "runtime/common/helper.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/rendezvous/rendezvous_records.h"
#include "runtime/rendezvous/wait_lines.h"
#include "runtime/rounds/rounds.h"
#include "runtime/session/session.h"

namespace regroup::runtime {

// What these rounds need of the world around them. Tests play another one.
struct RoundsWorld {
  // The session with the coordinator; `connect` is filled in here. Called once.
  std::function<std::unique_ptr<NodeSession>(SessionOptions)> make_session;
  // Where this node would serve the workers' store, and where that of a round with nodes without a
  // session is (Bootstrap). Both block, and are called by one helper at a time.
  std::function<Result<BootstrapStore>()> offer;
  std::function<Result<BootstrapStore>(const core::rendezvous::State& joined,
                                       const core::rendezvous::NodeId& self,
                                       const std::shared_ptr<Store>& store)>
      agree;
  bool use_agent_store = true;
  StoreOpener open_store = {};
  // How many have a session with a coordinator that this process hosts; empty: it hosts none.
  std::function<std::size_t()> sessions_here = {};
};
// The real one, around a coordinator that has answered. `interrupted` ends what blocks.
RoundsWorld world_of(io::Loop& loop, CoordinatorContact contact,
                     const std::shared_ptr<std::atomic<bool>>& interrupted);

class CoordinatedRounds final : public Rounds {
 public:
  struct Options {
    RendezvousParameters parameters;  // `interrupted` of these is set.
    AgentPart part;
    core::rendezvous::Settings settings;
    std::string address;  // This node's, as others reach it.
    Instant began;        // When the first join, which has led here, began.
  };
  CoordinatedRounds(io::Loop& loop, Options options, RoundsWorld world, RoundEvents events);
  ~CoordinatedRounds() override;

  void join() override;
  void give_up_join() override;
  void workers_run(int /*restart_count*/) override {}  // Orders are pushed at any time.
  void workers_ended() override {}
  void failed(const WorkerFailure& failure) override;
  bool warn(int signal) override;
  void say_stalled(std::optional<core::hang::Votes> votes) override;
  void say_where(std::vector<core::hang::RankAt> ours) override;
  void check_in(bool succeeded, const std::string& cause) override;
  void leave(core::agent::Ending ending, bool close) override;

 private:
  // coordinated_rounds_mixed.cc: a round with nodes that have no session.
  struct MixedRound {
    RendezvousInfo info;
    core::rendezvous::AssignedRanks ranks;
    Duration took_to_assign{};
  };

  void hear(core::coordinator::FromCoordinator message);
  void play(core::agent::Membership::Effects effects);
  void hand_on(const core::coordinator::ForWorkers& message);
  void arm();
  void ordered(core::agent::Order order);
  void in_round(const core::coordinator::Sealed& sealed);
  void in_mixed_round(const core::coordinator::Sealed& sealed);
  void tell_joined(JoinedRound round);
  void tell_join_failed(JoinFailed failed);
  void serve_the_others(JoinFailed failed);
  void stop_waiting();
  void flushed();
  void stay_for_others();
  void tell_left();

  io::Loop& loop_;
  const Options options_;
  const RoundsWorld world_;
  const RoundEvents events_;
  Helper helper_;
  io::Timer timer_;
  WaitLines lines_;
  core::agent::Membership membership_;
  const RendezvousRecords records_;
  // What a helper waits for is not wanted any more. Shared with helpers, which may outlive us.
  std::shared_ptr<std::atomic<bool>> enough_;

  std::optional<Instant> join_began_;
  bool given_up_ = false;
  bool closes_ = false;
  bool run_failed_ = false;
  bool warned_of_rules_ = false;
  std::optional<int> max_restarts_;       // Of the run.
  std::optional<RendezvousInfo> mixed_;   // The round, if nodes without a session are in it.
  bool passes_exit_ = false;              // We wait for the other nodes at its exit barrier.
  std::unique_ptr<NodeSession> session_;  // Destroyed first, because it calls the rest.
};

}  // namespace regroup::runtime
