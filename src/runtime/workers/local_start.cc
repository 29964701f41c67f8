// The start of a group of local processes: what each is started with, in which control group.
#include <utility>

#include "base/check.h"
#include "base/template.h"
#include "runtime/workers/local_processes.h"
#include "runtime/workers/worker_environment.h"

namespace regroup::runtime {
namespace {

constexpr int kBindMemory = 2;  // MPOL_BIND, of the kernel's interface.

}  // namespace

Result<void> LocalProcesses::start(const GroupToStart& group, Ended ended) {
  for (const WorkerCommand& command : group.commands)
    if (command.argv.empty())
      return fail(ErrorKind::InvalidArgument, "a worker needs a command: its argv is empty");
  auto routes = logs_->routes(group.attempt);
  if (!routes) return tl::unexpected(routes.error());
  reset(group, std::move(ended));
  routes_ = std::move(*routes);
  CHECK(routes_.workers.size() == group.commands.size());
  if (auto made = make_leaves(); !made) return made;
  auto streams = host_.pump().open(routes_, group_.attempt.workers);
  if (!streams) return tl::unexpected(streams.error());
  before_ = look_before_start();
  std::vector<io::ProcessSpec> specs;
  for (std::size_t rank = 0; rank < workers_.size(); ++rank)
    specs.push_back(process_spec(rank, (*streams)[rank]));
  return start_processes(std::move(specs));
}

Result<void> LocalProcesses::make_leaves() {
  if (host_.cgroups() == nullptr) return {};
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    auto leaf = host_.cgroups()->make_leaf(std::to_string(rank), spec_.memory_limit);
    if (!leaf && (spec_.cgroup == CgroupUse::Require || spec_.memory_limit != 0))
      return tl::unexpected(leaf.error());
    if (!leaf) {
      host_.warn("worker " + std::to_string(rank) + " has no cgroup: " + leaf.error().message);
      continue;
    }
    workers_[rank].leaf = std::move(*leaf);
  }
  return {};
}

io::ProcessSpec LocalProcesses::process_spec(std::size_t rank, const WorkerStreams& streams) {
  const WorkerCommand& command = group_.commands[rank];
  Worker& worker = workers_[rank];
  // This one alone: others are too common as shell variables in the arguments of `sh -c`.
  const std::map<std::string, std::string> macros = {
      {"local_rank", std::to_string(group_.attempt.workers[rank].local_rank)}};

  io::ProcessSpec process;
  process.directory = command.directory;
  if (host_.guard() != nullptr) process.guard = host_.guard()->descriptor();
  process.output = streams.out;
  process.errors = streams.err;
  process.cpus = command.cpus;
  process.argv.push_back(command.argv.front());
  for (std::size_t i = 1; i < command.argv.size(); ++i)
    process.argv.push_back(substitute(command.argv[i], macros));
  auto environment = command.environment;
  add_files(environment, {.error_file = routes_.workers[rank].error_file,
                          .dump_file = dump_file(rank),
                          .dump_signal = spec_.dump_signal,
                          .guard_mark = host_.guard() != nullptr ? host_.guard()->mark() : ""});
  for (const auto& [variable, value] : environment)
    process.environment.push_back(std::string(variable).append("=").append(value));
  if (!command.memory_nodes.empty())
    process.memory = io::MemoryPolicy{kBindMemory, command.memory_nodes};
  if (worker.leaf) {
    process.cgroup = worker.leaf->born_in();
    process.join = worker.leaf->join();
  }
  worker.program = command.argv.front().substr(command.argv.front().rfind('/') + 1);
  return process;
}

Result<void> LocalProcesses::start_processes(std::vector<io::ProcessSpec> specs) {
  bool watched = true;
  const auto forked = [&](std::size_t rank, io::Process& process) {
    // At once: we may be killed at any moment, and the worker that dies first is reported first.
    const auto ended = [this, rank = static_cast<int>(rank)] {
      look_for_end(rank);
      // A tracer (a debugger, strace) is told first, and we cannot know the end until it lets go.
      if (!is_over_ && !workers_[static_cast<std::size_t>(rank)].exit) look_again_at(rank);
    };
    if (!process.watch(loop_, ended)) watched = false;
    if (host_.guard() == nullptr) return;
    host_.guard()->watch_session(process.pid());
    told_guard_.push_back(process.pid());
  };
  const io::StartOptions options{.forked = forked, .give_up = spec_.give_up_start};
  auto started = io::start_processes(specs, options);
  if (!started && started.error().for_cgroup && spec_.cgroup == CgroupUse::Auto &&
      spec_.memory_limit == 0) {
    host_.warn("workers are started without control groups: " + started.error().error.message);
    for (io::ProcessSpec& process : specs) {
      process.cgroup = -1;
      process.join.clear();
    }
    for (Worker& worker : workers_) worker.leaf.reset();
    forget_sessions();
    started = io::start_processes(specs, options);
  }
  host_.pump().started();
  if (!started) {
    forget_sessions();
    const WorkerName& name = group_.attempt.workers[started.error().index];
    return fail(started.error().error.kind, "rank " + std::to_string(name.global_rank) +
                                                " (local rank " + std::to_string(name.local_rank) +
                                                "): " + started.error().error.message);
  }
  processes_ = std::move(*started);
  for (std::size_t rank = 0; rank < processes_.size(); ++rank)
    workers_[rank].pid = processes_[rank].pid();
  is_over_ = false;
  if (watched) return {};
  kill_all();
  is_over_ = true;
  forget_sessions();
  processes_.clear();
  return fail(ErrorKind::Io,
              "cannot watch the workers: no descriptors left. Raise the limit on open files "
              "(ulimit -n).");
}

}  // namespace regroup::runtime
