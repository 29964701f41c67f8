#include "sim/world/world.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace regroup::sim {

using core::rendezvous::Settings;
using core::rendezvous::State;

namespace {

Settings believed_settings(const Plan& plan, Broken broken) {
  Settings settings = plan.settings;
  if (broken == Broken::NeverSweeps) settings.keep_alive_attempts = 100000;
  if (broken == Broken::HastySweeps) settings.keep_alive_attempts = 1;
  if (broken == Broken::SmallMinimum) settings.min_nodes = 1;
  return settings;
}

Invariants::Relaxed relaxed_for(const Plan& plan, Broken broken) {
  if (!plan.has_torchrun) return {};
  return {.clocks = broken != Broken::WallClocks,
          .worlds = broken != Broken::NoWholeCheck,
          .waits = true};
}

}  // namespace

void Totals::add(const Totals& other) {
  runs += other.runs;
  steps += other.steps;
  virtual_time += other.virtual_time;
  seals += other.seals;
  joins += other.joins;
  swaps_won += other.swaps_won;
  swaps_lost += other.swaps_lost;
  late_swaps += other.late_swaps;
  lost_messages += other.lost_messages;
  doubled_messages += other.doubled_messages;
  crashes += other.crashes;
  pauses += other.pauses;
  partitions += other.partitions;
  leaves += other.leaves;
  closes += other.closes;
  nearest_to_bound = std::max(nearest_to_bound, other.nearest_to_bound);
}

World::World(const Options& options, Trace trace)
    : options_(options),
      plan_(make_plan(options)),
      trace_(std::move(trace)),
      dice_(plan_.seed),
      network_(plan_, dice_.seed()),
      invariants_(plan_.settings, plan_.nodes.size(), relaxed_for(plan_, options.broken)),
      paused_until_(plan_.nodes.size()) {
  const Settings settings = believed_settings(plan_, options.broken);
  Surroundings& here = *this;
  nodes_.reserve(plan_.nodes.size());
  for (std::size_t index = 0; index < plan_.nodes.size(); ++index)
    nodes_.emplace_back(plan_, static_cast<std::int32_t>(index), settings, here);
}

Report World::run() {
  if (trace_.on()) trace_.line(now(), "world", describe(plan_));
  for (std::size_t index = 0; index < nodes_.size(); ++index)
    start_after(static_cast<std::int32_t>(index), plan_.nodes[index].starts);
  events_.plan({.at = now() + plan_.chaos, .kind = EventKind::FaultsStop});
  plan_next_fault();
  if (plan_.closes_early)
    events_.plan({.at = now() + dice_.between(Duration(0), plan_.chaos),
                  .kind = EventKind::Close,
                  .node = static_cast<std::int32_t>(
                      dice_.between(0, static_cast<std::int64_t>(nodes_.size()) - 1))});

  while (stage_ != Stage::Over && !invariants_.violation() && !events_.empty()) {
    const Event event = events_.next();
    if (defer_while_paused(event)) continue;
    if (!step(event)) continue;
    totals_.steps += 1;
    if (stage_ == Stage::Storm && options_.steps && totals_.steps >= *options_.steps) stop_faults();
    if (stage_ == Stage::Meeting) note_if_met();
  }
  if (invariants_.violation()) trace_.line(now(), "world", "WRONG: " + *invariants_.violation());
  totals_.runs = 1;
  totals_.virtual_time = now() - Instant{};
  totals_.seals = invariants_.seals();
  totals_.joins = invariants_.joins();
  return {.violation = invariants_.violation(), .totals = totals_};
}

bool World::defer_while_paused(const Event& event) {
  if (event.node < 0) return false;
  switch (event.kind) {
    case EventKind::AnswerArrives:
    case EventKind::AnswerOverdue:
    case EventKind::Wakes:
    case EventKind::PhaseOver:
      break;
    default:
      return false;
  }
  const Instant until = paused_until_[static_cast<std::size_t>(event.node)];
  if (until <= now()) return false;
  Event later = event;
  later.at = until;
  events_.plan(std::move(later));
  return true;
}

bool World::step(const Event& event) {
  switch (event.kind) {
    case EventKind::RequestArrives:
      on_request(event);
      return true;
    case EventKind::AnnounceArrives:
      on_announce(*event.request);
      return true;
    case EventKind::AnswerArrives:
      if (!node_of(event).waits_for(event.process, event.wait)) return false;
      node_of(event).on_answer(*event.request, *event.answer);
      return true;
    case EventKind::AnswerOverdue:
      if (!node_of(event).waits_for(event.process, event.wait)) return false;
      node_of(event).on_overdue();
      return true;
    case EventKind::Wakes:
    case EventKind::PhaseOver:
      if (!node_of(event).waits_for(event.process, event.wait)) return false;
      node_of(event).on_wake();
      return true;
    case EventKind::Start:
      node_of(event).start();
      return true;
    case EventKind::PartitionEnds:
      if (stage_ != Stage::Storm) return false;
      network_.reconnect(event.node);
      trace_.line(now(), short_name(node_of(event).id()), "reaches the store again");
      return true;
    case EventKind::NextFault:
      if (stage_ != Stage::Storm) return false;
      next_fault();
      plan_next_fault();
      return true;
    case EventKind::Close:
      if (stage_ == Stage::Storm) node_of(event).close();
      return true;
    case EventKind::FaultsStop:
      if (stage_ == Stage::Storm) stop_faults();
      return true;
    case EventKind::MustHaveMet:
      must_have_met();
      return true;
    case EventKind::MustBeSteady:
      must_be_steady();
      return true;
    case EventKind::MustHaveEnded:
      must_have_ended();
      return true;
  }
  return false;
}

void World::ask(std::shared_ptr<const Request> request) {
  const Event overdue{.at = now() + plan_.request_timeout,
                      .kind = EventKind::AnswerOverdue,
                      .node = request->node,
                      .process = request->process,
                      .wait = request->wait};
  events_.plan(overdue);
  const auto arrivals = network_.request(request->node, now());
  if (arrivals.size() > 1) totals_.doubled_messages += 1;
  if (arrivals.empty()) {
    totals_.lost_messages += 1;
    Event told = overdue;
    told.at = now() + network_.latency();
    if (network_.breaks_loudly()) events_.plan(std::move(told));
  }
  for (const Instant at : arrivals)
    events_.plan({.at = at,
                  .kind = EventKind::RequestArrives,
                  .node = request->node,
                  .process = request->process,
                  .wait = request->wait,
                  .request = request});
}

void World::on_request(const Event& event) {
  const Request& request = *event.request;
  const bool given_up = !node_of(event).waits_for(request.process, request.wait);
  std::optional<Change> change;
  Answer answer = store_.apply(request, given_up && options_.broken == Broken::NoTokens, change);
  answer.at = now();

  if (request.ask == Ask::Swap) {
    const State nothing;
    (change ? totals_.swaps_won : totals_.swaps_lost) += 1;
    if (change && given_up) totals_.late_swaps += 1;
    if (change) {
      const State& before =
          change->before && change->before->state ? *change->before->state : nothing;
      const State& after = *change->after->state;
      if (trace_.on())
        trace_.line(now(), short_name(request.writer),
                    fmt::format("{}{} → {}", given_up ? "late swap won: " : "swap won: ",
                                describe_change(before, after, request.writer),
                                describe(after, plan_.settings)));
      invariants_.on_change(now(), request.writer, before, after);
    } else {
      trace_.line(now(), short_name(request.writer), "swap lost");
    }
    if (change && !given_up && dies_after_swap_.erase(event.node) > 0)
      kill(event.node, "before it hears that its swap was won");
  }

  const auto arrives = network_.answer(request.node, now());
  Event back{.at = arrives.value_or(now() + network_.latency()),
             .kind = EventKind::AnswerArrives,
             .node = request.node,
             .process = request.process,
             .wait = request.wait,
             .request = event.request};
  if (arrives) {
    back.answer = std::make_shared<Answer>(std::move(answer));
  } else {
    totals_.lost_messages += 1;
    if (!network_.breaks_loudly()) return;
    back.kind = EventKind::AnswerOverdue;
  }
  events_.plan(std::move(back));
}

void World::announce(std::int32_t node, std::string phase) {
  auto request =
      std::make_shared<Request>(Request{.ask = Ask::Announce, .desired = std::move(phase)});
  for (const Instant at : network_.request(node, now()))
    events_.plan({.at = at, .kind = EventKind::AnnounceArrives, .request = request});
}

void World::on_announce(const Request& request) {
  phases_over_.insert(request.desired);
  for (std::size_t index = 0; index < nodes_.size(); ++index)
    if (nodes_[index].rests_in(request.desired))
      wake_early(nodes_[index], static_cast<std::int32_t>(index));
}

void World::wake_early(const Node& node, std::int32_t index) {
  if (const auto at = network_.wake(index, now()))
    events_.plan({.at = *at,
                  .kind = EventKind::PhaseOver,
                  .node = index,
                  .process = node.process(),
                  .wait = node.wait()});
}

void World::wake_at(std::int32_t node, std::int64_t process, std::uint64_t wait, Instant at,
                    const std::string& phase) {
  events_.plan({.at = std::max(at, now()),
                .kind = EventKind::Wakes,
                .node = node,
                .process = process,
                .wait = wait});
  if (!phase.empty() && phases_over_.contains(phase))
    wake_early(nodes_[static_cast<std::size_t>(node)], node);
}

void World::start_after(std::int32_t node, Duration delay) {
  events_.plan({.at = now() + delay, .kind = EventKind::Start, .node = node});
}

bool World::peers_gone(std::int32_t node) const {
  const auto& beliefs = invariants_.beliefs();
  const auto& mine = beliefs[static_cast<std::size_t>(node)];
  if (!mine) return false;
  const auto* members = invariants_.sealed(mine->round);
  if (members == nullptr) return false;
  const auto here = [&](const core::rendezvous::NodeId& member) {
    for (std::size_t seat = 0; seat < nodes_.size(); ++seat) {
      if (nodes_[seat].id() != member || !nodes_[seat].running()) continue;
      if (beliefs[seat] && beliefs[seat]->round == mine->round) return true;
      // It may not have read yet that the round is sealed.
      const auto& value = store_.value();
      return value && value->state && value->state->round == mine->round &&
             value->state->participants.contains(member);
    }
    return false;
  };
  return !std::all_of(members->begin(), members->end(),
                      [&](const auto& member) { return here(member.first); });
}

}  // namespace regroup::sim
