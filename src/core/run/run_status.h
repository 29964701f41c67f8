// How the runs at a port and their nodes stand, for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/run_rules.h"
#include "regroup/time.h"

namespace regroup::core::run {

struct NodeStatus {
  enum class Place { Idle, Member, Done, Joined, Waiting, Spare };
  std::string name;
  std::string address;
  Place place = Place::Idle;
  std::optional<std::int64_t> rank = {};
  std::int64_t workers = 0;
  bool connected = true;    // False: its connection is lost, and it may come back.
  bool has_session = true;  // False: it is torchrun's.
  Duration silent_for{};
  std::string group = {};
};
std::string_view word_of(NodeStatus::Place place);

struct RunStatus {
  std::string run_id;
  std::int64_t round = 0;
  bool sealed = false;
  bool closed = false;
  bool succeeded = false;
  RunRules rules;
  std::int64_t restarts = 0;
  std::string awaited;  // What is waited for, in one sentence; empty: nothing.
  std::string last_verdict;
  std::vector<NodeStatus> nodes;  // Members by rank, then the others by name.
};

struct SessionCounters {
  std::uint64_t sessions = 0;  // Now.
  std::uint64_t sessions_ever = 0;
  std::uint64_t messages_in = 0;
  std::uint64_t messages_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t refused = 0;  // Sessions closed for what they said, did not say, or did not read.
  friend bool operator==(const SessionCounters&, const SessionCounters&) = default;
};

// The one list of the counters: what is told on the wire and logged is made from it.
struct CounterRow {
  std::uint64_t SessionCounters::*counter;
  const char* name;  // In the answer to `regroup status`.
  // What stands around the number in the line that SIGUSR1 logs. Nothing before it: the line begins
  // with this counter, and with what is no counter.
  const char* before = "";
  const char* after = "";
};
inline constexpr CounterRow kCounters[] = {
    {&SessionCounters::sessions_ever, "sessions_ever"},
    {&SessionCounters::messages_in, "messages_in", "; messages in "},
    {&SessionCounters::messages_out, "messages_out", ", out "},
    {&SessionCounters::bytes_in, "bytes_in", "; in ", " bytes"},
    {&SessionCounters::bytes_out, "bytes_out", ", out ", " bytes"},
    {&SessionCounters::refused, "refused", "; closed: refused "},
};

struct PortStatus {
  SessionCounters counters = {};
  std::vector<RunStatus> runs = {};
};

}  // namespace regroup::core::run
