// What a server of timers does under load: ours or PyTorch's, whoever reads the pipe that
// TORCHELASTIC_TIMER_FILE names.
//
//   timer_load expiry N LIVE      with LIVE other timers, the seconds between the expiry of a timer
//                                 and the arrival of its signal, N times, a line each
//   timer_load flood N PROCESSES  the seconds until the server has read N requests
//   timer_load hold               sets a timer, says "ready", and sleeps until it is killed
//   timer_load beat N             the seconds for N heartbeats, and for N readings of the clock
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "io/loop/clock.h"
#include "regroup/timer.h"
#include "wire/text/timer_line.h"

namespace {

using regroup::Duration;
using regroup::Instant;
namespace io = regroup::io;
using namespace std::chrono_literals;

constexpr double kFar = 3000;  // Seconds.

double wall() { return static_cast<double>(io::utc_micros()) / 1e6; }
double seconds(Duration span) { return static_cast<double>(span.count()) / 1e9; }

std::string pipe_path() {
  const char* path = ::getenv("TORCHELASTIC_TIMER_FILE");
  return path == nullptr ? "" : path;
}

std::string line(const std::string& scope, double expiration, int signal) {
  return regroup::wire::encode_timer_line(
      {.pid = ::getpid(), .scope = scope, .expiration = expiration, .signal = signal});
}

// Blocks while the pipe is full. One descriptor for all lines, so that the server is measured and
// not the opening of files.
class Writer {
 public:
  Writer() : fd_(::open(pipe_path().c_str(), O_WRONLY | O_CLOEXEC)) {
    if (fd_ >= 0) return;
    std::fprintf(stderr, "timer_load: cannot open the pipe '%s'\n", pipe_path().c_str());
    std::exit(1);
  }
  ~Writer() { ::close(fd_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  bool put(const std::string& text) const {
    return ::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  void until_read() const {
    for (int left = 1; left != 0; ::usleep(100)) ::ioctl(fd_, FIONREAD, &left);
  }

 private:
  int fd_;
};

// Timers of another process: all of ours are gone when one of them has expired. It ends with us.
pid_t hold_many(int count) {
  int ends[2];
  if (count == 0 || ::pipe2(ends, O_CLOEXEC) != 0) return 0;
  const pid_t holder = ::fork();
  if (holder == 0) {
    {
      const Writer pipe;
      for (int n = 0; n < count; ++n)
        if (!pipe.put(line(std::to_string(n), wall() + kFar, 0))) ::_exit(1);
      pipe.until_read();
    }
    if (::write(ends[1], "", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char done = 0;
  const bool good = ::read(ends[0], &done, 1) == 1;
  ::close(ends[0]);
  return good ? holder : -1;
}

int expiry(int count, int live) {
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &told, nullptr);
  const pid_t holder = hold_many(live);
  if (holder < 0) return 1;
  // It opens and closes the pipe each time: PyTorch's server looks at no deadline while a writer
  // has it open and is silent.
  regroup::PipeTimerClient client(pipe_path(), SIGUSR1);
  for (int i = 0; i < count; ++i) {
    const double at = wall() + 0.005;
    if (!client.acquire("expires", at)) return 1;
    const timespec longest{.tv_sec = 30, .tv_nsec = 0};
    if (::sigtimedwait(&told, nullptr, &longest) != SIGUSR1) return 1;
    std::printf("%.9f\n", wall() - at);
  }
  if (holder > 0) ::kill(holder, SIGKILL);
  return 0;
}

int flood(int count, int processes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 1;
  const Writer pipe;
  for (int i = 0; i < processes; ++i) {
    if (::fork() != 0) continue;
    char go = 0;
    std::vector<std::string> lines;
    for (int n = 0; n < 8; ++n) {
      lines.push_back(line("train.py#" + std::to_string(n), wall() + kFar, SIGKILL));
      lines.push_back(line("train.py#" + std::to_string(n), -1, 0));
    }
    const Writer own;
    if (!own.put(lines[1]) || ::read(ends[0], &go, 1) != 1) ::_exit(1);
    for (int n = 0; n < count / processes; ++n)
      if (!own.put(lines[static_cast<std::size_t>(n) % lines.size()])) ::_exit(1);
    ::_exit(0);
  }
  ::usleep(100'000);
  pipe.until_read();
  const Instant begun = io::now();
  if (::write(ends[1], std::string(static_cast<std::size_t>(processes), 'g').data(),
              static_cast<std::size_t>(processes)) != processes)
    return 1;
  for (int status = 0; ::wait(&status) > 0;)
    if (status != 0) return 1;
  pipe.until_read();
  std::printf("%.9f\n", seconds(io::now() - begun));
  return 0;
}

int hold() {
  {
    const Writer pipe;
    if (!pipe.put(line("held", wall() + kFar, SIGKILL))) return 1;
    pipe.until_read();
  }
  std::printf("ready\n");
  std::fflush(stdout);
  for (;;) ::pause();
}

int beat(int count) {
  const auto begun = io::now();
  for (int i = 0; i < count; ++i)
    if (!regroup::heartbeat(600s)) return 1;
  const auto beaten = io::now();
  Instant last;
  for (int i = 0; i < count; ++i) last = std::max(last, io::now());
  const auto read = io::now();
  std::printf("%.9f\n%.9f\n", seconds(beaten - begun), seconds(read - beaten));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const int first = argc > 2 ? std::atoi(argv[2]) : 0;
  const int second = argc > 3 ? std::atoi(argv[3]) : 0;
  if (what == "expiry" && argc == 4) return expiry(first, second);
  if (what == "flood" && argc == 4) return flood(first, second);
  if (what == "hold") return hold();
  if (what == "beat" && argc == 3) return beat(first);
  std::fprintf(stderr, "usage: timer_load expiry N LIVE | flood N PROCESSES | hold | beat N\n");
  return 2;
}
