// What `regroup run` says while it runs: little, and what a person can use.
#pragma once

#include "regroup/agent.h"

namespace regroup::cli {

class Account {
 public:
  enum class Level {
    Quiet,    // What went wrong.
    Calm,     // And what is waited for, and why workers are started again.
    Verbose,  // And what goes well.
  };
  explicit Account(Level level) : level_(level) {}

  void tell(const AgentEvent& event) const;

 private:
  Level level_;
};

// The line, or lines, for an event; empty: nothing is said of it.
std::string account_of(const AgentEvent& event, Account::Level level);

}  // namespace regroup::cli
