#include "runtime/output/log_pump.h"

#include <algorithm>
#include <future>
#include <mutex>
#include <utility>

#include "core/output/limits.h"
#include "core/output/tail.h"
#include "io/file/log_file.h"
#include "io/file/pseudo_terminal.h"
#include "io/loop/clock.h"
#include "runtime/common/limits.h"
#include "runtime/common/log.h"
#include "runtime/output/log_pump_group.h"
#include "runtime/output/log_pump_loop.h"

namespace regroup::runtime {

struct LogPump::Impl {
  LogPumpOptions options;
  std::unique_ptr<Screen> one;
  std::unique_ptr<Screen> two;  // Where the errors have a console of their own.
  Screens screens;
  std::unique_ptr<PumpLoop> loop;  // Destroyed before the screens.

  std::mutex mutex;
  std::shared_ptr<PumpGroup> group;  // Its contents belong to the loop, except the tails.
  std::vector<io::Descriptor> workers_ends;

  Result<std::unique_ptr<Screen>> open_screen(int fd) const {
    auto writer = ConsoleWriter::start(fd, options.warn, options.warning_line);
    if (!writer) return tl::unexpected(writer.error());
    return std::make_unique<Screen>(fd, io::kind_of(fd) == io::FdKind::Terminal,
                                    std::move(*writer));
  }

  Result<void> open_screens() {
    const bool same = io::is_same_file(options.console_out, options.console_err);
    if (io::kind_of(options.console_out) != io::FdKind::Closed) {
      auto screen = open_screen(options.console_out);
      if (!screen) return tl::unexpected(screen.error());
      one = std::move(*screen);
      screens.out = one.get();
      if (same) screens.err = one.get();
    }
    if (!same && io::kind_of(options.console_err) != io::FdKind::Closed) {
      auto screen = open_screen(options.console_err);
      if (!screen) return tl::unexpected(screen.error());
      two = std::move(*screen);
      screens.err = two.get();
    }
    return {};
  }

  std::vector<Screen*> all_screens() const {
    std::vector<Screen*> all;
    if (one) all.push_back(one.get());
    if (two) all.push_back(two.get());
    return all;
  }
};

LogPump::LogPump(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LogPump::~LogPump() = default;

Result<std::unique_ptr<LogPump>> LogPump::start(LogPumpOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  // Our lines from now on are the pump's; those before them come first.
  flush_lines(kConsolePatience);
  if (auto opened = impl->open_screens(); !opened) return tl::unexpected(opened.error());
  auto loop = PumpLoop::start(impl->all_screens(), impl->options.warn);
  if (!loop) return tl::unexpected(loop.error());
  impl->loop = std::move(*loop);
  return std::unique_ptr<LogPump>(new LogPump(std::move(impl)));
}

Result<std::vector<WorkerStreams>> LogPump::open(const LogRoutes& routes,
                                                 const std::vector<WorkerName>& names) {
  auto opened = open_group(impl_->options, impl_->screens, impl_->loop->turn(), routes, names);
  if (!opened) return tl::unexpected(opened.error());
  const std::shared_ptr<PumpGroup> group = std::move(opened->group);
  impl_->loop->adopt(group);
  const std::lock_guard lock(impl_->mutex);
  impl_->group = group;
  impl_->workers_ends = std::move(opened->ends.held);
  return std::move(opened->ends.streams);
}

void LogPump::started() {
  const std::lock_guard lock(impl_->mutex);
  impl_->workers_ends.clear();
}

void LogPump::drain(Instant deadline, std::function<void(std::vector<int>)> done) {
  impl_->loop->drain(deadline, std::move(done));
}

void LogPump::catch_up(Duration limit) {
  auto read = std::make_shared<std::promise<void>>();
  auto future = read->get_future();
  impl_->loop->catch_up([read] { read->set_value(); });
  future.wait_for(limit);
}

LogPump::TailOf LogPump::tail(int local_rank) const {
  std::shared_ptr<PumpGroup> group;
  {
    const std::lock_guard lock(impl_->mutex);
    group = impl_->group;
  }
  if (!group) return {};
  for (const auto& worker : group->workers) {
    if (worker.local_rank != local_rank) continue;
    if (worker.errors != nullptr) return {worker.errors->tail(), worker.one_stream};
    constexpr std::size_t kLooked = core::output::kTailBytes + 1;
    const std::string end = io::read_end(worker.errors_file, kLooked);
    return {core::output::from_line_start(end, end.size() < kLooked), worker.one_stream};
  }
  return {};
}

void LogPump::copy_window_size() {
  const std::lock_guard lock(impl_->mutex);
  impl_->loop->after_this([group = impl_->group, from = impl_->options.console_out] {
    if (!group) return;
    for (const auto& stream : group->streams)
      if (stream->is_open()) io::copy_window_size(from, stream->plan().from.get());
  });
}

void LogPump::print(const std::string& line) {
  Screen* screen = impl_->screens.err != nullptr ? impl_->screens.err : impl_->screens.out;
  if (screen != nullptr) impl_->loop->say(*screen, line);
}

void LogPump::show_live(core::output::LiveLine line) {
  if (Screen* screen = impl_->screens.err; screen != nullptr && screen->is_terminal())
    impl_->loop->show_live(*screen, std::move(line));
}

void LogPump::hide_live() { impl_->loop->hide_live(); }

bool LogPump::flush_console(Duration limit) {
  const Instant deadline = io::deadline_after(limit);
  auto with_consoles = std::make_shared<std::promise<void>>();
  auto future = with_consoles->get_future();
  impl_->loop->after_this([with_consoles] { with_consoles->set_value(); });
  if (future.wait_for(std::min(limit, Duration(24h))) != std::future_status::ready) return false;
  bool all = true;
  for (Screen* screen : impl_->all_screens()) all = screen->writer().flush(deadline) && all;
  return all;
}

LogPump::Counters LogPump::counters() const {
  Counters counters{.bytes = impl_->loop->bytes(), .lost_bytes = impl_->loop->lost_bytes()};
  for (Screen* screen : impl_->all_screens()) {
    counters.lines += screen->writer().lines();
    counters.dropped_lines += screen->writer().dropped_lines();
  }
  return counters;
}

}  // namespace regroup::runtime
