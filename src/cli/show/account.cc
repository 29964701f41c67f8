#include "cli/show/account.h"

#include <fmt/core.h>

#include <chrono>
#include <variant>

#include "base/cases.h"
#include "base/headline.h"
#include "base/text.h"
#include "cli/show/failure_report.h"
#include "cli/show/json_account.h"
#include "cli/show/torchrun_report.h"

namespace regroup::cli {
namespace {

using Level = View::Level;

std::string in_millis(Duration took) {
  return fmt::format("{:.1f} ms", static_cast<double>(took.count()) / 1e6);
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

template <class Kind>
bool is(const AgentEvent& event) {
  return std::holds_alternative<Kind>(event.what);
}

bool is_for_programs(const AgentEvent& event) {
  return is<EventRecord>(event) || is<MetricRecord>(event) || is<RendezvousRecord>(event);
}

bool is_told(const RendezvousRecord& record, Level level) {
  if (level == Level::Debug) return true;
  // What else is worth a line has one of its own.
  const bool is_info = record.level == RendezvousRecord::Level::Info && !record.rank;
  return level == Level::Verbose && is_info;
}

std::string failed(const ProcessFailure& failure) {
  return headline(failure.global_rank, failure.host, first_line(failure.message));
}

std::string restart_of(int restart, int max_restarts) {
  // A limit within a time says nothing about the number of all restarts.
  if (restart > max_restarts) return fmt::format("; restart {}", restart);
  return fmt::format("; restart {} of {}", restart, max_restarts);
}

using Then = AgentEvent::Failed::Then;

std::string what_follows(const AgentEvent::Failed& failed) {
  switch (failed.then) {
    case Then::Restart:
      return restart_of(failed.restart, failed.max_restarts);
    case Then::Undecided:
      return "; the coordinator has not decided yet what follows";
    case Then::Rejoin:  // Another line says why.
    case Then::End:
      return "";
  }
  return "";
}

// "; ranks 2-3 of 4, in role trainer 0-1 of 2; workers' store at node-1 port 29400"
std::string places_of(const AgentEvent& event, const AgentEvent::Joined& joined) {
  if (joined.ranks.empty()) return "";
  return fmt::format("; ranks {} of {}, in role {} {} of {}; workers' store at {} port {}",
                     in_ranges(joined.ranks), event.world_size, joined.role,
                     in_ranges(joined.role_ranks), joined.role_world_size, joined.master_addr,
                     joined.master_port);
}

std::string terminal_joined(const AgentEvent& event, Duration took) {
  const std::string who =
      event.group_world_size == 1
          ? "this node alone, " + count_of(event.local_world_size, "worker")
          : fmt::format("node {} of {}, {} of {}", event.group_rank, event.group_world_size,
                        event.local_world_size, count_of(event.world_size, "worker"));
  return fmt::format("round {}: {}, met in {}", event.round, who, in_millis(took));
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
      else if (!result.cause && !result.error.message.empty())
        text += view.paint.cause("regroup: " + result.error.message) + "\n";
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
  const bool verbose = level >= Level::Verbose;
  const auto if_calm = [&](const std::string& text) { return calm ? ours(text) : ""; };
  const auto if_verbose = [&](const std::string& text) { return verbose ? ours(text) : ""; };
  const auto none = [] { return std::string(); };
  const Cases line{
      [&](const AgentEvent::Waiting& waiting) { return if_calm(waiting.text); },
      [&](const AgentEvent::Progress&) { return none(); },  // For a live line.
      [&](const AgentEvent::Joined& joined) {
        return if_verbose(fmt::format("round {}: node {} of {}, after {}{}", event.round,
                                      event.group_rank, event.group_world_size,
                                      in_millis(joined.took), places_of(event, joined)));
      },
      [&](const AgentEvent::Started& started) {
        return if_verbose("workers started in " + in_millis(started.took));
      },
      [&](const AgentEvent::Failed& what) {
        if (what.then == Then::End) return none();  // The report says it, and more.
        return if_calm(failed(what.failure) + what_follows(what));
      },
      [&](const AgentEvent::FailedElsewhere& what) {
        return if_calm(first_line(what.text) + restart_of(what.restart, what.max_restarts));
      },
      [&](const AgentEvent::MembersChanged& changed) {
        return if_calm(changed.text + ": joining the next round");
      },
      [&](const AgentEvent::RunFailed&) { return none(); },  // The end says it.
      [&](const AgentEvent::Signalled& signalled) { return ours(signalled.text); },
      [&](const AgentEvent::Noted& noted) { return if_verbose(noted.text); },
      [&](const AgentEvent::CheckedIn& checked_in) {
        if (!checked_in.text.empty()) return if_calm(checked_in.text);
        if (event.group_world_size == 1) return none();
        return if_verbose("every node is done, waited for " + in_millis(checked_in.took));
      },
      [&](const AgentEvent::Ended&) { return report; },
      [&](const EventRecord&) { return none(); },  // Records are for programs.
      [&](const MetricRecord&) { return none(); },
      [&](const RendezvousRecord& record) {
        return is_told(record, level) ? ours(record.message) : none();
      },
  };
  return std::visit(line, event.what);
}

std::string terminal_account_of(const AgentEvent& event, const View& view,
                                const std::string& report) {
  const auto plain = [&] { return account_of(event, view.level, report); };
  if (view.level == Level::Quiet) return plain();
  const Cases line{
      [&](const AgentEvent::Joined& joined) {
        return ours(terminal_joined(event, joined.took) +
                    (view.level == Level::Verbose ? places_of(event, joined) : ""));
      },
      [&](const AgentEvent::Started& started) {
        return ours(count_of(event.local_world_size, "worker") + " up in " +
                    in_millis(started.took));
      },
      [&](const AgentEvent::Failed& what) {
        if (what.then == Then::End) return plain();
        return view.paint.cause(ours(failed(what.failure))) + what_follows(what);
      },
      [&](const AgentEvent::Ended& ended) {
        if (!report.empty()) return plain();
        const std::string text = well_ended(ended.result);
        return text.empty() ? text : ours(text);
      },
      [&](const auto&) { return plain(); },
  };
  return std::visit(line, event.what);
}

void Account::tell(const AgentEvent& event) {
  if (view_.form == View::Form::Terminal && view_.level != Level::Quiet) {
    if (const auto* progress = std::get_if<AgentEvent::Progress>(&event.what))
      return event.show(ours(progress->text));
    // A line about waiting only continues the wait; any other line ends it.
    if (!is<AgentEvent::Waiting>(event) && !is_for_programs(event)) event.show("");
  }
  if (const std::string text = line_for(event); !text.empty()) event.tell(text);
}

std::string Account::line_for(const AgentEvent& event) {
  std::string report;
  if (const auto* ended = std::get_if<AgentEvent::Ended>(&event.what))
    report = final_report(ended->result, view_, name_, started_);
  if (view_.form == View::Form::Json)
    return json_account_of(event, view_.level, utc_micros(), report);
  if (report.ends_with('\n')) report.pop_back();
  if (view_.form == View::Form::Plain) return account_of(event, view_.level, report);
  // The live line goes on; what it waits for is printed once, and again when it changes.
  if (const auto* waiting = std::get_if<AgentEvent::Waiting>(&event.what)) {
    const std::string what = without_time(waiting->text);
    if (what == waited_for_ || says_no_more(what)) return "";
    waited_for_ = what;
  } else if (!is<AgentEvent::Progress>(event) && !is_for_programs(event)) {
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
