#include "cli/show/json_account.h"

#include <fmt/core.h>

#include <ctime>
#include <variant>

#include "base/cases.h"
#include "base/headline.h"
#include "base/json_text.h"
#include "cli/show/failure_report.h"

namespace regroup::cli {
namespace {

using Ending = RunResult::Ending;

std::string time_text(std::int64_t micros) {
  const std::time_t seconds = micros / 1'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char day[32];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:06}Z", day, micros % 1'000'000);
}

JsonObject begun(const std::string& level, const std::string& event, const std::string& text,
                 std::int64_t micros) {
  JsonObject object;
  object.add("time", time_text(micros)).add("level", level).add("event", event).add("text", text);
  return object;
}

std::string array(const std::vector<std::string>& texts) {
  std::string json;
  for (const std::string& text : texts)
    json += (json.empty() ? "\"" : ", \"") + json_escaped(text) + "\"";
  return "[" + json + "]";
}

std::string array(const std::vector<int>& numbers) {
  std::string json;
  for (const int number : numbers) json += (json.empty() ? "" : ", ") + std::to_string(number);
  return "[" + json + "]";
}

std::string failure_json(const ProcessFailure& failure) {
  JsonObject object;
  object.add("rank", failure.global_rank)
      .add("local_rank", failure.local_rank)
      .add("role", failure.role)
      .add("host", failure.host)
      .add("pid", failure.pid)
      .add("time", time_text(failure.time_micros))
      .add("exit_code", failure.exit_code);
  if (failure.signal_name.empty())
    object.null("signal");
  else
    object.add("signal", failure.signal_name);
  object.add("message", failure.message)
      .raw("evidence", array(failure.evidence))
      .add("out_of_memory", failure.out_of_memory)
      .add("traceback", failure.traceback)
      .add("error_file", failure.error_file);
  return object.text();
}

// Workers that failed by themselves, except the cause.
std::string others_json(const WorkersResult& result) {
  std::string json;
  for (const ProcessFailure& failure : result.failures) {
    if (failure.stopped_by_us || failure.survived ||
        (result.cause && failure.local_rank == result.cause->local_rank))
      continue;
    JsonObject object;
    object.add("rank", failure.global_rank)
        .add("exit_code", failure.exit_code)
        .add("message", failure.message);
    json += (json.empty() ? "" : ", ") + object.text();
  }
  return "[" + json + "]";
}

const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::Succeeded:
      return "succeeded";
    case Ending::Failed:
      return "failed";
    case Ending::Signalled:
      return "signalled";
    case Ending::NotNeeded:
      return "not_needed";
    case Ending::CouldNotJoin:
      return "could_not_join";
    case Ending::CouldNotStart:
      return "could_not_start";
    case Ending::LeftBehind:
      return "left_behind";
  }
  return "";
}

std::string failed_text(const ProcessFailure& failure) {
  return headline(failure.global_rank, failure.host, failure.message);
}

std::string ended_text(const RunResult& result) {
  switch (result.ending) {
    case Ending::Succeeded:
      return "all workers of this node have succeeded";
    case Ending::NotNeeded:
      return "this node was a spare, and not needed";
    case Ending::Failed:
      if (result.cause) return failed_text(*result.cause);
      if (result.cause_elsewhere.empty()) return result.error.message;
      return "the run has failed on another node: " + first_line(result.cause_elsewhere);
    case Ending::Signalled:
      return "ended by a signal";
    case Ending::CouldNotJoin:
    case Ending::CouldNotStart:
      return result.error.message;
    case Ending::LeftBehind:
      return fmt::format("{} processes cannot be killed", result.workers.survivors.size());
  }
  return "";
}

std::string ended_json(JsonObject object, const RunResult& result, const std::string& report) {
  object.add("ending", name_of(result.ending)).add("restarts", result.restarts);
  if (result.signal != 0) object.add("signal", result.signal);
  if (result.cause)
    object.raw("failure", failure_json(*result.cause))
        .raw("other_failures", others_json(result.workers));
  if (!result.cause_elsewhere.empty()) object.add("cause_elsewhere", result.cause_elsewhere);
  std::string survivors;
  for (const Survivor& survivor : result.workers.survivors) {
    JsonObject one;
    one.add("pid", survivor.pid)
        .add("name", survivor.name)
        .add("state", std::string(1, survivor.state))
        .add("wait_channel", survivor.wait_channel);
    survivors += (survivors.empty() ? "" : ", ") + one.text();
  }
  if (!survivors.empty()) object.raw("survivors", "[" + survivors + "]");
  if (const std::string logs = logs_of(result.workers); !logs.empty()) object.add("logs", logs);
  if (!result.workers.where.empty()) object.add("where", result.workers.where);
  if (!result.workers.stacks_file.empty()) object.add("stacks_file", result.workers.stacks_file);
  if (!report.empty()) object.add("report", report);
  return object.text();
}

double millis(Duration took) { return static_cast<double>(took.count()) / 1e6; }

void add_place(JsonObject& object, const AgentEvent& event) {
  object.add("round", event.round)
      .add("group_rank", event.group_rank)
      .add("group_world_size", event.group_world_size);
}

}  // namespace

std::string json_line(const std::string& level, const std::string& event, const std::string& text,
                      std::int64_t micros) {
  return begun(level, event, text, micros).text();
}

std::string json_account_of(const AgentEvent& event, View::Level level, std::int64_t micros,
                            const std::string& report) {
  const bool calm = level != View::Level::Quiet;
  const auto begin = [&](const char* how, const char* name, const std::string& text) {
    return begun(how, name, text, micros);
  };
  const auto none = [] { return std::string(); };
  const Cases line{
      [&](const AgentEvent::Waiting& waiting) {
        return calm ? begin("info", "waiting", waiting.text).text() : "";
      },
      [&](const AgentEvent::Joined& joined) {
        if (!calm) return none();
        auto object = begin("info", "joined",
                            fmt::format("round {}: node {} of {}", event.round, event.group_rank,
                                        event.group_world_size));
        add_place(object, event);
        return object.add("local_world_size", event.local_world_size)
            .add("world_size", event.world_size)
            .add("took_ms", millis(joined.took))
            .add("master_addr", joined.master_addr)
            .add("master_port", joined.master_port)
            .raw("ranks", array(joined.ranks))
            .add("role", joined.role)
            .raw("role_ranks", array(joined.role_ranks))
            .add("role_world_size", joined.role_world_size)
            .text();
      },
      [&](const AgentEvent::Started& started) {
        if (!calm) return none();
        auto object = begin("info", "started", "the workers run");
        add_place(object, event);
        return object.add("local_world_size", event.local_world_size)
            .add("took_ms", millis(started.took))
            .text();
      },
      [&](const AgentEvent::Failed& failed) {
        const bool is_end = failed.then == AgentEvent::Failed::Then::End;
        if (!is_end && !calm) return none();
        auto object = begin(is_end ? "error" : "warning", "failed", failed_text(failed.failure));
        add_place(object, event);
        if (failed.then == AgentEvent::Failed::Then::Restart) object.add("restart", failed.restart);
        return object.add("max_restarts", failed.max_restarts)
            .raw("failure", failure_json(failed.failure))
            .text();
      },
      [&](const AgentEvent::FailedElsewhere& failed) {
        if (!calm) return none();
        auto object = begin("warning", "failed_elsewhere", failed.text);
        add_place(object, event);
        return object.add("restart", failed.restart)
            .add("max_restarts", failed.max_restarts)
            .text();
      },
      [&](const AgentEvent::MembersChanged& changed) {
        if (!calm) return none();
        auto object = begin("info", "members_changed", changed.text);
        add_place(object, event);
        return object.text();
      },
      [&](const AgentEvent::RunFailed& failed) {
        return begin("error", "run_failed", failed.text).text();
      },
      [&](const AgentEvent::Signalled& signalled) {
        return begin("warning", "signalled", signalled.text).text();
      },
      [&](const AgentEvent::Noted& noted) {
        return level >= View::Level::Verbose ? begin("debug", "noted", noted.text).text() : "";
      },
      [&](const AgentEvent::CheckedIn& checked_in) {
        const bool is_well = checked_in.text.empty();
        if (!calm || (is_well && (level != View::Level::Verbose || event.group_world_size == 1)))
          return none();
        return begin(is_well ? "info" : "warning", "checked_in",
                     is_well ? "every node is done" : checked_in.text)
            .add("took_ms", millis(checked_in.took))
            .text();
      },
      [&](const AgentEvent::Ended& ended) {
        const bool failed = ended.result.failed();
        if (!failed && !calm) return none();
        return ended_json(begin(failed ? "error" : "info", "ended", ended_text(ended.result)),
                          ended.result, report);
      },
      [&](const AgentEvent::Progress&) { return none(); },  // For a live line.
      [&](const EventRecord&) { return none(); },           // Records have files of their own.
      [&](const MetricRecord&) { return none(); },
      [&](const RendezvousRecord& record) {
        if (level != View::Level::Debug) return none();
        return begin("debug", "rendezvous", record.message).text();
      },
  };
  return std::visit(line, event.what);
}

}  // namespace regroup::cli
