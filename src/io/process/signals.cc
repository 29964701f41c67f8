#include "io/process/signals.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "base/text_parts.h"
#include "io/loop/descriptor.h"

namespace regroup::io {

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  if (name != nullptr) return std::string("SIG") + name;
  if (number >= SIGRTMIN && number <= SIGRTMAX)
    return fmt::format("SIGRTMIN+{}", number - SIGRTMIN);
  return fmt::format("signal {}", number);
}

std::string signal_in_words(int number) {
  const char* words = sigdescr_np(number);
  if (words == nullptr) return signal_name(number);
  std::string text(words);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::optional<int> signal_number(std::string_view name) {
  if (const auto number = to_number<int>(name))
    // Signals between the two kinds are reserved for libc.
    return (*number > 0 && *number < 32) || (*number >= SIGRTMIN && *number <= SIGRTMAX)
               ? number
               : std::nullopt;
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (upper.starts_with("SIG")) upper.erase(0, 3);
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* abbreviation = sigabbrev_np(number);
    if (abbreviation != nullptr && upper == abbreviation) return number;
  }
  return std::nullopt;
}

bool is_ignored(int number) {
  struct sigaction action {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool is_pending(const std::vector<int>& numbers) { return pending_of(numbers) != 0; }

int pending_of(const std::vector<int>& numbers) {
  sigset_t pending;
  if (sigpending(&pending) != 0) return 0;
  int lowest = 0;
  for (const int number : numbers)
    if (sigismember(&pending, number) == 1 && (lowest == 0 || number < lowest)) lowest = number;
  return lowest;
}

bool signal_exactly(const ProcessInfo& process, int number) {
  const Descriptor fd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  if (!fd && errno == ESRCH) return false;
  // The descriptor holds the process that has the pid now; its start time tells whether it is the
  // one we saw.
  const auto now = find_process(process.pid);
  const bool same = now && now->start_time == process.start_time;
  bool sent = same && fd && syscall(SYS_pidfd_send_signal, fd.get(), number, nullptr, 0) == 0;
  // Sandboxes forbid these calls. To hit another process, the pid would have to end, be reaped and
  // be reused between the look and the signal.
  if (same && !sent && (errno == EPERM || errno == ENOSYS || !fd))
    sent = ::kill(process.pid, number) == 0;
  return sent;
}

}  // namespace regroup::io
