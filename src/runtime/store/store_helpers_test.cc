#include "regroup/store_helpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace regroup {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Body>
void on_ranks(std::int64_t world_size, const Body& body) {
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < world_size; ++rank)
    threads.emplace_back([&body, rank] { body(rank); });
  for (auto& thread : threads) thread.join();
}

TEST(StoreHelpers, SynchronizeGivesEverybodysValueToEverybody) {
  auto store = make_memory_store();
  on_ranks(4, [&](std::int64_t rank) {
    auto mine = *store->clone();
    const Seat seat{.prefix = "p", .rank = rank, .world_size = 4};
    const auto values = synchronize(*mine, seat, "v" + std::to_string(rank));
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_THAT(*values, ElementsAre("v0", "v1", "v2", "v3"));
  });
  EXPECT_THAT(*store->list_keys(),
              AllOf(Contains("p0"), Contains("p3"), Contains("p/finished/num_members"),
                    Contains("p/finished/last_member")));
}

TEST(StoreHelpers, BarrierLetsAllThroughTogether) {
  auto store = make_memory_store();
  on_ranks(3, [&](std::int64_t rank) {
    auto mine = *store->clone();
    EXPECT_TRUE(barrier(*mine, "b", 3, {.rank = rank}));
  });
  EXPECT_THAT(*store->list_keys(), AllOf(Contains("b/num_members"), Contains("b/last_member")));
}

TEST(StoreHelpers, BarrierNamesTheMissingRanksOnRankZero) {
  auto store = make_memory_store();
  on_ranks(2, [&](std::int64_t rank) {  // Ranks 2 and 3 never come.
    auto mine = *store->clone();
    BarrierOptions options{.limit = 30ms, .rank = rank, .trace_limit = 20ms};
    options.name_of = [](std::int64_t r) { return "node-" + std::to_string(r); };
    const auto done = barrier(*mine, "b", 4, options);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::Timeout);
    if (rank == 0)
      EXPECT_THAT(done.error().message, HasSubstr("[node-2, node-3]"));
    else
      EXPECT_THAT(done.error().message, HasSubstr("node-0"));
  });
  EXPECT_THAT(*store->list_keys(),
              AllOf(Contains("b0/TRACE"), Contains("b1/TRACE"), Contains("b/TRACING_GATE")));
}

TEST(StoreHelpers, BarrierBlamesRankZeroIfItIsTheOneWhoIsMissing) {
  auto store = make_memory_store();
  const auto done = barrier(*store, "b", 2, {.limit = 5ms, .rank = 1, .trace_limit = 5ms});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("missing ranks: [0]"));
}

}  // namespace
}  // namespace regroup
