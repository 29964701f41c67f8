#include "runtime/workers/worker_signals.h"

#include <signal.h>

#include <algorithm>

#include "base/text_parts.h"
#include "io/process/process_table.h"
#include "io/process/signals.h"

namespace regroup::runtime {

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
