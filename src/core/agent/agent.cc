#include "core/agent/agent.h"

#include "base/check.h"

namespace regroup::core::agent {

std::string_view to_string(State state) {
  switch (state) {
    case State::Unknown:
      return "UNKNOWN";
    case State::Init:
      return "INIT";
    case State::Healthy:
      return "HEALTHY";
    case State::Unhealthy:
      return "UNHEALTHY";
    case State::Stopped:
      return "STOPPED";
    case State::Succeeded:
      return "SUCCEEDED";
    case State::Failed:
      return "FAILED";
  }
  return "UNKNOWN";
}

std::string_view to_string(Doing doing) {
  switch (doing) {
    case Doing::Nothing:
      return "nothing";
    case Doing::Joining:
      return "joining";
    case Doing::Starting:
      return "starting";
    case Doing::Running:
      return "running";
    case Doing::Stopping:
      return "stopping";
    case Doing::Asking:
      return "asking";
    case Doing::CheckingIn:
      return "checking in";
    case Doing::Leaving:
      return "leaving";
    case Doing::Finished:
      return "finished";
  }
  return "nothing";
}

Agent::Agent(const Settings& settings) : settings_(settings), remaining_(settings.max_restarts) {
  CHECK(settings.max_restarts >= 0);
}

Effects Agent::begin() {
  CHECK(doing_ == Doing::Nothing);
  return join();
}

Effects Agent::join() {
  state_ = State::Init;
  doing_ = Doing::Joining;
  return {Join{}};
}

Effects Agent::on_joined(std::optional<int> told) {
  if (doing_ != Doing::Joining) return {};
  told_count_ = told;
  // A signal that came while the join could not be given up any more.
  if (signal_ != 0) return leave(Ending::Signalled, false);
  doing_ = Doing::Starting;
  return {Start{restart_count()}};
}

Effects Agent::on_join_failed(JoinFailure why) {
  if (doing_ != Doing::Joining) return {};
  if (signal_ != 0) return leave(Ending::Signalled, false);
  switch (why) {
    case JoinFailure::NotNeeded:
      state_ = State::Succeeded;
      return leave(Ending::NotNeeded, false);
    case JoinFailure::RunFailed:
      state_ = State::Failed;
      return leave(Ending::Failed, false);
    case JoinFailure::Failed:
    case JoinFailure::GivenUp:
      state_ = State::Failed;
      return leave(Ending::CouldNotJoin, false);
  }
  return {};
}

void Agent::on_started() {
  CHECK(doing_ == Doing::Starting);
  doing_ = Doing::Running;
  state_ = State::Healthy;
  failed_ = false;
}

void Agent::on_worker_failed() {
  if (doing_ == Doing::Running) failed_ = true;
}

Effects Agent::on_start_failed() {
  CHECK(doing_ == Doing::Starting);
  state_ = State::Failed;
  return leave(Ending::CouldNotStart, false);
}

Effects Agent::on_group_over(GroupEnd end) {
  if (doing_ != Doing::Running && doing_ != Doing::Stopping) return {};
  const bool told_to_end = doing_ == Doing::Stopping && then_ == Then::End;
  const bool ordered = doing_ == Doing::Stopping && !failed_;
  doing_ = Doing::Nothing;
  if (end == GroupEnd::Survived) {
    state_ = State::Failed;
    return leave(Ending::LeftBehind, false);
  }
  if (signal_ != 0) {
    state_ = State::Stopped;
    return leave(Ending::Signalled, false);
  }
  if (told_to_end) {
    state_ = State::Failed;
    return leave(Ending::Failed, false);
  }
  // A failure after the order to stop is the order's doing, and costs nothing.
  if (ordered && end != GroupEnd::Succeeded) {
    state_ = State::Stopped;
    return join();
  }
  switch (end) {
    case GroupEnd::Succeeded:
      state_ = State::Succeeded;
      ending_ = Ending::Succeeded;
      close_ = true;
      doing_ = Doing::CheckingIn;
      return {CheckIn{true}};
    case GroupEnd::Failed:
    case GroupEnd::Stopped:  // By nobody's order: it counts as a failure.
      if (told_count_) {
        state_ = State::Stopped;
        doing_ = Doing::Asking;
        return {Ask{}};
      }
      if (remaining_ > 0) {
        --remaining_;
        state_ = State::Stopped;
        return join();
      }
      state_ = State::Failed;
      ending_ = Ending::Failed;
      close_ = true;
      doing_ = Doing::CheckingIn;
      return {CheckIn{false}};
    case GroupEnd::Survived:
      break;
  }
  return {};
}

Effects Agent::on_members_changed(std::optional<int> told) {
  if (doing_ != Doing::Running) return {};
  if (told) told_count_ = told;
  doing_ = Doing::Stopping;
  then_ = Then::Rejoin;
  return {Stop{settings_.stop_signal, settings_.grace}};
}

Effects Agent::on_run_failed() {
  if (doing_ != Doing::Running) return {};
  doing_ = Doing::Stopping;
  then_ = Then::End;
  return {Stop{settings_.stop_signal, settings_.grace}};
}

Effects Agent::on_decided(std::optional<int> told) {
  if (doing_ != Doing::Asking) return {};
  if (signal_ != 0) return leave(Ending::Signalled, false);
  if (told) {
    told_count_ = told;
    return join();
  }
  state_ = State::Failed;
  return leave(Ending::Failed, false);
}

Effects Agent::on_checked_in(CheckedIn how, std::optional<int> told) {
  if (doing_ != Doing::CheckingIn) return {};
  if (signal_ != 0) return leave(ending_, close_);
  switch (how) {
    case CheckedIn::Over:
      break;
    case CheckedIn::Restart:
      if (told) told_count_ = told;
      return join();
    case CheckedIn::RunFailed:
      state_ = State::Failed;
      return leave(Ending::Failed, false);
  }
  return leave(ending_, close_);
}

Effects Agent::leave(Ending ending, bool close) {
  ending_ = ending;
  doing_ = Doing::Leaving;
  return {Leave{close}};
}

Effects Agent::on_left() {
  if (doing_ != Doing::Leaving) return {};
  doing_ = Doing::Finished;
  return {Finish{ending_}};
}

Effects Agent::on_signal(int number) {
  const bool again = signal_ != 0;
  signal_ = number;
  switch (doing_) {
    case Doing::Joining:
      return {GiveUpJoin{}};
    case Doing::Running:
    case Doing::Stopping:
      if (again) return {Kill{}};
      doing_ = Doing::Stopping;
      then_ = Then::End;
      return {Stop{number, settings_.grace}};
    case Doing::Asking:
      return {GiveUpCheckIn{}};
    case Doing::CheckingIn:
      // Our workers are done; the run is not ours to end while others may still be at it.
      if (ending_ == Ending::Succeeded) close_ = false;
      ending_ = Ending::Signalled;
      return {GiveUpCheckIn{}};
    case Doing::Nothing:
    case Doing::Starting:
    case Doing::Leaving:
    case Doing::Finished:
      return {};
  }
  return {};
}

}  // namespace regroup::core::agent
