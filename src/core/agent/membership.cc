#include "core/agent/membership.h"

#include <fmt/core.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/text.h"

namespace regroup::core::agent {

using namespace coordinator;

namespace {

// The time that is left changes without anybody saying so.
constexpr Duration kTellAgain = 1s;

std::optional<ForWorkers> take_for_workers(FromCoordinator& message) {
  return std::visit(
      []<class Message>(Message& one) -> std::optional<ForWorkers> {
        if constexpr (std::is_constructible_v<ForWorkers, Message>)
          return std::move(one);
        else
          return std::nullopt;
      },
      message);
}

bool is_of_round(const ForWorkers& message, std::int64_t round) {
  return std::visit(
      [round](const auto& one) {
        if constexpr (requires { one.round; })
          return one.round == round;
        else
          return true;
      },
      message);
}

}  // namespace

Membership::Membership(Hello hello, Settings settings)
    : settings_(settings), member_(std::move(hello)) {}

Membership::Effects Membership::join(const Bootstrap& bootstrap, Instant now) {
  const bool again = member_.sealed().has_value();
  const Duration limit =
      again ? settings_.rejoin_timeout.value_or(settings_.join_timeout) : settings_.join_timeout;
  why_leave_.clear();
  joining_ = Waiting{
      .began = now,
      .give_up = now + limit,
      .limit = limit,
      .limit_name = again && limit != settings_.join_timeout ? "--rejoin-timeout" : "join_timeout",
      .tell_at = now + kTellAgain};
  told_ = {};
  is_stalled_ = false;
  told_progress_.reset();
  last_call_until_.reset();
  Effects effects{Say{member_.join(bootstrap)}};
  follow(now, effects);
  return effects;
}

Membership::Effects Membership::give_up_join() {
  if (!joining_) return {};
  joining_.reset();
  Effects effects;
  say_leave("", false, effects);
  effects.emplace_back(
      JoinFailed{.why = JoinFailure::GivenUp,
                 .error = {ErrorKind::Cancelled, "interrupted while waiting for the other nodes"}});
  return effects;
}

void Membership::say_leave(std::string why, bool close, Effects& effects) {
  if (std::exchange(left_, true)) return;
  effects.emplace_back(Say{member_.leave(std::move(why), close)});
}

Membership::Effects Membership::failed(Failure failure) {
  if (!in_round()) return {};
  failure.node = member_.hello().claim.name;
  return {Say{member_.failed(std::move(failure))}};
}

Membership::Effects Membership::done() {
  if (!in_round()) return {};
  return {Say{member_.done()}};
}

Membership::Effects Membership::stalled(std::optional<hang::Votes> votes) {
  if (!in_round() || (!votes && !is_stalled_)) return {};
  is_stalled_ = votes.has_value();
  // Said again at every look, because a coordinator may have been started again in between.
  return report(Stalled{.votes = votes});
}

Membership::Effects Membership::leave(bool close, Instant now) {
  Effects effects;
  // What is said to nobody would not be said again: the introduction knows of no leave.
  if (!trouble_.empty()) left_ = true;
  const bool closes = close && !left_ && order().kind == Order::Kind::None;
  say_leave(why_leave_, closes, effects);
  if (closes)
    closing_until_ = now + settings_.close_timeout;
  else
    effects.emplace_back(Flush{});
  return effects;
}

Membership::Effects Membership::on_message(FromCoordinator message, Instant now) {
  Effects effects;
  if (auto for_workers = take_for_workers(message)) {
    if (in_round() && is_of_round(*for_workers, member_.sealed()->round))
      effects.emplace_back(HandOn{std::move(*for_workers)});
    return effects;
  }
  const auto* refused = std::get_if<Refused>(&message);
  const bool may_pass = refused != nullptr && !refused->lasting;
  member_.on_message(std::move(message));
  // The connection is closed behind a refusal that may pass: that is told when it is lost.
  if (may_pass) return effects;
  // A node does not come back from a lasting refusal. Its workers run on, but at their end the node
  // need not wait for the others.
  set_trouble(
      member_.refused() ? "the coordinator refuses this node: " + member_.refused()->why : "",
      effects);
  follow(now, effects);
  return effects;
}

Membership::Effects Membership::on_lost(const std::string& why, Instant now) {
  Effects effects;
  set_trouble("the coordinator cannot be reached: " + why, effects);
  follow(now, effects);
  return effects;
}

void Membership::set_trouble(std::string trouble, Effects& effects) {
  if (trouble == trouble_) return;
  trouble_ = std::move(trouble);
  effects.emplace_back(Reached{trouble_});
}

void Membership::follow(Instant now, Effects& effects) {
  if (closing_until_) {
    // The run is closed, or nobody will say so.
    if (!is_over() && trouble_.empty() && now < *closing_until_) return;
    closing_until_.reset();
    effects.emplace_back(Flush{});
    return;
  }
  if (left_) return;
  if (joining_) {
    if (auto end = why_not()) {
      joining_.reset();
      effects.emplace_back(std::move(*end));
    } else if (!member_.joining()) {
      joining_.reset();
      effects.emplace_back(Joined{*member_.sealed()});
    } else {
      if (auto told = waits(now)) effects.emplace_back(std::move(*told));
    }
    return;
  }
  if (Order now_in_force = order(); now_in_force != told_) {
    told_ = now_in_force;
    effects.emplace_back(Ordered{std::move(now_in_force)});
  }
}

Order Membership::order() const {
  const auto of = [this](Order::Kind kind, const coordinator::Stop& stop) {
    return Order{.kind = kind,
                 .text = stop.text,
                 .is_failure = stop.verdict.has_value(),
                 .is_ours = stop.verdict && stop.culprit == member_.id(),
                 .restart_count = static_cast<int>(stop.restart_count),
                 .note = stop.note};
  };
  if (member_.over()) return {.kind = Order::Kind::Over};
  if (const auto& end = member_.end())
    return of(end->why == coordinator::Stop::Why::RunFailed ? Order::Kind::RunFailed
                                                            : Order::Kind::Closed,
              *end);
  if (member_.stop()) return of(Order::Kind::Rejoin, *member_.stop());
  return {};
}

std::optional<Membership::JoinFailed> Membership::why_not() const {
  const std::string run = fmt::format("the run '{}' ", member_.hello().run_id);
  const auto because = [](JoinFailure why, ErrorKind kind, std::string text) {
    return JoinFailed{.why = why, .error = {kind, std::move(text)}};
  };
  if (member_.refused())
    return because(JoinFailure::Failed, ErrorKind::Refused, member_.refused()->why);
  if (!is_over()) return std::nullopt;
  if (member_.is_spare())
    return because(JoinFailure::NotNeeded, ErrorKind::NotNeeded,
                   run + "has ended; this node was a spare, not needed.");
  if (member_.end() && member_.end()->why == coordinator::Stop::Why::RunFailed) {
    JoinFailed failed = because(JoinFailure::RunFailed, ErrorKind::Closed,
                                run + "has failed: " + member_.end()->text);
    failed.end = order();
    return failed;
  }
  return because(JoinFailure::Failed, ErrorKind::Closed,
                 run +
                     "is closed: it has ended, or somebody ended it. A new run needs another run "
                     "id (--rdzv-id).");
}

std::optional<Membership::Waits> Membership::waits(Instant now) {
  const Instant give_up = joining_->give_up;
  if (!trouble_.empty())
    return Waits{.what = trouble_,
                 .limit = limit_text(now),
                 .brief = "waiting for the coordinator to answer",
                 .until = give_up};
  const auto& progress = member_.progress();
  if (!progress) return std::nullopt;
  if (progress != told_progress_) {
    told_progress_ = progress;
    last_call_until_.reset();
    if (progress->last_call) last_call_until_ = now + *progress->last_call;
  }
  Waits told{.what = progress->text, .limit = {}, .brief = progress->brief, .until = {}};
  if (last_call_until_) {
    told.until = last_call_until_;
    told.limit = "; last call ends in " + in_words(std::max(*told.until - now, Duration{}));
  } else if (!member_.is_spare()) {
    told.until = give_up;
    told.limit = limit_text(now);
  }
  return told;
}

std::string Membership::limit_text(Instant now) const {
  return fmt::format("; gives up in {} ({})",
                     in_words(std::max(joining_->give_up - now, Duration{})), joining_->limit_name);
}

std::optional<Instant> Membership::next_deadline() const {
  if (closing_until_) return closing_until_;
  if (joining_) return std::min(joining_->tell_at, joining_->give_up);
  return {};
}

Membership::Effects Membership::on_time(Instant now) {
  Effects effects;
  if (joining_) {
    joining_->tell_at = now + kTellAgain;
    // A spare waits without a limit, as long as there is a coordinator that could call it; its time
    // begins when it is one no longer, or when the coordinator is gone.
    if (member_.is_spare() && trouble_.empty()) joining_->give_up = now + joining_->limit;
    if (now >= joining_->give_up) {
      const std::string progress = !trouble_.empty()    ? trouble_
                                   : member_.progress() ? member_.progress()->text
                                                        : "no word from the coordinator";
      effects.emplace_back(JoinFailed{
          .why = JoinFailure::Failed,
          .error = {ErrorKind::Timeout,
                    fmt::format("the nodes did not meet within {} ({}): {}",
                                in_words(joining_->limit), joining_->limit_name, progress)}});
      joining_.reset();
      why_leave_ = "its time to join was over";  // Said with leave(), which may close the run.
      return effects;
    }
  }
  follow(now, effects);
  return effects;
}

}  // namespace regroup::core::agent
