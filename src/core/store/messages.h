// What can be asked of a store, and what it answers.
//
// Requests and replies hold views. A request's bytes belong to the caller and must stay valid until
// apply() returns; a reply's bytes belong to the store (or to the request) and are valid until the
// next call of any step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/id.h"
#include "base/instant.h"

namespace regroup::core::store {

using ClientId = Id<struct ClientTag>;
using KeyViews = std::span<const std::string_view>;

struct Entry {
  std::string_view key;
  std::string_view value;
};

// Requests. The comment after each names its reply.
struct Ping {
  std::uint32_t nonce = 0;
};  // Pong
struct Set {
  std::string_view key;
  std::string_view value;
};  // none
struct CompareSet {
  std::string_view key;
  std::string_view expected;
  std::string_view desired;
};  // Value
struct Get {
  std::string_view key;
};  // Value, empty if there is no such key
struct Add {
  std::string_view key;
  std::int64_t delta = 0;
};  // Number
struct Check {
  KeyViews keys;
};  // Ready
struct Wait {
  KeyViews keys;
  std::optional<Instant> deadline;  // None: the client keeps its own limit, and sends CancelWait.
};                                  // WaitEnded, perhaps much later
struct NumKeys {};                  // Number
struct DeleteKey {
  std::string_view key;
};  // Number
struct Append {
  std::string_view key;
  std::string_view value;
};  // none
struct MultiGet {
  KeyViews keys;
};  // Values
struct MultiSet {
  std::span<const Entry> entries;
};                     // none
struct CancelWait {};  // WaitEnded(Cancelled), also when nothing was pending
struct QueuePush {
  std::string_view key;
  std::string_view value;
};  // none
struct QueuePop {
  std::string_view key;
};  // Popped
struct QueueLen {
  std::string_view key;
};                   // Number
struct ListKeys {};  // KeyList
struct Barrier {
  std::string_view key;
  std::int64_t world_size = 0;
  std::optional<Instant> deadline;
};  // WaitEnded, perhaps much later

using Request =
    std::variant<Ping, Set, CompareSet, Get, Add, Check, Wait, NumKeys, DeleteKey, Append, MultiGet,
                 MultiSet, CancelWait, QueuePush, QueuePop, QueueLen, ListKeys, Barrier>;

// Replies.
struct Pong {
  std::uint32_t nonce = 0;
};
struct Value {
  std::string_view bytes;
};
struct Number {
  std::int64_t value = 0;
};
struct Ready {
  bool all = false;
};
enum class WaitEnd { Arrived, Cancelled, TimedOut };
struct WaitEnded {
  WaitEnd how = WaitEnd::Arrived;
};
struct Values {
  KeyViews values;
};
struct Popped {
  std::int64_t length_before = 0;  // 0: the queue was empty, and there is no value.
  std::string_view value;
};
struct KeyList {
  KeyViews keys;
};

using Reply = std::variant<Pong, Value, Number, Ready, WaitEnded, Values, Popped, KeyList>;

struct Effect {
  ClientId client;
  Reply reply;
};
using Effects = std::vector<Effect>;

}  // namespace regroup::core::store
