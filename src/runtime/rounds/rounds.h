// What an agent needs of the rounds of its run: to be in one, to be told when it is over, and to
// say how its own part went. There are two implementations. With a coordinator everything is pushed
// (coordinated_rounds.h); without one the nodes share a state in a store, and each polls it
// (shared_rounds.h). run_rounds.h finds out which one a run needs.
//
// Lives on the agent's loop: all calls and all events are on its thread, and no event comes from
// inside a call. Nothing here decides what to do next; core/agent does.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
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
  // Of the run, which counts on all nodes. Empty: where each has its own.
  std::optional<int> max_restarts = {};
  bool use_agent_store = true;
  Duration took_to_meet{};
  Duration took_to_assign{};
};

struct JoinFailed {
  core::agent::JoinFailure why = core::agent::JoinFailure::Failed;
  Error error{ErrorKind::Io, ""};
  core::agent::Order end = {};  // Why the run is over, where that is the reason.
  // Of nodes that have met, but could not agree on ranks.
  std::optional<Duration> took_to_meet = {};

  static JoinFailed because(Error error) {
    using core::agent::JoinFailure;
    const bool given_up = error.kind == ErrorKind::Cancelled;
    return {.why = given_up ? JoinFailure::GivenUp : JoinFailure::Failed,
            .error = std::move(error)};
  }
};

struct RoundEvents {
  std::function<void(JoinedRound)> joined;
  std::function<void(JoinFailed)> join_failed;
  // What this node has to do. An order is in force until the next order or the next join.
  std::function<void(core::agent::Order)> ordered;
  // Why the coordinator cannot be reached; empty: it can be reached again.
  std::function<void(const std::string& trouble)> reached;
  // For people: a line about what this node waits for, and the same in few words, which is always
  // up to date.
  std::function<void(const std::string& line)> waiting;
  std::function<void(const RendezvousWait&)> waits;
  // Another node got this signal as a warning; the workers should get it, too.
  std::function<void(int signal, const std::string& node)> warned;
  // Whether the run hangs: the workers of all nodes are stalled. Called when that has changed.
  std::function<void(bool)> hangs;
  // In a hang, once all nodes have said where their ranks are: which rank is to blame.
  std::function<void(const core::hang::Blame&)> blamed;
  std::function<void()> left;
  // A step of the rendezvous, for monitoring. May be empty.
  std::function<void(const RendezvousRecord&)> recorded = {};
};

class Rounds {
 public:
  virtual ~Rounds() = default;

  // Leaves the round that this node is in, joins the next one, and agrees on ranks with the other
  // nodes. Ends with joined or join_failed.
  virtual void join() = 0;
  virtual void give_up_join() = 0;

  // The workers run. Orders are told until they have ended.
  virtual void workers_run(int restart_count) = 0;
  virtual void workers_ended() = 0;

  // The first of our workers has failed: the other nodes are told before ours are stopped.
  virtual void failed(const WorkerFailure& failure) = 0;
  // Hands a signal on to the workers of the other nodes. False: there is no coordinator to tell.
  virtual bool warn(int signal) = 0;

  // Whether this node's workers are stalled (empty: they are not). Called after every look at them.
  virtual void say_stalled(std::optional<core::hang::Votes> votes) = 0;
  // In a hang: where our ranks are.
  virtual void say_where(std::vector<core::hang::RankAt> ours) = 0;

  // Tells the other nodes how our part of the round ended; `cause` is what they read if it failed
  // for good. An order says when all nodes have checked in.
  virtual void check_in(bool succeeded, const std::string& cause) = 0;

  // Takes this node out of the run; `ending`: how its part went; `close`: the run is over for all
  // nodes. Gives up whatever is under way, and stays a moment for nodes that still read from a
  // store that we host. Ends with left.
  virtual void leave(core::agent::Ending ending, bool close) = 0;
};

}  // namespace regroup::runtime
