// For the tests of processes: starts them, waits for what they do. No test waits for a fixed time.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "io/loop/clock.h"
#include "io/loop/eventually_testing.h"
#include "io/loop/loop.h"
#include "io/process/process.h"
#include "io/process/process_table.h"

namespace regroup::io {

inline ProcessSpec command(std::vector<std::string> argv) {
  return {.argv = std::move(argv), .environment = {"PATH=/usr/bin:/bin"}};
}
inline ProcessSpec shell(const std::string& script) { return command({"/bin/sh", "-c", script}); }

class TestPipe {
 public:
  TestPipe() { CHECK(::pipe2(ends_.data(), O_CLOEXEC) == 0); }
  ~TestPipe() {
    close_writer();
    ::close(ends_[0]);
  }
  TestPipe(const TestPipe&) = delete;
  TestPipe& operator=(const TestPipe&) = delete;
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) ::close(std::exchange(ends_[1], -1));
  }
  // Until every writer has closed it.
  std::string read_all() {
    close_writer();
    std::string text;
    std::array<char, 4096> some;
    for (ssize_t size; (size = ::read(ends_[0], some.data(), some.size())) != 0;)
      if (size > 0) text.append(some.data(), static_cast<std::size_t>(size));
    return text;
  }
  std::string read_line() const {
    std::string line;
    for (char c; ::read(ends_[0], &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

 private:
  std::array<int, 2> ends_;
};

// Waits for the process with a loop, as its owner would. Fails the program if it takes too long.
inline ProcessExit end_of(Process& process) {
  const auto loop = std::move(*Loop::open());
  Timer too_long(*loop);
  too_long.set(deadline_after(kGenerous), [] { CHECK(!"the process does not end"); });
  CHECK(process.watch(*loop, [&] { loop->stop(); }));
  loop->run();
  return *process.exited();
}

inline Process start_one(const ProcessSpec& spec) {
  auto started = start_processes({spec});
  if (!started) std::fprintf(stderr, "%s\n", started.error().error.message.c_str());
  CHECK(started.has_value());
  return std::move(started->front());
}

inline std::string output_of(ProcessSpec spec) {
  TestPipe pipe;
  spec.output = spec.errors = pipe.writer();
  Process process = start_one(spec);
  std::string text = pipe.read_all();
  end_of(process);
  return text;
}

inline bool lives(pid_t pid) {
  const auto process = find_process(pid);
  return process && process->state != 'Z' && process->state != 'X';
}

inline std::vector<ProcessInfo> living_members_of_session(pid_t leader) {
  std::vector<ProcessInfo> members;
  for (const ProcessInfo& process : list_processes())
    if (process.session == leader && process.state != 'Z') members.push_back(process);
  return members;
}

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// SigBlk, SigIgn, ... of a /proc/PID/status.
inline std::uint64_t signal_mask(const std::string& status, const std::string& name) {
  const auto at = status.find(name + ":");
  CHECK(at != std::string::npos);
  return std::stoull(status.substr(at + name.size() + 1), nullptr, 16);
}
inline std::uint64_t signal_bit(int number) { return std::uint64_t{1} << (number - 1); }

// Runs in a forked child, whose exit code is what it returns; or it never returns, and is killed.
class Helper {
 public:
  explicit Helper(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(body());
  }
  ~Helper() {
    if (pid_ > 0) kill();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  int wait() {
    int status = -1;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

// A directory that is gone after the test, with what is in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = std::filesystem::temp_directory_path() / "regroup-test-XXXXXX";
    CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  std::string write(const std::string& name, const std::string& text, mode_t mode) const {
    std::ofstream(file(name)) << text;
    ::chmod(file(name).c_str(), mode);
    return file(name);
  }

 private:
  std::string path_;
};

}  // namespace regroup::io
