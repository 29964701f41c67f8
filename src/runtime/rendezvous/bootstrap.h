// Where the workers of a round find their own store: rank 0 serves it and says where, under two
// keys of the round's store.
//
// torchrun's nodes read the two keys only in their first round and keep what they read. So rank 0
// writes them in every round and keeps one port for the whole run, and a node that comes late into
// a run of torchrun's looks among the keys of earlier rounds. Used by one thread at a
// time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/rendezvous/state.h"
#include "io/net/reserved_port.h"
#include "regroup/rendezvous.h"
#include "regroup/store.h"

namespace regroup::runtime {

class Bootstrap {
 public:
  // `address`: this node's. `interrupted`: ends every wait here, with Cancelled.
  Bootstrap(std::string run_id, std::string address, const std::atomic<bool>& interrupted);

  // False: each round's rank 0 worker serves, on a port that this object keeps free for it
  // (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1).
  bool shared() const { return shared_; }

  // Where this node serves the workers' store, should it become rank 0 of the next round. What was
  // in it is forgotten: no workers run between two rounds.
  Result<BootstrapStore> offer();

  // For a round that `self` has just joined. `store`: the one under the rounds' prefixes.
  // `is_broken`: asked now and then while rank 0 says nothing; once it is true, the wait ends with
  // Cancelled.
  Result<BootstrapStore> agree(const core::rendezvous::State& joined,
                               const core::rendezvous::NodeId& self,
                               const std::shared_ptr<Store>& store,
                               const std::function<bool()>& is_broken = {});

 private:
  Result<BootstrapStore> serve();
  // `find_older`: where to look when rank 0 says nothing; empty: it will say something.
  Result<BootstrapStore> await(
      std::int64_t round, Store& round_store, const std::function<bool()>& is_broken,
      const std::function<Result<std::optional<BootstrapStore>>()>& find_older);
  Result<std::optional<BootstrapStore>> of_earlier_rounds(std::int64_t round,
                                                          const std::shared_ptr<Store>& store);

  const std::string run_id_;
  const std::string address_;
  const std::atomic<bool>& interrupted_;
  const bool shared_;
  std::unique_ptr<StoreServer> server_;
  std::optional<io::ReservedPort> reserved_;
  // Where a torchrun node that is rank 0 has its server. It does not move.
  struct Known {
    core::rendezvous::NodeId node;
    BootstrapStore where;
  };
  std::optional<Known> known_;
};

}  // namespace regroup::runtime
