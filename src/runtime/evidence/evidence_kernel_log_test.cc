#include "runtime/evidence/evidence_kernel_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace regroup::runtime {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kChosen =
    "6,812,24372743387,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,"
    "mems_allowed=0,oom_memcg=/job,task_memcg=/job,task=python,pid=31593,uid=0\n";
constexpr const char* kKilled =
    "3,813,24372743404,-;Memory cgroup out of memory: Killed process 31593 (python) "
    "total-vm:209804kB, anon-rss:65420kB\n SUBSYSTEM=memory\n";

TEST(OomRecord, NamesThePid) {
  const auto chosen = parse_oom_record(kChosen);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->pid, 31593);
  EXPECT_THAT(chosen->text, StartsWith("oom-kill:constraint"));
  const auto killed = parse_oom_record(kKilled);
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->pid, 31593);
  EXPECT_EQ(killed->text,
            "Memory cgroup out of memory: Killed process 31593 (python) total-vm:209804kB, "
            "anon-rss:65420kB");
  EXPECT_EQ(parse_oom_record("3,1,2,-;Out of memory: Killed process 7 (a) total-vm:1kB\n")->pid, 7);
}

TEST(OomRecord, IsOnlyBelievedFromTheKernel) {
  // 12 = facility 1 (user), level 4: echo "Killed process 7 (x)" > /dev/kmsg.
  EXPECT_FALSE(parse_oom_record("12,1,2,-;Out of memory: Killed process 7 (x)\n"));
}

TEST(OomRecord, IsNothingElse) {
  for (const char* record : {"", ";", "6", "6,1,2,-", "6,1,2,-;", "6,1,2,-;usb 1-1: new device\n",
                             "6,1,2,-;Killed process \n", "6,1,2,-;oom-kill:constraint=NONE\n",
                             "x,1,2,-;Killed process 7"})
    EXPECT_FALSE(parse_oom_record(record)) << record;
}

// Gives one record with each read, as /dev/kmsg does.
struct FakeLog {
  int ends[2];
  FakeLog() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0); }
  ~FakeLog() { ::close(ends[1]); }
  void add(std::string_view record) {
    EXPECT_EQ(::write(ends[1], record.data(), record.size()), static_cast<ssize_t>(record.size()));
  }
};

TEST(KernelLog, RemembersEveryKillForLaterQuestions) {
  FakeLog source;
  KernelLog log{io::Descriptor(source.ends[0])};
  EXPECT_EQ(log.killed_for_memory(31593), "");
  source.add("6,811,1,-;something else\n");
  source.add(kChosen);
  source.add(kKilled);
  EXPECT_EQ(log.killed_for_memory(3159), "");
  EXPECT_THAT(log.killed_for_memory(31593), HasSubstr("Killed process 31593"));
  EXPECT_THAT(log.killed_for_memory(31593), HasSubstr("anon-rss"));
}

}  // namespace
}  // namespace regroup::runtime
