#include "runtime/rounds/coordinated_rounds.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/cases.h"
#include "core/run/run_rules.h"
#include "io/loop/clock.h"
#include "runtime/common/log.h"
#include "runtime/rendezvous/bootstrap.h"
#include "runtime/rendezvous/exchange.h"
#include "runtime/rendezvous/this_node.h"
#include "runtime/rounds/exit_barrier.h"

namespace regroup::runtime {

using namespace core::coordinator;
using core::agent::Membership;
using core::agent::Order;
using core::rendezvous::State;

namespace {

// We do not wait longer than this for the coordinator to hear our goodbye.
constexpr Duration kGoodbyeLimit = 2s;
// How long the host of the coordinator stays for nodes that have yet to hear that the run is over,
constexpr Duration kHostStays = 5s;
// and how often it looks whether any are left.
constexpr Duration kLookAround = 2ms;
constexpr Duration kLookNowAndThen = 50ms;
// Behind a refusal the coordinator closes the session of the node that it refuses.
constexpr Duration kOwnSessionCloses = 100ms;

Hello hello_of(const CoordinatedRounds::Options& options) {
  const auto& settings = options.settings;
  const auto& parameters = options.parameters;
  RunRules rules = options.part.rules;
  rules.min_nodes = settings.min_nodes;
  rules.max_nodes = settings.max_nodes;
  rules.last_call = settings.last_call_timeout;
  rules.keep_alive_interval = settings.keep_alive_interval;
  rules.keep_alive_max_attempt = settings.keep_alive_attempts;
  return {.run_id = settings.run_id,
          .node = make_node_id(options.address),
          .claim = {.name = name_of_this_node(parameters, options.address),
                    .wish = parameters.node_rank,
                    .held = {},
                    .group = parameters.topology_key},
          .role = options.part.role,
          .workers = options.part.workers,
          .rules = std::move(rules)};
}

}  // namespace

RoundsWorld world_of(io::Loop& loop, CoordinatorContact contact,
                     const std::shared_ptr<std::atomic<bool>>& interrupted) {
  // Shared with helpers, which may outlive the rounds.
  struct Kept {
    std::shared_ptr<std::atomic<bool>> interrupted;
    Bootstrap bootstrap;
  };
  const auto kept = std::make_shared<Kept>(
      Kept{interrupted, Bootstrap(contact.settings.run_id, contact.address, *interrupted)});
  const auto first = std::make_shared<OpenedSession>(std::move(contact.first));
  return {.make_session =
              [&loop, first, connect = std::move(contact.connect)](SessionOptions options) {
                options.connect = connect;
                return std::make_unique<Session>(loop, std::move(*first), std::move(options));
              },
          .offer = [kept] { return kept->bootstrap.offer(); },
          .agree =
              [kept](const State& joined, const core::rendezvous::NodeId& self,
                     const std::shared_ptr<Store>& store) {
                return kept->bootstrap.agree(joined, self, store);
              },
          .use_agent_store = kept->bootstrap.shared(),
          .open_store = std::move(contact.open_store),
          .sessions_here = std::move(contact.sessions_here)};
}

CoordinatedRounds::CoordinatedRounds(io::Loop& loop, Options options, RoundsWorld world,
                                     RoundEvents events)
    : loop_(loop),
      options_(std::move(options)),
      world_(std::move(world)),
      events_(std::move(events)),
      helper_(loop, "rounds"),
      timer_(loop),
      lines_(options_.parameters),
      membership_(hello_of(options_), {.join_timeout = options_.settings.join_timeout,
                                       .rejoin_timeout = options_.part.rules.rejoin_timeout,
                                       .close_timeout = options_.settings.close_timeout}),
      records_(options_.parameters.on_record, options_.settings.run_id, membership_.id()),
      enough_(std::make_shared<std::atomic<bool>>(false)),
      join_began_(options_.began) {
  session_ = world_.make_session(
      {.connect = {},
       .introduction = [this] { return membership_.introduction(); },
       .on_message = [this](FromCoordinator message) { hear(std::move(message)); },
       .on_lost = [this](const std::string& why) { play(membership_.on_lost(why, io::now())); },
       .heartbeat_limit = options_.part.rules.heartbeat_limit});
}

CoordinatedRounds::~CoordinatedRounds() { stop_waiting(); }

void CoordinatedRounds::hear(FromCoordinator message) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    const std::string differ =
        core::run::differing_flags(membership_.hello().rules, welcome->rules);
    if (!welcome->rules.per_node) max_restarts_ = static_cast<int>(welcome->rules.max_restarts);
    if (!differ.empty() && !std::exchange(warned_of_rules_, true))
      log_warning("this node was started with other values than the run's first, which count: " +
                  differ);
  }
  play(membership_.on_message(std::move(message), io::now()));
}

void CoordinatedRounds::play(Membership::Effects effects) {
  for (Membership::Effect& effect : effects)
    std::visit(
        Cases{[this](const Membership::Say& say) { session_->say(say.message); },
              [this](const Membership::Joined& joined) { in_round(joined.sealed); },
              [this](const Membership::JoinFailed& failed) {
                serve_the_others({.why = failed.why, .error = failed.error, .end = failed.end});
              },
              [this](Membership::Ordered& order) { ordered(std::move(order.order)); },
              [this](const Membership::Reached& now) { events_.reached(now.trouble); },
              [this](const Membership::Waits& waits) {
                lines_.tell(io::now(), {.what = waits.what,
                                        .limit = waits.limit,
                                        .brief = waits.brief,
                                        .until = waits.until});
              },
              [this](const Membership::HandOn& told) { hand_on(told.message); },
              [this](const Membership::Flush&) {
                session_->flush(kGoodbyeLimit, [this] { flushed(); });
              }},
        effect);
  arm();
}

void CoordinatedRounds::hand_on(const ForWorkers& message) {
  std::visit(Cases{[this](const Warned& warned) {
                     events_.warned(static_cast<int>(warned.signal), warned.node);
                   },
                   [this](const Hangs& hangs) { events_.hangs(hangs.all_say_so); },
                   [this](const Blamed& blamed) { events_.blamed(blamed.blame); }},
             message);
}

void CoordinatedRounds::arm() {
  if (const auto next = membership_.next_deadline())
    timer_.set(*next, [this] { play(membership_.on_time(io::now())); });
  else
    timer_.cancel();
}

// ---- A round begins ----

void CoordinatedRounds::join() {
  stop_waiting();
  mixed_.reset();
  records_.attempts();
  if (!join_began_) join_began_ = io::now();
  lines_.begin(io::now());
  helper_.run(world_.offer, [this](const Result<BootstrapStore>& offer) {
    if (given_up_)
      return tell_join_failed(JoinFailed::because(
          {ErrorKind::Cancelled, "interrupted while waiting for the other nodes"}));
    if (!offer) return tell_join_failed(JoinFailed::because(offer.error()));
    play(membership_.join({.address = offer->address, .port = offer->port}, io::now()));
  });
}

void CoordinatedRounds::give_up_join() {
  given_up_ = true;
  stop_waiting();
  helper_.poster()([this] { play(membership_.give_up_join()); });
}

void CoordinatedRounds::in_round(const Sealed& sealed) {
  if (!sealed.by_session) return in_mixed_round(sealed);
  tell_joined(
      {.info = {.store = nullptr,
                .round = sealed.round,
                .rank = sealed.rank,
                .world_size = sealed.world_size,
                .bootstrap = {.address = sealed.bootstrap.address, .port = sealed.bootstrap.port},
                .nodes = {},
                .restart_count = sealed.restart_count},
       .ranks = sealed.ranks});
}

void CoordinatedRounds::tell_joined(JoinedRound round) {
  round.use_agent_store = world_.use_agent_store;
  round.max_restarts = max_restarts_;
  round.took_to_meet = io::now() - *join_began_ - round.took_to_assign;
  join_began_.reset();
  records_.joined(round.info.round, round.info.rank, round.info.world_size);
  events_.joined(std::move(round));
}

void CoordinatedRounds::tell_join_failed(JoinFailed failed) {
  records_.failed("next_rendezvous", failed.error);
  events_.join_failed(std::move(failed));
}

// A node that is not let in any more (--node-strikes) may host the coordinator. If it went, the
// others would wait in vain for a round that nobody could seal, so it stays for them.
void CoordinatedRounds::serve_the_others(JoinFailed failed) {
  if (failed.error.kind != ErrorKind::Refused || !world_.sessions_here)
    return tell_join_failed(std::move(failed));
  enough_ = std::make_shared<std::atomic<bool>>(false);
  const std::string line =
      failed.error.message +
      "; this node hosts the coordinator, and stays until the other nodes have ended";
  helper_.run(
      [sessions = world_.sessions_here, enough = enough_, line, post = helper_.poster(),
       tell = events_.waiting]() -> Result<void> {
        const Instant own_is_gone = io::deadline_after(kOwnSessionCloses);
        bool told = false;
        while (!*enough && sessions() > 0) {
          if (io::now() > own_is_gone && !std::exchange(told, true))
            post([tell, line] { tell(line); });
          std::this_thread::sleep_for(told ? kLookNowAndThen : kLookAround);
        }
        return {};
      },
      [this, failed = std::move(failed)](const Result<void>&) { tell_join_failed(failed); });
}

void CoordinatedRounds::stop_waiting() { *enough_ = true; }

// ---- While it runs ----

void CoordinatedRounds::ordered(Order order) {
  run_failed_ = run_failed_ || order.kind == Order::Kind::RunFailed;
  // torchrun's nodes close the run when all have come to the exit barrier, and we see that, too.
  if (passes_exit_ && order.kind == Order::Kind::Closed) return;
  // An order may come while ranks are still being exchanged with a node that is gone.
  stop_waiting();
  // torchrun's nodes at the exit barrier do not come back for a node that joins again.
  if (passes_exit_ && order.kind == Order::Kind::Rejoin)
    order = {.kind = Order::Kind::Over, .text = kRoundBroke, .others_go_on = true};
  events_.ordered(std::move(order));
}

void CoordinatedRounds::failed(const WorkerFailure& failure) {
  play(membership_.failed(
      {.rank = failure.rank, .exit_code = failure.exit_code, .text = failure.text}));
}

bool CoordinatedRounds::warn(int signal) {
  play(membership_.report(Warn{.signal = signal}));
  return true;
}

void CoordinatedRounds::say_stalled(std::optional<core::hang::Votes> votes) {
  play(membership_.stalled(votes));
}

void CoordinatedRounds::say_where(std::vector<core::hang::RankAt> ours) {
  play(membership_.report(Where{.ranks = std::move(ours)}));
}

// ---- The end ----

void CoordinatedRounds::check_in(bool succeeded, const std::string& cause) {
  if (!mixed_) return play(membership_.done());
  passes_exit_ = true;
  enough_ = std::make_shared<std::atomic<bool>>(false);
  helper_.run(
      [info = *mixed_, succeeded, cause, enough = enough_]() -> Result<std::string> {
        return pass_exit_barrier(info, {.succeeded = succeeded, .cause = cause},
                                 [&](Duration limit) { return wait_unless(*enough, limit); });
      },
      [this](const Result<std::string>& text) {
        if (!std::exchange(passes_exit_, false)) return;
        events_.ordered({.kind = Order::Kind::Over, .text = text ? *text : text.error().message});
      });
}

void CoordinatedRounds::leave(core::agent::Ending ending, bool close) {
  stop_waiting();
  passes_exit_ = false;
  closes_ = close;
  // The coordinator goes with us. If it heard of our leaving, it would stop the workers of the
  // other nodes for a round that nobody could seal; without it they run on.
  if (ending == core::agent::Ending::Signalled && world_.sessions_here && !membership_.is_over())
    return helper_.poster()([this] { events_.left(); });
  if (!mixed_ || !run_failed_) return play(membership_.leave(close, io::now()));
  // Otherwise nodes without a session would wait for us at the exit barrier.
  helper_.run([info = *mixed_]() { return arrive_at_exit(*info.store, info.world_size); },
              [this, close](const Result<void>&) { play(membership_.leave(close, io::now())); });
}

void CoordinatedRounds::flushed() {
  session_.reset();
  timer_.cancel();
  if (closes_ && membership_.is_over()) records_.closed();
  if (!closes_ || !mixed_ || mixed_->world_size == 1) return stay_for_others();
  helper_.run(
      [info = *mixed_]() -> Result<void> {
        say_goodbye_and_wait(info);
        return {};
      },
      [this](const Result<void>&) { stay_for_others(); });
}

// The host of the coordinator of a run that is over stays until the other nodes have heard of it.
void CoordinatedRounds::stay_for_others() {
  if (!world_.sessions_here || !membership_.is_over()) return tell_left();
  helper_.run(
      [sessions = world_.sessions_here]() -> Result<void> {
        const Instant until = io::deadline_after(kHostStays);
        while (io::now() < until && sessions() > 0) std::this_thread::sleep_for(kLookAround);
        return {};
      },
      [this](const Result<void>&) { tell_left(); });
}

// Behind the records that are still on their way.
void CoordinatedRounds::tell_left() {
  helper_.poster()([this] { events_.left(); });
}

}  // namespace regroup::runtime
