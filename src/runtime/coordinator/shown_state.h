// The state of one run with sessions as nodes without one see it: the text under the run's key.
//
// It is made only when a client reads it, and made again only if the state has changed since: a
// node that read a text and wants to swap it succeeds if nothing has happened in between.
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
    // The run is for nodes with a session. Others are shown that it is closed, and what they write
    // is ignored.
    SessionsOnly,
  };
  ShownState(const std::string& run_id, To to);

  // The state that nodes without a session made before there was a coordinator, if any.
  Result<std::optional<core::rendezvous::State>> find(KeyAccess& keys);

  // A client reads it.
  void show(KeyAccess& keys, const core::rendezvous::State& state);

  // No node has a session any more: what a later one should find.
  void leave(KeyAccess& keys, const core::rendezvous::State& state);

  // What a client has made of what was shown; empty: nothing. An error means that it is no state;
  // ours is shown again at the next read.
  Result<std::optional<core::rendezvous::State>> take_change(KeyAccess& keys);

  // Whether a client has ever read it: then there may be nodes without a session.
  bool has_onlookers() const { return onlookers_; }

 private:
  void put(KeyAccess& keys, const core::rendezvous::State& state);
  Result<core::rendezvous::State> read(std::string_view text);

  const std::string key_;
  const To to_;
  std::string text_;  // The text that stands for state_.
  std::optional<core::rendezvous::State> state_;
  bool onlookers_ = false;
};

}  // namespace regroup::runtime
