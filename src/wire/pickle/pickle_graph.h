// What a pickle holds: plain values that refer to each other by index.
//
// A value may be referred to many times, and a container may contain itself. Code that walks them
// sets a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace regroup::wire {

enum class PickleClass : std::uint8_t { State, Node, Datetime, Timezone, Timedelta, Set };

enum class PickleKind : std::uint8_t {
  None,
  Bool,
  Int,
  Text,
  Bytes,
  Tuple,  // Of up to three.
  List,
  Dict,  // Members are key, value, key, value, ...
  Set,
  Class,
  ZeroDelta,  // timedelta(0): no other offset occurs.
  Utc,        // timezone(timedelta(0))
  Time,       // datetime
  Node,       // _NodeDesc
  State,      // _RendezvousState
};

std::string_view to_string(PickleKind kind);  // "a text"

using PickleRef = std::uint32_t;
inline constexpr PickleRef kNoPickleRef = std::numeric_limits<PickleRef>::max();

struct PickleValue {
  explicit PickleValue(PickleKind what = PickleKind::None, std::uint32_t how_many = 0)
      : kind(what), size(how_many) {}

  PickleKind kind;
  bool aware = false;  // Time: it says that it is UTC.
  // List, Dict, Set: another value took its members, so it may not grow any more.
  bool frozen = false;
  std::uint32_t at = 0;  // The byte where it was made, for messages.
  std::uint32_t size;    // Text, Bytes: bytes. Tuple, List, Dict, Set: members.
  // Tuple: where its members are. List, Dict, Set: its first run of members. State: the dict of its
  // attributes.
  std::uint32_t first = kNoPickleRef;
  union {
    std::int64_t number = 0;  // Bool, Int, Class; Time: microseconds since 1970; Node: its index.
    const char* data;         // Text, Bytes.
    std::uint32_t last;       // List, Dict, Set: the last run, once there is a first.
  };
};

struct PickledNode {
  bool complete = false;  // Its attributes have been set.
  std::string_view address;
  std::int64_t pid = 0;
  std::int64_t local_id = 0;
  std::string_view regroup;  // What a regroup node says of itself (claim_text.h), or nothing.
};

// Views point into the bytes that were read.
class PickleGraph {
 public:
  const PickleValue& operator[](PickleRef ref) const { return values_[ref]; }
  PickleRef root() const { return root_; }

  std::string_view text(const PickleValue& value) const { return {value.data, value.size}; }
  const PickledNode& node(const PickleValue& value) const {
    return nodes_[static_cast<std::size_t>(value.number)];
  }

  // Calls visit(PickleRef) for each member of a Tuple, List or Set, until it returns false.
  template <class Visit>
  bool each(const PickleValue& container, Visit visit) const {
    if (container.kind == PickleKind::Tuple) {
      for (std::uint32_t i = 0; i < container.size; ++i)
        if (!visit(members_[container.first + i])) return false;
      return true;
    }
    for (std::uint32_t run = container.first; run != kNoPickleRef; run = runs_[run].next)
      for (std::uint32_t i = 0; i < runs_[run].size; ++i)
        if (!visit(members_[runs_[run].first + i])) return false;
    return true;
  }

  // Calls visit(key, value) for each entry of a Dict, until it returns false. A key may come twice.
  template <class Visit>
  bool each_entry(const PickleValue& dict, Visit visit) const {
    for (std::uint32_t run = dict.first; run != kNoPickleRef; run = runs_[run].next)
      for (std::uint32_t i = 0; i < runs_[run].size; i += 2)
        if (!visit(members_[runs_[run].first + i], members_[runs_[run].first + i + 1]))
          return false;
    return true;
  }

 private:
  friend class PickleReader;

  // What one opcode added to a container.
  struct Run {
    std::uint32_t first;
    std::uint32_t size;
    std::uint32_t next;
  };

  std::vector<PickleValue> values_;
  std::vector<PickleRef> members_;
  std::vector<Run> runs_;
  std::vector<PickledNode> nodes_;
  PickleRef root_ = kNoPickleRef;
};

}  // namespace regroup::wire
