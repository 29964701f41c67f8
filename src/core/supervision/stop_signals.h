// The signals that ask a launcher to stop: the first asks the workers to end within their grace,
// another one kills them. What only looks like another one is told apart here: GNU timeout signals
// its child and then the child's group, a shell hands on the SIGHUP that the kernel sends too, a
// wrapper passes on the Ctrl-C that reached us as well.
//
// A pure machine.
#pragma once

#include <optional>
#include <string_view>

#include "base/instant.h"
#include "core/supervision/supervision.h"

namespace regroup::core::supervision {

inline constexpr int kSigHup = 1;
inline constexpr int kSigInt = 2;

// The same signal again within this time is the same request. Nobody who means two of them sends
// them that quickly, except with a key.
inline constexpr Duration kEchoWindow = 1s;

struct StopSignal {
  int number = kSigTerm;
  // A key was pressed, or a program called stop(): nothing doubles that, so each of them counts.
  bool deliberate = false;
};

enum class SignalMeaning {
  First,  // The workers are asked to end.
  Echo,   // The same request came by another way.
  Again,  // It does not ask any more.
};

class StopSignals {
 public:
  // A question; hear() is for the signal that has come.
  SignalMeaning meaning(const StopSignal& signal, Instant now) const;
  SignalMeaning hear(const StopSignal& signal, Instant now);

  int first() const { return first_ ? first_->number : 0; }  // 0: none has come.

 private:
  std::optional<StopSignal> first_;  // `deliberate`: one of those that count as the first was.
  Instant since_;
};

// A worker's end that may be the work of a signal which our process gets as well, perhaps a moment
// later: Ctrl-C and Slurm signal all processes. `exit_code` as Python gives it; `last_words`: the
// last line of the worker's traceback, if it left one.
bool looks_signalled(int exit_code, std::string_view last_words);

}  // namespace regroup::core::supervision
