// What start_processes says when it cannot, and where the kernel offers less.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <filesystem>

#include "io/process/process.h"
#include "io/process/process_path.h"
#include "io/process/process_testing.h"

namespace regroup::io {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string failure_of(const ProcessSpec& spec) {
  const auto started = start_processes({spec});
  return started ? "it started" : started.error().error.message;
}

TEST(ProcessPath, IsThatOfTheEnvironmentOrTheSystems) {
  EXPECT_EQ(search_path({"HOME=/", "PATH=/a:/b"}), "/a:/b");
  EXPECT_EQ(search_path({"XPATH=/a"}), "/bin:/usr/bin");
}

TEST(ProcessPath, IsSearchedForNamesWithoutASlash) {
  EXPECT_THAT(program_candidates("p", "/a:/b/"), ElementsAre("/a/p", "/b/p"));
  EXPECT_THAT(program_candidates("p", ":/b:"), ElementsAre("./p", "/b/p", "./p"));
  EXPECT_THAT(program_candidates("./p", "/a:/b"), ElementsAre("./p"));
}

TEST(ProcessStart, SkipsWhatIsNotExecutableInThePath) {
  const ScratchDirectory first, second;
  first.write("train", "#!/bin/sh\necho first\n", 0644);
  second.write("train", "#!/bin/sh\necho second\n", 0755);
  ProcessSpec spec = command({"train"});
  spec.environment = {"PATH=" + first.path() + ":/etc/passwd:" + second.path()};
  EXPECT_EQ(output_of(spec), "second\n");
}

TEST(ProcessStart, RunsAScriptWithoutAnInterpreterLineWithTheShell) {
  const ScratchDirectory scratch;
  const std::string script = scratch.write("plain", "echo \"$0 $1\"\n", 0755);
  EXPECT_EQ(output_of(command({script, "one"})), script + " one\n");
}

TEST(ProcessStart, SaysWhichIsTheFirstThatFailedAndKillsTheOthers) {
  TestPipe output;
  ProcessSpec good = shell("trap '' TERM HUP; while :; do sleep 1; done");
  good.output = output.writer();
  const auto started = start_processes({good, command({"/nowhere/a"}), good, command({"/b"})});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().index, 1u);
  EXPECT_EQ(started.error().error.kind, ErrorKind::InvalidArgument);
  EXPECT_EQ(output.read_all(), "");  // Ends only when no process holds the pipe any more.
}

TEST(ProcessStart, ExplainsAProgramThatIsNotThere) {
  EXPECT_EQ(failure_of(command({"no-such-program"})),
            "cannot start 'no-such-program': no such file in PATH (/usr/bin:/bin). Check the "
            "spelling, or give the path of the file.");
  EXPECT_THAT(failure_of(command({"/nowhere/train.py"})),
              HasSubstr("'/nowhere/train.py': no such file. Check"));
  EXPECT_THAT(failure_of(command({""})), HasSubstr("no such file"));
  EXPECT_THAT(failure_of(ProcessSpec{}), HasSubstr("no program is given"));
}

TEST(ProcessStart, PointsAtAProgramInTheDirectoryThatIsNotInThePath) {
  const ScratchDirectory scratch;
  scratch.write("train.py", "", 0755);
  ProcessSpec spec = command({"train.py"});
  spec.directory = scratch.path();
  EXPECT_THAT(failure_of(spec), HasSubstr("write './train.py' to run that"));
}

TEST(ProcessStart, ExplainsAMissingInterpreter) {
  const ScratchDirectory scratch;
  EXPECT_THAT(failure_of(command({scratch.write("a", "#! /opt/pyton3 -u\n", 0755)})),
              AllOf(HasSubstr("interpreter '/opt/pyton3'"), HasSubstr("Install it")));
  EXPECT_THAT(failure_of(command({scratch.write("b", "#!/bin/sh\r\n", 0755)})),
              HasSubstr("dos2unix"));
}

TEST(ProcessStart, ExplainsAFileThatCannotBeExecuted) {
  const ScratchDirectory scratch;
  EXPECT_THAT(failure_of(command({scratch.write("a", "#!/bin/sh\n", 0644)})),
              AllOf(HasSubstr("is not executable"), HasSubstr("mode 0644"), HasSubstr("chmod +x")));
  EXPECT_THAT(failure_of(command({scratch.path()})), HasSubstr("is a directory"));
  const std::string foreign(
      "\x7f"
      "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0",
      20);
  EXPECT_THAT(failure_of(command({scratch.write("b", foreign, 0755)})),
              HasSubstr("neither a program for this machine"));
}

TEST(ProcessStart, ExplainsAFileThatIsStillBeingWritten) {
  const ScratchDirectory scratch;
  std::filesystem::copy_file("/bin/true", scratch.file("copy"));
  const int writer = ::open(scratch.file("copy").c_str(), O_WRONLY | O_CLOEXEC);
  const std::string message = failure_of(command({scratch.file("copy")}));
  ::close(writer);
  EXPECT_THAT(message, HasSubstr("open for writing"));
}

TEST(ProcessStart, ExplainsTooLargeAnEnvironment) {
  ProcessSpec spec = command({"true"});
  spec.environment.push_back("HUGE=" + std::string(200'000, 'x'));
  EXPECT_THAT(failure_of(spec), AllOf(HasSubstr("together are 200"), HasSubstr("'HUGE=xxx"),
                                      HasSubstr("200005 bytes")));
}

TEST(ProcessStart, ExplainsADirectoryThatIsNotThere) {
  ProcessSpec spec = command({"true"});
  spec.directory = "/nowhere/at all";
  EXPECT_THAT(failure_of(spec),
              HasSubstr("the working directory '/nowhere/at all' does not exist"));
  spec.directory = "/etc/passwd";
  EXPECT_THAT(failure_of(spec), HasSubstr("is not a directory"));
}

TEST(ProcessStart, ExplainsWhatItCannotBeBoundTo) {
  ProcessSpec spec = command({"true"});
  spec.cpus = {4000, 4001};
  EXPECT_THAT(failure_of(spec), HasSubstr("cannot be bound to CPUs 4000,4001"));
  spec.cpus = {-1};
  EXPECT_THAT(failure_of(spec), HasSubstr("there is none"));
}

TEST(ProcessStart, ExplainsDescriptorsThatAreNotOpen) {
  ProcessSpec spec = command({"true"});
  spec.output = 987;
  EXPECT_THAT(failure_of(spec), HasSubstr("descriptors -1,987,-1"));
}

// Makes system calls fail as they do in Docker's sandbox and on old kernels.
bool forbid(std::initializer_list<long> calls) {
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(ProcessStart, WorksWhereNewerSystemCallsAreForbidden) {
  constexpr int kSkipped = 77;
  TestPipe output;
  const int inherited = ::fcntl(output.reader(), F_DUPFD, 200);
  Helper helper([&] {
    if (!forbid({SYS_clone3, SYS_close_range})) return kSkipped;
    ProcessSpec spec =
        shell("for f in /proc/self/fd/*; do [ -e $f ] && echo ${f##*/}; done; exit 3");
    spec.output = output.writer();
    Process process = start_one(spec);
    return end_of(process).code;
  });
  EXPECT_EQ(output.read_all(), "0\n1\n2\n");
  const int code = helper.wait();
  ::close(inherited);
  if (code == kSkipped) GTEST_SKIP() << "needs seccomp";
  EXPECT_EQ(code, 3);
}

TEST(ProcessStart, IsGivenUpBetweenTwoForks) {
  int asked = 0;
  std::vector<pid_t> forked;
  const std::vector<ProcessSpec> specs(50, command({"sleep", "1000"}));
  const auto started = start_processes(
      specs, {.forked = [&](std::size_t, Process& one) { forked.push_back(one.pid()); },
              .give_up = [&] { return ++asked > 3; }});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().error.kind, ErrorKind::Cancelled);
  EXPECT_EQ(forked.size(), 3u);
  for (const pid_t pid : forked) EXPECT_FALSE(lives(pid));
}

TEST(ProcessStart, IsGivenUpWhileAProgramCannotBegin) {
  bool is_stopped = false;
  pid_t pid = 0;
  const auto started = start_processes({command({"sleep", "1000"})},
                                       {.forked =
                                            [&](std::size_t, Process& one) {
                                              pid = one.pid();
                                              ::kill(pid, SIGSTOP);  // As if exec did not return.
                                              is_stopped = true;
                                            },
                                        .give_up = [&] { return is_stopped; }});
  // It may have begun before it was stopped.
  if (!started) {
    EXPECT_EQ(started.error().error.kind, ErrorKind::Cancelled);
    EXPECT_FALSE(lives(pid));
  }
}

}  // namespace
}  // namespace regroup::io
