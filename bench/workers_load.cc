// How fast processes are started, and how soon the loop hears of a death.
//
//   workers_load start ours|kernel N     seconds until N programs have been begun: by us, or by a
//   bare
//                                        fork and exec with nothing around it
//   workers_load deaths ours|sleep N     the seconds between a worker's last instruction and our
//   event,
//                                        one line each; or what a sleeping process of this machine
//                                        needs to wake up for a byte in a pipe, which nobody can be
//                                        quicker than
//   workers_load bare N PROGRAM ARG...   nothing but fork and exec, RANK in the environment; ends
//                                        with the last of them
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "io/process/process.h"

namespace {

using regroup::Duration;
using regroup::Instant;
namespace io = regroup::io;

double seconds(Duration span) { return static_cast<double>(span.count()) / 1e9; }

int start_ours(int count) {
  const std::vector<io::ProcessSpec> specs(static_cast<std::size_t>(count),
                                           {.argv = {"/bin/true"}, .environment = {}});
  const Instant begun = io::now();
  const auto started = io::start_processes(specs);
  const Instant done = io::now();
  if (!started) {
    std::fprintf(stderr, "workers_load: %s\n", started.error().error.message.c_str());
    return 1;
  }
  std::printf("%.9f\n", seconds(done - begun));
  return 0;
}

int start_kernel(int count) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 1;
  const Instant begun = io::now();
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child < 0) return 1;
    if (child == 0) {
      char name[] = "/bin/true";
      char* argv[] = {name, nullptr};
      ::execv(name, argv);
      ::_exit(127);
    }
  }
  ::close(ends[1]);
  char none = 0;
  if (::read(ends[0], &none, 1) != 0) return 1;  // The end of file: all have begun their program.
  const Instant done = io::now();
  while (::wait(nullptr) > 0) {
  }
  std::printf("%.9f\n", seconds(done - begun));
  return 0;
}

int start_bare(int count, char** argv) {
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child < 0) return 1;
    if (child == 0) {
      ::setenv("RANK", std::to_string(i).c_str(), 1);
      ::execv(argv[0], argv);
      ::_exit(127);
    }
  }
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;)
    if (status != 0) failed = 1;
  return failed;
}

// Says when, and is gone.
int die(bool by_byte) {
  const Instant now = io::now();
  if (::write(STDOUT_FILENO, &now, sizeof now) != sizeof now) return 1;
  if (by_byte) return 0;
  return ::kill(::getpid(), SIGKILL);
}

// One after the other, each begun when the loop has heard of the last one.
class Deaths {
 public:
  Deaths(io::Loop& loop, const char* self, int count) : loop_(loop), self_(self), left_(count) {}

  void next() {
    if (left_-- == 0) return loop_.stop();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return give_up();
    auto started =
        io::start_processes({{.argv = {self_, "die"}, .environment = {}, .output = ends[1]}});
    ::close(ends[1]);
    said_ = ends[0];
    if (!started) return give_up();
    process_.emplace(std::move(started->front()));
    process_->watch(loop_, [this] { heard(io::now()); });
  }
  bool failed() const { return failed_; }

 private:
  void heard(Instant now) {
    Instant said;
    if (::read(said_, &said, sizeof said) != sizeof said) return give_up();
    ::close(said_);
    process_->reap();
    std::printf("%.9f\n", seconds(now - said));
    loop_.post([this] { next(); });
  }
  void give_up() {
    failed_ = true;
    loop_.stop();
  }

  io::Loop& loop_;
  const char* self_;
  int left_;
  int said_ = -1;
  bool failed_ = false;
  std::optional<io::Process> process_;
};

int deaths_ours(const char* self, int count) {
  auto loop = io::Loop::open();
  if (!loop) return 1;
  Deaths deaths(**loop, self, count);
  (*loop)->post([&] { deaths.next(); });
  (*loop)->run();
  return deaths.failed() ? 1 : 0;
}

int wake_ups(const char* self, int count) {
  for (int i = 0; i < count; ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return 1;
    auto started =
        io::start_processes({{.argv = {self, "byte"}, .environment = {}, .output = ends[1]}});
    ::close(ends[1]);
    if (!started) return 1;
    Instant said;
    if (::read(ends[0], &said, sizeof said) != sizeof said) return 1;
    const Instant heard = io::now();
    ::close(ends[0]);
    std::printf("%.9f\n", seconds(heard - said));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "die" || what == "byte") return die(what == "byte");
  if (what == "bare" && argc > 3) return start_bare(std::atoi(argv[2]), argv + 3);
  if (argc != 4) {
    std::fprintf(stderr,
                 "usage: workers_load start ours|kernel N\n"
                 "       workers_load deaths ours|sleep N\n"
                 "       workers_load bare N PROGRAM ARG...\n");
    return 2;
  }
  const bool ours = std::strcmp(argv[2], "ours") == 0;
  const int count = std::atoi(argv[3]);
  if (what == "start") return ours ? start_ours(count) : start_kernel(count);
  return ours ? deaths_ours(argv[0], count) : wake_ups(argv[0], count);
}
