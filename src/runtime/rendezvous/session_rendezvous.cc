#include "runtime/rendezvous/session_rendezvous.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "core/coordinator/member.h"
#include "core/run/run_rules.h"
#include "io/loop/clock.h"
#include "runtime/common/log.h"
#include "runtime/rendezvous/bootstrap.h"
#include "runtime/rendezvous/this_node.h"
#include "runtime/rendezvous/wait_lines.h"
#include "runtime/session/session.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using core::rendezvous::Settings;
using core::rendezvous::State;

// How long an interruption may go unnoticed, and how often what is waited for is told.
constexpr Duration kSlice = 100ms;
// A goodbye that does not get through in so long is not waited for.
constexpr Duration kGoodbyeLimit = 2s;
// Whoever hosts the coordinator stays so long for those who have still to hear that it is over.
constexpr Duration kHostStays = 5s;

Hello hello_of(const SessionRendezvousOptions& options) {
  const RendezvousParameters& parameters = options.parameters;
  const Settings& settings = options.settings;
  RunRules rules = parameters.agent->rules;
  rules.min_nodes = settings.min_nodes;
  rules.max_nodes = settings.max_nodes;
  rules.last_call = settings.last_call_timeout;
  return {.run_id = settings.run_id,
          .node = make_node_id(options.address),
          .claim = {.name = name_of_this_node(parameters, options.address),
                    .wish = parameters.node_rank,
                    .held = {},
                    .group = parameters.topology_key},
          .role = parameters.agent->role,
          .workers = parameters.agent->workers,
          .rules = std::move(rules)};
}

class SessionHandler final : public RendezvousHandler, public Coordination {
 public:
  explicit SessionHandler(SessionRendezvousOptions options)
      : settings_(options.settings),  // Not moved: hello_of() needs them, too.
        interrupted_(options.parameters.interrupted
                         ? options.parameters.interrupted
                         : std::make_shared<const std::atomic<bool>>(false)),
        connect_(std::move(options.connect)),
        open_store_(std::move(options.open_store)),
        sessions_here_(std::move(options.sessions_here)),
        rejoin_timeout_(
            options.parameters.agent->rules.rejoin_timeout.value_or(settings_.join_timeout)),
        on_warned_(options.parameters.on_warned),
        lines_(options.parameters),
        bootstrap_(settings_.run_id, options.address, *interrupted_),
        member_(hello_of(options)) {}

  ~SessionHandler() override { take_session(); }

  Result<void> start(OpenedSession first) {
    auto session =
        Session::start(std::move(first),
                       {.connect = connect_,
                        .introduction =
                            [this] {
                              const std::lock_guard lock(mutex_);
                              return member_.introduction();
                            },
                        .on_message = [this](FromCoordinator message) { hear(std::move(message)); },
                        .on_lost = [this](const std::string& why) { lost(why); },
                        .heartbeat_limit = member_.hello().rules.heartbeat_limit});
    if (!session) return tl::unexpected(session.error());
    const std::lock_guard lock(mutex_);
    session_ = std::move(*session);
    return {};
  }

  std::string backend() const override { return "c10d"; }
  std::string run_id() const override { return settings_.run_id; }
  bool use_agent_store() const override { return bootstrap_.shared(); }
  Coordination* coordination() override { return this; }

  Result<RendezvousInfo> next_rendezvous() override {
    const std::lock_guard one_call(calls_);
    for (;;) {
      auto offer = bootstrap_.offer();
      if (!offer) return tl::unexpected(offer.error());
      if (!has_session()) {  // A join that was given up ended it.
        auto opened = connect_();
        if (!opened) return tl::unexpected(opened.error());
        if (auto started = start(std::move(*opened)); !started)
          return tl::unexpected(started.error());
      }
      say([&] { return member_.join({.address = offer->address, .port = offer->port}); });
      auto sealed = await_seal();
      if (!sealed) return tl::unexpected(sealed.error());
      auto info = describe(*sealed);
      if (!info) return tl::unexpected(info.error());
      if (*info) return std::move(**info);
    }
  }

  // ---- Coordination ----

  void failed(const WorkerFailure& failure) override {
    say([&]() -> std::optional<FromAgent> {
      if (!in_round()) return std::nullopt;
      return member_.failed({.rank = failure.rank,
                             .node = member_.hello().claim.name,
                             .exit_code = failure.exit_code,
                             .text = failure.text});
    });
  }

  void done() override {
    say([&]() -> std::optional<FromAgent> {
      if (!in_round()) return std::nullopt;
      return member_.done();
    });
  }

  void warn(int signal) override {
    say([&]() -> std::optional<FromAgent> { return Warn{.signal = signal}; });
  }

  Order order() const override {
    const std::lock_guard lock(mutex_);
    return order_locked();
  }

  Order wait(Duration limit) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit,
                      [this] { return woken_ || order_locked().kind != Order::Kind::None; });
    woken_ = false;
    return order_locked();
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_all();
  }

  std::string trouble() const override {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }

  // ---- What has become of it ----

  Result<RendezvousStatus> status() override {
    const std::lock_guard lock(mutex_);
    if (!trouble_.empty()) return fail(ErrorKind::Connection, trouble_);
    const Order::Kind kind = order_locked().kind;
    return RendezvousStatus{.member = member_.sealed() && !member_.joining(),
                            .whole = kind != Order::Kind::Rejoin,
                            .closed = member_.end() || member_.over()};
  }

  Result<bool> is_closed() override {
    const auto seen = status();
    if (!seen) return tl::unexpected(seen.error());
    return seen->closed;
  }

  // Whoever waits has stopped the round by that: status() says so.
  Result<std::int64_t> num_nodes_waiting() override {
    const auto seen = status();
    if (!seen) return tl::unexpected(seen.error());
    return seen->waiting;
  }

  // ---- Ends ----

  Result<void> set_closed() override {
    const std::lock_guard one_call(calls_);
    return close();
  }

  Result<void> shutdown() override {
    const std::lock_guard one_call(calls_);
    auto closed = close();
    go();
    return closed;
  }

  Result<void> leave() override {
    const std::lock_guard one_call(calls_);
    say([&] { return member_.leave("", false); });
    go();
    return {};
  }

 private:
  template <class Make>
  void say(const Make& make) {
    std::optional<FromAgent> message;
    std::shared_ptr<Session> session;
    {
      const std::lock_guard lock(mutex_);
      message = make();
      session = session_;
    }
    if (message && session != nullptr) session->say(*message);
  }

  bool has_session() const {
    const std::lock_guard lock(mutex_);
    return session_ != nullptr;
  }

  std::shared_ptr<Session> take_session() {
    const std::lock_guard lock(mutex_);
    return std::move(session_);
  }

  bool in_round() const { return member_.sealed() && !member_.joining(); }

  void hear(FromCoordinator message) {
    if (const auto* warned = std::get_if<Warned>(&message)) {
      if (on_warned_) on_warned_(static_cast<int>(warned->signal), warned->node);
      return;
    }
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      const std::string differ = core::run::differing_flags(member_.hello().rules, welcome->rules);
      if (!differ.empty() && !std::exchange(warned_, true))
        log_warning("this node was started with other values than the run's first, which count: " +
                    differ);
    }
    {
      const std::lock_guard lock(mutex_);
      trouble_.clear();
      member_.on_message(std::move(message));
      // Nobody comes back from that; workers run on, and whoever waits for the others need not.
      if (member_.refused())
        trouble_ = "the coordinator refuses this node: " + member_.refused()->why;
    }
    changed_.notify_all();
  }

  void lost(const std::string& why) {
    {
      const std::lock_guard lock(mutex_);
      trouble_ = "the coordinator cannot be reached: " + why;
    }
    changed_.notify_all();
  }

  Order order_locked() const {
    const auto of = [this](Order::Kind kind, const Stop& stop) {
      return Order{.kind = kind,
                   .text = stop.text,
                   .is_failure = stop.verdict.has_value(),
                   .is_ours = stop.verdict && stop.culprit == member_.id(),
                   .restart_count = stop.restart_count,
                   .note = stop.note};
    };
    if (member_.over()) return {.kind = Order::Kind::Over};
    if (member_.end())
      return of(
          member_.end()->why == Stop::Why::RunFailed ? Order::Kind::RunFailed : Order::Kind::Closed,
          *member_.end());
    if (member_.stop()) return of(Order::Kind::Rejoin, *member_.stop());
    return {};
  }

  Result<Sealed> await_seal() {
    const Instant begun = io::now();
    lines_.begin(begun);
    std::unique_lock lock(mutex_);
    const bool again = member_.sealed().has_value();
    const Duration limit = again ? rejoin_timeout_ : settings_.join_timeout;
    limit_name_ =
        again && rejoin_timeout_ != settings_.join_timeout ? "--rejoin-timeout" : "join_timeout";
    Instant give_up = begun + limit;
    for (;;) {
      if (auto end = why_not(); !end) return tl::unexpected(end.error());
      if (!member_.joining()) return *member_.sealed();
      const Instant now = io::now();
      // A spare waits without a limit; its time begins when it is one no longer.
      if (member_.is_spare()) give_up = now + limit;
      const bool is_late = now > give_up;
      if (is_late || *interrupted_) {
        const std::string progress =
            member_.progress() ? member_.progress()->text : "no word from the coordinator";
        lock.unlock();
        say([&] { return member_.leave(is_late ? "its time to join was over" : "", false); });
        go();
        if (!is_late)
          return fail(ErrorKind::Cancelled, "interrupted while waiting for the other nodes");
        return fail(ErrorKind::Timeout, "the nodes did not meet within " + in_words(limit) + " (" +
                                            limit_name_ + "): " + progress);
      }
      tell(now, give_up);
      changed_.wait_for(lock, std::min<Duration>(kSlice, give_up - now + 1ms));
    }
  }

  // Called with mutex_ held. An error: the join has come to its end.
  Result<void> why_not() const {
    const std::string run = "the run '" + settings_.run_id + "' ";
    if (member_.refused()) return fail(ErrorKind::Refused, member_.refused()->why);
    if (!member_.over() && !member_.end()) return {};
    if (member_.is_spare())
      return fail(ErrorKind::NotNeeded, run + "has ended; this node was a spare, not needed.");
    if (member_.end() && member_.end()->why == Stop::Why::RunFailed)
      return fail(ErrorKind::Closed, run + "has failed: " + member_.end()->text);
    return fail(ErrorKind::Closed,
                run +
                    "is closed: it has ended, or somebody ended it. A new run needs another run id "
                    "(--rdzv-id).");
  }

  // Called with mutex_ held; whoever is told must not come back here.
  void tell(Instant now, Instant give_up) {
    const auto& progress = member_.progress();
    const bool is_spare = member_.is_spare();
    if (!trouble_.empty()) {
      return lines_.tell(now, {.what = trouble_,
                               .limit = limit_text(now, give_up),
                               .brief = "waiting for the coordinator to answer",
                               .until = give_up});
    }
    if (!progress) return;
    if (progress != told_progress_) {
      told_progress_ = progress;
      last_call_until_.reset();
      if (progress->last_call) last_call_until_ = now + *progress->last_call;
    }
    std::string limit;
    std::optional<Instant> until;
    if (last_call_until_) {
      until = last_call_until_;
      limit = "; last call ends in " + in_words(std::max(*until - now, Duration{}));
    } else if (!is_spare) {
      until = give_up;
      limit = limit_text(now, give_up);
    }
    lines_.tell(now,
                {.what = progress->text, .limit = limit, .brief = progress->brief, .until = until});
  }

  std::string limit_text(Instant now, Instant give_up) const {
    return "; gives up in " + in_words(std::max(give_up - now, Duration{})) + " (" + limit_name_ +
           ")";
  }

  // None: the round was broken before it began.
  Result<std::optional<RendezvousInfo>> describe(const Sealed& sealed) {
    // A connection of the round's own, for what agents tell each other through the store.
    auto store = open_store_();
    if (!store) return tl::unexpected(store.error());
    RendezvousInfo info{
        .store = make_prefix_store(wire::round_prefix(run_id(), sealed.round), *store),
        .round = sealed.round,
        .rank = sealed.rank,
        .world_size = sealed.world_size,
        .bootstrap = {.address = sealed.bootstrap.address, .port = sealed.bootstrap.port},
        .nodes = {},
        .restart_count = sealed.restart_count};
    if (sealed.by_session) {
      info.ranks = WorkerRanks{.base_global_rank = sealed.ranks.base_global_rank,
                               .global_world_size = sealed.ranks.global_world_size,
                               .base_role_rank = sealed.ranks.base_role_rank,
                               .role_world_size = sealed.ranks.role_world_size};
      return info;
    }
    // Nodes without a session look for all that in the store, and so do we.
    auto state = read_state(**store);
    if (!state) return tl::unexpected(state.error());
    const bool is_ours = state->complete && state->round == sealed.round &&
                         state->participants.contains(member_.id());
    if (!is_ours) return std::nullopt;
    auto where = bootstrap_.agree(*state, member_.id(), *store);
    if (!where) return tl::unexpected(where.error());
    info.bootstrap = std::move(*where);
    return info;
  }

  Result<State> read_state(Store& store) const {
    auto text = store.get(wire::state_key(run_id()));
    if (!text) return tl::unexpected(text.error());
    auto bytes = wire::decode_base64(*text);
    if (!bytes) return tl::unexpected(bytes.error());
    return wire::decode_state(*bytes);
  }

  Result<void> close() {
    {
      const std::lock_guard lock(mutex_);
      if (member_.over() || member_.end()) return {};
    }
    if (!has_session())
      return fail(ErrorKind::Connection, "there is no session to close the run in");
    say([&] { return member_.leave("", true); });
    std::unique_lock lock(mutex_);
    const bool closed = changed_.wait_for(lock, std::min(settings_.close_timeout, kGoodbyeLimit),
                                          [this] { return member_.over() || member_.end(); });
    if (closed) return {};
    return fail(ErrorKind::Timeout, "the coordinator has not confirmed that the run is closed");
  }

  // No session from now on. Who hosts the coordinator of a run that is over stays until the others
  // have heard so.
  void go() {
    std::shared_ptr<Session> session = take_session();
    if (session == nullptr) return;
    session->flush(kGoodbyeLimit);
    session.reset();
    if (!sessions_here_ || !(member_.over() || member_.end())) return;
    const Instant until = io::deadline_after(kHostStays);
    while (io::now() < until && sessions_here_() > 0) std::this_thread::sleep_for(2ms);
  }

  const Settings settings_;
  const std::shared_ptr<const std::atomic<bool>> interrupted_;
  const std::function<Result<OpenedSession>()> connect_;
  const StoreOpener open_store_;
  const std::function<std::size_t()> sessions_here_;
  const Duration rejoin_timeout_;

  const std::function<void(int, const std::string&)> on_warned_;

  std::mutex calls_;  // Around the calls that wait.
  WaitLines lines_;
  std::string limit_name_;
  Bootstrap bootstrap_;
  std::optional<Progress> told_progress_;
  std::optional<Instant> last_call_until_;

  mutable std::mutex mutex_;  // Around all below.
  std::condition_variable changed_;
  Member member_;
  std::string trouble_;
  bool warned_ = false;  // Of the session's thread.
  bool woken_ = false;
  std::shared_ptr<Session> session_;  // Never destroyed with mutex_ held: its thread may want it.
};

}  // namespace

Result<std::unique_ptr<RendezvousHandler>> make_session_rendezvous(
    SessionRendezvousOptions options) {
  if (auto good = check_addresses(options.parameters, options.address); !good)
    return tl::unexpected(good.error());
  OpenedSession first = std::move(options.first);
  auto handler = std::make_unique<SessionHandler>(std::move(options));
  if (auto started = handler->start(std::move(first)); !started)
    return tl::unexpected(started.error());
  return handler;
}

}  // namespace regroup::runtime
