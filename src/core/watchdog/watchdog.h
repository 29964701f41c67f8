// Countdown timers: a process has a scope of its work watched, and is condemned if it does not
// leave the scope in time.
//
// A pure machine. It kills no process: its host acts on the verdicts. Lives on one thread.
// A (process, scope) has at most one timer. Nothing is ever scanned: an acquire and a release cost
// O(log n), and the next deadline is known.
//
//   watchdog.acquire({.process = pid,
//                     .scope = "step",
//                     .deadline = ...,
//                     .after = 30s,
//                     .signal = 9});
//   wake_at(watchdog.next_deadline());
//   for (const Verdict& verdict : watchdog.expire(now)) ...  // Then forget() or postpone().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/id.h"
#include "base/instant.h"
#include "core/watchdog/limits.h"

namespace regroup::core::watchdog {

using ProcessId = Id<struct ProcessTag>;

struct Timer {
  ProcessId process;
  std::string scope;
  Instant deadline;
  Duration after{};  // How much time there was when it was acquired. For people.
  int signal = 0;    // What to kill with; 0 or less: nothing.
  double said = 0;   // When it expires, in the client's words: seconds since 1970. For people.
};

// The time of a process is up.
struct Verdict {
  ProcessId process;
  std::vector<Timer> expired;  // The earliest first; never empty.
  // The earliest of them with a signal. Empty: nothing is to be sent.
  std::optional<std::size_t> deciding;
};

class Watchdog {
 public:
  explicit Watchdog(std::size_t most = kTimers) : most_(most) {}

  // A timer of the same process and scope is replaced. False: there are too many.
  bool acquire(Timer timer);
  void release(ProcessId process, std::string_view scope);  // No effect if there is none.
  void forget(ProcessId process);                           // All of its timers.
  void forget_all();

  // Timers whose deadline is `now` or before, by process, in the order of their first deadlines.
  // They are taken out; others of the same process stay until forget().
  std::vector<Verdict> expire(Instant now);
  // The verdict could not be carried out: its timers expire again at `again`.
  void postpone(const Verdict& verdict, Instant again);

  // When to call expire() next. Empty: there is no timer.
  std::optional<Instant> next_deadline() const;
  std::size_t size() const { return heap_.size(); }

 private:
  using Slot = std::uint32_t;
  struct Entry {
    Timer timer;
    std::uint64_t order = 0;  // Among equal deadlines the one that was acquired first.
    std::size_t place = 0;    // In the heap.
  };
  using Scopes = std::map<std::string, Slot, std::less<>>;

  bool earlier(Slot one, Slot other) const;
  void put(std::size_t place, Slot slot);
  void rise(std::size_t place);
  void sink(std::size_t place);
  void take_out(Slot slot);
  Timer remove(Slot slot);

  std::size_t most_;
  std::uint64_t acquired_ = 0;
  std::vector<Entry> entries_;
  std::vector<Slot> free_;
  std::vector<Slot> heap_;  // The earliest first.
  std::unordered_map<ProcessId, Scopes> processes_;
};

}  // namespace regroup::core::watchdog
