#include "wire/text/traceback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace regroup::wire {
namespace {

using testing::EndsWith;

using testing::StartsWith;

const std::string kSimple =
    R"(Traceback (most recent call last):
  File "/job/train.py", line 40, in <module>
    main()
  File "/job/train.py", line 31, in main
    loss = step(batch)
           ^^^^^^^^^^^
ValueError: batch 7 is empty)";

// Found in `tail`, it is `text`, and its last line names the exception.
void expect_found(const std::string& tail, const std::string& text, const std::string& last_line) {
  const auto found = last_traceback(tail);
  ASSERT_TRUE(found) << tail;
  EXPECT_EQ(found->text, text);
  EXPECT_EQ(found->last_line, last_line);
}

TEST(LastTraceback, IsFoundAmongOtherOutput) {
  expect_found("epoch 1\n  loss 0.3\n" + kSimple + "\n", kSimple, "ValueError: batch 7 is empty");
  expect_found(kSimple, kSimple, "ValueError: batch 7 is empty");
}

TEST(LastTraceback, IsNotSeenWhereThereIsNone) {
  for (const char* tail :
       {"", "\n\n", "epoch 1\n  loss 0.3\nValueError: said by nobody\n",
        "Traceback (most recent call last):\n",
        "Traceback (most recent call last):\n  File \"x\"\n", "  File \"x.py\", line 3\n",
        "about Traceback (most recent call last): in prose\nE: x\n",
        "one\n  File \"x.py\", line 3, in f\nValueError: a frame without its header\n"})
    EXPECT_FALSE(last_traceback(tail)) << tail;
}

TEST(LastTraceback, TakesTheLastOfSeveral) {
  const std::string other =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'";
  expect_found(other + "\nretrying\n" + kSimple + "\n", kSimple, "ValueError: batch 7 is empty");
  expect_found(kSimple + "\nretrying\n" + other + "\n", other, "KeyError: 'x'");
}

TEST(LastTraceback, TakesAMessageOfSeveralLines) {
  const std::string cuda = R"(Traceback (most recent call last):
  File "train.py", line 3, in <module>
    x.cuda()
torch.AcceleratorError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.)";
  expect_found(cuda + "\n\n[W1115 08:41:00.123 CUDAGuardImpl.h:119] Warning: ignored\n", cuda,
               "torch.AcceleratorError: CUDA error: device-side assert triggered");

  const std::string keys = R"(Traceback (most recent call last):
  File "train.py", line 3, in <module>
    model.load_state_dict(state)
RuntimeError: Error(s) in loading state_dict for Net:
	Missing key(s) in state_dict: "a.weight".

	Unexpected key(s) in state_dict: "b.weight".)";
  expect_found(keys + "\n\nbye\n", keys, "RuntimeError: Error(s) in loading state_dict for Net:");
}

TEST(LastTraceback, KeepsSoManyLinesOfAMessage) {
  std::string tail = kSimple;
  for (int i = 0; i < 1000; ++i) tail += "\nline " + std::to_string(i);
  const auto found = last_traceback(tail);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, EndsWith("\nline " + std::to_string(kMessageLines - 1)));
}

TEST(LastTraceback, LeavesOutWhatOthersWroteBehindIt) {
  for (const char* other :
       {"/usr/lib/python3.11/tempfile.py:934: ResourceWarning: Implicitly cleaning up",
        "sys:1: ResourceWarning: unclosed file", "2026-11-15 08:41:00,123 INFO saving",
        "[rank0]:[W1115 08:41:00.123 ProcessGroupNCCL.cpp:1250] Warning: destroy_process_group",
        "INFO:root:bye", "E1115 08:41:00.123456 1 main.cc:3] x", "\nthe end",
        "Exception ignored in: <function Pool.__del__ at 0x7f>"})
    expect_found(kSimple + "\n" + other + "\n", kSimple, "ValueError: batch 7 is empty");
}

TEST(LastTraceback, LeavesOutWhatOthersWroteIntoIt) {
  expect_found(R"(Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
INFO: saved
100%|####| 3/3
  File "a.py", line 2, in g
    raise KeyError('x')
a.py:7: UserWarning: slow
KeyError: 'x'
)",
               R"(Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
  File "a.py", line 2, in g
    raise KeyError('x')
KeyError: 'x')",
               "KeyError: 'x'");
}

TEST(LastTraceback, PrefersTheOneThatEndedTheProcess) {
  const std::string harmless =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'";
  for (const char* above :
       {"Exception in thread Thread-3 (feed):", "Exception ignored in: <function f at 0x7f>",
        "--- Logging error ---", "Process SpawnProcess-1:"}) {
    const std::string other = std::string(above) + "\n" + harmless + "\n";
    expect_found(kSimple + "\n" + other, kSimple, "ValueError: batch 7 is empty");
    expect_found("epoch 1\n" + other, harmless, "KeyError: 'x'");
  }
}

TEST(LastTraceback, TakesAChainWholeAndNamesItsLastException) {
  const std::string chain = R"(Traceback (most recent call last):
  File "chain.py", line 4, in g
    try: f()
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "chain.py", line 8, in <module>
    g()
RuntimeError: two
lines

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "chain.py", line 10, in <module>
    1/0
    ~^~
ZeroDivisionError: division by zero)";
  expect_found("start\n" + chain + "\n", chain, "ZeroDivisionError: division by zero");
  // What is above an exception in a thread holds for its whole chain.
  expect_found(kSimple + "\nException in thread T:\n" + chain + "\n", kSimple,
               "ValueError: batch 7 is empty");
}

TEST(LastTraceback, TakesAnExceptionGroup) {
  const std::string group = R"(  + Exception Group Traceback (most recent call last):
  |   File "group.py", line 6, in <module>
  |     raise ExceptionGroup('many', es)
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "group.py", line 4, in <module>
    |     try: a()
    |          ^^^
    | ValueError: one
    +---------------- 2 ----------------
    | ExceptionGroup: in (1 sub-exception)
    +-+---------------- 1 ----------------
      | KeyError: 'k'
      +------------------------------------)";
  expect_found("start\n" + group + "\nbye\n", group, "ExceptionGroup: many (2 sub-exceptions)");
  const std::string chain = kSimple +
                            "\n\nThe above exception was the direct cause of the following "
                            "exception:\n\n" +
                            group;
  expect_found(chain, chain, "ExceptionGroup: many (2 sub-exceptions)");
}

TEST(LastTraceback, TakesASyntaxErrorWithoutATraceback) {
  const std::string error = R"(  File "/job/train.py", line 2
    def f(:
          ^
SyntaxError: invalid syntax)";
  expect_found(error + "\n", error, "SyntaxError: invalid syntax");
  expect_found("start\n" + error + "\n", error, "SyntaxError: invalid syntax");
}

TEST(LastTraceback, ReadsWhatPyTorchPutsARankBefore) {
  std::string tail = "[rank3]:[W1115 08:41:00.1 socket.cpp:3] Warning\n";
  tail += R"([rank3]: Traceback (most recent call last):
[rank3]:   File "train.py", line 9, in <module>
[rank3]:     main()
some other thread
[rank3]: torch.distributed.DistBackendError: NCCL error in: x.cpp:77

[rank3]: ncclSystemError: System call failed.
[rank3]: Last error:
not of the message
)";
  expect_found(tail, R"(Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
torch.distributed.DistBackendError: NCCL error in: x.cpp:77

ncclSystemError: System call failed.
Last error:)",
               "torch.distributed.DistBackendError: NCCL error in: x.cpp:77");
}

TEST(LastTraceback, TakesColoursOff) {
  expect_found(
      "Traceback (most recent call last):\r\n"
      "  File \x1b[35m\"n.py\"\x1b[0m, line \x1b[35m1\x1b[0m, in \x1b[35m<module>\x1b[0m\r\n"
      "    \x1b[1;31mraise e\x1b[0m\r\n"
      "\x1b[1;35mValueError\x1b[0m: \x1b[35mx\x1b[0m\r\n",
      "Traceback (most recent call last):\n  File \"n.py\", line 1, in <module>\n    raise e\n"
      "ValueError: x",
      "ValueError: x");
}

TEST(LastTraceback, IsFoundWhereItsBeginningIsCut) {
  expect_found(R"(    loss = step(batch)
  File "/job/train.py", line 31, in step
    raise E
__main__.E
)",
               R"(    loss = step(batch)
  File "/job/train.py", line 31, in step
    raise E
__main__.E)",
               "__main__.E");
  EXPECT_THAT(last_traceback("rest of a message\n\nDuring handling of the above exception, another "
                             "exception occurred:\n\n" +
                             kSimple)
                  ->text,
              StartsWith("Traceback"));
}

TEST(LastTraceback, KeepsTheTracebackThatAMessageQuotes) {
  std::string worker = R"(Traceback (most recent call last):
  File "train.py", line 3, in <module>
    for batch in loader:
RuntimeError: Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
)";
  for (int i = 0; i < 50; ++i) worker += "  File \"fetch.py\", line 5, in f\n    f()\n";
  worker += "ValueError: broken image";
  expect_found(worker + "\n\n", worker,
               "RuntimeError: Caught ValueError in DataLoader worker process 0.");
}

TEST(LastTraceback, NamesTheErrorOfAProcessThatWasSpawned) {
  const auto found = last_traceback(R"(Traceback (most recent call last):
  File "train.py", line 3, in <module>
    mp.spawn(main)
torch.multiprocessing.spawn.ProcessRaisedException: 

-- Process 1 terminated with the following error:
)" + kSimple + "\n\n");
  EXPECT_EQ(found->last_line, "ValueError: batch 7 is empty");
}

TEST(LastTraceback, IsElseTheThreadThatFaulted) {
  const std::string fault = R"(Fatal Python error: Segmentation fault

Thread 0x00007fef26a1d6c0 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 992 in run

Current thread 0x00007fef274c0b80 (most recent call first):
  File "/usr/lib/python3.13/ctypes/__init__.py", line 538 in string_at
  File "fault.py", line 3 in <module>

Extension modules: numpy, torch (total: 2)
)";
  expect_found("epoch 1\n" + fault, R"(Fatal Python error: Segmentation fault

Current thread 0x00007fef274c0b80 (most recent call first):
  File "/usr/lib/python3.13/ctypes/__init__.py", line 538 in string_at
  File "fault.py", line 3 in <module>)",
               "Fatal Python error: Segmentation fault");
  expect_found(kSimple + "\n" + fault, kSimple, "ValueError: batch 7 is empty");
  expect_found("Fatal Python error: x", "Fatal Python error: x", "Fatal Python error: x");
}

TEST(LastTraceback, IsElseTheExceptionThatCppTerminatedFor) {
  const std::string abort = R"(terminate called after throwing an instance of 'c10::Error'
  what():  CUDA error: out of memory
Exception raised from f at x.cpp:3)";
  expect_found("epoch 1\n" + abort + "\n\nAborted (core dumped)\n", abort,
               "c10::Error: CUDA error: out of memory");
  expect_found("terminate called without an active exception\n",
               "terminate called without an active exception",
               "terminate called without an active exception");
  // With faulthandler on, both come; the fault alone would say nothing.
  const auto both = last_traceback(abort +
                                   "\nFatal Python error: Aborted\n\nCurrent thread 0x07 (most "
                                   "recent call first):\n  File \"a.py\", line 3 in f\n");
  EXPECT_EQ(both->last_line, "c10::Error: CUDA error: out of memory");
  EXPECT_THAT(both->text, EndsWith("  File \"a.py\", line 3 in f"));
}

}  // namespace
}  // namespace regroup::wire
