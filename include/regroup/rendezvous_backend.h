// For writing your own backend: a place that keeps one small piece of state for all nodes of a run,
// and the rendezvous handler on top of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "regroup/rendezvous.h"
#include "regroup/result.h"
#include "regroup/store.h"
#include "regroup/time.h"

namespace regroup {

// Used by one thread at a time.
class RendezvousBackend {
 public:
  // The bytes are those of a set_state(). The token stands for exactly these bytes.
  struct Present {
    std::string bytes;
    std::string token;
  };
  struct SetAnswer {
    bool won = false;                // Ours was stored.
    std::optional<Present> present;  // What is there now, in any case. None: nothing is.
  };

  RendezvousBackend() = default;
  RendezvousBackend(const RendezvousBackend&) = delete;
  RendezvousBackend& operator=(const RendezvousBackend&) = delete;
  virtual ~RendezvousBackend() = default;

  virtual std::string name() const = 0;

  // None: there is no state yet. Connection and Timeout errors are tried again until the caller's
  // time is over; any other error ends the operation.
  virtual Result<std::optional<Present>> get_state() = 0;

  // Stores the bytes if `token` stands for what is there (none: if nothing is there).
  virtual Result<SetAnswer> set_state(std::string_view bytes,
                                      const std::optional<std::string>& token) = 0;

  // The run has left a phase. Best effort: nodes also look by themselves, only later.
  virtual void announce_left(std::string_view phase);
  // True as soon as the run has left the phase; false after `limit`. This default only sleeps.
  virtual bool wait_until_left(std::string_view phase, Duration limit);
};

using StoreOpener = std::function<Result<std::shared_ptr<Store>>()>;

// torchrun's c10d backend over any store: a TCP store, a file, memory. Same key, same text, same
// compare-and-set. `reopen` gives a new store when the connection was lost; without it a lost
// connection stays lost.
Result<std::unique_ptr<RendezvousBackend>> make_store_backend(std::shared_ptr<Store> store,
                                                              const std::string& run_id,
                                                              StoreOpener reopen = {});

// The dynamic handler. `open_store` is called in each round for a connection to the store where its
// keys go; `address` is where others reach this node. The rest is taken from the parameters, whose
// endpoint is ignored.
Result<std::unique_ptr<RendezvousHandler>> make_dynamic_rendezvous(
    const RendezvousParameters& parameters, std::unique_ptr<RendezvousBackend> backend,
    StoreOpener open_store, const std::string& address);

}  // namespace regroup
