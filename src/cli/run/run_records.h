// Where the events and metrics of a run go: --event-log, --rdzv-event-log, --metrics-log,
// --event-log-handler.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/run/run_flags.h"
#include "regroup/agent.h"
#include "runtime/agent/record_log.h"

namespace regroup::cli {

class RunRecords {
 public:
  // InvalidArgument, with the flag's name, if a file cannot be written.
  static Result<RunRecords> open(const RunFlags& flags);

  // Takes records of either kind, and ignores the rest. Returns what went wrong, for people; empty:
  // nothing did.
  std::string tell(const AgentEvent& event);

  // What was lost, in words.
  std::vector<std::string> close();

 private:
  bool console_ = false;
  std::optional<runtime::RecordLog> events_;
  std::optional<runtime::RecordLog> rendezvous_;
  std::optional<runtime::RecordLog> metrics_;
};

}  // namespace regroup::cli
