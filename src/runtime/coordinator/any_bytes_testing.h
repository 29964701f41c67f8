// Drives a coordinator with whatever bytes say: sessions come and go, messages are sent, states are
// swapped in, time passes. Nothing may end the coordinator, keep it busy, or make it say what its
// peers cannot read.
//
// Each step is one byte and what it needs. Messages and states are valid ones: what is made here of
// small numbers, so that steps meet each other, goes through the bytes of the wire; whole frames
// and pickles may come as they are, too.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/byte_buffer.h"
#include "base/check.h"
#include "core/coordinator/coordinator.h"
#include "core/run/run_rules.h"
#include "wire/rendezvous/rendezvous_state.h"
#include "wire/session/run_status.h"
#include "wire/session/session.h"

namespace regroup::runtime {

// What is left of the bytes; zeros follow their end.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  bool at_end() const { return bytes_.empty(); }
  std::string_view rest() const { return bytes_; }
  void skip(std::size_t size) { bytes_.remove_prefix(std::min(size, bytes_.size())); }

  std::uint8_t next() {
    if (bytes_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return value;
  }
  bool flag() { return (next() & 1) != 0; }
  std::int64_t below(std::int64_t bound) { return next() % bound; }
  // Mostly near `usual`, now and then as far away as the protocols allow.
  std::int64_t near(std::int64_t usual) {
    static constexpr std::int64_t kMost = std::int64_t{1} << 62;
    static constexpr std::int64_t kFar[] = {0, 1, std::int64_t{1} << 31, kMost - 1, kMost};
    const std::uint8_t which = next();
    if (which < 128) return usual;
    if (which < 240) return std::clamp<std::int64_t>(usual + which % 8 - 4, 0, kMost);
    return kFar[which % std::size(kFar)];
  }
  std::string text() {
    static constexpr std::string_view kTexts[] = {"a", "b", "c", "d", "", "\n\x1b[31m", "\xff\xfe"};
    const std::uint8_t which = next();
    if (which == 255) return std::string(4096, 'x');
    return std::string(kTexts[which % std::size(kTexts)]);
  }
  Duration time() {
    static constexpr Duration kTimes[] = {0s,  1ms, 100ms, 1s,  5s,
                                          30s, 1h,  1us,   10s, core::rendezvous::kLongest};
    return kTimes[next() % std::size(kTimes)];
  }

 private:
  std::string_view bytes_;
};

class AnyBytes {
 public:
  explicit AnyBytes(std::string_view bytes) : bytes_(bytes), rules_(some_rules()) {
    std::optional<core::rendezvous::State> present;
    if (bytes_.flag()) present = through_the_wire(some_state({}));
    machine_.emplace("r", rules_, std::move(present), now_);
  }

  void play() {
    for (int steps = 0; steps < kSteps && !bytes_.at_end(); ++steps) {
      step();
      take_effects();
    }
    // What was left behind is over some day, or nothing more happens by itself.
    pass(1h);
    look();
  }

 private:
  using SessionId = core::coordinator::SessionId;
  using State = core::rendezvous::State;
  using NodeId = core::rendezvous::NodeId;

  static constexpr int kSteps = 300;
  static constexpr std::size_t kPeers = 6;

  void step() {
    switch (bytes_.next() % 8) {
      case 0:
      case 1:
        return say(some_message());
      case 2:
        return hello(some_hello());
      case 3:
        return swap(through_the_wire(some_state(machine_->state_for_others(now_))));
      case 4:
        return pass(std::min<Duration>(bytes_.time(), 1h));
      case 5:
        return close(some_peer());
      case 6:
        return take_frame();
      case 7:
        return bytes_.flag() ? look() : take_pickle();
    }
  }

  RunRules some_rules() {
    RunRules rules;
    rules.min_nodes = 1 + bytes_.below(4);
    rules.max_nodes = bytes_.near(rules.min_nodes + bytes_.below(3));
    rules.last_call = bytes_.time();
    rules.heartbeat_limit = bytes_.time();
    rules.reconnect_grace = bytes_.time();
    rules.max_restarts = bytes_.near(3);
    rules.restart_window = bytes_.time();
    rules.per_node = bytes_.flag();
    rules.crash_loop = bytes_.near(0);
    rules.node_strikes = bytes_.below(3);
    if (bytes_.flag()) rules.max_membership_changes = bytes_.near(2);
    if (bytes_.below(4) == 1) {
      rules.segment = 1 + bytes_.below(2);
      rules.min_nodes *= rules.segment;
    }
    rules.max_nodes = std::max(rules.max_nodes, rules.min_nodes);
    if (rules.segment > 0) rules.max_nodes -= rules.max_nodes % rules.segment;
    // A run that cannot be is refused by the host.
    if (!core::run::why_impossible(rules).empty()) return {};
    return rules;
  }

  std::size_t some_peer() { return static_cast<std::size_t>(bytes_.below(kPeers)); }
  NodeId some_node() {
    return {.address = bytes_.text(), .pid = bytes_.below(2), .local_id = bytes_.near(0)};
  }
  // One that a pickle can hold.
  NodeId other_node() {
    NodeId node = some_node();
    if (node.address.size() > 8 || node.address.starts_with('\xff')) node.address = "t";
    return node;
  }
  std::int64_t some_round() { return bytes_.near(machine_ ? machine_->state().round : 0); }

  core::coordinator::Hello some_hello() {
    core::coordinator::Hello hello;
    hello.run_id = "r";
    hello.node = some_node();
    hello.claim.name = bytes_.text();
    if (bytes_.flag()) hello.claim.wish = bytes_.near(0);
    if (bytes_.flag()) hello.claim.held = some_place();
    hello.claim.group = bytes_.text();
    hello.role = bytes_.text();
    hello.workers = std::clamp<std::int64_t>(bytes_.near(1), 1, std::int64_t{1} << 31);
    hello.rules = rules_;
    if (bytes_.below(8) == 1) hello.rules.segment = bytes_.below(3);
    if (bytes_.flag())
      hello.running = core::coordinator::Running{
          .place = some_place(), .restart_count = bytes_.near(1), .done = bytes_.flag()};
    hello.restarts = bytes_.near(1);
    hello.again = bytes_.flag();
    return hello;
  }

  core::rendezvous::HeldRank some_place() {
    return {.round = some_round(), .rank = bytes_.near(0), .world_size = bytes_.near(2)};
  }

  core::coordinator::FromAgent some_message() {
    using namespace core::coordinator;
    switch (bytes_.next() % 8) {
      case 0:
      case 1:
        return Join{.number = static_cast<std::uint64_t>(bytes_.below(4)),
                    .bootstrap = {bytes_.text(), bytes_.next()}};
      case 2:
        return Failed{.round = some_round(),
                      .failure = {.rank = bytes_.near(0),
                                  .node = bytes_.text(),
                                  .exit_code = 1,
                                  .text = bytes_.text()}};
      case 3:
        return Done{.round = some_round()};
      case 4:
        return Leave{.why = bytes_.text(), .close = bytes_.below(8) == 1};
      case 5:
        return Warn{.signal = 1 + bytes_.below(64)};
      case 6: {
        Stalled stalled{.round = some_round(), .votes = {}};
        if (bytes_.flag()) stalled.votes = core::hang::Votes{};
        return stalled;
      }
      default: {
        Where where{.round = some_round(), .ranks = {}};
        for (std::int64_t count = bytes_.below(4); count > 0; --count)
          where.ranks.push_back({.rank = static_cast<int>(bytes_.below(5)),
                                 .at = {.words = bytes_.text(), .collective = bytes_.flag()}});
        return where;
      }
    }
  }

  // A few changes to a state, as a node without a session makes them, or a stranger.
  State some_state(State state) {
    for (std::int64_t changes = bytes_.below(6); changes > 0; --changes) {
      switch (bytes_.next() % 12) {
        case 0:
        case 1:
          state.participants[other_node()] = bytes_.near(0);
          break;
        case 2:
          state.wait_list.insert(other_node());
          break;
        case 3:
          state.redundancy_list.insert(other_node());
          break;
        case 4:
          if (!state.participants.empty()) state.participants.erase(state.participants.begin());
          break;
        case 5:
          state.complete = bytes_.flag();
          break;
        case 6:
          state.closed = bytes_.below(4) == 1;
          break;
        case 7:
          state.round = some_round();
          break;
        case 8:
          state.deadline = core::rendezvous::Stamp{now_.utc.micros + bytes_.below(9) * 1'000'000};
          break;
        case 9:
          state.last_heartbeats[other_node()] = now_.utc;
          break;
        case 10:
          state.seal = core::rendezvous::Seal{some_round(), bytes_.near(2)};
          break;
        case 11:
          for (auto& [id, rank] : state.participants) rank = bytes_.near(0);
          break;
      }
    }
    return state;
  }

  // A state that cannot be read from the store never reaches the machine.
  static std::optional<State> through_the_wire(const State& state) {
    auto read = wire::decode_state(wire::encode_state(state));
    if (!read) return std::nullopt;
    return std::move(*read);
  }

  void swap(std::optional<State> state) {
    if (state) machine_->on_swapped(std::move(*state), now_, effects_);
  }

  void say(const core::coordinator::FromAgent& message) {
    ByteBuffer out;
    wire::append_frame(out, message);
    hear(some_peer(), wire::parse_frame_from_agent(out.view()));
  }

  void hello(const core::coordinator::Hello& hello) {
    const std::size_t peer = some_peer();
    close(peer);
    ByteBuffer out;
    wire::append_frame(out, core::coordinator::FromAgent{hello});
    hear(peer, wire::parse_frame_from_agent(out.view()));
  }

  void take_frame() {
    const std::size_t peer = some_peer();
    auto frame = wire::parse_frame_from_agent(bytes_.rest());
    if (const auto* whole = std::get_if<wire::WholeFrame<core::coordinator::FromAgent>>(&frame))
      bytes_.skip(whole->size);
    if (const auto* skipped = std::get_if<wire::SkippedFrame>(&frame)) bytes_.skip(skipped->size);
    hear(peer, std::move(frame));
  }

  // As its host does it.
  void hear(std::size_t peer, wire::ParsedFrame<core::coordinator::FromAgent> frame) {
    using namespace core::coordinator;
    auto* whole = std::get_if<wire::WholeFrame<FromAgent>>(&frame);
    if (whole == nullptr) return;
    if (auto* hello = std::get_if<Hello>(&whole->message)) {
      if (sessions_[peer]) return close(peer);
      sessions_[peer] = SessionId{next_session_++};
      return machine_->on_hello(*sessions_[peer], std::move(*hello), now_, effects_);
    }
    if (!sessions_[peer]) return;
    machine_->heard_from(*sessions_[peer], now_);
    machine_->on_message(*sessions_[peer], whole->message, now_, effects_);
  }

  void close(std::size_t peer) {
    if (sessions_[peer]) machine_->on_closed(*sessions_[peer], now_, effects_);
    sessions_[peer].reset();
  }

  void take_pickle() {
    const std::size_t size = bytes_.next() * std::size_t{16};
    const auto state = wire::decode_state(bytes_.rest().substr(0, size));
    bytes_.skip(size);
    if (state) swap(*state);
  }

  void look() {
    CHECK(!wire::encode_status({.counters = {}, .runs = {machine_->status(now_)}}).empty());
    (void)through_the_wire(machine_->state_for_others(now_));
  }

  void pass(Duration time) {
    const Instant end = now_.instant + time;
    for (int turns = 0;; ++turns) {
      // It asks to be called for what it does nothing about.
      CHECK(turns < 20'000);
      const auto next = machine_->next_deadline();
      if (!next || *next > end) break;
      move_to(std::max(*next, now_.instant));
      machine_->on_time(now_, effects_);
      take_effects();
    }
    move_to(end);
  }

  void move_to(Instant at) {
    now_.utc.micros += (at - now_.instant) / 1us;
    now_.instant = at;
  }

  void take_effects() {
    using namespace core::coordinator;
    for (const Effect& effect : effects_) {
      if (const auto* ended = std::get_if<CloseSession>(&effect)) {
        for (auto& session : sessions_)
          if (session == ended->session) session.reset();
        continue;
      }
      const auto* told = std::get_if<Send>(&effect);
      if (told == nullptr) continue;
      ByteBuffer out;
      wire::append_frame(out, told->message);
      CHECK(out.size() <= wire::kLargestFrame);
      const auto parsed = wire::parse_frame_from_coordinator(out.view());
      CHECK(std::holds_alternative<wire::WholeFrame<FromCoordinator>>(parsed));
    }
    effects_.clear();
  }

  Bytes bytes_;
  core::coordinator::Now now_{Instant{} + 1h, core::rendezvous::Stamp{1'000'000'000}};
  const RunRules rules_;
  std::optional<core::coordinator::Coordinator> machine_;
  std::array<std::optional<SessionId>, kPeers> sessions_ = {};
  std::uint64_t next_session_ = 1;
  core::coordinator::Effects effects_;
};

}  // namespace regroup::runtime
