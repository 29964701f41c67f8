#include "runtime/common/console.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "io/file/pipe.h"
#include "io/loop/clock.h"
#include "runtime/common/console_thread.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {
namespace {

constexpr Duration kFarewell = 2s;
// How much is written at a time. At the end the pieces are small, so that a slow console can be
// told from one that does not read: one that takes a kilobyte in kFarewell is waited for.
constexpr std::size_t kSlice = 64 * 1024;
constexpr std::size_t kLastSlice = 1024;
// We wait for a console whose backlog is full if it takes this much in this time. One that takes
// less would slow the workers down, so it misses lines instead.
constexpr Duration kPatience = 250ms;
constexpr std::uint64_t kReadsWell = 256 * 1024;
// A file on a full disk: space may come back, so it is tried again this often, and meanwhile it is a
// console that does not read.
constexpr Duration kFullDisk = 200ms;
// Longer ones would overflow the clock of the wait.
constexpr Duration kLongestWait = 24h;
constexpr std::size_t kSpare = 2 * kConsoleText;
constexpr std::size_t kSpares = 4;

}  // namespace

struct ConsoleWriter::State {
  std::mutex mutex;
  std::condition_variable wake;   // For the writer.
  std::condition_variable moved;  // For threads that wait for the writer.
  io::Descriptor fd;
  std::function<void(const std::string&)> warn;
  std::function<std::string(const std::string&)> own_line;

  std::deque<std::string> queue;
  std::size_t waiting_bytes = 0;    // With what is being written.
  std::vector<std::string> spares;  // Their memory is warm.
  bool asleep = false;
  bool busy = false;
  bool warning = false;  // Inside `warn`.
  bool gone = false;     // The console; nothing is written any more.
  bool stopping = false;
  bool awaited = false;  // A thread waits for room.
  bool ended = false;
  std::uint64_t written = 0;

  bool dropping = false;
  bool ends_line = true;  // Whether the last text that was taken ended its line.
  bool files_have_all = false;
  std::uint64_t dropped_here = 0;  // Since the last line about it.
  std::atomic<std::uint64_t> taken_lines = 0;
  std::atomic<std::uint64_t> dropped_lines = 0;

  void add(std::string text) {
    waiting_bytes += text.size();
    ends_line = text.back() == '\n';
    queue.push_back(std::move(text));
    if (asleep) wake.notify_one();
  }

  void say_what_is_missing() {
    dropping = false;
    const std::string text =
        fmt::format("{} {} not shown, because the console did not read{}", dropped_here,
                    dropped_here == 1 ? "line was" : "lines were",
                    files_have_all ? "; the files have them" : "");
    add((ends_line ? "" : "\n") + (own_line ? own_line(text) : "regroup: " + text) + "\n");
    dropped_here = 0;
  }
};

Result<std::unique_ptr<ConsoleWriter>> ConsoleWriter::start(
    int fd, std::function<void(const std::string&)> warn,
    std::function<std::string(const std::string&)> own_line) {
  auto state = std::make_shared<State>();
  auto copy = io::duplicate(fd);
  if (!copy) return tl::unexpected(copy.error());
  state->fd = std::move(*copy);
  state->warn = std::move(warn);
  state->own_line = std::move(own_line);
  auto thread = start_quiet_thread("console", [state] { run(*state); });
  if (!thread) return tl::unexpected(thread.error());
  // A thread that hangs in a write cannot be joined; the state says when it has ended.
  thread->detach();
  return std::unique_ptr<ConsoleWriter>(new ConsoleWriter(std::move(state)));
}

ConsoleWriter::~ConsoleWriter() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->wake.notify_one();
  for (;;) {
    const std::uint64_t before = state_->written;
    const bool ended = state_->moved.wait_for(
        lock, kFarewell, [&] { return state_->ended || state_->written != before; });
    if (state_->ended || (!ended && !state_->warning)) break;
  }
  state_->warn = nullptr;
  state_->gone = true;
}

bool ConsoleWriter::put(std::string& text, std::uint64_t lines) {
  std::unique_lock lock(state_->mutex);
  State& state = *state_;
  if (state.gone || text.empty()) {
    text.clear();
    return true;
  }
  const auto is_full = [&] {
    return state.waiting_bytes > 0 && state.waiting_bytes + text.size() > kConsoleBacklog;
  };
  // A console that reads, only more slowly than the workers write, is waited for: it must not miss
  // anything.
  bool full = !state.dropping && is_full();
  while (full) {
    const std::uint64_t before = state.written;
    state.awaited = true;
    state.moved.wait_for(lock, kPatience, [&] { return state.gone || !is_full(); });
    state.awaited = false;
    full = is_full() && !state.gone;
    if (full && state.written - before < kReadsWell) break;
  }
  if (full || (state.dropping && state.waiting_bytes > kConsoleBacklog / 2)) {
    state.dropping = true;
    state.dropped_here += lines;
    state.dropped_lines += lines;
    text.clear();
    return false;
  }
  if (state.dropping) state.say_what_is_missing();
  state.add(std::move(text));
  state.taken_lines += lines;
  text.clear();
  if (!state.spares.empty()) {
    text = std::move(state.spares.back());
    state.spares.pop_back();
  }
  return true;
}

void ConsoleWriter::set_files_have_all(bool they_do) {
  const std::lock_guard lock(state_->mutex);
  state_->files_have_all = they_do;
}

bool ConsoleWriter::flush(Instant deadline) {
  std::unique_lock lock(state_->mutex);
  const Duration limit = std::clamp(deadline - io::now(), Duration{}, kLongestWait);
  return state_->moved.wait_for(lock, limit, [&] {
    return state_->gone || (state_->queue.empty() && !state_->busy && !state_->dropping);
  });
}

bool ConsoleWriter::is_idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queue.empty() && !state_->busy;
}

std::uint64_t ConsoleWriter::lines() const { return state_->taken_lines; }
std::uint64_t ConsoleWriter::dropped_lines() const { return state_->dropped_lines; }

void ConsoleWriter::run(State& state) {
  std::unique_lock lock(state.mutex);
  for (;;) {
    if (state.queue.empty() && state.dropping) state.say_what_is_missing();
    if (state.queue.empty() && state.stopping) break;
    if (state.queue.empty()) {
      state.moved.notify_all();
      state.asleep = true;
      state.wake.wait(lock, [&] { return !state.queue.empty() || state.stopping; });
      state.asleep = false;
      continue;
    }
    std::string text = std::move(state.queue.front());
    state.queue.pop_front();
    state.busy = true;
    io::Put put;
    for (std::string_view rest = text; !rest.empty() && !state.gone;) {
      const std::size_t most = state.stopping ? kLastSlice : kSlice;
      lock.unlock();
      put = io::write_all(state.fd.get(), rest.substr(0, most));
      lock.lock();
      rest.remove_prefix(put.bytes);
      state.written += put.bytes;
      state.waiting_bytes -= put.bytes;
      if (state.stopping || state.awaited) state.moved.notify_all();
      if (put.error == ENOSPC || put.error == EDQUOT) {
        state.wake.wait_for(lock, kFullDisk);
      } else if (put.error != 0) {
        state.gone = true;
      }
    }
    state.busy = false;
    if (text.capacity() <= kSpare && state.spares.size() < kSpares) {
      text.clear();
      state.spares.push_back(std::move(text));
    }
    if (!state.gone) continue;

    state.queue.clear();
    state.waiting_bytes = 0;
    state.dropping = false;
    if (put.error != 0 && state.warn) {
      state.warning = true;
      lock.unlock();
      state.warn("the console cannot be written to any more: " + io::error_in_words(put.error) +
                 ". The workers go on; their output is no longer shown.");
      lock.lock();
      state.warning = false;
    }
    break;
  }
  state.fd.close();
  state.ended = true;
  state.moved.notify_all();
}

}  // namespace regroup::runtime
