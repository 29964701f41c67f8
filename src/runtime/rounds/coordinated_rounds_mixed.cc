// A round with nodes that have no session: they exchange everything through the round's store, so
// this node does, too.
#include <utility>

#include "io/loop/clock.h"
#include "runtime/rendezvous/exchange.h"
#include "runtime/rounds/coordinated_rounds.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_keys.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup::runtime {

using core::coordinator::Sealed;
using core::rendezvous::State;

namespace {

Result<State> read_state(Store& store, const std::string& run_id) {
  auto text = store.get(wire::state_key(run_id));
  if (!text) return tl::unexpected(text.error());
  auto bytes = wire::decode_base64(*text);
  if (!bytes) return tl::unexpected(bytes.error());
  return wire::decode_state(*bytes);
}

}  // namespace

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
        // A node that was lost since the seal never takes part, so the exchange must be able to
        // end.
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
        // The endpoint was lost since the seal. That may pass: this node says that it is there as
        // soon as it can, and gives up when its time to join is over.
        if (!done && done.error().kind == ErrorKind::Connection &&
            !*options_.parameters.interrupted)
          return join();
        if (!done) return tell_join_failed(JoinFailed::because(done.error()));
        // The round was over before its workers were started.
        if (!*done) return join();
        mixed_ = (*done)->info;
        tell_joined({.info = std::move((*done)->info),
                     .ranks = (*done)->ranks,
                     .took_to_assign = (*done)->took_to_assign});
      });
}

}  // namespace regroup::runtime
