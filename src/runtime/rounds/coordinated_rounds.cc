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
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::runtime {

using namespace core::coordinator;
using core::agent::JoinFailure;
using core::agent::Membership;
using core::agent::Order;
using core::rendezvous::State;

namespace {

// A goodbye that does not get through in so long is not waited for.
constexpr Duration kGoodbyeLimit = 2s;
// Whoever hosts the coordinator stays so long for those who have still to hear that it is over,
constexpr Duration kHostStays = 5s;
// and looks this often.
constexpr Duration kLookAround = 2ms;

Hello hello_of(const CoordinatedRounds::Options& options) {
  const auto& settings = options.settings;
  const auto& parameters = options.parameters;
  RunRules rules = options.part.rules;
  rules.min_nodes = settings.min_nodes;
  rules.max_nodes = settings.max_nodes;
  rules.last_call = settings.last_call_timeout;
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

Result<State> read_state(Store& store, const std::string& run_id) {
  auto text = store.get(wire::state_key(run_id));
  if (!text) return tl::unexpected(text.error());
  auto bytes = wire::decode_base64(*text);
  if (!bytes) return tl::unexpected(bytes.error());
  return wire::decode_state(*bytes);
}

JoinFailed not_joined(const Error& error) {
  return {.why = error.kind == ErrorKind::Cancelled ? JoinFailure::GivenUp : JoinFailure::Failed,
          .error = error};
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
      membership_(hello_of(options_),
                  {.join_timeout = options_.settings.join_timeout,
                   .rejoin_timeout = options_.part.rules.rejoin_timeout,
                   .close_timeout = std::min(options_.settings.close_timeout, kGoodbyeLimit)}),
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
                events_.join_failed({.why = failed.why, .error = failed.error, .end = failed.end});
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
  if (!join_began_) join_began_ = io::now();
  lines_.begin(io::now());
  helper_.run(world_.offer, [this](const Result<BootstrapStore>& offer) {
    if (given_up_)
      return events_.join_failed(
          not_joined({ErrorKind::Cancelled, "interrupted while waiting for the other nodes"}));
    if (!offer) return events_.join_failed(not_joined(offer.error()));
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
  round.took_to_meet = io::now() - *join_began_ - round.took_to_assign;
  join_began_.reset();
  events_.joined(std::move(round));
}

// Nodes without a session look for everything in the store, and so do we.
void CoordinatedRounds::in_mixed_round(const Sealed& sealed) {
  enough_ = std::make_shared<std::atomic<bool>>(false);
  helper_.run(
      [sealed, id = membership_.id(), run_id = options_.settings.run_id,
       open_store = world_.open_store, agree = world_.agree, part = options_.part, enough = enough_,
       interrupted = options_.parameters.interrupted]() -> Result<std::optional<MixedRound>> {
        auto store = open_store();
        if (!store) return tl::unexpected(store.error());
        auto state = read_state(**store, run_id);
        if (!state) return tl::unexpected(state.error());
        const bool is_ours =
            state->complete && state->round == sealed.round && state->participants.contains(id);
        if (!is_ours) return std::nullopt;
        auto where = agree(*state, id, *store);
        if (!where) return tl::unexpected(where.error());
        const Instant met = io::now();
        MixedRound round{
            .info = {.store = make_prefix_store(wire::round_prefix(run_id, sealed.round), *store),
                     .round = sealed.round,
                     .rank = sealed.rank,
                     .world_size = sealed.world_size,
                     .bootstrap = std::move(*where),
                     .nodes = {},
                     .restart_count = sealed.restart_count},
            .ranks = {}};
        // Whoever was lost between the seal and here would be waited for in vain.
        const auto ranks = exchange_ranks(*round.info.store, sealed.world_size,
                                          {part.role, sealed.rank, part.workers},
                                          [&] { return !*enough && !*interrupted; });
        if (!ranks && *enough && !*interrupted) return std::nullopt;
        if (!ranks) return tl::unexpected(ranks.error());
        round.ranks = *ranks;
        round.took_to_assign = io::now() - met;
        return round;
      },
      [this](Result<std::optional<MixedRound>> done) {
        if (!done) return events_.join_failed(not_joined(done.error()));
        // The round was broken before it began.
        if (!*done) return join();
        mixed_ = (*done)->info;
        tell_joined({.info = std::move((*done)->info),
                     .ranks = (*done)->ranks,
                     .took_to_assign = (*done)->took_to_assign});
      });
}

void CoordinatedRounds::stop_waiting() { *enough_ = true; }

// ---- While it runs ----

void CoordinatedRounds::ordered(Order order) {
  run_failed_ = run_failed_ || order.kind == Order::Kind::RunFailed;
  // An order may come while ranks are still being exchanged: a node that is waited for may be gone.
  stop_waiting();
  // torchrun's nodes at the exit do not come back for those who join again.
  if (passes_exit_ && order.kind == Order::Kind::Rejoin)
    order = {.kind = Order::Kind::Over,
             .text = "a node of the round is gone; the others are not waited for"};
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

void CoordinatedRounds::leave(bool close) {
  stop_waiting();
  passes_exit_ = false;
  closes_ = close;
  if (!mixed_ || !run_failed_) return play(membership_.leave(close, io::now()));
  // Nodes without a session would wait for us at the exit.
  helper_.run([info = *mixed_]() { return arrive_at_exit(*info.store, info.world_size); },
              [this, close](const Result<void>&) { play(membership_.leave(close, io::now())); });
}

void CoordinatedRounds::flushed() {
  session_.reset();
  timer_.cancel();
  if (!closes_ || !mixed_ || mixed_->world_size == 1) return stay_for_others();
  helper_.run(
      [info = *mixed_]() -> Result<void> {
        say_goodbye_and_wait(info);
        return {};
      },
      [this](const Result<void>&) { stay_for_others(); });
}

// Whoever hosts the coordinator of a run that is over stays until the others have heard so.
void CoordinatedRounds::stay_for_others() {
  if (!world_.sessions_here || !membership_.is_over()) return events_.left();
  helper_.run(
      [sessions = world_.sessions_here]() -> Result<void> {
        const Instant until = io::deadline_after(kHostStays);
        while (io::now() < until && sessions() > 0) std::this_thread::sleep_for(kLookAround);
        return {};
      },
      [this](const Result<void>&) { events_.left(); });
}

}  // namespace regroup::runtime
