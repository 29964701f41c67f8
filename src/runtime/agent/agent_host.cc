#include "runtime/agent/agent_host.h"

#include <signal.h>

#include <utility>
#include <variant>

#include "base/cases.h"
#include "base/text.h"
#include "core/run/run_rules.h"
#include "io/loop/clock.h"
#include "io/process/signals.h"
#include "runtime/agent/agent_words.h"
#include "runtime/agent/workers_of.h"
#include "runtime/rounds/run_rounds.h"
#include "runtime/workers/worker_signals.h"

namespace regroup::runtime {

using namespace core::agent;

namespace {

// A coordinator says within so long what follows from a failure; else we go by what we know.
constexpr Duration kDecisionLimit = 10s;
// After so long people are told that the other nodes are still waited for at the end.
constexpr Duration kSlowCheckIn = 3s;

std::unique_ptr<LocalProcesses> local_processes(io::Loop& loop, WorkerHost& host,
                                                const AgentOptions& options) {
  WorkersSpec spec = options.workers;
  spec.claim_orphans = true;
  if (!spec.give_up_start)
    spec.give_up_start = [signals = options.signals_to_handle] { return io::is_pending(signals); };
  return std::make_unique<LocalProcesses>(loop, host, std::move(spec), options.logs);
}

}  // namespace

AgentHost::AgentHost(io::Loop& loop, WorkerHost& host, AgentOptions options,
                     const MakeRounds& make_rounds)
    : loop_(loop),
      host_(host),
      options_(std::move(options)),
      local_(options_.backend ? nullptr : local_processes(loop, host, options_)),
      backend_(local_ ? Backend{*local_, local_.get()} : Backend{*options_.backend}),
      machine_({.max_restarts = options_.spec.max_restarts,
                .stop_signal = options_.workers.stop_signal,
                .grace = options_.workers.grace,
                .exit_limit = options_.exit_barrier_timeout,
                // A coordinator that was started again waits as long as a silent node may before it
                // decides anything.
                .decision_limit = kDecisionLimit + options_.rules.heartbeat_limit}),
      records_(options_, [this](AgentEvent::What what) { tell(std::move(what)); }),
      deadline_(loop),
      check_in_slow_(loop) {
  health_.run_id = options_.rendezvous.run_id;
  health_.role = options_.spec.role;
  health_.max_restarts = options_.spec.max_restarts;
  health_.begun = io::now();
  health_.begun_micros = io::utc_micros();
  AgentPart part{.role = options_.spec.role,
                 .workers = options_.spec.local_world_size,
                 .rules = options_.rules};
  part.rules.max_restarts = options_.spec.max_restarts;
  rounds_ = make_rounds ? make_rounds(round_events())
                        : std::make_unique<RunRounds>(loop, options_.rendezvous, std::move(part),
                                                      round_events());
}

RoundEvents AgentHost::round_events() {
  return {
      .joined = [this](JoinedRound round) { joined(std::move(round)); },
      .join_failed = [this](const JoinFailed& failed) { join_failed(failed); },
      .ordered = [this](Order order) { play(machine_.on_order(std::move(order))); },
      .reached = [this](const std::string& trouble) { reached(trouble); },
      .waiting =
          [this](const std::string& line) {
            waiting_ = line;
            tell(AgentEvent::Waiting{.text = line});
          },
      .waits =
          [this](const RendezvousWait& wait) {
            tell(AgentEvent::Progress{.text = wait.text, .took = wait.so_far, .left = wait.left});
          },
      .warned = [this](int signal, const std::string& node) { warned(signal, node); },
      .hangs =
          [this](bool all_say_so) {
            if (group_) group_->hear_hang(all_say_so);
          },
      .blamed =
          [this](const core::hang::Blame& blame) {
            if (group_) group_->hear_blame(blame);
          },
      .left = [this] { play(machine_.on_left()); },
      .recorded = [this](const RendezvousRecord& record) { tell(record); }};
}

void AgentHost::warned(int signal, const std::string& node) {
  // Nobody can be warned by what cannot be caught.
  if (signal == SIGKILL || signal == SIGSTOP) return;
  tell(AgentEvent::Signalled{.text = io::signal_name(signal) + " came to " + node +
                                     ": handed on to the workers"});
  forward(signal);
}

// Workers can go on without a coordinator; only the next round cannot.
void AgentHost::reached(const std::string& trouble) {
  machine_.on_reach(trouble.empty(), io::now());
  if (machine_.doing() == Doing::Running)
    tell(AgentEvent::Waiting{.text = trouble.empty() ? "the coordinator answers again" : trouble});
  arm();
}

void AgentHost::begin() { play(machine_.begin()); }

void AgentHost::on_signal(const io::SignalEvent& event, bool deliberate) {
  if (std::exchange(interrupted_start_, 0) == event.number)
    return tell(
        AgentEvent::Signalled{.text = describe_signal(event) + ": " + result_.error.message});
  const Instant now = io::now();
  const StopSignal signal{.number = event.number, .deliberate = deliberate || is_key(event)};
  const SignalMeaning meaning = machine_.meaning(signal, now);
  const bool again = meaning == SignalMeaning::Again;
  std::string what = what_follows(meaning, machine_.has_workers(), signal);
  if (lingers_ && meaning != SignalMeaning::Echo)
    what = again ? ": killing what the workers left running"
                 : ": ending what the workers left running; once more kills it";
  tell(AgentEvent::Signalled{.text = describe_signal(event) + what});
  cut_short_ = cut_short_ || lingers_;
  if (lingers_ && again) group_->kill();
  if (lingers_ && meaning == SignalMeaning::First)
    group_->stop(event.number, options_.workers.grace);
  if (meaning == SignalMeaning::First) result_.signal = event.number;
  play(machine_.on_signal(signal, now));
}

void AgentHost::forward(int signal) {
  if (group_) group_->forward(signal);
}

void AgentHost::share(const io::SignalEvent& event) {
  const bool told = rounds_->warn(event.number);
  tell(AgentEvent::Signalled{
      .text = describe_signal(event) + ": handed on to the workers of " +
              (told ? "all nodes" : "this node; there is no coordinator to tell the others")});
  forward(event.number);
}

void AgentHost::on_child() {
  if (local_ && group_) local_->reap_orphans();
  if (group_) group_->on_child();
}

void AgentHost::play(const Effects& effects) {
  for (const Effect& effect : effects)
    std::visit(
        Cases{[this](const Join&) { join(); },
              [this](const Start& order) { start(order.restart_count); },
              [this](const Stop& order) { stop_group(order.signal, order.grace); },
              [this](const Kill&) { group_->kill(); },
              [this](const GiveUpJoin&) { rounds_->give_up_join(); },
              [this](const Report&) { report(untold_failure_); }, [this](const Ask&) { ask(); },
              [this](const CheckIn& order) { check_in(order.succeeded); },
              [this](const Tell& told) { say(told); },
              [this](const TellFailure& told) {
                tell(AgentEvent::Failed{.failure = std::move(untold_failure_),
                                        .then = then_of(told.then),
                                        .restart = told.restart,
                                        .max_restarts = machine_.max_restarts()});
              },
              [this](const Leave& order) {
                if (machine_.ending() == Ending::Failed) take_verdict();
                if (machine_.stopped_with_us()) forget_cause();
                end_watchdog();
                records_.ended(machine_.ending(), result_);
                rounds_->leave(machine_.ending(), order.close);
              },
              [this](const Finish& end) { finish(end.ending); }},
        effect);
  arm();
  if (changed_) changed_();
}

void AgentHost::arm() {
  if (const auto next = machine_.next_deadline())
    deadline_.set(*next, [this] { play(machine_.on_time(io::now())); });
  else
    deadline_.cancel();
}

void AgentHost::say(const Tell& told) {
  switch (told.what) {
    case Tell::What::MembersChanged:
      return tell(AgentEvent::MembersChanged{.text = told.text});
    case Tell::What::FailedElsewhere:
      return tell(AgentEvent::FailedElsewhere{
          .text = told.text, .restart = told.restart, .max_restarts = machine_.max_restarts()});
    case Tell::What::RunFailed:
      return tell(AgentEvent::RunFailed{.text = told.text});
    case Tell::What::CheckedIn:
      records_.checked_in();
      check_in_slow_.cancel();
      return tell(AgentEvent::CheckedIn{.text = told.text, .took = io::now() - check_in_began_});
    case Tell::What::Restart:
      return tell(AgentEvent::Waiting{
          .text = "the coordinator has decided: restart " + std::to_string(told.restart) +
                  (told.restart > machine_.max_restarts()
                       ? ""
                       : " of " + std::to_string(machine_.max_restarts()))});
    case Tell::What::Nobody:
      return tell(AgentEvent::Waiting{.text = told.text});
  }
}

void AgentHost::stop_group(int signal, Duration grace) {
  tell(AgentEvent::Progress{.text = "stopping the workers", .left = grace});
  records_.stopping();
  group_->stop(signal, grace, machine_.signal() == 0 ? StopFor::Failure : StopFor::Order);
}

void AgentHost::join() {
  // Nothing of the last attempt may be there in the next one.
  if (lingers_) group_->stop(options_.workers.stop_signal, options_.workers.grace);
  records_.joining(machine_.restart_count(), machine_.remaining_restarts());
  waiting_.clear();
  rounds_->join();
}

void AgentHost::joined(JoinedRound round) {
  round_ = std::move(round);
  if (!options_.spec.master_addr.empty())
    round_->info.bootstrap.address = options_.spec.master_addr;
  if (options_.spec.master_port != 0) round_->info.bootstrap.port = options_.spec.master_port;
  records_.joined(*round_);
  ++health_.rounds;
  tell(joined_event(options_.spec, *round_));
  if (!round_->info.restart_count && core::run::ask_for_a_coordinator(options_.rules) &&
      !std::exchange(warned_, true))
    host_.warn(
        "the flags about restarts and lost nodes need a coordinator, which is there where regroup "
        "hosts a c10d rendezvous: without one only --max-restarts counts, on each node by itself");
  std::optional<int> restarts;
  if (round_->info.restart_count) restarts = static_cast<int>(*round_->info.restart_count);
  // The workers are told the limit that counts, too.
  if (round_->max_restarts)
    health_.max_restarts = options_.spec.max_restarts = *round_->max_restarts;
  play(machine_.on_joined(restarts, round_->max_restarts));
}

void AgentHost::join_failed(const JoinFailed& failed) {
  records_.join_failed(failed.took_to_meet);
  result_.error = failed.error;
  play(machine_.on_join_failed(failed.why, failed.end));
}

void AgentHost::start(int restart_count) {
  if (lingers_) {
    start_after_ = restart_count;
    return;
  }
  const Instant begun = io::now();
  records_.starting();
  if (auto started = start_group(restart_count); !started) {
    records_.start_failed();
    result_.error = started.error();
    group_.reset();
    if (started.error().kind == ErrorKind::Cancelled) heed_signal_that_waits();
    return play(machine_.on_start_failed());
  }
  machine_.on_started();
  records_.started(group_->pids());
  tell(AgentEvent::Started{.took = io::now() - begun});
  if (local_)
    stuck_ = std::make_unique<StuckWorkers>(
        loop_, options_.stuck_limit,
        StuckWorkers::Questions{.pids = [this] { return group_->pids(); },
                                .found =
                                    [this](int local_rank, const std::string& why) {
                                      group_->end_for(local_rank, SIGKILL, why);
                                    }});
  rounds_->workers_run(restart_count);
}

// The start was given up because of it. The loop reads it only later.
void AgentHost::heed_signal_that_waits() {
  const int number = io::pending_of(options_.signals_to_handle);
  if (number == 0) return;
  result_.signal = interrupted_start_ = number;
  [[maybe_unused]] const Effects none = machine_.on_signal({.number = number}, io::now());
}

Result<void> AgentHost::start_group(int restart_count) {
  WatchdogFiles files;
  if (watchdog_) files.timers = watchdog_->path();
  if (heartbeats_) {
    if (auto opened = heartbeats_->open(options_.spec.local_world_size))
      files.heartbeats = std::move(*opened);
    else
      host_.warn("heartbeats are not watched: " + opened.error().message);
  }
  auto workers = workers_of(options_, *round_, restart_count, files);
  if (!workers) return tl::unexpected(workers.error());
  GroupEvents events{
      .failed = [this](const ProcessFailure& failure) { worker_failed(failure); },
      .waiting = [this](const std::string& text) { tell(AgentEvent::Waiting{.text = text}); },
      .succeeded = [this](WorkersResult result) { group_succeeded(std::move(result)); },
      .over = [this](WorkersResult result) { group_over(std::move(result)); }};
  // What looks like a hang here may be a wait for another node.
  if (round_->info.world_size > 1) {
    events.stalled = [this](const auto& votes) { rounds_->say_stalled(votes); };
    events.where = [this](const auto& ours) { rounds_->say_where(ours); };
  }
  rounds_->say_stalled({});
  reported_ = false;
  group_ = std::make_unique<WorkerGroup>(loop_, backend_, std::move(*workers), std::move(events));
  return group_->start();
}

void AgentHost::worker_failed(const ProcessFailure& failure) {
  records_.stopping();
  health_.last_failure = health_of(failure);
  untold_failure_ = failure;
  // A worker that we ended has its own reason.
  const bool looks_signalled =
      !group_->was_ended_for(failure.local_rank) &&
      core::supervision::looks_signalled(failure.exit_code, failure.message);
  play(machine_.on_worker_failed(io::now(), looks_signalled));
}

void AgentHost::group_succeeded(WorkersResult result) {
  lingers_ = true;
  workers_are_done(std::move(result));
}

void AgentHost::group_over(WorkersResult result) {
  if (!lingers_) return workers_are_done(std::move(result));
  // Later: what follows may destroy the group, which is calling us.
  loop_.post([this, over = std::move(result)]() mutable { linger_is_over(std::move(over)); });
}

void AgentHost::linger_is_over(WorkersResult result) {
  lingers_ = false;
  const bool survived = !result.survivors.empty();
  result_.workers = std::move(result);
  if (const auto count = std::exchange(start_after_, {})) return start(*count);
  if (const auto ending = std::exchange(finish_after_, {}))
    finish(survived ? Ending::LeftBehind : *ending);
}

void AgentHost::workers_are_done(WorkersResult result) {
  stuck_.reset();
  if (watchdog_) {
    watchdog_->forget_all();
    heartbeats_->close();
  }
  const GroupEnd end = end_of(result);
  result_.cause = result.cause;
  if (result.cause) health_.last_failure = health_of(*result.cause);
  result_.failures.clear();
  for (const ProcessFailure& failure : result.failures)
    result_.failures.emplace(failure.global_rank, failure);
  result_.workers = std::move(result);
  rounds_->workers_ended();
  records_.group_over(end, machine_.signal() != 0);
  play(machine_.on_group_over(end, io::now()));
}

// Before anything else is done about it: the other nodes should stop at the same time as we do.
void AgentHost::report(const ProcessFailure& failure) {
  reported_ = true;
  rounds_->failed(
      {.rank = failure.global_rank, .exit_code = failure.exit_code, .text = text_of(failure)});
}

// A signal came to us and to our workers at once: none of them has failed.
void AgentHost::forget_cause() {
  result_.cause.reset();
  result_.workers.cause.reset();
  health_.last_failure.reset();
}

// Where something else than a worker of ours has ended the run, what failed here is not the cause.
void AgentHost::take_verdict() {
  const auto& verdict = machine_.verdict();
  if (verdict.text.empty()) return;
  if (verdict.is_failure)
    result_.cause_elsewhere = verdict.text;
  else
    result_.error = {ErrorKind::Closed, "the run has ended: " + verdict.text};
  result_.cause.reset();
  result_.workers = {};
}

void AgentHost::ask() {
  if (!reported_ && result_.cause)
    report(*result_.cause);
  else if (!reported_)
    rounds_->failed({.rank = round_->ranks.base_global_rank,
                     .exit_code = -1,
                     .text = "the workers of node " + std::to_string(round_->info.rank) +
                             " ended by nobody's order"});
}

void AgentHost::check_in(bool succeeded) {
  records_.checking_in();
  const std::string cause = result_.cause ? text_of(*result_.cause) : "";
  check_in_began_ = io::now();
  if (succeeded && round_ && round_->info.world_size > 1) {
    const std::string text = "done here; waiting for the other nodes";
    tell(AgentEvent::Progress{.text = text, .left = options_.exit_barrier_timeout});
    // Most waits are short, and need no line.
    check_in_slow_.set(check_in_began_ + kSlowCheckIn, [this, text] {
      tell(AgentEvent::Waiting{.text = text + ", at most " +
                                       in_words(options_.exit_barrier_timeout) +
                                       " (--exit-barrier-timeout)"});
    });
  }
  rounds_->check_in(succeeded, cause);
}

void AgentHost::finish(Ending ending) {
  if (lingers_) {
    finish_after_ = ending;
    return group_->let_go();
  }
  if (cut_short_ && ending == Ending::Succeeded) ending = Ending::Signalled;
  result_.ending = ending_of(ending);
  result_.state = state_of(machine_.state());
  result_.restarts = machine_.restart_count();
  if (const std::string& note = machine_.end_note(); !note.empty())
    tell(AgentEvent::Waiting{.text = "not started again: " + note});
  tell(AgentEvent::Ended{.result = result_});
  loop_.stop();
}

WorkerState AgentHost::state() const { return state_of(machine_.state()); }

RunResult AgentHost::take_result() { return std::move(result_); }

void AgentHost::tell(AgentEvent::What what) const {
  if (changed_) changed_();
  if (!options_.on_event) return;
  AgentEvent event{.what = std::move(what), .local_world_size = options_.spec.local_world_size};
  if (round_) {
    event.world_size = round_->ranks.global_world_size;
    event.round = round_->info.round;
    event.group_rank = round_->info.rank;
    event.group_world_size = round_->info.world_size;
  }
  event.tell = [this](const std::string& line) { host_.pump().print(line); };
  Duration took{};
  std::optional<Duration> left;
  if (const auto* progress = std::get_if<AgentEvent::Progress>(&event.what)) {
    took = progress->took;
    left = progress->left;
  }
  event.show = [this, took, left](const std::string& line) {
    if (line.empty()) return host_.pump().hide_live();
    core::output::LiveLine live{.text = line, .since = io::now() + -took, .until = {}};
    if (left) live.until = io::deadline_after(*left);
    host_.pump().show_live(std::move(live));
  };
  options_.on_event(event);
}

}  // namespace regroup::runtime
