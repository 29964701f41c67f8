#include "core/rendezvous/settings.h"

#include <fmt/core.h>

namespace regroup::core::rendezvous {
namespace {

std::string seconds(Duration duration) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return millis % 1000 == 0 ? fmt::format("{} s", millis / 1000) : fmt::format("{} ms", millis);
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
    return wrong(fmt::format("the run id has {} bytes; it may have {}", settings.run_id.size(),
                             kLongestRunId));
  if (settings.min_nodes < 1)
    return wrong(fmt::format("the smallest number of nodes is {}; it must be at least 1",
                             settings.min_nodes));
  if (settings.max_nodes < settings.min_nodes)
    return wrong(fmt::format("the largest number of nodes, {}, is below the smallest, {}",
                             settings.max_nodes, settings.min_nodes));
  const std::pair<const char*, Duration> durations[] = {
      {"join_timeout", settings.join_timeout},
      {"last_call_timeout", settings.last_call_timeout},
      {"close_timeout", settings.close_timeout},
      {"heartbeat_timeout", settings.heartbeat_timeout},
      {"keep_alive_interval", settings.keep_alive_interval},
  };
  for (const auto& [name, duration] : durations)
    if (duration <= Duration::zero())
      return wrong(fmt::format("{} is {}; it must be above zero", name, seconds(duration)));
  for (const auto& [name, duration] : durations)
    if (duration > kLongest) return wrong(std::string(name) + " is longer than ten years");
  if (settings.keep_alive_attempts < 1)
    return wrong(fmt::format("keep_alive_max_attempt is {}; it must be at least 1",
                             settings.keep_alive_attempts));
  return {};
}

}  // namespace regroup::core::rendezvous
