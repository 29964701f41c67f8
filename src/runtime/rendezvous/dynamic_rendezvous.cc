// The dynamic handler: hosts core's executor on a backend, sends the heartbeats, and tells people
// what is waited for.
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/text.h"
#include "core/rendezvous/describe.h"
#include "core/rendezvous/executor.h"
#include "io/loop/clock.h"
#include "regroup/rendezvous_backend.h"
#include "runtime/common/limits.h"
#include "runtime/common/log.h"
#include "runtime/rendezvous/bootstrap.h"
#include "runtime/rendezvous/heartbeat.h"
#include "runtime/rendezvous/rendezvous_records.h"
#include "runtime/rendezvous/rendezvous_settings.h"
#include "runtime/rendezvous/this_node.h"
#include "runtime/rendezvous/wait_lines.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup {
namespace {

using namespace core::rendezvous;
using runtime::Bootstrap;

constexpr Duration kLongestGoodbye = 5s;

Now both_clocks() { return {io::now(), Stamp{io::utc_micros()}}; }

class DynamicHandler final : public RendezvousHandler {
 public:
  DynamicHandler(const RendezvousParameters& parameters, Settings settings,
                 std::unique_ptr<RendezvousBackend> backend, StoreOpener open_store,
                 const std::string& address)
      : backend_(std::move(backend)),
        open_store_(std::move(open_store)),
        lines_(parameters),
        expected_(parameters.expected_nodes),
        backend_name_(backend_->name()),
        interrupted_(parameters.interrupted ? parameters.interrupted
                                            : std::make_shared<const std::atomic<bool>>(false)),
        executor_(std::move(settings), runtime::make_node_id(address),
                  Claim{.name = runtime::name_of_this_node(parameters, address),
                        .wish = parameters.node_rank,
                        .held = {}},
                  std::random_device{}()),
        records_(parameters.on_record, executor_.settings().run_id, executor_.self()),
        bootstrap_(executor_.settings().run_id, address, *interrupted_) {}

  std::string backend() const override { return backend_name_; }
  std::string run_id() const override { return executor_.settings().run_id; }
  std::optional<RendezvousSettings> settings() const override {
    return runtime::public_settings(executor_.settings());
  }
  bool use_agent_store() const override { return bootstrap_.shared(); }

  Result<RendezvousInfo> next_rendezvous() override {
    const std::lock_guard one_call(calls_);
    records_.attempts();
    for (;;) {
      bool is_broken = false;
      auto info = join_round(is_broken);
      // Rank 0 may die before it has said where its store is. It will not come back.
      if (!info && is_broken && !*interrupted_) continue;
      if (!info) records_.failed("next_rendezvous", info.error());
      return info;
    }
  }

  Result<bool> is_closed() override {
    const auto seen = look();
    if (seen) return seen->closed;
    records_.failed("is_closed", seen.error());
    return tl::unexpected(seen.error());
  }

  Result<std::int64_t> num_nodes_waiting() override {
    const auto seen = look();
    if (seen) return seen->waiting;
    records_.failed("num_nodes_waiting", seen.error());
    return tl::unexpected(seen.error());
  }

  Result<RendezvousStatus> status() override { return look(); }

  Result<void> set_closed() override {
    auto closed = close();
    if (!closed) records_.failed("set_closed", closed.error());
    return closed;
  }

  Result<void> shutdown() override {
    const std::lock_guard one_call(calls_);
    stop_beating();
    auto closed = close();
    if (!closed) records_.could_not_shut_down(closed.error());
    return closed;
  }

  Result<void> leave() override {
    const std::lock_guard one_call(calls_);
    stop_beating();
    const std::lock_guard lock(mutex_);
    // The others notice a silent node anyway, so a goodbye is not worth a long wait.
    const Settings& settings = executor_.settings();
    return drive(Operation::Leave, std::min(settings.close_timeout, kLongestGoodbye));
  }

 private:
  // `is_broken`: a member was gone before the round could begin.
  Result<RendezvousInfo> join_round(bool& is_broken) {
    stop_beating();
    auto joined = join();
    if (!joined) return tl::unexpected(joined.error());
    // Without the lock from here on: a node that waits for a slow rank 0 must go on with its own
    // heartbeats.
    const Duration interval = executor_.settings().keep_alive_interval;
    if (auto beating = heart_.start(interval, [this] { beat(); }); !beating)
      return tl::unexpected(beating.error());

    // A connection of the round's own: its waiting calls would hold up the heartbeats.
    auto store = open_store_();
    if (!store) return tl::unexpected(store.error());
    RendezvousInfo info{
        .store = make_prefix_store(wire::round_prefix(run_id(), joined->round), *store),
        .round = joined->round,
        .rank = joined->participants.at(executor_.self()),
        .world_size = static_cast<std::int64_t>(joined->participants.size()),
        .bootstrap = {},
        .nodes = std::vector<std::string>(joined->participants.size())};
    for (const auto& [node, rank] : joined->participants)
      info.nodes[static_cast<std::size_t>(rank)] = name_of(*joined, node);
    // A node that was here is named as missing if it does not come again.
    expected_ = info.nodes;
    records_.joined(info.round, info.rank, info.world_size);
    auto where = bootstrap_.agree(*joined, executor_.self(), *store, [&] {
      const auto seen = look();
      is_broken = seen && seen->must_rejoin();
      return is_broken;
    });
    if (!where) return tl::unexpected(where.error());
    info.bootstrap = std::move(*where);
    return info;
  }

  Result<RendezvousStatus> look() {
    const std::lock_guard lock(mutex_);
    if (auto seen = drive(Operation::Look, executor_.settings().heartbeat_timeout); !seen)
      return tl::unexpected(seen.error());
    const Standing standing = executor_.standing();
    return RendezvousStatus{.member = standing.member,
                            .whole = standing.whole,
                            .closed = standing.closed,
                            .waiting = standing.waiting,
                            .spares = standing.spares};
  }

  Result<void> close() {
    const std::lock_guard lock(mutex_);
    auto closed = drive(Operation::Close, executor_.settings().close_timeout);
    if (closed) records_.closed();
    return closed;
  }

  // The state in which this node saw itself in a sealed round.
  Result<State> join() {
    const std::lock_guard lock(mutex_);
    if (auto joined = drive(Operation::Join, executor_.settings().join_timeout); !joined)
      return tl::unexpected(joined.error());
    return executor_.joined();
  }

  // Plays one operation to its end. Called with mutex_ held.
  Result<void> drive(Operation operation, Duration limit) {
    limit_ = limit;
    lines_.begin(io::now());
    progress_.clear();
    Step step = executor_.begin(operation, limit, both_clocks());
    for (;;) {
      if (step.phase_left) backend_->announce_left(*step.phase_left);
      if (const auto* done = std::get_if<Done>(&step.what)) return ended(done->outcome);
      if (must_stop(operation))
        return fail(ErrorKind::Cancelled, "interrupted while waiting for the other nodes");
      auto next = std::holds_alternative<Rest>(step.what)   ? rest(std::get<Rest>(step.what))
                  : std::holds_alternative<Read>(step.what) ? read()
                                                            : swap(std::get<Swap>(step.what));
      if (!next) return tl::unexpected(next.error());
      step = std::move(*next);
    }
  }

  bool must_stop(Operation operation) const {
    return (operation == Operation::Join && *interrupted_) ||
           (operation == Operation::KeepAlive && heart_.is_stopping());
  }

  Result<Step> read() {
    auto present = backend_->get_state();
    if (!present) return failed(std::move(present.error()));
    auto snapshot = decode(std::move(*present));
    if (!snapshot) return tl::unexpected(snapshot.error());
    trouble_.reset();
    return executor_.on_read(std::move(*snapshot), both_clocks());
  }

  Result<Step> swap(const Swap& swap) {
    for (const Transition& transition : swap.transitions) records_.change(transition);
    auto answer = backend_->set_state(wire::encode_state(swap.state), swap.token);
    if (!answer) return failed(std::move(answer.error()));
    trouble_.reset();
    records_.synced(answer->won, swap.dead);
    if (answer->won) return executor_.on_won(std::move(answer->present->token), both_clocks());
    auto snapshot = decode(std::move(answer->present));
    if (!snapshot) return tl::unexpected(snapshot.error());
    return executor_.on_lost(std::move(*snapshot), both_clocks());
  }

  Result<Step> rest(const Rest& rest) {
    const bool is_join = executor_.operation() == Operation::Join;
    while (!must_stop(executor_.operation())) {
      const Instant now = io::now();
      if (now >= rest.until) break;
      if (is_join) tell(now);
      const Duration slice = std::min<Duration>(runtime::kNoticedWithin, rest.until - now);
      if (rest.phase.empty()) {
        std::this_thread::sleep_for(slice);
        continue;
      }
      if (backend_->wait_until_left(rest.phase, slice)) break;
    }
    return executor_.on_rested(both_clocks());
  }

  // The backend did not answer, so it is unknown whether it did what was asked.
  Result<Step> failed(Error error) {
    const bool may_pass = error.kind == ErrorKind::Connection || error.kind == ErrorKind::Timeout;
    if (!may_pass) return tl::unexpected(std::move(error));
    trouble_ = std::move(error);
    return executor_.on_unreachable(both_clocks());
  }

  Result<std::optional<Snapshot>> decode(std::optional<RendezvousBackend::Present> present) {
    if (!present) return std::nullopt;
    auto state = wire::decode_state(present->bytes);
    if (!state && state.error().kind == ErrorKind::Unsupported)
      return tl::unexpected(std::move(state.error()));
    if (!state)
      return fail(ErrorKind::Corrupt, state.error().message +
                                          ". It was left as it is; use another run id, or remove "
                                          "the state if the run is over.");
    return Snapshot{std::move(*state), std::move(present->token)};
  }

  Result<void> ended(Outcome outcome) const {
    const std::string run = "the run '" + run_id() + "' ";
    switch (outcome) {
      case Outcome::Finished:
        return {};
      case Outcome::Closed:
        return fail(ErrorKind::Closed,
                    run +
                        "is closed: it has ended, or somebody ended it. A new run needs another "
                        "run id (--rdzv-id).");
      case Outcome::NotNeeded:
        return fail(ErrorKind::NotNeeded, run + "has ended; this node was a spare, not needed.");
      case Outcome::TimedOut:
        return fail(ErrorKind::Timeout, describe_timeout());
      case Outcome::Unreachable:
        return fail(trouble_ ? trouble_->kind : ErrorKind::Connection,
                    trouble_ ? trouble_->message : "the rendezvous backend does not answer");
    }
    return {};
  }

  Wait waiting(Instant now) const {
    return {.state = executor_.state(),
            .self = executor_.self(),
            .settings = executor_.settings(),
            .now = now,
            .give_up = executor_.give_up(),
            .last_call_end = executor_.last_call_end(),
            .expected = expected_};
  }

  std::string describe_timeout() const {
    const Settings& settings = executor_.settings();
    if (executor_.operation() == Operation::Join)
      return "the nodes did not meet within " + in_words(settings.join_timeout) +
             " (join_timeout): " +
             // As it was before this node took itself off the list: it was not the one missing.
             (progress_.empty() ? describe_progress(waiting(io::now())) : progress_);
    return "the change of the shared state did not get through within " + in_words(limit_) +
           ": too many nodes write at the same time, or the store is slow";
  }

  void tell(Instant now) {
    const Wait wait = waiting(now);
    progress_ = describe_progress(wait);
    lines_.tell(now,
                {.what = trouble_ ? trouble_->message : progress_,
                 .limit = describe_limit(wait),
                 .brief = trouble_ ? "waiting for the store to answer" : describe_briefly(wait),
                 .until = trouble_ ? wait.give_up : end_of_wait(wait)});
  }

  void beat() {
    const std::lock_guard lock(mutex_);
    const auto sent = drive(Operation::KeepAlive, executor_.settings().heartbeat_timeout);
    records_.beat(sent);
    warn(beats_.on_beat(sent));
  }

  void stop_beating() {
    heart_.stop();
    warn(beats_.on_stop());
  }

  static void warn(const std::string& line) {
    if (!line.empty()) runtime::log_warning(line);
  }

  const std::unique_ptr<RendezvousBackend> backend_;
  const StoreOpener open_store_;
  runtime::WaitLines lines_;           // Under mutex_.
  std::vector<std::string> expected_;  // Under calls_.
  const std::string backend_name_;
  const std::shared_ptr<const std::atomic<bool>> interrupted_;

  std::mutex calls_;  // Around the calls that stop and start the thread.
  std::mutex mutex_;  // Around every use of the executor and the backend.
  Executor executor_;
  const runtime::RendezvousRecords records_;
  Bootstrap bootstrap_;
  std::optional<Error> trouble_;  // Why the backend did not answer, while it does not.
  Duration limit_{};              // Of the operation under way.
  std::string progress_;          // As it was when this node last waited.

  runtime::HeartbeatLog beats_;  // Under mutex_ while the heart beats, else under calls_.
  runtime::Heartbeat heart_;     // Last, so that it stops before anything that it uses is gone.
};

}  // namespace

Result<std::unique_ptr<RendezvousHandler>> make_dynamic_rendezvous(
    const RendezvousParameters& parameters, std::unique_ptr<RendezvousBackend> backend,
    StoreOpener open_store, const std::string& address) {
  auto settings = runtime::settings_of(parameters);
  if (!settings) return tl::unexpected(settings.error());
  if (auto good = runtime::check_addresses(parameters, address); !good)
    return tl::unexpected(good.error());
  return std::make_unique<DynamicHandler>(parameters, std::move(*settings), std::move(backend),
                                          std::move(open_store), address);
}

}  // namespace regroup
