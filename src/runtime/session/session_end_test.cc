// A session may end at any time, whatever is under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "runtime/session/session.h"
#include "runtime/session/session_fixture_testing.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::IsEmpty;

TEST_F(SessionTest, EndsWhileTheCoordinatorIsSilent) {
  Caller caller = start(options());
  expect_introduction(caller, 1);
  end_session();
  EXPECT_EQ(caller.next(), std::nullopt);
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_THAT(heard_, IsEmpty());
}

TEST_F(SessionTest, EndsWhileConnectFailsAgainAndAgain) {
  const auto tries = std::make_shared<std::atomic<int>>(0);
  auto failing = options();
  failing.connect = [tries] {
    ++*tries;
    tries->notify_all();
    return fail(ErrorKind::Connection, "nobody there");
  };
  { const Caller caller = start(failing); }
  for (int seen = 0; seen < 4; seen = *tries) tries->wait(seen);
  end_session();
  EXPECT_EQ(lost_.size(), 1u);
}

TEST_F(SessionTest, EndsWhileConnectBlocksAndClosesWhatItBringsLater) {
  // What connect() needs is its own: it outlives the session.
  struct Block {
    std::promise<void> entered;
    std::promise<void> go_on;
  };
  const auto block = std::make_shared<Block>();
  auto blocked = options();
  blocked.connect = [block, address = coordinator_.address()] {
    block->entered.set_value();
    block->go_on.get_future().wait();
    return FakeCoordinator::connect(address);
  };
  { const Caller caller = start(blocked); }
  block->entered.get_future().wait();
  end_session();
  EXPECT_EQ(lost_.size(), 1u);
  block->go_on.set_value();
  Caller late = coordinator_.accept();
  EXPECT_EQ(late.next(), std::nullopt);
  EXPECT_EQ(introductions_, 1);
}

TEST_F(SessionTest, EndsWhileTheCoordinatorKeepsTalking) {
  Caller caller = start(options());
  std::atomic<bool> enough = false;
  std::thread talker([&] {
    while (!enough) caller.say(Over{});
  });
  wait_for(heard_, 100);
  end_session();
  const std::size_t told = heard_.size();
  enough = true;
  talker.join();
  EXPECT_EQ(heard_.size(), told);
}

}  // namespace
}  // namespace regroup::runtime
