// The timers of a loop, in the order in which they are due.
//
// A binary heap in which each timer knows its place, so that one of ten thousand is moved or taken
// out without a search. It reads no clock and runs nothing: the loop does. For this room alone;
// lives on the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "base/instant.h"

namespace regroup::io {

class TimerHeap {
 public:
  // Stays where it is in memory while it is set. Take it out before it is destroyed.
  struct Entry {
    static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
    Instant at{};
    // Of two that are due at one instant, the one that was set first runs first.
    std::uint64_t order = 0;
    std::size_t place = kNowhere;
    std::function<void()> task;
  };

  void set(Entry& entry, Instant at);  // Also one that is set already.
  void remove(Entry& entry);           // No effect on one that is not set.

  Entry* first() const { return heap_.empty() ? nullptr : heap_.front(); }
  std::uint64_t last_order() const { return orders_; }  // Of the latest set().

 private:
  void put(std::size_t place, Entry& entry);
  void sift_up(Entry& entry);
  void sift_down(Entry& entry);

  std::vector<Entry*> heap_;
  std::uint64_t orders_ = 0;
};

}  // namespace regroup::io
