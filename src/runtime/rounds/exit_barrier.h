// How nodes that share a round's store part at its end: each says that it is done, as torchrun's
// nodes do, and stays until all have read what they need. These calls block, so they are made on
// helpers' threads.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "regroup/rendezvous.h"
#include "regroup/time.h"

namespace regroup::runtime {

// Waits for the limit. False: the wait was given up.
using WaitOrGiveUp = std::function<bool(Duration limit)>;
bool wait_unless(const std::atomic<bool>& enough, Duration limit);

struct NodeEnd {
  bool succeeded = false;
  std::string cause = {};  // For the others to read, if it failed for good.
};

// Says how our part ended and, after a success, waits until all other nodes have said so. Returns
// why it did not wait to the end (kStoreIsGone, for example); empty: all nodes have come.
std::string pass_exit_barrier(const RendezvousInfo& round, const NodeEnd& end,
                              const WaitOrGiveUp& wait,
                              const std::function<std::string()>& why_broken = {});
extern const char* const kStoreIsGone;
// What `why_broken` says of a round that others leave for the next one.
extern const char* const kRoundBroke;

// Why the run failed for good, as a regroup node has said in the round's store, in words for
// people. Empty: no node has said so. The node that said it learns that we know.
std::string hear_verdict(const RendezvousInfo& round);

// A node does not know which node hosts the store, so each stays until all have read what they
// need. If the host goes first, the lost connection ends the wait.
void say_goodbye_and_wait(const RendezvousInfo& round);
void wait_for_goodbyes(const RendezvousInfo& round);

}  // namespace regroup::runtime
