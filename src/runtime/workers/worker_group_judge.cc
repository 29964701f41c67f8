// Workers that are ended for what they did: an expired timer, a hang. Before that, the stacks of
// all of them are taken.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "io/loop/clock.h"
#include "runtime/common/limits.h"
#include "runtime/workers/worker_group.h"

namespace regroup::runtime {

using namespace core::supervision;

std::string WorkerGroup::dump_file(int rank) const {
  const std::string& error_file = routes_.workers[static_cast<std::size_t>(rank)].error_file;
  if (spec_.take_stacks == TakeStacks::Never || spec_.dump_signal == 0 || error_file.empty())
    return {};
  return (std::filesystem::path(error_file).parent_path() / "dump.txt").string();
}

bool WorkerGroup::end_for(int local_rank, int signal, const std::string& why) {
  const auto& outcome = machine_.workers().at(static_cast<std::size_t>(local_rank));
  if (machine_.phase() != Phase::Running || outcome.end != End::None) return false;
  with_stacks("rank " + std::to_string(global_rank(local_rank)) + ": " + why,
              [this, local_rank, signal, why] { execute(local_rank, signal, why); });
  return true;
}

bool WorkerGroup::execute(int local_rank, int signal, const std::string& why) {
  Effects effects;
  hear_all_ends(effects);  // A worker that has ended meanwhile ended by itself.
  const bool condemned = machine_.condemn(local_rank, signal, io::now());
  if (condemned) {
    const auto index = static_cast<std::size_t>(local_rank);
    workers_[index].ended_for = why;
    processes_[index].signal(signal);
    processes_[index].signal(SIGCONT);  // A suspended process cannot react to a signal.
  }
  play(std::move(effects));  // This also arms its deadline.
  return condemned;
}

// ---- Stacks ----

void WorkerGroup::with_stacks(const std::string& why, std::function<void()> then) {
  if (spec_.take_stacks == TakeStacks::Never || stacks_) return then();
  after_stacks_.push_back(std::move(then));
  if (taker_) return;
  std::vector<StackTarget> targets;
  const auto everybody = io::list_processes();
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (workers_[rank].exit) continue;
    const WorkerName& name = spec_.attempt.workers[rank];
    targets.push_back({.local_rank = name.local_rank,
                       .global_rank = name.global_rank,
                       .pid = behind_shells(everybody, processes_[rank].pid()),
                       .program = spec_.commands[rank].argv.front(),
                       .dump_file = dump_file(static_cast<int>(rank))});
  }
  taker_ = std::make_unique<StackTaker>(
      std::move(targets),
      StackOptions{.limit = kStacksLimit,
                   .dump_signal = spec_.dump_signal,
                   .file = routes_.directory.empty() ? "" : routes_.directory + "/stacks.txt",
                   .why = why,
                   .tail = [&pump = host_.pump()](int rank) { return pump.tail(rank); }},
      [&loop = loop_, token = alive_token_](Stacks stacks) {
        loop.post([token, stacks = std::move(stacks)]() mutable {
          if (*token != nullptr) (*token)->stacks_taken(std::move(stacks));
        });
      });
  stacks_limit_.set(io::now() + kStacksLimit + kStacksDisk, [this] {
    if (taker_) stacks_taken(taker_->so_far());
  });
}

void WorkerGroup::stacks_taken(Stacks stacks) {
  if (!taker_) return;  // They came too late.
  taker_.reset();
  stacks_limit_.cancel();
  if (hang_) hang_->on_disturbed();
  stacks_ = std::move(stacks);
  if (events_.waiting && !stacks_->summary.empty())
    events_.waiting(stacks_->summary + (stacks_->file.empty() ? "" : "; stacks: " + stacks_->file));
  for (const auto& then : std::exchange(after_stacks_, {})) then();
}

void WorkerGroup::give_up_stacks() {
  taker_.reset();
  after_stacks_.clear();
}

bool WorkerGroup::holds_for_stacks(const SignalAll& order) {
  const bool wanted = spec_.take_stacks == TakeStacks::Always && stop_for_ == StopFor::Failure &&
                      machine_.running() > 0;
  if (!wanted || stacks_) {
    give_up_stacks();
    return false;
  }
  machine_.postpone(kStacksLimit);  // The grace does not run meanwhile.
  with_stacks("the workers are stopped because of a failure",
              [this, number = order.number, since = io::now()] {
                machine_.postpone(io::now() - since - kStacksLimit);
                play({SignalAll{number}});
              });
  return true;
}

// ---- Hangs ----

void WorkerGroup::look_for_hangs() {
  if (spec_.hang_timeout <= Duration{}) return;
  hang_.emplace(core::hang::Settings{.timeout = spec_.hang_timeout,
                                     .grace = spec_.hang_grace.value_or(2 * spec_.hang_timeout)},
                static_cast<int>(workers_.size()), io::now());
  hang_look_.set(hang_->next_look(), [this] { look_for_a_hang(); });
}

// Whether workers are being ended already: one with much memory to free may take long to die.
bool WorkerGroup::is_judged() const {
  const auto& workers = machine_.workers();
  return machine_.phase() != Phase::Running ||
         std::any_of(workers.begin(), workers.end(),
                     [](const WorkerOutcome& worker) { return worker.condemned; });
}

void WorkerGroup::look_for_a_hang() {
  if (is_judged()) return;
  if (taker_) {  // Taking stacks makes them move.
    hang_look_.set(io::now() + kDumpPatience, [this] { look_for_a_hang(); });
    return;
  }
  std::vector<WatchedWorker> watched;
  watched.reserve(workers_.size());
  for (std::size_t rank = 0; rank < workers_.size(); ++rank)
    watched.push_back({.pid = workers_[rank].exit ? 0 : processes_[rank].pid(),
                       .requests = workers_[rank].requests});
  hang_->on_look(look_at_workers(watched), io::now());
  hang_look_.set(hang_->next_look(), [this] { look_for_a_hang(); });
  stall_ = hang_->stalled();
  if (!events_.stalled)
    all_say_hang_ = stall_ && core::hang::is_hang(core::hang::votes_of(*stall_));
  else if (!stall_)
    all_say_hang_ = false;  // Whatever the others say.
  if (events_.stalled) events_.stalled(stall_);
  follow_hang();
}

void WorkerGroup::hear_hang(bool all_say_so) {
  all_say_hang_ = all_say_so;
  if (!is_judged() && !taker_) follow_hang();
}

void WorkerGroup::follow_hang() {
  if (!stall_ || !all_say_hang_) {
    no_hang();
  } else if (!hung_) {
    judge_hang(*stall_);
  } else if (blame_ourselves_at_ && io::now() >= *blame_ourselves_at_) {
    hear_blame(core::hang::blame(stacks_ ? stacks_->ranks() : std::vector<core::hang::RankAt>()));
  }
}

// It was no hang, or the worker to blame has ended: these stacks are of no use for the next hang.
void WorkerGroup::no_hang() {
  if (!hung_) return;
  hung_.reset();
  stacks_.reset();
  blame_ourselves_at_.reset();
}

void WorkerGroup::judge_hang(const core::hang::Stall& stall) {
  hung_ = stall;
  const auto global = [this](const std::vector<int>& ranks) {
    std::vector<int> all;
    all.reserve(ranks.size());
    for (const int rank : ranks) all.push_back(global_rank(rank));
    return all;
  };
  std::vector<int> others = stall.waiting;
  others.insert(others.end(), stall.spinning.begin(), stall.spinning.end());
  std::string line = "this node's workers wait for another's";
  if (!stall.suspects.empty())
    line = ranks_in_words(global(stall.suspects)) +
           (stall.suspects.size() == 1 ? " has " : " have ") +
           core::hang::signals_in_words(stall.quiet) +
           (others.empty() ? ""
                           : ", while " + ranks_in_words(global(others)) +
                                 (others.size() == 1 ? " waits" : " wait"));
  if (events_.waiting)
    events_.waiting("hang: " + line +
                    (spec_.take_stacks == TakeStacks::Never ? "" : "; taking stacks"));
  with_stacks("hang: " + line, [this] {
    if (!hung_) return;  // It was no hang.
    const auto ours = stacks_ ? stacks_->ranks() : std::vector<core::hang::RankAt>();
    if (!events_.where) return hear_blame(core::hang::blame(ours));
    blame_ourselves_at_ = io::now() + kOtherNodesTurn;
    events_.where(ours);
  });
}

void WorkerGroup::hear_blame(const core::hang::Blame& blame) {
  if (!hung_ || machine_.phase() != Phase::Running) return;
  if (stacks_ && events_.where && !blame.summary.empty() && blame.summary != stacks_->summary) {
    stacks_->summary = blame.summary;
    if (events_.waiting) events_.waiting(stacks_->summary);
  }
  const auto& names = spec_.attempt.workers;
  auto found = std::find_if(names.begin(), names.end(), [&](const WorkerName& name) {
    return blame.rank && name.global_rank == *blame.rank;
  });
  if (found == names.end()) {
    // For a while, it is another node's turn to act.
    if (blame.rank && blame_ourselves_at_ && io::now() < *blame_ourselves_at_) return;
    const auto& ours = hung_->suspects.empty() ? hung_->spinning : hung_->suspects;
    if (ours.empty()) return no_hang();
    found = names.begin() + ours.front();
  }
  const auto rank = static_cast<int>(found - names.begin());
  const auto& suspects = hung_->suspects;
  const bool suspect = std::find(suspects.begin(), suspects.end(), rank) != suspects.end();
  const std::string why = suspect ? "hangs: it has " + core::hang::signals_in_words(hung_->quiet)
                                  : "hangs: it is where no other rank is, and the run stands still";
  if (!execute(rank, SIGKILL, why)) no_hang();
}

int WorkerGroup::global_rank(int local_rank) const {
  return spec_.attempt.workers[static_cast<std::size_t>(local_rank)].global_rank;
}

void WorkerGroup::note_request(int local_rank) {
  ++workers_[static_cast<std::size_t>(local_rank)].requests;
}

}  // namespace regroup::runtime
