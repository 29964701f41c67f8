// Plays core/agent's recorder beside the agent: adds what the machine does not know (pids, error
// files, the clocks), and tells every record as an AgentEvent.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>

#include "core/agent/recorder.h"
#include "regroup/agent.h"
#include "runtime/rounds/rounds.h"

namespace regroup::runtime {

// Lives on the agent's thread.
class AgentRecords {
 public:
  using Tell = std::function<void(AgentEvent::What)>;
  AgentRecords(const AgentOptions& options, Tell tell);

  void joining(int restarts, int remaining_restarts);
  void joined(const JoinedRound& round);
  void join_failed(std::optional<Duration> took_to_meet);
  void starting();
  void started(const std::map<int, pid_t>& pids);  // By local rank.
  void start_failed();
  void stopping();
  void group_over(core::agent::GroupEnd end, bool signalled);
  void watchdog(EventRecord::Watchdog what);
  void checking_in();
  void checked_in();
  void ended(core::agent::Ending ending, const RunResult& result);

 private:
  void tell(core::agent::Records records) const;

  int local_world_size_;
  Tell tell_;
  core::agent::Recorder recorder_;
};

}  // namespace regroup::runtime
