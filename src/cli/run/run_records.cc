#include "cli/run/run_records.h"

#include <utility>
#include <variant>

namespace regroup::cli {
namespace {

using Log = std::optional<runtime::RecordLog>;

Result<Log> open_log(const RunFlags& flags, const std::string& option, const std::string& path) {
  if (path.empty()) {
    if (!flags.given.contains(option)) return Log();
    return fail(ErrorKind::InvalidArgument, flags.named(option) + " needs the name of a file");
  }
  auto log = runtime::RecordLog::open(path);
  if (!log)
    return fail(ErrorKind::InvalidArgument, flags.named(option) + ": " + log.error().message);
  return Log(std::move(*log));
}

std::string append(runtime::RecordLog& log, const std::string& line) {
  return log.append(line).value_or("");
}

}  // namespace

Result<RunRecords> RunRecords::open(const RunFlags& flags) {
  RunRecords records;
  // torchrun has a third name, dynamic_rendezvous, for its events of the rendezvous, and nothing
  // behind it. Ours have a file (--rdzv-event-log).
  records.console_ = flags.event_log_handler == "console";
  auto events = open_log(flags, "event-log", flags.event_log);
  if (!events) return tl::unexpected(events.error());
  auto rendezvous = open_log(flags, "rdzv-event-log", flags.rdzv_event_log);
  if (!rendezvous) return tl::unexpected(rendezvous.error());
  auto metrics = open_log(flags, "metrics-log", flags.metrics_log);
  if (!metrics) return tl::unexpected(metrics.error());
  records.events_ = std::move(*events);
  records.rendezvous_ = std::move(*rendezvous);
  records.metrics_ = std::move(*metrics);
  return records;
}

std::string RunRecords::tell(const AgentEvent& event) {
  const auto* record = std::get_if<EventRecord>(&event.what);
  if (record != nullptr && (console_ || events_)) {
    const std::string line = to_json(*record);
    if (console_) event.tell(line);
    return events_ ? append(*events_, line) : "";
  }
  const auto* rendezvous = std::get_if<RendezvousRecord>(&event.what);
  if (rendezvous != nullptr && rendezvous_) return append(*rendezvous_, to_json(*rendezvous));
  const auto* metric = std::get_if<MetricRecord>(&event.what);
  if (metric != nullptr && metrics_) return append(*metrics_, to_json(*metric));
  return "";
}

std::vector<std::string> RunRecords::close() {
  std::vector<std::string> losses;
  for (Log* log : {&events_, &rendezvous_, &metrics_})
    if (*log)
      if (auto loss = (*log)->close()) losses.push_back(std::move(*loss));
  return losses;
}

}  // namespace regroup::cli
