#include "core/rendezvous/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace regroup::core::rendezvous {
namespace {

// A state as young as this serves a new operation; torchrun caches as long.
constexpr Duration kFresh = 1s;

// All waiting nodes together look about 250 times a second, however many they are, and each at
// least once a second, as torchrun's nodes do.
constexpr Duration kLookPerNode = 4ms;
constexpr Duration kFirstLook = 50ms;
constexpr Duration kLastLook = 1s;

// One try, from reading the state to the answer of the swap, takes at least this long; and however
// long it takes, no node waits longer than this for the next try.
constexpr Duration kShortestTry = 100us;
constexpr Duration kLongestBackOff = 2s;

// How long it is tried to close or leave a run whose store does not answer at all. torchrun does
// not try again.
constexpr Duration kGoodbyeUnheard = 2s;

std::int64_t listed(const State& state) {
  return static_cast<std::int64_t>(state.participants.size() + state.wait_list.size() +
                                   state.redundancy_list.size());
}

// How many nodes may want to change the state just now: those that are not in the open round yet,
// or those that have not left the sealed one.
std::int64_t contenders(const State& state, const Settings& settings) {
  const auto joined = static_cast<std::int64_t>(state.participants.size());
  const std::int64_t expected = state.complete ? joined : settings.max_nodes - joined;
  return std::clamp<std::int64_t>(expected, 8, 100'000);
}

Duration doubled(Duration window, std::int64_t times) {
  return window * (std::int64_t{1} << std::min<std::int64_t>(times, 10));
}

}  // namespace

Executor::Executor(Settings settings, NodeId self, Claim claim, std::uint64_t seed)
    : settings_(std::move(settings)),
      self_(std::move(self)),
      claim_(std::move(claim)),
      random_(seed),
      liveness_(settings_.keep_alive_interval) {}

Step Executor::begin(Operation operation, Duration limit, Now now) {
  // The operation before this one was given up with a swap under way, so we do not know whether it
  // succeeded.
  if (std::exchange(swapping_, false)) {
    state_ = std::move(pending_);
    seen_.reset();
  }
  operation_ = operation;
  began_ = now.instant;
  give_up_ = now.instant + limit;
  losses_ = 0;
  leaving_.reset();
  if (operation == Operation::Join && joined_.complete) leaving_ = joined_.round;
  if (seen_ && now.instant - *seen_ < kFresh) {
    try_began_ = now.instant;
    return proceed(now);
  }
  return read(now);
}

Step Executor::on_read(std::optional<Snapshot> present, Now now) {
  return take(std::move(present), now);
}

Step Executor::on_won(std::string token, Now now) {
  losses_ = 0;
  if (pending_beat_) last_beat_ = pending_beat_;
  const std::string left = stored_phase_;
  Step step = take(Snapshot{std::move(pending_), std::move(token)}, now);
  if (left != stored_phase_) step.phase_left = left;
  return step;
}

Step Executor::on_lost(std::optional<Snapshot> present, Now now) {
  losses_ += 1;
  if (losses_ == 1 && settings_.max_nodes <= 8) return take(std::move(present), now);
  swapping_ = false;
  state_ = present ? std::move(present->state) : State{};
  // n nodes that each need the state to themselves for the time of one try get through if they
  // spread their tries over n such times. How many they are is guessed from below. How long a try
  // takes is the quickest of late: the others mostly tell how many were in the way.
  const Duration took = std::max(kShortestTry, now.instant - try_began_);
  one_try_ = one_try_ == Duration{} ? took : std::min(took, one_try_ + one_try_ / 16);
  const Duration window = std::min(
      {one_try_ * contenders(state_, settings_), doubled(8 * one_try_, losses_), kLongestBackOff});
  // The state that won is here, but after the pause it will be old: read it again then.
  seen_.reset();
  return rest(now.instant + at_random(window), {});
}

Step Executor::on_rested(Now now) {
  if (now.instant < resting_.until) woken_in_ = resting_.phase;
  return read(now);
}

Step Executor::on_unreachable(Now now) {
  seen_.reset();
  if (std::exchange(swapping_, false)) state_ = std::move(pending_);  // It may have succeeded.
  // At the end of a run its host goes, and nobody is left to be told anything.
  const bool is_goodbye = operation_ == Operation::Close || operation_ == Operation::Leave;
  const Instant give_up = is_goodbye ? std::min(give_up_, began_ + kGoodbyeUnheard) : give_up_;
  if (now.instant > give_up) return done(Outcome::Unreachable);
  losses_ += 1;
  const Duration window = std::min(kLongestBackOff, doubled(50ms, losses_));
  return rest(now.instant + at_random(window), {});
}

std::optional<Instant> Executor::last_call_end() const {
  return liveness_.last_call_end(settings_.last_call_timeout);
}

Standing Executor::standing() const {
  const bool member = joined_.complete && state_.complete && state_.round == joined_.round &&
                      state_.participants.contains(self_);
  return {.member = member,
          .whole = member && state_.participants.size() == joined_.participants.size(),
          .closed = state_.closed,
          .waiting = static_cast<std::int64_t>(state_.wait_list.size()),
          .spares = static_cast<std::int64_t>(state_.redundancy_list.size())};
}

Step Executor::read(Now now) {
  asked_ = try_began_ = now.instant;
  return {Read{}};
}

Step Executor::take(std::optional<Snapshot> present, Now now) {
  if (present) {
    state_ = with_invariants(std::move(present->state));
    token_ = std::move(present->token);
  } else {
    state_ = {};
    token_.reset();
  }
  swapping_ = false;
  stored_phase_ = phase(state_);
  seen_ = now.instant;
  liveness_.observe(state_, asked_, now.instant);
  dead_ = liveness_.silent(self_, settings_.silence_limit());
  state_ = without(std::move(state_), dead_, settings_);
  return proceed(now);
}

Step Executor::proceed(Now now) {
  if (!state_.participants.contains(self_)) leaving_.reset();
  // A spare waits without a limit, so its time begins anew while it is one. Otherwise, an hour
  // later, the first answer that is lost, or its being dropped during a pause, would end its join
  // at once.
  if (operation_ == Operation::Join && state_.redundancy_list.contains(self_))
    give_up_ = now.instant + settings_.join_timeout;
  const Reading reading{
      .now = now.instant,
      .give_up = give_up_,
      .heartbeat_due = heartbeat_due(now.instant),
      .last_call_over = liveness_.last_call_over(settings_.last_call_timeout, now.instant)};
  switch (const Action action = next_action(state_, reading); action) {
    case Action::Finish:
      return done(Outcome::Finished);
    case Action::ErrorClosed:
      return done(Outcome::Closed);
    case Action::ErrorTimeout:
      return done(Outcome::TimedOut);
    case Action::GracefulExit:
      return done(Outcome::NotNeeded);
    case Action::Sync:
      return look_later(now);
    case Action::KeepAlive:
    case Action::AddToParticipants:
    case Action::AddToWaitList:
    case Action::AddToRedundancyList:
    case Action::RemoveFromParticipants:
    case Action::RemoveFromWaitList:
    case Action::RemoveFromRedundancyList:
    case Action::MarkComplete:
    case Action::MarkClosed:
      return swap(action, reading, now.utc);
  }
  return done(Outcome::Finished);
}

Action Executor::next_action(const State& state, const Reading& reading) const {
  const bool in_old_round =
      leaving_ && state.complete && state.round == *leaving_ && state.participants.contains(self_);
  return decide(operation_ == Operation::Join && in_old_round ? Operation::Exit : operation_, state,
                self_, settings_, reading);
}

Step Executor::swap(Action action, Reading reading, Stamp utc) {
  const Actor actor{.node = self_, .claim = claim_, .utc = utc};
  const auto stamp = [&](const State& state) {
    const auto found = state.last_heartbeats.find(self_);
    return found == state.last_heartbeats.end() ? std::nullopt : std::optional(found->second);
  };
  const auto old_stamp = stamp(state_);
  pending_ = std::move(state_);  // It comes back with the answer, or another does.
  swapping_ = true;
  std::vector<Transition> transitions;
  // What would follow at once goes into the same swap: leaving a round and joining the next is one
  // change and not three, and swaps are what many nodes contend for.
  while (changes_state(action)) {
    // Out of one list, into the next, sealed: the tables have no cycle.
    CHECK(transitions.size() < 24);
    const std::int64_t round = pending_.round;
    const bool was_complete = pending_.complete;
    pending_ = apply(std::move(pending_), action, actor, settings_);
    transitions.push_back({action, round});
    const bool is_in = action == Action::AddToParticipants || action == Action::AddToWaitList ||
                       action == Action::AddToRedundancyList;
    if (is_in) transitions.push_back({Action::KeepAlive, round});
    if (is_in && pending_.complete && !was_complete)
      transitions.push_back({Action::MarkComplete, round});
    reading.heartbeat_due = false;
    action = next_action(pending_, reading);
  }
  pending_beat_.reset();
  if (stamp(pending_) != old_stamp) pending_beat_ = reading.now;
  asked_ = reading.now;
  return {Swap{pending_, token_, std::move(transitions), dead_}};
}

Step Executor::done(Outcome outcome) {
  if (operation_ == Operation::Join && outcome == Outcome::Finished) {
    joined_ = state_;
    claim_.held = HeldRank{.round = state_.round,
                           .rank = state_.participants.at(self_),
                           .world_size = static_cast<std::int64_t>(state_.participants.size())};
  }
  return {Done{outcome}};
}

Step Executor::rest(Instant until, std::string phase) {
  resting_ = {.until = until, .phase = std::move(phase)};
  return {resting_};
}

Step Executor::look_later(Now now) {
  const Duration waited = now.instant - began_;
  const Duration look =
      std::clamp(std::max(kLookPerNode * listed(state_), waited / 20), kFirstLook, kLastLook);
  Instant until = now.instant + look * 3 / 4 + at_random(look / 4);
  // Every node sees the last call end; the first by chance seals the round, and that wakes the
  // others.
  if (const auto end = last_call_end(); end && *end >= now.instant)
    until = std::min(until, *end + 1ms + at_random(1ms * listed(state_)));
  if (last_beat_ && state_.last_heartbeats.contains(self_))
    until = std::min(until, *last_beat_ + settings_.keep_alive_interval);
  if (give_up_ >= now.instant) until = std::min(until, give_up_ + 1ms);
  // Woken because this phase was over, but it is not: the state was thrown away, and the
  // announcements were not. They are ignored, or this node would never rest again.
  const bool deaf = stored_phase_ == woken_in_;
  return rest(std::max(until, now.instant + 1ms), deaf ? std::string() : stored_phase_);
}

bool Executor::heartbeat_due(Instant now) const {
  if (!state_.last_heartbeats.contains(self_)) return false;
  // A join sends heartbeats on its own. A caller that asks for one has a timer that knows nothing
  // of those of the join: told that it is early, it would come again a whole interval later, and
  // two intervals without a heartbeat are all that keep_alive_attempts = 2 allows.
  const Duration age = operation_ == Operation::KeepAlive ? settings_.keep_alive_interval / 2
                                                          : settings_.keep_alive_interval;
  return !last_beat_ || now - *last_beat_ >= age;
}

Duration Executor::at_random(Duration window) {
  return Duration(
      static_cast<Duration::rep>(static_cast<double>(window.count()) * random_.fraction()));
}

}  // namespace regroup::core::rendezvous
