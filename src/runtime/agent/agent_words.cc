#include "runtime/agent/agent_words.h"

#include <fmt/core.h>

namespace regroup::runtime {

using namespace core::agent;

WorkerState state_of(State state) {
  switch (state) {
    case State::Unknown:
      return WorkerState::Unknown;
    case State::Init:
      return WorkerState::Init;
    case State::Healthy:
      return WorkerState::Healthy;
    case State::Unhealthy:
      return WorkerState::Unhealthy;
    case State::Stopped:
      return WorkerState::Stopped;
    case State::Succeeded:
      return WorkerState::Succeeded;
    case State::Failed:
      return WorkerState::Failed;
  }
  return WorkerState::Unknown;
}

RunResult::Ending ending_of(Ending ending) {
  switch (ending) {
    case Ending::Succeeded:
      return RunResult::Ending::Succeeded;
    case Ending::Failed:
      return RunResult::Ending::Failed;
    case Ending::Signalled:
      return RunResult::Ending::Signalled;
    case Ending::NotNeeded:
      return RunResult::Ending::NotNeeded;
    case Ending::CouldNotJoin:
      return RunResult::Ending::CouldNotJoin;
    case Ending::CouldNotStart:
      return RunResult::Ending::CouldNotStart;
    case Ending::LeftBehind:
      return RunResult::Ending::LeftBehind;
  }
  return RunResult::Ending::Failed;
}

AgentEvent::Failed::Then then_of(TellFailure::Then then) {
  switch (then) {
    case TellFailure::Then::Restart:
      return AgentEvent::Failed::Then::Restart;
    case TellFailure::Then::Rejoin:
      return AgentEvent::Failed::Then::Rejoin;
    case TellFailure::Then::End:
      return AgentEvent::Failed::Then::End;
    case TellFailure::Then::Undecided:
      return AgentEvent::Failed::Then::Undecided;
  }
  return AgentEvent::Failed::Then::Undecided;
}

GroupEnd end_of(const WorkersResult& result) {
  if (!result.survivors.empty()) return GroupEnd::Survived;
  if (result.succeeded) return GroupEnd::Succeeded;
  return result.cause ? GroupEnd::Failed : GroupEnd::Stopped;
}

HealthFailure health_of(const ProcessFailure& failure) {
  return {.rank = failure.global_rank,
          .local_rank = failure.local_rank,
          .host = failure.host,
          .exit_code = failure.exit_code,
          .message = failure.message,
          .time_micros = failure.time_micros};
}

std::string text_of(const ProcessFailure& failure) {
  return fmt::format("rank {} on {} failed: {}", failure.global_rank, failure.host,
                     failure.message);
}

}  // namespace regroup::runtime
