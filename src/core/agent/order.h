// What this node is told to do about its round: by the coordinator of its run, or, where there is
// none, by what the nodes share in a store.
#pragma once

#include <optional>
#include <string>

namespace regroup::core::agent {

struct Order {
  enum class Kind {
    None,       // The round goes on.
    Rejoin,     // Stop the workers and join the next round: `text` says why.
    RunFailed,  // A worker failed, and no restart is left.
    Closed,     // Somebody has ended the run; workers that are about to be done may be.
    Over,       // All nodes are done: the run has succeeded.
  };
  Kind kind = Kind::None;
  std::string text = {};
  bool is_failure = false;  // A worker failed, somewhere;
  bool is_ours = false;     // on this node.
  // Of what comes next. Empty: each node counts its own.
  std::optional<int> restart_count = {};
  // Of Over: the round has broken, and the others go on without us. The run is not ours to close.
  bool others_go_on = false;
  // Of RunFailed: why the workers are not started again, if it is not for want of restarts.
  std::string note = {};
  friend bool operator==(const Order&, const Order&) = default;
};

}  // namespace regroup::core::agent
