// What may grow in this room.
#pragma once

#include <cstddef>
#include <cstdint>

namespace regroup::runtime {

// A client with so many bytes of answers unread is not read from until it has taken them.
inline constexpr std::size_t kUnreadAnswers = 1024 * 1024;
// Clients of one store at one time. One more is accepted and closed at once, which it sees as a
// lost connection.
inline constexpr std::size_t kClients = 100'000;
// A server that announces a longer answer is not believed: the connection is given up.
inline constexpr std::size_t kLargestAnswer = std::size_t{4} << 30;
// A late joiner of a torchrun run looks for the workers' store among the keys of so many earlier
// rounds; beyond them it counts as not there.
inline constexpr std::int64_t kRoundsLookedBack = 1000;

}  // namespace regroup::runtime
