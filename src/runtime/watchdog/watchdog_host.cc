#include "runtime/watchdog/watchdog_host.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "io/loop/clock.h"
#include "io/process/signals.h"
#include "runtime/common/limits.h"
#include "runtime/common/temporaries.h"

namespace regroup::runtime {

using core::watchdog::ProcessId;
using core::watchdog::Timer;
using core::watchdog::Verdict;

namespace {

ProcessId id_of(pid_t pid) { return ProcessId{static_cast<std::uint64_t>(pid)}; }

// A scope is any text, most often with a file's name; only what cannot be printed needs quotes.
std::string shown(const std::string& scope) {
  for (const char c : scope)
    if (c <= ' ' || c == '\x7f') return printable(scope);
  constexpr std::size_t kMost = 200;
  return scope.empty() ? "''" : scope.size() > kMost ? printable(scope) : scope;
}

std::string expired_in_words(const Timer& timer) {
  return fmt::format("timer expired: scope {} after {}", shown(timer.scope),
                     limit_in_words(timer.after));
}

}  // namespace

std::string limit_in_words(Duration limit) {
  const double seconds = static_cast<double>(limit.count()) / 1e9;
  constexpr double kMinute = 60;
  // Rounded, because a request takes a moment to get here: people do not want to read 29.9998 s.
  if (seconds >= kMinute - 0.5)
    return in_words(std::chrono::seconds(std::llround(std::min(seconds, 1e9))));
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2g s", std::max(seconds, 0.0));
  return text.data();
}

std::string default_timer_path() {
  std::array<unsigned char, 16> bytes{};
  for (std::size_t got = 0; got < bytes.size();) {
    const ssize_t count = ::getrandom(bytes.data() + got, bytes.size() - got, 0);
    if (count > 0) got += static_cast<std::size_t>(count);
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // A UUID of version 4.
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string uuid;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    uuid += kDigits[bytes[i] >> 4];
    uuid += kDigits[bytes[i] & 15];
  }
  return (directory_for_temporaries() / ("watchdog_timer_" + uuid)).string();
}

WatchdogHost::WatchdogHost(io::Loop& loop, std::unique_ptr<io::Fifo> fifo, WatchdogEvents events)
    : loop_(loop),
      fifo_(std::move(fifo)),
      events_(std::move(events)),
      room_(kTimerRead),
      deadline_(loop) {}

Result<std::unique_ptr<WatchdogHost>> WatchdogHost::open(io::Loop& loop, const std::string& path,
                                                         WatchdogEvents events) {
  auto fifo = io::Fifo::create(path);
  if (!fifo) return tl::unexpected(fifo.error());
  std::unique_ptr<WatchdogHost> host(new WatchdogHost(loop, std::move(*fifo), std::move(events)));
  if (!host->fifo_->watch(loop, [raw = host.get()] { raw->read_pipe(); }))
    return fail(ErrorKind::Io, "cannot watch the pipe " + path +
                                   ": no descriptors left. Raise the limit on open files (ulimit "
                                   "-n).");
  return host;
}

void WatchdogHost::complain(const std::string& line) {
  ++complaints_;
  if (complaints_ > kTimerComplaints) return;
  events_.warn("the timer pipe: " + line);
  if (complaints_ == kTimerComplaints)
    events_.warn("the timer pipe: there is more like this, which is not told any longer");
}

void WatchdogHost::read_pipe() {
  // What a full pipe holds was there when we began; a worker that writes without a pause cannot
  // keep us here.
  for (std::size_t got = 0; got < fifo_->capacity();) {
    // The clock is read before the pipe: everything in it was written before that, and by this
    // clock.
    const io::BothClocks clocks = io::read_both_clocks();
    clock_.look(clocks.now, clocks.since_1970);
    const std::size_t count = fifo_->read(room_);
    read_.lines.clear();
    read_.complaints.clear();
    reader_.read({room_.data(), count}, read_);
    const Instant now = io::now();
    heard_.clear();
    for (const std::string& line : read_.complaints) complain("a line is ignored: " + line);
    for (const wire::TimerLine& line : read_.lines) take(line, now);
    got += count;
    if (count < room_.size()) break;
  }
  arm();
}

void WatchdogHost::take(const wire::TimerLine& line, Instant now) {
  const auto pid = static_cast<pid_t>(line.pid);
  if (events_.heard_from && heard_.insert(pid).second) events_.heard_from(pid);
  if (line.heartbeat && events_.heartbeat) return events_.heartbeat();
  if (line.is_release()) return watchdog_.release(id_of(pid), line.scope);
  if (!know(pid)) return;
  const Instant deadline = clock_.translate(line.expiration, now);
  const bool kept = watchdog_.acquire({.process = id_of(pid),
                                       .scope = line.scope,
                                       .deadline = deadline,
                                       .after = deadline - now,
                                       .signal = line.signal,
                                       .said = line.expiration});
  if (kept || std::exchange(too_many_, true)) return;
  events_.warn(
      fmt::format("there are {} timers: no more are kept until some are released. Give repeated "
                  "work the same scope.",
                  watchdog_.size()));
}

// Watched from the first timer of a process to its end.
bool WatchdogHost::know(pid_t pid) {
  if (known_.contains(pid)) return true;
  // Opened first: then the process that we look at next is the one that we hold, or it is gone.
  auto process = io::ProcessWatch::open(pid);
  if (!process) {
    complain("a timer is ignored: " + process.error().message);
    return false;
  }
  if (*process == nullptr) return false;
  if (!events_.belongs(pid)) {
    if ((*process)->signal(0) == ESRCH || pid == std::exchange(last_stranger_, pid)) return false;
    const auto info = io::find_process(pid);
    if (info && info->state != 'Z')
      complain(
          fmt::format("a timer of process {} ({}) is ignored: it is none of this node's workers, "
                      "nor started by one",
                      pid, info->name));
    return false;
  }
  // It calls back later, not from here.
  if (!(*process)->watch(loop_, [this, pid] { ended(pid); })) {
    complain(
        fmt::format("a timer is ignored: cannot watch process {}: no descriptors left. Raise the "
                    "limit on open files (ulimit -n).",
                    pid));
    return false;
  }
  known_.emplace(pid, std::move(*process));
  return true;
}

void WatchdogHost::ended(pid_t pid) {
  record_killed(pid);
  watchdog_.forget(id_of(pid));
  known_.erase(pid);
  arm();
}

void WatchdogHost::judge() {
  read_pipe();  // A release may be in it.
  for (const Verdict& verdict : watchdog_.expire(io::now())) carry_out(verdict);
  arm();
}

void WatchdogHost::carry_out(const Verdict& verdict) {
  const auto pid = static_cast<pid_t>(verdict.process.value);
  const std::size_t last = verdict.deciding.value_or(verdict.expired.size() - 1);
  for (std::size_t i = 0; i < verdict.expired.size(); ++i) {
    const Timer& timer = verdict.expired[i];
    events_.note(fmt::format("watchdog: process {}: {}", pid, expired_in_words(timer)));
    if (i <= last) record("timer expired", timer);
  }
  const auto process = known_.find(pid);
  if (process == known_.end()) return;
  if (!verdict.deciding) {
    // Its other timers stay: PyTorch drops them, and with them the one that would have ended it.
    events_.note(
        fmt::format("watchdog: process {} lives on: its timers are without a signal", pid));
    return;
  }
  watchdog_.forget(verdict.process);
  const Timer& timer = verdict.expired[*verdict.deciding];
  events_.note(fmt::format("watchdog: process {} gets {}", pid, io::signal_name(timer.signal)));
  killing_.insert_or_assign(pid, timer);
  if (events_.expired({.pid = pid,
                       .signal = timer.signal,
                       .why = expired_in_words(timer),
                       .process = *process->second}))
    record_killed(pid);
}

void WatchdogHost::record(const char* what, const Timer& timer) const {
  if (events_.record) events_.record(what, timer);
}

void WatchdogHost::record_killed(pid_t pid) {
  const auto found = killing_.find(pid);
  if (found == killing_.end()) return;
  record("kill worker process", found->second);
  killing_.erase(found);
}

void WatchdogHost::arm() {
  const auto next = watchdog_.next_deadline();
  if (next && next->since_start < Duration::max())
    deadline_.set(*next, [this] { judge(); });
  else
    deadline_.cancel();
}

void WatchdogHost::forget_all() {
  read_pipe();
  while (!killing_.empty()) record_killed(killing_.begin()->first);
  watchdog_.forget_all();
  known_.clear();
  arm();
}

}  // namespace regroup::runtime
