// How an agent finds the others of its run: a coordinator to have a session with, where the store
// at the endpoint is regroup's, or a rendezvous whose state the nodes share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "core/rendezvous/settings.h"
#include "regroup/rendezvous.h"
#include "regroup/rendezvous_backend.h"
#include "runtime/session/session_opening.h"

namespace regroup::runtime {

// What an agent brings along to the coordinator of its run.
struct AgentPart {
  std::string role = "default";
  std::int64_t workers = 1;
  RunRules rules = {};
};

// A coordinator that has answered.
struct CoordinatorContact {
  core::rendezvous::Settings settings;
  std::string address;  // This node's, as others reach it.
  OpenedSession first;
  std::function<Result<OpenedSession>()> connect;  // Another session; blocks for a moment.
  StoreOpener open_store;
  // How many have a session with a coordinator that this process hosts; empty: it hosts none.
  std::function<std::size_t()> sessions_here = {};
};

using Met = std::variant<std::unique_ptr<RendezvousHandler>, CoordinatorContact>;

// All that can be known to be wrong without a network: the backend, the endpoint, every option.
// meet() finds the same, because both read them by the same functions.
Result<void> check_meeting(const RendezvousParameters& parameters, const AgentPart& part);

// Blocks until the endpoint's store answers, as long as for the other nodes; `interrupted` of the
// parameters ends it.
Result<Met> meet(const RendezvousParameters& parameters, const AgentPart& part);

}  // namespace regroup::runtime
