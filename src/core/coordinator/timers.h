// Small clocks of the coordinator: when a last call ends, and when progress is sent next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/instant.h"
#include "core/rendezvous/state.h"

namespace regroup::core::coordinator {

// A last call lasts from the moment its deadline is first seen in the state. The deadline itself
// comes from another machine's wall clock and decides nothing.
class LastCall {
 public:
  explicit LastCall(Duration time) : time_(time) {}
  void observe(const std::optional<rendezvous::Stamp>& deadline, Instant now) {
    if (!deadline) {
      end_.reset();
    } else if (!end_ || deadline_ != *deadline) {
      end_ = now + time_;
      is_taken_ = false;
    }
    if (deadline) deadline_ = *deadline;
  }
  std::optional<Instant> end() const { return end_; }  // None: there is none.

  // True once for each end. Whether anything follows from it is for the caller to see: a state that
  // a stranger wrote may have a last call that ends in nothing.
  bool take_end(Instant now) {
    if (!end_ || now <= *end_ || is_taken_) return false;
    return is_taken_ = true;
  }
  std::optional<Instant> next_look() const {
    if (!end_ || is_taken_) return std::nullopt;
    return *end_ + 1ms;
  }

 private:
  const Duration time_;
  rendezvous::Stamp deadline_;
  std::optional<Instant> end_;
  bool is_taken_ = false;
};

// What nodes wait for is sent to them when it has changed: soon at first, then once a second, and
// less often when there are very many nodes to tell.
class ProgressPace {
 public:
  explicit ProgressPace(Instant now) : told_(now) {}
  void has_changed(Instant now, std::size_t nodes) {
    constexpr Duration kFirst = 50ms;
    constexpr Duration kAgain = 1s;
    constexpr Duration kPerNode = 1ms;
    if (next_) return;
    const Duration between = std::max(kAgain, kPerNode * static_cast<std::int64_t>(nodes));
    next_ = std::max(now + kFirst, told_ + between);
  }
  void is_told(Instant now) {
    next_.reset();
    told_ = now;
  }
  void stop() { next_.reset(); }
  bool is_due(Instant now) const { return next_ && now >= *next_; }
  std::optional<Instant> next() const { return next_; }  // None: there is nothing new.

 private:
  std::optional<Instant> next_;
  Instant told_;
};

}  // namespace regroup::core::coordinator
