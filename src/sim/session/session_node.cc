#include "sim/session/session_node.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/session/session_words.h"
#include "wire/session/session.h"

namespace regroup::sim {

using namespace core::coordinator;

SessionNode::SessionNode(const SessionPlan& plan, std::int32_t index, Broken broken,
                         SessionSurroundings& world)
    : plan_(plan),
      self_(plan.nodes[static_cast<std::size_t>(index)]),
      index_(index),
      broken_(broken),
      world_(world),
      dice_(self_.seed) {}

core::rendezvous::NodeId SessionNode::id() const {
  return {.address = self_.name, .pid = process_, .local_id = 0};
}

std::optional<std::int64_t> SessionNode::runs() const {
  if (!group_) return {};
  return group_->round;
}

SessionView SessionNode::view() const {
  return {.id = id(), .workers = self_.workers, .runs = runs()};
}

void SessionNode::tell(std::string_view text) const {
  world_.trace().line(world_.now(), short_name(id()), text);
}

Instant SessionNode::own_now() const { return self_.clock.read(world_.now()).instant; }

void SessionNode::after(Duration own, std::function<void()> act) {
  world_.later(index_, std::max(world_.now(), self_.clock.world_time_of(own_now() + own)),
               std::move(act));
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
  retry_ = kFirstRetry;
  join();
  connecting_ = true;
  world_.connect(index_);
}

void SessionNode::end(std::string_view why, bool for_good) {
  tell(why);
  ended_ = ended_ || for_good;
  member_.reset();
  group_.reset();
  connecting_ = false;
  in_.clear();
  if (link_) world_.links().hang_up(*link_, End::Node);
  link_.reset();
}

void SessionNode::crash() {
  if (!member_) return;
  // The kernel closes the connection; if the whole machine is gone, nobody does.
  if (link_) world_.links().lose_end(*link_, End::Node, dice_.chance(0.7));
  link_.reset();
  end("crashes", false);
}

void SessionNode::leave(bool close) {
  if (!member_) return;
  group_.reset();
  say(member_->leave(close ? "closed by a person" : "", close));
  end(close ? "closes the run" : "leaves", false);
}

void SessionNode::say(const FromAgent& message) {
  if (!link_) return;  // The introduction says it again.
  if (!std::holds_alternative<Ping>(message) && world_.trace().on())
    tell("says " + in_words(message));
  ByteBuffer out;
  wire::append_frame(out, message);
  world_.links().send(*link_, End::Node, std::string(out.view()));
}

void SessionNode::on_connected(LinkId link) {
  CHECK(member_ && !link_);
  connecting_ = false;
  link_ = link;
  in_.clear();
  heard_ = own_now();
  for (const FromAgent& message : member_->introduction()) say(message);
  look_at_connection(link);
}

void SessionNode::on_unreachable() {
  retry_ = std::min<Duration>(retry_ * 2, kLongestRetry);
  after(dice_.between(retry_ / 2, retry_), [this] { world_.connect(index_); });
}

void SessionNode::lose_connection(std::string_view why) {
  tell(why);
  world_.links().hang_up(*link_, End::Node);
  link_.reset();
  if (connecting_) return;
  connecting_ = true;
  retry_ = kFirstRetry;
  after(dice_.between(Duration(1ms), retry_), [this] { world_.connect(index_); });
}

// Three pings in the heartbeat limit; a coordinator of whom nothing is heard for so long is lost.
void SessionNode::look_at_connection(LinkId link) {
  after(plan_.rules.heartbeat_limit / 3, [this, link] {
    if (link_ != link) return;
    if (own_now() - heard_ > plan_.rules.heartbeat_limit)
      return lose_connection("has not heard from the coordinator");
    say(Ping{++pings_});
    look_at_connection(link);
  });
}

void SessionNode::on_bytes(LinkId link, std::string_view bytes) {
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
    hear(whole->message);
  }
}

void SessionNode::hear(const FromCoordinator& message) {
  retry_ = kFirstRetry;
  world_.invariants().heard(id(), message);
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
  if (world_.trace().on()) tell("starts the workers of round " + std::to_string(sealed.round));
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
  const std::string text = "worker " + std::to_string(local) + " of " + short_name(id()) +
                           " failed in round " + std::to_string(group_->round);
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
  // With nodes that have no session it waits at the exit, where they come, and tells nobody else.
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
