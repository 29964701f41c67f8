#include "core/workers/group.h"

#include <algorithm>
#include <utility>

#include "base/cases.h"
#include "base/check.h"

namespace regroup::core::workers {

using supervision::End;
using supervision::Phase;

Group::Group(const Settings& settings)
    : settings_(settings),
      supervision_({.workers = static_cast<int>(settings.ranks.size()),
                    .stop_signal = settings.stop_signal,
                    .grace = settings.grace,
                    .kill_wait = settings.kill_wait,
                    .away = settings.away,
                    .away_wait = settings.away_wait}),
      ended_for_(settings.ranks.size()) {}

void Group::on_started(Instant now) {
  supervision_.on_started();
  if (settings_.hang_timeout <= Duration{}) return;
  detector_.emplace(
      hang::Settings{.timeout = settings_.hang_timeout, .grace = settings_.hang_grace},
      static_cast<int>(settings_.ranks.size()), now);
  look_at_ = detector_->next_look();
}

Effects Group::on_exit(int worker, const supervision::Exit& exit, Instant now) {
  const bool is_first = !supervision_.first_failure();
  const auto follows = supervision_.on_exit(worker, exit, now);
  Effects effects;
  // The other nodes need not wait until we have stopped.
  if (is_first && supervision_.first_failure()) effects.emplace_back(FirstFailure{worker});
  const Effects rest = of(follows, now);
  effects.insert(effects.end(), rest.begin(), rest.end());
  return effects;
}

Effects Group::on_count(int alive, Instant now) {
  return of(supervision_.on_count(alive, now), now);
}

Effects Group::on_left(const std::vector<supervision::Left>& left, Instant now) {
  return of(supervision_.on_left(left, now), now);
}

Effects Group::let_go(Instant now) { return of(supervision_.let_go(now), now); }

Effects Group::on_time(Instant now) {
  Effects effects = of(supervision_.on_deadline(now), now);
  if (end_by_ && now >= *end_by_) end_who_waits(effects, now);
  if (!look_at_ || now < *look_at_) return effects;
  look_at_.reset();
  if (is_judged()) return effects;
  if (taking_stacks_)  // That makes the workers move.
    look_at_ = now + settings_.look_pause;
  else
    effects.emplace_back(Look{});
  return effects;
}

std::optional<Instant> Group::next_deadline() const {
  auto next = supervision_.next_deadline();
  for (const auto& other : {look_at_, end_by_})
    if (other && (!next || *other < *next)) next = other;
  return next;
}

Effects Group::stop(int signal, Duration grace, StopFor reason, Instant now) {
  stop_for_ = reason;
  return of(supervision_.stop(signal, grace, now), now);
}

Effects Group::kill(Instant now) { return of(supervision_.kill(now), now); }

Effects Group::of(const supervision::Effects& effects, Instant now) {
  Effects ours;
  for (const auto& effect : effects)
    std::visit(Cases{[&](const SignalAll& order) {
                       if (!holds_for_stacks()) {
                         give_up_stacks(ours);
                         ours.emplace_back(order);
                         return;
                       }
                       // The grace does not run meanwhile.
                       supervision_.postpone(settings_.stacks_limit);
                       held_stops_.push_back({order.number, now});
                       take_stacks(ours, "the workers are stopped because of a failure",
                                   settings_.stacks_limit);
                     },
                     [&](const KillAll& order) {
                       give_up_stacks(ours);
                       ours.emplace_back(order);
                     },
                     [&](const supervision::KillWorker& order) {
                       ours.emplace_back(SignalWorker{order.worker, supervision::kSigKill});
                     },
                     [&](const CountAlive& order) { ours.emplace_back(order); },
                     [&](const LookAtLeft& order) { ours.emplace_back(order); },
                     [&](const SignalStayed& order) { ours.emplace_back(order); },
                     [&](const Succeeded& said) { ours.emplace_back(said); },
                     [&](const LetGo& order) { ours.emplace_back(order); },
                     [&](const Tell& told) { ours.emplace_back(told); },
                     [&](const supervision::GroupOver&) {
                       give_up_stacks(ours);
                       look_at_.reset();
                       ours.emplace_back(Over{});
                     }},
               effect);
  return ours;
}

// ---- Stacks ----

bool Group::holds_for_stacks() const {
  return settings_.takes_stacks_for_failures && stop_for_ == StopFor::Failure && !has_stacks_ &&
         supervision_.running() > 0;
}

void Group::take_stacks(Effects& effects, const std::string& why, Duration limit) {
  if (std::exchange(taking_stacks_, true)) return;
  effects.emplace_back(CollectStacks{why, limit});
}

void Group::give_up_stacks(Effects& effects) {
  to_end_.clear();
  end_by_.reset();
  held_stops_.clear();
  hang_waits_ = false;
  if (std::exchange(taking_stacks_, false)) effects.emplace_back(GiveUpStacks{});
}

Effects Group::on_stacks(std::vector<hang::RankAt> ours, Instant now) {
  if (!std::exchange(taking_stacks_, false)) return {};  // They came too late.
  has_stacks_ = true;
  where_ = std::move(ours);
  summary_ = hang::where_they_are(where_);
  if (detector_) detector_->on_disturbed();
  Effects effects;
  end_who_waits(effects, now);
  if (std::exchange(hang_waits_, false)) tell_where(effects, now);
  for (const HeldStop& held : std::exchange(held_stops_, {})) {
    supervision_.postpone(now - held.since - settings_.stacks_limit);
    effects.emplace_back(SignalAll{held.signal});
  }
  return effects;
}

void Group::end_who_waits(Effects& effects, Instant now) {
  end_by_.reset();
  for (const ToEnd& one : std::exchange(to_end_, {})) end_worker(effects, one, now);
}

Effects Group::end_for(int worker, int signal, const std::string& why, Instant now) {
  if (!runs(worker)) return {};
  Effects effects;
  ToEnd one{worker, signal, why};
  if (!settings_.takes_stacks || has_stacks_) {
    end_worker(effects, one, now);
    return effects;
  }
  to_end_.push_back(std::move(one));
  if (!end_by_) end_by_ = now + settings_.timer_patience;
  const int rank = settings_.ranks[static_cast<std::size_t>(worker)];
  take_stacks(effects, "rank " + std::to_string(rank) + ": " + why, settings_.timer_stacks_limit);
  return effects;
}

bool Group::end_worker(Effects& effects, const ToEnd& one, Instant now) {
  if (!supervision_.condemn(one.worker, one.signal, now)) return false;
  ended_for_[static_cast<std::size_t>(one.worker)] = one.why;
  effects.emplace_back(SignalWorker{one.worker, one.signal});
  return true;
}

// ---- Questions ----

const supervision::WorkerOutcome& Group::outcome(int worker) const {
  return supervision_.workers().at(static_cast<std::size_t>(worker));
}

const std::string& Group::ended_for(int worker) const {
  return ended_for_.at(static_cast<std::size_t>(worker));
}

bool Group::runs(int worker) const {
  return supervision_.phase() == Phase::Running && outcome(worker).end == End::None;
}

bool Group::stopping() const {
  return supervision_.phase() == Phase::Stopping || supervision_.phase() == Phase::Killing;
}

}  // namespace regroup::core::workers
