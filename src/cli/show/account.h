// What `regroup run` prints while it runs: little, and what a person can use.
#pragma once

#include <string>

#include "cli/show/advice.h"
#include "cli/show/view.h"
#include "regroup/agent.h"

namespace regroup::cli {

class Account {
 public:
  using Level = View::Level;

  // `name` is what is started: the script, the module, the program.
  Account(View view, std::string name, Started started)
      : view_(view), name_(std::move(name)), started_(std::move(started)) {}

  // On the agent's thread.
  void tell(const AgentEvent& event);

  // A line that is no event, as it is to be printed; from any thread.
  std::string warning(const std::string& text) const;
  std::string error(const std::string& text) const;

 private:
  std::string line_for(const AgentEvent& event);

  const View view_;
  const std::string name_;
  const Started started_;
  std::string waited_for_;  // What was last printed about the wait, without its time.
};

// The line, or lines, for an event; empty: nothing is printed. `report` is for the end.
std::string account_of(const AgentEvent& event, View::Level level, const std::string& report);

// The same for a terminal, where more is printed, because it scrolls away.
std::string terminal_account_of(const AgentEvent& event, const View& view,
                                const std::string& report);

// The report on a run that is over, if it failed; whole lines.
std::string final_report(const RunResult& result, const View& view, const std::string& name,
                         const Started& started);

}  // namespace regroup::cli
