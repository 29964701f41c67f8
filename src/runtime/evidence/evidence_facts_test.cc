#include "runtime/evidence/evidence_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <string>

namespace regroup::runtime {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Facts ended(io::ProcessExit exit) {
  Facts facts;
  facts.pid = 12;
  facts.exit = exit;
  return facts;
}
Facts ended_by(int signal) { return ended({.signal = signal}); }
Facts ended_with(int code) { return ended({.code = code}); }

io::MemoryAccount leaf(std::uint64_t oom_kills) {
  return {.group = "/sys/fs/cgroup/regroup-1/0",
          .oom_kills = oom_kills,
          .peak_bytes = 64 * kMiB,
          .limit_bytes = 64 * kMiB};
}

io::MemoryAccount container() {
  return {.group = "/sys/fs/cgroup",
          .oom_kills = 7,
          .peak_bytes = 64 * kGiB - 100 * kMiB,
          .limit_bytes = 64 * kGiB};
}

// What is judged about memory, and all lines for people.
template <class... Lines>
auto says(OutOfMemory memory, const Lines&... lines) {
  return AllOf(Field("out_of_memory", &Evidence::out_of_memory, memory),
               Field("lines", &Evidence::lines, ElementsAre(lines...)));
}

std::string all_lines(const Evidence& evidence) {
  std::string text;
  for (const std::string& line : evidence.lines) text += line + "\n";
  return text;
}

TEST(Evidence, OfAKillCountedInItsOwnGroupIsProof) {
  Facts facts = ended_by(SIGKILL);
  facts.leaf = leaf(1);
  facts.own = container();
  EXPECT_THAT(judge(facts),
              says(OutOfMemory::Proven,
                   "out of memory: the kernel killed it (oom_kill +1 in its cgroup; peak "
                   "64.0 MiB of 64.0 MiB)"));
  EXPECT_EQ(judge(facts).memory->group, "/sys/fs/cgroup/regroup-1/0");
}

TEST(Evidence, NamesTheLimitThatTheWorkerShares) {
  Facts facts = ended_by(SIGKILL);
  facts.leaf = leaf(1);
  facts.leaf->limit_bytes.reset();
  facts.own = container();
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("out of memory: the kernel killed it (oom_kill +1 in its cgroup; peak "
                          "64.0 MiB; the limit around it is 64.0 GiB)"));
}

TEST(Evidence, OfALoaderKilledForMemoryIsNotTakenForTheWorkersOwnDeath) {
  Facts facts = ended_with(1);
  facts.leaf = leaf(2);
  EXPECT_THAT(judge(facts),
              says(OutOfMemory::Proven,
                   "out of memory: the kernel killed 2 processes of this worker (oom_kill "
                   "+2 in its cgroup; peak 64.0 MiB of 64.0 MiB)"));
}

TEST(Evidence, FromTheKernelsLogIsProof) {
  Facts facts = ended_by(SIGKILL);
  facts.kernel_log = "Out of memory: Killed process 12 (python) anon-rss:1kB";
  EXPECT_THAT(judge(facts),
              says(OutOfMemory::Proven,
                   "out of memory: the kernel killed it (the kernel's log: Out of memory: "
                   "Killed process 12 (python) anon-rss:1kB)"));
}

TEST(Evidence, OfAKillInTheContainerIsOnlyLikely) {
  Facts facts = ended_by(SIGKILL);
  facts.own = container();
  facts.own_kills = 1;
  facts.machine_kills = 1;
  facts.exit.peak_rss_bytes = 61 * static_cast<std::int64_t>(kGiB);
  EXPECT_THAT(judge(facts),
              says(OutOfMemory::Likely,
                   "probably out of memory: while it ran the kernel killed 1 process for "
                   "memory in this container (/sys/fs/cgroup oom_kill +1; limit 64.0 GiB, "
                   "peak 63.9 GiB)",
                   "peak memory 61.0 GiB"));
  EXPECT_EQ(judge(facts).memory->group, "/sys/fs/cgroup");
}

TEST(Evidence, SpeaksOfNoContainerWhereThereIsNoLimit) {
  Facts facts = ended_by(SIGKILL);
  facts.own = io::MemoryAccount{
      .group = "/sys/fs/cgroup/user", .oom_kills = 2, .peak_bytes = {}, .limit_bytes = {}};
  facts.own_kills = 2;
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("probably out of memory: while it ran the kernel killed 2 processes for "
                          "memory in our control group (/sys/fs/cgroup/user oom_kill +2)"));
}

TEST(Evidence, OfTheWholeMachineCountsWhereNothingNearerIsKnown) {
  Facts facts = ended_by(SIGKILL);
  facts.machine_kills = 2;
  EXPECT_THAT(judge(facts),
              says(OutOfMemory::Likely,
                   "probably out of memory: while it ran the kernel killed 2 processes for "
                   "memory on this machine (/proc/vmstat oom_kill +2)"));
}

TEST(Evidence, OfOthersKilledIsNoneAgainstAWorkerWhoseOwnGroupCountedNobody) {
  Facts facts = ended_by(SIGKILL);
  facts.leaf = leaf(0);
  facts.own = container();
  facts.own_kills = 3;
  facts.machine_kills = 3;
  EXPECT_THAT(judge(facts),
              says(OutOfMemory::NoSign,
                   "killed from outside: nothing shows that it was for memory (no oom_kill "
                   "counted in its cgroup)"));
}

TEST(Evidence, OfAnotherContainersKillsIsNone) {
  Facts facts = ended_by(SIGKILL);
  facts.own = container();
  facts.own_kills = 0;
  facts.machine_kills = 3;
  facts.exit.peak_rss_bytes = 3 * static_cast<std::int64_t>(kMiB);
  EXPECT_THAT(judge(facts),
              says(OutOfMemory::NoSign,
                   "killed from outside: nothing shows that it was for memory (no oom_kill "
                   "counted in /sys/fs/cgroup; peak RSS 3.0 MiB)"));
}

TEST(Evidence, NeverSaysTheWordsWithoutASign) {
  Facts facts = ended_by(SIGKILL);
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("killed from outside: nothing shows that it was for memory (no counter "
                          "of oom_kill is readable here)"));
  facts.machine_kills = 0;
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("killed from outside: nothing shows that it was for memory (no oom_kill "
                          "counted on this machine)"));
  EXPECT_THAT(all_lines(judge(facts)), Not(HasSubstr("out of memory")));
}

TEST(Evidence, OfOurOwnSignalComesFirst) {
  Facts facts = ended_by(SIGKILL);
  facts.signalled_by_us = true;
  facts.own = container();
  facts.own_kills = 1;
  EXPECT_THAT(judge(facts), says(OutOfMemory::NoSign, "stopped by us"));
  facts.leaf = leaf(1);
  EXPECT_THAT(judge(facts),
              says(OutOfMemory::Proven, "stopped by us",
                   "out of memory: the kernel killed 1 process of this worker (oom_kill +1 in its "
                   "cgroup; peak 64.0 MiB of 64.0 MiB)"));
}

TEST(Evidence, OfMemoryIsNotSoughtBehindOtherEnds) {
  for (Facts facts : {ended_by(SIGTERM), ended_by(SIGSEGV), ended_with(1), ended_with(0)}) {
    facts.own = container();
    facts.own_kills = 1;
    EXPECT_THAT(judge(facts), says(OutOfMemory::NoSign));
  }
}

TEST(Evidence, ReadsAShellsExitCode) {
  const std::map<int, std::string> meanings = {
      {126, "a shell found the command and could not execute it"},
      {127, "a shell did not find the command, or the program lacks a shared library"},
      {134, "something it ran was killed by SIGABRT"},
      {139, "something it ran was killed by SIGSEGV"},
      {143, "something it ran was killed by SIGTERM"}};
  for (const auto& [code, meaning] : meanings)
    EXPECT_THAT(judge(ended_with(code)).lines,
                ElementsAre("exit code " + std::to_string(code) + ": " + meaning));
  EXPECT_THAT(judge(ended_with(200)).lines, IsEmpty());
}

TEST(Evidence, TakesAShellsExitCode137ForAKill) {
  Facts facts = ended_with(137);
  facts.own = container();
  facts.own_kills = 0;
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("exit code 137: something it ran was killed by SIGKILL; nothing shows "
                          "that it was for memory (no oom_kill counted in /sys/fs/cgroup)"));
  facts.own_kills = 1;
  EXPECT_EQ(judge(facts).out_of_memory, OutOfMemory::Likely);
  EXPECT_EQ(judge(facts).lines.back(), "exit code 137: something it ran was killed by SIGKILL");
  facts.leaf = leaf(1);
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("out of memory: the kernel killed 1 process of this worker (oom_kill +1 "
                          "in its cgroup; peak 64.0 MiB of 64.0 MiB)",
                          "exit code 137: something it ran was killed by SIGKILL"));
}

TEST(Evidence, OfABusErrorIsTheUseOfSharedMemory) {
  Facts facts = ended_by(SIGBUS);
  facts.shared_memory = Filled{.used = 61 * kMiB, .total = 64 * kMiB};
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("/dev/shm is full: 61.0 MiB of 64.0 MiB used; give the container more "
                          "(--shm-size, or an emptyDir with medium: Memory)"));
  facts.shared_memory->used = 60 * kMiB;
  EXPECT_THAT(judge(facts).lines, ElementsAre("/dev/shm: 60.0 MiB of 64.0 MiB used"));
  facts.shared_memory->total = 0;
  EXPECT_THAT(judge(facts).lines, IsEmpty());
  facts.shared_memory.reset();
  EXPECT_THAT(judge(facts).lines, IsEmpty());
}

TEST(Evidence, NamesTheCoreFile) {
  Facts facts = ended_by(SIGSEGV);
  facts.exit.core_dumped = true;
  facts.core.expected = "/job/core.12";
  EXPECT_THAT(judge(facts).lines, ElementsAre("core written, but not found at /job/core.12 "
                                              "(/proc/sys/kernel/core_pattern)"));
  facts.core_file = CoreFile{.path = "/job/core.12", .bytes = 3 * kMiB};
  EXPECT_THAT(judge(facts).lines, ElementsAre("core file: /job/core.12 (3.0 MiB)"));
  EXPECT_EQ(judge(facts).core_file, "/job/core.12");
}

TEST(Evidence, NamesWhoWasHandedTheCore) {
  Facts facts = ended_by(SIGABRT);
  facts.exit.core_dumped = true;
  facts.core.handler = "systemd-coredump";
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("core handed to systemd-coredump: coredumpctl info 12"));
  EXPECT_EQ(judge(facts).core_file, "systemd-coredump");
  facts.pids_are_the_kernels = false;
  EXPECT_THAT(judge(facts).lines, ElementsAre("core handed to systemd-coredump, on the host of "
                                              "this container: coredumpctl list"));
  facts.core.handler = "apport";
  facts.pids_are_the_kernels = true;
  EXPECT_THAT(judge(facts).lines, ElementsAre("core handed to apport: see /var/crash"));
  facts.core.handler = "my-handler";
  EXPECT_THAT(judge(facts).lines, ElementsAre("core handed to my-handler"));
}

TEST(Evidence, SaysLastWhyThereIsNoCore) {
  Facts facts = ended_by(SIGSEGV);
  facts.core_limit_is_zero = true;
  facts.exit.peak_rss_bytes = static_cast<std::int64_t>(kGiB);
  EXPECT_THAT(judge(facts).lines,
              ElementsAre("peak memory 1.0 GiB",
                          "no core file (ulimit -c is 0; ulimit -c unlimited before the start gets "
                          "one)"));
  facts.core_limit_is_zero = false;
  EXPECT_THAT(judge(facts).lines, ElementsAre("peak memory 1.0 GiB"));
  facts = ended_by(SIGTERM);
  facts.core_limit_is_zero = true;
  EXPECT_THAT(judge(facts).lines, IsEmpty());
}

TEST(Evidence, NamesAFullDiskAndThePeak) {
  Facts facts = ended_with(1);
  facts.full_log = "/logs/0/stderr.log";
  facts.exit.peak_rss_bytes = 1288490189;
  EXPECT_THAT(judge(facts).lines, ElementsAre("the disk of its log is full (/logs/0/stderr.log)",
                                              "peak memory 1.2 GiB"));
}

TEST(GrownBy, NeedsTheSameCounterTwice) {
  EXPECT_EQ(grown_by(2, 5), 3u);
  EXPECT_EQ(grown_by(5, 5), 0u);
  EXPECT_EQ(grown_by(5, 2), std::nullopt);
  EXPECT_EQ(grown_by(std::nullopt, 2), std::nullopt);
  EXPECT_EQ(grown_by(2, std::nullopt), std::nullopt);
}

}  // namespace
}  // namespace regroup::runtime
