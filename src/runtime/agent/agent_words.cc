#include "runtime/agent/agent_words.h"

#include "base/headline.h"

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

AgentEvent::Joined joined_event(const WorkerSpec& spec, const JoinedRound& round) {
  AgentEvent::Joined joined{.took = round.took_to_meet + round.took_to_assign,
                            .master_addr = round.info.bootstrap.address,
                            .master_port = round.info.bootstrap.port,
                            .role = spec.role,
                            .role_world_size = static_cast<int>(round.ranks.role_world_size)};
  for (int rank = 0; rank < spec.local_world_size; ++rank) {
    joined.ranks.push_back(static_cast<int>(round.ranks.base_global_rank) + rank);
    joined.role_ranks.push_back(static_cast<int>(round.ranks.base_role_rank) + rank);
  }
  return joined;
}

std::string text_of(const ProcessFailure& failure) {
  return headline(failure.global_rank, failure.host, failure.message);
}

}  // namespace regroup::runtime
