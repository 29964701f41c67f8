#include "runtime/workers/local_processes.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "io/loop/clock.h"
#include "io/process/signals.h"
#include "runtime/common/limits.h"
#include "runtime/evidence/hang_look.h"
#include "runtime/evidence/process_failure.h"

namespace regroup::runtime {

LocalProcesses::LocalProcesses(io::Loop& loop, WorkerHost& host, WorkersSpec spec,
                               std::shared_ptr<LogsSpecs> logs)
    : loop_(loop),
      host_(host),
      spec_(std::move(spec)),
      logs_(std::move(logs)),
      second_look_(loop),
      stacks_limit_(loop),
      alive_token_(std::make_shared<LocalProcesses*>(this)) {}

LocalProcesses::~LocalProcesses() {
  *alive_token_ = nullptr;
  give_up_stacks();  // It looks at processes, so it ends before any of them is reaped.
  if (is_over_) return;
  kill_all();
  forget_sessions();
}

void LocalProcesses::reset(const GroupToStart& group, Ended ended) {
  CHECK(is_over_);
  group_ = group;
  ended_ = std::move(ended);
  processes_.clear();
  workers_.clear();
  workers_.resize(group.commands.size());
  survivors_.clear();
  traced_.clear();
  stacks_.reset();
  leaves_away_ = false;
}

// ---- Ends ----

void LocalProcesses::look_for_end(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  Worker& worker = workers_[index];
  if (worker.exit || is_over_) return;  // We saw its end before we were told.
  worker.exit = processes_[index].exited();
  if (worker.exit) ended_(rank, {.code = worker.exit->code, .signal = worker.exit->signal});
}

void LocalProcesses::look_again_at(int rank) {
  traced_.insert(rank);
  second_look_.set(io::now() + kSecondLook, [this] {
    for (const int again : std::exchange(traced_, {})) {
      look_for_end(again);
      if (!is_over_ && !workers_[static_cast<std::size_t>(again)].exit) look_again_at(again);
    }
  });
}

void LocalProcesses::tell_ends() {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) look_for_end(static_cast<int>(rank));
}

void LocalProcesses::note_failure(int local_rank, bool stopped_by_us) {
  const auto index = static_cast<std::size_t>(local_rank);
  Worker& worker = workers_[index];
  worker.evidence = take_evidence({.pid = processes_[index].pid(),
                                   .exit = *worker.exit,
                                   .signalled_by_us = stopped_by_us,
                                   .directory = group_.commands[index].directory,
                                   .program = worker.program,
                                   .log_file = routes_.workers[index].err.file},
                                  before_, worker.leaf.get());
}

void LocalProcesses::explain(ProcessFailure& failure) {
  const auto index = static_cast<std::size_t>(failure.local_rank);
  // The other nodes get one text of this failure, now: it should name the exception.
  host_.pump().catch_up(kTailPatience);
  auto tail = host_.pump().tail(failure.local_rank);
  runtime::explain(failure, {.error_file = routes_.workers[index].error_file,
                             .evidence = workers_[index].evidence,
                             .tail = std::move(tail.text),
                             .tail_of_both = tail.of_both});
  if (!stacks_) return;
  for (const WorkerStack& stack : stacks_->workers)
    if (stack.local_rank == failure.local_rank) failure.stack = stack.python;
}

// ---- Signals ----

void LocalProcesses::signal(int local_rank, int number) {
  if (number == SIGWINCH) host_.pump().copy_window_size();
  const auto index = static_cast<std::size_t>(local_rank);
  if (index >= processes_.size()) return;  // They have ended.
  const io::Process& process = processes_[index];
  // Only the worker itself knows what a signal means; its helper processes would die of it.
  if (number == SIGCONT) {
    process.signal_group(number);
  } else {
    process.signal(number);
  }
}

void LocalProcesses::signal_all(int number) {
  const auto members = alive();
  std::set<pid_t> groups;
  for (const io::Process& process : processes_) {
    groups.insert(process.pid());
    process.signal_group(number);
    // A suspended process cannot react to a signal.
    process.signal_group(SIGCONT);
  }
  for (const io::ProcessInfo& process : members) {
    if (groups.contains(process.group)) continue;
    io::signal_exactly(process, number);
    io::signal_exactly(process, SIGCONT);
  }
}

void LocalProcesses::kill_all() {
  // Looked for first: once a leader is dead, nothing links it to the processes that left its
  // session.
  const auto members = alive();
  for (const Worker& worker : workers_)
    if (worker.leaf) worker.leaf->kill_all();
  for (const io::Process& process : processes_) process.signal_group(SIGKILL);
  for (const io::ProcessInfo& process : members) io::signal_exactly(process, SIGKILL);
}

// ---- What is alive ----

int LocalProcesses::pid(int local_rank) const {
  const auto index = static_cast<std::size_t>(local_rank);
  return index < workers_.size() ? workers_[index].pid : 0;
}

std::vector<pid_t> LocalProcesses::our_children() const {
  std::vector<pid_t> ours;
  ours.reserve(processes_.size() + 1 + host_.strangers().size());
  for (const io::Process& process : processes_) ours.push_back(process.pid());
  if (host_.guard() != nullptr) ours.push_back(host_.guard()->pid());
  if (taker_)
    for (const pid_t helper : taker_->helpers()) ours.push_back(helper);
  ours.insert(ours.end(), host_.strangers().begin(), host_.strangers().end());
  return ours;
}

void LocalProcesses::reap_orphans() {
  if (spec_.claim_orphans) io::reap_orphans(our_children());
}

io::Roots LocalProcesses::roots() const {
  io::Roots roots;
  if (spec_.claim_orphans) roots.reaper = ::getpid();
  for (const io::Process& process : processes_) roots.leaders.insert(process.pid());
  if (host_.guard() != nullptr) roots.spared.insert(host_.guard()->pid());
  if (taker_)
    for (const pid_t helper : taker_->helpers()) roots.spared.insert(helper);
  roots.spared.insert(host_.strangers().begin(), host_.strangers().end());
  return roots;
}

std::vector<io::ProcessInfo> LocalProcesses::alive() const {
  auto found = io::belonging_to(io::list_processes(), roots());
  // A process that has left its session and lost its parent is still in its cgroup.
  for (const Worker& worker : workers_) {
    if (!worker.leaf) continue;
    for (const pid_t pid : worker.leaf->members()) {
      const bool known = std::any_of(found.begin(), found.end(),
                                     [&](const io::ProcessInfo& one) { return one.pid == pid; });
      const auto member = known ? std::nullopt : io::find_process(pid);
      if (member && member->state != 'Z') found.push_back(*member);
    }
  }
  return found;
}

int LocalProcesses::count_alive() {
  reap_orphans();
  const bool all_ended = std::all_of(workers_.begin(), workers_.end(),
                                     [](const Worker& worker) { return worker.exit.has_value(); });
  if (spec_.claim_orphans && all_ended) {
    // Everything that is alive is a child of ours by now, or descends from one: no need to look at
    // all processes.
    const auto known = our_children();
    const auto children = io::children();
    const bool none = std::all_of(children.begin(), children.end(), [&](pid_t child) {
      return std::find(known.begin(), known.end(), child) != known.end();
    });
    if (none) return 0;
  }
  auto count = static_cast<int>(alive().size());
  if (count > 0) return count;
  for (const Worker& worker : workers_)
    if (worker.leaf) count += worker.leaf->populated().value_or(0);
  return count;
}

// ---- What is left when all have succeeded ----

bool LocalProcesses::is_away(const io::ProcessInfo& process) const {
  return std::none_of(processes_.begin(), processes_.end(),
                      [&](const io::Process& leader) { return leader.pid() == process.session; });
}

std::vector<LeftBehind> LocalProcesses::left_behind() {
  std::vector<LeftBehind> left;
  for (io::ProcessInfo& process : alive())
    left.push_back({process.pid, process.name, is_away(process)});
  return left;
}

void LocalProcesses::signal_stayed(int number) {
  const auto members = alive();
  // A suspended process cannot react to a signal.
  for (const io::Process& process : processes_) {
    process.signal_group(number);
    process.signal_group(SIGCONT);
  }
  for (const io::ProcessInfo& process : members) {
    if (is_away(process)) continue;
    io::signal_exactly(process, number);
    io::signal_exactly(process, SIGCONT);
  }
}

void LocalProcesses::let_go() {
  leaves_away_ = true;
  // If we are killed from now on, they live.
  if (host_.guard() != nullptr) host_.guard()->forget_mark();
}

// ---- The end of the group ----

void LocalProcesses::forget_sessions() {
  if (host_.guard() == nullptr) return;
  for (const pid_t leader : told_guard_) host_.guard()->forget_session(leader);
  told_guard_.clear();
}

void LocalProcesses::finish(std::function<void()> done) {
  is_over_ = true;
  give_up_stacks();
  second_look_.cancel();
  for (const io::ProcessInfo& process : alive())
    if (!leaves_away_ || !is_away(process))
      survivors_.push_back({.pid = process.pid,
                            .state = process.state,
                            .name = process.name,
                            .wait_channel = io::wait_channel(process.pid)});
  reap_orphans();
  forget_sessions();
  for (io::Process& process : processes_) {
    // Where /proc tells us nothing, a process may be left. The leader is not reaped yet, so the
    // number of its process group is still ours.
    process.signal_group(SIGKILL);
    if (process.exited()) {
      process.reap();
    } else {
      process.abandon();
    }
  }
  host_.pump().drain(io::now() + kDrainLimit, [&loop = loop_, token = alive_token_,
                                               done =
                                                   std::move(done)](std::vector<int> still_open) {
    loop.post([token, done, still_open = std::move(still_open)] {
      if (*token == nullptr) return;
      if (!still_open.empty())
        (*token)->host_.warn("the output of local rank " + in_ranges(still_open) +
                             " is still held open by another process; what comes now is not read");
      done();
    });
  });
}

void LocalProcesses::complete(WorkersResult& result) {
  result.survivors = survivors_;
  result.logs = routes_;
  forget_group();
  if (!stacks_) return;
  result.where = stacks_->summary;
  result.stacks_file = stacks_->file;
}

// Nothing of the group is needed any more, but for what people may ask.
void LocalProcesses::forget_group() {
  processes_.clear();
  for (Worker& worker : workers_) worker.leaf.reset();
}

// ---- Hangs and stacks ----

std::vector<std::optional<core::hang::Sample>> LocalProcesses::look() {
  std::vector<WatchedWorker> watched;
  watched.reserve(workers_.size());
  for (std::size_t rank = 0; rank < workers_.size(); ++rank)
    watched.push_back({.pid = workers_[rank].exit ? 0 : processes_[rank].pid(),
                       .requests = workers_[rank].requests});
  return look_at_workers(watched);
}

void LocalProcesses::note_request(int local_rank) {
  ++workers_[static_cast<std::size_t>(local_rank)].requests;
}

std::string LocalProcesses::dump_file(std::size_t rank) const {
  const std::string& error_file = routes_.workers[rank].error_file;
  if (spec_.take_stacks == TakeStacks::Never || spec_.dump_signal == 0 || error_file.empty())
    return {};
  return (std::filesystem::path(error_file).parent_path() / "dump.txt").string();
}

void LocalProcesses::take_stacks(const StacksOrder& order,
                                 std::function<void(const Stacks&)> done) {
  on_stacks_ = std::move(done);
  std::vector<StackTarget> targets;
  const auto everybody = io::list_processes();
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (workers_[rank].exit) continue;
    const WorkerName& name = group_.attempt.workers[rank];
    targets.push_back({.local_rank = name.local_rank,
                       .global_rank = name.global_rank,
                       .pid = behind_shells(everybody, processes_[rank].pid()),
                       .program = group_.commands[rank].argv.front(),
                       .dump_file = dump_file(rank)});
  }
  taker_ = std::make_unique<StackTaker>(
      std::move(targets),
      StackOptions{.limit = order.limit,
                   .dump_signal = spec_.dump_signal,
                   .file = routes_.directory.empty() ? "" : routes_.directory + "/stacks.txt",
                   .why = order.why,
                   .tail = [&pump = host_.pump()](int rank) { return pump.tail(rank).text; }},
      [&loop = loop_, token = alive_token_](Stacks stacks) {
        loop.post([token, stacks = std::move(stacks)]() mutable {
          if (*token != nullptr) (*token)->stacks_taken(std::move(stacks));
        });
      });
  stacks_limit_.set(io::now() + order.limit + kStacksDisk, [this] {
    if (taker_) stacks_taken(taker_->so_far());
  });
}

void LocalProcesses::stacks_taken(Stacks stacks) {
  if (!taker_) return;  // They came too late.
  taker_.reset();
  stacks_limit_.cancel();
  stacks_ = std::move(stacks);
  std::exchange(on_stacks_, {})(*stacks_);
}

void LocalProcesses::give_up_stacks() {
  taker_.reset();
  stacks_limit_.cancel();
  on_stacks_ = {};
}

void LocalProcesses::explain_stacks(const std::string& summary) {
  if (stacks_) stacks_->summary = summary;
}

}  // namespace regroup::runtime
