#include "runtime/rounds/exit_barrier.h"

#include <thread>

#include "io/loop/clock.h"
#include "runtime/rendezvous/exchange.h"

namespace regroup::runtime {
namespace {

constexpr const char* kVerdictKey = "regroup/verdict";
constexpr const char* kGoodbyeKey = "regroup/goodbye";
constexpr Duration kLookAgain = 25ms;
// How long to stay for nodes that still read from a store that this node hosts.
constexpr Duration kBarrierLimit = 5s;

}  // namespace

const char* const kStoreIsGone = "the rendezvous store is gone; the other nodes are not waited for";

const char* const kRoundBroke = "a node of the round is gone; the others are not waited for";

bool wait_unless(const std::atomic<bool>& enough, Duration limit) {
  std::this_thread::sleep_for(limit);
  return !enough;
}

std::string pass_exit_barrier(const RendezvousInfo& round, const NodeEnd& end,
                              const WaitOrGiveUp& wait,
                              const std::function<std::string()>& why_broken) {
  if (round.world_size == 1) return {};
  Store& store = *round.store;
  // A node that failed arrives too. Otherwise the nodes that succeeded would wait for it in vain.
  if ((!end.succeeded && !store.set(kVerdictKey, end.cause)) ||
      !arrive_at_exit(store, round.world_size))
    return kStoreIsGone;
  if (!end.succeeded) return {};
  for (;;) {
    const auto complete = is_exit_complete(store);
    if (!complete) return kStoreIsGone;
    if (*complete) return {};
    if (why_broken)
      if (std::string why = why_broken(); !why.empty()) return why;
    if (!wait(kLookAgain)) return "the other nodes are not waited for any longer";
  }
}

std::string hear_verdict(const RendezvousInfo& round) {
  const auto there = round.store->check({kVerdictKey});
  if (!there || !*there) return {};
  const auto told = round.store->get(kVerdictKey);
  [[maybe_unused]] const auto goodbye = round.store->add(kGoodbyeKey, 1);
  return told ? *told : "another node says so";
}

void say_goodbye_and_wait(const RendezvousInfo& round) {
  if (round.store->add(kGoodbyeKey, 1)) wait_for_goodbyes(round);
}

void wait_for_goodbyes(const RendezvousInfo& round) {
  const Instant until = io::deadline_after(kBarrierLimit);
  while (io::now() < until) {
    const auto count = round.store->add(kGoodbyeKey, 0);
    if (!count || *count >= round.world_size) return;
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace regroup::runtime
