#include "io/process/process_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/process/process_testing.h"

namespace regroup::io {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ProcessTable, ReadsAStatLine) {
  const auto process = parse_process_stat(
      "4242 (sleep) S 17 4240 4239 34816 4242 4194304 90 0 0 0 1 2 3 4 20 0 1 0 987654321 5632000 "
      "130 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n");
  ASSERT_TRUE(process);
  EXPECT_EQ(process->pid, 4242);
  EXPECT_EQ(process->name, "sleep");
  EXPECT_EQ(process->state, 'S');
  EXPECT_EQ(process->parent, 17);
  EXPECT_EQ(process->group, 4240);
  EXPECT_EQ(process->session, 4239);
  EXPECT_EQ(process->start_time, 987654321u);
}

TEST(ProcessTable, IsNotFooledByNames) {
  const std::string numbers = ") R 2 3 4 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0\n";
  for (const std::string name : {"a b", ") Z 1 1 1", "((", "))", "", "(a) S 1", "line\nend"}) {
    const auto process = parse_process_stat(std::string("1 (").append(name).append(numbers));
    ASSERT_TRUE(process) << name;
    EXPECT_EQ(process->name, name);
    EXPECT_EQ(process->parent, 2);
    EXPECT_EQ(process->start_time, 77u);
  }
}

TEST(ProcessTable, RefusesWhatIsNoStatLine) {
  for (const char* line :
       {"", "1", "1 (a", "1 (a)", "1 (a) S", "x (a) S 1 1 1", ")(", "1 (a) S 1 1 1 0",
        "1 (a) SS 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0"})
    EXPECT_FALSE(parse_process_stat(line)) << line;
}

TEST(ProcessTable, ListsUsAndOurChildren) {
  const Process process = start_one(command({"sleep", "1000"}));
  bool found = false;
  for (const ProcessInfo& one : list_processes())
    if (one.pid == process.pid()) {
      found = true;
      EXPECT_EQ(one.parent, ::getpid());
      EXPECT_EQ(one.start_time, find_process(process.pid())->start_time);
    }
  EXPECT_TRUE(found);
  EXPECT_TRUE(find_process(::getpid()));
  EXPECT_EQ(wait_channel(0), "");
}

constexpr pid_t kUs = 50;
constexpr pid_t kGuard = 60;

ProcessInfo make(pid_t pid, pid_t parent, pid_t session, pid_t group = 0, char state = 'S') {
  ProcessInfo process;
  process.pid = pid;
  process.parent = parent;
  process.group = group != 0 ? group : session;
  process.session = session;
  process.state = state;
  return process;
}

// A small machine: us, our guard, two workers, and strangers.
std::vector<ProcessInfo> machine(std::initializer_list<ProcessInfo> more) {
  std::vector<ProcessInfo> all{make(1, 0, 1),       make(30, 1, 30),
                               make(kUs, 30, 30),   make(kGuard, kUs, kGuard),
                               make(100, kUs, 100), make(200, kUs, 200)};
  all.insert(all.end(), more);
  return all;
}

std::vector<pid_t> meant(const std::vector<ProcessInfo>& all, const Roots& roots) {
  std::vector<pid_t> pids;
  for (const ProcessInfo& process : belonging_to(all, roots)) pids.push_back(process.pid);
  return pids;
}

const Roots kAll{.leaders = {100, 200}, .reaper = kUs, .spared = {kGuard}};

TEST(ProcessTable, MeansTheLeadersAndNeitherUsNorTheGuardNorStrangers) {
  EXPECT_THAT(meant(machine({}), kAll), ElementsAre(100, 200));
  EXPECT_THAT(meant(machine({}), {.leaders = {100}}), ElementsAre(100));
  EXPECT_THAT(meant(machine({}), {}), IsEmpty());
}

TEST(ProcessTable, MeansDescendantsThatLeftTheSession) {
  const auto all = machine({make(101, 100, 100), make(102, 101, 102), make(103, 102, 102)});
  EXPECT_THAT(meant(all, {.leaders = {100}}), ElementsAre(100, 101, 102, 103));
}

TEST(ProcessTable, FindsDescendantsInWhateverOrderTheyAreListed) {
  const auto all = machine({make(97, 98, 98), make(98, 99, 99), make(99, 100, 100)});
  EXPECT_THAT(meant(all, {.leaders = {100}}), ElementsAre(100, 97, 98, 99));
}

TEST(ProcessTable, MeansOrphansThatTheReaperAdopted) {
  const auto all = machine({make(300, kUs, 300), make(301, 300, 301)});
  EXPECT_THAT(meant(all, kAll), ElementsAre(100, 200, 300, 301));
  EXPECT_THAT(meant(all, {.leaders = {100, 200}}), ElementsAre(100, 200));  // Without an adopter.
}

TEST(ProcessTable, MeansMembersOfASessionWhoseLeaderIsGone) {
  const auto all = machine({make(401, 1, 400), make(402, 1, 400, 402), make(403, 402, 403)});
  EXPECT_THAT(meant(all, {.leaders = {400}}), ElementsAre(401, 402, 403));
}

TEST(ProcessTable, LeavesZombiesOutButNotWhoBelongsToThem) {
  const auto all =
      machine({make(500, kUs, 500, 500, 'Z'), make(501, 1, 500), make(502, 501, 500, 500, 'Z')});
  EXPECT_THAT(meant(all, {.leaders = {500}}), ElementsAre(501));
}

TEST(ProcessTable, KnowsAStrangerWhoGotALeadersNumber) {
  // 600 was a worker once. Its number is now that of a job in a user's shell.
  const auto all = machine({make(600, 30, 30, 600), make(601, 600, 30, 600)});
  EXPECT_THAT(meant(all, {.leaders = {600}}), IsEmpty());
}

TEST(ProcessTable, SparesWhatDescendsFromTheSpared) {
  const auto all = machine({make(61, kGuard, kGuard), make(62, 61, 62)});
  EXPECT_THAT(meant(all, kAll), ElementsAre(100, 200));
  Roots without_worker = kAll;
  without_worker.spared.insert(100);
  EXPECT_THAT(meant(machine({make(101, 100, 100)}), without_worker), ElementsAre(200));
}

TEST(ProcessTable, SparingUsDoesNotSpareOurWorkers) {
  Roots roots = kAll;
  roots.spared.insert(kUs);
  EXPECT_THAT(meant(machine({make(300, kUs, 300)}), roots), ElementsAre(100, 200, 300));
}

TEST(ProcessTable, MeansTheMarkedAndWhatDescendsFromThem) {
  const auto all = machine({make(800, 1, 800), make(801, 800, 801), make(802, 1, 802)});
  EXPECT_THAT(meant(all, {.leaders = {}, .marked = {800}}), ElementsAre(800, 801));
  EXPECT_THAT(meant(all, {.leaders = {}, .marked = {800}, .spared = {800}}), IsEmpty());
}

TEST(ProcessTable, FindsAWholeEntryOfAnEnvironment) {
  ProcessSpec spec = command({"sleep", "1000"});
  spec.environment = {"FIRST=1", "MARK=ab", "LAST=c"};
  const Process process = start_one(spec);
  for (const char* entry : {"FIRST=1", "MARK=ab", "LAST=c"})
    EXPECT_TRUE(has_in_environment(process.pid(), entry)) << entry;
  for (const char* entry : {"", "MARK=a", "MARK", "ARK=ab", "MARK=abc"})
    EXPECT_FALSE(has_in_environment(process.pid(), entry)) << entry;
  EXPECT_FALSE(has_in_environment(1 << 30, "FIRST=1"));
}

TEST(ProcessTable, SurvivesParentsInACircle) {
  const auto all = machine({make(700, 701, 700), make(701, 700, 701), make(702, 702, 702)});
  EXPECT_THAT(meant(all, kAll), ElementsAre(100, 200));
}

}  // namespace
}  // namespace regroup::io
