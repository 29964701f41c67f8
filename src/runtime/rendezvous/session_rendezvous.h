// The rendezvous of a node that has a session with its run's coordinator.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/rendezvous/settings.h"
#include "regroup/rendezvous.h"
#include "regroup/rendezvous_backend.h"
#include "runtime/session/session_opening.h"

namespace regroup::runtime {

struct SessionRendezvousOptions {
  RendezvousParameters parameters;
  core::rendezvous::Settings settings;
  std::string address;  // This node's, as others reach it.
  OpenedSession first;
  std::function<Result<OpenedSession>()> connect;  // Another session; blocks for a moment.
  StoreOpener open_store;
  // How many have a session with a coordinator that this process hosts; empty: it does not.
  std::function<std::size_t()> sessions_here = {};
};

Result<std::unique_ptr<RendezvousHandler>> make_session_rendezvous(
    SessionRendezvousOptions options);

}  // namespace regroup::runtime
