#include "core/coordinator/other_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/rendezvous/rendezvous_testing.h"

namespace regroup::core::coordinator {
namespace {

using rendezvous::at;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(OtherNodes, AreLookedAtASecondAfterTheyWereSeenFirst) {
  OtherNodes others(rendezvous::between(1, 2), at(0s));
  EXPECT_FALSE(others.next_look());
  others.look_soon(at(1s));
  others.look_soon(at(1500ms));
  EXPECT_EQ(others.next_look(), at(2s));
  EXPECT_FALSE(others.take_due(at(1999ms)));
  EXPECT_TRUE(others.take_due(at(2s)));
  EXPECT_FALSE(others.take_due(at(3s)));
}

TEST(OtherNodes, OneWhoseStampStaysTheSameIsSilent) {
  const rendezvous::Settings settings = rendezvous::between(1, 2);
  OtherNodes others(settings, at(0s));
  rendezvous::State state = rendezvous::joined_by({"a", "b"}, settings);
  std::vector<rendezvous::NodeId> silent;
  for (int second = 0; second <= 16; ++second) {
    state.last_heartbeats[rendezvous::node("a")].micros += 1'000'000;
    EXPECT_THAT(silent, IsEmpty());
    silent = others.silent(state, at(second * 1s));
  }
  EXPECT_THAT(silent, ElementsAre(rendezvous::node("b")));
}

TEST(OtherNodes, SeeOurHeartbeatsNoMoreOftenThanANodeSendsThem) {
  OtherNodes others(rendezvous::between(1, 2), at(0s));  // Every 5 s.
  EXPECT_FALSE(others.take_refresh(at(3s)));
  EXPECT_TRUE(others.take_refresh(at(4s)));
  EXPECT_FALSE(others.take_refresh(at(5s)));
  EXPECT_TRUE(others.take_refresh(at(8s)));
}

}  // namespace
}  // namespace regroup::core::coordinator
