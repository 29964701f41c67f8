// The start of a group: what each worker is started with, in which control group.
#include <utility>

#include "base/template.h"
#include "runtime/workers/worker_group.h"

namespace regroup::runtime {
namespace {

constexpr int kBindMemory = 2;  // MPOL_BIND, of the kernel's interface.

}  // namespace

Result<void> WorkerGroup::make_leaves() {
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

io::ProcessSpec WorkerGroup::process_spec(int rank, const WorkerStreams& streams) {
  const auto index = static_cast<std::size_t>(rank);
  const WorkerCommand& command = spec_.commands[index];
  const WorkerName& name = spec_.attempt.workers[index];
  Worker& worker = workers_[index];
  // This one alone: others are too common as shell variables in the arguments of `sh -c`.
  const std::map<std::string, std::string> macros = {
      {"local_rank", std::to_string(name.local_rank)}};

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
  environment["TORCHELASTIC_ERROR_FILE"] = routes_.workers[index].error_file;
  if (const std::string file = dump_file(rank); !file.empty()) {
    environment["REGROUP_DUMP_FILE"] = file;
    environment["REGROUP_DUMP_SIGNAL"] = std::to_string(spec_.dump_signal);
  }
  for (const auto& [variable, value] : environment)
    process.environment.push_back(std::string(variable).append("=").append(value));
  if (!command.memory_nodes.empty())
    process.memory = io::MemoryPolicy{kBindMemory, command.memory_nodes};
  if (worker.leaf) {
    process.cgroup = worker.leaf->born_in();
    process.join = worker.leaf->join();
  }
  worker.program = command.argv.front().substr(command.argv.front().rfind('/') + 1);
  worker.error_file = routes_.workers[index].error_file;
  return process;
}

Result<void> WorkerGroup::start() {
  for (const WorkerCommand& command : spec_.commands)
    if (command.argv.empty())
      return fail(ErrorKind::InvalidArgument, "a worker needs a command: its argv is empty");
  if (auto made = make_leaves(); !made) return made;
  auto streams = host_.pump().open(routes_, spec_.attempt.workers);
  if (!streams) return tl::unexpected(streams.error());
  before_ = look_before_start();
  std::vector<io::ProcessSpec> specs;
  for (std::size_t rank = 0; rank < workers_.size(); ++rank)
    specs.push_back(process_spec(static_cast<int>(rank), (*streams)[rank]));
  bool watched = true;
  const auto forked = [&](std::size_t rank, io::Process& process) {
    // At once: we may be killed at any moment, and the worker that dies first is reported first.
    if (!process.watch(loop_, [this, rank] { ended(static_cast<int>(rank)); })) watched = false;
    if (host_.guard() == nullptr) return;
    host_.guard()->watch_session(process.pid());
    told_guard_.push_back(process.pid());
  };
  auto started = io::start_processes(specs, {.forked = forked, .give_up = spec_.give_up_start});
  if (!started && started.error().for_cgroup && spec_.cgroup == CgroupUse::Auto &&
      spec_.memory_limit == 0) {
    host_.warn("workers are started without control groups: " + started.error().error.message);
    for (io::ProcessSpec& process : specs) {
      process.cgroup = -1;
      process.join.clear();
    }
    for (Worker& worker : workers_) worker.leaf.reset();
    forget_sessions();
    started = io::start_processes(specs, {.forked = forked, .give_up = spec_.give_up_start});
  }
  host_.pump().started();
  if (!started) {
    forget_sessions();
    const WorkerName& name = spec_.attempt.workers[started.error().index];
    return fail(started.error().error.kind, "rank " + std::to_string(name.global_rank) +
                                                " (local rank " + std::to_string(name.local_rank) +
                                                "): " + started.error().error.message);
  }
  processes_ = std::move(*started);
  machine_.on_started();
  look_for_hangs();
  if (watched) return {};
  kill_all();
  return fail(ErrorKind::Io,
              "cannot watch the workers: no descriptors left. Raise the limit on open files "
              "(ulimit -n).");
}

}  // namespace regroup::runtime
