// Which signals end the run, and which are handed on to the workers.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/supervision/stop_signals.h"
#include "io/loop/loop.h"

namespace regroup::runtime {

struct SignalChoice {
  std::vector<int> handle;   // These end the run. A signal in both lists ends the run.
  std::vector<int> forward;  // These go to every worker; the run goes on.
};

inline constexpr std::string_view kSignalsToHandle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
inline constexpr std::string_view kSignalsToForward = "SIGUSR1,SIGUSR2,SIGWINCH,SIGCONT";

// Names (with or without SIG) or numbers, by commas.
struct SignalNames {
  std::vector<int> numbers;
  std::vector<std::string> unknown;  // There is no signal of this name, or it cannot be caught.
};
SignalNames parse_signals(std::string_view list);

// "SIGTERM from pid 4711 (bash)", "SIGINT (Ctrl-C)", "SIGHUP (terminal closed)".
std::string describe_signal(const io::SignalEvent& event);

// It came from a terminal because somebody pressed a key: SIGINT (Ctrl-C), SIGQUIT (Ctrl-\\).
bool is_key(const io::SignalEvent& event);
// What follows from it, for the line that describes it: ": stopping; once more kills the workers".
std::string what_follows(core::supervision::SignalMeaning meaning, bool has_workers,
                         const core::supervision::StopSignal& signal);

// What was ignored when we were started stays ignored: nohup, and `&` in scripts. Call it before
// any thread is started.
Result<void> hear_signals(io::Loop& loop, const SignalChoice& choice,
                          const std::function<void(const io::SignalEvent&)>& handled,
                          const std::function<void(const io::SignalEvent&)>& forwarded);

}  // namespace regroup::runtime
