#include "sim/node/node_workers.h"

#include <algorithm>
#include <utility>

#include "base/cases.h"
#include "sim/world/trace.h"

namespace regroup::sim {

using namespace core::supervision;
using core::agent::GroupEnd;

namespace {

constexpr int kSegv = 11;
constexpr Duration kSlack = 50ms;

}  // namespace

NodeWorkers::NodeWorkers(const NodesPlan& plan, Place place, std::uint64_t seed,
                         WorkersSurroundings& around)
    : plan_(plan),
      place_(place),
      around_(around),
      dice_(seed),
      processes_(static_cast<std::size_t>(place.workers)),
      machine_({.workers = static_cast<int>(place.workers),
                .stop_signal = kSigTerm,
                .grace = plan.session.grace,
                .kill_wait = plan.kill_wait}) {}

void NodeWorkers::later(Duration own, std::function<void()> act) {
  around_.after(own, [act = std::move(act), still = std::weak_ptr<int>(alive_)] {
    if (!still.expired()) act();
  });
}

void NodeWorkers::start() {
  machine_.on_started();
  const Instant now = around_.own_now();
  if (plan_.hang_timeout > Duration{}) {
    hang_.emplace(core::hang::Settings{.timeout = plan_.hang_timeout, .grace = plan_.hang_timeout},
                  static_cast<int>(place_.workers), now);
    later(hang_->next_look() - now, [this] { look_for_a_hang(); });
  }
  for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank) plan_life(rank);
}

void NodeWorkers::plan_life(int rank) {
  const WorkPlan& work = plan_.work;
  Process& process = processes_[static_cast<std::size_t>(rank)];
  process.heeds = dice_.chance(work.ignores_stop)   ? Heeds::Nothing
                  : dice_.chance(work.stops_slowly) ? Heeds::Slowly
                                                    : Heeds::AtOnce;
  process.cannot_be_killed = around_.is_stormy() && dice_.chance(work.survives);
  const bool fails = dice_.chance(work.fails);
  const bool hangs = dice_.chance(work.hangs);
  const Duration when = dice_.between(Duration{}, work.fails_within);
  if (fails || hangs)
    later(when, [this, rank, hangs] {
      Process& one = processes_[static_cast<std::size_t>(rank)];
      if (!around_.is_stormy() || !one.lives || one.is_doomed || !is_running()) return;
      if (hangs) {
        one.hangs = true;
        return around_.tell("its worker " + std::to_string(rank) + " hangs");
      }
      const std::int64_t how = dice_.between(0, 5);
      end(rank, how == 0 ? Exit{.code = 0, .signal = kSegv} : Exit{.code = how == 1 ? 3 : 1});
    });
  if (!work.is_long || around_.may_be_done()) plan_success(rank, work.longest);
}

void NodeWorkers::plan_success(int rank, Duration within) {
  later(dice_.between(Duration{}, within), [this, rank] {
    Process& one = processes_[static_cast<std::size_t>(rank)];
    if (!one.lives || one.is_doomed || one.hangs) return;
    // It waits for the one that hangs.
    if (around_.is_stuck(place_.round)) return plan_success(rank, 2s);
    end(rank, {});
  });
}

void NodeWorkers::be_done() {
  for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank)
    plan_success(rank, plan_.work.longest);
}

void NodeWorkers::fail_one() {
  if (!is_running()) return;
  for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank)
    if (const Process& one = processes_[static_cast<std::size_t>(rank)];
        one.lives && !one.is_doomed && !one.hangs)
      return end(rank, {.code = 1});
}

void NodeWorkers::end(int rank, Exit exit) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  if (!process.lives) return;
  process.lives = false;
  process.hangs = false;
  const bool first = !machine_.first_failure();
  Effects effects = machine_.on_exit(rank, exit, around_.own_now());
  if (first && machine_.first_failure())
    around_.worker_failed(rank, exit.signal != 0 ? -exit.signal : exit.code);
  play(std::move(effects));
}

void NodeWorkers::send(int rank, int signal) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  if (!process.lives) return;
  if (signal == kSigKill) {
    Duration takes = dice_.between(Duration{}, Duration(20ms));
    if (dice_.chance(0.1)) takes = dice_.between(Duration{}, plan_.kill_wait / 2);
    if (process.cannot_be_killed) takes = plan_.kill_wait * 3;
    return later(takes, [this, rank] { end(rank, {.code = 0, .signal = kSigKill}); });
  }
  if (process.is_doomed || process.hangs || process.cannot_be_killed) return;
  if (process.heeds == Heeds::Nothing) return;
  process.is_doomed = true;
  Duration takes = dice_.between(Duration{}, Duration(50ms));
  if (process.heeds == Heeds::Slowly)
    takes = dice_.between(Duration{}, plan_.session.grace + plan_.session.grace / 5);
  // Some save their work, and end with 0.
  const Exit exit = dice_.chance(0.3) ? Exit{} : Exit{.code = 0, .signal = signal};
  later(takes, [this, rank, exit] { end(rank, exit); });
}

void NodeWorkers::stop(int signal, Duration grace) {
  play(machine_.stop(signal, grace, around_.own_now()));
}

void NodeWorkers::kill() {
  killed_early_ = true;
  play(machine_.kill(around_.own_now()));
}

void NodeWorkers::must_be_late_enough(int signal) {
  const Instant now = around_.own_now();
  if (signal == kSigKill) {
    const auto& workers = machine_.workers();
    const bool is_judged = std::any_of(workers.begin(), workers.end(),
                                       [](const WorkerOutcome& one) { return one.condemned; });
    if (!killed_early_ && !is_judged && (!grace_ends_ || now + kSlack < *grace_ends_))
      around_.violated("the workers of round " + std::to_string(place_.round) +
                       " are killed before their grace is over");
    return;
  }
  if (grace_ends_) return;
  grace_ends_ = now + plan_.session.grace;
  stops_by_ = *grace_ends_ + plan_.kill_wait + 1s;
  // Twice: if the agent stood still meanwhile, the kill comes late, and its wait begins then.
  later(*stops_by_ - now, [this] {
    later(plan_.kill_wait + 1s, [this] {
      around_.violated("the workers of round " + std::to_string(place_.round) +
                       " are still being stopped after grace and kill wait");
    });
  });
}

void NodeWorkers::play(Effects effects) {
  const auto still = std::weak_ptr<int>(alive_);
  for (std::size_t i = 0; i < effects.size(); ++i) {
    const Effect effect = effects[i];
    std::visit(Cases{[this](const SignalAll& order) {
                       must_be_late_enough(order.number);
                       machine_.on_signalled(order.number);
                       for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank)
                         send(rank, order.number);
                     },
                     [this](const KillAll&) {
                       if (living() > 0) must_be_late_enough(kSigKill);
                       machine_.on_signalled(kSigKill);
                       for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank)
                         send(rank, kSigKill);
                     },
                     [this](const KillWorker& order) { send(order.worker, kSigKill); },
                     [this, &effects](const CountAlive&) {
                       const Effects more =
                           machine_.on_count(static_cast<int>(living()), around_.own_now());
                       effects.insert(effects.end(), more.begin(), more.end());
                     },
                     [this](const GroupOver&) {
                       around_.group_over(has_survivors()            ? GroupEnd::Survived
                                          : machine_.succeeded()     ? GroupEnd::Succeeded
                                          : machine_.first_failure() ? GroupEnd::Failed
                                                                     : GroupEnd::Stopped);
                     }},
               effect);
    if (still.expired()) return;
  }
  arm();
}

void NodeWorkers::arm() {
  const auto next = machine_.next_deadline();
  if (!next || armed_ == next) return;
  armed_ = next;
  later(std::max(*next - around_.own_now(), Duration{}), [this, next] {
    if (armed_ != next) return;
    armed_.reset();
    play(machine_.on_deadline(around_.own_now()));
  });
}

std::int64_t NodeWorkers::living() const {
  return std::count_if(processes_.begin(), processes_.end(),
                       [](const Process& one) { return one.lives; });
}

bool NodeWorkers::has_hanging() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& one) { return one.hangs; });
}

bool NodeWorkers::has_survivors() const {
  return std::any_of(machine_.workers().begin(), machine_.workers().end(),
                     [](const WorkerOutcome& one) { return one.end == End::Survived; });
}

// --- hangs: as runtime/workers/worker_group_judge.cc --------------------------------------------

void NodeWorkers::look_for_a_hang() {
  const auto& workers = machine_.workers();
  if (!is_running() || std::any_of(workers.begin(), workers.end(),
                                   [](const WorkerOutcome& one) { return one.condemned; }))
    return;
  const bool stuck = around_.is_stuck(place_.round);
  if (!stuck) written_ += 1'000'000;
  std::vector<std::optional<core::hang::Sample>> samples;
  samples.reserve(processes_.size());
  for (const Process& one : processes_)
    samples.push_back(one.lives ? std::optional(core::hang::Sample{.written = written_})
                                : std::nullopt);
  const Instant now = around_.own_now();
  hang_->on_look(samples, now);
  later(hang_->next_look() - now, [this] { look_for_a_hang(); });
  stall_ = hang_->stalled();
  const bool has_others = around_.has_others(place_.round);
  if (!has_others)
    all_say_hang_ = stall_ && core::hang::is_hang(core::hang::votes_of(*stall_));
  else if (!stall_)
    all_say_hang_ = false;
  if (has_others) {
    std::optional<core::hang::Votes> votes;
    if (stall_) votes = core::hang::votes_of(*stall_);
    around_.say_stalled(votes);
  }
  follow_hang();
}

void NodeWorkers::hear_hang(bool all_say_so) {
  all_say_hang_ = all_say_so;
  if (is_running()) follow_hang();
}

void NodeWorkers::follow_hang() {
  if (!stall_ || !all_say_hang_) {
    hung_ = false;
    blame_ourselves_at_.reset();
    return;
  }
  if (hung_) {
    if (blame_ourselves_at_ && around_.own_now() >= *blame_ourselves_at_)
      hear_blame(core::hang::blame(where()));
    return;
  }
  hung_ = true;
  if (!around_.has_others(place_.round)) return hear_blame(core::hang::blame(where()));
  blame_ourselves_at_ = around_.own_now() + kOtherNodesTurn;
  around_.say_where(where());
}

std::vector<core::hang::RankAt> NodeWorkers::where() const {
  std::vector<core::hang::RankAt> all;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    const Process& one = processes_[rank];
    if (!one.lives) continue;
    all.push_back(
        {.rank = static_cast<int>(place_.first_rank) + static_cast<int>(rank),
         .at = {.words = one.hangs ? "in read()" : "in all_reduce", .collective = !one.hangs}});
  }
  return all;
}

void NodeWorkers::hear_blame(const core::hang::Blame& blame) {
  if (!hung_ || !is_running()) return;
  const std::int64_t rank = blame.rank.value_or(-1) - place_.first_rank;
  if (rank >= 0 && rank < place_.workers) return condemn(static_cast<int>(rank));
  if (blame.rank && blame_ourselves_at_ && around_.own_now() < *blame_ourselves_at_) return;
  const auto& ours = stall_->suspects.empty() ? stall_->spinning : stall_->suspects;
  if (!ours.empty()) condemn(ours.front());
}

void NodeWorkers::condemn(int rank) {
  if (!machine_.condemn(rank, kSigKill, around_.own_now())) return;
  const Process& one = processes_[static_cast<std::size_t>(rank)];
  around_.tell("ends its worker " + std::to_string(rank) + ", which hangs");
  // Once the others' turn is over a node goes by what it sees alone.
  const bool is_by_all = !blame_ourselves_at_ || around_.own_now() < *blame_ourselves_at_;
  if (is_by_all && !one.hangs && around_.is_stuck(place_.round))
    around_.violated("worker " + std::to_string(rank) + " is blamed for a hang of another");
  send(rank, kSigKill);
  arm();
}

}  // namespace regroup::sim
