// What may grow in this room. A rendezvous state beyond one of these is refused; the limits of
// store requests are in core/store/limits.h, those of whole session frames in session.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace regroup::wire {

// Limit of one state, as read and as it would be written again. A store of PyTorch holds values of
// 8 MiB, and a state of 10 000 nodes has about 1 MiB.
inline constexpr std::size_t kStateBytes = std::size_t{8} << 20;
// Values, members of containers and memo slots of one pickle. A node costs about a dozen of each.
inline constexpr std::size_t kPickleValues = std::size_t{1} << 20;
// Containers that are open one inside the other.
inline constexpr std::size_t kPickleDepth = 32;
// No run gets there, and adding one must not overflow.
inline constexpr std::int64_t kMostRounds = std::int64_t{1} << 62;
inline constexpr std::size_t kStateAttributes = 64;
inline constexpr std::size_t kNodeAttributes = 32;
inline constexpr std::size_t kAddressBytes = 1024;
// A longer claim is not one of this version, so it is ignored like any other form we do not know.
inline constexpr std::size_t kClaimBytes = 1024;
// The name in a claim, which also holds four numbers.
inline constexpr std::size_t kNodeNameBytes = kClaimBytes - 128;
// All unknown attributes that we keep, together, and how deep one may be nested. It is less than
// kPickleDepth, because it is written inside other containers.
inline constexpr std::size_t kExtraBytes = std::size_t{64} << 10;
inline constexpr std::size_t kExtraDepth = 16;
// The head of an HTTP request; a longer one is refused with 431. Browsers send about 1 KiB.
inline constexpr std::size_t kHttpHeadBytes = 8192;
// A text of a session, except a report: a longer one is cut when it is written, and refused when it
// is read.
inline constexpr std::size_t kSessionTextBytes = 4096;
// Where the ranks of one node are, a line each: what does not fit is left out when it is written.
inline constexpr std::size_t kSessionRanksBytes = std::size_t{32} << 10;
// How many numbers one list in a session may have; more are refused.
inline constexpr std::size_t kSessionNumbers = 256;
// How many workers one node may claim in a session; more are refused. With ten thousand such nodes,
// their sum still fits.
inline constexpr std::int64_t kSessionWorkers = std::int64_t{1} << 31;

}  // namespace regroup::wire
