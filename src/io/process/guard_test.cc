#include "io/process/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "io/process/process_testing.h"

namespace regroup::io {
namespace {

using testing::HasSubstr;

// Where this machine keeps cgroups of version 2, if we may write there.
std::string writable_cgroups() {
  for (const char* directory : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
    if (::access((std::string(directory) + "/cgroup.procs").c_str(), W_OK) == 0) return directory;
  return {};
}

void say(int fd, const std::string& line) {
  CHECK(::write(fd, (line + "\n").data(), line.size() + 1) ==
        static_cast<ssize_t>(line.size() + 1));
}

// A worker with a child in its group and one in a group of its own; it says when they are there.
ProcessSpec worker_with_children(int output) {
  ProcessSpec spec =
      command({"/bin/bash", "-c", "sleep 1000 & set -m; sleep 1000 & echo ready; wait"});
  spec.output = output;
  return spec;
}

TEST(Guard, RemovesThePipesThatItWasToldOfWhenWeAreKilled) {
  const std::string folder = testing::TempDir() + "guard_pipes_" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const std::string pipe = folder + "/pipe";
  const std::string file = folder + "/file";  // Was a pipe of ours once; not any more.
  ASSERT_EQ(::mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR), 0);
  std::ofstream(file) << "somebody else's";
  TestPipe said;
  Helper agent([&] {
    const auto guard = std::move(*Guard::start());
    guard->watch_pipe(pipe);
    guard->watch_pipe(file);
    say(said.writer(), std::to_string(guard->pid()));
    for (;;) ::pause();
    return 0;
  });
  const pid_t guard = std::stoi(said.read_line());
  agent.kill();
  EXPECT_TRUE(eventually([&] { return !lives(guard); }));
  EXPECT_FALSE(std::filesystem::exists(pipe));
  EXPECT_TRUE(std::filesystem::exists(file));
  std::filesystem::remove_all(folder);
}

TEST(Guard, KillsWholeSessionsWhenWeAreKilled) {
  TestPipe said, ready;
  Helper agent([&] {
    const auto guard = std::move(*Guard::start());
    auto workers = *start_processes(
        {worker_with_children(ready.writer()), worker_with_children(ready.writer())});
    for (const Process& worker : workers) guard->watch_session(worker.pid());
    say(said.writer(), std::to_string(workers[0].pid()));
    say(said.writer(), std::to_string(workers[1].pid()));
    say(said.writer(), std::to_string(guard->pid()));
    for (;;) ::pause();
    return 0;
  });
  const pid_t first = std::stoi(said.read_line());
  const pid_t second = std::stoi(said.read_line());
  const pid_t guard = std::stoi(said.read_line());
  EXPECT_EQ(ready.read_line(), "ready");
  EXPECT_EQ(ready.read_line(), "ready");
  EXPECT_EQ(living_members_of_session(first).size(), 3u);
  EXPECT_EQ(living_members_of_session(second).size(), 3u);
  agent.kill();
  for (const pid_t leader : {first, second})
    EXPECT_TRUE(eventually([&] { return living_members_of_session(leader).empty(); })) << leader;
  EXPECT_TRUE(eventually([&] { return !lives(guard); }));
}

TEST(Guard, KnowsAWorkerThatHasToldItItselfAndWhatItStarted) {
  TestPipe said, ready;
  Helper agent([&] {
    const auto guard = std::move(*Guard::start());
    ProcessSpec spec = worker_with_children(ready.writer());
    spec.guard = guard->descriptor();
    const auto workers = *start_processes({spec});
    say(said.writer(), std::to_string(workers[0].pid()));
    for (;;) ::pause();
    return 0;
  });
  const pid_t leader = std::stoi(said.read_line());
  EXPECT_EQ(ready.read_line(), "ready");
  EXPECT_EQ(living_members_of_session(leader).size(), 3u);
  agent.kill();
  EXPECT_TRUE(eventually([&] { return living_members_of_session(leader).empty(); }));
}

TEST(Guard, LeavesAloneWhatItWasToldToForget) {
  TestPipe said, ready;
  const Process stranger = start_one(worker_with_children(ready.writer()));
  const pid_t kept = stranger.pid();
  Helper agent([&] {
    const auto guard = std::move(*Guard::start());
    guard->watch_session(kept);
    guard->forget_session(kept);
    say(said.writer(), std::to_string(guard->pid()));
    for (;;) ::pause();
    return 0;
  });
  const pid_t guard = std::stoi(said.read_line());
  EXPECT_EQ(ready.read_line(), "ready");
  agent.kill();
  EXPECT_TRUE(eventually([&] { return !lives(guard); }));
  EXPECT_EQ(living_members_of_session(kept).size(), 3u);
  for (const ProcessInfo& one : living_members_of_session(kept)) ::kill(one.pid, SIGKILL);
}

TEST(Guard, DoesNothingAfterAGoodbye) {
  Process worker = start_one(command({"sleep", "1000"}));
  pid_t pid = 0;
  {
    const auto guard = Guard::start();
    ASSERT_TRUE(guard) << guard.error().message;
    pid = (*guard)->pid();
    (*guard)->watch_session(worker.pid());
    EXPECT_TRUE(lives(pid));
  }
  EXPECT_FALSE(find_process(pid));
  EXPECT_TRUE(lives(worker.pid()));
}

TEST(Guard, HasItsOwnSessionAndNothingOfOurs) {
  TestPipe pipe;
  const int plain = ::fcntl(pipe.writer(), F_DUPFD, 300);
  const auto guard = std::move(*Guard::start());
  const std::string proc = "/proc/" + std::to_string(guard->pid());
  ASSERT_TRUE(eventually(
      [&] { return find_process(guard->pid()).value_or(ProcessInfo{}).name == "regroup-guard"; }));
  // The name comes before the descriptors: no process can write here any more once they are closed.
  ::close(plain);
  EXPECT_EQ(pipe.read_all(), "");
  EXPECT_EQ(find_process(guard->pid())->session, guard->pid());
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/cwd"), "/");
  for (const char* standard : {"/fd/0", "/fd/1", "/fd/2"})
    EXPECT_EQ(std::filesystem::read_symlink(proc + standard), "/dev/null");
}

TEST(Guard, HasACommandLineOfItsOwn) {
  const auto guard = std::move(*Guard::start());
  const std::string path = "/proc/" + std::to_string(guard->pid()) + "/cmdline";
  EXPECT_TRUE(eventually([&] { return text_of(path).starts_with("regroup-guard"); }));
  EXPECT_EQ(text_of(path).find("test"), std::string::npos);  // Of this program's name.
}

// Like a daemon, its parent has ended; it says its number.
ProcessSpec worker_with_a_daemon(int output, const Guard& guard) {
  ProcessSpec spec = shell("setsid sh -c 'setsid sleep 1000 & echo $!' & wait");
  spec.environment.push_back(std::string(Guard::kMarkName) + "=" + guard.mark());
  spec.output = output;
  return spec;
}

TEST(Guard, KillsDaemonsByTheMarkInTheirEnvironment) {
  TestPipe said;
  const Process stranger = start_one(command({"sleep", "1000"}));
  Helper agent([&] {
    const auto guard = std::move(*Guard::start());
    const auto worker = start_one(worker_with_a_daemon(said.writer(), *guard));
    for (;;) ::pause();
    return 0;
  });
  const pid_t daemon = std::stoi(said.read_line());
  ASSERT_TRUE(
      eventually([&] { return find_process(daemon).value_or(ProcessInfo{}).session == daemon; }));
  agent.kill();
  EXPECT_TRUE(eventually([&] { return !lives(daemon); }));
  EXPECT_TRUE(lives(stranger.pid()));
}

TEST(Guard, LeavesAloneWhatCarriesAMarkThatItForgot) {
  TestPipe said;
  Helper agent([&] {
    const auto guard = std::move(*Guard::start());
    const auto worker = start_one(worker_with_a_daemon(said.writer(), *guard));
    guard->forget_mark();
    say(said.writer(), std::to_string(guard->pid()));
    for (;;) ::pause();
    return 0;
  });
  pid_t first = std::stoi(said.read_line());
  pid_t second = std::stoi(said.read_line());  // One is the guard's, whichever came first.
  const auto is_guard = [](pid_t pid) {
    return find_process(pid).value_or(ProcessInfo{}).name == "regroup-guard";
  };
  ASSERT_TRUE(eventually([&] { return is_guard(first) || is_guard(second); }));
  if (is_guard(second)) std::swap(first, second);
  agent.kill();
  EXPECT_TRUE(eventually([&] { return !lives(first); }));
  EXPECT_TRUE(lives(second));
  ::kill(second, SIGKILL);
}

TEST(Guard, SurvivesTheSignalsOfATerminal) {
  const auto guard = std::move(*Guard::start());
  const std::string status = text_of("/proc/" + std::to_string(guard->pid()) + "/status");
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1})
    EXPECT_NE(signal_mask(status, "SigBlk") & signal_bit(number), 0u) << number;
}

TEST(Guard, MayBeKilledWithoutHarmToUs) {
  const auto guard = std::move(*Guard::start());
  ::kill(guard->pid(), SIGKILL);
  ASSERT_TRUE(eventually([&] { return !lives(guard->pid()); }));
  guard->watch_session(12345);
  guard->forget_session(12345);
}

TEST(Guard, HearsOfOurEndThoughAForkedChildHoldsOurDescriptors) {
  TestPipe said, ready;
  Process survivor =
      start_one(command({"sleep", "1000"}));  // Only lends its pid to the pipe's order.
  Helper agent([&] {
    const auto guard = std::move(*Guard::start());
    const pid_t copy = ::fork();
    if (copy == 0)
      for (;;) ::pause();
    auto worker = start_one(worker_with_children(ready.writer()));
    guard->watch_session(worker.pid());
    say(said.writer(), std::to_string(worker.pid()));
    say(said.writer(), std::to_string(copy));
    for (;;) ::pause();
    return 0;
  });
  const pid_t worker = std::stoi(said.read_line());
  const pid_t copy = std::stoi(said.read_line());
  EXPECT_EQ(ready.read_line(), "ready");
  agent.kill();
  EXPECT_TRUE(eventually([&] { return living_members_of_session(worker).empty(); }));
  EXPECT_TRUE(lives(copy));
  ::kill(copy, SIGKILL);
}

TEST(Guard, KillsAndRemovesCgroups) {
  const std::string cgroups = writable_cgroups();
  if (cgroups.empty()) GTEST_SKIP() << "needs a writable cgroup v2 tree";
  const std::string top = cgroups + "/regroup-guard-test-" + std::to_string(::getpid());
  if (::mkdir(top.c_str(), 0755) != 0) GTEST_SKIP() << "cannot make " << top;
  const std::string leaf = top + "/worker";
  ASSERT_EQ(::mkdir(leaf.c_str(), 0755), 0);
  TestPipe said;
  Helper agent([&] {
    const auto guard = std::move(*Guard::start());
    guard->watch_cgroup(top);
    // It leaves its worker's session, so the cgroup alone leads to it.
    ProcessSpec spec = shell("setsid sleep 1000 & echo $!; wait");
    spec.cgroup = ::open(leaf.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    spec.output = said.writer();
    const Process worker = start_one(spec);
    for (;;) ::pause();
    return 0;
  });
  const pid_t escaped = std::stoi(said.read_line());
  ASSERT_TRUE(
      eventually([&] { return find_process(escaped).value_or(ProcessInfo{}).session == escaped; }));
  EXPECT_THAT(text_of(leaf + "/cgroup.procs"), HasSubstr(std::to_string(escaped) + "\n"));
  agent.kill();
  EXPECT_TRUE(eventually([&] { return !lives(escaped); }));
  EXPECT_TRUE(eventually([&] { return ::access(top.c_str(), F_OK) != 0; }));
}

}  // namespace
}  // namespace regroup::io
