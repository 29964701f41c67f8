#include "core/supervision/stop_signals.h"

namespace regroup::core::supervision {

namespace {

// What a shell, and a program that catches a signal and means well, add to its number.
constexpr int kShellsOffset = 128;

}  // namespace

SignalMeaning StopSignals::meaning(const StopSignal& signal, Instant now) const {
  if (!first_) return SignalMeaning::First;
  if (signal.number != first_->number) return SignalMeaning::Again;
  // A terminal that is closed says so in several ways, and the shell may take its time.
  if (signal.number == kSigHup) return SignalMeaning::Echo;
  if (signal.deliberate && first_->deliberate) return SignalMeaning::Again;
  return now - since_ <= kEchoWindow ? SignalMeaning::Echo : SignalMeaning::Again;
}

SignalMeaning StopSignals::hear(const StopSignal& signal, Instant now) {
  const SignalMeaning heard = meaning(signal, now);
  if (heard == SignalMeaning::First) {
    first_ = signal;
    since_ = now;
  } else if (heard == SignalMeaning::Echo && signal.deliberate) {
    first_->deliberate = true;  // A wrapper was quicker than the terminal: the next key counts.
  }
  return heard;
}

bool looks_signalled(int exit_code, std::string_view last_words) {
  for (const int number : {kSigTerm, kSigInt})
    if (exit_code == -number || exit_code == kShellsOffset + number) return true;
  return exit_code != 0 && last_words.starts_with("KeyboardInterrupt");
}

}  // namespace regroup::core::supervision
