// The store of the simulated world: one key, with PyTorch's rules, and the requests and answers
// that travel to and from it.
//
// The value is bytes, and a swap compares bytes: the token of a state is the state's encoding. As
// with torchrun, the key is first made with a marker that means "no state yet", by the first node.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/instant.h"
#include "core/rendezvous/state.h"
#include "wire/rendezvous/rendezvous_keys.h"

namespace regroup::sim {

enum class Ask {
  MakeKey,  // Compare-and-set from nothing to the marker.
  Get,
  Swap,      // Compare-and-set.
  Announce,  // A phase is over.
};

struct Request {
  Ask ask = Ask::Get;
  std::int32_t node = -1;
  std::int64_t process = 0;
  std::uint64_t wait = 0;  // Tells apart the requests of one node.
  Instant sent = {};       // World time.
  core::rendezvous::NodeId writer = {};
  std::string expected = {};
  std::string desired = {};  // The phase that an announcement is about.
};

// What the key held, both as bytes and as what they mean; shared by all its readers.
struct Value {
  std::string bytes;
  std::optional<core::rendezvous::State> state;  // None: the marker.
};

struct Answer {
  std::shared_ptr<const Value> value = {};  // What is there now.
  bool won = false;                         // Of a swap: it is what was asked for.
  Instant at = {};                          // When the store made this answer, in world time.
};

// A swap that changed the value.
struct Change {
  std::shared_ptr<const Value> before;
  std::shared_ptr<const Value> after;
};

class Store {
 public:
  // The caller checks the codec, and fills in what the bytes of a request decode to (world.cc).
  Answer apply(const Request& request, bool ignore_token, std::optional<Change>& change);

  // Another value all of a sudden: a store that lost its memory. No node does this.
  void put_back(std::shared_ptr<const Value> value) { value_ = std::move(value); }

  const std::shared_ptr<const Value>& value() const { return value_; }

 private:
  std::shared_ptr<const Value> value_;  // None: the key does not exist.
};

inline const std::string kNoState(wire::kNoState);

}  // namespace regroup::sim
