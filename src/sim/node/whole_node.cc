#include "sim/node/whole_node.h"

#include <algorithm>
#include <utility>

#include "base/cases.h"
#include "base/check.h"
#include "sim/session/session_words.h"
#include "wire/session/session.h"

namespace regroup::sim {

using namespace core::coordinator;
using AgentEnding = core::agent::Ending;
using core::agent::GroupEnd;
using core::agent::JoinFailure;
using core::agent::Order;

WholeNode::WholeNode(const NodesPlan& plan, std::int32_t index, Broken broken,
                     NodeSurroundings& world)
    : plan_(plan),
      self_(plan.session.nodes[static_cast<std::size_t>(index)]),
      index_(index),
      broken_(broken),
      world_(world),
      dice_(self_.seed) {}

core::rendezvous::NodeId WholeNode::id() const {
  return {.address = self_.name, .pid = process_, .local_id = 0};
}

std::optional<std::int64_t> WholeNode::runs() const {
  if (!workers_ || workers_->living() == 0) return {};
  return workers_->round();
}

Instant WholeNode::own_now() const { return self_.clock.read(world_.now()).instant; }

void WholeNode::after(Duration own, std::function<void()> act) {
  world_.later(index_, std::max(world_.now(), self_.clock.world_time_of(own_now() + own)),
               std::move(act));
}

void WholeNode::tell(std::string_view text) const {
  if (world_.trace().on()) world_.trace().line(world_.now(), short_name(id()), text);
}

void WholeNode::violated(std::string what) {
  world_.invariants().violated(short_name(id()) + ": " + std::move(what));
}

// ---- A process begins and ends ----

void WholeNode::start() {
  if (agent_) return;
  ++process_;
  tell("starts");
  const RunRules& rules = plan_.session.rules;
  agent_.emplace(core::agent::Settings{.max_restarts = static_cast<int>(rules.max_restarts),
                                       .stop_signal = 15,
                                       .grace = plan_.session.grace,
                                       .exit_limit = plan_.exit_limit,
                                       .coordinator_limit = kCoordinatorLimit,
                                       .decision_limit = kDecisionLimit + rules.heartbeat_limit});
  membership_.emplace(
      Hello{.run_id = "sim",
            .node = id(),
            .claim = {.name = self_.name, .wish = {}, .held = {}, .group = self_.group},
            .role = self_.role,
            .workers = self_.workers,
            .rules = rules},
      Membership::Settings{.join_timeout = plan_.join_timeout,
                           .rejoin_timeout = rules.rejoin_timeout,
                           .close_timeout = kGoodbyeLimit});
  retry_ = kFirstRetry;
  connecting_ = true;
  world_.connect(index_);
  play(agent_->begin());
}

void WholeNode::forget() {
  agent_.reset();
  membership_.reset();
  workers_.reset();
  sealed_.reset();
  connecting_ = false;
  is_refused_ = false;
  in_.clear();
  flush_.reset();
  agent_armed_.reset();
  membership_armed_.reset();
  given_up_ = reported_ = is_spare_ = run_was_over_ = has_order_ = false;
  signal_ = code_ = restarts_ = 0;
  joining_since_.reset();
  joined_for_.reset();
  last_group_.reset();
  run_failed_.reset();
  if (link_) world_.links().hang_up(*link_, End::Node);
  link_.reset();
}

void WholeNode::crash() {
  if (!agent_) return;
  tell("crashes");
  // The kernel closes the connection; if the whole machine is gone, nobody does.
  if (link_) world_.links().lose_end(*link_, End::Node, dice_.chance(0.7));
  link_.reset();
  forget();
}

void WholeNode::signal(int number) {
  if (!agent_) return;
  tell("is told to stop by signal " + std::to_string(number));
  signal_ = number;
  play(agent_->on_signal(number));
}

void WholeNode::kill_worker() {
  if (workers_) workers_->fail_one();
}

void WholeNode::be_done() {
  if (workers_ && workers_->is_running()) workers_->be_done();
}

int WholeNode::exit_code(AgentEnding ending) const {
  switch (ending) {
    case AgentEnding::Succeeded:
    case AgentEnding::NotNeeded:
      return 0;
    case AgentEnding::Failed:
      if (!agent_->verdict().empty() || code_ == 0) return 73;
      return code_ < 0 ? 128 - code_ : code_;
    case AgentEnding::Signalled:
      return 128 + signal_;
    case AgentEnding::CouldNotJoin:
      return 71;
    case AgentEnding::CouldNotStart:
      return 72;
    case AgentEnding::LeftBehind:
      return 70;
  }
  return 0;
}

void WholeNode::finish(AgentEnding ending) {
  const NodeEnd end{.id = id(),
                    .ending = ending,
                    .exit_code = exit_code(ending),
                    .run_failed = run_failed_,
                    .verdict = agent_->verdict(),
                    .was_refused = is_refused_,
                    .run_was_over = run_was_over_,
                    .was_spare = is_spare_,
                    .joined_for = joined_for_};
  tell("ends with " + std::to_string(end.exit_code) +
       (end.verdict.empty() ? "" : ": " + end.verdict));
  if (workers_ && workers_->living() > 0 && ending != AgentEnding::LeftBehind)
    violated("ends, and workers of it still run");
  if (ending == AgentEnding::Succeeded && last_group_ != GroupEnd::Succeeded)
    violated("ends well, and its workers have not");
  if (ending == AgentEnding::Signalled && signal_ == 0)
    violated("ends by a signal that never came");
  if (ending != AgentEnding::Signalled && ending != AgentEnding::LeftBehind && signal_ != 0 &&
      ending != AgentEnding::CouldNotStart && !is_refused_ && last_group_ != GroupEnd::Succeeded &&
      !run_failed_)
    violated("was told to stop by a signal, and ends with " + std::to_string(end.exit_code));
  if (ending == AgentEnding::LeftBehind && last_group_ != GroupEnd::Survived)
    violated("says that workers are left, and none are");
  forget();
  world_.ended(index_, end);
}

// ---- The agent's effects, as AgentHost plays them ----

void WholeNode::play(const core::agent::Effects& effects) {
  for (const core::agent::Effect& effect : effects) {
    if (!agent_) return;
    std::visit(
        Cases{[this](const core::agent::Join&) { join(); },
              [this](const core::agent::Start& order) { start_workers(order.restart_count); },
              [this](const core::agent::Stop& order) {
                if (broken_ == Broken::KeepsWorkers)
                  return play(agent_->on_group_over(GroupEnd::Stopped, own_now()));
                workers_->stop(order.signal, order.grace);
              },
              [this](const core::agent::Kill&) { workers_->kill(); },
              [this](const core::agent::GiveUpJoin&) {
                given_up_ = true;
                after(Duration{}, [this] { play(membership_->give_up_join()); });
              },
              [this](const core::agent::Ask&) {
                if (reported_) return;
                report("the workers of " + short_name(id()) + " in round " +
                           std::to_string(sealed_->round) + " ended by nobody's order",
                       sealed_->ranks.base_global_rank, -1);
              },
              [this](const core::agent::CheckIn& order) {
                if (order.succeeded != (last_group_ == GroupEnd::Succeeded))
                  violated("tells the others another end than that of its workers");
                play(membership_->done());
              },
              [this](const core::agent::Tell& told) { tell(told.text); },
              [](const core::agent::TellFailure&) {},
              [this](const core::agent::Leave& order) {
                if (order.close) tell("leaves, and closes the run if it is not over");
                play(membership_->leave(order.close, own_now()));
              },
              [this](const core::agent::Finish& end) { finish(end.ending); }},
        effect);
  }
  arm();
}

void WholeNode::join() {
  joining_since_ = world_.now();
  is_spare_ = false;
  after(dice_.between(Duration{}, Duration(3ms)), [this] {
    if (given_up_) return play(agent_->on_join_failed(JoinFailure::GivenUp));
    play(membership_->join({.address = self_.name, .port = 4711}, own_now()));
  });
}

void WholeNode::start_workers(int restart_count) {
  const Sealed& sealed = *sealed_;
  if (workers_ && workers_->living() > 0)
    violated("starts the workers of round " + std::to_string(sealed.round) +
             " beside those of round " + std::to_string(workers_->round()));
  if (last_group_ == GroupEnd::Succeeded && !has_order_)
    violated("its workers had succeeded, and are run again for no reason");
  if (restart_count != static_cast<int>(sealed.restart_count))
    violated("its workers are told of restart " + std::to_string(restart_count) + ", and it is " +
             std::to_string(sealed.restart_count));
  if (restart_count < restarts_) violated("its restarts are counted backwards");
  restarts_ = restart_count;
  if (signal_ != 0) violated("starts workers though it was told to end");
  reported_ = has_order_ = false;
  last_group_.reset();
  code_ = 0;
  workers_.reset();
  if (world_.is_stormy() && dice_.chance(0.003)) {
    tell("cannot start its workers");
    return play(agent_->on_start_failed());
  }
  tell("starts the workers of round " + std::to_string(sealed.round));
  GroupSurroundings& here = *this;
  workers_.emplace(plan_,
                   NodeWorkers::Place{.round = sealed.round,
                                      .first_rank = sealed.ranks.base_global_rank,
                                      .workers = self_.workers},
                   dice_.seed(), here);
  play(membership_->stalled({}));
  workers_->start();
  agent_->on_started();
}

void WholeNode::report(const std::string& text, std::int64_t rank, int code) {
  reported_ = true;
  world_.invariants().failed(id(), sealed_->round, text);
  play(membership_->failed({.rank = rank, .exit_code = code, .text = text}));
}

void WholeNode::worker_failed(int local_rank, int code) {
  code_ = code;
  const std::string text = "worker " + std::to_string(local_rank) + " of " + short_name(id()) +
                           " failed in round " + std::to_string(workers_->round());
  tell(text);
  report(text, sealed_->ranks.base_global_rank + local_rank, code);
  play(agent_->on_worker_failed(own_now()));
  world_.group_failed(index_, workers_->round());
}

void WholeNode::say_stalled(std::optional<core::hang::Votes> votes) {
  play(membership_->stalled(votes));
}

void WholeNode::say_where(std::vector<core::hang::RankAt> ours) {
  play(membership_->report(Where{.ranks = std::move(ours)}));
}

void WholeNode::group_over(GroupEnd end) {
  tell(end == GroupEnd::Succeeded  ? "its workers are done"
       : end == GroupEnd::Failed   ? "its workers have failed"
       : end == GroupEnd::Survived ? "a worker cannot be killed"
                                   : "its workers have stopped");
  last_group_ = end;
  has_order_ = has_order_ && end == GroupEnd::Succeeded;
  workers_.reset();
  play(agent_->on_group_over(end, own_now()));
}

// ---- The conversation, as CoordinatedRounds plays it ----

void WholeNode::play(Membership::Effects effects) {
  for (Membership::Effect& effect : effects) {
    if (!agent_) return;
    std::visit(Cases{[this](const Membership::Say& said) { say(said.message); },
                     [this](const Membership::Joined& joined) {
                       joined_for_.reset();
                       joining_since_.reset();
                       is_spare_ = false;
                       sealed_ = joined.sealed;
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
    run_failed_ = {.life = link_life_, .text = order.text, .is_ours = order.is_ours};
}

void WholeNode::ordered(const Order& order) {
  note_end(order);
  run_was_over_ = run_was_over_ || order.kind == Order::Kind::RunFailed ||
                  order.kind == Order::Kind::Closed || order.kind == Order::Kind::Over;
  has_order_ = has_order_ || order.kind != Order::Kind::None;
  play(agent_->on_order(order));
}

void WholeNode::arm() {
  if (!agent_) return;
  const auto wake = [this](std::optional<Instant>& armed, std::optional<Instant> next,
                           const std::function<void()>& act) {
    if (armed == next) return;
    armed = next;
    if (!next) return;
    after(std::max(*next - own_now(), Duration{}), [&armed, next, act] {
      if (armed != next) return;
      armed.reset();
      act();
    });
  };
  wake(agent_armed_, agent_->next_deadline(), [this] { play(agent_->on_time(own_now())); });
  wake(membership_armed_, membership_->next_deadline(),
       [this] { play(membership_->on_time(own_now())); });
}

void WholeNode::say(const FromAgent& message) {
  if (!link_) return;  // The introduction says again what matters.
  if (!std::holds_alternative<Ping>(message) && world_.trace().on())
    tell("says " + in_words(message));
  ByteBuffer out;
  wire::append_frame(out, message);
  world_.links().send(*link_, End::Node, std::string(out.view()));
}

void WholeNode::flush() {
  if (!link_) return after(Duration{}, [this] { flushed(); });
  flush_ = ++pings_;
  say(Ping{*flush_});
  after(kGoodbyeLimit, [this] { flushed(); });
}

void WholeNode::flushed() {
  flush_.reset();
  play(agent_->on_left());
}

// ---- The connection ----

void WholeNode::on_connected(LinkId link) {
  CHECK(agent_ && !link_);
  connecting_ = false;
  link_ = link;
  link_life_ = world_.life();
  in_.clear();
  heard_ = own_now();
  for (const FromAgent& message : membership_->introduction()) say(message);
  look_at_connection(link);
}

void WholeNode::on_unreachable() {
  retry_ = std::min<Duration>(retry_ * 2, kLongestRetry);
  after(dice_.between(retry_ / 2, retry_), [this] { world_.connect(index_); });
}

void WholeNode::lose_connection(std::string_view why) {
  tell(why);
  world_.links().hang_up(*link_, End::Node);
  link_.reset();
  if (flush_) return flushed();
  if (is_refused_) return;
  play(membership_->on_lost(std::string(why), own_now()));
  if (!agent_ || connecting_) return;
  connecting_ = true;
  retry_ = kFirstRetry;
  after(dice_.between(Duration(1ms), retry_), [this] { world_.connect(index_); });
}

void WholeNode::look_at_connection(LinkId link) {
  after(plan_.session.rules.heartbeat_limit / 3, [this, link] {
    if (link_ != link) return;
    if (own_now() - heard_ > plan_.session.rules.heartbeat_limit)
      return lose_connection("has not heard from the coordinator");
    say(Ping{++pings_});
    look_at_connection(link);
  });
}

void WholeNode::on_bytes(LinkId link, std::string_view bytes) {
  if (link_ != link) return;
  if (bytes.empty()) return lose_connection("has lost its connection");
  heard_ = own_now();
  in_.append(bytes);
  while (link_ == link) {
    auto parsed = wire::parse_frame_from_coordinator(in_.view());
    auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&parsed);
    if (whole == nullptr) {
      CHECK(std::holds_alternative<wire::NeedMore>(parsed));
      return;
    }
    in_.consume(whole->size);
    hear(std::move(whole->message));
  }
}

void WholeNode::hear(FromCoordinator message) {
  retry_ = kFirstRetry;
  world_.invariants().heard(id(), message);
  if (const auto* pong = std::get_if<Pong>(&message)) {
    if (flush_ && pong->number >= *flush_) flushed();
    return;
  }
  if (const auto* refused = std::get_if<Refused>(&message)) is_refused_ = refused->lasting;
  if (const auto* progress = std::get_if<Progress>(&message)) is_spare_ = progress->spare;
  play(membership_->on_message(std::move(message), own_now()));
}

}  // namespace regroup::sim
