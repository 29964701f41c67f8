#include "sim/session/connected_node.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/session/session_words.h"
#include "wire/session/session.h"

namespace regroup::sim {

using namespace core::coordinator;

ConnectedNode::ConnectedNode(const SessionPlan& plan, std::int32_t index,
                             SessionSurroundings& world)
    : plan_(plan),
      self_(plan.nodes[static_cast<std::size_t>(index)]),
      index_(index),
      world_(world),
      dice_(self_.seed) {}

core::rendezvous::NodeId ConnectedNode::id() const {
  return {.address = self_.name, .pid = process_, .local_id = 0};
}

void ConnectedNode::tell(std::string_view text) const {
  if (world_.trace().on()) world_.trace().line(world_.now(), short_name(id()), text);
}

void ConnectedNode::after(Duration own, std::function<void()> act) {
  world_.later(index_, std::max(world_.now(), self_.clock.world_time_of(own_now() + own)),
               std::move(act));
}

void ConnectedNode::begin_connecting() {
  retry_ = kFirstRetry;
  connecting_ = true;
  world_.connect(index_);
}

void ConnectedNode::disconnect() {
  connecting_ = false;
  in_.clear();
  if (link_) world_.links().hang_up(*link_, End::Node);
  link_.reset();
}

void ConnectedNode::die() {
  // The kernel closes the connection; if the whole machine is gone, nobody does.
  if (link_) world_.links().lose_end(*link_, End::Node, dice_.chance(0.7));
  link_.reset();
  disconnect();
}

void ConnectedNode::say(const FromAgent& message) {
  if (!link_) return;  // The introduction says again what matters.
  if (!std::holds_alternative<Ping>(message) && world_.trace().on())
    tell("says " + in_words(message));
  ByteBuffer out;
  wire::append_frame(out, message);
  world_.links().send(*link_, End::Node, std::string(out.view()));
}

std::uint64_t ConnectedNode::ping() {
  say(Ping{++pings_});
  return pings_;
}

void ConnectedNode::on_connected(LinkId link) {
  CHECK(is_running() && !link_);
  connecting_ = false;
  link_ = link;
  link_life_ = world_.life();
  in_.clear();
  heard_ = own_now();
  for (const FromAgent& message : introduction()) say(message);
  look_at_connection(link);
}

void ConnectedNode::on_unreachable() {
  retry_ = std::min<Duration>(retry_ * 2, kLongestRetry);
  after(dice_.between(retry_ / 2, retry_), [this] { world_.connect(index_); });
}

void ConnectedNode::lose_connection(std::string_view why) {
  tell(why);
  world_.links().hang_up(*link_, End::Node);
  link_.reset();
  if (!wants_another(why) || connecting_) return;
  connecting_ = true;
  retry_ = kFirstRetry;
  after(dice_.between(Duration(1ms), retry_), [this] { world_.connect(index_); });
}

// Three pings in the heartbeat limit. A coordinator that says nothing for so long is lost.
void ConnectedNode::look_at_connection(LinkId link) {
  after(plan_.rules.heartbeat_limit / 3, [this, link] {
    if (link_ != link) return;
    if (own_now() - heard_ > plan_.rules.heartbeat_limit)
      return lose_connection("has not heard from the coordinator");
    ping();
    look_at_connection(link);
  });
}

void ConnectedNode::on_bytes(LinkId link, std::string_view bytes) {
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
    retry_ = kFirstRetry;
    world_.invariants().heard(id(), whole->message);
    hear(std::move(whole->message));
  }
}

}  // namespace regroup::sim
