#include "wire/text/stack_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::wire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kPySpy = R"dump(Process 4711: python train.py --epochs 3
Python v3.11.2 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    poll (multiprocessing/connection.py:931)
    get (multiprocessing/queues.py:113)
    _try_get_data (torch/utils/data/dataloader.py:1133)
    __next__ (torch/utils/data/dataloader.py:630)
    main (train.py:31)
    <module> (train.py:40)
Thread 4720 (idle): "Thread-1 (tick)"
    wait (threading.py:324)
    run (threading.py:982)
)dump";

constexpr std::string_view kFaulthandler = R"dump(some line before
Thread 0x00007f3b2d7fa6c0 [pin_memory] (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f3b43a2b740 (most recent call first):
  File "/venv/torch/distributed/distributed_c10d.py", line 2800 in all_reduce
  File "/venv/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "train.py", line 12 in step
  File "train.py", line 20 in <module>
and one after
)dump";

TEST(StackDump, ReadsPySpy) {
  const auto threads = parse_stack_dump(kPySpy);
  ASSERT_THAT(threads, SizeIs(2));
  EXPECT_EQ(threads[0].name, "MainThread");
  ASSERT_THAT(threads[0].frames, SizeIs(6));
  EXPECT_EQ(threads[0].frames[0], (StackFrame{"poll", "multiprocessing/connection.py", 931}));
  EXPECT_EQ(threads[1].name, "Thread-1 (tick)");
  EXPECT_EQ(main_thread(threads), &threads[0]);
}

TEST(StackDump, ReadsFaulthandlerInTheMiddleOfOtherOutput) {
  const auto threads = parse_stack_dump(kFaulthandler);
  ASSERT_THAT(threads, SizeIs(2));
  EXPECT_EQ(threads[0].name, "pin_memory");
  EXPECT_TRUE(threads[1].current);
  EXPECT_EQ(threads[1].frames.back(), (StackFrame{"<module>", "train.py", 20}));
  EXPECT_EQ(main_thread(threads), &threads[1]);
}

TEST(StackDump, KnowsACollectiveByItsName) {
  const auto threads = parse_stack_dump(kFaulthandler);
  EXPECT_EQ(whereabouts(&threads[1], {.system_call = "poll", .state = 'S'}),
            (Whereabouts{"in all_reduce", true}));
}

TEST(StackDump, SaysWhatIsUnderTheDataLoader) {
  const auto threads = parse_stack_dump(kPySpy);
  EXPECT_EQ(whereabouts(&threads[0], {.system_call = "read", .state = 'S'}).words,
            "in read() at connection.py:931 (poll) under DataLoader");
}

TEST(StackDump, WithoutAStackTheSystemCallSaysIt) {
  using core::hang::Alone;
  EXPECT_EQ(whereabouts(nullptr, {.system_call = "futex"}).alone, Alone::Unknown);
  EXPECT_EQ(whereabouts(nullptr, {.system_call = "sleep"}).alone, Alone::IfStill);
  EXPECT_EQ(
      whereabouts(nullptr, {.system_call = "read", .wait_channel = "request_wait_answer"}).alone,
      Alone::IfStill);
  EXPECT_EQ(whereabouts(nullptr, {.system_call = "read", .wait_channel = "pipe_read"}).alone,
            Alone::Unknown);
  EXPECT_EQ(whereabouts(nullptr, {.system_call = "futex", .state = 'S'}).words, "in futex()");
  EXPECT_EQ(whereabouts(nullptr, {.system_call = "", .state = 'R'}).words, "running");
  EXPECT_EQ(whereabouts(nullptr, {.system_call = "", .state = 'D'}).words,
            "waiting for a disk or a device");
}

std::vector<RankAt> eight() {
  std::vector<RankAt> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.push_back({rank, rank == 3 ? Whereabouts{"in read() under DataLoader", false}
                                     : Whereabouts{"in all_reduce", true}});
  return ranks;
}

TEST(StackDump, NodesTellEachOtherWhereTheirRanksAre) {
  EXPECT_EQ(decode_ranks(encode_ranks(eight())), eight());
  const std::vector<RankAt> told = {{3, {"in sleep()", false, core::hang::Alone::Certain}},
                                    {4, {"running", false, core::hang::Alone::Unknown, true}}};
  EXPECT_EQ(encode_ranks(told), "3 is in sleep()\n3 alone\n4 is running\n4 busy\n");
  EXPECT_EQ(decode_ranks(encode_ranks(told)), told);
  EXPECT_THAT(decode_ranks("x is in read()\n3 was in read()\n4\n\n5 is "), SizeIs(1));
}

TEST(StackDump, RubbishIsNoStack) {
  EXPECT_THAT(parse_stack_dump("Thread\n  (x:)\nThread x\n File \"\n"), IsEmpty());
  EXPECT_THAT(parse_stack_dump("    poll (a.py:1)\n"), IsEmpty());
  EXPECT_EQ(main_thread({}), nullptr);
}

}  // namespace
}  // namespace regroup::wire
