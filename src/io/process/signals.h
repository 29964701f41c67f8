// Signals by name, and to exactly one process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/process/process_table.h"

namespace regroup::io {

// "SIGTERM"; "signal 99" for an unknown number.
std::string signal_name(int number);
std::string signal_in_words(int number);                  // "segmentation fault".
std::optional<int> signal_number(std::string_view name);  // "SIGTERM", "TERM", "15".

// True if this process was started with it ignored, as nohup does for SIGHUP, or ignores it since.
bool is_ignored(int number);

// One of them was sent and is pending, because it is blocked.
bool is_pending(const std::vector<int>& numbers);

// The lowest of them that is_pending() means; 0: none.
int pending_of(const std::vector<int>& numbers);

// To the process that was seen, and to no other that has its pid by now. False: it is gone.
bool signal_exactly(const ProcessInfo& process, int number);

}  // namespace regroup::io
