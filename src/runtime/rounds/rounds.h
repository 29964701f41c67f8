// What an agent needs of the rounds of its run: to be in one, to be told when it is over, and to
// say how its own part went. There are two sides to it: with a coordinator everything is pushed
// (coordinated_rounds.h); where the nodes share a state in a store it is looked for
// (shared_rounds.h). run_rounds.h finds out which it is.
//
// Lives on the agent's loop: all calls and all events are on its thread, and no event comes from
// inside a call. Nothing here decides what follows; core/agent does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/agent/agent.h"
#include "core/agent/order.h"
#include "core/hang/blame.h"
#include "core/hang/hang.h"
#include "core/rendezvous/assign_ranks.h"
#include "regroup/rendezvous.h"
#include "regroup/result.h"

namespace regroup::runtime {

// A round that this node is in, with the ranks of its workers.
struct JoinedRound {
  RendezvousInfo info;
  core::rendezvous::AssignedRanks ranks;
  bool use_agent_store = true;
  Duration took_to_meet{};
  Duration took_to_assign{};
};

struct JoinFailed {
  core::agent::JoinFailure why = core::agent::JoinFailure::Failed;
  Error error{ErrorKind::Io, ""};
  core::agent::Order end = {};  // Why the run is over, where that is the reason.
};

struct RoundEvents {
  std::function<void(JoinedRound)> joined;
  std::function<void(JoinFailed)> join_failed;
  // What this node is to do; it is in force until the next one, or the next join.
  std::function<void(core::agent::Order)> ordered;
  // Why the coordinator cannot be reached; empty: it can, again.
  std::function<void(const std::string& trouble)> reached;
  // For people: a line about what is waited for, and the same in few words, always up to date.
  std::function<void(const std::string& line)> waiting;
  std::function<void(const RendezvousWait&)> waits;
  // Another node was warned by this signal; the workers should have it.
  std::function<void(int signal, const std::string& node)> warned;
  // Whether the workers of all nodes are stalled, and it makes a hang; when that has changed.
  std::function<void(bool)> hangs;
  // In a hang, once all nodes have said where their ranks are: who is to blame.
  std::function<void(const core::hang::Blame&)> blamed;
  std::function<void()> left;
};

class Rounds {
 public:
  virtual ~Rounds() = default;

  // Leaves the round that this node is in, joins the next, agrees on ranks: joined or join_failed.
  virtual void join() = 0;
  virtual void give_up_join() = 0;

  // The workers run, for the so-manieth time; until they have ended, orders are told.
  virtual void workers_run(int restart_count) = 0;
  virtual void workers_ended() = 0;

  // The first of our workers has failed: the other nodes are told before ours are stopped.
  virtual void failed(const WorkerFailure& failure) = 0;
  // Hands a signal on to the workers of the other nodes. False: there is nobody to tell.
  virtual bool warn(int signal) = 0;

  // Whether this node's workers are stalled (empty: they are not), at every look.
  virtual void say_stalled(std::optional<core::hang::Votes> votes) = 0;
  // In a hang: where our ranks are.
  virtual void say_where(std::vector<core::hang::RankAt> ours) = 0;

  // Says how our part of the round ended (`cause` is for the others to read, if it failed for
  // good). An order says when all have done so.
  virtual void check_in(bool succeeded, const std::string& cause) = 0;

  // Off the lists; `close`: the run is over for everybody. Gives up whatever is under way, and
  // stays a moment for others who still read from a store that we host. Ends with left.
  virtual void leave(bool close) = 0;
};

}  // namespace regroup::runtime
