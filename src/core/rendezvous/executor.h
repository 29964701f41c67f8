// One node's access to the shared state: read it, drop the nodes that have gone silent, decide,
// change it, swap it in under the token it was read with; repeat until the operation is done.
//
//   Step step = executor.begin(Operation::Join, settings.join_timeout, now);
//   for (;;) {
//     // Carry out step.what and report what came of it:
//     //   Read  ▶ on_read()              Rest ▶ on_rested()
//     //   Swap  ▶ on_won() or on_lost()  Done: finished
//     //   on_unreachable() when the outcome of a Read or a Swap is unknown
//   }
//
// It makes no call of its own and reads no clock: the runtime plays it against a real backend, the
// simulator against a hostile one. One operation at a time.
//
// A lost swap is never lost work: the operation decides again on the state that won. Under
// contention the nodes spread their tries at random over a window that grows with every loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/instant.h"
#include "base/random.h"
#include "core/rendezvous/decide.h"
#include "core/rendezvous/liveness.h"
#include "core/rendezvous/settings.h"
#include "core/rendezvous/state.h"

namespace regroup::core::rendezvous {

// This node's two clocks at one moment. The first decides, the second is written for others.
struct Now {
  Instant instant;
  Stamp utc;
};

// What the backend holds. The token stands for exactly this state; a swap succeeds only with it.
struct Snapshot {
  State state;
  std::string token;
};

struct Read {};

// One step of what a swap changes, for those who are told of each.
struct Transition {
  Action action;
  std::int64_t round = 0;  // Of the state before it.
  friend bool operator==(const Transition&, const Transition&) = default;
};

struct Swap {
  State state;
  std::optional<std::string> token;  // None: only if the backend holds no state yet.
  std::vector<Transition> transitions = {};
  std::vector<NodeId> dead = {};  // Nodes that it drops because they are silent.
};

struct Rest {
  Instant until;
  // Not empty: wake at once when the run has left this phase, if the backend can tell.
  std::string phase;
};

enum class Outcome {
  Finished,
  Closed,       // The run is closed.
  TimedOut,     // The limit passed; this node is on no list, unless it could not be taken off.
  NotNeeded,    // A spare, and the run has ended without it.
  Unreachable,  // The limit passed while the backend did not answer.
};

struct Done {
  Outcome outcome;
};

struct Step {
  std::variant<Read, Swap, Rest, Done> what;
  // The swap that just succeeded ended this phase: nodes that rest in it should wake.
  std::optional<std::string> phase_left = {};
};

// What has become of the round that this node joined last.
struct Standing {
  bool member = false;  // This node is still counted among the members.
  bool whole = false;   // All other members are, too.
  bool closed = false;  // The run.
  std::int64_t waiting = 0;
  std::int64_t spares = 0;
};

class Executor {
 public:
  // The seed only spreads this node's tries; give every node a different one.
  Executor(Settings settings, NodeId self, Claim claim, std::uint64_t seed);

  // A join first leaves the round of the join before it. A state seen less than a second ago is
  // good enough to begin with.
  Step begin(Operation operation, Duration limit, Now now);

  Step on_read(std::optional<Snapshot> present, Now now);
  Step on_won(std::string token, Now now);
  // `present`: what is there instead. None: there is no state (any more).
  Step on_lost(std::optional<Snapshot> present, Now now);
  Step on_rested(Now now);
  Step on_unreachable(Now now);

  // The state as last seen, without the silent nodes. Empty until one was seen.
  const State& state() const { return state_; }
  const NodeId& self() const { return self_; }
  const Settings& settings() const { return settings_; }
  Operation operation() const { return operation_; }
  Instant give_up() const { return give_up_; }
  std::optional<Instant> last_call_end() const;

  // After a join has finished: the ranks as this node saw them then, whatever became of them.
  const State& joined() const { return joined_; }
  Standing standing() const;

 private:
  Step take(std::optional<Snapshot> present, Now now);  // A state has come: look at it, go on.
  Step read(Now now);
  Step proceed(Now now);
  Action next_action(const State& state, const Reading& reading) const;
  Step swap(Action action, Reading reading, Stamp utc);
  Step done(Outcome outcome);
  Step rest(Instant until, std::string phase);
  Step look_later(Now now);
  bool heartbeat_due(Instant now) const;
  Duration at_random(Duration window);

  const Settings settings_;
  const NodeId self_;
  Claim claim_;
  SeededRandom random_;

  Operation operation_ = Operation::Look;
  std::optional<std::int64_t> leaving_;  // The round that a join leaves first.
  Instant began_;
  Instant give_up_;

  State state_;
  State joined_;
  std::optional<std::string> token_;
  std::string stored_phase_;     // Of the state as it is in the backend.
  std::optional<Instant> seen_;  // When the state was last known to be the backend's.
  Liveness liveness_;
  std::vector<NodeId> dead_;          // Silent nodes that the backend's state still has.
  std::optional<Instant> last_beat_;  // When this node's own stamp was last changed.

  bool swapping_ = false;  // A swap is under way, and
  State pending_;          // this is what it would make of the state.
  std::optional<Instant> pending_beat_;
  Instant asked_;      // When the answer that comes next was asked for.
  Instant try_began_;  // When this try to change the state began, with a look at it.
  Rest resting_;
  std::string woken_in_;  // A phase that was said to be over.
  Duration one_try_{};
  std::int64_t losses_ = 0;
};

}  // namespace regroup::core::rendezvous
