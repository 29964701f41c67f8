// A node's place in a run that has a coordinator: it joins, waits to be let in, is told what to do,
// and leaves. What the node has said and heard is kept by coordinator::Member; this adds the time
// that it waits, and what all of it means for the node's agent.
//
// A pure machine. Its host has the session: it sends what Say holds, hands in what comes, and
// introduces the node on every new connection with introduction().
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/instant.h"
#include "core/agent/agent.h"
#include "core/agent/order.h"
#include "core/coordinator/member.h"
#include "core/coordinator/messages.h"
#include "core/hang/hang.h"
#include "regroup/result.h"

namespace regroup::core::agent {

class Membership {
 public:
  struct Settings {
    Duration join_timeout = 600s;                 // For a round to come together,
    std::optional<Duration> rejoin_timeout = {};  // and again; empty: the same.
    Duration close_timeout = 2s;  // A run that is closed is to be confirmed within so long.
  };

  struct Say {
    coordinator::FromAgent message;
  };
  // In a round. Nodes without a session may be in it: then ranks are still to be found.
  struct Joined {
    coordinator::Sealed sealed;
  };
  struct JoinFailed {
    JoinFailure why = JoinFailure::Failed;
    Error error;
    Order end = {};
  };
  // Other than what was said last.
  struct Ordered {
    Order order;
  };
  // Why the coordinator cannot be reached; empty: it can, again.
  struct Reached {
    std::string trouble;
  };
  // What a join waits for. The same may come again.
  struct Waits {
    std::string what;              // "round 3: 5 of 6..8 nodes joined"
    std::string limit;             // "; gives up in 4m10s (join_timeout)"
    std::string brief;             // "waiting for nodes: 5 of 6..8 here"
    std::optional<Instant> until;  // When that is over; none: never.
  };
  // What the coordinator says to the workers, as it came.
  struct HandOn {
    coordinator::ForWorkers message;
  };
  // Nothing is left to be said: once the coordinator has heard it all, this node is gone.
  struct Flush {};
  using Effect = std::variant<Say, Joined, JoinFailed, Ordered, Reached, Waits, HandOn, Flush>;
  using Effects = std::vector<Effect>;

  Membership(coordinator::Hello hello, Settings settings);

  // Out of the round that this node is in, and into the next.
  Effects join(const coordinator::Bootstrap& bootstrap, Instant now);
  Effects give_up_join();

  // Nothing comes of these outside of a round.
  Effects failed(coordinator::Failure failure);
  Effects done();
  // Whether this node's workers are stalled, at every look (empty: they are not; it is said once).
  Effects stalled(std::optional<hang::Votes> votes);
  // What else the workers have to say; the number of the round is filled in here. It is not
  // repeated on a new connection.
  template <class Message>
  Effects report(Message message) {
    if (!in_round()) return {};
    if constexpr (requires { message.round; }) message.round = member_.sealed()->round;
    return {Say{std::move(message)}};
  }

  // `close`: the run is over for everybody. Ends with Flush.
  Effects leave(bool close, Instant now);

  // What the session brings.
  std::vector<coordinator::FromAgent> introduction() const { return member_.introduction(); }
  Effects on_message(coordinator::FromCoordinator message, Instant now);
  Effects on_lost(const std::string& why, Instant now);

  Effects on_time(Instant now);
  std::optional<Instant> next_deadline() const;

  const coordinator::Hello& hello() const { return member_.hello(); }
  const rendezvous::NodeId& id() const { return member_.id(); }
  bool is_over() const { return member_.over() || member_.end(); }

 private:
  struct Waiting {
    Instant began;
    Instant give_up;
    Duration limit;
    const char* limit_name;
    Instant tell_at;  // The next time that people are told what is waited for.
  };

  bool in_round() const { return member_.sealed() && !member_.joining() && !left_; }
  void set_trouble(std::string trouble, Effects& effects);
  // What has become of a join, of the round, or of a leave.
  void follow(Instant now, Effects& effects);
  std::optional<JoinFailed> why_not() const;
  Order order() const;
  std::optional<Waits> waits(Instant now);  // None: nothing is known yet.
  std::string limit_text(Instant now) const;
  void say_leave(std::string why, bool close, Effects& effects);

  const Settings settings_;
  coordinator::Member member_;
  std::optional<Waiting> joining_;
  std::optional<Instant> closing_until_;
  bool left_ = false;
  std::string why_leave_;
  std::string trouble_;
  Order told_;               // The last that was said.
  bool is_stalled_ = false;  // As the coordinator knows it.
  std::optional<coordinator::Progress> told_progress_;
  std::optional<Instant> last_call_until_;
};

}  // namespace regroup::core::agent
