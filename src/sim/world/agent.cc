// What a node's agent does when an operation has ended.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/world/node.h"

namespace regroup::sim {

using core::rendezvous::Operation;
using core::rendezvous::Outcome;
using core::rendezvous::Standing;
using core::rendezvous::State;

namespace {

constexpr Duration kLook = 1s;

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::Finished:
      return "finished";
    case Outcome::Closed:
      return "the run is closed";
    case Outcome::TimedOut:
      return "timed out";
    case Outcome::NotNeeded:
      return "not needed";
    case Outcome::Unreachable:
      return "the store does not answer";
  }
  return "";
}

}  // namespace

void Node::tick() {
  doing_ = Doing::Training;
  const Instant now = clock().instant;
  if (now >= next_beat_) {
    begin(Doing::Beat, Operation::KeepAlive, settings_.heartbeat_timeout);
  } else if (now >= next_look_) {
    next_look_ = now + kLook;
    begin(Doing::Look, Operation::Look, settings_.heartbeat_timeout);
  } else {
    sleep_until(std::min(next_beat_, next_look_));
  }
}

void Node::on_done(Outcome outcome) {
  const bool finished = outcome == Outcome::Finished;
  switch (doing_) {
    case Doing::Exit:
      return finished ? begin(Doing::Join, Operation::Join, settings_.join_timeout)
                      : on_failed(outcome);
    case Doing::Join:
      if (outcome == Outcome::Closed || outcome == Outcome::NotNeeded)
        return end(to_string(outcome));
      return finished ? on_joined() : on_failed(outcome);
    case Doing::Look:
      if (!finished && plan_.torchrun) return on_failed(outcome);
      return finished ? on_seen() : tick();
    case Doing::Beat:
      // An interval after the end of the last one, as torchrun's timer and ours count: an interval
      // after its beginning would find it not due, and skip every other heartbeat.
      next_beat_ = clock().instant + settings_.keep_alive_interval;
      return tick();
    case Doing::Leave:
      say(finished ? "has left" : "goes without having left");
      return stop(come_back_);
    case Doing::Close:
      if (finished) return end("it has closed the run");
      // torchrun tries once, and ends; its store may be gone for good.
      if (plan_.torchrun) return on_failed(outcome);
      return begin(Doing::Close, Operation::Close, settings_.close_timeout);
    case Doing::Nothing:
    case Doing::MakingKey:
    case Doing::Training:
    case Doing::Ended:
      CHECK(!"an operation that was begun");
  }
}

void Node::on_joined() {
  const State& joined =
      std::visit([](auto& hand) -> const State& { return hand.joined(); }, *hand_);
  if (world_.trace().on()) say("trains in " + describe(joined, settings_));
  world_.invariants().on_joined(seat(), id_, joined);
  const Instant now = clock().instant;
  next_look_ = now + kLook;
  // Soon after joining: the last heartbeat of the join may be an interval old already.
  next_beat_ = now + settings_.keep_alive_interval / plan_.first_beat;
  doing_ = Doing::Training;
  tick();
}

bool Node::should_meet_again(std::string& why) {
  const Standing standing = std::visit([](auto& hand) { return hand.standing(); }, *hand_);
  if (standing.waiting > 0) {
    why = "somebody waits";
    return true;
  }
  if (!plan_.torchrun) {
    why = !standing.member ? "it was dropped" : "its round is no longer whole";
    return !standing.member || !standing.whole;
  }
  // torchrun does not look whether its peers are there. Its workers hang or fail without them.
  const Instant now = clock().instant;
  if (!world_.peers_gone(index_)) {
    workers_fail_.reset();
  } else if (!workers_fail_) {
    workers_fail_ = now + dice_.between(Duration(0), Duration(8s));
  }
  why = "its workers have failed";
  return workers_fail_ && now >= *workers_fail_;
}

void Node::on_seen() {
  const bool closed =
      std::visit([](auto& hand) { return hand.standing().closed; }, *hand_) && !plan_.torchrun;
  if (closed) return end("the run is closed");
  if (!plan_.torchrun) report_condemned();
  std::string why;
  if (!should_meet_again(why)) return tick();
  if (world_.trace().on()) say("stops its workers: " + why);
  rendezvous();
}

// It takes for dead the nodes that are in the state it was given, and not in its own view.
void Node::report_condemned() {
  if (!last_seen_.value || !last_seen_.value->state) return;
  const State& view = std::visit([](auto& hand) -> const State& { return hand.state(); }, *hand_);
  for (const auto& [node, stamp] : last_seen_.value->state->last_heartbeats)
    if (!view.last_heartbeats.contains(node))
      world_.invariants().on_condemned(id_, node, last_seen_.at);
}

void Node::on_failed(Outcome outcome) {
  if (world_.trace().on()) say(fmt::format("fails: {}", to_string(outcome)));
  if (doing_ == Doing::Join && !plan_.torchrun)
    world_.invariants().on_join_timed_out(id_, clock().instant - join_counts_from_);
  if (wish_ == Wish::None && dice_.chance(tries_again_)) {
    say("tries again");
    return rendezvous();
  }
  stop(dice_.between(Duration(100ms), restart_delay_));
}

void Node::stop(std::optional<Duration> start_again) {
  world_.invariants().on_left(seat());
  doing_ = Doing::Nothing;
  waiting_ = Waiting::Nothing;
  if (start_again) world_.start_after(index_, *start_again);
}

void Node::end(std::string_view why) {
  if (world_.trace().on()) say("ends: " + std::string(why));
  stop(std::nullopt);
  doing_ = Doing::Ended;
}

}  // namespace regroup::sim
