#include "sim/world/node.h"

#include <algorithm>
#include <utility>

#include "sim/world/codec.h"

namespace regroup::sim {

using core::rendezvous::Claim;
using core::rendezvous::Done;
using core::rendezvous::Executor;
using core::rendezvous::NodeId;
using core::rendezvous::Operation;
using core::rendezvous::Read;
using core::rendezvous::Rest;
using core::rendezvous::Settings;
using core::rendezvous::Snapshot;
using core::rendezvous::Step;
using core::rendezvous::Swap;

namespace {

// A node looks 30 times a second at most, and its tries to swap come on top of that.
constexpr std::int64_t kMostRequestsPerSecond = 120;

std::optional<Snapshot> snapshot(const Answer& answer) {
  if (!answer.value || !answer.value->state) return std::nullopt;
  return Snapshot{.state = *answer.value->state, .token = answer.value->bytes};
}

}  // namespace

Node::Node(const Plan& plan, std::int32_t index, const Settings& settings, Surroundings& world)
    : plan_(plan.nodes[static_cast<std::size_t>(index)]),
      settings_(settings),
      restart_delay_(plan.restart_delay),
      tries_again_(plan.weather.tries_again),
      index_(index),
      world_(world),
      clock_(plan_.clock),
      dice_(plan_.seed) {}

void Node::say(std::string_view text) const {
  world_.trace().line(world_.now(), short_name(id_), text);
}

void Node::start() {
  if (doing_ != Doing::Nothing) return;
  process_ += 1;
  id_ = NodeId{.address = plan_.name, .pid = process_, .local_id = 0};
  say("starts");
  if (plan_.torchrun) {
    hand_.emplace(std::in_place_type<TorchrunExecutor>, settings_, id_);
  } else {
    hand_.emplace(std::in_place_type<Executor>, settings_, id_,
                  Claim{.name = plan_.name, .wish = plan_.wish, .held = {}}, dice_.seed());
  }
  wish_ = Wish::None;
  last_seen_ = {};
  workers_fail_.reset();
  make_key();
}

void Node::crash() {
  if (!running()) return;
  say("is killed");
  stop(std::nullopt);
}

void Node::leave(Duration come_back) {
  if (!running()) return;
  say("is told to leave");
  wish_ = Wish::Leave;
  come_back_ = come_back;
  if (waiting_ == Waiting::Rest || waiting_ == Waiting::Timer) follow_wish();
}

void Node::close() {
  if (!running()) return;
  say("is told to close the run");
  wish_ = Wish::Close;
  if (waiting_ == Waiting::Rest || waiting_ == Waiting::Timer) follow_wish();
}

void Node::fail_workers() {
  if (doing_ != Doing::Training || waiting_ != Waiting::Timer) return;
  say("has a worker that failed");
  rendezvous();
}

bool Node::follow_wish() {
  if (wish_ == Wish::None || doing_ == Doing::Leave || doing_ == Doing::Close ||
      doing_ == Doing::MakingKey)
    return false;
  world_.invariants().on_left(seat());
  if (wish_ == Wish::Leave) {
    begin(Doing::Leave, Operation::Leave, settings_.close_timeout);
  } else {
    begin(Doing::Close, Operation::Close, settings_.close_timeout);
  }
  return true;
}

void Node::make_key() {
  doing_ = Doing::MakingKey;
  ask(Ask::MakeKey, "", kNoState);
}

void Node::rendezvous() {
  world_.invariants().on_left(seat());
  workers_fail_.reset();
  if (plan_.exits_first) return begin(Doing::Exit, Operation::Exit, settings_.join_timeout);
  begin(Doing::Join, Operation::Join, settings_.join_timeout);
}

void Node::begin(Doing doing, Operation operation, Duration limit) {
  doing_ = doing;
  if (doing == Doing::Join) join_counts_from_ = clock().instant;
  Step step = std::visit([&](auto& hand) { return hand.begin(operation, limit, clock()); }, *hand_);
  note_if_spare();
  carry_out(std::move(step));
}

void Node::note_if_spare() {
  if (std::visit([&](auto& hand) { return hand.state().redundancy_list.contains(id_); }, *hand_))
    join_counts_from_ = clock().instant;
}

void Node::carry_out(Step step) {
  if (step.phase_left && !plan_.torchrun) world_.announce(index_, *step.phase_left);
  if (std::holds_alternative<Read>(step.what)) {
    ask(Ask::Get, {}, {});
  } else if (auto* swap = std::get_if<Swap>(&step.what)) {
    ask(Ask::Swap, swap->token.value_or(kNoState), encoded(swap->state));
  } else if (auto* pause = std::get_if<Rest>(&step.what)) {
    rest(*pause);
  } else {
    on_done(std::get<Done>(step.what).outcome);
  }
}

void Node::ask(Ask what, std::string expected, std::string desired) {
  waiting_ = Waiting::Answer;
  wait_ += 1;
  const Instant now = world_.now();
  if (now - busy_since_ > 1s) {
    busy_since_ = now;
    busy_requests_ = 0;
  }
  if (++busy_requests_ > kMostRequestsPerSecond && !plan_.torchrun)
    world_.invariants().on_busy(id_, busy_requests_);
  world_.ask(std::make_shared<Request>(Request{.ask = what,
                                               .node = index_,
                                               .process = process_,
                                               .wait = wait_,
                                               .sent = now,
                                               .writer = id_,
                                               .expected = std::move(expected),
                                               .desired = std::move(desired)}));
}

void Node::rest(const Rest& rest) {
  if (follow_wish()) return;
  waiting_ = Waiting::Rest;
  wait_ += 1;
  phase_ = rest.phase;
  world_.wake_at(index_, process_, wait_, clock_.world_time_of(rest.until), phase_);
}

void Node::sleep_until(Instant own) {
  if (follow_wish()) return;
  waiting_ = Waiting::Timer;
  wait_ += 1;
  const Instant at = std::max(clock_.world_time_of(own), world_.now());
  world_.wake_at(index_, process_, wait_, at, {});
}

void Node::on_answer(const Request& request, const Answer& answer) {
  waiting_ = Waiting::Nothing;
  if (doing_ == Doing::MakingKey) return rendezvous();
  last_seen_ = answer;
  Step step = std::visit(
      [&](auto& hand) {
        if (request.ask == Ask::Get) return hand.on_read(snapshot(answer), clock());
        if (answer.won) return hand.on_won(request.desired, clock());
        return hand.on_lost(snapshot(answer), clock());
      },
      *hand_);
  // A lost swap may leave it with the state that it had seen before.
  if (request.ask == Ask::Get || answer.won) note_if_spare();
  carry_out(std::move(step));
}

void Node::on_overdue() {
  waiting_ = Waiting::Nothing;
  say("gets no answer");
  if (doing_ == Doing::MakingKey) return sleep_until(clock().instant + 1s);
  carry_out(std::visit([&](auto& hand) { return hand.on_unreachable(clock()); }, *hand_));
}

void Node::on_wake() {
  const bool rested = waiting_ == Waiting::Rest;
  waiting_ = Waiting::Nothing;
  if (doing_ == Doing::MakingKey) return make_key();
  if (!rested) return tick();
  carry_out(std::visit([&](auto& hand) { return hand.on_rested(clock()); }, *hand_));
}

}  // namespace regroup::sim
