#include "runtime/rendezvous/exchange.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace regroup {
namespace {

TEST(Exchange, RanksAndTheExitBarrier) {
  const auto store = make_memory_store(30s);
  const std::vector<core::rendezvous::RoleInfo> nodes{
      {"ps", 0, 2}, {"trainer", 1, 3}, {"ps", 2, 1}};
  std::vector<std::future<Result<core::rendezvous::AssignedRanks>>> asking;
  for (const auto& node : nodes)
    asking.push_back(std::async(std::launch::async, [&store, node] {
      auto assigned = runtime::exchange_ranks(*store, 3, node);
      EXPECT_TRUE(runtime::exit_barrier(*store, 3, 30s));
      return assigned;
    }));
  EXPECT_EQ(asking[0].get(), (core::rendezvous::AssignedRanks{0, 6, 0, 3}));
  EXPECT_EQ(asking[1].get(), (core::rendezvous::AssignedRanks{2, 6, 0, 3}));
  EXPECT_EQ(asking[2].get(), (core::rendezvous::AssignedRanks{5, 6, 2, 3}));
}

TEST(Exchange, RubbishFromAPeerIsAnError) {
  const auto store = make_memory_store(5s);
  ASSERT_TRUE(store->set("torchelastic/role_info/1", "[1, 2"));
  const auto assigned = runtime::exchange_ranks(*store, 2, {"default", 0, 1});
  ASSERT_FALSE(assigned);
  EXPECT_EQ(assigned.error().kind, ErrorKind::Protocol);
}

}  // namespace
}  // namespace regroup
