#include "io/process/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <iterator>
#include <sstream>

#include "io/process/process_testing.h"

namespace regroup::io {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t room_for_descriptors() {
  const std::string status = text_of("/proc/self/status");
  return std::stoul(status.substr(status.find("FDSize:") + 7));
}

TEST(Descriptors, HaveRoomBeforeTheyAreOpened) {
  Helper helper([] {
    const std::size_t open_before = open_descriptors();
    const std::size_t more = room_for_descriptors() + 1;
    make_room_for_descriptors(more);
    return room_for_descriptors() >= more && open_descriptors() == open_before ? 0 : 1;
  });
  EXPECT_EQ(helper.wait(), 0);
}

TEST(Descriptors, GetAsMuchRoomAsTheLimitAllows) {
  Helper helper([] {
    const std::size_t open_before = open_descriptors();
    const rlimit low{500, 500};
    if (::setrlimit(RLIMIT_NOFILE, &low) != 0) return 2;
    make_room_for_descriptors(0);
    make_room_for_descriptors(std::size_t{1} << 40);
    return room_for_descriptors() >= 500 && open_descriptors() == open_before ? 0 : 1;
  });
  EXPECT_EQ(helper.wait(), 0);
}

TEST(Process, HasExactlyTheGivenEnvironment) {
  ProcessSpec spec = command({"env"});
  spec.environment = {"PATH=/usr/bin:/bin", "RANK=3", "EMPTY="};
  EXPECT_THAT(lines(output_of(spec)), ElementsAre("PATH=/usr/bin:/bin", "RANK=3", "EMPTY="));
}

TEST(Process, GetsItsArgumentsAndDirectory) {
  ProcessSpec spec = shell("echo \"$0|$1|$2\"; pwd");
  spec.argv.insert(spec.argv.end(), {"zero", "with space", ""});
  spec.directory = "/usr";
  EXPECT_THAT(lines(output_of(spec)), ElementsAre("zero|with space|", "/usr"));
}

TEST(Process, LooksForARelativeProgramInItsOwnDirectory) {
  const ScratchDirectory scratch;
  scratch.write("train", "#!/bin/sh\necho here\n", 0755);
  ProcessSpec spec = command({"./train"});
  spec.directory = scratch.path();
  EXPECT_EQ(output_of(spec), "here\n");
}

TEST(Process, LeadsASessionAndAGroupOfItsOwn) {
  Process process = start_one(command({"sleep", "1000"}));
  const auto info = find_process(process.pid());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->name, "sleep");
  EXPECT_EQ(info->parent, ::getpid());
  EXPECT_EQ(info->group, process.pid());
  EXPECT_EQ(info->session, process.pid());
}

TEST(Process, InheritsNoOtherDescriptors) {
  TestPipe without_cloexec;
  const int high = ::fcntl(without_cloexec.writer(), F_DUPFD, 200);
  // The shell's * lists the descriptor of the directory too, which is gone when it is looked at.
  const std::string open =
      output_of(shell("for f in /proc/self/fd/*; do [ -e $f ] && echo ${f##*/}; done"));
  ::close(high);
  EXPECT_THAT(lines(open), ElementsAre("0", "1", "2"));
}

TEST(Process, ReadsAndWritesWhereItIsTold) {
  TestPipe input, output, errors;
  ProcessSpec spec = shell("read line; echo got $line; echo wrong >&2");
  spec.input = input.reader();
  spec.output = output.writer();
  spec.errors = errors.writer();
  Process process = start_one(spec);
  ASSERT_EQ(::write(input.writer(), "this\n", 5), 5);
  EXPECT_EQ(output.read_all(), "got this\n");
  EXPECT_EQ(errors.read_all(), "wrong\n");
  EXPECT_EQ(end_of(process).code, 0);
}

TEST(Process, MayExchangeOurOutputAndErrors) {
  TestPipe output, errors;
  Helper helper([&] {
    ::dup2(output.writer(), 1);
    ::dup2(errors.writer(), 2);
    ProcessSpec spec = shell("echo output; echo errors >&2");
    spec.input = 0;
    spec.output = 2;
    spec.errors = 1;
    Process process = start_one(spec);
    return end_of(process).code;
  });
  EXPECT_EQ(output.read_all(), "errors\n");
  EXPECT_EQ(errors.read_all(), "output\n");
  EXPECT_EQ(helper.wait(), 0);
}

TEST(Process, StartsWithPlainSignalsButKeepsWhatNohupIgnores) {
  TestPipe output;
  Helper helper([&] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    ::signal(SIGTERM, [](int) {});
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &some, nullptr);
    ProcessSpec spec = command({"cat", "/proc/self/status"});
    spec.output = output.writer();
    Process process = start_one(spec);
    const int code = end_of(process).code;
    sigset_t after;
    pthread_sigmask(SIG_BLOCK, nullptr, &after);
    return code == 0 && sigismember(&after, SIGUSR1) == 1 && sigismember(&after, SIGTERM) == 0 ? 0
                                                                                               : 1;
  });
  const std::string status = output.read_all();
  EXPECT_EQ(helper.wait(), 0);
  EXPECT_EQ(signal_mask(status, "SigBlk"), 0u);
  EXPECT_EQ(signal_mask(status, "SigCgt"), 0u);
  EXPECT_NE(signal_mask(status, "SigIgn") & signal_bit(SIGHUP), 0u);
  EXPECT_EQ(signal_mask(status, "SigIgn") &
                (signal_bit(SIGPIPE) | signal_bit(SIGXFSZ) | signal_bit(SIGTERM)),
            0u);
}

TEST(Process, RunsOnTheGivenCpus) {
  cpu_set_t ours;
  ASSERT_EQ(::sched_getaffinity(0, sizeof ours, &ours), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &ours)) --last;
  ProcessSpec spec = command({"grep", "Cpus_allowed_list", "/proc/self/status"});
  spec.cpus = {last};
  EXPECT_EQ(output_of(spec), "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
}

TEST(Process, TakesItsMemoryFromTheGivenNode) {
  constexpr int kBind = 2;  // MPOL_BIND
  ProcessSpec spec = command({"cat", "/proc/self/numa_maps"});
  spec.memory = MemoryPolicy{.mode = kBind, .nodes = {0}};
  if (::access("/proc/self/numa_maps", R_OK) != 0) GTEST_SKIP() << "needs a kernel with NUMA";
  EXPECT_THAT(output_of(spec), testing::HasSubstr(" bind:0 "));
}

TEST(Process, WritesItselfIntoGroupsBeforeItsProgramRuns) {
  const ScratchDirectory scratch;
  const int procs = ::open(scratch.file("procs").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ProcessSpec spec = command({"cat", scratch.file("procs")});
  spec.join = {{.procs = procs}, {.procs = procs, .later = true}};  // Not born in a group.
  EXPECT_EQ(output_of(spec), "00");
  ::close(procs);
}

TEST(Process, IsNotReapedBeforeItsPidIsNoLongerNeeded) {
  std::promise<void> needed;
  Process process = start_one(shell("exit 7"));
  process.not_reaped_before(needed.get_future().share());
  end_of(process);
  auto reaped = std::async(std::launch::async, [&] { process.reap(); });
  EXPECT_EQ(find_process(process.pid())->state, 'Z');
  needed.set_value();
  reaped.get();
  EXPECT_FALSE(find_process(process.pid()));
}

TEST(Process, ReportsItsExitCodeUntilAndAfterItIsReaped) {
  Process process = start_one(shell("exit 7"));
  EXPECT_EQ(end_of(process).code, 7);
  EXPECT_EQ(process.exited()->signal, 0);
  EXPECT_FALSE(process.signal(SIGTERM));
  EXPECT_EQ(find_process(process.pid())->state, 'Z');
  process.reap();
  EXPECT_FALSE(find_process(process.pid()));
  EXPECT_EQ(process.exited()->code, 7);
  EXPECT_FALSE(process.signal_group(SIGTERM));
}

TEST(Process, ReportsTheSignalThatKilledIt) {
  Process process = start_one(command({"sleep", "1000"}));
  EXPECT_FALSE(process.exited());
  EXPECT_TRUE(process.signal(SIGUSR1));
  EXPECT_EQ(end_of(process).signal, SIGUSR1);
  EXPECT_EQ(process.exited()->code, 0);
}

TEST(Process, ReportsMemoryAndTime) {
  Process process = start_one(shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"));
  const ProcessExit exit = end_of(process);
  EXPECT_GT(exit.peak_rss_bytes, 100 * 1024);
  EXPECT_GT(exit.cpu_time, Duration{});
}

TEST(Process, MayBeReapedAndDestroyedByTheCallbackThatTellsItsEnd) {
  const auto loop = std::move(*Loop::open());
  auto started = *start_processes({command({"true"}), shell("exit 1")});
  std::vector<int> codes;
  for (Process& process : started)
    ASSERT_TRUE(process.watch(*loop, [&, pid = process.pid()] {
      const auto ended = std::find_if(started.begin(), started.end(),
                                      [&](const Process& one) { return one.pid() == pid; });
      codes.push_back(ended->exited()->code);
      ended->reap();
      started.erase(ended);  // Moves the others, which are still watched.
      if (started.empty()) loop->stop();
    }));
  loop->run();
  EXPECT_THAT(codes, UnorderedElementsAre(0, 1));
}

TEST(Process, GroupHearsSignalsAfterItsLeaderHasEnded) {
  TestPipe output;
  ProcessSpec spec = shell("sleep 1000 & echo $!");
  spec.output = output.writer();
  Process leader = start_one(spec);
  const pid_t member = std::stoi(output.read_line());
  EXPECT_EQ(end_of(leader).code, 0);
  EXPECT_TRUE(lives(member));
  EXPECT_TRUE(leader.signal_group(SIGTERM));
  EXPECT_TRUE(eventually([&] { return !lives(member); }));
}

TEST(Process, TakesItsGroupAlongWhenItIsDestroyed) {
  TestPipe output;
  ProcessSpec spec = shell("sleep 1000 & echo $!; wait");
  spec.output = output.writer();
  pid_t leader = 0, member = 0;
  {
    Process process = start_one(spec);
    leader = process.pid();
    member = std::stoi(output.read_line());
  }
  EXPECT_FALSE(find_process(leader));
  EXPECT_TRUE(eventually([&] { return !lives(member); }));
}

TEST(Process, DiesWithItsParent) {
  TestPipe output;
  Helper helper([&] {
    const Process process = start_one(command({"sleep", "1000"}));
    const std::string line = std::to_string(process.pid()) + "\n";
    if (::write(output.writer(), line.data(), line.size()) < 0) return 1;
    for (;;) ::pause();
  });
  const pid_t worker = std::stoi(output.read_line());
  EXPECT_TRUE(lives(worker));
  helper.kill();
  EXPECT_TRUE(eventually([&] { return !lives(worker); }));
}

TEST(Process, LeavesNoDescriptorsBehind) {
  start_one(command({"true"}));
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    start_one(command({"true"}));
    EXPECT_FALSE(start_processes({command({"/nowhere"})}));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Process, StartsByTheHundred) {
  const std::vector<ProcessSpec> specs(256, command({"/bin/true"}));
  const auto begin = std::chrono::steady_clock::now();
  auto started = start_processes(specs);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(started) << started.error().error.message;
  std::printf("256 processes started in %.1f ms\n", took.count());
  for (Process& process : *started) EXPECT_EQ(end_of(process).code, 0);
}

TEST(ProcessOrphans, AreAdoptedAndReapedAndOursAreNot) {
  ASSERT_TRUE(become_subreaper());
  TestPipe output;
  ProcessSpec spec = shell("sleep 1000 & echo $!");
  spec.output = output.writer();
  Process ours = start_one(spec);
  const pid_t orphan = std::stoi(output.read_line());
  EXPECT_EQ(end_of(ours).code, 0);
  ASSERT_TRUE(eventually(
      [&] { return find_process(orphan).value_or(ProcessInfo{}).parent == ::getpid(); }));
  EXPECT_EQ(reap_orphans({ours.pid()}), 0);
  ::kill(orphan, SIGKILL);
  EXPECT_TRUE(eventually([&] { return reap_orphans({ours.pid()}) == 1; }));
  EXPECT_FALSE(find_process(orphan));
  EXPECT_EQ(ours.exited()->code, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

}  // namespace
}  // namespace regroup::io
