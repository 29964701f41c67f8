#include "runtime/rounds/shared_rounds.h"

#include <fmt/core.h>

#include <utility>

#include "io/loop/clock.h"
#include "io/loop/thread_name.h"
#include "runtime/common/log.h"
#include "runtime/rendezvous/exchange.h"
#include "runtime/rounds/exit_barrier.h"

namespace regroup::runtime {

using core::agent::JoinFailure;
using core::agent::Order;

namespace {

// How long to stay for nodes that wait to come in: they look about once a second.
constexpr Duration kLastLook = 2500ms;
std::string why_changed(const RendezvousStatus& status) {
  if (!status.member) return "this node was dropped from the round";
  if (!status.whole) return "a node of the round is gone";
  return fmt::format("{} {} to come in", status.waiting,
                     status.waiting == 1 ? "node wants" : "nodes want");
}

bool may_pass(const Error& error) {
  return error.kind == ErrorKind::Connection || error.kind == ErrorKind::Timeout;
}

JoinFailure why_not(const Error& error) {
  if (error.kind == ErrorKind::NotNeeded) return JoinFailure::NotNeeded;
  if (error.kind == ErrorKind::Cancelled) return JoinFailure::GivenUp;
  return JoinFailure::Failed;
}

}  // namespace

SharedRounds::SharedRounds(io::Loop& loop, std::unique_ptr<RendezvousHandler> handler,
                           std::shared_ptr<std::atomic<bool>> interrupted, Options options,
                           RoundEvents events)
    : loop_(loop),
      options_(std::move(options)),
      events_(std::move(events)),
      interrupted_(std::move(interrupted)),
      handler_(std::move(handler)),
      here_(std::make_shared<bool>(true)),
      thread_([this] {
        io::name_this_thread("rounds");
        run();
      }) {}

SharedRounds::~SharedRounds() {
  *here_ = false;
  *interrupted_ = true;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    tasks_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void SharedRounds::run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (ending_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      ++begun_;
    }
    task();
  }
}

void SharedRounds::queue(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++queued_;
  }
  changed_.notify_all();
}

void SharedRounds::give_up() {
  {
    const std::lock_guard lock(mutex_);
    enough_ = queued_;
  }
  changed_.notify_all();
}

bool SharedRounds::rest(Duration limit) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, limit, [this] { return ending_ || begun_ <= enough_; });
}

void SharedRounds::post(std::function<void()> event) {
  loop_.post([here = here_, event = std::move(event)] {
    if (*here) event();
  });
}

// ---- A round begins ----

void SharedRounds::join() {
  queue([this] {
    std::optional<Duration> took_to_meet;
    auto joined = std::make_shared<Result<JoinedRound>>(join_now(took_to_meet));
    if (*joined) return post([this, joined] { events_.joined(std::move(**joined)); });
    JoinFailed failed{
        .why = why_not(joined->error()), .error = joined->error(), .took_to_meet = took_to_meet};
    if (joined->error().kind == ErrorKind::Closed && info_) verdict_ = hear_verdict(*info_);
    if (!verdict_.empty()) {
      failed.why = JoinFailure::RunFailed;
      failed.end = {.kind = Order::Kind::RunFailed, .text = verdict_, .is_failure = true};
    }
    post([this, failed] { events_.join_failed(failed); });
  });
}

void SharedRounds::give_up_join() { *interrupted_ = true; }

Result<JoinedRound> SharedRounds::join_now(std::optional<Duration>& took_to_meet) {
  const Instant begun = io::now();
  for (;;) {
    took_to_meet.reset();
    auto info = handler_->next_rendezvous();
    if (!info) return tl::unexpected(info.error());
    info_ = *info;
    const Instant met = io::now();
    took_to_meet = met - begun;
    // A node that was lost since the seal never takes part, so the exchange must be able to end.
    bool again = false;
    const auto ranks = exchange_ranks(*info->store, info->world_size,
                                      {options_.role, info->rank, options_.workers}, [&] {
                                        const auto status = handler_->status();
                                        again = status && status->must_rejoin();
                                        return !again && !*interrupted_;
                                      });
    if (!ranks && again && !*interrupted_) continue;
    if (!ranks) return tl::unexpected(ranks.error());
    return JoinedRound{.info = std::move(*info),
                       .ranks = *ranks,
                       .use_agent_store = handler_->use_agent_store(),
                       .took_to_meet = met - begun,
                       .took_to_assign = io::now() - met};
  }
}

// ---- While it runs ----

void SharedRounds::workers_run(int restart_count) {
  const std::string start = options_.one_round ? fmt::format("{}/", restart_count) : "";
  queue([this, start] {
    start_ = start;
    watch();
  });
}

// Returns when it is given up, or after an order.
void SharedRounds::watch() {
  const auto note = [this](const std::string& text) {
    post([this, text] { events_.waiting(text); });
  };
  const auto order = [this](Order::Kind kind, const std::string& text) {
    post([this, kind, text] {
      events_.ordered({.kind = kind, .text = text, .is_failure = kind == Order::Kind::RunFailed});
    });
  };
  cut_off_ = false;
  hangs_ = false;
  ended_.clear();
  std::string told;
  while (rest(options_.look_again)) {
    const auto status = handler_->status();
    if (!status) {
      // Workers do not need the store; only the next round does.
      if (!std::exchange(cut_off_, true)) note(status.error().message);
      if (!may_pass(status.error())) return;
      continue;
    }
    if (std::exchange(cut_off_, false)) note("the rendezvous store answers again");
    verdict_ = hear_verdict(*info_);
    if (!verdict_.empty()) return order(Order::Kind::RunFailed, verdict_);
    if (status->must_rejoin()) return order(Order::Kind::Rejoin, why_changed(*status));
    exchange_stalls(told);
    exchange_where();
  }
}

// ---- The end ----

void SharedRounds::check_in(bool succeeded, const std::string& cause) {
  queue([this, succeeded, cause] {
    if (succeeded) say_ended();
    const std::string text = pass_exit_barrier(
        *info_, {.succeeded = succeeded, .cause = cause},
        [this](Duration limit) { return rest(limit); },
        [this]() -> std::string {
          const auto status = handler_->status();
          if (!status || (status->member && status->whole)) return {};
          return kRoundBroke;
        });
    cut_off_ = text == kStoreIsGone;
    // Whether all have come or not: a round that broke is followed by another, without us.
    post([this, text] {
      events_.ordered(
          {.kind = Order::Kind::Over, .text = text, .others_go_on = text == kRoundBroke});
    });
  });
}

void SharedRounds::leave(core::agent::Ending /*ending*/, bool close) {
  give_up();
  queue([this, close] {
    leave_now(close);
    post(events_.left);
  });
}

void SharedRounds::leave_now(bool close) {
  if (cut_off_) return;  // No store answers.
  // The node that said so also closes the run.
  if (!verdict_.empty()) return wait_for_goodbyes(*info_);
  const auto warn = [](const Result<void>& done) {
    if (!done && !may_pass(done.error())) log_warning(done.error().message);
  };
  if (!close) return warn(handler_->leave());
  const auto before = handler_->status();
  warn(handler_->shutdown());
  // A node that waits to come in looks now and then. If we host the store and are gone, it does not
  // learn that the run is closed.
  if (before && before->waiting + before->spares > 0) rest(kLastLook);
  if (info_ && info_->world_size > 1) say_goodbye_and_wait(*info_);
}

}  // namespace regroup::runtime
