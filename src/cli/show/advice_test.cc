#include "cli/show/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace regroup::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ProcessFailure failed(int exit_code, const std::string& message, const std::string& tail = "") {
  return {.host = "n1", .exit_code = exit_code, .message = message, .tail = tail};
}

ProcessFailure killed(int signal, const std::string& name, const std::string& tail = "") {
  return {.host = "n1",
          .exit_code = -signal,
          .signal_name = name,
          .message = "killed by " + name,
          .tail = tail};
}

TEST(Advice, IsNotGivenWithoutEvidence) {
  EXPECT_THAT(advice_for(failed(1, "ended with exit code 1")), IsEmpty());
  EXPECT_THAT(advice_for(failed(1, "KeyError: 'x'")), IsEmpty());
  EXPECT_THAT(advice_for(killed(9, "SIGKILL")), IsEmpty());  // Nothing shows what sent it, or why.
  EXPECT_THAT(advice_for(killed(15, "SIGTERM")), IsEmpty());
}

TEST(Advice, IsNotForWhoWasStoppedByUs) {
  auto failure = killed(11, "SIGSEGV");
  failure.stopped_by_us = true;
  EXPECT_THAT(advice_for(failure), IsEmpty());
}

TEST(Advice, OutOfMemory) {
  auto failure = killed(9, "SIGKILL");
  failure.out_of_memory = true;
  failure.evidence = {
      "out of memory: the kernel killed it (oom_kill +1 in its cgroup; peak 1 GiB)"};
  EXPECT_THAT(advice_for(failure),
              ElementsAre(HasSubstr("smaller batch"), HasSubstr("--memory-limit")));
  failure.evidence = {"probably out of memory: ... on this machine (/proc/vmstat oom_kill +1)"};
  EXPECT_THAT(advice_for(failure),
              ElementsAre(HasSubstr("smaller batch"), HasSubstr("more memory")));
}

TEST(Advice, ASharedMemoryThatIsFull) {
  auto failure = killed(7, "SIGBUS");
  failure.evidence = {"/dev/shm is full: 64.0 MiB of 64.0 MiB used"};
  EXPECT_THAT(advice_for(failure), ElementsAre(HasSubstr("--shm-size")));
  EXPECT_THAT(advice_for(failed(1,
                                "RuntimeError: DataLoader worker (pid 1) is killed by signal: Bus "
                                "error. It is possible that dataloader's workers are out of "
                                "shared memory. Please try to raise your shared memory limit.\n"
                                "insufficient shared memory (shm)")),
              ElementsAre(HasSubstr("/dev/shm")));
}

TEST(Advice, AGpuThatIsFull) {
  EXPECT_THAT(
      advice_for(failed(1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate")),
      ElementsAre(AllOf(HasSubstr("smaller batch"), HasSubstr("nvidia-smi"))));
  EXPECT_THAT(advice_for(failed(1,
                                "torch.OutOfMemoryError: CUDA out of memory. 3.00 GiB is "
                                "reserved by PyTorch but unallocated.")),
              ElementsAre(HasSubstr("nvidia-smi"), HasSubstr("expandable_segments")));
}

TEST(Advice, AModuleThatIsMissingNamesTheInterpreter) {
  const auto failure = failed(1, "ModuleNotFoundError: No module named 'numpy'");
  EXPECT_THAT(advice_for(failure, {.interpreter = "/opt/venv/bin/python"}),
              ElementsAre(AllOf(HasSubstr("/opt/venv/bin/python"), HasSubstr("install 'numpy'"),
                                HasSubstr("--python"))));
  EXPECT_THAT(advice_for(failure), ElementsAre(HasSubstr("interpreter")));
}

TEST(Advice, AModuleThatCannotBeRunIsOneThatIsMissing) {
  EXPECT_THAT(advice_for(failed(1, "ended with exit code 1", "/p: No module named trian\n"),
                         {.interpreter = "/p"}),
              ElementsAre(HasSubstr("install 'trian' there")));
}

TEST(Advice, AModuleThatWasMissingAndDidNotMatterIsNotNamed) {
  auto failure = failed(1, "ValueError: boom", "ModuleNotFoundError: No module named 'apex'\n");
  failure.traceback = "Traceback (most recent call last):\nValueError: boom";
  EXPECT_THAT(advice_for(failure), IsEmpty());
}

TEST(Advice, AScriptThatIsNotThere) {
  const auto failure =
      failed(2, "ended with exit code 2",
             "python: can't open file '/x/trian.py': [Errno 2] No such file or directory\n");
  EXPECT_THAT(advice_for(failure, {.interpreter = "", .directory = "/x"}),
              ElementsAre(HasSubstr("from /x")));
  EXPECT_THAT(advice_for(failed(2, "ended with exit code 2", "usage: train.py\n")), IsEmpty());
}

TEST(Advice, CommandsThatCannotBeRun) {
  EXPECT_THAT(advice_for(failed(127, "ended with exit code 127")), ElementsAre(HasSubstr("PATH")));
  EXPECT_THAT(advice_for(failed(127, "ended with exit code 127",
                                "a: error while loading shared libraries: libx.so: cannot open")),
              ElementsAre(HasSubstr("ldd")));
  EXPECT_THAT(advice_for(failed(126, "ended with exit code 126")), ElementsAre(HasSubstr("chmod")));
}

TEST(Advice, APortThatIsTaken) {
  EXPECT_THAT(advice_for(failed(1, "OSError: [Errno 98] Address already in use")),
              ElementsAre(HasSubstr("ss -ltnp")));
}

TEST(Advice, ARankThatDidNotCome) {
  const auto failure = killed(6, "SIGABRT",
                              "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught "
                              "collective operation timeout: WorkNCCL(SeqNum=7, ...)\n");
  EXPECT_THAT(advice_for(failure), ElementsAre(HasSubstr("did not come"), HasSubstr("timeout=")));
}

TEST(Advice, AHangWithoutStacks) {
  auto failure = killed(9, "SIGKILL");
  failure.message = "hangs: it has written nothing";
  EXPECT_THAT(advice_for(failure), ElementsAre(HasSubstr("py-spy")));
  failure.stack = "train.py:3 in load\n";
  EXPECT_THAT(advice_for(failure), IsEmpty());
}

TEST(Advice, Faults) {
  EXPECT_THAT(advice_for(killed(11, "SIGSEGV")), ElementsAre(HasSubstr("PYTHONFAULTHANDLER=1")));
  EXPECT_THAT(advice_for(killed(11, "SIGSEGV", "Fatal Python error: Segmentation fault\n")),
              IsEmpty());
  EXPECT_THAT(advice_for(killed(7, "SIGBUS")),
              ElementsAre(HasSubstr("/dev/shm"), Not(HasSubstr("/dev/shm"))));
}

}  // namespace
}  // namespace regroup::cli
