// What the agent's machine and its workers say, as the public types say it.
#pragma once

#include <string>

#include "core/agent/agent.h"
#include "regroup/agent.h"
#include "runtime/health/health_pages.h"
#include "runtime/rounds/rounds.h"

namespace regroup::runtime {

WorkerState state_of(core::agent::State state);
RunResult::Ending ending_of(core::agent::Ending ending);
AgentEvent::Failed::Then then_of(core::agent::TellFailure::Then then);
core::agent::GroupEnd end_of(const WorkersResult& result);
HealthFailure health_of(const ProcessFailure& failure);
AgentEvent::Joined joined_event(const WorkerSpec& spec, const JoinedRound& round);
// "rank 3 on node-2 failed: ...", for the other nodes.
std::string text_of(const ProcessFailure& failure);

}  // namespace regroup::runtime
