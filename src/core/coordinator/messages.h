// What an agent and the coordinator of its run say to each other. wire/session/session.h has the
// bytes, docs/protocol.md the conversation.
//
// An agent says Hello (with a secret, Prove before it) on each new connection, and then what it
// wants. The coordinator sends its decisions without being asked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/hang/blame.h"
#include "core/hang/hang.h"
#include "core/rendezvous/assign_ranks.h"
#include "core/rendezvous/state.h"
#include "regroup/run_rules.h"
#include "regroup/time.h"

namespace regroup::core::coordinator {

// Where a node would serve the workers' store if it became rank 0.
struct Bootstrap {
  std::string address = {};
  std::uint16_t port = 0;
  friend bool operator==(const Bootstrap&, const Bootstrap&) = default;
};

// A round whose workers a node runs, or has run: what a coordinator that was started again is told.
struct Running {
  rendezvous::HeldRank place = {};
  std::int64_t restart_count = 0;
  bool done = false;  // Its workers have succeeded.
  friend bool operator==(const Running&, const Running&) = default;
};

// Random bytes that cannot be guessed (a nonce), or bytes that cannot be made without the secret (a
// proof).
using Bytes32 = std::array<std::uint8_t, 32>;

// ---- An agent says ----

// The first message of an agent with a secret: it asks the coordinator to prove that it has the
// secret too. Answered by a Challenge.
struct Prove {
  Bytes32 nonce = {};
  friend bool operator==(const Prove&, const Prove&) = default;
};

// Proves that the agent has the secret. Hello or Look follows right behind it.
struct AgentProof {
  Bytes32 proof = {};
  friend bool operator==(const AgentProof&, const AgentProof&) = default;
};

struct Hello {
  std::string run_id = {};
  rendezvous::NodeId node = {};
  rendezvous::Claim claim = {};
  std::string role = {};
  std::int64_t workers = 1;
  RunRules rules = {};
  std::optional<Running> running = {};  // Empty: it runs nothing.
  // What the node knows of the time before; a coordinator that was started again does not know it.
  std::int64_t restarts = 0;  // The number it was told last.
  bool again = false;         // A coordinator has welcomed it before.
  friend bool operator==(const Hello&, const Hello&) = default;
};

// Takes the node out of the round it is in, and into the next.
struct Join {
  // Counts this node's joins. The same number twice is one join, repeated.
  std::uint64_t number = 0;
  Bootstrap bootstrap = {};
  friend bool operator==(const Join&, const Join&) = default;
};

// Why a run's workers are stopped: the first failure of the round.
struct Failure {
  std::int64_t rank = 0;       // Of the worker, among all.
  std::string node = {};       // The node's name for people.
  std::int64_t exit_code = 0;  // Below zero: minus the signal that ended it.
  std::string text = {};       // For people; it also says all of the above.
  friend bool operator==(const Failure&, const Failure&) = default;
};

// The first worker of this node has failed. Said before the others are stopped.
struct Failed {
  std::int64_t round = 0;
  Failure failure = {};
  friend bool operator==(const Failed&, const Failed&) = default;
};

// All workers of this node have succeeded.
struct Done {
  std::int64_t round = 0;
  friend bool operator==(const Done&, const Done&) = default;
};

// This node goes away and does not come back. `close`: the run is over, for all nodes.
struct Leave {
  std::string why = {};
  bool close = false;
  friend bool operator==(const Leave&, const Leave&) = default;
};

struct Ping {
  std::uint64_t number = 0;
  friend bool operator==(const Ping&, const Ping&) = default;
};

// This node got a signal that the workers of all nodes should get; for example, the machine is
// about to be taken away.
struct Warn {
  std::int64_t signal = 15;
  friend bool operator==(const Warn&, const Warn&) = default;
};

// Whether the workers of this node are stalled (empty: they make progress), at every look.
struct Stalled {
  std::int64_t round = 0;
  std::optional<hang::Votes> votes = {};
  friend bool operator==(const Stalled&, const Stalled&) = default;
};

// In a hang: where the ranks of this node are.
struct Where {
  std::int64_t round = 0;
  std::vector<hang::RankAt> ranks = {};
  friend bool operator==(const Where&, const Where&) = default;
};

// Sent instead of Hello: how does the run stand (empty: how do all runs stand)? Answered by a
// Report.
struct Look {
  std::string run_id = {};
  friend bool operator==(const Look&, const Look&) = default;
};

using FromAgent = std::variant<Hello, Join, Failed, Done, Leave, Ping, Look, Warn, Prove,
                               AgentProof, Stalled, Where>;

// ---- The coordinator says ----

// The answer to Prove.
struct Challenge {
  Bytes32 nonce = {};
  friend bool operator==(const Challenge&, const Challenge&) = default;
};

// The answer to a correct AgentProof: it proves that the coordinator has the secret too.
struct CoordinatorProof {
  Bytes32 proof = {};
  friend bool operator==(const CoordinatorProof&, const CoordinatorProof&) = default;
};

// The node is known from now on. `member`: it is in the round that Hello named, so its workers may
// keep running.
struct Welcome {
  bool member = false;
  RunRules rules = {};  // Of the run: those of its first node.
  friend bool operator==(const Welcome&, const Welcome&) = default;
};

// What the node waits for, while it waits. Sent when it changes, once a second at most.
struct Progress {
  std::string text = {};                   // "round 3: 5 of 6..8 nodes joined; missing: n7"
  std::string brief = {};                  // "waiting for nodes: 5 of 6..8 here"
  std::optional<Duration> last_call = {};  // How long it lasts yet.
  bool spare = false;                      // It waits without a limit.
  friend bool operator==(const Progress&, const Progress&) = default;
};

// The node is in a round. The size of this message does not depend on the number of nodes.
struct Sealed {
  std::int64_t round = 0;
  std::int64_t rank = 0;  // Of the node.
  std::int64_t world_size = 1;
  std::int64_t restart_count = 0;
  // False: nodes without a session are in the round too. Ranks and the workers' store are then
  // found through the round's keys, as those nodes do, and the two fields below mean nothing.
  bool by_session = true;
  rendezvous::AssignedRanks ranks = {};
  Bootstrap bootstrap = {};  // Of rank 0.
  friend bool operator==(const Sealed&, const Sealed&) = default;
};

// The round is over: stop the workers.
struct Stop {
  enum class Why : std::uint8_t {
    Failure = 0,    // A worker failed; join again.
    Members = 1,    // A member is gone, or a node wants to join; join again.
    RunFailed = 2,  // The run is over: a worker failed, and there is no restart left.
    Closed = 3,     // The run is over: a node or a person has ended it.
  };
  std::int64_t round = 0;
  Why why = Why::Members;
  std::string text = {};  // One sentence for people, the same everywhere.
  // Of RunFailed: why it is not started again, if restarts are not used up.
  std::string note = {};
  std::optional<Failure> verdict = {};  // Of Failure and RunFailed.
  rendezvous::NodeId culprit = {};      // The node whose worker failed.
  std::int64_t restart_count = 0;       // The restart count of the next round.
  friend bool operator==(const Stop&, const Stop&) = default;
};

// All nodes are done: the run has succeeded. Spares get it because they were not needed; so does a
// node that was lost, came back, and may still have workers to stop.
struct Over {
  friend bool operator==(const Over&, const Over&) = default;
};

// This session is refused, and its connection is closed after this message. `lasting`: trying again
// is useless.
struct Refused {
  std::string why = {};
  bool lasting = true;
  friend bool operator==(const Refused&, const Refused&) = default;
};

struct Pong {
  std::uint64_t number = 0;
  friend bool operator==(const Pong&, const Pong&) = default;
};

// A node was warned: pass the signal on to the workers.
struct Warned {
  std::int64_t signal = 15;
  std::string node = {};  // The node that was warned.
  friend bool operator==(const Warned&, const Warned&) = default;
};

// The workers of all nodes are stalled, which makes a hang; or it is over.
struct Hangs {
  std::int64_t round = 0;
  bool all_say_so = false;
  friend bool operator==(const Hangs&, const Hangs&) = default;
};

// In a hang, once all nodes have said where their ranks are.
struct Blamed {
  std::int64_t round = 0;
  hang::Blame blame = {};
  friend bool operator==(const Blamed&, const Blamed&) = default;
};

// The answer to Look: JSON text.
struct Report {
  std::string json = {};
  friend bool operator==(const Report&, const Report&) = default;
};

// What concerns the workers alone. Membership (core/agent) hands it on as it is, if the node is in
// the round that it names.
using ForWorkers = std::variant<Warned, Hangs, Blamed>;

using FromCoordinator = std::variant<Welcome, Progress, Sealed, Stop, Over, Refused, Pong, Report,
                                     Warned, Challenge, CoordinatorProof, Hangs, Blamed>;

}  // namespace regroup::core::coordinator
