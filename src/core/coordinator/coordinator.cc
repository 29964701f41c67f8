#include "core/coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "base/cases.h"

namespace regroup::core::coordinator {

using namespace rendezvous;

namespace {

Settings settings_of(std::string run_id, const RunRules& rules) {
  return {.run_id = std::move(run_id),
          .min_nodes = rules.min_nodes,
          .max_nodes = rules.max_nodes,
          .segment = rules.segment,
          // Each agent has its own join timeout, and leaves when it is over.
          .join_timeout = kLongest,
          .last_call_timeout = rules.last_call,
          .keep_alive_interval = std::max<Duration>(rules.keep_alive_interval, 1s),
          .keep_alive_attempts = rules.keep_alive_max_attempt};
}

}  // namespace

Coordinator::Coordinator(std::string run_id, const RunRules& rules, std::optional<State> present,
                         Now now)
    : settings_(settings_of(std::move(run_id), rules)),
      rules_(rules),
      budget_(rules),
      segments_(rules.segment),
      restoring_(now.instant, rules.heartbeat_limit),
      silence_(rules.heartbeat_limit, rules.reconnect_grace),
      others_(settings_, now.instant),
      last_call_(rules.last_call),
      progress_(now.instant) {
  if (!present) return;
  state_ = with_invariants(std::move(*present));
  others_.look_soon(now.instant);
  if (state_.complete) {  // Not ours to announce.
    std::set<NodeId> members;
    for (const auto& [id, rank] : state_.participants) members.insert(id);
    const auto size = static_cast<std::int64_t>(members.size());
    last_round_.seal(state_.round, size, std::move(members), {});
  }
  if (state_.complete || state_.closed) restoring_.leave_the_past();
  if (state_.closed)
    end_ = Stop{.round = state_.round, .why = Stop::Why::Closed, .text = "the run is closed"};
}

Coordinator::Node* Coordinator::node_of(SessionId session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &nodes_.at(found->second);
}

void Coordinator::heard_from(SessionId session, Now now) {
  silence_.on_turn(now.instant, has_sessions());
  if (Node* node = node_of(session)) node->heard = now.instant;
}

void Coordinator::on_hello(SessionId session, Hello hello, Now now, Effects& effects) {
  silence_.on_turn(now.instant, has_sessions());
  if (const std::string why = segments_.why_refused(hello.rules.segment, hello.claim.group);
      !why.empty()) {
    add(effects, Send{session, Refused{.why = why, .lasting = true}});
    return add(effects, CloseSession{session, why});
  }
  const auto [found, is_new] = nodes_.try_emplace(hello.node);
  Node& node = found->second;
  learn_past(hello, now, effects);
  if (node.session) {
    // The node says that its old connection is useless, and it knows better than we do.
    sessions_.erase(*node.session);
    add(effects, CloseSession{*node.session, "the node has come again"});
  }
  if (is_new) {
    node.id = hello.node;
    node.claim = std::move(hello.claim);
    node.role = std::move(hello.role);
    node.workers = hello.workers;
    budget_.admit(node.id, hello.rules.max_restarts);
    if (segments_.are_wanted()) segments_.add(node.claim.group, node.id);
  }
  node.session = session;
  node.heard = now.instant;
  sessions_.emplace(session, node.id);
  silence_.look_by(now.instant + rules_.heartbeat_limit);

  const bool member = hello.running && (is_member(node, *hello.running) ||
                                        restore(node, *hello.running, now, effects));
  send(node, Welcome{.member = member, .rules = rules_}, effects);
  if (succeeded_) return send(node, Over{}, effects);
  if (end_) {
    // What it said of its end may have been lost with its last connection.
    if (workers_run_on() && hello.running && hello.running->done &&
        last_round_.is(hello.running->place.round))
      mark_done(node, effects);
    return send(node, *end_, effects);
  }
  if (!hello.running) return;
  const bool stays = state_.complete && state_.round == hello.running->place.round &&
                     state_.participants.contains(node.id);
  if (!stays) node.doing = Doing::Idle;
  if (stays && node.doing != Doing::Done) {
    node.doing = Doing::Running;
    if (hello.running->done) mark_done(node, effects);
  }
  if (member) return succeed_if_all_are_done(now, effects);
  const bool was_told = last_round_.is_stopped(hello.running->place.round);
  Stop stop = was_told ? stop_for(node) : Stop{.why = Stop::Why::Members, .text = dropped_text()};
  stop.round = hello.running->place.round;
  stop.restart_count = budget_.restart_count(node.id);
  send(node, std::move(stop), effects);
}

// It is in the round that it names, and that round still runs.
bool Coordinator::is_member(const Node& node, const Running& running) const {
  return is_running() && state_.round == running.place.round &&
         state_.participants.contains(node.id);
}

void Coordinator::on_message(SessionId session, const FromAgent& message, Now now,
                             Effects& effects) {
  silence_.on_turn(now.instant, has_sessions());
  Node* node = node_of(session);
  if (node == nullptr) return;
  node->heard = now.instant;
  std::visit(
      Cases{[&](const Join& join) { on_join(*node, join, now, effects); },
            [&](const Failed& failed) { on_failed(*node, failed, now, effects); },
            [&](const Done& done) { on_done(*node, done, now, effects); },
            [&](const Leave& leave) { on_leave(*node, leave, now, effects); },
            [&](const Ping& ping) { send(*node, Pong{ping.number}, effects); },
            [&](const Warn& warn) { on_warn(*node, warn, effects); },
            [&](const Stalled& stalled) { on_stalled(*node, stalled, effects); },
            [&](const Where& where) { on_where(*node, where, effects); },
            // These open a connection, and its host has taken them.
            [](const Hello&) {}, [](const Look&) {}, [](const Prove&) {}, [](const AgentProof&) {}},
      message);
}

void Coordinator::on_join(Node& node, const Join& join, Now now, Effects& effects) {
  if (succeeded_) return send(node, Over{}, effects);
  if (end_) return send(node, *end_, effects);
  if (node.join && node.join->number == join.number) {
    // A join is repeated on a new connection, because the answer may have been lost with the old
    // one.
    if (node.doing == Doing::Joining) return follow_up(phase(state_), now, effects);
    if (node.doing != Doing::Running) return;
    send(node, node.sealed, effects);
    if (!is_running()) send(node, stop_for(node), effects);  // The stop was lost with it.
    return;
  }
  if (const std::string why = budget_.why_barred(node.claim.name); !why.empty()) {
    send(node, Refused{.why = why, .lasting = true}, effects);
    return lose({node.id}, why, now, effects);
  }
  const std::string before = phase(state_);
  leave_council(node, effects);
  node.join = join;
  node.doing = Doing::Joining;
  node.arrived = ++arrivals_;
  last_round_.has_come_or_gone(node.id);
  if (restoring_.is_holding()) return;
  const bool was_member = state_.participants.contains(node.id);
  advance(node, Operation::Exit, now);
  if (was_member && segments_.are_wanted()) segments_.has_left(node.claim.group);
  if (was_member && last_round_.is(state_.round))
    stop_round({.why = Stop::Why::Members, .text = node.claim.name + " joins again"}, now, effects);
  const bool is_stopping = state_.complete && !is_running();
  if (segments_.are_wanted() && !is_stopping)
    segments_.wants_in(node.claim.group, node.id);
  else if (phase(state_) == before)
    advance(node, Operation::Join, now);
  follow_up(before, now, effects);
}

void Coordinator::on_failed(Node& node, const Failed& failed, Now now, Effects& effects) {
  if (workers_run_on() && last_round_.is(failed.round) && node.doing == Doing::Running)
    return fail_after_close({.why = Stop::Why::RunFailed,
                             .text = failed.failure.text,
                             .verdict = failed.failure,
                             .culprit = node.id},
                            effects);
  // What fails after a round was stopped fails because of the stop.
  if (!is_running() || failed.round != state_.round || node.doing != Doing::Running) return;
  if (!state_.participants.contains(node.id)) return;
  if (!restoring_.is_holding()) return judge_failure(node, failed, now, effects);
  restoring_.keep_failure(node.id, failed);
}

void Coordinator::judge_failure(const Node& node, const Failed& failed, Now now, Effects& effects) {
  Stop stop{.round = state_.round,
            .why = Stop::Why::Failure,
            .text = failed.failure.text,
            .verdict = failed.failure,
            .culprit = node.id};
  last_verdict_ = failed.failure.text;
  // In a hang for which nobody was named, the node that ends its workers first is no culprit.
  const std::string name = hangs_unnamed() ? "" : node.claim.name;
  const RestartBudget::Decision decision =
      budget_.on_failure({.node = node.id, .name = name}, failed.failure.exit_code, now.instant);
  if (decision.restart) return stop_round(std::move(stop), now, effects);
  stop.why = Stop::Why::RunFailed;
  stop.note = decision.note;
  end_run(std::move(stop), now, effects);
}

void Coordinator::on_done(Node& node, const Done& done, Now now, Effects& effects) {
  if (workers_run_on() && last_round_.is(done.round)) mark_done(node, effects);
  if (!is_running() || done.round != state_.round || node.doing != Doing::Running) return;
  mark_done(node, effects);
  succeed_if_all_are_done(now, effects);
}

// The sender has told its own workers already.
void Coordinator::on_warn(const Node& node, const Warn& warn, Effects& effects) {
  // A spare has no part in the round, and its report cannot be trusted.
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
  if (is_done && !state_.closed) return;  // Its work is done, and stays done.
  // It has ended the run itself, whatever it leaves behind.
  if (leave.close) mark_done(node, effects);
  lose({id}, name + " has left" + (leave.why.empty() ? "" : ": " + leave.why), now, effects);
}

void Coordinator::on_closed(SessionId session, Now now, Effects& effects) {
  silence_.on_turn(now.instant, has_sessions());
  Node* node = node_of(session);
  if (node == nullptr) return;
  sessions_.erase(session);
  node->session.reset();
  node->heard = now.instant;
  // Its workers are there, or are being stopped.
  const bool is_member = state_.complete && state_.participants.contains(node->id) &&
                         (node->doing == Doing::Running || node->doing == Doing::Done);
  if (is_member && is_running() && node->doing == Doing::Done) return;
  if (const Duration grace = silence_.grace(now.instant); is_member && grace > Duration{})
    return silence_.look_by(now.instant + grace);
  // Its seat in an open round is free at once.
  lose({node->id}, node->claim.name + " is gone: its connection was closed", now, effects);
}

void Coordinator::on_time(Now now, Effects& effects) {
  silence_.on_turn(now.instant, has_sessions());
  if (silence_.take_due(now.instant)) find_lost(now, effects);
  if (others_.take_due(now.instant)) find_lost_others(now, effects);
  if (!state_.complete && !restoring_.is_holding() && last_call_.take_end(now.instant))
    follow_up(phase(state_), now, effects);
  if (progress_.is_due(now.instant)) tell_progress(now, effects);
}

std::optional<Instant> Coordinator::next_deadline() const {
  std::optional<Instant> next;
  const auto take = [&next](const std::optional<Instant>& at) {
    if (at && (!next || *at < *next)) next = at;
  };
  take(silence_.next_look());
  take(others_.next_look());
  take(progress_.next());
  if (!state_.complete && !state_.closed && !restoring_.is_holding()) take(last_call_.next_look());
  return next;
}

}  // namespace regroup::core::coordinator
