#include "core/coordinator/coordinator.h"

#include <algorithm>
#include <utility>

namespace regroup::core::coordinator {

using namespace rendezvous;

namespace {

// Nodes without a session look about once a second, and so do we at them.
constexpr Duration kSweep = 1s;

Settings settings_of(std::string run_id, const Rules& rules) {
  return {.run_id = std::move(run_id),
          .min_nodes = rules.min_nodes,
          .max_nodes = rules.max_nodes,
          .segment = rules.segment,
          .join_timeout = kLongest,  // Each agent has its own, and leaves when it is over.
          .last_call_timeout = rules.last_call};
}

}  // namespace

Coordinator::Coordinator(std::string run_id, const Rules& rules, std::optional<State> present,
                         Now now)
    : settings_(settings_of(std::move(run_id), rules)),
      rules_(rules),
      liveness_(settings_.keep_alive_interval),
      young_until_(now.instant + rules.heartbeat_limit),
      told_(now.instant),
      refreshed_(now.instant) {
  if (!present) return;
  state_ = std::move(*present);
  sweep_at_ = now.instant + kSweep;
  if (state_.complete) {  // Not ours to announce.
    announced_ = state_.round;
    world_size_ = static_cast<std::int64_t>(state_.participants.size());
    for (const auto& [id, rank] : state_.participants) awaited_.insert(id);
    members_ = awaited_;
    has_sealed_ = true;
  }
  if (state_.closed)
    end_ = Stop{.round = state_.round, .why = Stop::Why::Closed, .text = "the run is closed"};
}

Coordinator::Node* Coordinator::node_of(SessionId session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &nodes_.at(found->second);
}

void Coordinator::heard_from(SessionId session, Now now) {
  note_time(now);
  if (Node* node = node_of(session)) node->heard = now.instant;
}

// Each node says something three times within the limit. If nothing has come from anybody for so
// long it is we who stood still, and connections that were given up meanwhile are to be forgiven:
// their nodes need more than a moment to find us again.
void Coordinator::note_time(Now now) {
  if (!sessions_.empty() && now.instant - last_turn_ > rules_.heartbeat_limit * 2 / 3)
    lenient_until_ = now.instant + rules_.heartbeat_limit;
  last_turn_ = now.instant;
}

Duration Coordinator::pardon(Now now) const {
  return now.instant < lenient_until_ ? std::max(rules_.pardon, rules_.heartbeat_limit)
                                      : rules_.pardon;
}

void Coordinator::on_hello(SessionId session, Hello hello, Now now, Effects& effects) {
  note_time(now);
  if (const std::string why = why_not_grouped(hello); !why.empty()) {
    add(effects, Send{session, Refused{.why = why, .lasting = true}});
    return add(effects, CloseSession{session, why});
  }
  const auto [found, is_new] = nodes_.try_emplace(hello.node);
  Node& node = found->second;
  learn(node, hello, now, effects);
  if (node.session) {
    // The node knows better than we do that this connection is of no use any more.
    sessions_.erase(*node.session);
    add(effects, CloseSession{*node.session, "the node has come again"});
  }
  if (is_new) {
    node.id = hello.node;
    node.claim = std::move(hello.claim);
    node.role = std::move(hello.role);
    node.workers = hello.workers;
    node.max_restarts = hello.rules.max_restarts;
    if (has_segments()) groups_[node.claim.group].nodes.insert(node.id);
  }
  node.session = session;
  node.heard = now.instant;
  sessions_.emplace(session, node.id);
  look_by(now.instant + rules_.heartbeat_limit);

  const bool member = hello.running && (is_member(node, *hello.running) ||
                                        restore(node, *hello.running, now, effects));
  send(node, Welcome{.member = member, .rules = rules_}, effects);
  if (succeeded_) return send(node, Over{}, effects);
  if (end_) return send(node, *end_, effects);
  if (!hello.running) return;
  const bool stays = state_.complete && state_.round == hello.running->place.round &&
                     state_.participants.contains(node.id);
  if (!stays) node.doing = Doing::Idle;
  if (stays && node.doing != Doing::Done)
    node.doing = hello.running->done ? Doing::Done : Doing::Running;
  if (member) return succeed_if_all_are_done(now, effects);
  const bool was_told = stopped_ == hello.running->place.round;
  Stop stop = was_told ? stop_for(node) : Stop{.why = Stop::Why::Members, .text = dropped_text()};
  stop.round = hello.running->place.round;
  stop.restart_count = restart_count(node);
  send(node, std::move(stop), effects);
}

// In the round that it names, which still runs.
bool Coordinator::is_member(const Node& node, const Running& running) const {
  return is_running() && state_.round == running.place.round &&
         state_.participants.contains(node.id);
}

void Coordinator::on_message(SessionId session, const FromAgent& message, Now now,
                             Effects& effects) {
  note_time(now);
  Node* node = node_of(session);
  if (node == nullptr) return;
  node->heard = now.instant;
  if (const auto* join = std::get_if<Join>(&message)) return on_join(*node, *join, now, effects);
  if (const auto* failed = std::get_if<Failed>(&message))
    return on_failed(*node, *failed, now, effects);
  if (const auto* done = std::get_if<Done>(&message)) return on_done(*node, *done, now, effects);
  if (const auto* leave = std::get_if<Leave>(&message))
    return on_leave(*node, *leave, now, effects);
  if (const auto* warn = std::get_if<Warn>(&message)) return on_warn(*node, *warn, effects);
  if (const auto* ping = std::get_if<Ping>(&message)) send(*node, Pong{ping->number}, effects);
}

void Coordinator::on_join(Node& node, const Join& join, Now now, Effects& effects) {
  if (succeeded_) return send(node, Over{}, effects);
  if (end_) return send(node, *end_, effects);
  if (node.join && node.join->number == join.number) {
    // Said again on a new connection; the answer may have been lost with the old one.
    if (node.doing == Doing::Joining) return follow(phase(state_), now, effects);
    if (node.doing != Doing::Running) return;
    send(node, node.sealed, effects);
    if (!is_running()) send(node, stop_for(node), effects);  // That was lost, too.
    return;
  }
  if (const std::string why = why_struck(node.claim.name); !why.empty()) {
    send(node, Refused{.why = why, .lasting = true}, effects);
    return lose({node.id}, why, now, effects);
  }
  const std::string before = phase(state_);
  node.join = join;
  node.doing = Doing::Joining;
  node.arrived = ++arrivals_;
  awaited_.erase(node.id);
  if (hold_until_) return;
  const bool was_member = state_.participants.contains(node.id);
  settle(node, Operation::Exit, now);
  if (was_member && has_segments()) groups_.at(node.claim.group).has_lost = true;
  if (was_member && announced_ == state_.round)
    stop_round({.why = Stop::Why::Members, .text = node.claim.name + " joins again"}, now, effects);
  const bool is_stopping = state_.complete && !is_running();
  if (has_segments() && !is_stopping)
    joins_group(node);
  else if (phase(state_) == before)
    settle(node, Operation::Join, now);
  follow(before, now, effects);
}

void Coordinator::on_failed(Node& node, const Failed& failed, Now now, Effects& effects) {
  if (runs_on() && failed.round == announced_ && node.doing == Doing::Running)
    return fail_after_close({.why = Stop::Why::RunFailed,
                             .text = failed.failure.text,
                             .verdict = failed.failure,
                             .culprit = node.id},
                            effects);
  // Whatever fails after a round was stopped is the stop's doing.
  if (!is_running() || failed.round != state_.round || node.doing != Doing::Running) return;
  if (!state_.participants.contains(node.id)) return;
  if (!hold_until_) return spend(node, failed, now, effects);
  // There may be a later round, whose nodes have yet to come; this must not end their run.
  if (!failed_in_hold_) failed_in_hold_.emplace(node.id, failed);
}

void Coordinator::spend(Node& node, const Failed& failed, Now now, Effects& effects) {
  Stop stop{.round = state_.round,
            .why = Stop::Why::Failure,
            .text = failed.failure.text,
            .verdict = failed.failure,
            .culprit = node.id};
  last_verdict_ = failed.failure.text;
  if (!may_restart(node, failed.failure, now, stop.note)) {
    stop.why = Stop::Why::RunFailed;
    return end_run(std::move(stop), now, effects);
  }
  ++restarts_;
  ++node.restarts;
  if (rules_.window > Duration{}) restarted_.push_back(now.instant);
  ++strikes_[node.claim.name];
  stop_round(std::move(stop), now, effects);
}

bool Coordinator::may_restart(const Node& node, const Failure& failure, Now now,
                              std::string& note) {
  const auto& codes = rules_.no_restart_codes;
  if (std::find(codes.begin(), codes.end(), failure.exit_code) != codes.end()) {
    note = "exit code " + std::to_string(failure.exit_code) +
           " is one that is not started again (--no-restart-codes)";
    return false;
  }
  const bool is_quick = now.instant - sealed_at_ <= rules_.crash_loop_time;
  quick_failures_ = is_quick ? quick_failures_ + 1 : 0;
  if (rules_.crash_loop > 0 && quick_failures_ >= rules_.crash_loop) {
    note = std::to_string(quick_failures_) +
           " times in a row the workers failed right after their start (--crash-loop)";
    return false;
  }
  if (rules_.per_node) return node.restarts < node.max_restarts;
  if (rules_.window == Duration{}) return restarts_ < rules_.max_restarts;
  while (!restarted_.empty() && now.instant - restarted_.front() > rules_.window)
    restarted_.pop_front();
  return static_cast<std::int64_t>(restarted_.size()) < rules_.max_restarts;
}

std::string Coordinator::why_struck(const std::string& name) const {
  const auto found = strikes_.find(name);
  if (rules_.node_strikes == 0 || found == strikes_.end() || found->second < rules_.node_strikes)
    return "";
  return name + " was the first to fail in " + std::to_string(found->second) +
         (found->second == 1 ? " round" : " rounds") + " and is not let in again (--node-strikes)";
}

// Somebody has closed the run while others still ran. Their workers may end well, and are left
// alone until something goes wrong: then there is no next round.
void Coordinator::fail_after_close(Stop stop, Effects& effects) {
  if (!runs_on()) return;
  stop.round = announced_.value_or(0);
  stop.restart_count = restarts_;
  last_verdict_ = stop.text;
  end_ = stop_ = std::move(stop);
  for (const auto& [id, node] : nodes_)
    if (node.doing == Doing::Running) send(node, *end_, effects);
}

void Coordinator::on_done(Node& node, const Done& done, Now now, Effects& effects) {
  if (runs_on() && done.round == announced_) node.doing = Doing::Done;
  if (!is_running() || done.round != state_.round || node.doing != Doing::Running) return;
  node.doing = Doing::Done;
  succeed_if_all_are_done(now, effects);
}

// The sender has told its own workers already.
void Coordinator::on_warn(const Node& node, const Warn& warn, Effects& effects) {
  // A spare has no part in the round, and may be anybody.
  if (!is_running() || !state_.participants.contains(node.id)) return;
  for (const auto& [id, other] : nodes_)
    if (other.doing == Doing::Running && id != node.id)
      send(other, Warned{.signal = warn.signal, .node = node.claim.name}, effects);
}

void Coordinator::on_leave(Node& node, const Leave& leave, Now now, Effects& effects) {
  const NodeId id = node.id;
  const std::string name = node.claim.name;
  const bool is_done =
      node.doing == Doing::Done && is_running() && state_.participants.contains(id);
  if (leave.close && !state_.closed)
    end_run({.why = Stop::Why::Closed,
             .text = leave.why.empty() ? name + " has closed the run" : leave.why},
            now, effects);
  add(effects, CloseSession{*node.session, name + " has left"});
  sessions_.erase(*node.session);
  node.session.reset();
  if (is_done && !state_.closed) return;      // Its part is done, and stays so.
  if (leave.close) node.doing = Doing::Done;  // Whatever it leaves behind, it has ended it itself.
  lose({id}, name + " has left" + (leave.why.empty() ? "" : ": " + leave.why), now, effects);
}

void Coordinator::on_closed(SessionId session, Now now, Effects& effects) {
  note_time(now);
  Node* node = node_of(session);
  if (node == nullptr) return;
  sessions_.erase(session);
  node->session.reset();
  node->heard = now.instant;
  // Its workers are there, or are being stopped.
  const bool is_member = state_.complete && state_.participants.contains(node->id) &&
                         (node->doing == Doing::Running || node->doing == Doing::Done);
  if (is_member && is_running() && node->doing == Doing::Done) return;
  if (is_member && pardon(now) > Duration{}) return look_by(now.instant + pardon(now));
  // Its seat in a round that is not sealed yet is free at once.
  lose({node->id}, node->claim.name + " is gone: its connection was closed", now, effects);
}

void Coordinator::lose(const std::vector<NodeId>& lost, const std::string& why, Now now,
                       Effects& effects) {
  const std::string before = phase(state_);
  const std::size_t members = state_.participants.size();
  if (!state_.closed) state_ = without(std::move(state_), lost, settings_);
  // Of a closed run, too: its workers run on without one of them.
  bool runs_on_without = false;
  for (const NodeId& id : lost) {
    awaited_.erase(id);
    const auto found = nodes_.find(id);
    runs_on_without |= found == nodes_.end() || found->second.doing == Doing::Running;
    if (found == nodes_.end()) {
      state_.last_heartbeats.erase(id);  // Nobody misses it again.
      continue;
    }
    if (found->second.session) {
      sessions_.erase(*found->second.session);
      add(effects, CloseSession{*found->second.session, why});
    }
    if (has_segments()) {
      const auto group = groups_.find(found->second.claim.group);
      changed_groups_.insert(group->first);
      group->second.has_lost = true;
      group->second.loose.erase(id);
      group->second.nodes.erase(id);
      if (group->second.nodes.empty()) groups_.erase(group);
    }
    nodes_.erase(found);
  }
  if (state_.closed) {
    if (runs_on_without) fail_after_close({.why = Stop::Why::RunFailed, .text = why}, effects);
    return;
  }
  if (is_running() && announced_ == state_.round && state_.participants.size() < members)
    stop_round({.why = Stop::Why::Members, .text = why}, now, effects);
  follow(before, now, effects);
}

void Coordinator::find_lost(Now now, Effects& effects) {
  look_at_.reset();
  std::vector<NodeId> closed;
  std::vector<NodeId> silent;
  std::vector<SessionId> done_and_gone;  // Their part is done, and stays so.
  for (const auto& [id, node] : nodes_) {
    const bool is_member = is_running() && state_.participants.contains(id);
    if (!node.session && (node.doing == Doing::Done && is_member)) continue;
    const Duration limit = node.session ? rules_.heartbeat_limit : pardon(now);
    if (now.instant - node.heard <= limit)
      look_by(node.heard + limit + 1ms);
    else if (node.session && node.doing == Doing::Done && is_member)
      done_and_gone.push_back(*node.session);
    else
      (node.session ? silent : closed).push_back(id);
  }
  for (const SessionId session : done_and_gone) {
    node_of(session)->session.reset();
    sessions_.erase(session);
    add(effects, CloseSession{session, "it is done, and silent"});
  }
  const auto names = [&](const std::vector<NodeId>& ids) {
    std::string first = nodes_.at(ids.front()).claim.name;
    if (ids.size() == 1) return first + " is gone";
    return first + " and " + std::to_string(ids.size() - 1) + " more are gone";
  };
  // All at once: who is silent must not be sealed in because another is gone.
  std::vector<NodeId> gone = closed;
  gone.insert(gone.end(), silent.begin(), silent.end());
  if (!gone.empty()) {
    std::string why;
    if (silent.empty()) why = ": its connection was closed";
    if (closed.empty())
      why = ": nothing was heard for " +
            std::to_string(
                std::chrono::duration_cast<std::chrono::seconds>(rules_.heartbeat_limit).count()) +
            " s";
    lose(gone, names(gone) + why, now, effects);
  }
  if (!hold_until_) return;
  if (now.instant < *hold_until_) return look_by(*hold_until_);
  end_hold(now, effects);
}

bool Coordinator::has_others() const {
  const auto other = [this](const NodeId& id) { return !has_session(id); };
  return std::any_of(state_.participants.begin(), state_.participants.end(),
                     [&](const auto& entry) { return other(entry.first); }) ||
         std::any_of(state_.wait_list.begin(), state_.wait_list.end(), other) ||
         std::any_of(state_.redundancy_list.begin(), state_.redundancy_list.end(), other);
}

void Coordinator::sweep_others(Now now, Effects& effects) {
  sweep_at_.reset();
  if ((state_.closed && !runs_on()) || !has_others()) return;
  sweep_at_ = now.instant + kSweep;
  liveness_.observe(state_, now.instant, now.instant);
  std::vector<NodeId> silent = liveness_.silent({}, settings_.silence_limit());
  std::erase_if(silent, [this](const NodeId& id) { return has_session(id); });
  if (silent.empty()) return;
  lose(silent, name_of(state_, silent.front()) + " is gone: it has sent no heartbeat", now,
       effects);
}

void Coordinator::on_time(Now now, Effects& effects) {
  note_time(now);
  if (look_at_ && now.instant >= *look_at_) find_lost(now, effects);
  if (sweep_at_ && now.instant >= *sweep_at_) sweep_others(now, effects);
  if (const auto end = last_call_end();
      end && now.instant > *end && !state_.complete && !hold_until_)
    follow(phase(state_), now, effects);
  if (tell_at_ && now.instant >= *tell_at_) tell_progress(now, effects);
}

std::optional<Instant> Coordinator::next_deadline() const {
  std::optional<Instant> next;
  const auto take = [&next](const std::optional<Instant>& at) {
    if (at && (!next || *at < *next)) next = at;
  };
  take(look_at_);
  take(sweep_at_);
  take(tell_at_);
  if (const auto end = last_call_end(); end && !state_.complete && !state_.closed && !hold_until_)
    take(*end + 1ms);
  return next;
}

const State& Coordinator::state_for_others(Now now) {
  // As often as a node without a coordinator would send them; in between the state must stay as it
  // is, or no swap of theirs could win.
  if (now.instant - refreshed_ >= settings_.keep_alive_interval * 3 / 4) {
    refreshed_ = now.instant;
    for (auto& [id, stamp] : state_.last_heartbeats)
      if (has_session(id)) stamp = now.utc;
  }
  if (!sweep_at_) sweep_at_ = now.instant + kSweep;
  return state_;
}

void Coordinator::on_swapped(State state, Now now, Effects& effects) {
  if (has_segments()) return;
  if (state_.closed) {
    // Workers may run on, and then it matters who lives.
    for (auto& [id, stamp] : state_.last_heartbeats)
      if (const auto found = state.last_heartbeats.find(id);
          found != state.last_heartbeats.end() && !has_session(id))
        stamp = found->second;
    return;
  }
  if (!sweep_at_) sweep_at_ = now.instant + kSweep;
  for (auto& [id, claim] : state.claims)  // The text that was swapped has no groups.
    if (const auto found = nodes_.find(id); found != nodes_.end())
      claim.group = found->second.claim.group;
  // Most of what comes is a heartbeat, from which nothing follows.
  state_.last_heartbeats = state.last_heartbeats;
  if (state_ == state) return;
  const std::string before = phase(state_);
  const std::size_t members = state_.participants.size();
  const bool was_running = is_running();
  state_ = std::move(state);
  if (state_.closed) {
    state_.closed = false;  // end_run() closes it.
    return end_run({.why = Stop::Why::Closed, .text = "the run was closed"}, now, effects);
  }
  if (was_running && is_running() && announced_ == state_.round &&
      state_.participants.size() < members)
    stop_round({.why = Stop::Why::Members, .text = "a node of the round is gone"}, now, effects);
  // Who was dropped by somebody that judges by other rules joins again.
  for (auto& [id, node] : nodes_)
    if ((node.doing == Doing::Running || node.doing == Doing::Done) &&
        !state_.participants.contains(id)) {
      send(node,
           Stop{.round = announced_.value_or(0),
                .why = Stop::Why::Members,
                .text = dropped_text(),
                .restart_count = restart_count(node)},
           effects);
      node.doing = Doing::Idle;
      awaited_.erase(id);
    }
  if (!state_.complete)
    for (const auto& [id, rank] : state_.participants) awaited_.erase(id);
  settle_all_joining(now);
  follow(before, now, effects);
}

void Coordinator::look_by(Instant at) {
  if (!look_at_ || at < *look_at_) look_at_ = at;
}

}  // namespace regroup::core::coordinator
