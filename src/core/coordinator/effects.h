// What a coordinator wants done; its host carries it out, in this order.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/id.h"
#include "core/coordinator/messages.h"

namespace regroup::core::coordinator {

// One connection. A node that reconnects has another.
using SessionId = Id<struct SessionTag>;

struct Send {
  SessionId to;
  FromCoordinator message;
};
// Closes it after everything that was sent to it.
struct CloseSession {
  SessionId session;
  std::string why;
};
// The run has left this phase: nodes without a session that rest in it should wake.
struct LeftPhase {
  std::string phase;
};
using Effect = std::variant<Send, CloseSession, LeftPhase>;
using Effects = std::vector<Effect>;

void add(Effects& effects, Effect effect);

}  // namespace regroup::core::coordinator
