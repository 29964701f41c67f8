// Which clients wait for which keys, and until when. It does not know which keys exist: the
// keyspace tells it what arrives.
//
// Always true: a client has at most one wait; a waiting client misses at least one arrival; bytes()
// is what all waits hold, so it is 0 when no client waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "core/store/by_key.h"
#include "core/store/messages.h"

namespace regroup::core::store {

class WaitTable {
 public:
  // The client waits for an arrival of each of the keys. A second wait of the same client takes the
  // first one's place, but the keys of both stay registered: whichever arrives counts. PyTorch's
  // servers do so, and its clients never ask.
  void begin(ClientId client, KeyViews keys, std::optional<Instant> deadline);

  // What begin() would add to bytes() for one key.
  static std::size_t cost_of(std::string_view key);

  // False if it did not wait.
  bool end(ClientId client);

  // The key has arrived: for every client that waits for it, or for the one that has waited longest
  // among those whose wait ends by it. Appends WaitEnded effects.
  void arrive(std::string_view key, Effects& effects);
  void arrive_for_one(std::string_view key, Effects& effects);

  // Ends the waits whose deadline has passed; exactly at the deadline is still in time.
  void expire(Instant now, Effects& effects);
  std::optional<Instant> next_deadline() const;

  std::size_t size() const { return waits_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  using Serial = std::uint64_t;
  using WaitList = std::map<Serial, ClientId>;  // First come, first served.
  struct Registration {
    std::string key;
    Serial serial;
  };
  struct Wait {
    std::size_t missing = 0;
    std::vector<Registration> registrations;  // Some may have been used up; they are still held.
    std::optional<Instant> deadline;
  };

  void count_arrival(ClientId client, Effects& effects);

  ByKey<WaitList> lists_;
  std::unordered_map<ClientId, Wait> waits_;
  std::set<std::pair<Instant, ClientId>> deadlines_;
  Serial next_serial_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace regroup::core::store
