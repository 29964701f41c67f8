#include "core/supervision/supervision.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace regroup::core::supervision {
namespace {

// Nothing tells us when an orphan ends, so we look: soon at first, then less often.
constexpr Duration kFirstPause = 2ms;
constexpr Duration kLongestPause = 100ms;
constexpr Duration kLongestLingering = 1s;  // The same, where it may take minutes.

// Signals of a program's own mistake. A worker that dies of one after our SIGTERM did not die of
// our SIGTERM.
bool is_crash(int signal) {
  constexpr int kCrashes[] = {4, 5, 6, 7, 8, 11, 31};  // ILL, TRAP, ABRT, BUS, FPE, SEGV, SYS.
  return std::find(std::begin(kCrashes), std::end(kCrashes), signal) != std::end(kCrashes);
}

}  // namespace

Supervision::Supervision(const Settings& settings) : settings_(settings) {
  CHECK(settings.workers > 0);
  workers_.resize(static_cast<std::size_t>(settings.workers));
}

void Supervision::on_started() {
  CHECK(phase_ == Phase::Starting);
  phase_ = Phase::Running;
  running_ = settings_.workers;
}

Effects Supervision::on_exit(int worker, const Exit& exit, Instant now) {
  WorkerOutcome& outcome = workers_.at(static_cast<std::size_t>(worker));
  if (phase_ == Phase::Over || outcome.end != End::None) return {};
  outcome.exit = exit;
  outcome.at = now;
  outcome.order = ended_++;
  --running_;
  const bool crashed = is_crash(exit.signal) && exit.signal != outcome.signalled;
  if (outcome.condemned) {
    outcome.end = End::Failed;
  } else if (outcome.signalled != 0 && !crashed) {
    outcome.end = End::Stopped;
  } else {
    outcome.end = exit.clean() ? End::Succeeded : End::Failed;
  }
  if (outcome.end == End::Failed && !first_failure_) first_failure_ = worker;

  if (running_ == 0) {  // Processes that they left behind decide.
    look_pause_ = {};
    return {CountAlive{}};
  }
  if (phase_ == Phase::Running && outcome.end == End::Failed)
    return begin_stop(settings_.stop_signal, settings_.grace, now);
  return {};
}

Effects Supervision::on_count(int alive, Instant now) {
  left_ = alive;
  next_look_.reset();
  if (phase_ == Phase::Over || phase_ == Phase::Starting) return {};
  if (running_ > 0 && phase_ != Phase::Killing) return {};  // Their ends will be told.
  if (running_ == 0 && alive == 0) return finish();
  look_pause_ = std::clamp(look_pause_ * 2, kFirstPause,
                           phase_ == Phase::Lingering ? kLongestLingering : kLongestPause);
  next_look_ = now + look_pause_;
  if (phase_ == Phase::Running && succeeded()) {
    phase_ = Phase::Lingering;
    leftovers_.emplace(Leftovers::Settings{.rule = settings_.away,
                                           .wait = settings_.away_wait,
                                           .stop_signal = settings_.stop_signal,
                                           .grace = settings_.grace,
                                           .kill_wait = settings_.kill_wait},
                       now);
    if (may_go_) leftovers_->let_go();
  }
  if (phase_ == Phase::Lingering) return {LookAtLeft{}};
  if (phase_ == Phase::Running) return begin_stop(settings_.stop_signal, settings_.grace, now);
  if (phase_ == Phase::Killing) return {KillAll{}};  // A process was started meanwhile.
  return {};
}

Effects Supervision::on_left(const std::vector<Left>& left, Instant now) {
  if (phase_ != Phase::Lingering) return {};
  const Leftovers::Verdict verdict = leftovers_->on_left(left, now);
  if (const auto due = leftovers_->next_look(); due && next_look_ && *due < *next_look_)
    next_look_ = due;
  Effects effects;
  if (!verdict.tell.empty()) effects.emplace_back(Tell{verdict.tell});
  if (verdict.signal_stayed != 0) effects.emplace_back(SignalStayed{verdict.signal_stayed});
  if (verdict.has_succeeded) effects.emplace_back(Succeeded{});
  const auto then = [&](Effects more) {
    effects.insert(effects.end(), more.begin(), more.end());
    return effects;
  };
  switch (verdict.next) {
    case Leftovers::Verdict::Next::LookAgain:
      return effects;
    case Leftovers::Verdict::Next::StopAll:
      return then(begin_stop(settings_.stop_signal, settings_.grace, now));
    case Leftovers::Verdict::Next::KillAll:
      return then(begin_kill(now));
    case Leftovers::Verdict::Next::LetGo:
      effects.emplace_back(LetGo{});
      return then(finish());
  }
  return effects;
}

Effects Supervision::let_go(Instant now) {
  may_go_ = true;
  if (phase_ != Phase::Lingering) return {};
  leftovers_->let_go();
  next_look_ = now;
  return {};
}

Effects Supervision::on_deadline(Instant now) {
  if (deadline_ && now >= *deadline_) {
    if (phase_ == Phase::Stopping) return begin_kill(now);
    if (phase_ == Phase::Killing) return finish();
  }
  if (execution_ && now >= *execution_) {
    execution_.reset();
    Effects effects;
    for (std::size_t i = 0; phase_ == Phase::Running && i < workers_.size(); ++i)
      if (workers_[i].condemned && workers_[i].end == End::None)
        effects.emplace_back(KillWorker{static_cast<int>(i)});
    if (effects.empty()) return {};
    // SIGKILL was sent already, and the kernel has not ended it.
    if (executed_) return begin_kill(now);
    executed_ = true;
    execution_ = now + settings_.kill_wait;
    return effects;
  }
  if (next_look_ && now >= *next_look_) {
    next_look_.reset();
    return {CountAlive{}};
  }
  return {};
}

Effects Supervision::stop(int number, Duration grace, Instant now) {
  switch (phase_) {
    case Phase::Running:
    case Phase::Lingering:
      return begin_stop(number, grace, now);
    case Phase::Stopping:
      if (grace <= Duration{}) return begin_kill(now);
      deadline_ = std::min(*deadline_, now + grace);
      return {SignalAll{number}};
    case Phase::Starting:
    case Phase::Killing:
    case Phase::Over:
      return {};
  }
  return {};
}

Effects Supervision::kill(Instant now) {
  if (phase_ == Phase::Running || phase_ == Phase::Lingering || phase_ == Phase::Stopping)
    return begin_kill(now);
  return {};
}

Effects Supervision::begin_stop(int number, Duration grace, Instant now) {
  if (grace <= Duration{}) return begin_kill(now);
  if (phase_ == Phase::Lingering) {  // It was looked at less and less often.
    look_pause_ = {};
    next_look_ = now + kFirstPause;
  }
  phase_ = Phase::Stopping;
  deadline_ = now + grace;
  return {SignalAll{number}};
}

Effects Supervision::begin_kill(Instant now) {
  phase_ = Phase::Killing;
  deadline_ = now + settings_.kill_wait;
  look_pause_ = {};
  return {KillAll{}, CountAlive{}};
}

Effects Supervision::finish() {
  for (WorkerOutcome& worker : workers_)
    if (worker.end == End::None) worker.end = End::Survived;
  phase_ = Phase::Over;
  deadline_.reset();
  execution_.reset();
  next_look_.reset();
  return {GroupOver{}};
}

void Supervision::on_signalled(int number) {
  for (WorkerOutcome& worker : workers_)
    if (worker.end == End::None) worker.signalled = number;
}

bool Supervision::condemn(int worker, int signal, Instant now) {
  WorkerOutcome& outcome = workers_.at(static_cast<std::size_t>(worker));
  if (phase_ != Phase::Running || outcome.end != End::None) return false;
  outcome.condemned = true;
  if (execution_) return true;
  executed_ = signal == kSigKill;
  execution_ = now + (executed_ ? settings_.kill_wait : settings_.grace);
  return true;
}

void Supervision::postpone(Duration by) {
  if (deadline_) deadline_ = *deadline_ + by;
}

std::optional<Instant> Supervision::next_deadline() const {
  std::optional<Instant> next;
  for (const auto& one : {deadline_, execution_, next_look_})
    if (one && (!next || *one < *next)) next = one;
  return next;
}

bool Supervision::succeeded() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const WorkerOutcome& worker) { return worker.end == End::Succeeded; });
}

std::string Supervision::waiting_for(Instant now) const {
  if (phase_ == Phase::Starting) return "the workers have not been started";
  if (phase_ == Phase::Over) return "all workers have ended";
  std::vector<int> ranks;
  for (std::size_t i = 0; i < workers_.size(); ++i)
    if (workers_[i].end == End::None) ranks.push_back(static_cast<int>(i));
  std::string text;
  if (ranks.empty()) {
    text = fmt::format("{} {} that the workers left behind", left_,
                       left_ == 1 ? "process" : "processes");
  } else {
    text = fmt::format("{} of {} workers still run ({})", ranks.size(), workers_.size(),
                       in_ranges(ranks));
  }
  if (!deadline_) return text;
  const std::string rest = in_words(std::max(*deadline_ - now, Duration{}));
  return text + (phase_ == Phase::Stopping ? ", killed in " : ", killed; given up in ") + rest;
}

}  // namespace regroup::core::supervision
