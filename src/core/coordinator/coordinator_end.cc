// The end of a run: it succeeds, fails, or is closed.
#include <algorithm>
#include <utility>

#include "core/coordinator/coordinator.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

void Coordinator::end_run(Stop stop, Now now, Effects& effects) {
  if (!state_.redundancy_list.empty()) tell_progress(now, effects);
  const std::string before = phase(state_);
  ran_when_closed_ = is_running();
  stop.round = last_round_.number().value_or(0);
  stop.restart_count = budget_.restarts();
  end_ = stop;
  last_round_.stop(std::move(stop));
  mark_closed(now);
  for (const auto& [id, node] : nodes_) send(node, *end_, effects);
  add(effects, LeftPhase{before});
}

void Coordinator::mark_closed(Now now) {
  state_ = apply(std::move(state_), Action::MarkClosed, {.node = {}, .claim = {}, .utc = now.utc},
                 settings_);
  restoring_.leave_the_past();
  progress_.stop();
}

// A node has closed the run while others still ran. Their workers may end well, and are left alone
// until something goes wrong: then there is no next round.
void Coordinator::fail_after_close(Stop stop, Effects& effects) {
  if (!workers_run_on()) return;
  stop.round = last_round_.number().value_or(0);
  stop.restart_count = budget_.restarts();
  last_verdict_ = stop.text;
  end_ = stop;
  last_round_.stop(std::move(stop));
  for (const auto& [id, node] : nodes_)
    if (node.doing == Doing::Running) send(node, *end_, effects);
}

void Coordinator::succeed_if_all_are_done(Now now, Effects& effects) {
  if (!is_running() || restoring_.is_holding()) return;
  if (static_cast<std::int64_t>(state_.participants.size()) != last_round_.world_size()) return;
  // The node that was not done at the last check is checked first. If each node that is done had
  // all the others checked from the beginning, ten thousand nodes would keep us busy for half a
  // minute.
  const auto is_open = [this](const auto& entry) {
    const auto found = nodes_.find(entry.first);
    return found == nodes_.end() || found->second.doing != Doing::Done;
  };
  const auto from = state_.participants.lower_bound(not_done_);
  auto open = std::find_if(from, state_.participants.end(), is_open);
  bool all = open == state_.participants.end();
  if (all) {
    open = std::find_if(state_.participants.begin(), from, is_open);
    all = open == from;
  }
  if (!all) {
    not_done_ = open->first;
    return;
  }
  // Spares must be told that they are spares.
  if (!state_.redundancy_list.empty() || !state_.wait_list.empty()) tell_progress(now, effects);
  const std::string before = phase(state_);
  succeeded_ = true;
  mark_closed(now);
  for (const auto& [id, node] : nodes_) send(node, Over{}, effects);
  add(effects, LeftPhase{before});
}

}  // namespace regroup::core::coordinator
