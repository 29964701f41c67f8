#include "sim/node/whole_node.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/cases.h"

namespace regroup::sim {

using namespace core::coordinator;
using AgentEnding = core::agent::Ending;
using core::agent::GroupEnd;
using core::agent::JoinFailure;

WholeNode::WholeNode(const NodesPlan& plan, std::int32_t index, Broken broken,
                     SessionSurroundings& world, NodeSurroundings& work)
    : ConnectedNode(plan.session, index, world), nodes_plan_(plan), broken_(broken), work_(work) {}

std::optional<std::int64_t> WholeNode::runs() const {
  if (!workers_ || workers_->living() == 0) return {};
  return workers_->round();
}

void WholeNode::after(Duration own, std::function<void()> act) {
  ConnectedNode::after(own, std::move(act));
}

void WholeNode::violated(std::string what) {
  world_.invariants().violated(fmt::format("{}: {}", short_name(id()), what));
}

// ---- A process begins and ends ----

void WholeNode::start() {
  if (agent_) return;
  ++process_;
  tell("starts");
  const RunRules& rules = plan_.rules;
  agent_.emplace(core::agent::Settings{.max_restarts = static_cast<int>(rules.max_restarts),
                                       .stop_signal = 15,
                                       .grace = plan_.grace,
                                       .exit_limit = nodes_plan_.exit_limit,
                                       .coordinator_limit = kCoordinatorLimit,
                                       .decision_limit = kDecisionLimit + rules.heartbeat_limit,
                                       .signal_wait = kSignalWait});
  membership_.emplace(
      Hello{.run_id = "sim",
            .node = id(),
            .claim = {.name = self_.name, .wish = {}, .held = {}, .group = self_.group},
            .role = self_.role,
            .workers = self_.workers,
            .rules = rules},
      Membership::Settings{.join_timeout = nodes_plan_.join_timeout,
                           .rejoin_timeout = rules.rejoin_timeout,
                           .close_timeout = kGoodbyeLimit});
  begin_connecting();
  play(agent_->begin());
}

void WholeNode::forget() {
  agent_.reset();
  membership_.reset();
  workers_.reset();
  sealed_.reset();
  is_refused_ = false;
  flush_.reset();
  agent_armed_.reset();
  membership_armed_.reset();
  given_up_ = reported_ = is_spare_ = run_was_over_ = false;
  signal_ = code_ = restarts_ = 0;
  struck_at_.reset();
  joining_since_.reset();
  joined_for_.reset();
  last_group_.reset();
  last_stop_.reset();
  run_failed_.reset();
  disconnect();
}

void WholeNode::crash() {
  if (!agent_) return;
  tell("crashes");
  die();
  forget();
}

void WholeNode::signal(int number) {
  if (!agent_) return;
  tell(fmt::format("is told to stop by signal {}", number));
  signal_ = signal_ == 0 ? number : signal_;
  if (struck_at_ && own_now() - *struck_at_ < kSignalWait && reported_)
    violated("a worker that was stopped together with its node has been reported as a failure");
  play(agent_->on_signal({.number = number}, own_now()));
}

// As Ctrl-C and Slurm do: the signal comes to a worker, and in a moment to us.
void WholeNode::strike_worker(int number) {
  if (!workers_ || reported_) return;
  struck_at_ = own_now();
  if (!workers_->strike_one(number)) struck_at_.reset();
}

void WholeNode::fail_worker() {
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
      if (!agent_->verdict().text.empty() || code_ == 0) return 73;
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
                    .verdict = agent_->verdict().text,
                    .was_refused = is_refused_,
                    .run_was_over = run_was_over_,
                    .was_spare = is_spare_,
                    .joined_for = joined_for_};
  tell(fmt::format("ends with {}{}", end.exit_code, end.verdict.empty() ? "" : ": " + end.verdict));
  if (workers_ && workers_->living() > 0 && ending != AgentEnding::LeftBehind)
    violated("ends, and workers of it still run");
  if (ending == AgentEnding::Succeeded && last_group_ != GroupEnd::Succeeded)
    violated("ends well, and its workers have not");
  if (ending == AgentEnding::Signalled && signal_ == 0)
    violated("ends by a signal that never came");
  if (ending != AgentEnding::Signalled && ending != AgentEnding::LeftBehind && signal_ != 0 &&
      ending != AgentEnding::CouldNotStart && !is_refused_ && last_group_ != GroupEnd::Succeeded &&
      !run_failed_)
    violated(fmt::format("was told to stop by a signal, and ends with {}", end.exit_code));
  if (ending == AgentEnding::LeftBehind && last_group_ != GroupEnd::Survived)
    violated("says that workers are left, and none are");
  forget();
  work_.ended(index_, end);
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
              [this](const core::agent::Report&) { report(failure_text_, failed_rank_, code_); },
              [this](const core::agent::Ask&) {
                if (reported_) return;
                report(fmt::format("the workers of {} in round {} ended by nobody's order",
                                   short_name(id()), sealed_->round),
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

void WholeNode::join() {
  joining_since_ = world_.now();
  is_spare_ = false;
  after(dice_.between(Duration{}, Duration(3ms)), [this] {
    if (given_up_) return play(agent_->on_join_failed(JoinFailure::GivenUp));
    play(membership_->join({.address = self_.name, .port = 4711}, own_now()));
  });
}

// Workers that have succeeded are run again only if a worker of another node has failed in their
// round, or its members change. Whether that is true is looked at when the coordinator says so.
void WholeNode::must_have_a_reason() {
  if (last_group_ != GroupEnd::Succeeded) return;
  const bool is_told = last_stop_ && last_stop_->round == last_round_;
  const bool by_failure =
      is_told && last_stop_->why == Stop::Why::Failure && last_stop_->culprit != id();
  const bool by_members = is_told && last_stop_->why == Stop::Why::Members;
  if (!by_failure && !by_members)
    violated(fmt::format("its workers of round {} had succeeded, and are run again for no reason",
                         last_round_));
}

void WholeNode::start_workers(int restart_count) {
  const Sealed& sealed = *sealed_;
  if (auto wrong = work_.workers_began(index_, {.life = sealed_in_, .number = sealed.round}))
    violated(std::move(*wrong));
  must_have_a_reason();
  if (restart_count != static_cast<int>(sealed.restart_count))
    violated(fmt::format("its workers are told of restart {}, and it is {}", restart_count,
                         sealed.restart_count));
  if (restart_count < restarts_) violated("its restarts are counted backwards");
  restarts_ = restart_count;
  if (signal_ != 0) violated("starts workers though it was told to end");
  reported_ = false;
  struck_at_.reset();
  last_group_.reset();
  code_ = 0;
  workers_.reset();
  if (world_.is_stormy() && dice_.chance(0.003)) {
    tell("cannot start its workers");
    return play(agent_->on_start_failed());
  }
  tell(fmt::format("starts the workers of round {}", sealed.round));
  GroupSurroundings& here = *this;
  workers_.emplace(nodes_plan_,
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
  const std::string text = fmt::format("worker {} of {} failed in round {}", local_rank,
                                       short_name(id()), workers_->round());
  tell(text);
  failure_text_ = text;
  failed_rank_ = sealed_->ranks.base_global_rank + local_rank;
  play(agent_->on_worker_failed(own_now(), core::supervision::looks_signalled(code, "")));
  if (!agent_ || !workers_) return;
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
  last_round_ = workers_->round();
  workers_.reset();
  play(agent_->on_group_over(end, own_now()));
}

}  // namespace regroup::sim
