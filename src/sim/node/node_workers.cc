#include "sim/node/node_workers.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/cases.h"
#include "base/check.h"
#include "sim/world/trace.h"

namespace regroup::sim {

using namespace core::workers;
using core::agent::GroupEnd;
using core::supervision::End;
using core::supervision::kSigKill;
using core::supervision::kSigTerm;
using core::supervision::WorkerOutcome;

namespace {

constexpr Duration kSlack = 50ms;

core::workers::Settings settings_of(const NodesPlan& plan, const NodeWorkers::Place& place,
                                    bool has_others) {
  core::workers::Settings settings{.ranks = {},
                                   .stop_signal = kSigTerm,
                                   .grace = plan.session.grace,
                                   .kill_wait = plan.kill_wait,
                                   .takes_stacks = true,
                                   .hang_timeout = plan.hang_timeout,
                                   .hang_grace = plan.hang_timeout,
                                   .asks_others = has_others,
                                   .others_turn = kOtherNodesTurn};
  for (std::int64_t rank = 0; rank < place.workers; ++rank)
    settings.ranks.push_back(static_cast<int>(place.first_rank + rank));
  return settings;
}

}  // namespace

NodeWorkers::NodeWorkers(const NodesPlan& plan, Place place, std::uint64_t seed,
                         GroupSurroundings& around)
    : plan_(plan),
      place_(place),
      around_(around),
      workers_(plan, place, seed, around),
      backend_(workers_),
      machine_(settings_of(plan, place, around.has_others(place.round))) {}

void NodeWorkers::later(Duration own, std::function<void()> act) {
  around_.after(own, [act = std::move(act), still = std::weak_ptr<int>(alive_)] {
    if (!still.expired()) act();
  });
}

void NodeWorkers::start() {
  GroupToStart group{.attempt = {.run_id = "sim", .restart_count = 0, .workers = {}},
                     .commands = {}};
  for (int rank = 0; rank < static_cast<int>(place_.workers); ++rank) {
    group.attempt.workers.push_back({rank, static_cast<int>(place_.first_rank) + rank, "default"});
    group.commands.push_back({.argv = {"simulated"}, .environment = {}});
  }
  machine_.on_started(around_.own_now());
  arm();
  const auto started =
      backend_.start(group, [this](int rank, WorkerExit exit) { ended(rank, exit); });
  CHECK(started);
}

void NodeWorkers::ended(int rank, WorkerExit exit) {
  play(machine_.on_exit(rank, {.code = exit.code, .signal = exit.signal}, around_.own_now()));
}

void NodeWorkers::stop(int signal, Duration grace) {
  play(machine_.stop(signal, grace, StopFor::Failure, around_.own_now()));
}

void NodeWorkers::kill() {
  killed_early_ = true;
  play(machine_.kill(around_.own_now()));
}

void NodeWorkers::hear_hang(bool all_say_so) {
  play(machine_.hear_hang(all_say_so, around_.own_now()));
}

void NodeWorkers::hear_blame(const core::hang::Blame& blame) {
  play(machine_.hear_blame(blame, around_.own_now()));
}

void NodeWorkers::play(const Effects& effects) {
  const auto still = std::weak_ptr<int>(alive_);
  for (const Effect& effect : effects) {
    act_on(effect);
    if (still.expired()) return;
  }
  arm();
}

void NodeWorkers::act_on(const Effect& effect) {
  std::visit(
      Cases{[this](const SignalAll& order) {
              must_be_late_enough(order.number);
              machine_.on_signalled(order.number);
              backend_.signal_all(order.number);
            },
            [this](const KillAll&) {
              if (living() > 0) must_be_late_enough(kSigKill);
              machine_.on_signalled(kSigKill);
              backend_.kill_all();
            },
            [this](const SignalWorker& order) {
              must_hang(order.worker);
              backend_.signal(order.worker, order.number);
            },
            [this](const CountAlive&) {
              play(machine_.on_count(backend_.count_alive(), around_.own_now()));
            },
            [this](const LookAtLeft&) { play(machine_.on_left({}, around_.own_now())); },
            // Simulated workers leave nothing behind.
            [](const SignalStayed&) {}, [](const Succeeded&) {}, [](const LetGo&) {},
            [this](const FirstFailure& first) {
              const auto& exit = machine_.outcome(first.worker).exit;
              around_.worker_failed(first.worker, exit.signal != 0 ? -exit.signal : exit.code);
            },
            [this](const CollectStacks&) {
              play(machine_.on_stacks(workers_.where(), around_.own_now()));
            },
            [](const GiveUpStacks&) {}, [](const ForgetStacks&) {},
            [this](const Look&) { play(machine_.on_look(workers_.look(), around_.own_now())); },
            [this](const SayStalled& said) { around_.say_stalled(said.votes); },
            [this](const SayWhere& said) { around_.say_where(said.ours); }, [](const Explain&) {},
            [](const Tell&) {}, [this](const Over&) { around_.group_over(how_it_ended()); }},
      effect);
}

void NodeWorkers::arm() {
  const auto next = machine_.next_deadline();
  if (!next || armed_ == next) return;
  armed_ = next;
  later(std::max(*next - around_.own_now(), Duration{}), [this, next] {
    if (armed_ != next) return;
    armed_.reset();
    play(machine_.on_time(around_.own_now()));
  });
}

GroupEnd NodeWorkers::how_it_ended() const {
  const auto& supervision = machine_.supervision();
  const auto& workers = supervision.workers();
  if (std::any_of(workers.begin(), workers.end(),
                  [](const WorkerOutcome& one) { return one.end == End::Survived; }))
    return GroupEnd::Survived;
  if (supervision.succeeded()) return GroupEnd::Succeeded;
  return supervision.first_failure() ? GroupEnd::Failed : GroupEnd::Stopped;
}

// ---- What must be true ----

void NodeWorkers::must_be_late_enough(int signal) {
  const Instant now = around_.own_now();
  if (signal == kSigKill) {
    const auto& workers = machine_.supervision().workers();
    const bool is_judged = std::any_of(workers.begin(), workers.end(),
                                       [](const WorkerOutcome& one) { return one.condemned; });
    if (!killed_early_ && !is_judged && (!grace_ends_ || now + kSlack < *grace_ends_))
      around_.violated(fmt::format("the workers of round {} are killed before their grace is over",
                                   place_.round));
    return;
  }
  if (grace_ends_) return;
  grace_ends_ = now + plan_.session.grace;
  stops_by_ = *grace_ends_ + plan_.kill_wait + 1s;
  // Twice: if the agent stood still meanwhile, the kill comes late, and its wait begins then.
  later(*stops_by_ - now, [this] {
    later(plan_.kill_wait + 1s, [this] {
      around_.violated(
          fmt::format("the workers of round {} are still being stopped after grace and kill wait",
                      place_.round));
    });
  });
}

// A worker is ended by itself only for a hang.
void NodeWorkers::must_hang(int rank) {
  around_.tell(fmt::format("ends its worker {}, which hangs", rank));
  // Once the others' turn is over a node goes by what it sees alone.
  const bool is_by_all =
      !machine_.others_had_their_turn(around_.own_now()) && !machine_.named_nobody();
  if (is_by_all && !workers_.hangs(rank) && around_.is_stuck(place_.round))
    around_.violated(fmt::format("worker {} is blamed for a hang of another", rank));
}

}  // namespace regroup::sim
