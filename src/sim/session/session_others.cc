#include "sim/session/session_others.h"

#include <algorithm>
#include <utility>

namespace regroup::sim {

SessionOthers::SessionOthers(const SessionPlan& plan, std::int32_t first, std::uint64_t seed,
                             Happenings& agenda, SessionHost& host, const Peers& peers,
                             const Trace& trace, Totals& totals)
    : plan_(plan),
      first_(first),
      agenda_(agenda),
      host_(host),
      peers_(peers),
      trace_(trace),
      totals_(totals),
      dice_(seed),
      network_(plan.others, dice_.seed()),
      invariants_(plan.others.settings, plan.others.nodes.size(),
                  {.clocks = plan.others.has_torchrun,
                   .worlds = plan.others.has_torchrun,
                   .waits = plan.others.has_torchrun}),
      connections_(plan.others.nodes.size()),
      paused_until_(plan.others.nodes.size()) {
  Surroundings& here = *this;
  for (std::size_t index = 0; index < plan.others.nodes.size(); ++index)
    nodes_.emplace_back(plan.others, static_cast<std::int32_t>(index), plan.others.settings, here);
}

void SessionOthers::start_all() {
  for (std::int32_t index = 0; index < count(); ++index)
    start_after(index, plan_.others.nodes[static_cast<std::size_t>(index)].starts);
}

void SessionOthers::start_after(std::int32_t index, Duration delay) {
  agenda_.plan({.at = now() + delay, .act = [this, index] {
                  if (node(index).running()) return;
                  connections_[static_cast<std::size_t>(index)] = {};
                  node(index).start();
                }});
}

void SessionOthers::plan_at(std::int32_t index, std::int64_t process, Instant at,
                            std::function<void()> act) {
  agenda_.plan(
      {.at = std::max(at, now()), .who = first_ + index, .life = process, .act = std::move(act)});
}

void SessionOthers::at_node(const Request& request, Instant at, std::function<void(Node&)> act) {
  plan_at(request.node, request.process, at,
          [this, index = request.node, process = request.process, wait = request.wait,
           act = std::move(act)] {
            if (node(index).waits_for(process, wait)) act(node(index));
          });
}

// ---- The way to the store ----

// When the host has died, its kernel often says so; when its machine is gone, nothing does.
bool SessionOthers::reaches_host(const Request& request) {
  Connection& connection = connections_[static_cast<std::size_t>(request.node)];
  const bool is_there = host_.is_up() && connection.life == host_.life();
  if (is_there) return true;
  const bool connects = request.ask == Ask::MakeKey || !node(request.node).torchrun();
  if (!host_.is_up() || !connects) return false;
  connection = {.life = host_.life(), .is_new = true};
  return request.ask == Ask::MakeKey;  // What was asked on the old one has failed.
}

void SessionOthers::ask(std::shared_ptr<const Request> request) {
  const auto overdue = [](Node& asker) { asker.on_overdue(); };
  at_node(*request, now() + plan_.others.request_timeout, overdue);
  std::vector<Instant> arrivals;
  if (reaches_host(*request)) {
    arrivals = network_.request(request->node, now());
    if (arrivals.size() > 1) totals_.doubled_messages += 1;
  }
  if (arrivals.empty()) {
    totals_.lost_messages += 1;
    if (network_.breaks_loudly()) at_node(*request, now() + network_.latency(), overdue);
  }
  Connection& connection = connections_[static_cast<std::size_t>(request->node)];
  const bool makes_key = !arrivals.empty() && std::exchange(connection.is_new, false);
  for (const Instant at : arrivals)
    agenda_.plan(
        {.at = at, .who = kTheHost, .life = host_.life(), .act = [this, request, makes_key] {
           on_request(*request, makes_key);
         }});
}

void SessionOthers::on_request(const Request& request, bool makes_key) {
  const bool given_up = !node(request.node).waits_for(request.process, request.wait);
  std::optional<Change> change;
  const Answer answer = host_.apply(request, makes_key, given_up, change);
  if (request.ask == Ask::Swap) {
    (change ? totals_.swaps_won : totals_.swaps_lost) += 1;
    if (change && given_up) totals_.late_swaps += 1;
  }
  const auto arrives = network_.answer(request.node, now());
  if (!arrives) totals_.lost_messages += 1;
  if (!arrives && !network_.breaks_loudly()) return;
  at_node(request, arrives.value_or(now() + network_.latency()),
          [this, request, answer, arrived = arrives.has_value(), life = host_.life()](Node& asker) {
            // What an earlier host said is lost with its connection.
            if (!arrived || life != host_.life()) return asker.on_overdue();
            const bool was_joining = asker.joining();
            asker.on_answer(request, answer);
            if (was_joining && !asker.joining()) plan_fortune(request.node);
          });
}

void SessionOthers::host_started() { invariants_.forget_rounds(); }

void SessionOthers::host_died(bool seen) {
  phases_over_.clear();
  for (std::int32_t index = 0; index < count(); ++index) {
    const Node& one = node(index);
    if (!one.running() || !seen) continue;
    // Of what it has asked, if it has; it will find out at its next request otherwise.
    plan_at(index, one.process(), now() + network_.latency(),
            [this, index, process = one.process(), wait = one.wait()] {
              if (node(index).waits_for_answer(process, wait)) node(index).on_overdue();
            });
  }
}

void SessionOthers::announce(std::int32_t index, std::string phase) {
  if (!host_.is_up() || connections_[static_cast<std::size_t>(index)].life != host_.life()) return;
  for (const Instant at : network_.request(index, now()))
    agenda_.plan({.at = at, .who = kTheHost, .life = host_.life(), .act = [this, phase] {
                    phase_over(phase);
                  }});
}

void SessionOthers::phase_over(const std::string& phase) {
  phases_over_.insert(phase);
  for (std::int32_t index = 0; index < count(); ++index)
    if (node(index).running() && node(index).rests_in(phase)) wake_early(index);
}

void SessionOthers::wake_early(std::int32_t index) {
  if (!host_.is_up() || connections_[static_cast<std::size_t>(index)].life != host_.life()) return;
  const auto at = network_.wake(index, now());
  if (!at) return;
  plan_at(index, node(index).process(), *at,
          [this, index, process = node(index).process(), wait = node(index).wait()] {
            if (node(index).waits_for(process, wait)) node(index).on_wake();
          });
}

void SessionOthers::wake_at(std::int32_t index, std::int64_t process, std::uint64_t wait,
                            Instant at, const std::string& phase) {
  plan_at(index, process, at, [this, index, process, wait] {
    if (node(index).waits_for(process, wait)) node(index).on_wake();
  });
  if (!phase.empty() && phases_over_.contains(phase)) wake_early(index);
}

}  // namespace regroup::sim
