#include "core/store/keyspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace regroup::core::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Says what was sent to which client, one line an effect: "1 <- value 'x'".
std::string describe(const Effect& effect) {
  struct Text {
    std::string operator()(const Pong& r) const { return "pong " + std::to_string(r.nonce); }
    std::string operator()(const Value& r) const { return "value '" + std::string(r.bytes) + "'"; }
    std::string operator()(const Number& r) const { return "number " + std::to_string(r.value); }
    std::string operator()(const Ready& r) const { return r.all ? "ready" : "not ready"; }
    std::string operator()(const WaitEnded& r) const {
      switch (r.how) {
        case WaitEnd::Arrived:
          return "arrived";
        case WaitEnd::Cancelled:
          return "cancelled";
        case WaitEnd::TimedOut:
          return "timed out";
      }
      return "?";
    }
    std::string operator()(const Values& r) const { return "values" + list(r.values); }
    std::string operator()(const Popped& r) const {
      if (r.length_before == 0) return "popped nothing";
      return "popped '" + std::string(r.value) + "' of " + std::to_string(r.length_before);
    }
    std::string operator()(const KeyList& r) const { return "keys" + list(r.keys); }
    static std::string list(KeyViews views) {
      std::string text;
      for (const auto view : views) text += " '" + std::string(view) + "'";
      return text;
    }
  };
  return std::to_string(effect.client.value) + " <- " + std::visit(Text{}, effect.reply);
}

class KeyspaceTest : public testing::Test {
 protected:
  using Told = std::vector<std::string>;

  Told ask(std::uint64_t client, const Request& request) {
    Effects effects;
    const auto done = keyspace.apply(ClientId{client}, request, effects);
    if (!done) return {"refused: " + done.error().message};
    return told(effects);
  }

  static Told told(const Effects& effects) {
    Told lines;
    for (const Effect& effect : effects) lines.push_back(describe(effect));
    return lines;
  }

  Told wait(std::uint64_t client, std::initializer_list<std::string_view> keys,
            std::optional<Instant> deadline = {}) {
    const std::vector<std::string_view> views(keys);
    return ask(client, Wait{views, deadline});
  }

  Told expire(Instant now) {
    Effects effects;
    keyspace.expire(now, effects);
    return told(effects);
  }

  static Instant at(Duration since_start) { return {since_start}; }

  Keyspace keyspace;
};

TEST_F(KeyspaceTest, GivesBackWhatWasSet) {
  EXPECT_THAT(ask(1, Set{"k", "v"}), IsEmpty());
  EXPECT_THAT(ask(2, Get{"k"}), ElementsAre("2 <- value 'v'"));
  EXPECT_THAT(ask(2, Get{"other"}), ElementsAre("2 <- value ''"));
}

TEST_F(KeyspaceTest, TreatsBytesAsBytes) {
  const std::string key("\0/\xff", 3);
  const std::string value("\0\1\0", 3);
  ask(1, Set{key, value});
  ask(1, Set{"", "empty key"});
  Effects effects;
  ASSERT_TRUE(keyspace.apply(ClientId{1}, Get{key}, effects));
  EXPECT_EQ(std::get<Value>(effects[0].reply).bytes, value);
  EXPECT_THAT(ask(1, Get{""}), ElementsAre("1 <- value 'empty key'"));
}

TEST_F(KeyspaceTest, ComparesBeforeItSets) {
  EXPECT_THAT(ask(1, CompareSet{"k", "old", "new"}), ElementsAre("1 <- value 'old'"));
  EXPECT_EQ(keyspace.keys(), 0u);  // A missing key and an expectation: nothing stored.
  EXPECT_THAT(ask(1, CompareSet{"k", "", "a"}), ElementsAre("1 <- value 'a'"));
  EXPECT_THAT(ask(1, CompareSet{"k", "x", "b"}), ElementsAre("1 <- value 'a'"));
  EXPECT_THAT(ask(1, CompareSet{"k", "a", "b"}), ElementsAre("1 <- value 'b'"));
  ask(1, Set{"empty", ""});
  EXPECT_THAT(ask(1, CompareSet{"empty", "", "c"}), ElementsAre("1 <- value 'c'"));
}

TEST_F(KeyspaceTest, AddsToDecimalText) {
  EXPECT_THAT(ask(1, Add{"n", 5}), ElementsAre("1 <- number 5"));
  EXPECT_THAT(ask(1, Add{"n", -7}), ElementsAre("1 <- number -2"));
  EXPECT_THAT(ask(1, Get{"n"}), ElementsAre("1 <- value '-2'"));
  ask(1, Set{"n", " +12abc"});
  EXPECT_THAT(ask(1, Add{"n", 1}), ElementsAre("1 <- number 13"));
  ask(1, Set{"n", "9223372036854775807"});
  EXPECT_THAT(ask(1, Add{"n", 1}), ElementsAre("1 <- number -9223372036854775808"));
}

TEST_F(KeyspaceTest, RefusesToAddToWhatIsNoNumber) {
  for (const char* text : {"", "abc", "-", "+-1", "99999999999999999999"}) {
    ask(1, Set{"n", text});
    EXPECT_THAT(ask(1, Add{"n", 1}), ElementsAre(HasSubstr("refused: add to key 'n'"))) << text;
    EXPECT_THAT(ask(1, Get{"n"}), ElementsAre("1 <- value '" + std::string(text) + "'"));
  }
}

TEST_F(KeyspaceTest, ChecksAllKeysAndCountsQueuesAsExisting) {
  ask(1, Set{"a", ""});
  ask(1, QueuePush{"q", "x"});
  const std::string_view both[] = {"a", "q"};
  const std::string_view one_missing[] = {"a", "b"};
  EXPECT_THAT(ask(1, Check{both}), ElementsAre("1 <- ready"));
  EXPECT_THAT(ask(1, Check{one_missing}), ElementsAre("1 <- not ready"));
  EXPECT_THAT(ask(1, Check{}), ElementsAre("1 <- ready"));
}

TEST_F(KeyspaceTest, WaitsUntilAllKeysHaveArrived) {
  ask(9, Set{"a", "1"});
  EXPECT_THAT(wait(1, {"a"}), ElementsAre("1 <- arrived"));
  EXPECT_THAT(wait(1, {}), ElementsAre("1 <- arrived"));
  EXPECT_THAT(wait(1, {"a", "b", "c", "b"}), IsEmpty());
  EXPECT_THAT(ask(9, Set{"b", "2"}), IsEmpty());
  EXPECT_THAT(ask(9, Add{"c", 1}), ElementsAre("1 <- arrived", "9 <- number 1"));
  EXPECT_EQ(keyspace.waiting(), 0u);
}

TEST_F(KeyspaceTest, CountsAnArrivalEvenIfTheKeyIsDeletedAgain) {
  wait(1, {"a", "b"});
  ask(9, Set{"a", "1"});
  ask(9, DeleteKey{"a"});
  EXPECT_THAT(ask(9, Set{"b", "1"}), ElementsAre("1 <- arrived"));
}

TEST_F(KeyspaceTest, WakesWaitersByEveryKindOfArrival) {
  const auto waiting = [this] { wait(1, {"k"}); };
  waiting();
  EXPECT_THAT(ask(9, Append{"k", "x"}), ElementsAre("1 <- arrived"));
  ask(9, DeleteKey{"k"});
  waiting();
  const Entry entries[] = {{"j", "1"}, {"k", "2"}};
  EXPECT_THAT(ask(9, MultiSet{entries}), ElementsAre("1 <- arrived"));
  ask(9, DeleteKey{"k"});
  waiting();
  EXPECT_THAT(ask(9, CompareSet{"k", "", "x"}), ElementsAre("1 <- arrived", "9 <- value 'x'"));
  ask(9, DeleteKey{"k"});
  waiting();
  EXPECT_THAT(ask(9, QueuePush{"k", "x"}), ElementsAre("1 <- arrived"));
}

TEST_F(KeyspaceTest, AFailedCompareWakesNobody) {
  wait(1, {"k"});
  EXPECT_THAT(ask(9, CompareSet{"k", "x", "y"}), ElementsAre("9 <- value 'x'"));
  EXPECT_EQ(keyspace.waiting(), 1u);
}

TEST_F(KeyspaceTest, ASecondWaitOfAClientJoinsTheFirst) {
  wait(1, {"a"});
  wait(1, {"b"});
  EXPECT_THAT(ask(9, Set{"a", ""}), ElementsAre("1 <- arrived"));
  EXPECT_THAT(ask(9, Set{"b", ""}), IsEmpty());
}

TEST_F(KeyspaceTest, CancelsAWaitAndSaysSoAlways) {
  EXPECT_THAT(ask(1, CancelWait{}), ElementsAre("1 <- cancelled"));
  wait(1, {"a"});
  EXPECT_THAT(ask(1, CancelWait{}), ElementsAre("1 <- cancelled"));
  EXPECT_THAT(ask(9, Set{"a", ""}), IsEmpty());  // No late answer.
}

TEST_F(KeyspaceTest, EndsAWaitAfterItsDeadline) {
  wait(1, {"a"}, at(10s));
  wait(2, {"a"}, at(5s));
  EXPECT_EQ(keyspace.next_deadline(), at(5s));
  EXPECT_THAT(expire(at(5s)), IsEmpty());  // Exactly at the limit is still in time.
  EXPECT_THAT(expire(at(6s)), ElementsAre("2 <- timed out"));
  EXPECT_EQ(keyspace.next_deadline(), at(10s));
  EXPECT_THAT(ask(9, Set{"a", ""}), ElementsAre("1 <- arrived"));
  EXPECT_EQ(keyspace.next_deadline(), std::nullopt);
  EXPECT_THAT(expire(at(60s)), IsEmpty());
}

TEST_F(KeyspaceTest, ForgetsAClientWithItsWait) {
  wait(1, {"a", "b"}, at(1s));
  keyspace.forget(ClientId{1});
  keyspace.forget(ClientId{1});
  EXPECT_THAT(ask(9, Set{"a", ""}), IsEmpty());
  EXPECT_EQ(keyspace.waiting(), 0u);
  EXPECT_EQ(keyspace.next_deadline(), std::nullopt);
}

TEST_F(KeyspaceTest, DeletesKeysButNeverQueues) {
  ask(1, Set{"a", "1"});
  ask(1, QueuePush{"q", "1"});
  EXPECT_THAT(ask(1, DeleteKey{"a"}), ElementsAre("1 <- number 1"));
  EXPECT_THAT(ask(1, DeleteKey{"a"}), ElementsAre("1 <- number 0"));
  EXPECT_THAT(ask(1, DeleteKey{"q"}), ElementsAre("1 <- number 0"));
  EXPECT_THAT(ask(1, QueueLen{"q"}), ElementsAre("1 <- number 1"));
}

TEST_F(KeyspaceTest, QueuesGiveInOrderAndTellTheLengthBefore) {
  EXPECT_THAT(ask(1, QueuePop{"q"}), ElementsAre("1 <- popped nothing"));
  ask(1, QueuePush{"q", "a"});
  ask(1, QueuePush{"q", "b"});
  EXPECT_THAT(ask(1, QueueLen{"q"}), ElementsAre("1 <- number 2"));
  EXPECT_THAT(ask(1, QueuePop{"q"}), ElementsAre("1 <- popped 'a' of 2"));
  EXPECT_THAT(ask(1, QueuePop{"q"}), ElementsAre("1 <- popped 'b' of 1"));
  EXPECT_THAT(ask(1, NumKeys{}), ElementsAre("1 <- number 0"));
}

TEST_F(KeyspaceTest, OnePushWakesTheOneWhoHasWaitedLongest) {
  wait(3, {"q"});
  wait(2, {"q"});
  EXPECT_THAT(ask(9, QueuePush{"q", "a"}), ElementsAre("3 <- arrived"));
  ask(3, QueuePop{"q"});
  EXPECT_THAT(ask(9, QueuePush{"q", "b"}), ElementsAre("2 <- arrived"));
  EXPECT_THAT(ask(9, QueuePush{"q", "c"}), IsEmpty());
}

TEST_F(KeyspaceTest, APushIsNotUsedUpOnSomebodyWhoWaitsForMore) {
  wait(1, {"q", "more"});
  wait(2, {"q", "q"});
  wait(3, {"q"});
  EXPECT_THAT(ask(9, QueuePush{"q", "a"}), ElementsAre("2 <- arrived"));
  EXPECT_THAT(ask(9, Set{"more", ""}), ElementsAre("1 <- arrived"));
}

TEST_F(KeyspaceTest, EndsAClientsOwnWaitBeforeItAnswersIt) {
  wait(1, {"n", "n"});
  EXPECT_THAT(ask(1, Add{"n", 1}), ElementsAre("1 <- arrived", "1 <- number 1"));
}

TEST_F(KeyspaceTest, GetsAndSetsManyAtOnce) {
  const Entry entries[] = {{"a", "1"}, {"b", ""}, {"a", "3"}};
  EXPECT_THAT(ask(1, MultiSet{entries}), IsEmpty());
  const std::string_view keys[] = {"b", "a", "missing", "a"};
  EXPECT_THAT(ask(1, MultiGet{keys}), ElementsAre("1 <- values '' '3' '' '3'"));
}

TEST_F(KeyspaceTest, ListsKeysWithoutQueues) {
  ask(1, Set{"a", "1"});
  ask(1, QueuePush{"q", "1"});
  EXPECT_THAT(ask(1, ListKeys{}), ElementsAre("1 <- keys 'a'"));
}

TEST_F(KeyspaceTest, ABarrierOpensForAllWhenTheLastHasCome) {
  EXPECT_THAT(ask(1, Barrier{"b", 3, {}}), IsEmpty());
  EXPECT_THAT(ask(2, Barrier{"b", 3, {}}), IsEmpty());
  EXPECT_THAT(ask(3, Barrier{"b", 3, {}}),
              ElementsAre("3 <- arrived", "1 <- arrived", "2 <- arrived"));
  EXPECT_THAT(ask(4, Barrier{"b", 3, {}}), ElementsAre("4 <- arrived"));  // Late, passes at once.
  EXPECT_THAT(ask(1, Get{"b"}), ElementsAre("1 <- value '4'"));
}

TEST_F(KeyspaceTest, ABarrierThatTimesOutKeepsItsCount) {
  ask(1, Barrier{"b", 2, {}});
  ask(1, CancelWait{});
  EXPECT_THAT(ask(2, Barrier{"b", 2, {}}), ElementsAre("2 <- arrived"));
}

TEST_F(KeyspaceTest, ABarrierSharesItsKeyWithPlainWaits) {
  wait(1, {"b"});
  // The first arrivals at a barrier do not wake a client that waits for its key.
  EXPECT_THAT(ask(2, Barrier{"b", 3, {}}), IsEmpty());
  EXPECT_THAT(wait(3, {"b"}), ElementsAre("3 <- arrived"));  // One that comes later finds the key.
  EXPECT_THAT(ask(9, Set{"b", "0"}), ElementsAre("1 <- arrived", "2 <- arrived"));
  ask(9, Set{"b", "text"});
  EXPECT_THAT(ask(2, Barrier{"b", 3, {}}), ElementsAre(HasSubstr("refused")));
}

TEST_F(KeyspaceTest, HoldsNothingWhenEverythingIsGone) {
  ask(1, Set{"run/a", std::string(1000, 'x')});
  ask(1, Append{"run/a", "more"});
  ask(1, Set{"run/a", "less"});
  ask(1, Add{"run/n", 1});
  ask(1, Barrier{"run/b", 2, at(1s)});
  ask(2, Barrier{"run/b", 5, {}});
  ask(1, QueuePush{"run/q", "x"});
  wait(3, {"run/z", "run/z", "y"});
  EXPECT_GT(keyspace.bytes(), 0u);
  for (const char* key : {"run/a", "run/n", "run/b"}) ask(1, DeleteKey{key});
  ask(1, QueuePop{"run/q"});
  for (const std::uint64_t client : {1, 2, 3}) keyspace.forget(ClientId{client});
  EXPECT_EQ(keyspace.bytes(), 0u);
}

TEST(Keyspace, RefusesWhatWouldGoBeyondItsLimitsAndChangesNothing) {
  Keyspace keyspace({.keys = 2, .memory_bytes = 2000, .reply_bytes = 1500});
  Effects effects;
  const auto ask = [&](const Request& request) {
    return keyspace.apply(ClientId{1}, request, effects);
  };
  ASSERT_TRUE(ask(Set{"a", std::string(1000, 'x')}));
  const std::size_t before = keyspace.bytes();
  EXPECT_THAT(ask(Set{"b", std::string(1000, 'x')}).error().message,
              HasSubstr("the limit is 2000"));
  EXPECT_FALSE(ask(Append{"a", std::string(1000, 'x')}));
  EXPECT_FALSE(ask(QueuePush{"q", std::string(1000, 'x')}));
  EXPECT_FALSE(ask(CompareSet{"b", "", std::string(1000, 'x')}));
  const std::string long_key(900, 'k');
  const std::string_view keys[] = {long_key};
  EXPECT_FALSE(ask(Wait{keys, {}}));
  EXPECT_FALSE(ask(Barrier{long_key, 2, {}}));
  const Entry entries[] = {{"b", "1"}, {"c", std::string_view(long_key)}};
  EXPECT_FALSE(ask(MultiSet{entries}));
  EXPECT_EQ(keyspace.bytes(), before);
  EXPECT_EQ(keyspace.keys(), 1u);

  const std::string_view twice[] = {"a", "a"};
  EXPECT_THAT(ask(MultiGet{twice}).error().message, HasSubstr("limit of 1500"));
  ASSERT_TRUE(ask(Set{"a", std::string(1100, 'y')}));  // Replacing counts the difference alone.
  ASSERT_TRUE(ask(Set{"b", "1"}));
  EXPECT_THAT(ask(Set{"c", "1"}).error().message, HasSubstr("holds 2 keys"));
  EXPECT_FALSE(ask(Add{"c", 1}));
  EXPECT_TRUE(ask(Add{"b", 1}));
  const Entry present[] = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
  EXPECT_TRUE(ask(MultiSet{present}));  // Nothing of it is new.
  const Entry one_new[] = {{"a", "1"}, {"c", "2"}};
  EXPECT_FALSE(ask(MultiSet{one_new}));
}

TEST(Keyspace, RefusesAnAnswerThatHasGrownTooLong) {
  Keyspace keyspace({.reply_bytes = 1500});
  Effects effects;
  const std::string part(1000, 'x');
  ASSERT_TRUE(keyspace.apply(ClientId{1}, Append{"a", part}, effects));
  ASSERT_TRUE(keyspace.apply(ClientId{1}, Get{"a"}, effects));
  ASSERT_TRUE(keyspace.apply(ClientId{1}, Append{"a", part}, effects));
  EXPECT_FALSE(keyspace.apply(ClientId{1}, Get{"a"}, effects));
  EXPECT_FALSE(keyspace.apply(ClientId{1}, CompareSet{"a", "x", "y"}, effects));
}

TEST(Keyspace, CountsWhatAWaitHoldsUntilItEnds) {
  Keyspace keyspace;
  Effects effects;
  const std::string long_key(1000, 'k');
  const std::string_view keys[] = {"never", long_key};
  ASSERT_TRUE(keyspace.apply(ClientId{1}, Wait{keys, {}}, effects));
  const std::size_t held = keyspace.bytes();
  EXPECT_GT(held, 2000u);
  ASSERT_TRUE(keyspace.apply(ClientId{2}, Set{long_key, ""}, effects));
  ASSERT_TRUE(keyspace.apply(ClientId{2}, DeleteKey{long_key}, effects));
  EXPECT_EQ(keyspace.bytes(), held);  // Used up, but still there.
  keyspace.forget(ClientId{1});
  EXPECT_EQ(keyspace.bytes(), 0u);
}

}  // namespace
}  // namespace regroup::core::store
