#include "io/loop/timer_heap.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace regroup::io {
namespace {

Instant at(int seconds) { return {std::chrono::seconds(seconds)}; }

TEST(TimerHeap, HasTheEarliestInFrontAndOfTwoAtOnceTheOneThatWasSetFirst) {
  TimerHeap heap;
  EXPECT_EQ(heap.first(), nullptr);
  TimerHeap::Entry late;
  TimerHeap::Entry one;
  TimerHeap::Entry other;
  heap.set(late, at(9));
  heap.set(one, at(3));
  heap.set(other, at(3));
  for (auto* expected : {&one, &other, &late}) {
    ASSERT_EQ(heap.first(), expected);
    heap.remove(*expected);
  }
  EXPECT_EQ(heap.first(), nullptr);
}

TEST(TimerHeap, ForgetsWhenATimerWasDueBeforeItWasSetAgain) {
  TimerHeap heap;
  TimerHeap::Entry moved;
  TimerHeap::Entry other;
  heap.set(moved, at(1));
  heap.set(other, at(5));
  heap.set(moved, at(9));
  EXPECT_EQ(heap.first(), &other);
  heap.set(moved, at(2));
  EXPECT_EQ(heap.first(), &moved);
  heap.remove(moved);
  heap.remove(moved);  // No effect.
  EXPECT_EQ(heap.first(), &other);
}

TEST(TimerHeap, AgreesWithASortedMapWhateverIsSetMovedAndTakenOut) {
  std::mt19937 random(7301);
  TimerHeap heap;
  std::vector<TimerHeap::Entry> entries(100);
  std::map<std::pair<Instant, std::uint64_t>, TimerHeap::Entry*> sorted;
  for (int step = 0; step < 20'000; ++step) {
    auto& entry = entries[random() % entries.size()];
    sorted.erase({entry.at, entry.order});
    if (random() % 3 == 0) {
      heap.remove(entry);
    } else {
      heap.set(entry, at(static_cast<int>(random() % 50)));
      sorted[{entry.at, entry.order}] = &entry;
    }
    ASSERT_EQ(heap.first(), sorted.empty() ? nullptr : sorted.begin()->second) << step;
  }
}

}  // namespace
}  // namespace regroup::io
