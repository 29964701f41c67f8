// The state of one run with sessions as nodes without one see it: the text under the run's key.
//
// It is made only when somebody looks, and made again only if the state has changed since: a node
// that read a text and wants to swap it wins if nothing has happened in between.
#pragma once

#include <optional>
#include <string>

#include "core/rendezvous/state.h"
#include "regroup/result.h"
#include "runtime/coordinator/session_service.h"

namespace regroup::runtime {

class ShownState {
 public:
  // What the key begins with, as clients of the store write it; the run's id follows.
  static constexpr std::string_view kKeyPrefix = "/torch.rendezvous.";

  enum class To {
    All,
    // The run is for nodes with a session. Others are shown that it is closed, and whatever they
    // write is not heeded.
    SessionsOnly,
  };
  ShownState(const std::string& run_id, To to);

  // What nodes without a session have made before there was a coordinator, if they have.
  Result<std::optional<core::rendezvous::State>> find(KeyAccess& keys);

  // Somebody looks.
  void show(KeyAccess& keys, const core::rendezvous::State& state);

  // Nobody has a session any more: what whoever comes next should find.
  void leave(KeyAccess& keys, const core::rendezvous::State& state);

  // What somebody has made of what was shown; empty: nothing. An error means that it is no state;
  // ours is shown again at the next look.
  Result<std::optional<core::rendezvous::State>> take_change(KeyAccess& keys);

  // Whether anybody has ever looked: then there may be nodes without a session.
  bool has_onlookers() const { return onlookers_; }

 private:
  void put(KeyAccess& keys, const core::rendezvous::State& state);
  Result<core::rendezvous::State> read(std::string_view text);

  const std::string key_;
  const To to_;
  std::string text_;  // Stands for state_.
  std::optional<core::rendezvous::State> state_;
  bool onlookers_ = false;
};

}  // namespace regroup::runtime
