#include "sim/session/session_node.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace regroup::sim {

using namespace core::coordinator;

SessionNode::SessionNode(const SessionPlan& plan, std::int32_t index, Broken broken,
                         SessionSurroundings& world)
    : ConnectedNode(plan, index, world), broken_(broken) {}

std::optional<std::int64_t> SessionNode::runs() const {
  if (!group_) return {};
  return group_->round;
}

SessionView SessionNode::view() const {
  return {.id = id(), .workers = self_.workers, .runs = runs()};
}

void SessionNode::start() {
  if (member_ || ended_) return;
  ++process_;
  tell("starts");
  member_.emplace(Hello{.run_id = "sim",
                        .node = id(),
                        .claim = {.name = self_.name,
                                  .wish = {},
                                  .held = {},
                                  .group = broken_ == Broken::MixesGroups ? "all" : self_.group},
                        .role = self_.role,
                        .workers = self_.workers,
                        .rules = plan_.rules});
  begun_.reset();
  join();
  begin_connecting();
}

void SessionNode::end(std::string_view why, bool for_good) {
  tell(why);
  ended_ = ended_ || for_good;
  member_.reset();
  group_.reset();
  disconnect();
}

void SessionNode::crash() {
  if (!member_) return;
  die();
  end("crashes", false);
}

void SessionNode::leave(bool close) {
  if (!member_) return;
  group_.reset();
  say(member_->leave(close ? "closed by a person" : "", close));
  end(close ? "closes the run" : "leaves", false);
}

std::vector<FromAgent> SessionNode::introduction() { return member_->introduction(); }

void SessionNode::hear(FromCoordinator message) {
  member_->on_message(message);
  follow();
}

void SessionNode::follow() {
  if (!member_) return;
  const Member& told = *member_;
  if (told.refused() && told.refused()->lasting) return end("was refused", true);
  if (told.over()) {
    if (group_) return stop_workers();  // It was lost meanwhile.
    return end("ends: the run has succeeded", true);
  }
  if (told.end()) {
    if (group_) return stop_workers();
    return end("ends: " + told.end()->text, true);
  }
  if (told.joining()) return;
  if (told.sealed() && begun_ != told.sealed()->round) start_workers();
  if (!told.stop()) return;
  if (group_ && broken_ != Broken::KeepsWorkers) return stop_workers();
  join();
}

void SessionNode::join() { say(member_->join({.address = self_.name, .port = 4711})); }

void SessionNode::start_workers() {
  const Sealed& sealed = *member_->sealed();
  world_.invariants().workers_started(view(), sealed.round);
  begun_ = sealed.round;
  group_ = Group{.round = sealed.round, .number = ++groups_};
  if (world_.trace().on()) tell(fmt::format("starts the workers of round {}", sealed.round));
  plan_fortune();
}

void SessionNode::plan_fortune() {
  const Fortune& fortune = plan_.fortune;
  const bool fails = dice_.chance(fortune.fails);
  const bool succeeds = dice_.chance(fortune.succeeds);
  if (!fails && !succeeds) return;
  const Duration within = fails ? fortune.fails_within : fortune.succeeds_within;
  after(dice_.between(Duration{}, within), [this, fails, number = groups_] {
    if (!group_ || group_->number != number || !world_.is_stormy()) return;
    if (fails) return fail_worker();
    succeed();
  });
}

void SessionNode::fail_worker() {
  if (!is_training()) return;
  const Sealed& sealed = *member_->sealed();
  const std::int64_t local = dice_.between(0, self_.workers - 1);
  const std::string text =
      fmt::format("worker {} of {} failed in round {}", local, short_name(id()), group_->round);
  world_.invariants().failed(id(), group_->round, text);
  tell(text);
  say(member_->failed({.rank = sealed.ranks.base_global_rank + local,
                       .node = self_.name,
                       .exit_code = 1,
                       .text = text}));
  world_.group_failed(index_, group_->round);
  stop_workers();
}

void SessionNode::succeed() {
  if (!is_training()) return;
  tell("is done");
  group_.reset();
  // With nodes that have no session it waits at the exit, where they come, and does not say so.
  if (member_->sealed()->by_session) say(member_->done());
}

void SessionNode::stop_workers() {
  if (group_->stopping) return;
  group_->stopping = true;
  Duration takes = dice_.chance(0.5) ? Duration{} : dice_.between(Duration{}, Duration(500ms));
  if (dice_.chance(plan_.fortune.stops_slowly)) takes = dice_.between(Duration{}, plan_.grace);
  after(takes, [this, number = group_->number] {
    if (!group_ || group_->number != number) return;
    tell("its workers have stopped");
    group_.reset();
    follow();
  });
}

}  // namespace regroup::sim
