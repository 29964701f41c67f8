// The first line about a failure, the same in the log, the report and on other nodes.
#pragma once

#include <string>
#include <string_view>

namespace regroup {

// How the message of a worker begins that was ended because the run hangs, though it is not known
// to be the one that hangs: it is not named.
inline constexpr std::string_view kHangsUnnamed = "hangs: cannot tell ";

inline bool names_nobody(std::string_view message) { return message.starts_with(kHangsUnnamed); }

// "rank 3 on node-2 failed: it has ...", or "the run hangs: cannot tell ...".
inline std::string headline(int rank, const std::string& host, const std::string& message) {
  if (names_nobody(message)) return "the run " + message;
  return "rank " + std::to_string(rank) + " on " + host + " failed: " + message;
}

}  // namespace regroup
