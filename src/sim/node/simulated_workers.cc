#include "sim/node/simulated_workers.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/supervision/supervision.h"

namespace regroup::sim {

using core::supervision::kSigKill;

namespace {

constexpr int kSigSegv = 11;
constexpr int kSigCont = 18;

}  // namespace

SimulatedWorkers::SimulatedWorkers(const NodesPlan& plan, Place place, std::uint64_t seed,
                                   WorkersSurroundings& around)
    : plan_(plan),
      place_(place),
      around_(around),
      dice_(seed),
      processes_(static_cast<std::size_t>(place.workers)) {}

void SimulatedWorkers::later(Duration own, std::function<void()> act) {
  around_.after(own, [act = std::move(act), still = std::weak_ptr<int>(alive_)] {
    if (!still.expired()) act();
  });
}

Result<void> SimulatedWorkers::start(const GroupToStart& group, Ended ended) {
  ended_ = std::move(ended);
  for (const WorkerName& name : group.attempt.workers) plan_life(name.local_rank);
  return {};
}

void SimulatedWorkers::plan_life(int rank) {
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
      if (!around_.is_stormy() || !one.lives || one.is_ending || is_stopped_) return;
      if (hangs) {
        one.hangs = true;
        return around_.tell(fmt::format("its worker {} hangs", rank));
      }
      const std::int64_t how = dice_.between(0, 5);
      if (how == 2)
        return end(rank,
                   {.signal = core::supervision::kSigTerm});  // By hand: nobody else is signalled.
      end(rank, how == 0 ? WorkerExit{.signal = kSigSegv} : WorkerExit{.code = how == 1 ? 3 : 1});
    });
  if (!work.is_long || around_.may_be_done()) plan_success(rank, work.longest);
}

void SimulatedWorkers::plan_success(int rank, Duration within) {
  later(dice_.between(Duration{}, within), [this, rank] {
    Process& one = processes_[static_cast<std::size_t>(rank)];
    if (!one.lives || one.is_ending || one.hangs) return;
    // It waits for the one that hangs.
    if (around_.is_stuck(place_.round)) return plan_success(rank, 2s);
    end(rank, {});
  });
}

void SimulatedWorkers::be_done() {
  for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank)
    plan_success(rank, plan_.work.longest);
}

bool SimulatedWorkers::end_one(WorkerExit exit) {
  if (is_stopped_) return false;
  for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank)
    if (const Process& one = processes_[static_cast<std::size_t>(rank)];
        one.lives && !one.is_ending && !one.hangs) {
      end(rank, exit);
      return true;
    }
  return false;
}

void SimulatedWorkers::end(int rank, WorkerExit exit) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  if (!process.lives) return;
  process.lives = false;
  process.hangs = false;
  ended_(rank, exit);
}

// ---- Signals ----

void SimulatedWorkers::signal_all(int number) {
  is_stopped_ = true;
  for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank) signal(rank, number);
}

void SimulatedWorkers::kill_all() { signal_all(kSigKill); }

void SimulatedWorkers::signal(int local_rank, int number) {
  Process& process = processes_[static_cast<std::size_t>(local_rank)];
  if (!process.lives || number == kSigCont) return;
  if (number == kSigKill) {
    Duration takes = dice_.between(Duration{}, Duration(20ms));
    if (dice_.chance(0.1)) takes = dice_.between(Duration{}, plan_.kill_wait / 2);
    if (process.cannot_be_killed) takes = plan_.kill_wait * 3;
    return later(takes, [this, local_rank] { end(local_rank, {.signal = kSigKill}); });
  }
  if (process.is_ending || process.hangs || process.cannot_be_killed) return;
  if (process.heeds == Heeds::Nothing) return;
  process.is_ending = true;
  Duration takes = dice_.between(Duration{}, Duration(50ms));
  if (process.heeds == Heeds::Slowly)
    takes = dice_.between(Duration{}, plan_.session.grace + plan_.session.grace / 5);
  // Some save their work, and end with 0.
  const WorkerExit exit = dice_.chance(0.3) ? WorkerExit{} : WorkerExit{.signal = number};
  later(takes, [this, local_rank, exit] { end(local_rank, exit); });
}

// ---- What can be seen of them ----

std::int64_t SimulatedWorkers::living() const {
  return std::count_if(processes_.begin(), processes_.end(),
                       [](const Process& one) { return one.lives; });
}

bool SimulatedWorkers::has_hanging() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const Process& one) { return one.hangs; });
}

bool SimulatedWorkers::hangs(int local_rank) const {
  return processes_[static_cast<std::size_t>(local_rank)].hangs;
}

std::vector<std::optional<core::hang::Sample>> SimulatedWorkers::look() {
  if (!around_.is_stuck(place_.round)) written_ += 1'000'000;
  std::vector<std::optional<core::hang::Sample>> samples;
  samples.reserve(processes_.size());
  for (const Process& one : processes_)
    samples.push_back(one.lives ? std::optional(core::hang::Sample{.written = written_})
                                : std::nullopt);
  return samples;
}

std::vector<core::hang::RankAt> SimulatedWorkers::where() const {
  std::vector<core::hang::RankAt> all;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    const Process& one = processes_[rank];
    if (!one.lives) continue;
    all.push_back(
        {.rank = static_cast<int>(place_.first_rank) + static_cast<int>(rank),
         .at = {.words = one.hangs ? "in read()" : "in all_reduce",
                .collective = !one.hangs,
                .alone = one.hangs ? core::hang::Alone::Certain : core::hang::Alone::Unknown}});
  }
  return all;
}

}  // namespace regroup::sim
