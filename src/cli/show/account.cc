#include "cli/show/account.h"

#include <chrono>
#include <cstdio>

#include "base/text.h"
#include "cli/show/failure_report.h"
#include "cli/show/json_account.h"
#include "cli/show/torchrun_report.h"

namespace regroup::cli {
namespace {

using Kind = AgentEvent::Kind;
using Level = View::Level;

std::string in_millis(Duration took) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(took.count()) / 1e6);
  return text;
}

std::string ours(const std::string& text) { return "regroup: " + text; }

std::int64_t utc_micros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The part of a line about waiting that the clock does not change.
std::string without_time(const std::string& text) {
  return text.substr(0, std::min(text.find("; gives up in "), text.find("; last call ends in ")));
}

// "round 0: 1 of 2 nodes joined": a live line already shows all of it.
bool says_no_more(const std::string& what) {
  return what.starts_with("round ") && what.ends_with(" nodes joined");
}

bool is_for_programs(const AgentEvent& event) {
  return event.kind == Kind::Record || event.kind == Kind::Metric;
}

std::string joined(const AgentEvent& event) {
  std::string text = "round " + std::to_string(event.round) + ": ";
  if (event.group_world_size == 1)
    text += "this node alone, " + count_of(event.local_world_size, "worker");
  else
    text += "node " + std::to_string(event.group_rank) + " of " +
            std::to_string(event.group_world_size) + ", " + std::to_string(event.local_world_size) +
            " of " + count_of(event.world_size, "worker");
  return text + ", met in " + in_millis(event.took);
}

std::string well_ended(const RunResult& result) {
  switch (result.ending) {
    case RunResult::Ending::Succeeded:
      return "done: every worker of this node has succeeded" +
             (result.restarts > 0 ? ", after " + count_of(result.restarts, "restart")
                                  : std::string());
    case RunResult::Ending::NotNeeded:
      return "done: this node was a spare, and not needed";
    case RunResult::Ending::Failed:
    case RunResult::Ending::Signalled:
    case RunResult::Ending::CouldNotJoin:
    case RunResult::Ending::CouldNotStart:
    case RunResult::Ending::LeftBehind:
      return "";
  }
  return "";
}

}  // namespace

std::string final_report(const RunResult& result, const View& view, const std::string& name,
                         const Started& started) {
  const bool as_torchrun = view.report == View::Report::Torchrun && result.workers.cause;
  std::string text = as_torchrun
                         ? torchrun_report(name, result.workers) + survivors_report(result.workers)
                         : failure_report(result.workers, started, view.paint);
  switch (result.ending) {
    case RunResult::Ending::Failed:
      if (!result.cause && !result.cause_elsewhere.empty())
        text = view.paint.cause("regroup: the run has failed on another node: " +
                                first_line(result.cause_elsewhere)) +
               "\n";
      break;
    case RunResult::Ending::CouldNotJoin:
    case RunResult::Ending::CouldNotStart:
      text += view.paint.cause("regroup: " + result.error.message) + "\n";
      break;
    case RunResult::Ending::Succeeded:
    case RunResult::Ending::Signalled:
    case RunResult::Ending::NotNeeded:
    case RunResult::Ending::LeftBehind:
      break;
  }
  return text;
}

std::string account_of(const AgentEvent& event, Level level, const std::string& report) {
  const bool calm = level != Level::Quiet;
  const bool verbose = level == Level::Verbose;
  switch (event.kind) {
    case Kind::Waiting:
      return calm ? ours(event.text) : "";
    case Kind::Progress:
      return "";  // For a live line.
    case Kind::Joined:
      if (!verbose) return "";
      return ours("round " + std::to_string(event.round) + ": node " +
                  std::to_string(event.group_rank) + " of " +
                  std::to_string(event.group_world_size) + ", after " + in_millis(event.took));
    case Kind::Started:
      return verbose ? ours("workers started in " + in_millis(event.took)) : "";
    case Kind::Failed: {
      const std::string what = "rank " + std::to_string(event.failure->global_rank) + " on " +
                               event.failure->host +
                               " failed: " + first_line(event.failure->message);
      // With no restart left, the report at the end says it, and more.
      if (event.restart > event.max_restarts || !calm) return "";
      return ours(what + "; restart " + std::to_string(event.restart) + " of " +
                  std::to_string(event.max_restarts));
    }
    case Kind::FailedElsewhere:
      if (!calm) return "";
      return ours(first_line(event.text) + "; restart " + std::to_string(event.restart) + " of " +
                  std::to_string(event.max_restarts));
    case Kind::MembersChanged:
      return calm ? ours(event.text + ": joining the next round") : "";
    case Kind::RunFailed:
      return "";  // The end says it.
    case Kind::Signalled:
      return ours(event.text);
    case Kind::Noted:
      return verbose ? ours(event.text) : "";
    case Kind::CheckedIn:
      return calm && !event.text.empty() ? ours(event.text) : "";
    case Kind::Ended:
      return report;
    case Kind::Record:
    case Kind::Metric:
      return "";  // For programs.
  }
  return "";
}

std::string terminal_account_of(const AgentEvent& event, const View& view,
                                const std::string& report) {
  if (view.level == Level::Quiet) return account_of(event, view.level, report);
  if (event.kind == Kind::Joined) return ours(joined(event));
  if (event.kind == Kind::Started)
    return ours(count_of(event.local_world_size, "worker") + " up in " + in_millis(event.took));
  if (event.kind == Kind::Failed && event.restart <= event.max_restarts)
    return view.paint.cause(ours("rank " + std::to_string(event.failure->global_rank) + " on " +
                                 event.failure->host +
                                 " failed: " + first_line(event.failure->message))) +
           "; restart " + std::to_string(event.restart) + " of " +
           std::to_string(event.max_restarts);
  if (event.kind == Kind::Ended && report.empty()) {
    const std::string text = well_ended(*event.result);
    return text.empty() ? "" : ours(text);
  }
  return account_of(event, view.level, report);
}

void Account::tell(const AgentEvent& event) {
  if (view_.form == View::Form::Terminal && view_.level != Level::Quiet) {
    if (event.kind == Kind::Progress) return event.show(ours(event.text));
    // A line about waiting only continues the wait; any other line ends it.
    if (event.kind != Kind::Waiting && !is_for_programs(event)) event.show("");
  }
  if (const std::string text = line_for(event); !text.empty()) event.tell(text);
}

std::string Account::line_for(const AgentEvent& event) {
  std::string report;
  if (event.kind == Kind::Ended) report = final_report(*event.result, view_, name_, started_);
  if (view_.form == View::Form::Json)
    return json_account_of(event, view_.level, utc_micros(), report);
  if (report.ends_with('\n')) report.pop_back();
  if (view_.form == View::Form::Plain) return account_of(event, view_.level, report);
  // The live line goes on; what it waits for is printed once, and again when it changes.
  if (event.kind == Kind::Waiting) {
    const std::string what = without_time(event.text);
    if (what == waited_for_ || says_no_more(what)) return "";
    waited_for_ = what;
  } else if (event.kind != Kind::Progress && !is_for_programs(event)) {
    waited_for_.clear();
  }
  return terminal_account_of(event, view_, report);
}

std::string Account::warning(const std::string& text) const {
  return view_.form == View::Form::Json ? json_line("warning", "warning", text, utc_micros())
                                        : ours(text);
}

std::string Account::error(const std::string& text) const {
  return view_.form == View::Form::Json ? json_line("error", "error", text, utc_micros())
                                        : view_.paint.cause(ours(text));
}

}  // namespace regroup::cli
