// The agent's events and metrics as JSON, one line each without its end.
//
// Events have the keys of torchrun's, in the same order and with its oddities: what belongs to the
// run is a string of JSON inside the JSON, and what belongs to a worker is in lists of one element.
#pragma once

#include <string>
#include <string_view>

#include "regroup/records.h"

namespace regroup::wire {

inline constexpr std::string_view kEventNamePrefix = "torchelastic.worker.status.";

std::string encode_event(const EventRecord& event);
std::string encode_metric(const MetricRecord& metric);
std::string encode_rendezvous_event(const RendezvousRecord& record);

// What torchrun gives as the error of a worker that left no error file.
std::string error_data_of(int exit_code);

}  // namespace regroup::wire
