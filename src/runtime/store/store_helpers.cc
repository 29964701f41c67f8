#include "regroup/store_helpers.h"

#include <fmt/core.h>

#include <utility>

#include "io/loop/clock.h"

namespace regroup {
namespace {

// The key names of PyTorch's elastic agents.
constexpr std::string_view kNumMembers = "/num_members";
constexpr std::string_view kLastMember = "/last_member";
constexpr std::string_view kFinished = "/finished";
constexpr std::string_view kTrace = "/TRACE";
constexpr std::string_view kTracingGate = "/TRACING_GATE";
constexpr std::string_view kIgnored = "<val_ignored>";

// Naming more missing ranks than this helps nobody: it is whole nodes that are gone.
constexpr int kMostNamed = 16;

std::string name(std::string_view prefix, std::string_view rest) {
  return std::string(prefix).append(rest);
}

// Counts this member in; the one that completes the number opens the gate. Returns the gate's key.
Result<std::string> arrive(Store& store, std::string_view prefix, std::int64_t world_size) {
  const std::string gate = name(prefix, kLastMember);
  const auto come = store.add(name(prefix, kNumMembers), 1);
  if (!come) return tl::unexpected(come.error());
  if (*come == world_size) {
    if (auto opened = store.set(gate, kIgnored); !opened) return tl::unexpected(opened.error());
  }
  return gate;
}

// Rank 0 asks every other rank for its trace. After the first that is missing, it does not wait for
// the others any longer.
Result<std::string> find_missing(Store& store, std::string_view prefix, std::int64_t world_size,
                                 const std::function<std::string(std::int64_t)>& name_of,
                                 Duration trace_limit) {
  std::string missing;
  int count = 0;
  for (std::int64_t rank = 1; rank < world_size; ++rank) {
    const std::string trace = name(prefix, std::to_string(rank)).append(kTrace);
    const auto there = store.wait({trace}, count == 0 ? trace_limit : Duration(1ms));
    if (there) continue;
    if (there.error().kind != ErrorKind::Timeout) return tl::unexpected(there.error());
    if (count == kMostNamed) {
      missing += ", and more";
      break;
    }
    missing += (count++ == 0 ? "" : ", ") + name_of(rank);
  }
  return missing;
}

}  // namespace

Result<std::vector<std::string>> gather(Store& store, const Seat& seat, Duration limit) {
  Store::Keys keys;
  for (std::int64_t rank = 0; rank < seat.world_size; ++rank)
    keys.push_back(name(seat.prefix, std::to_string(rank)));
  if (auto all = store.wait(keys, limit); !all) return tl::unexpected(all.error());
  auto values = store.multi_get(keys);
  if (!values) return values;
  const auto gate = arrive(store, name(seat.prefix, kFinished), seat.world_size);
  if (!gate) return tl::unexpected(gate.error());
  if (seat.rank == 0) {
    if (auto all = store.wait({*gate}, limit); !all) return tl::unexpected(all.error());
  }
  return values;
}

Result<std::vector<std::string>> synchronize(Store& store, const Seat& seat, std::string_view value,
                                             Duration limit) {
  if (auto set = store.set(name(seat.prefix, std::to_string(seat.rank)), value); !set)
    return tl::unexpected(set.error());
  return gather(store, seat, limit);
}

Result<void> barrier(Store& store, std::string_view prefix, std::int64_t world_size,
                     const BarrierOptions& options) {
  const auto gate = arrive(store, prefix, world_size);
  if (!gate) return tl::unexpected(gate.error());
  auto all = store.wait({*gate}, options.limit);
  if (all || all.error().kind != ErrorKind::Timeout || !options.rank) return all;

  const auto name_of =
      options.name_of ? options.name_of : [](std::int64_t rank) { return std::to_string(rank); };
  const auto blame = [&](const std::string& whom) {
    return fail(
        ErrorKind::Timeout,
        fmt::format("barrier '{}' on rank {} of {}: the time limit passed; missing ranks: {}",
                    prefix, *options.rank, world_size, whom));
  };
  const std::string trace = name(prefix, std::to_string(*options.rank)).append(kTrace);
  if (auto left = store.set(trace, kIgnored); !left) return left;
  if (*options.rank == 0) {
    const auto missing = find_missing(store, prefix, world_size, name_of, options.trace_limit);
    if (!missing) return tl::unexpected(missing.error());
    if (auto opened = store.set(name(prefix, kTracingGate), kIgnored); !opened) return opened;
    return blame(missing->empty() ? "none any more, they came too late" : "[" + *missing + "]");
  }
  // If rank 0 itself is missing, no rank opens the tracing gate. Rank 0 may need its whole limit to
  // notice and its trace limit to look, so that is how long we wait for it.
  const auto traced = store.wait({name(prefix, kTracingGate)}, options.limit + options.trace_limit);
  return blame(traced ? "see rank 0 (" + name_of(0) + ")" : "[" + name_of(0) + "] at least");
}

}  // namespace regroup
