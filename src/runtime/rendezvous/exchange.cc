#include "runtime/rendezvous/exchange.h"

#include <fmt/core.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/instant.h"
#include "io/loop/clock.h"
#include "regroup/store_helpers.h"
#include "runtime/common/limits.h"
#include "wire/rendezvous/rank_messages.h"

namespace regroup::runtime {
namespace {

using core::rendezvous::AssignedRanks;
using core::rendezvous::RoleInfo;

constexpr std::string_view kExit = "torchelastic/agent/terminal_state";

std::string exit_key(std::string_view rest) { return std::string(kExit).append(rest); }

// Waits until the keys are there, the store's time limit has passed, or `go_on` says no.
Result<void> wait_while(Store& store, const Store::Keys& keys, const std::function<bool()>& go_on) {
  if (!go_on) return store.wait(keys);
  const Instant until = io::deadline_after(store.timeout());
  for (;;) {
    auto come = store.wait(keys, kNoticedWithin);
    if (come || come.error().kind != ErrorKind::Timeout || io::now() >= until) return come;
    if (!go_on())
      return fail(ErrorKind::Cancelled, "the ranks of this round are not waited for any longer");
  }
}

std::string role_info_key(std::int64_t rank) {
  return fmt::format("torchelastic/role_info/{}", rank);
}

std::string assigned_ranks_key(std::int64_t rank) {
  return fmt::format("torchelastic/assigned_ranks/{}", rank);
}

// Rank 0's part.
Result<void> assign_for_all(Store& store, std::int64_t world_size,
                            const std::function<bool()>& go_on) {
  Store::Keys keys;
  for (std::int64_t rank = 0; rank < world_size; ++rank) keys.push_back(role_info_key(rank));
  if (auto there = wait_while(store, keys, go_on); !there) return there;
  const auto texts = store.multi_get(keys);
  if (!texts) return tl::unexpected(texts.error());
  std::vector<RoleInfo> nodes;
  for (const std::string& text : *texts) {
    auto info = wire::decode_role_info(text);
    if (!info) return tl::unexpected(info.error());
    nodes.push_back(std::move(*info));
  }
  Store::Entries entries;
  std::int64_t rank = 0;
  for (const AssignedRanks& assigned : core::rendezvous::assign_ranks(nodes))
    entries.emplace_back(assigned_ranks_key(rank++), wire::encode_assigned_ranks(assigned));
  return store.multi_set(entries);
}

}  // namespace

bool nodes_are_identical() {
  const char* identical = std::getenv("TORCH_ELASTIC_WORKER_IDENTICAL");
  return identical != nullptr && std::string_view(identical) == "1";
}

Result<AssignedRanks> exchange_ranks(Store& store, std::int64_t world_size, const RoleInfo& mine,
                                     const std::function<bool()>& go_on) {
  if (nodes_are_identical()) {
    const std::int64_t base = mine.rank * mine.local_world_size;
    const std::int64_t world = world_size * mine.local_world_size;
    return AssignedRanks{.base_global_rank = base,
                         .global_world_size = world,
                         .base_role_rank = base,
                         .role_world_size = world};
  }
  if (auto told = store.set(role_info_key(mine.rank), wire::encode_role_info(mine)); !told)
    return tl::unexpected(told.error());
  if (mine.rank == 0) {
    if (auto done = assign_for_all(store, world_size, go_on); !done)
      return tl::unexpected(done.error());
  }
  if (auto there = wait_while(store, {assigned_ranks_key(mine.rank)}, go_on); !there)
    return tl::unexpected(there.error());
  const auto text = store.get(assigned_ranks_key(mine.rank));
  if (!text) return tl::unexpected(text.error());
  return wire::decode_assigned_ranks(*text);
}

Result<void> exit_barrier(Store& store, std::int64_t world_size, Duration limit) {
  return barrier(store, std::string(kExit), world_size, {.limit = limit});
}

Result<void> arrive_at_exit(Store& store, std::int64_t world_size) {
  const auto come = store.add(exit_key("/num_members"), 1);
  if (!come) return tl::unexpected(come.error());
  if (*come < world_size) return {};
  return store.set(exit_key("/last_member"), "<val_ignored>");
}

Result<bool> is_exit_complete(Store& store) { return store.check({exit_key("/last_member")}); }

}  // namespace regroup::runtime
