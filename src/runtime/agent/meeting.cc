#include "runtime/agent/meeting.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "io/loop/clock.h"
#include "regroup/store_helpers.h"
#include "runtime/common/log.h"
#include "runtime/rendezvous/exchange.h"

namespace regroup::runtime {
namespace {

constexpr Duration kLookAgain = 500ms;
// A slice of a wait in the store: so long an interruption, or a broken round, goes unnoticed.
constexpr Duration kSlice = 250ms;
// For those who still read from a store that this node hosts.
constexpr Duration kGoodbyeLimit = 5s;
// For those outside, who look about once a second.
constexpr Duration kLastLook = 2500ms;
// A coordinator says within so long what it makes of a failure; else we go by what we know.
constexpr Duration kDecisionLimit = 10s;
// After a success, a coordinator that cannot be reached is waited for no longer than this.
constexpr Duration kCoordinatorLimit = 10s;
// Why the run failed for good, in the round's store, for nodes of regroup. It is text for people.
constexpr const char* kVerdictKey = "regroup/verdict";
constexpr const char* kGoodbyeKey = "regroup/goodbye";
// Followed by the node's rank: "suspects spinning" while its workers are stalled, else nothing.
constexpr const char* kStalledKey = "regroup/stalled/";
// Followed by the node's rank: where its ranks are, once all are judged to hang.
constexpr const char* kWhereKey = "regroup/where/";

std::string votes_text(const core::hang::Votes& votes) {
  return std::to_string(votes.suspects) + " " + std::to_string(votes.spinning);
}

std::optional<core::hang::Votes> parse_votes(const std::string& text) {
  core::hang::Votes votes;
  char end = 0;
  if (std::sscanf(text.c_str(), "%d %d%c", &votes.suspects, &votes.spinning, &end) != 2) return {};
  return votes;
}

std::string why_changed(const RendezvousStatus& status) {
  if (!status.member) return "this node was dropped from the round";
  if (!status.whole) return "a node of the round is gone";
  return std::to_string(status.waiting) + (status.waiting == 1 ? " node wants" : " nodes want") +
         " to come in";
}

bool may_pass(const Error& error) {
  return error.kind == ErrorKind::Connection || error.kind == ErrorKind::Timeout;
}

}  // namespace

Meeting::Meeting(io::Loop& loop, RendezvousParameters parameters)
    : loop_(loop),
      parameters_(std::move(parameters)),
      interrupted_(std::make_shared<std::atomic<bool>>(false)),
      here_(std::make_shared<bool>(true)) {
  parameters_.interrupted = interrupted_;
  thread_ = std::thread([this] { run(); });
}

Meeting::~Meeting() {
  *here_ = false;
  *interrupted_ = true;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    tasks_.clear();
  }
  wake();
  thread_.join();
  // Not by the thread: it may be at its end while wake() still speaks to the coordinator.
  handler_.reset();
}

void Meeting::run() {
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

void Meeting::wake() {
  changed_.notify_all();
  if (Coordination* coordinator = coordinator_) coordinator->wake();
}

void Meeting::queue(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++queued_;
  }
  changed_.notify_all();
}

bool Meeting::rest(Duration limit) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, limit, [this] { return ending_ || begun_ <= enough_; });
}

void Meeting::join(std::function<void(Result<JoinedRound>)> done) {
  queue([this, done = std::move(done)] {
    auto joined = std::make_shared<Result<JoinedRound>>(join_now());
    loop_.post([here = here_, done, joined] {
      if (*here) done(std::move(*joined));
    });
  });
}

void Meeting::give_up_join() {
  *interrupted_ = true;
  wake();
}

Result<JoinedRound> Meeting::join_now() {
  const Instant begun = io::now();
  if (handler_ == nullptr) {
    auto made = make_rendezvous(parameters_);
    if (!made) return tl::unexpected(made.error());
    handler_ = std::move(*made);
    coordinator_ = handler_->coordination();
  }
  for (;;) {
    auto info = handler_->next_rendezvous();
    if (!info) {
      if (const Coordination* coordinator = coordinator_)
        note_end(coordinator->order());
      else if (info.error().kind == ErrorKind::Closed)
        hear_verdict();
      return tl::unexpected(info.error());
    }
    info_ = *info;
    const Instant met = io::now();
    if (const auto& told = info->ranks)
      return JoinedRound{.info = *info,
                         .ranks = {.base_global_rank = told->base_global_rank,
                                   .global_world_size = told->global_world_size,
                                   .base_role_rank = told->base_role_rank,
                                   .role_world_size = told->role_world_size},
                         .use_agent_store = handler_->use_agent_store(),
                         .took_to_meet = met - begun};
    const core::rendezvous::RoleInfo mine{parameters_.agent->role, info->rank,
                                          parameters_.agent->workers};
    // Whoever was lost between the seal and here would be waited for in vain.
    bool again = false;
    const auto ranks = exchange_ranks(*info->store, info->world_size, mine, [&] {
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

void Meeting::watch(Watch watch) {
  queue([this, watch = std::move(watch)] { watch_now(watch); });
}

void Meeting::look_away() {
  {
    const std::lock_guard lock(mutex_);
    enough_ = queued_;
  }
  wake();
}

void Meeting::watch_now(const Watch& watch) {
  const auto answer = [this](const std::function<void(std::string)>& to, std::string text) {
    loop_.post([here = here_, to, text = std::move(text)] {
      if (*here) to(text);
    });
  };
  cut_off_ = false;
  if (Coordination* coordinator = coordinator_) return watch_orders(*coordinator, watch);
  std::string told;
  while (rest(kLookAgain)) {
    const auto status = handler_->status();
    if (!status) {
      // Workers can go on without the store; only the next round cannot.
      if (!std::exchange(cut_off_, true)) answer(watch.note, status.error().message);
      if (!may_pass(status.error())) return;
      continue;
    }
    if (std::exchange(cut_off_, false)) answer(watch.note, "the rendezvous store answers again");
    if (hear_verdict()) return answer(watch.failed, verdict());
    if (status->must_rejoin()) return answer(watch.changed, why_changed(*status));
    exchange_stalls(watch.start, told);
    exchange_where(watch.start);
  }
}

// What is pushed is acted upon at once; only what goes through the round's store is looked for.
void Meeting::watch_orders(Coordination& coordinator, const Watch& watch) {
  using Kind = Coordination::Order::Kind;
  const auto answer = [this](auto to, auto what) {
    loop_.post([here = here_, to = std::move(to), what = std::move(what)] {
      if (*here) to(what);
    });
  };
  std::string told;
  std::string trouble;
  while (rest({})) {
    const Coordination::Order order = coordinator.wait(kLookAgain);
    if (std::string now = coordinator.trouble(); now != trouble) {
      // Workers can go on without a coordinator; only the next round cannot.
      answer(watch.note, now.empty() ? "the coordinator answers again" : now);
      trouble = std::move(now);
    }
    switch (order.kind) {
      case Kind::None:
        exchange_stalls(watch.start, told);
        exchange_where(watch.start);
        continue;
      case Kind::Rejoin:
        // Of our own failure we know; its end is waited for by await_decision().
        if (order.is_ours) return;
        if (order.is_failure)
          return answer(watch.failed_elsewhere,
                        ToldFailure{order.text, static_cast<int>(order.restart_count)});
        return answer(watch.changed, order.text);
      case Kind::RunFailed:
        note_end(order);
        if (!order.is_ours) answer(watch.failed, order.text);
        return;
      case Kind::Closed:
        // Whoever said so was done; our workers may be about to be. Or a worse word follows.
        if (!rest(kSlice)) return;
        continue;
      case Kind::Over:
        // We were dropped while we could not be told, and the others came to the end without us.
        return answer(watch.changed, std::string("the run has ended without this node"));
    }
  }
}

void Meeting::note_end(const Coordination::Order& order) {
  if (order.kind != Coordination::Order::Kind::RunFailed) return;
  run_failed_ = true;
  const std::lock_guard lock(mutex_);
  if (!order.is_ours) verdict_ = order.text;
  end_note_ = order.note;
}

std::string Meeting::end_note() {
  const std::lock_guard lock(mutex_);
  return end_note_;
}

void Meeting::report(const WorkerFailure& failure) {
  if (Coordination* coordinator = coordinator_) coordinator->failed(failure);
}

bool Meeting::warn(int signal) {
  Coordination* coordinator = coordinator_;
  if (coordinator == nullptr) return false;
  coordinator->warn(signal);
  return true;
}

void Meeting::await_decision(std::function<void(std::optional<int>)> done) {
  queue([this, done = std::move(done)] {
    loop_.post([here = here_, done, restart_count = await_decision_now()] {
      if (*here) done(restart_count);
    });
  });
}

std::optional<int> Meeting::await_decision_now() {
  using Kind = Coordination::Order::Kind;
  Coordination& coordinator = *coordinator_;
  // One that was started again waits as long as a silent node may before it decides anything.
  const Instant until =
      io::deadline_after(kDecisionLimit + parameters_.agent->rules.heartbeat_limit);
  while (rest({}) && io::now() < until) {
    const Coordination::Order order = coordinator.wait(kSlice);
    note_end(order);
    if (order.kind == Kind::RunFailed) return std::nullopt;
    if (order.kind == Kind::Rejoin) return static_cast<int>(order.restart_count);
    // Of a run that somebody has closed: what follows from our failure is about to come.
    if (order.kind != Kind::None && !rest(kSlice)) break;
  }
  // Nobody there to decide. As far as we know:
  if (coordinator.order().kind != Kind::None) return std::nullopt;
  const std::int64_t restarts = info_->restart_count.value_or(0);
  if (restarts >= parameters_.agent->rules.max_restarts) return std::nullopt;
  return static_cast<int>(restarts);
}

void Meeting::say_stalled(std::optional<core::hang::Votes> votes) {
  const std::lock_guard lock(mutex_);
  votes_ = votes;
  if (votes) return;
  hang_ = false;
  on_where_ = {};
}

// Costs nothing while nobody is stalled. `told` is what the others know of us.
void Meeting::exchange_stalls(const std::string& start, std::string& told) {
  std::optional<core::hang::Votes> mine;
  {
    const std::lock_guard lock(mutex_);
    mine = votes_;
  }
  Store& store = *info_->store;
  const auto key_of = [&](std::int64_t node) { return kStalledKey + start + std::to_string(node); };
  const std::string text = mine ? votes_text(*mine) : "";
  if (text != told && store.set(key_of(info_->rank), text)) told = text;
  if (!mine) return;
  core::hang::Votes all = *mine;
  for (std::int64_t node = 0; node < info_->world_size; ++node) {
    if (node == info_->rank) continue;
    const auto there = store.check({key_of(node)});
    if (!there || !*there) return;
    const auto said = store.get(key_of(node));
    const auto votes = said ? parse_votes(*said) : std::nullopt;
    if (!votes) {
      hang_ = false;
      return;
    }
    all.suspects += votes->suspects;
    all.spinning += votes->spinning;
  }
  hang_ = core::hang::is_hang(all);
}

void Meeting::say_where(const std::vector<wire::RankAt>& ours,
                        std::function<void(std::vector<wire::RankAt>)> all) {
  const std::lock_guard lock(mutex_);
  where_ = wire::encode_ranks(ours);
  on_where_ = std::move(all);
}

void Meeting::exchange_where(const std::string& start) {
  std::string ours;
  std::function<void(std::vector<wire::RankAt>)> done;
  {
    const std::lock_guard lock(mutex_);
    ours = where_;
    done = on_where_;
  }
  if (!done) return;
  Store& store = *info_->store;
  Store::Keys keys;
  keys.reserve(static_cast<std::size_t>(info_->world_size));
  for (std::int64_t node = 0; node < info_->world_size; ++node)
    keys.push_back(kWhereKey + start + std::to_string(node));
  if (!store.set(keys[static_cast<std::size_t>(info_->rank)], ours)) return;
  if (const auto there = store.check(keys); !there || !*there) return;
  std::vector<wire::RankAt> all;
  for (const std::string& key : keys) {
    const auto text = store.get(key);
    if (!text) return;
    for (wire::RankAt& one : wire::decode_ranks(*text)) all.push_back(std::move(one));
  }
  {
    const std::lock_guard lock(mutex_);
    on_where_ = {};
  }
  loop_.post([here = here_, done, all = std::move(all)] {
    if (*here) done(all);
  });
}

bool Meeting::hear_verdict() {
  if (!info_) return false;
  const auto there = info_->store->check({kVerdictKey});
  if (!there || !*there) return false;
  const auto told = info_->store->get(kVerdictKey);
  [[maybe_unused]] const auto goodbye = info_->store->add(kGoodbyeKey, 1);
  const std::lock_guard lock(mutex_);
  verdict_ = told ? *told : "another node says so";
  return true;
}

std::string Meeting::verdict() {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

void Meeting::check_in(bool succeeded, std::string cause, Duration limit,
                       std::function<void(CheckedIn)> done) {
  queue([this, succeeded, cause = std::move(cause), limit, done = std::move(done)] {
    loop_.post([here = here_, done, end = check_in_now(succeeded, cause, limit)] {
      if (*here) done(end);
    });
  });
}

void Meeting::give_up_check_in() { look_away(); }

Meeting::CheckedIn Meeting::check_in_now(bool succeeded, const std::string& cause, Duration limit) {
  Coordination* coordinator = coordinator_;
  if (coordinator != nullptr && info_ && info_->ranks) return await_over(*coordinator, limit);
  CheckedIn end{.text = pass_exit_barrier(succeeded, cause, limit)};
  if (run_failed_) end.how = core::agent::CheckedIn::RunFailed;
  return end;
}

Meeting::CheckedIn Meeting::await_over(Coordination& coordinator, Duration limit) {
  using Kind = Coordination::Order::Kind;
  using core::agent::CheckedIn::Restart;
  using core::agent::CheckedIn::RunFailed;
  coordinator.done();
  const Instant until = io::deadline_after(limit);
  Instant reached = io::now();
  while (io::now() < until) {
    if (!rest({})) return {.text = "the other nodes are not waited for any longer"};
    const Coordination::Order order = coordinator.wait(kSlice);
    note_end(order);
    switch (order.kind) {
      case Kind::None:
        break;
      case Kind::Over:
      case Kind::Closed:
        return {};
      case Kind::Rejoin:
        return {.text = order.text,
                .how = Restart,
                .restart_count = static_cast<int>(order.restart_count)};
      case Kind::RunFailed:
        return {.text = order.text, .how = RunFailed};
    }
    if (coordinator.trouble().empty()) reached = io::now();
    if (io::now() - reached > kCoordinatorLimit) {
      cut_off_ = true;
      return {.text = "the coordinator is gone; the other nodes are not waited for"};
    }
  }
  return {.text = "not every node has ended within the limit (--exit-barrier-timeout)"};
}

// As torchrun's nodes do it.
std::string Meeting::pass_exit_barrier(bool succeeded, const std::string& cause, Duration limit) {
  if (!info_ || info_->world_size == 1) return {};
  Store& store = *info_->store;
  constexpr const char* kGone = "the rendezvous store is gone; the other nodes are not waited for";
  // Who failed comes too: else those who succeeded would wait for him in vain.
  if ((!succeeded && !store.set(kVerdictKey, cause)) || !arrive_at_exit(store, info_->world_size)) {
    cut_off_ = true;
    return kGone;
  }
  if (!succeeded) return {};
  const Instant until = io::deadline_after(limit);
  while (io::now() < until) {
    const auto complete = is_exit_complete(store);
    if (!complete) {
      cut_off_ = true;
      return kGone;
    }
    if (*complete) return {};
    if (const Coordination* coordinator = coordinator_) {
      note_end(coordinator->order());
      if (run_failed_) return {};
    }
    if (const auto status = handler_->status(); status && (!status->member || !status->whole))
      return "a node of the round is gone; the others are not waited for";
    if (!rest(kSlice / 10)) return "the other nodes are not waited for any longer";
  }
  return "not every node has ended within the limit (--exit-barrier-timeout)";
}

void Meeting::leave(bool close, std::function<void()> done) {
  queue([this, close, done = std::move(done)] {
    leave_now(close);
    loop_.post([here = here_, done] {
      if (*here) done();
    });
  });
}

void Meeting::leave_now(bool close) {
  if (handler_ == nullptr || cut_off_) return;  // There is nobody to be told.
  const Coordination* coordinator = coordinator_;
  // Nodes without a session would wait for us at the exit.
  if (coordinator != nullptr && run_failed_ && info_ && !info_->ranks)
    (void)arrive_at_exit(*info_->store, info_->world_size);
  if (coordinator != nullptr && !(close && info_ && !info_->ranks)) {
    const bool is_over = coordinator->order().kind != Coordination::Order::Kind::None;
    const auto gone = close && !is_over ? handler_->shutdown() : handler_->leave();
    if (!gone && !may_pass(gone.error())) log_warning(gone.error().message);
    return;
  }
  if (!verdict().empty()) return wait_for_goodbyes();  // Who said it closes the run, too.
  if (!close) {
    if (auto left = handler_->leave(); !left && !may_pass(left.error()))
      log_warning(left.error().message);
    return;
  }
  const auto before = handler_->status();
  if (auto closed = handler_->shutdown(); !closed && !may_pass(closed.error()))
    log_warning(closed.error().message);
  // Whoever waits outside looks now and then, and finds nobody if we host the store and are gone.
  if (before && before->waiting + before->spares > 0) rest(kLastLook);
  if (!info_ || info_->world_size == 1) return;
  if (info_->store->add(kGoodbyeKey, 1)) wait_for_goodbyes();
}

// Nobody is told who hosts the store, so everybody stays until all have read what they need. If the
// host goes first, the lost connection says that it is over.
void Meeting::wait_for_goodbyes() {
  const Instant until = io::deadline_after(kGoodbyeLimit);
  while (io::now() < until) {
    const auto count = info_->store->add(kGoodbyeKey, 0);
    if (!count || *count >= info_->world_size || !rest(kSlice / 10)) return;
  }
}

}  // namespace regroup::runtime
