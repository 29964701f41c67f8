// A node's conversation with the coordinator, as runtime/rounds plays it.
#include <utility>

#include "base/cases.h"
#include "sim/node/whole_node.h"

namespace regroup::sim {

using namespace core::coordinator;
using core::agent::JoinFailure;
using core::agent::Order;

void WholeNode::play(Membership::Effects effects) {
  for (Membership::Effect& effect : effects) {
    if (!agent_) return;
    std::visit(Cases{[this](const Membership::Say& said) { say(said.message); },
                     [this](const Membership::Joined& joined) {
                       joined_for_.reset();
                       joining_since_.reset();
                       is_spare_ = false;
                       sealed_ = joined.sealed;
                       sealed_in_ = link_life();
                       play(agent_->on_joined(static_cast<int>(joined.sealed.restart_count)));
                     },
                     [this](const Membership::JoinFailed& failed) {
                       tell("cannot join: " + failed.error.message);
                       note_end(failed.end);
                       is_spare_ = failed.why == JoinFailure::NotNeeded;
                       joined_for_ = world_.now() - joining_since_.value_or(world_.now());
                       run_was_over_ = run_was_over_ || membership_->is_over();
                       play(agent_->on_join_failed(failed.why, failed.end));
                     },
                     [this](const Membership::Ordered& order) { ordered(order.order); },
                     [this](const Membership::Reached& now) {
                       agent_->on_reach(now.trouble.empty(), own_now());
                     },
                     [](const Membership::Waits&) {},
                     [this](const Membership::HandOn& told) { hand_on(told.message); },
                     [this](const Membership::Flush&) { flush(); }},
               effect);
  }
  arm();
}

void WholeNode::hand_on(const core::coordinator::ForWorkers& message) {
  if (!workers_) return;
  std::visit(
      Cases{[](const core::coordinator::Warned&) {},
            [this](const core::coordinator::Hangs& now) { workers_->hear_hang(now.all_say_so); },
            [this](const core::coordinator::Blamed& now) { workers_->hear_blame(now.blame); }},
      message);
}

void WholeNode::note_end(const Order& order) {
  if (order.kind == Order::Kind::RunFailed)
    run_failed_ = {.life = link_life(), .text = order.text, .is_ours = order.is_ours};
}

void WholeNode::ordered(const Order& order) {
  note_end(order);
  run_was_over_ = run_was_over_ || order.kind == Order::Kind::RunFailed ||
                  order.kind == Order::Kind::Closed || order.kind == Order::Kind::Over;
  play(agent_->on_order(order));
}

void WholeNode::flush() {
  if (!link()) return after(Duration{}, [this] { flushed(); });
  flush_ = ping();
  after(kGoodbyeLimit, [this] { flushed(); });
}

void WholeNode::flushed() {
  flush_.reset();
  play(agent_->on_left());
}

std::vector<FromAgent> WholeNode::introduction() { return membership_->introduction(); }

bool WholeNode::wants_another(std::string_view why) {
  if (flush_) {
    flushed();
    return false;
  }
  if (is_refused_) return false;
  play(membership_->on_lost(std::string(why), own_now()));
  return is_running();
}

void WholeNode::hear(FromCoordinator message) {
  if (const auto* pong = std::get_if<Pong>(&message)) {
    if (flush_ && pong->number >= *flush_) flushed();
    return;
  }
  if (const auto* refused = std::get_if<Refused>(&message)) is_refused_ = refused->lasting;
  if (const auto* stop = std::get_if<Stop>(&message)) last_stop_ = *stop;
  if (const auto* progress = std::get_if<Progress>(&message)) is_spare_ = progress->spare;
  play(membership_->on_message(std::move(message), own_now()));
}

}  // namespace regroup::sim
