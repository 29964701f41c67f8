// Tells a hang from work, by what can be seen of workers without their help.
//
// A worker is *quiet* while it writes nothing, reads and writes no data worth the name, uses next
// to no CPU time and sends no timer requests; *suspect* once that has lasted for the timeout. One
// that is busy but has shown nothing else for the timeout may be spinning in a collective, as GPU
// libraries do: it *spins*. The node is *stalled* when each of its workers is suspect, has been
// quiet for a while or spins, and at least one is suspect or, on another node, may be.
//
// In its first time (`grace`) nothing counts: loading, compiling and the first step take as long as
// they take. A worker that waits for a disk, is suspended or is held by a debugger is not quiet.
//
// A pure machine: its host looks at the workers when next_look() has come and says what it saw.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/instant.h"

namespace regroup::core::hang {

struct Settings {
  Duration timeout = 600s;
  Duration grace = 1200s;  // After the start.
};

// One worker, as it is at one moment. Counts grow; what matters is what they grew by.
struct Sample {
  std::uint64_t written =
      0;  // Bytes, by the processes of its session, wherever to: a log line counts.
  std::uint64_t moved = 0;     // All other bytes that it and its children read and wrote.
  std::uint64_t requests = 0;  // Timer requests and heartbeats.
  Duration cpu{};              // Of the worker and its children.
  bool held = false;           // Waits for a disk, is suspended, or is traced.
  std::uint64_t turns = 0;     // How often its main thread went to sleep.
};

// All of the node's workers that still run, by local rank, in one of these.
struct Stall {
  std::vector<int> suspects;
  std::vector<int> waiting;   // Quiet for less than the timeout.
  std::vector<int> spinning;  // Busy, and nothing else for the timeout.
  Duration quiet{};           // How long the longest quiet of the suspects has lasted.
  std::vector<int> still;     // Of all these, those whose main thread slept on for the timeout.
};

class HangDetector {
 public:
  HangDetector(const Settings& settings, int workers, Instant started);

  // All workers, by local rank; nothing for those that have ended.
  void on_look(const std::vector<std::optional<Sample>>& workers, Instant now);
  // We made the workers do something (their stacks were taken): what the counts grew by until the
  // next look is not their own work.
  void on_disturbed() { disturbed_ = true; }
  Instant next_look() const { return next_look_; }

  // Empty: at least one makes progress. As of the last look.
  std::optional<Stall> stalled() const;

 private:
  struct Worker {
    std::optional<Sample> last;
    Instant quiet_since;   // Since then: nothing at all.
    Instant silent_since;  // Since then: nothing but CPU time.
    Instant still_since;   // Since then its main thread has slept.
    bool running = true;
  };
  void judge(Worker& worker, const Sample& sample, Duration since_last, Instant now) const;

  Settings settings_;
  Duration pause_;
  Instant last_look_;
  Instant next_look_;
  bool disturbed_ = false;
  std::vector<Worker> workers_;
};

// Whether the stalls of all nodes together make a hang. One worker that sleeps while many spin
// hangs; many that sleep while one computes wait for it.
struct Votes {
  int suspects = 0;
  int spinning = 0;
  friend bool operator==(const Votes&, const Votes&) = default;
};
bool is_hang(const Votes& all);
Votes votes_of(const Stall& stall);

// "written nothing, moved no data, used no CPU time and sent no timer request for 1m02s".
std::string signals_in_words(Duration quiet);

}  // namespace regroup::core::hang
