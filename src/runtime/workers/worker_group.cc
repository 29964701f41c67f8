#include "runtime/workers/worker_group.h"

#include <signal.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>
#include <variant>

#include "base/cases.h"
#include "base/check.h"
#include "io/loop/clock.h"
#include "io/net/interfaces.h"
#include "runtime/common/limits.h"
#include "runtime/evidence/process_failure.h"

namespace regroup::runtime {

using namespace core::workers;
using core::supervision::AwayRule;
using core::supervision::End;
using core::supervision::Left;
using core::supervision::WorkerOutcome;

namespace {

AwayRule away_rule(Children children) {
  switch (children) {
    case Children::Wait:
      return AwayRule::Wait;
    case Children::End:
      return AwayRule::End;
    case Children::Leave:
      return AwayRule::Leave;
  }
  return AwayRule::Wait;
}

Settings settings_of(const WorkersSpec& spec, bool has_inspector, bool asks_others) {
  Settings settings{.ranks = {},
                    .stop_signal = spec.stop_signal,
                    .grace = spec.grace,
                    .kill_wait = spec.kill_wait,
                    .away = away_rule(spec.children),
                    .away_wait = spec.children_wait,
                    .stacks_limit = kStacksLimit,
                    .timer_stacks_limit = kTimerStacksLimit,
                    .timer_patience = kTimerEndPatience,
                    .asks_others = asks_others,
                    .others_turn = kOtherNodesTurn,
                    .look_pause = kDumpPatience};
  for (const WorkerName& name : spec.attempt.workers) settings.ranks.push_back(name.global_rank);
  if (!has_inspector) return settings;
  settings.takes_stacks = spec.take_stacks != TakeStacks::Never;
  settings.takes_stacks_for_failures = spec.take_stacks == TakeStacks::Always;
  settings.hang_timeout = spec.hang_timeout;
  settings.hang_grace = spec.hang_grace.value_or(2 * spec.hang_timeout);
  return settings;
}

}  // namespace

WorkerGroup::WorkerGroup(io::Loop& loop, Backend backend, WorkersSpec spec, GroupEvents events)
    : loop_(loop),
      backend_(backend),
      spec_(std::move(spec)),
      events_(std::move(events)),
      machine_(settings_of(spec_, backend.inspector != nullptr, events_.stalled != nullptr)),
      deadline_(loop),
      progress_(loop),
      ended_micros_(spec_.commands.size()),
      host_name_(io::host_name()),
      alive_token_(std::make_shared<WorkerGroup*>(this)) {
  CHECK(spec_.attempt.workers.size() == spec_.commands.size());
}

WorkerGroup::~WorkerGroup() {
  *alive_token_ = nullptr;
  if (!started_ || over()) return;
  if (backend_.inspector != nullptr) backend_.inspector->give_up_stacks();
  backend_.workers.kill_all();
}

Result<void> WorkerGroup::start() {
  // On our own thread an end is heard at once: what is told first came first.
  const auto ended = [loop = &loop_, token = alive_token_, here = std::this_thread::get_id()](
                         int rank, WorkerExit exit) {
    if (std::this_thread::get_id() == here && *token != nullptr && (*token)->started_)
      return (*token)->ended(rank, exit);
    loop->post([token, rank, exit] {
      if (*token != nullptr) (*token)->ended(rank, exit);
    });
  };
  if (auto started = backend_.workers.start({spec_.attempt, spec_.commands}, ended); !started)
    return started;
  started_ = true;
  machine_.on_started(io::now());
  arm();
  return {};
}

void WorkerGroup::ended(int rank, WorkerExit exit) {
  const bool is_ours = rank >= 0 && rank < static_cast<int>(spec_.commands.size());
  if (!is_ours || machine_.outcome(rank).end != End::None) return;
  ended_micros_[static_cast<std::size_t>(rank)] = io::utc_micros();
  Effects effects = machine_.on_exit(rank, {.code = exit.code, .signal = exit.signal}, io::now());
  const WorkerOutcome& outcome = machine_.outcome(rank);
  if (outcome.end != End::Succeeded)
    backend_.workers.note_failure(rank, outcome.end == End::Stopped || outcome.condemned);
  play(std::move(effects));
}

// What comes while effects are played comes behind them.
void WorkerGroup::play(Effects effects) {
  to_play_.insert(to_play_.end(), std::make_move_iterator(effects.begin()),
                  std::make_move_iterator(effects.end()));
  if (std::exchange(playing_, true)) return;
  for (std::size_t i = 0; i < to_play_.size(); ++i) {
    const Effect effect = to_play_[i];
    act_on(effect);
  }
  to_play_.clear();
  playing_ = false;
  arm();
}

void WorkerGroup::act_on(const Effect& effect) {
  std::visit(
      Cases{[this](const SignalAll& order) {
              // A worker that has ended before our signal ended by itself, though we have not been
              // told yet.
              backend_.workers.tell_ends();
              machine_.on_signalled(order.number);
              backend_.workers.signal_all(order.number);
              expect_progress();
            },
            [this](const KillAll&) {
              backend_.workers.tell_ends();
              machine_.on_signalled(SIGKILL);
              backend_.workers.kill_all();
            },
            [this](const SignalWorker& order) {
              backend_.workers.signal(order.worker, order.number);
              // A suspended process cannot react to a signal.
              backend_.workers.signal(order.worker, SIGCONT);
            },
            [this](const CountAlive&) {
              play(machine_.on_count(backend_.workers.count_alive(), io::now()));
            },
            [this](const LookAtLeft&) {
              std::vector<Left> left;
              for (LeftBehind& one : backend_.workers.left_behind())
                left.push_back({one.pid, std::move(one.name), one.is_away});
              play(machine_.on_left(left, io::now()));
            },
            [this](const SignalStayed& order) { backend_.workers.signal_stayed(order.number); },
            [this](const Succeeded&) { succeeded(); },
            [this](const LetGo&) { backend_.workers.let_go(); },
            [this](const FirstFailure& first) {
              if (events_.failed) events_.failed(describe(first.worker));
            },
            [this](const CollectStacks& order) {
              backend_.inspector->take_stacks(
                  {order.why, order.limit}, [this](const Stacks& stacks) { stacks_taken(stacks); });
            },
            [this](const GiveUpStacks&) { backend_.inspector->give_up_stacks(); },
            [this](const ForgetStacks&) { backend_.inspector->forget_stacks(); },
            [this](const Look&) { play(machine_.on_look(backend_.inspector->look(), io::now())); },
            [this](const SayStalled& said) { events_.stalled(said.votes); },
            [this](const SayWhere& said) { events_.where(said.ours); },
            [this](const Explain& said) {
              backend_.inspector->explain_stacks(said.summary);
              tell(said.summary);
            },
            [this](const Tell& told) { tell(told.text); },
            [this](const Over&) {
              progress_.cancel();
              backend_.workers.finish([loop = &loop_, token = alive_token_] {
                loop->post([token] {
                  if (*token != nullptr) (*token)->report();
                });
              });
            }},
      effect);
}

void WorkerGroup::stacks_taken(const Stacks& stacks) {
  if (!stacks.summary.empty())
    tell(stacks.summary + (stacks.file.empty() ? "" : "; stacks: " + stacks.file));
  backend_.workers.tell_ends();
  play(machine_.on_stacks(stacks.ranks(), io::now()));
}

void WorkerGroup::succeeded() {
  if (!events_.succeeded) return let_go();
  WorkersResult result;
  result.succeeded = true;
  result.exit_codes.resize(spec_.commands.size());
  events_.succeeded(std::move(result));
}

void WorkerGroup::let_go() { play(machine_.let_go(io::now())); }

void WorkerGroup::tell(const std::string& text) const {
  if (events_.waiting) events_.waiting(text);
}

void WorkerGroup::arm() {
  if (const auto next = machine_.next_deadline()) {
    deadline_.set(*next, [this] { play(machine_.on_time(io::now())); });
  } else {
    deadline_.cancel();
  }
}

void WorkerGroup::stop(int signal, Duration grace, StopFor reason) {
  backend_.workers.tell_ends();
  play(machine_.stop(signal, grace, reason, io::now()));
}

void WorkerGroup::kill() {
  backend_.workers.tell_ends();
  play(machine_.kill(io::now()));
}

void WorkerGroup::forward(int signal) {
  if (!started_) return;
  for (int rank = 0; rank < static_cast<int>(spec_.commands.size()); ++rank)
    backend_.workers.signal(rank, signal);
}

bool WorkerGroup::end_for(int local_rank, int signal, const std::string& why) {
  if (!started_) return false;
  backend_.workers.tell_ends();
  if (!machine_.runs(local_rank)) return false;
  play(machine_.end_for(local_rank, signal, why, io::now()));
  return true;
}

void WorkerGroup::on_child() {
  if (!started_ || over() || machine_.supervision().running() > 0) return;
  play(machine_.on_count(backend_.workers.count_alive(), io::now()));
}

void WorkerGroup::hear_hang(bool all_say_so) { play(machine_.hear_hang(all_say_so, io::now())); }

void WorkerGroup::hear_blame(const core::hang::Blame& blame) {
  backend_.workers.tell_ends();
  play(machine_.hear_blame(blame, io::now()));
}

void WorkerGroup::expect_progress() {
  progress_.set(io::now() + kStopProgress, [this] {
    if (over()) return;
    tell(waiting_for());
    expect_progress();
  });
}

void WorkerGroup::report() {
  WorkersResult result;
  const auto& outcomes = machine_.supervision().workers();
  std::vector<std::size_t> order;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const WorkerOutcome& outcome = outcomes[rank];
    result.exit_codes.push_back(outcome.end == End::Survived ? -SIGKILL
                                                             : python_exit_code(outcome.exit));
    // A condemned worker may have ended with 0.
    if (outcome.end == End::Survived || outcome.end == End::Failed || !outcome.exit.clean())
      order.push_back(rank);
  }
  const auto when = [&](std::size_t rank) {
    const int place = outcomes[rank].order;
    return place < 0 ? static_cast<int>(outcomes.size()) : place;
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return when(a) < when(b); });
  for (const std::size_t rank : order) {
    result.failures.push_back(describe(static_cast<int>(rank)));
    if (machine_.supervision().first_failure() == static_cast<int>(rank))
      result.cause = result.failures.back();
  }
  backend_.workers.complete(result);
  result.succeeded = machine_.supervision().succeeded() && result.survivors.empty();
  if (events_.over) events_.over(std::move(result));
}

ProcessFailure WorkerGroup::describe(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  auto failure = failure_of({.name = spec_.attempt.workers[index],
                             .host = host_name_,
                             .pid = backend_.workers.pid(rank),
                             .outcome = machine_.outcome(rank),
                             .time_micros = ended_micros_[index]});
  backend_.workers.explain(failure);
  if (const std::string& why = machine_.ended_for(rank); !why.empty()) ended_for(failure, why);
  return failure;
}

std::map<int, pid_t> WorkerGroup::pids() const {
  std::map<int, pid_t> pids;
  if (!started_) return pids;
  for (const WorkerName& name : spec_.attempt.workers)
    pids[name.local_rank] = backend_.workers.pid(name.local_rank);
  return pids;
}

std::vector<WorkerGroup::Standing> WorkerGroup::standing() const {
  std::vector<Standing> all;
  if (!started_) return all;
  all.reserve(spec_.attempt.workers.size());
  for (const WorkerName& name : spec_.attempt.workers)
    all.push_back(
        {name, backend_.workers.pid(name.local_rank), machine_.outcome(name.local_rank).end});
  return all;
}

std::string WorkerGroup::waiting_for() const {
  return machine_.supervision().waiting_for(io::now());
}

}  // namespace regroup::runtime
