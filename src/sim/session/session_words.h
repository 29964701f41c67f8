// What is said in a session, in a few words for the trace.
#pragma once

#include <string>

#include "core/coordinator/messages.h"

namespace regroup::sim {

std::string in_words(const core::coordinator::FromAgent& message);
std::string in_words(const core::coordinator::FromCoordinator& message);

}  // namespace regroup::sim
