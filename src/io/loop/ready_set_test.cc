#include "io/loop/ready_set.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace regroup::io {
namespace {

// One end of a pair of sockets, with something to read in it.
class Ready final : public Watcher {
 public:
  Ready() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    EXPECT_EQ(::write(ends_[1], "x", 1), 1);
  }
  ~Ready() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int fd() const { return ends_[0]; }
  void ready(std::uint32_t) override {
    ++called;
    if (then) then();
  }

  int called = 0;
  std::function<void()> then;

 private:
  int ends_[2];
};

TEST(ReadySet, CallsWhoIsReadyAsLongAsHeIs) {
  ReadySet set;
  EXPECT_FALSE(set.dispatch());
  Ready one;
  ASSERT_TRUE(set.add(one.fd(), EPOLLIN, one));
  EXPECT_TRUE(set.dispatch());
  EXPECT_TRUE(set.dispatch());
  EXPECT_EQ(one.called, 2);
  set.change(one.fd(), 0, one);
  EXPECT_FALSE(set.dispatch());
}

TEST(ReadySet, NeverCallsWhoWasRemovedInTheSameTurn) {
  ReadySet set;
  Ready one;
  Ready other;
  ASSERT_TRUE(set.add(one.fd(), EPOLLIN, one));
  ASSERT_TRUE(set.add(other.fd(), EPOLLIN, other));
  one.then = [&] { set.remove(other.fd(), other); };
  other.then = [&] { set.remove(one.fd(), one); };
  EXPECT_TRUE(set.dispatch());
  EXPECT_EQ(one.called + other.called, 1);
}

TEST(ReadySet, CallsEverybodyWhoIsReadyHoweverManyTheyAre) {
  ReadySet set;
  std::vector<std::unique_ptr<Ready>> all;
  for (int i = 0; i < 400; ++i) {
    Ready& one = *all.emplace_back(std::make_unique<Ready>());
    ASSERT_TRUE(set.add(one.fd(), EPOLLIN, one));
    if (i == 0) continue;  // One that always has more.
    one.then = [&one] {
      char byte = 0;
      EXPECT_EQ(::read(one.fd(), &byte, 1), 1);
    };
  }
  set.dispatch_all();
  EXPECT_GE(all[0]->called, 1);
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i]->called, 1) << i;
  set.dispatch_all();  // Ends, also with one that is busy.
  EXPECT_EQ(all[1]->called, 1);
}

}  // namespace
}  // namespace regroup::io
