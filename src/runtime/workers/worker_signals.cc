#include "runtime/workers/worker_signals.h"

#include <signal.h>

#include <algorithm>

#include "base/text_parts.h"
#include "io/process/process_table.h"
#include "io/process/signals.h"

namespace regroup::runtime {

using core::supervision::SignalMeaning;
using core::supervision::StopSignal;

SignalNames parse_signals(std::string_view list) {
  SignalNames names;
  while (!list.empty()) {
    const std::string_view name = trimmed(take_until(list, ','), " ");
    if (name.empty()) continue;
    const auto number = io::signal_number(name);
    if (!number || *number == SIGKILL || *number == SIGSTOP || *number == SIGCHLD) {
      names.unknown.emplace_back(name);
    } else if (std::find(names.numbers.begin(), names.numbers.end(), *number) ==
               names.numbers.end()) {
      names.numbers.push_back(*number);
    }
  }
  return names;
}

std::string describe_signal(const io::SignalEvent& event) {
  std::string text = io::signal_name(event.number);
  if (event.sender != 0) {
    const auto sender = io::find_process(event.sender);
    text += " from pid " + std::to_string(event.sender);
    if (sender) text += " (" + sender->name + ")";
    return text;
  }
  if (!event.by_kernel) return text + " from outside of this container";
  if (event.number == SIGINT) return text + " (Ctrl-C)";
  if (event.number == SIGQUIT) return text + " (Ctrl-\\)";
  if (event.number == SIGHUP) return text + " (terminal closed; nohup, tmux or setsid outlive it)";
  return text;
}

bool is_key(const io::SignalEvent& event) {
  return event.by_kernel && (event.number == SIGINT || event.number == SIGQUIT);
}

std::string what_follows(SignalMeaning meaning, bool has_workers, const StopSignal& signal) {
  switch (meaning) {
    case SignalMeaning::First:
      if (!has_workers) return ": stopping";
      return signal.deliberate ? ": stopping; once more kills the workers"
                               : ": stopping; once more, after a second, kills the workers";
    case SignalMeaning::Echo:
      return " again: taken for the same" +
             std::string(has_workers ? "; once more, later, kills the workers" : "");
    case SignalMeaning::Again:
      return has_workers ? ": killing the workers" : ": stopping";
  }
  return "";
}

Result<void> hear_signals(io::Loop& loop, const SignalChoice& choice,
                          const std::function<void(const io::SignalEvent&)>& handled,
                          const std::function<void(const io::SignalEvent&)>& forwarded) {
  const auto hear = [&loop](const std::vector<int>& numbers, const auto& callback) -> Result<void> {
    for (const int number : numbers) {
      if (io::is_ignored(number)) continue;
      if (auto heard = loop.on_signal(number, callback); !heard) return heard;
    }
    return {};
  };
  if (auto heard = hear(choice.forward, forwarded); !heard) return heard;
  return hear(choice.handle, handled);
}

}  // namespace regroup::runtime
