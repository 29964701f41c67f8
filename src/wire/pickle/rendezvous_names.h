// The names that Python knows the shared rendezvous state by.
#pragma once

#include <string_view>

namespace regroup::wire {

inline constexpr std::string_view kTorchModule =
    "torch.distributed.elastic.rendezvous.dynamic_rendezvous";
inline constexpr std::string_view kStateClass = "_RendezvousState";
inline constexpr std::string_view kNodeClass = "_NodeDesc";
inline constexpr std::string_view kDatetimeModule = "datetime";
inline constexpr std::string_view kDatetimeClass = "datetime";
inline constexpr std::string_view kTimezoneClass = "timezone";
inline constexpr std::string_view kTimedeltaClass = "timedelta";

inline constexpr std::string_view kAddrAttribute = "addr";
inline constexpr std::string_view kFqdnAttribute = "fqdn";  // PyTorch 1.13 has it in place of addr.
inline constexpr std::string_view kPidAttribute = "pid";
inline constexpr std::string_view kLocalIdAttribute = "local_id";
// Ours, on a node and on the state: see claim_text.h.
inline constexpr std::string_view kRegroupAttribute = "regroup";

inline constexpr std::string_view kRoundAttribute = "round";
inline constexpr std::string_view kCompleteAttribute = "complete";
inline constexpr std::string_view kDeadlineAttribute = "deadline";
inline constexpr std::string_view kClosedAttribute = "closed";
inline constexpr std::string_view kParticipantsAttribute = "participants";
inline constexpr std::string_view kWaitListAttribute = "wait_list";
inline constexpr std::string_view kRedundancyListAttribute = "redundancy_list";
inline constexpr std::string_view kLastHeartbeatsAttribute = "last_heartbeats";

}  // namespace regroup::wire
