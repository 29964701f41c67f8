#include "runtime/output/log_pump_loop.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <system_error>
#include <utility>

#include "io/loop/clock.h"
#include "runtime/common/console_thread.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {
namespace {

// A delay of this length is not visible, and at full speed a pipe of kOutputPipe does not fill in
// it.
constexpr Duration kRest = 4ms;

std::string time_of_day() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char text[32];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%03d", local.tm_hour, local.tm_min, local.tm_sec,
                static_cast<int>(now.tv_nsec / 1'000'000));
  return text;
}

}  // namespace

Result<std::unique_ptr<PumpLoop>> PumpLoop::start(std::vector<Screen*> screens, Warn warn) try {
  auto wake_up = io::WakeUp::open();
  if (!wake_up) return tl::unexpected(wake_up.error());
  std::unique_ptr<PumpLoop> loop(
      new PumpLoop(std::move(screens), std::move(warn), std::move(*wake_up)));
  auto thread = start_quiet_thread("output", [raw = loop.get()] { raw->run(); });
  if (!thread) return tl::unexpected(thread.error());
  loop->thread_ = std::move(*thread);
  return loop;
} catch (const std::system_error& error) {
  return fail(ErrorKind::Io, std::string("cannot watch the output of workers: ") + error.what() +
                                 ". Raise the limit on open files (ulimit -n).");
}

PumpLoop::PumpLoop(std::vector<Screen*> screens, Warn warn, io::WakeUp wake_up)
    : screens_(std::move(screens)),
      warn_(std::move(warn)),
      wake_up_(std::move(wake_up)),
      buffer_(kOutputRead) {
  turn_.buffer = buffer_;
}

PumpLoop::~PumpLoop() {
  if (!thread_.joinable()) return;
  post([this] { running_ = false; });
  thread_.join();
}

void PumpLoop::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (tasks_.empty()) wake_up_.ring();
  tasks_.push_back(std::move(task));
}

void PumpLoop::adopt(std::shared_ptr<PumpGroup> group) {
  post([this, group = std::move(group)]() mutable {
    release_group();
    group_ = std::move(group);
    prefix_has_time_ = false;
    for (Screen* screen : screens_) {
      screen->forget_sources();
      screen->writer().set_files_have_all(
          std::all_of(group_->streams.begin(), group_->streams.end(), [&](const auto& stream) {
            return stream->plan().screen != screen || stream->plan().file;
          }));
    }
    for (auto& stream : group_->streams) {
      prefix_has_time_ = prefix_has_time_ || stream->plan().prefix.has_time();
      if (stream->watch(set_)) continue;
      if (warn_) warn_("the system does not let us watch the output of a worker; it is lost");
      stream->close();
    }
  });
}

void PumpLoop::drain(Instant deadline, std::function<void(std::vector<int>)> done) {
  post([this, deadline, done = std::move(done)]() mutable {
    drains_.push_back({deadline, std::move(done)});
  });
}

void PumpLoop::say(Screen& screen, std::string line) {
  post([&screen, line = std::move(line)]() mutable {
    if (line.empty() || line.back() != '\n') line += '\n';
    screen.show({.number = 0}, line);
  });
}

void PumpLoop::show_live(Screen& screen, core::output::LiveLine line) {
  post([this, &screen, line = std::move(line)]() mutable {
    if (!live_) live_ = Live{.screen = &screen, .line = {}};
    live_->line = std::move(line);
    live_->changed = true;
  });
}

void PumpLoop::hide_live() {
  post([this] {
    if (live_) live_->screen->hide_live();
    live_.reset();
  });
}

void PumpLoop::catch_up(std::function<void()> done) {
  post([this, done = std::move(done)]() mutable {
    resting_until_ = {};  // Tasks come before the streams in a turn.
    catching_up_.push_back(std::move(done));
  });
}

void PumpLoop::after_this(std::function<void()> task) {
  post([this, task = std::move(task)] {
    hand_over();
    task();
  });
}

void PumpLoop::run() {
  while (running_) {
    sleep();
    take_turn();
  }
  release_group();
  hand_over();
  for (const auto& drain : drains_) drain.done({});
}

void PumpLoop::sleep() {
  const Instant now = io::now();
  const bool rests = drains_.empty() && now < resting_until_;
  auto until = next_deadline();
  if (rests) until = resting_until_;
  std::array<pollfd, 2> ready{{{wake_up_.descriptor(), POLLIN, 0}, {set_.descriptor(), POLLIN, 0}}};
  timespec timeout{};
  if (until) {
    const auto left = std::max(*until - now, Duration{});
    timeout = {static_cast<time_t>(left / 1s), static_cast<long>((left % 1s) / 1ns)};
  }
  ::ppoll(ready.data(), rests ? 1 : 2, until ? &timeout : nullptr, nullptr);
}

void PumpLoop::take_turn() {
  wake_up_.clear();
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  turn_.now = io::now();
  for (const auto& task : tasks) task();
  if (prefix_has_time_) turn_.time = time_of_day();
  if (group_ && (!drains_.empty() || turn_.now >= resting_until_)) {
    turn_.hurry = false;
    set_.dispatch();
    if (turn_.bytes > 0 && !turn_.hurry) resting_until_ = turn_.now + kRest;
    for (auto& stream : group_->streams) {
      const auto deadline = stream->next_deadline();
      if (deadline && *deadline <= turn_.now) stream->expire();
    }
  }
  for (const auto& done : std::exchange(catching_up_, {})) done();
  finish_drains();
  draw_live();
  hand_over();
}

// Only while it can be seen: below an unfinished line of a worker it cannot, and the end of that
// line wakes us anyway.
std::optional<Instant> PumpLoop::next_drawing() const {
  if (!live_ || !live_->screen->can_show_live()) return {};
  const bool there = live_->screen->shows_live() && !live_->changed;
  const Instant next = core::output::next_drawing(
      live_->line, there ? std::optional(live_->drawn) : std::nullopt, turn_.now);
  return std::max(next, live_->drawn + core::output::kDrawAgain);
}

void PumpLoop::draw_live() {
  const auto due = next_drawing();
  if (!due || *due > turn_.now) return;
  live_->drawn = turn_.now;
  // A console that does not read gets no stale seconds to catch up with.
  if (!live_->screen->writer().is_idle()) return;
  std::string text = core::output::live_text(live_->line, turn_.now, live_->screen->live_columns());
  const bool same = live_->screen->shows_live() && text == live_->shown;
  live_->changed = false;
  if (same) return;
  live_->screen->show_live(text);
  live_->shown = std::move(text);
}

void PumpLoop::finish_drains() {
  if (drains_.empty()) return;
  const auto is_open = [](const auto& stream) { return stream->is_open(); };
  const bool all_closed =
      !group_ || std::none_of(group_->streams.begin(), group_->streams.end(), is_open);
  for (std::size_t i = 0; i < drains_.size();) {
    if (!all_closed && turn_.now < drains_[i].deadline) {
      ++i;
      continue;
    }
    std::set<int> still_open;
    if (group_) {
      for (auto& stream : group_->streams) {
        stream->read_rest();
        if (!stream->is_open()) continue;
        stream->finish_lines();
        still_open.insert(stream->plan().local_rank);
      }
    }
    hand_over();
    const Drain drain = std::move(drains_[i]);
    drains_.erase(drains_.begin() + static_cast<std::ptrdiff_t>(i));
    drain.done({still_open.begin(), still_open.end()});
  }
}

void PumpLoop::release_group() {
  if (!group_) return;
  for (auto& stream : group_->streams) {
    if (!stream->is_open()) continue;
    stream->read_rest();
    stream->finish_lines();
    stream->close();
  }
  hand_over();
  group_.reset();
}

void PumpLoop::hand_over() {
  if (group_) {
    for (auto& copy : group_->filtered) {
      if (copy->pending.empty()) continue;
      const std::uint64_t before = copy->file.lost_bytes();
      copy->file.append(copy->pending);
      turn_.lost_bytes += copy->file.lost_bytes() - before;
      copy->pending.clear();
    }
  }
  for (Screen* screen : screens_) screen->hand_over();
  bytes_ += std::exchange(turn_.bytes, 0);
  lost_bytes_ += std::exchange(turn_.lost_bytes, 0);
}

std::optional<Instant> PumpLoop::next_deadline() const {
  std::optional<Instant> next;
  const auto consider = [&](std::optional<Instant> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  if (group_)
    for (const auto& stream : group_->streams) consider(stream->next_deadline());
  for (const auto& drain : drains_) consider(drain.deadline);
  consider(next_drawing());
  return next;
}

}  // namespace regroup::runtime
