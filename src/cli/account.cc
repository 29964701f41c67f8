#include "cli/account.h"

#include <cstdio>

#include "cli/failure_report.h"

namespace regroup::cli {
namespace {

using Kind = AgentEvent::Kind;
using Level = Account::Level;

std::string in_millis(Duration took) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(took.count()) / 1e6);
  return text;
}

std::string ended(const RunResult& result) {
  std::string text = failure_report(result.workers);
  switch (result.ending) {
    case RunResult::Ending::Failed:
      if (!result.cause && !result.cause_elsewhere.empty())
        text = "regroup: the run has failed on another node: " + result.cause_elsewhere + "\n";
      break;
    case RunResult::Ending::CouldNotJoin:
    case RunResult::Ending::CouldNotStart:
      text += "regroup: " + result.error.message + "\n";
      break;
    case RunResult::Ending::Succeeded:
    case RunResult::Ending::Signalled:
    case RunResult::Ending::NotNeeded:
    case RunResult::Ending::LeftBehind:
      break;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string account_of(const AgentEvent& event, Level level) {
  const bool calm = level != Level::Quiet;
  const bool verbose = level == Level::Verbose;
  const auto line = [](const std::string& text) { return "regroup: " + text; };
  switch (event.kind) {
    case Kind::Waiting:
      return calm ? line(event.text) : "";
    case Kind::Joined:
      if (!verbose) return "";
      return line("round " + std::to_string(event.round) + ": node " +
                  std::to_string(event.group_rank) + " of " +
                  std::to_string(event.group_world_size) + ", after " + in_millis(event.took));
    case Kind::Started:
      return verbose ? line("workers started in " + in_millis(event.took)) : "";
    case Kind::Failed: {
      const std::string what = "rank " + std::to_string(event.failure->global_rank) + " on " +
                               event.failure->host + " failed: " + event.failure->message;
      // With no restart left the report at the end says it, and more.
      if (event.restart > event.max_restarts || !calm) return "";
      return line(what + "; restart " + std::to_string(event.restart) + " of " +
                  std::to_string(event.max_restarts));
    }
    case Kind::MembersChanged:
      return calm ? line(event.text + ": joining the next round") : "";
    case Kind::RunFailed:
      return "";  // The end tells it.
    case Kind::Signalled:
      return line(event.text);
    case Kind::Noted:
      return verbose ? line(event.text) : "";
    case Kind::CheckedIn:
      return calm && !event.text.empty() ? line(event.text) : "";
    case Kind::Ended:
      return ended(*event.result);
    case Kind::Record:
    case Kind::Metric:
      return "";  // For programs.
  }
  return "";
}

void Account::tell(const AgentEvent& event) const {
  if (const std::string text = account_of(event, level_); !text.empty()) event.tell(text);
}

}  // namespace regroup::cli
