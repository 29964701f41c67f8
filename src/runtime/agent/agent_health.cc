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
  HealthSnapshot now = health_;
  now.state = to_string(machine_.state());
  now.doing = to_string(doing);
  now.ready = doing == Doing::Running && machine_.state() == State::Healthy;
  now.restarts = machine_.restart_count();
  if (watchdog_) now.timers = watchdog_->timers();
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
