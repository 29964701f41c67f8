#include "core/watchdog/watchdog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"

namespace regroup::core::watchdog {
namespace {

constexpr int kKill = 9;
constexpr int kTerm = 15;
const ProcessId kOne{11};
const ProcessId kOther{22};

Instant at(Duration since) { return Instant{since}; }

Timer timer(ProcessId process, const std::string& scope, Duration deadline, int signal = kKill) {
  return {.process = process,
          .scope = scope,
          .deadline = at(deadline),
          .after = deadline,
          .signal = signal};
}

TEST(Watchdog, CondemnsAProcessAtItsDeadlineAndOnce) {
  Watchdog watchdog;
  EXPECT_FALSE(watchdog.next_deadline());
  watchdog.acquire(timer(kOne, "step", 10s));
  EXPECT_EQ(watchdog.next_deadline(), at(10s));
  EXPECT_TRUE(watchdog.expire(at(10s - 1ns)).empty());
  const auto verdicts = watchdog.expire(at(10s));
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].process, kOne);
  ASSERT_EQ(verdicts[0].deciding, 0u);
  EXPECT_EQ(verdicts[0].expired[0].scope, "step");
  EXPECT_TRUE(watchdog.expire(at(60s)).empty());
  EXPECT_FALSE(watchdog.next_deadline());
}

TEST(Watchdog, ARepeatReplacesTheTimerOfItsScope) {
  Watchdog watchdog;
  watchdog.acquire(timer(kOne, "step", 10s));
  watchdog.acquire(timer(kOne, "step", 30s, kTerm));
  EXPECT_EQ(watchdog.size(), 1u);
  EXPECT_TRUE(watchdog.expire(at(20s)).empty());
  const auto verdicts = watchdog.expire(at(30s));
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].expired[0].signal, kTerm);
}

TEST(Watchdog, AReleasedTimerCondemnsNobody) {
  Watchdog watchdog;
  watchdog.acquire(timer(kOne, "step", 10s));
  watchdog.acquire(timer(kOther, "step", 20s));
  watchdog.release(kOne, "step");
  watchdog.release(kOne, "step");
  watchdog.release(kOne, "unheard of");
  EXPECT_EQ(watchdog.next_deadline(), at(20s));
  const auto verdicts = watchdog.expire(at(60s));
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].process, kOther);
}

TEST(Watchdog, TheEarliestExpiredTimerWithASignalDecides) {
  Watchdog watchdog;
  watchdog.acquire(timer(kOne, "c", 3s, kKill));
  watchdog.acquire(timer(kOne, "a", 1s, 0));
  watchdog.acquire(timer(kOne, "b", 2s, kTerm));
  watchdog.acquire(timer(kOther, "none", 2s, -1));
  const auto verdicts = watchdog.expire(at(5s));
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].process, kOne);
  EXPECT_EQ(verdicts[0].expired.size(), 3u);
  ASSERT_TRUE(verdicts[0].deciding);
  EXPECT_EQ(verdicts[0].expired[*verdicts[0].deciding].scope, "b");
  EXPECT_EQ(verdicts[1].process, kOther);
  EXPECT_FALSE(verdicts[1].deciding);
}

TEST(Watchdog, AmongEqualDeadlinesTheOneAcquiredFirstDecides) {
  Watchdog watchdog;
  watchdog.acquire(timer(kOne, "z", 1s, kTerm));
  watchdog.acquire(timer(kOne, "a", 1s, kKill));
  const auto verdicts = watchdog.expire(at(1s));
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].expired[*verdicts[0].deciding].scope, "z");
}

TEST(Watchdog, WhoIsForgottenHasNoTimers) {
  Watchdog watchdog;
  for (const char* scope : {"a", "b", "c"}) watchdog.acquire(timer(kOne, scope, 1s));
  watchdog.acquire(timer(kOther, "a", 2s));
  watchdog.forget(kOne);
  watchdog.forget(kOne);
  EXPECT_EQ(watchdog.size(), 1u);
  EXPECT_EQ(watchdog.next_deadline(), at(2s));
  watchdog.forget_all();
  EXPECT_FALSE(watchdog.next_deadline());
  watchdog.acquire(timer(kOne, "a", 3s));
  EXPECT_EQ(watchdog.next_deadline(), at(3s));
}

TEST(Watchdog, OthersOfACondemnedProcessStayUntilItIsForgotten) {
  Watchdog watchdog;
  watchdog.acquire(timer(kOne, "a", 1s));
  watchdog.acquire(timer(kOne, "b", 9s));
  const auto verdicts = watchdog.expire(at(1s));
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(watchdog.size(), 1u);
  watchdog.forget(kOne);
  EXPECT_EQ(watchdog.size(), 0u);
}

TEST(Watchdog, APostponedVerdictComesAgain) {
  Watchdog watchdog;
  watchdog.acquire(timer(kOne, "a", 1s, kTerm));
  watchdog.acquire(timer(kOne, "b", 9s));
  watchdog.postpone(watchdog.expire(at(1s)).at(0), at(5s));
  EXPECT_EQ(watchdog.next_deadline(), at(5s));
  const auto again = watchdog.expire(at(5s));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].expired[0].signal, kTerm);
  EXPECT_EQ(watchdog.size(), 1u);
}

TEST(Watchdog, RefusesOneTimerTooMany) {
  Watchdog watchdog(2);
  EXPECT_TRUE(watchdog.acquire(timer(kOne, "a", 1s)));
  EXPECT_TRUE(watchdog.acquire(timer(kOne, "b", 1s)));
  EXPECT_FALSE(watchdog.acquire(timer(kOne, "c", 1s)));
  EXPECT_TRUE(watchdog.acquire(timer(kOne, "a", 2s)));  // A repeated one does not count.
  watchdog.release(kOne, "b");
  EXPECT_TRUE(watchdog.acquire(timer(kOther, "c", 1s)));
}

// Beside a plain list of timers that is searched from end to end.
TEST(Watchdog, SaysTheSameAsAListThatIsSearched) {
  SeededRandom random(7);
  Watchdog watchdog;
  std::vector<Timer> list;
  const auto same = [](const Timer& one, ProcessId process, const std::string& scope) {
    return one.process == process && one.scope == scope;
  };
  for (int i = 0; i < 20'000; ++i) {
    const ProcessId process{random.below(20)};
    const std::string scope = std::to_string(random.below(20));
    const Duration now = i * 1ms;
    const auto what = random.below(100);
    if (what < 50) {
      const Duration after = static_cast<std::int64_t>(random.below(400)) * 1ms;
      std::erase_if(list, [&](const Timer& one) { return same(one, process, scope); });
      list.push_back(timer(process, scope, now + after));
      watchdog.acquire(list.back());
    } else if (what < 90) {
      std::erase_if(list, [&](const Timer& one) { return same(one, process, scope); });
      watchdog.release(process, scope);
    } else if (what < 91) {
      std::erase_if(list, [&](const Timer& one) { return one.process == process; });
      watchdog.forget(process);
    } else {
      std::multiset<std::pair<std::uint64_t, std::string>> expected;
      std::multiset<std::pair<std::uint64_t, std::string>> found;
      std::erase_if(list, [&](const Timer& one) {
        if (one.deadline > at(now)) return false;
        expected.emplace(one.process.value, one.scope);
        return true;
      });
      for (const Verdict& verdict : watchdog.expire(at(now)))
        for (const Timer& one : verdict.expired) found.emplace(one.process.value, one.scope);
      ASSERT_EQ(found, expected);
    }
    ASSERT_EQ(watchdog.size(), list.size());
    const auto next = std::min_element(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.deadline < b.deadline;
    });
    if (next == list.end())
      ASSERT_FALSE(watchdog.next_deadline());
    else
      ASSERT_EQ(watchdog.next_deadline(), next->deadline);
  }
}

}  // namespace
}  // namespace regroup::core::watchdog
