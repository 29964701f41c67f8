#include "runtime/workers/worker_group.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/cases.h"
#include "base/check.h"
#include "base/text.h"
#include "io/loop/clock.h"
#include "io/net/interfaces.h"
#include "io/process/signals.h"
#include "runtime/common/limits.h"
#include "runtime/evidence/process_failure.h"

namespace regroup::runtime {

using namespace core::supervision;

WorkerGroup::WorkerGroup(io::Loop& loop, WorkerHost& host, WorkersSpec spec, LogRoutes routes,
                         GroupEvents events)
    : loop_(loop),
      host_(host),
      spec_(std::move(spec)),
      routes_(std::move(routes)),
      events_(std::move(events)),
      machine_({.workers = static_cast<int>(spec_.commands.size()),
                .stop_signal = spec_.stop_signal,
                .grace = spec_.grace,
                .kill_wait = spec_.kill_wait}),
      deadline_(loop),
      progress_(loop),
      second_look_(loop),
      hang_look_(loop),
      stacks_limit_(loop),
      workers_(spec_.commands.size()),
      host_name_(io::host_name()),
      alive_token_(std::make_shared<WorkerGroup*>(this)) {
  CHECK(routes_.workers.size() == spec_.commands.size());
  CHECK(spec_.attempt.workers.size() == spec_.commands.size());
}

WorkerGroup::~WorkerGroup() {
  *alive_token_ = nullptr;
  give_up_stacks();  // It looks at processes, so it ends before any of them is reaped.
  if (processes_.empty() || over()) return;
  kill_all();
  forget_sessions();
}

void WorkerGroup::forget_sessions() {
  if (host_.guard() == nullptr) return;
  for (const pid_t leader : told_guard_) host_.guard()->forget_session(leader);
  told_guard_.clear();
}

void WorkerGroup::ended(int rank) {
  Effects effects = hear_end(rank);
  // A tracer (a debugger, strace) is told first, and we cannot know the end until it lets go.
  if (!workers_[static_cast<std::size_t>(rank)].exit) look_again_at(rank);
  play(std::move(effects));
}

void WorkerGroup::look_again_at(int rank) {
  traced_.insert(rank);
  second_look_.set(io::now() + kSecondLook, [this] {
    for (const int again : std::exchange(traced_, {})) ended(again);
  });
}

Effects WorkerGroup::hear_end(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  Worker& worker = workers_[index];
  if (worker.exit) return {};  // We saw its end before we were told.
  worker.exit = processes_[index].exited();
  if (!worker.exit) return {};
  worker.ended_micros = io::utc_micros();
  const bool first = !machine_.first_failure();
  auto effects =
      machine_.on_exit(rank, {.code = worker.exit->code, .signal = worker.exit->signal}, io::now());
  const WorkerOutcome& outcome = machine_.workers()[index];
  if (outcome.end != End::Succeeded)
    worker.evidence =
        take_evidence({.pid = processes_[index].pid(),
                       .exit = *worker.exit,
                       .signalled_by_us = outcome.end == End::Stopped || outcome.condemned,
                       .directory = spec_.commands[index].directory,
                       .program = worker.program,
                       .log_file = routes_.workers[index].err.file},
                      before_, worker.leaf.get());
  // Reported before anything is done about it: the other nodes need not wait until we have stopped.
  if (first && machine_.first_failure() && events_.failed) events_.failed(describe(rank));
  return effects;
}

void WorkerGroup::hear_all_ends(Effects& effects) {
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    const Effects more = hear_end(static_cast<int>(rank));
    effects.insert(effects.end(), more.begin(), more.end());
  }
}

void WorkerGroup::play(Effects effects) {
  for (std::size_t i = 0; i < effects.size(); ++i) {  // It may grow.
    const Effect effect = effects[i];
    // A worker that has ended before our signal ended by itself, though we have not been told yet.
    std::visit(Cases{[this, &effects](const SignalAll& order) {
                       hear_all_ends(effects);
                       if (holds_for_stacks(order)) return;
                       machine_.on_signalled(order.number);
                       signal_all(order.number);
                     },
                     [this, &effects](const KillAll&) {
                       give_up_stacks();
                       hear_all_ends(effects);
                       machine_.on_signalled(kSigKill);
                       kill_all();
                     },
                     [this](const KillWorker& order) {
                       processes_[static_cast<std::size_t>(order.worker)].signal(SIGKILL);
                     },
                     [this, &effects](const CountAlive&) {
                       const Effects more = machine_.on_count(count_alive(), io::now());
                       effects.insert(effects.end(), more.begin(), more.end());
                     },
                     [this](const GroupOver&) { finish(); }},
               effect);
  }
  arm();
}

void WorkerGroup::arm() {
  if (const auto next = machine_.next_deadline()) {
    deadline_.set(*next, [this] { play(machine_.on_deadline(io::now())); });
  } else {
    deadline_.cancel();
  }
}

void WorkerGroup::stop(int signal, Duration grace, StopFor reason) {
  stop_for_ = reason;
  play(machine_.stop(signal, grace, io::now()));
}

void WorkerGroup::kill() { play(machine_.kill(io::now())); }

void WorkerGroup::forward(int signal) {
  if (signal == SIGWINCH) host_.pump().copy_window_size();
  for (const io::Process& process : processes_) {
    // Only the worker itself knows what the signal means; its helper processes would die of it.
    if (signal == SIGCONT) {
      process.signal_group(signal);
    } else {
      process.signal(signal);
    }
  }
}

void WorkerGroup::on_child() {
  reap_orphans();
  if (machine_.running() == 0 && !processes_.empty() && !over())
    play(machine_.on_count(count_alive(), io::now()));
}

std::vector<pid_t> WorkerGroup::our_children() const {
  std::vector<pid_t> ours;
  ours.reserve(processes_.size() + 1 + host_.strangers().size());
  for (const io::Process& process : processes_) ours.push_back(process.pid());
  if (host_.guard() != nullptr) ours.push_back(host_.guard()->pid());
  if (taker_)
    for (const pid_t helper : taker_->helpers()) ours.push_back(helper);
  ours.insert(ours.end(), host_.strangers().begin(), host_.strangers().end());
  return ours;
}

void WorkerGroup::reap_orphans() {
  if (spec_.claim_orphans) io::reap_orphans(our_children());
}

void WorkerGroup::signal_all(int number) {
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
  expect_progress();
}

void WorkerGroup::expect_progress() {
  progress_.set(io::now() + kStopProgress, [this] {
    if (over()) return;
    if (events_.waiting) events_.waiting(waiting_for());
    expect_progress();
  });
}

void WorkerGroup::kill_all() {
  // Looked for first: once a leader is dead, nothing links it to the processes that left its
  // session.
  const auto members = alive();
  for (const Worker& worker : workers_)
    if (worker.leaf) worker.leaf->kill_all();
  for (const io::Process& process : processes_) process.signal_group(SIGKILL);
  for (const io::ProcessInfo& process : members) io::signal_exactly(process, SIGKILL);
}

io::Roots WorkerGroup::roots() const {
  io::Roots roots;
  if (spec_.claim_orphans) roots.reaper = ::getpid();
  for (const io::Process& process : processes_) roots.leaders.insert(process.pid());
  if (host_.guard() != nullptr) roots.spared.insert(host_.guard()->pid());
  if (taker_)
    for (const pid_t helper : taker_->helpers()) roots.spared.insert(helper);
  roots.spared.insert(host_.strangers().begin(), host_.strangers().end());
  return roots;
}

std::vector<io::ProcessInfo> WorkerGroup::alive() const {
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

int WorkerGroup::count_alive() {
  reap_orphans();
  if (spec_.claim_orphans && machine_.running() == 0) {
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

void WorkerGroup::finish() {
  progress_.cancel();
  hang_look_.cancel();
  give_up_stacks();
  for (const io::ProcessInfo& process : alive())
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
  host_.pump().drain(io::now() + kDrainLimit,
                     [&loop = loop_, token = alive_token_](const std::vector<int>& still_open) {
                       loop.post([token, still_open] {
                         if (*token != nullptr) (*token)->report(still_open);
                       });
                     });
}

void WorkerGroup::report(const std::vector<int>& still_open) {
  if (!still_open.empty())
    host_.warn("the output of local rank " + in_ranges(still_open) +
               " is still held open by another process; what comes now is not read");
  WorkersResult result;
  result.succeeded = machine_.succeeded() && survivors_.empty();
  result.survivors = survivors_;
  result.logs = routes_;
  if (stacks_) {
    result.where = stacks_->summary;
    result.stacks_file = stacks_->file;
  }
  std::vector<std::size_t> order;
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    const WorkerOutcome& outcome = machine_.workers()[rank];
    result.exit_codes.push_back(outcome.end == End::Survived ? -SIGKILL
                                                             : python_exit_code(outcome.exit));
    // A condemned worker may have ended with 0.
    if (outcome.end == End::Survived || outcome.end == End::Failed || !outcome.exit.clean())
      order.push_back(rank);
  }
  const auto when = [this](std::size_t rank) {
    const int place = machine_.workers()[rank].order;
    return place < 0 ? static_cast<int>(workers_.size()) : place;
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return when(a) < when(b); });
  for (const std::size_t rank : order) {
    result.failures.push_back(describe(static_cast<int>(rank)));
    if (machine_.first_failure() == static_cast<int>(rank)) result.cause = result.failures.back();
  }
  if (events_.over) events_.over(std::move(result));
}

ProcessFailure WorkerGroup::describe(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  const Worker& worker = workers_[index];
  auto failure = make_failure({.name = spec_.attempt.workers[index],
                               .host = host_name_,
                               .pid = processes_[index].pid(),
                               .outcome = machine_.workers()[index],
                               .time_micros = worker.ended_micros,
                               .error_file = worker.error_file,
                               .evidence = worker.evidence,
                               .tail = host_.pump().tail(rank),
                               .ended_for = worker.ended_for});
  if (stacks_)
    for (const WorkerStack& stack : stacks_->workers)
      if (stack.local_rank == rank) failure.stack = stack.python;
  return failure;
}

std::map<int, pid_t> WorkerGroup::pids() const {
  std::map<int, pid_t> pids;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank)
    pids[spec_.attempt.workers[rank].local_rank] = processes_[rank].pid();
  return pids;
}

std::vector<WorkerGroup::Standing> WorkerGroup::standing() const {
  std::vector<Standing> all;
  all.reserve(processes_.size());
  for (std::size_t rank = 0; rank < processes_.size(); ++rank)
    all.push_back(
        {spec_.attempt.workers[rank], processes_[rank].pid(), machine_.workers()[rank].end});
  return all;
}

bool WorkerGroup::stopping() const {
  return machine_.phase() == Phase::Stopping || machine_.phase() == Phase::Killing;
}

std::string WorkerGroup::waiting_for() const { return machine_.waiting_for(io::now()); }

}  // namespace regroup::runtime
