// How a node is doing, for the health port.
#include "runtime/agent/agent_host.h"

namespace regroup::runtime {

using namespace core::agent;
using core::supervision::End;

namespace {

std::string_view state_word(End end) {
  switch (end) {
    case End::None:
      return "running";
    case End::Succeeded:
      return "succeeded";
    case End::Failed:
      return "failed";
    case End::Stopped:
      return "stopped";
    case End::Survived:
      return "survived";
  }
  return "running";
}

bool in_a_round(Doing doing) {
  return doing == Doing::Starting || doing == Doing::Running || doing == Doing::Stopping ||
         doing == Doing::CheckingIn;
}

}  // namespace

HealthSnapshot AgentHost::health() const {
  // The machine hears of a failure when the group is over; until then its others are being stopped.
  const bool stopping = group_ && group_->stopping();
  const Doing doing =
      machine_.doing() == Doing::Running && stopping ? Doing::Stopping : machine_.doing();
  HealthSnapshot now{
      .run_id = options_.rendezvous.run_id,
      .role = options_.spec.role,
      .state = to_string(machine_.state()),
      .doing = to_string(doing),
      .ready = doing == Doing::Running && machine_.state() == State::Healthy,
      .round = {},
      .rounds = rounds_joined_,
      .waiting_for = {},
      .workers = {},
      .restarts = machine_.restart_count(),
      .max_restarts = options_.spec.max_restarts,
      .last_failure = last_failure_,
      .timers = watchdog_ ? std::optional<std::int64_t>(watchdog_->timers()) : std::nullopt,
      .begun = begun_,
      .begun_micros = begun_micros_};
  if (round_ && in_a_round(doing))
    now.round = {round_->info.round, round_->info.rank, round_->info.world_size};
  if (doing == Doing::Joining) now.waiting_for = waiting_.empty() ? "for the rendezvous" : waiting_;
  if (doing == Doing::Stopping && group_) now.waiting_for = group_->waiting_for();
  if (doing == Doing::CheckingIn) now.waiting_for = "for the other nodes to be done";
  if (group_)
    for (const auto& [name, pid, end] : group_->standing())
      now.workers.push_back({name.local_rank, name.global_rank, pid, state_word(end)});
  return now;
}

}  // namespace regroup::runtime
