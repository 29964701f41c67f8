#include "sim/world/options.h"

#include <fmt/core.h>

#include "base/text.h"
#include "base/text_parts.h"

namespace regroup::sim {
std::string_view to_string(FaultLevel level) {
  switch (level) {
    case FaultLevel::None:
      return "none";
    case FaultLevel::Light:
      return "light";
    case FaultLevel::Heavy:
      return "heavy";
  }
  return "";
}

std::string_view to_string(Broken broken) {
  switch (broken) {
    case Broken::Nothing:
      return "nothing";
    case Broken::WallClocks:
      return "wall-clocks";
    case Broken::NoWholeCheck:
      return "no-whole-check";
    case Broken::NoTokens:
      return "no-tokens";
    case Broken::NeverSweeps:
      return "never-sweeps";
    case Broken::HastySweeps:
      return "hasty-sweeps";
    case Broken::SmallMinimum:
      return "small-minimum";
    case Broken::LateFirstBeat:
      return "late-first-beat";
    case Broken::ForgetsAStop:
      return "forgets-a-stop";
    case Broken::HastySilence:
      return "hasty-silence";
    case Broken::KeepsWorkers:
      return "keeps-workers";
    case Broken::TwoVerdicts:
      return "two-verdicts";
    case Broken::EndlessRestarts:
      return "endless-restarts";
    case Broken::IgnoresSwaps:
      return "ignores-swaps";
    case Broken::OldStamps:
      return "old-stamps";
    case Broken::MixesGroups:
      return "mixes-groups";
  }
  return "";
}

std::string replay_line(const Options& options) {
  std::string line = fmt::format("regroup_sim --seed={}", options.seed);
  if (options.whole_nodes) line += " --whole-nodes";
  if (options.coordinator) line += " --coordinator";
  if (options.nodes) line += fmt::format(" --nodes={}", *options.nodes);
  if (options.steps) line += fmt::format(" --steps={}", *options.steps);
  if (options.faults) line += fmt::format(" --faults={}", to_string(*options.faults));
  if (options.torchrun_nodes) line += fmt::format(" --torchrun-nodes={}", *options.torchrun_nodes);
  if (options.segment) line += fmt::format(" --segment={}", *options.segment);
  if (options.broken != Broken::Nothing)
    line += fmt::format(" --broken={}", to_string(options.broken));
  return line + " --trace";
}

Result<void> validate(const Options& options) {
  const auto wrong = [](std::string message) {
    return fail(ErrorKind::InvalidArgument, std::move(message));
  };
  if (options.nodes && (*options.nodes < 1 || *options.nodes > kMostNodes))
    return wrong(fmt::format("--nodes={} is not between 1 and {}", *options.nodes, kMostNodes));
  if (options.steps && *options.steps < 1)
    return wrong(fmt::format("--steps={} is not above zero", *options.steps));
  if (options.torchrun_nodes && *options.torchrun_nodes < 0)
    return wrong(fmt::format("--torchrun-nodes={} is below zero", *options.torchrun_nodes));
  if (options.torchrun_nodes && *options.torchrun_nodes > options.nodes.value_or(kMostNodes))
    return wrong(fmt::format("--torchrun-nodes={} is more than all nodes, {}",
                             *options.torchrun_nodes, options.nodes.value_or(kMostNodes)));
  if (options.torchrun_nodes && options.coordinator &&
      *options.torchrun_nodes >= options.nodes.value_or(kMostNodes))
    return wrong(
        fmt::format("--torchrun-nodes={} leaves no node that has a session with the coordinator",
                    *options.torchrun_nodes));
  if (options.whole_nodes && options.coordinator)
    return wrong("--whole-nodes and --coordinator are two simulations: give one of them");
  if (options.whole_nodes && options.torchrun_nodes.value_or(0) > 0)
    return wrong("--torchrun-nodes does not go with --whole-nodes, which all have a session");
  if (options.segment && !options.coordinator && !options.whole_nodes)
    return wrong("--segment needs --coordinator: without one there are no groups");
  if (options.segment && (*options.segment < 0 || *options.segment > kMostNodes))
    return wrong(fmt::format("--segment={} is not between 0 and {}", *options.segment, kMostNodes));
  if (options.segment.value_or(0) > 0 && options.torchrun_nodes.value_or(0) > 0)
    return wrong("--segment does not go with --torchrun-nodes, which are in no group");
  return {};
}

Result<SeedRange> parse_seeds(std::string_view text) {
  const auto dots = text.find("..");
  const auto first = to_number<std::uint64_t>(text.substr(0, dots));
  const auto last =
      dots == std::string_view::npos ? first : to_number<std::uint64_t>(text.substr(dots + 2));
  if (!first || !last || *last < *first)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("--seeds={} is no range. Write it as 1..2000", printable(text)));
  return SeedRange{.first = *first, .last = *last};
}

Result<FaultLevel> parse_faults(std::string_view text) {
  for (const FaultLevel level : {FaultLevel::None, FaultLevel::Light, FaultLevel::Heavy})
    if (text == to_string(level)) return level;
  return fail(ErrorKind::InvalidArgument,
              fmt::format("--faults={} is not one of none, light, heavy", printable(text)));
}

Result<Broken> parse_broken(std::string_view text) {
  for (const Broken broken :
       {Broken::Nothing, Broken::WallClocks, Broken::NoWholeCheck, Broken::NoTokens,
        Broken::NeverSweeps, Broken::HastySweeps, Broken::SmallMinimum, Broken::LateFirstBeat,
        Broken::ForgetsAStop, Broken::HastySilence, Broken::KeepsWorkers, Broken::TwoVerdicts,
        Broken::EndlessRestarts, Broken::IgnoresSwaps, Broken::OldStamps, Broken::MixesGroups})
    if (text == to_string(broken)) return broken;
  return fail(ErrorKind::InvalidArgument,
              fmt::format("--broken={} is no such world", printable(text)));
}

}  // namespace regroup::sim
