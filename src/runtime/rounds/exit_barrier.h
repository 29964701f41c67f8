// How nodes that share a round's store part at its end: all say that they are done, as torchrun's
// nodes do, and stay until everybody has read what they need. Blocks; for helpers' threads.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "regroup/rendezvous.h"
#include "regroup/time.h"

namespace regroup::runtime {

// Waits for so long. False: what is waited for is not wanted any more.
using WaitOrGiveUp = std::function<bool(Duration limit)>;
bool wait_unless(const std::atomic<bool>& enough, Duration limit);

struct NodeEnd {
  bool succeeded = false;
  std::string cause = {};  // For the others to read, if it failed for good.
};

// Says how our part ended and, after a success, waits for all others to have said so. Who was not
// waited for, and why; empty: all have come. kStoreIsGone if it is.
std::string pass_exit_barrier(const RendezvousInfo& round, const NodeEnd& end,
                              const WaitOrGiveUp& wait,
                              const std::function<std::string()>& why_broken = {});
extern const char* const kStoreIsGone;

// Why the run failed for good, in the round's store, for nodes of regroup; it is text for people.
// Empty: nobody has said so. The one who said it is told that we know.
std::string hear_verdict(const RendezvousInfo& round);

// Nobody is told who hosts the store, so everybody stays until all have read what they need. If the
// host goes first, the lost connection says that it is over.
void say_goodbye_and_wait(const RendezvousInfo& round);
void wait_for_goodbyes(const RendezvousInfo& round);

}  // namespace regroup::runtime
