#include "core/rendezvous/settings.h"

namespace regroup::core::rendezvous {
namespace {

std::string seconds(Duration duration) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return millis % 1000 == 0 ? std::to_string(millis / 1000) + " s" : std::to_string(millis) + " ms";
}

}  // namespace

Result<void> validate(const Settings& settings) {
  const auto wrong = [](std::string message) {
    return fail(ErrorKind::InvalidArgument, std::move(message));
  };
  if (settings.run_id.empty())
    return wrong("the run id is empty. Give every node of the run the same --rdzv-id");
  // It is part of keys, whose length stores limit.
  constexpr std::size_t kLongestRunId = 1024;
  if (settings.run_id.size() > kLongestRunId)
    return wrong("the run id has " + std::to_string(settings.run_id.size()) +
                 " bytes; it may have " + std::to_string(kLongestRunId));
  if (settings.min_nodes < 1)
    return wrong("the smallest number of nodes is " + std::to_string(settings.min_nodes) +
                 "; it must be at least 1");
  if (settings.max_nodes < settings.min_nodes)
    return wrong("the largest number of nodes, " + std::to_string(settings.max_nodes) +
                 ", is below the smallest, " + std::to_string(settings.min_nodes));
  const std::pair<const char*, Duration> durations[] = {
      {"join_timeout", settings.join_timeout},
      {"last_call_timeout", settings.last_call_timeout},
      {"close_timeout", settings.close_timeout},
      {"heartbeat_timeout", settings.heartbeat_timeout},
      {"keep_alive_interval", settings.keep_alive_interval},
  };
  for (const auto& [name, duration] : durations)
    if (duration <= Duration::zero())
      return wrong(std::string(name) + " is " + seconds(duration) + "; it must be above zero");
  for (const auto& [name, duration] : durations)
    if (duration > kLongest) return wrong(std::string(name) + " is longer than ten years");
  if (settings.keep_alive_attempts < 1)
    return wrong("keep_alive_max_attempt is " + std::to_string(settings.keep_alive_attempts) +
                 "; it must be at least 1");
  return {};
}

}  // namespace regroup::core::rendezvous
