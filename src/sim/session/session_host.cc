#include "sim/session/session_host.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/session/session_words.h"
#include "sim/world/codec.h"
#include "wire/session/session.h"

namespace regroup::sim {

using namespace core::coordinator;

void SessionHost::start() {
  if (up_) return;
  up_ = true;
  ++life_;
  tell("starts, with nothing remembered");
  invariants_.life_began(agenda_.now());
}

void SessionHost::die() {
  up_ = false;
  coordinator_.reset();
  sessions_.clear();
  closed_.clear();
  wake_at_.reset();
  store_ = {};
  text_.reset();
  shown_.reset();
  noted_.reset();
}

void SessionHost::begin_run(const RunRules& rules) {
  RunRules believed = rules;
  // Pings come three times in the limit.
  if (broken_ == Broken::HastySilence) believed.heartbeat_limit = rules.heartbeat_limit / 3;
  if (broken_ == Broken::SmallMinimum) believed.min_nodes = 1;
  if (broken_ == Broken::EndlessRestarts) believed.max_restarts = 1'000'000;
  std::optional<core::rendezvous::State> present;
  if (store_.value()) present = store_.value()->state;
  if (present) text_ = store_.value();
  shown_ = present;
  coordinator_.emplace("sim", believed, std::move(present), now());
  phase_ = phase(coordinator_->state());
}

// A node that waits in the store for the end of a phase must be told of it.
void SessionHost::check_phase(const Effects& effects) {
  std::string is = phase(coordinator_->state());
  const bool is_told = std::any_of(effects.begin(), effects.end(), [this](const Effect& effect) {
    const auto* left = std::get_if<LeftPhase>(&effect);
    return left != nullptr && left->phase == phase_;
  });
  // In a run that is over no node waits for anything.
  const bool was_over = phase_.ends_with(".closed");
  if (is != phase_ && !is_told && !was_over)
    invariants_.violated(
        fmt::format("nobody was told that the phase {} is over; now it is {}", phase_, is));
  phase_ = std::move(is);
}

const core::rendezvous::State* SessionHost::state() const {
  if (coordinator_) return &coordinator_->state();
  return store_.value() && store_.value()->state ? &*store_.value()->state : nullptr;
}

void SessionHost::show() {
  // The instant decides whether stamps are old.
  const Now looked_at{broken_ == Broken::OldStamps ? Instant{} : now().instant, now().utc};
  const core::rendezvous::State& state = coordinator_->state_for_others(looked_at);
  note_state();
  if (shown_ != state) {
    std::string bytes = encoded(state);
    auto value = std::make_shared<Value>(Value{.bytes = std::move(bytes), .state = {}});
    value->state = decoded(value->bytes);
    text_ = std::move(value);
    shown_ = state;
  }
  store_.put_back(text_);
}

Answer SessionHost::apply(const Request& request, bool makes_key, bool given_up,
                          std::optional<Change>& change) {
  if (coordinator_) show();
  if (makes_key) {
    std::optional<Change> made;
    store_.apply({.ask = Ask::MakeKey, .desired = kNoState}, false, made);
  }
  Answer answer = store_.apply(request, given_up && broken_ == Broken::NoTokens, change);
  answer.at = agenda_.now();
  const bool is_swapped = change && request.ask == Ask::Swap;
  if (is_swapped) {
    const core::rendezvous::State& state = *change->after->state;
    if (trace_.on())
      trace_.line(agenda_.now(), short_name(request.writer),
                  fmt::format("{}{} → {}", given_up ? "late swap won: " : "swap won: ",
                              describe_change(noted_.value_or(core::rendezvous::State{}), state,
                                              request.writer),
                              describe(state, shared_settings(plan_))));
    world_.state_changed(noted_.value_or(core::rendezvous::State{}), state, &request.writer);
    noted_ = state;
  }
  if (!coordinator_) return answer;
  Effects effects;
  if (is_swapped && broken_ != Broken::IgnoresSwaps) {
    text_ = change->after;
    shown_ = change->after->state;
    coordinator_->on_swapped(*change->after->state, now(), effects);
  }
  carry_out(std::move(effects));
  return answer;
}

void SessionHost::note_state() {
  if (!is_mixed(plan_)) return;
  const core::rendezvous::State& state = coordinator_->state();
  if (noted_ == state) return;
  world_.state_changed(noted_.value_or(core::rendezvous::State{}), state, nullptr);
  noted_ = state;
}

void SessionHost::on_bytes(LinkId link, std::string_view bytes) {
  const SessionId id{link.value};
  if (bytes.empty()) {
    const auto found = sessions_.find(link);
    if (found == sessions_.end()) return;
    const bool known = found->second.known;
    if (known) tell(short_name(found->second.id) + " has closed its connection");
    if (known) invariants_.gone(found->second.id);
    if (known) closed_[found->second.node] = agenda_.now();
    sessions_.erase(found);
    if (!known) return;
    Effects effects;
    coordinator_->on_closed(id, now(), effects);
    return carry_out(std::move(effects));
  }
  Session& session = sessions_[link];
  session.node = links_.node_of(link);
  session.in.append(bytes);
  if (session.known) coordinator_->heard_from(id, now());
  for (;;) {
    const auto found = sessions_.find(link);
    if (found == sessions_.end()) return;  // It was closed for what it said.
    auto parsed = wire::parse_frame_from_agent(found->second.in.view());
    auto* whole = std::get_if<wire::WholeFrame<FromAgent>>(&parsed);
    if (whole == nullptr) {
      CHECK(std::holds_alternative<wire::NeedMore>(parsed));
      return;
    }
    found->second.in.consume(whole->size);
    hear(link, whole->message);
  }
}

void SessionHost::hear(LinkId link, const FromAgent& message) {
  Session& session = sessions_.at(link);
  Effects effects;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    CHECK(!session.known);
    invariants_.introduced(*hello, world_.view(session.node), agenda_.now());
    session.known = true;
    session.id = hello->node;
    if (!coordinator_) begin_run(hello->rules);
    closed_.erase(session.node);
    coordinator_->on_hello(SessionId{link.value}, *hello, now(), effects);
  } else {
    CHECK(session.known);
    invariants_.said(session.id, message);
    coordinator_->on_message(SessionId{link.value}, message, now(), effects);
  }
  carry_out(std::move(effects));
}

void SessionHost::carry_out(Effects effects) {
  check_phase(effects);
  for (Effect& effect : effects) {
    if (auto* one = std::get_if<Send>(&effect)) {
      send(LinkId{one->to.value}, std::move(one->message));
    } else if (const auto* close = std::get_if<CloseSession>(&effect)) {
      const LinkId link{close->session.value};
      const auto found = sessions_.find(link);
      if (found == sessions_.end()) continue;
      tell(
          fmt::format("closes the connection of {}: {}", short_name(found->second.id), close->why));
      // Several at once, of which some are silent and some had closed their connections: the text
      // says only that they are gone.
      if (close->why.find("nothing was heard") != std::string::npos ||
          close->why.ends_with(" more are gone"))
        invariants_.declared_lost(found->second.id, world_.well_for(found->second.node));
      const core::rendezvous::NodeId id = found->second.id;
      sessions_.erase(found);
      // It may have come again, on another connection.
      if (std::none_of(sessions_.begin(), sessions_.end(), [&](const auto& other) {
            return other.second.known && other.second.id == id;
          }))
        invariants_.closed(id);
      links_.hang_up(link, End::Host);
    } else if (const auto* left = std::get_if<LeftPhase>(&effect)) {
      world_.phase_over(left->phase);
    }
  }
  if (trace_.on() && !effects.empty() && coordinator_)
    tell("→ " + describe(coordinator_->state(), shared_settings(plan_)));
  note_state();
  invariants_.said_all(world_.views(), coordinator_->state(), agenda_.now());
  wake_in_time();
}

void SessionHost::send(LinkId link, FromCoordinator message) {
  const auto found = sessions_.find(link);
  if (found == sessions_.end()) return;
  const std::int32_t node = found->second.node;
  if (auto* stop = std::get_if<Stop>(&message)) {
    if (broken_ == Broken::ForgetsAStop && node == 1) return;
    if (broken_ == Broken::TwoVerdicts && node == 1 && stop->verdict)
      stop->text = stop->verdict->text = "something failed";
  }
  const bool is_pong = std::holds_alternative<Pong>(message);
  if (!is_pong) ++told_;
  if (!is_pong && trace_.on())
    tell(fmt::format("tells {} {}", short_name(found->second.id), in_words(message)));
  invariants_.told(node, found->second.id, message, agenda_.now());
  ByteBuffer out;
  wire::append_frame(out, message);
  links_.send(link, End::Host, std::string(out.view()));
}

void SessionHost::wake_in_time() {
  const auto next = coordinator_ ? coordinator_->next_deadline() : std::nullopt;
  if (!next) {
    wake_at_.reset();
    return;
  }
  const Instant at = std::max(agenda_.now(), plan_.host_clock.world_time_of(*next));
  if (wake_at_ && *wake_at_ <= at) return;
  wake_at_ = at;
  agenda_.plan({.at = at, .who = kTheHost, .life = life_, .judges = true, .act = [this, at] {
                  if (wake_at_ != at) return;
                  wake_at_.reset();
                  Effects effects;
                  coordinator_->on_time(now(), effects);
                  const auto again = coordinator_->next_deadline();
                  spins_ = again && *again <= now().instant ? spins_ + 1 : 0;
                  if (spins_ > 3) invariants_.violated("the coordinator spins");
                  carry_out(std::move(effects));
                }});
}

std::optional<Duration> SessionHost::closed_for(std::int32_t node) const {
  const auto found = closed_.find(node);
  if (found == closed_.end()) return {};
  return agenda_.now() - found->second;
}

}  // namespace regroup::sim
