#include "sim/world/torchrun_executor.h"

#include <utility>

#include "base/check.h"

namespace regroup::sim {

using core::rendezvous::Action;
using core::rendezvous::Done;
using core::rendezvous::NodeId;
using core::rendezvous::Now;
using core::rendezvous::Operation;
using core::rendezvous::Outcome;
using core::rendezvous::Read;
using core::rendezvous::Rest;
using core::rendezvous::Settings;
using core::rendezvous::Snapshot;
using core::rendezvous::Stamp;
using core::rendezvous::Standing;
using core::rendezvous::State;
using core::rendezvous::Step;
using core::rendezvous::Swap;

namespace {

Stamp later(Stamp stamp, Duration by) {
  return {stamp.micros + std::chrono::duration_cast<std::chrono::microseconds>(by).count()};
}

std::int64_t size_of(const State& state) {
  return static_cast<std::int64_t>(state.participants.size());
}

// Its `_remove_participant_epilogue`.
void after_removal(State& state, const Settings& settings) {
  if (state.complete) {
    if (state.participants.empty()) {
      state.complete = false;
      state.round += 1;
    }
  } else if (size_of(state) < settings.min_nodes) {
    state.deadline.reset();
  }
}

void sanitize(State& state, const Settings& settings, Stamp utc) {
  const Stamp expired = later(utc, -settings.silence_limit());
  bool participant_removed = false;
  for (auto at = state.last_heartbeats.begin(); at != state.last_heartbeats.end();) {
    if (at->second < expired) {
      participant_removed |= state.participants.erase(at->first) > 0;
      state.wait_list.erase(at->first);
      state.redundancy_list.erase(at->first);
      at = state.last_heartbeats.erase(at);
    } else {
      ++at;
    }
  }
  if (participant_removed) after_removal(state, settings);
}

void mark_complete(State& state) {
  state.complete = true;
  state.deadline.reset();
  std::int64_t rank = 0;
  for (auto& [node, held] : state.participants) held = rank++;
}

}  // namespace

TorchrunExecutor::TorchrunExecutor(Settings settings, NodeId self)
    : settings_(std::move(settings)), self_(std::move(self)) {}

Step TorchrunExecutor::begin(Operation operation, Duration limit, Now now) {
  operation_ = operation;
  give_up_ = now.instant + limit;
  if (seen_ && now.instant - *seen_ <= 1s) return proceed(now);
  return {Read{}};
}

Step TorchrunExecutor::on_read(std::optional<Snapshot> present, Now now) {
  state_ = present ? std::move(present->state) : State{};
  token_ = present ? std::optional(std::move(present->token)) : std::nullopt;
  return synced(now);
}

Step TorchrunExecutor::on_won(std::string token, Now now) {
  state_ = std::move(pending_);
  token_ = std::move(token);
  if (leaves_spares_) give_up_ = now.instant + settings_.join_timeout;
  return synced(now);
}

Step TorchrunExecutor::on_lost(std::optional<Snapshot> present, Now now) {
  if (present) {
    state_ = std::move(present->state);
    token_ = std::move(present->token);
  } else {
    token_.reset();
  }
  return synced(now);
}

Step TorchrunExecutor::on_rested(Now now) {
  if (seen_ && now.instant - *seen_ <= 1s) return proceed(now);
  return {Read{}};
}

Step TorchrunExecutor::on_unreachable(Now) { return {Done{Outcome::Unreachable}}; }

Standing TorchrunExecutor::standing() const {
  // It asks only whether a node waits; the rest is here for the reader of a trace.
  return {.member = state_.participants.contains(self_),
          .whole = true,
          .closed = state_.closed,
          .waiting = static_cast<std::int64_t>(state_.wait_list.size())};
}

Step TorchrunExecutor::synced(Now now) {
  seen_ = now.instant;
  sanitize(state_, settings_, now.utc);
  return proceed(now);
}

Step TorchrunExecutor::proceed(Now now) {
  const Action action = decide(now);
  switch (action) {
    case Action::Finish:
      if (operation_ == Operation::Join) joined_ = state_;
      return {Done{Outcome::Finished}};
    case Action::ErrorClosed:
      return {Done{Outcome::Closed}};
    case Action::ErrorTimeout:
      return {Done{Outcome::TimedOut}};
    case Action::GracefulExit:
      return {Done{Outcome::NotNeeded}};
    case Action::Sync:
      return {Rest{now.instant + 1s, {}}};
    case Action::KeepAlive:
    case Action::AddToParticipants:
    case Action::AddToWaitList:
    case Action::AddToRedundancyList:
    case Action::RemoveFromParticipants:
    case Action::RemoveFromWaitList:
    case Action::RemoveFromRedundancyList:
    case Action::MarkComplete:
    case Action::MarkClosed:
      pending_ = changed(action, now);
      leaves_spares_ = action == Action::RemoveFromRedundancyList && operation_ == Operation::Join;
      return {Swap{pending_, token_}};
  }
  return {Done{Outcome::Finished}};
}

bool TorchrunExecutor::heartbeat_due(Now now) const {
  const auto last = state_.last_heartbeats.find(self_);
  return last != state_.last_heartbeats.end() &&
         last->second <= later(now.utc, -settings_.keep_alive_interval);
}

Action TorchrunExecutor::decide(Now now) const {
  const bool late = now.instant > give_up_;
  switch (operation_) {
    case Operation::Join:
      return decide_join(now);
    case Operation::Exit:
    case Operation::Leave:
      if (!state_.participants.contains(self_)) return Action::Finish;
      return late ? Action::ErrorTimeout : Action::RemoveFromParticipants;
    case Operation::Close:
      if (state_.closed) return Action::Finish;
      return late ? Action::ErrorTimeout : Action::MarkClosed;
    case Operation::KeepAlive:
      if (!heartbeat_due(now)) return Action::Finish;
      return late ? Action::ErrorTimeout : Action::KeepAlive;
    case Operation::Look:
      return Action::Finish;
  }
  return Action::Finish;
}

Action TorchrunExecutor::decide_join(Now now) const {
  const bool redundant = state_.redundancy_list.contains(self_);
  const bool participates = state_.participants.contains(self_);
  const bool waits = state_.wait_list.contains(self_);
  const std::int64_t joined = size_of(state_);
  const Action idle = heartbeat_due(now) ? Action::KeepAlive : Action::Sync;

  if (state_.closed) return redundant ? Action::GracefulExit : Action::ErrorClosed;
  if (redundant) return joined == settings_.max_nodes ? idle : Action::RemoveFromRedundancyList;
  if (state_.complete && participates) return Action::Finish;
  if (now.instant > give_up_) {
    if (now.instant <= give_up_ + 5s) {
      if (participates) return Action::RemoveFromParticipants;
      if (waits) return Action::RemoveFromWaitList;
    }
    return Action::ErrorTimeout;
  }
  if (state_.complete) {
    if (waits) return idle;
    return joined < settings_.max_nodes ? Action::AddToWaitList : Action::AddToRedundancyList;
  }
  if (!participates) return Action::AddToParticipants;
  if (joined >= settings_.min_nodes && joined <= settings_.max_nodes && state_.deadline &&
      *state_.deadline < now.utc)
    return Action::MarkComplete;
  return idle;
}

State TorchrunExecutor::changed(Action action, Now now) const {
  State state = state_;
  switch (action) {
    case Action::KeepAlive:
      state.last_heartbeats[self_] = now.utc;
      break;
    case Action::AddToParticipants:
      state.wait_list.erase(self_);
      state.participants[self_] = 0;
      state.last_heartbeats[self_] = now.utc;
      if (size_of(state) == settings_.min_nodes)
        state.deadline = later(now.utc, settings_.last_call_timeout);
      if (size_of(state) == settings_.max_nodes) mark_complete(state);
      break;
    case Action::AddToWaitList:
      state.redundancy_list.erase(self_);
      state.wait_list.insert(self_);
      state.last_heartbeats[self_] = now.utc;
      break;
    case Action::AddToRedundancyList:
      state.redundancy_list.insert(self_);
      state.last_heartbeats[self_] = now.utc;
      break;
    case Action::RemoveFromParticipants:
      state.participants.erase(self_);
      state.last_heartbeats.erase(self_);
      after_removal(state, settings_);
      break;
    case Action::RemoveFromWaitList:
      state.wait_list.erase(self_);
      state.last_heartbeats.erase(self_);
      break;
    case Action::RemoveFromRedundancyList:
      state.redundancy_list.erase(self_);
      state.last_heartbeats.erase(self_);
      break;
    case Action::MarkComplete:
      mark_complete(state);
      break;
    case Action::MarkClosed:
      state.closed = true;
      break;
    case Action::Sync:
    case Action::Finish:
    case Action::ErrorClosed:
    case Action::ErrorTimeout:
    case Action::GracefulExit:
      CHECK(!"an action that changes the state");
  }
  return state;
}

}  // namespace regroup::sim
