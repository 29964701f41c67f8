#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "io/net/reserved_port.h"
#include "runtime/rendezvous/rendezvous_testing.h"

namespace regroup {
namespace {

TEST(StaticRendezvous, RanksAreAsGiven) {
  const auto reserved = io::ReservedPort::open();
  ASSERT_TRUE(reserved);
  const std::uint16_t port = reserved->port();
  std::vector<Handler> handlers;
  for (std::int64_t rank : {2, 0, 1}) {
    auto handler = make_rendezvous({.backend = "static",
                                    .endpoint = "127.0.0.1:" + std::to_string(port),
                                    .run_id = "run",
                                    .min_nodes = 3,
                                    .max_nodes = 3,
                                    .node_rank = rank,
                                    .on_status = [](const std::string&) {}});
    ASSERT_TRUE(handler) << handler.error().message;
    handlers.push_back(std::move(*handler));
  }
  std::vector<RendezvousHandler*> nodes;
  for (const Handler& handler : handlers) nodes.push_back(handler.get());
  const auto joined = all_join(nodes);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(joined[i]) << joined[i].error().message;
    EXPECT_EQ(joined[i]->rank, (std::vector<std::int64_t>{2, 0, 1})[i]);
    EXPECT_EQ(joined[i]->world_size, 3);
    EXPECT_EQ(joined[i]->bootstrap, (BootstrapStore{"127.0.0.1", port}));
  }
  ASSERT_TRUE(joined[0]->store->set("key", "value"));
  EXPECT_EQ(joined[2]->store->get("key"), "value");
  EXPECT_EQ(handlers[0]->is_closed(), false);
  EXPECT_TRUE(handlers[0]->shutdown());
}

}  // namespace
}  // namespace regroup
