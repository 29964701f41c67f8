#include "core/agent/agent.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace regroup::core::agent {

namespace {

using Then = TellFailure::Then;

Effects both(Effects first, const Effects& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

std::string_view to_string(State state) {
  switch (state) {
    case State::Unknown:
      return "UNKNOWN";
    case State::Init:
      return "INIT";
    case State::Healthy:
      return "HEALTHY";
    case State::Unhealthy:
      return "UNHEALTHY";
    case State::Stopped:
      return "STOPPED";
    case State::Succeeded:
      return "SUCCEEDED";
    case State::Failed:
      return "FAILED";
  }
  return "UNKNOWN";
}

std::string_view to_string(Doing doing) {
  switch (doing) {
    case Doing::Nothing:
      return "nothing";
    case Doing::Joining:
      return "joining";
    case Doing::Starting:
      return "starting";
    case Doing::Running:
      return "running";
    case Doing::Stopping:
      return "stopping";
    case Doing::Asking:
      return "asking";
    case Doing::CheckingIn:
      return "checking in";
    case Doing::Leaving:
      return "leaving";
    case Doing::Finished:
      return "finished";
  }
  return "nothing";
}

Agent::Agent(const Settings& settings) : settings_(settings), remaining_(settings.max_restarts) {
  CHECK(settings.max_restarts >= 0);
}

Effects Agent::begin() {
  CHECK(doing_ == Doing::Nothing);
  return join();
}

Effects Agent::join() {
  // A group that was stopped stays stopped until it is started again.
  if (state_ != State::Init) state_ = State::Stopped;
  doing_ = Doing::Joining;
  order_ = {};
  wait_until_.reset();
  return {Join{}};
}

Effects Agent::on_joined(std::optional<int> told, std::optional<int> max_restarts) {
  if (doing_ != Doing::Joining) return {};
  told_count_ = told;
  if (max_restarts) settings_.max_restarts = *max_restarts;
  // A signal that came while the join could not be given up any more.
  if (signal() != 0) return leave(Ending::Signalled, false);
  doing_ = Doing::Starting;
  return {Start{restart_count()}};
}

Effects Agent::on_join_failed(JoinFailure why, const Order& end) {
  if (doing_ != Doing::Joining) return {};
  note_end(end);
  if (signal() != 0) return leave(Ending::Signalled, false);
  switch (why) {
    case JoinFailure::NotNeeded:
      state_ = State::Succeeded;
      return leave(Ending::NotNeeded, false);
    case JoinFailure::RunFailed:
      state_ = State::Failed;
      return leave(Ending::Failed, false);
    case JoinFailure::Failed:
    case JoinFailure::GivenUp:
      state_ = State::Failed;
      return leave(Ending::CouldNotJoin, false);
  }
  return {};
}

void Agent::on_started() {
  CHECK(doing_ == Doing::Starting);
  doing_ = Doing::Running;
  state_ = State::Healthy;
  failed_ = false;
  stopped_with_us_ = false;
  undecided_ = false;
}

Effects Agent::on_worker_failed(Instant now, bool looks_signalled) {
  if (signal() != 0) {
    // This node goes away, and the others will hear that. Our failure would cost them a restart.
    stopped_with_us_ = looks_signalled;
    if (looks_signalled) return {};
    untold_until_ = now;
    return tell_failure(Then::End);
  }
  if (looks_signalled && doing_ == Doing::Running) {
    failed_ = true;
    hold_ = Hold{now + settings_.signal_wait, {}};
    return {};
  }
  return judge_failure(now);
}

Effects Agent::judge_failure(Instant now) {
  untold_until_ = now + settings_.news_limit;
  if (doing_ != Doing::Running)
    return both({Report{}},
                tell_failure(doing_ == Doing::Stopping && then_ == AfterStop::Rejoin ? Then::Rejoin
                                                                                     : Then::End));
  failed_ = true;
  if (told_count_) return both({Report{}}, tell_decision());
  return both({Report{}}, remaining_ > 0 ? tell_failure(Then::Restart, restart_count() + 1)
                                         : tell_failure(Then::End));
}

// No signal has come to us: the worker has failed by itself.
Effects Agent::end_hold(Instant now) {
  const Hold hold = *std::exchange(hold_, {});
  Effects effects = judge_failure(now);
  return hold.end ? both(std::move(effects), judge_end(*hold.end, now)) : effects;
}

Effects Agent::tell_failure(Then then, int restart) {
  if (!untold_until_) return then == Then::Restart ? tell_restart(restart) : Effects{};
  untold_until_.reset();
  undecided_ = then == Then::Undecided;
  return {TellFailure{then, restart}};
}

Effects Agent::tell_restart(int restart) {
  if (!std::exchange(undecided_, false)) return {};
  return {Tell{Tell::What::Restart, "", restart}};
}

// Where the order in force decides nothing about the failure, people are told later.
Effects Agent::tell_decision() {
  switch (order_.kind) {
    case Order::Kind::None:
    case Order::Kind::Closed:
    case Order::Kind::Over:
      return {};
    case Order::Kind::Rejoin:
      // Another node's failure came first: the restart is told of with that one.
      if (!order_.is_failure || !order_.is_ours) return tell_failure(Then::Rejoin);
      return tell_failure(Then::Restart, order_.restart_count.value_or(restart_count() + 1));
    case Order::Kind::RunFailed:
      return tell_failure(Then::End);
  }
  return {};
}

Effects Agent::on_start_failed() {
  CHECK(doing_ == Doing::Starting);
  if (signal() != 0) {  // It came while they were being started.
    state_ = State::Stopped;
    return leave(Ending::Signalled, false);
  }
  state_ = State::Unknown;  // Some may have run for a moment.
  return leave(Ending::CouldNotStart, false);
}

Effects Agent::on_group_over(GroupEnd end, Instant now) {
  if (!has_workers()) return {};
  if (hold_ && end != GroupEnd::Survived) {
    hold_->end = end;
    return {};
  }
  hold_.reset();
  return judge_end(end, now);
}

Effects Agent::judge_end(GroupEnd end, Instant now) {
  const bool told_to_end = doing_ == Doing::Stopping && then_ == AfterStop::End;
  const bool ordered = doing_ == Doing::Stopping && !failed_;
  doing_ = Doing::Nothing;
  if (end == GroupEnd::Survived) {
    state_ = State::Unknown;
    return leave(Ending::LeftBehind, false);
  }
  if (signal() != 0) {
    state_ = State::Stopped;
    return leave(Ending::Signalled, false);
  }
  if (told_to_end) {
    state_ = State::Failed;
    return leave(Ending::Failed, false);
  }
  // A failure after the order to stop is the order's doing, and costs nothing.
  if (ordered && end != GroupEnd::Succeeded) {
    state_ = State::Stopped;
    return join();
  }
  switch (end) {
    case GroupEnd::Succeeded:
      state_ = State::Succeeded;
      return check_in(Ending::Succeeded, now);
    case GroupEnd::Failed:
    case GroupEnd::Stopped:  // By nobody's order: it counts as a failure.
      if (told_count_) return ask(now);
      if (remaining_ > 0) {
        --remaining_;
        state_ = State::Stopped;
        return join();
      }
      state_ = State::Failed;
      return check_in(Ending::Failed, now);
    case GroupEnd::Survived:
      break;
  }
  return {};
}

Effects Agent::ask(Instant now) {
  state_ = State::Stopped;
  doing_ = Doing::Asking;
  wait_until_ = now + settings_.decision_limit;
  // The coordinator may have decided while our workers were being stopped.
  return both({Ask{}}, follow_order());
}

Effects Agent::check_in(Ending ending, Instant now) {
  ending_ = ending;
  close_ = true;
  doing_ = Doing::CheckingIn;
  wait_until_ = now + settings_.exit_limit;
  // Where nobody decides for all, what made us stop is past: the others are waited for.
  if (!told_count_) order_ = {};
  // Only a silence that we waited through counts.
  if (unreached_since_) unreached_since_ = now;
  return both({CheckIn{ending == Ending::Succeeded}}, follow_order());
}

Effects Agent::fail() {
  state_ = State::Failed;
  return leave(Ending::Failed, false);
}

void Agent::note_end(const Order& order) {
  if (order.kind != Order::Kind::RunFailed) return;
  if (!order.is_ours) verdict_ = {order.text, order.is_failure};
  end_note_ = order.note;
}

Effects Agent::on_order(Order order) {
  note_end(order);
  order_ = std::move(order);
  order_is_told_ = false;
  drop_hold();
  Effects told = tell_decision();  // Before the order is followed: that may forget it.
  return both(std::move(told), follow_order());
}

// The round is over for another reason, so the coordinator need not hear of our worker.
void Agent::drop_hold() {
  const bool ends_round =
      order_.kind == Order::Kind::Rejoin || order_.kind == Order::Kind::RunFailed;
  if (!hold_ || !ends_round) return;
  const Hold hold = *std::exchange(hold_, {});
  // People hear of it if that reason is a failure, too: ours may be what began it.
  if (order_.is_failure) untold_until_ = hold.until;
  failed_ = false;
  if (!hold.end) return;
  state_ = State::Stopped;
  doing_ = Doing::Asking;  // The answer is here.
}

Effects Agent::follow_order() {
  switch (doing_) {
    case Doing::Running:
      return follow_while_running();
    case Doing::Asking:
      if (order_.kind == Order::Kind::RunFailed) return fail();
      if (order_.kind == Order::Kind::Rejoin) {
        if (order_.restart_count) told_count_ = order_.restart_count;
        Effects told = tell_order();
        return both(std::move(told), join());
      }
      return {};  // Of a run that somebody has closed: what follows from our failure is to come.
    case Doing::CheckingIn:
      return follow_at_the_end();
    case Doing::Nothing:
    case Doing::Joining:
    case Doing::Starting:
    case Doing::Stopping:
    case Doing::Leaving:
    case Doing::Finished:
      return {};
  }
  return {};
}

Effects Agent::follow_while_running() {
  const Stop stop{settings_.stop_signal, settings_.grace};
  switch (order_.kind) {
    case Order::Kind::None:
    case Order::Kind::Closed:  // Our workers may be about to be done, as those elsewhere were.
      return {};
    case Order::Kind::Rejoin:
      // Of our own failure we know; what follows from it is looked at when our workers have ended.
      if (order_.is_ours) return {};
      if (order_.restart_count) told_count_ = order_.restart_count;
      doing_ = Doing::Stopping;
      then_ = AfterStop::Rejoin;
      return both(tell_order(), {stop});
    case Order::Kind::Over:
      // We were dropped while we could not be told, and the others came to the end without us.
      doing_ = Doing::Stopping;
      then_ = AfterStop::Rejoin;
      return {Tell{Tell::What::MembersChanged, "the run has ended without this node"}, stop};
    case Order::Kind::RunFailed:
      // A worker of ours has failed too, and the coordinator has heard of another's first. Our
      // workers are being stopped already; the verdict is looked at when they have ended, as it is
      // when it comes later.
      if (order_.is_ours || (failed_ && told_count_)) return {};
      doing_ = Doing::Stopping;
      then_ = AfterStop::End;
      return both(tell_order(), {stop});
  }
  return {};
}

Effects Agent::tell_order() {
  if (order_.is_ours || std::exchange(order_is_told_, true)) return {};
  switch (order_.kind) {
    case Order::Kind::None:
    case Order::Kind::Closed:
    case Order::Kind::Over:
      return {};
    case Order::Kind::Rejoin:
      if (!order_.is_failure) return {Tell{Tell::What::MembersChanged, order_.text}};
      return {Tell{Tell::What::FailedElsewhere, order_.text, order_.restart_count.value_or(0)}};
    case Order::Kind::RunFailed:
      return {Tell{Tell::What::RunFailed, order_.text}};
  }
  return {};
}

Effects Agent::follow_at_the_end() {
  switch (order_.kind) {
    case Order::Kind::None:
      return {};
    case Order::Kind::Over:
    case Order::Kind::Closed:
      return checked_in(order_.text, leave(ending_, close_ && !order_.others_go_on));
    case Order::Kind::Rejoin: {
      if (order_.restart_count) told_count_ = order_.restart_count;
      Effects told = tell_order();
      return both(std::move(told), checked_in("", join()));
    }
    case Order::Kind::RunFailed:
      return both(tell_order(), checked_in("", fail()));
  }
  return {};
}

Effects Agent::checked_in(std::string text, const Effects& then) {
  return both({Tell{Tell::What::CheckedIn, std::move(text)}}, then);
}

void Agent::on_reach(bool reachable, Instant now) {
  if (reachable)
    unreached_since_.reset();
  else if (!unreached_since_)
    unreached_since_ = now;
}

std::optional<Instant> Agent::next_deadline() const {
  if (hold_) return hold_->until;
  if (untold_until_) return untold_until_;  // The nearest. The others are looked at after it.
  if (doing_ == Doing::CheckingIn && unreached_since_)
    return std::min(*wait_until_, *unreached_since_ + settings_.coordinator_limit);
  if (doing_ == Doing::Asking || doing_ == Doing::CheckingIn) return wait_until_;
  return {};
}

Effects Agent::on_time(Instant now) {
  const auto deadline = next_deadline();
  if (!deadline || now < *deadline) return {};
  if (hold_) return end_hold(now);
  if (untold_until_) return tell_failure(Then::Undecided);
  if (doing_ == Doing::CheckingIn)
    return checked_in(now >= *wait_until_
                          ? "not every node has ended within the limit (--exit-barrier-timeout)"
                          : "the coordinator is gone; the other nodes are not waited for",
                      leave(ending_, close_));
  // Nobody is there to decide. As far as we know, there is a restart left, or there is none.
  const auto nobody = [](std::string what) {
    return Tell{Tell::What::Nobody,
                "the coordinator has not said in time what follows from it; " + std::move(what)};
  };
  if (order_.kind != Order::Kind::None)
    return both({nobody("the run is closed, so this node ends")}, fail());
  if (*told_count_ >= settings_.max_restarts)
    return both({nobody("as far as this node knows, no restart is left")}, fail());
  return both({nobody("a restart is left, so this node joins again")}, join());
}

Effects Agent::leave(Ending ending, bool close) {
  ending_ = ending;
  doing_ = Doing::Leaving;
  return both(tell_failure(Then::End), {Leave{close}});
}

Effects Agent::on_left() {
  if (doing_ != Doing::Leaving) return {};
  doing_ = Doing::Finished;
  return {Finish{ending_}};
}

Effects Agent::on_signal(const StopSignal& signal, Instant now) {
  const SignalMeaning heard = signals_.hear(signal, now);
  if (heard == SignalMeaning::Echo) return {};
  const auto hold = std::exchange(hold_, {});
  if (hold) {
    failed_ = false;
    stopped_with_us_ = true;
  }
  switch (doing_) {
    case Doing::Joining:
      return {GiveUpJoin{}};
    case Doing::Running:
    case Doing::Stopping:
      if (hold && hold->end) return judge_end(*hold->end, now);
      if (heard == SignalMeaning::Again) return {Kill{}};
      doing_ = Doing::Stopping;
      then_ = AfterStop::End;
      return both(tell_failure(Then::End), {Stop{signal.number, settings_.grace}});
    case Doing::Asking:
      return leave(Ending::Signalled, false);
    case Doing::CheckingIn:
      // Our workers are done; the run is not ours to end while others may still be at it.
      if (ending_ == Ending::Succeeded) close_ = false;
      return checked_in("the other nodes are not waited for any longer",
                        leave(Ending::Signalled, close_));
    case Doing::Nothing:
    case Doing::Starting:
    case Doing::Leaving:
    case Doing::Finished:
      return {};
  }
  return {};
}

}  // namespace regroup::core::agent
