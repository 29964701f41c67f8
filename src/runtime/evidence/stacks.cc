#include "runtime/evidence/stacks.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "base/text.h"
#include "io/file/pipe.h"
#include "io/loop/clock.h"
#include "io/process/process.h"
#include "io/process/process_look.h"
#include "runtime/common/console_thread.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// Whole path, or empty.
std::string find_tool(const char* name, const std::string& search_path, const std::string& beside) {
  if (!beside.empty() && beside.find('/') != std::string::npos)
    if (const fs::path path = fs::path(beside).parent_path() / name; is_program(path))
      return path.string();
  std::istringstream directories(search_path);
  for (std::string directory; std::getline(directories, directory, ':');)
    if (const fs::path path = fs::path(directory) / name; !directory.empty() && is_program(path))
      return path.string();
  return {};
}

bool is_python(pid_t pid) {
  std::error_code error;
  const fs::path program = fs::read_symlink(fmt::format("/proc/{}/exe", pid), error);
  return !error && program.filename().string().starts_with("python");
}

bool is_debuggable(pid_t pid) {
  const std::uint64_t code = io::mapped_code(pid);
  return code > 0 && code <= kDebuggedCode;
}

std::string read_end(const std::string& path, std::uintmax_t from) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  file.seekg(static_cast<std::streamoff>(from));
  std::string text(kStackText, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

std::uintmax_t size_of(const std::string& path) {
  std::error_code error;
  const auto size = path.empty() ? 0 : fs::file_size(path, error);
  return error ? 0 : size;
}

std::string facts_of(const io::ProcessLook& look) {
  std::string text = fmt::format("state {}, {}", look.state, count_of(look.threads, "thread"));
  if (!look.system_call.empty()) text += ", in " + look.system_call + "()";
  if (!look.call_target.empty()) text += " on " + look.call_target;
  if (!look.wait_channel.empty()) text += ", waits in " + look.wait_channel;
  return text + "\n";
}

// A worker, and what is known of it so far.
struct Case {
  StackTarget target;
  io::ProcessLook look;
  bool signalled = false;
  std::uintmax_t dump_began = 0;
  std::string tool;  // Its name; empty: none.
  io::Descriptor output;
  std::string text;  // What the tool said.
  std::string dump;  // What the faulthandler said.
};

}  // namespace

std::vector<wire::RankAt> Stacks::ranks() const {
  std::vector<wire::RankAt> all;
  all.reserve(workers.size());
  for (const WorkerStack& worker : workers) all.push_back({worker.global_rank, worker.at});
  return all;
}

struct StackTaker::Impl {
  std::vector<StackTarget> targets;
  StackOptions options;
  std::function<void(Stacks)> done;
  io::WakeUp give_up;
  mutable std::mutex lock;
  std::condition_variable ended_changed;
  bool abandoned = false;  // No callback may be called any more.
  bool ended = false;
  std::vector<pid_t> helpers;
  Stacks known;

  bool given_up(Duration wait) const {
    pollfd one{.fd = give_up.descriptor(), .events = POLLIN, .revents = 0};
    const auto millis = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
    return ::poll(&one, 1, static_cast<int>(std::max<std::int64_t>(millis, 0))) > 0;
  }

  std::string tail_of(int local_rank) const {
    const std::lock_guard held(lock);
    return options.tail && !abandoned ? options.tail(local_rank) : "";
  }

  void run();
  void look_and_signal(std::vector<Case>& cases) const;
  std::vector<io::Process> start_tools(std::vector<Case>& cases);
  bool read_tools(std::vector<Case>& cases, Instant deadline) const;
  void read_dumps(std::vector<Case>& cases, Instant deadline) const;
  std::string conclude(const std::vector<Case>& cases);
};

void StackTaker::Impl::look_and_signal(std::vector<Case>& cases) const {
  for (Case& one : cases) {
    one.look = io::look_at(one.target.pid).value_or(io::ProcessLook{});
    if (options.dump_signal == 0 || !one.look.catches(options.dump_signal)) continue;
    one.dump_began = size_of(one.target.dump_file);
    one.signalled = ::kill(one.target.pid, options.dump_signal) == 0;
  }
}

std::vector<io::Process> StackTaker::Impl::start_tools(std::vector<Case>& cases) {
  const char* const own = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): never set by us.
  const std::string path = !options.path.empty() ? options.path : own != nullptr ? own : "";
  std::vector<io::Process> running;
  for (Case& one : cases) {
    const std::string pid = std::to_string(one.target.pid);
    std::vector<std::string> argv;
    if (const auto spy = find_tool("py-spy", path, one.target.program);
        !spy.empty() && is_python(one.target.pid)) {
      argv = {spy, "dump", "--pid", pid};
    } else if (const auto gdb = find_tool("gdb", path, "");
               !gdb.empty() && !one.signalled && is_debuggable(one.target.pid)) {
      argv = {gdb, "-nx", "-batch", "-p", pid, "-ex", "thread apply all backtrace 40"};
    } else {
      continue;
    }
    auto pipe = io::make_pipe(kOutputPipe);
    if (!pipe) continue;
    auto started = io::start_processes({{.argv = argv,
                                         .environment = {"PATH=" + path, "LC_ALL=C.UTF-8"},
                                         .output = pipe->write.get(),
                                         .errors = pipe->write.get()}});
    if (!started) continue;
    one.tool = fs::path(argv.front()).filename();
    one.output = std::move(pipe->read);
    const std::lock_guard held(lock);
    helpers.push_back(started->front().pid());
    running.push_back(std::move(started->front()));
  }
  return running;
}

// False: given up.
bool StackTaker::Impl::read_tools(std::vector<Case>& cases, Instant deadline) const {
  std::vector<char> room(std::size_t{64} * 1024);
  while (true) {
    std::vector<pollfd> waiting{{.fd = give_up.descriptor(), .events = POLLIN, .revents = 0}};
    std::vector<Case*> of;
    for (Case& one : cases) {
      if (!one.output) continue;
      waiting.push_back({.fd = one.output.get(), .events = POLLIN, .revents = 0});
      of.push_back(&one);
    }
    const Duration rest = deadline - io::now();
    if (of.empty() || rest <= Duration{}) return true;
    const auto millis = std::chrono::ceil<std::chrono::milliseconds>(rest).count();
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(millis)) <= 0) continue;
    if (waiting[0].revents != 0) return false;
    for (std::size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      Case& one = *of[i - 1];
      const io::Got got = io::read_available(one.output.get(), room);
      if (one.text.size() < kStackText) one.text.append(room.data(), got.bytes);
      if (got.end) one.output.close();
    }
  }
}

// The faulthandler writes within microseconds, once the worker is scheduled. If nothing comes
// within a moment, we do not wait any longer.
void StackTaker::Impl::read_dumps(std::vector<Case>& cases, Instant deadline) const {
  const Instant until = std::min(deadline, io::now() + kDumpPatience);
  for (Case& one : cases) {
    if (!one.signalled) continue;
    std::size_t seen = 0;
    while (true) {
      one.dump = size_of(one.target.dump_file) > one.dump_began
                     ? read_end(one.target.dump_file, one.dump_began)
                     : tail_of(one.target.local_rank);
      const auto threads = wire::parse_stack_dump(one.dump);
      // Complete when it has not grown since the last look.
      if (wire::main_thread(threads) != nullptr && one.dump.size() == seen) break;
      seen = one.dump.size();
      if (io::now() >= until || given_up(kDumpPause)) break;
    }
    if (wire::parse_stack_dump(one.dump).empty()) one.dump.clear();
  }
}

// What goes into the file; what people get to read is in `known` from then on.
std::string StackTaker::Impl::conclude(const std::vector<Case>& cases) {
  Stacks stacks;
  std::string text = options.why.empty() ? "" : options.why + "\n\n";
  for (const Case& one : cases) {
    auto threads = wire::parse_stack_dump(one.text);
    if (one.tool != "py-spy" || wire::main_thread(threads) == nullptr)
      threads = wire::parse_stack_dump(one.dump);
    const wire::ThreadStack* const main = wire::main_thread(threads);
    WorkerStack worker{.local_rank = one.target.local_rank,
                       .global_rank = one.target.global_rank,
                       .at = wire::whereabouts(main, {.system_call = one.look.system_call,
                                                      .state = one.look.state,
                                                      .wait_channel = one.look.wait_channel}),
                       .python = main == nullptr ? "" : wire::stack_lines(*main)};
    text += fmt::format("==== rank {} (local rank {}, pid {}) {}\n{}", worker.global_rank,
                        worker.local_rank, one.target.pid, worker.at.words, facts_of(one.look));
    if (!one.dump.empty()) text += "-- its faulthandler:\n" + one.dump + "\n";
    if (!one.tool.empty()) {
      text += fmt::format("-- {}:\n{}", one.tool, one.text);
      if (one.output) text += "\n(not done when the time was over)";
      text += "\n";
    }
    if (!one.look.kernel_stack.empty()) text += "-- in the kernel:\n" + one.look.kernel_stack;
    text += "\n";
    stacks.workers.push_back(std::move(worker));
  }
  stacks.summary = core::hang::where_they_are(stacks.ranks());
  const std::lock_guard held(lock);
  known = std::move(stacks);
  return known.summary + "\n\n" + text;
}

void StackTaker::Impl::run() {
  const Instant deadline = io::now() + options.limit;
  std::vector<Case> cases;
  cases.reserve(targets.size());
  for (StackTarget& target : targets) {
    cases.emplace_back();
    cases.back().target = std::move(target);
  }
  look_and_signal(cases);
  {
    // Killed and reaped when destroyed: a debugger that is killed lets its process go on.
    const std::vector<io::Process> running = start_tools(cases);
    if (!read_tools(cases, deadline)) return;
  }
  {
    const std::lock_guard held(lock);
    helpers.clear();
  }
  read_dumps(cases, deadline);
  if (given_up({})) return;
  const std::string text = conclude(cases);
  bool written = false;
  if (!options.file.empty()) {
    std::ofstream file(options.file, std::ios::binary | std::ios::app);
    file << text << std::flush;
    written = file.good();
  }
  const std::lock_guard held(lock);
  if (written) known.file = options.file;
  if (!abandoned) done(known);
}

StackTaker::StackTaker(std::vector<StackTarget> targets, StackOptions options,
                       const std::function<void(Stacks)>& done) {
  auto wake = io::WakeUp::open();
  if (!wake) {  // No descriptors left: nothing can be taken.
    done({});
    return;
  }
  impl_ = std::make_shared<Impl>(std::move(targets), std::move(options), done, std::move(*wake));
  auto thread = start_quiet_thread("stacks", [impl = impl_] {
    impl->run();
    const std::lock_guard held(impl->lock);
    impl->ended = true;
    impl->ended_changed.notify_all();
  });
  if (!thread) {  // There are no threads left either.
    impl_.reset();
    done({});
    return;
  }
  thread->detach();
}

StackTaker::~StackTaker() {
  if (!impl_) return;
  impl_->give_up.ring();
  std::unique_lock held(impl_->lock);
  impl_->abandoned = true;
  // Waits for the helpers to end; they are killed first.
  impl_->ended_changed.wait_for(held, kGiveUpPatience, [this] { return impl_->ended; });
}

std::vector<pid_t> StackTaker::helpers() const {
  if (!impl_) return {};
  const std::lock_guard held(impl_->lock);
  return impl_->helpers;
}

Stacks StackTaker::so_far() const {
  if (!impl_) return {};
  const std::lock_guard held(impl_->lock);
  return impl_->known;
}

}  // namespace regroup::runtime
