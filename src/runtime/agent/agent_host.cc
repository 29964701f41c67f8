#include "runtime/agent/agent_host.h"

#include <signal.h>

#include <utility>
#include <variant>

#include "base/cases.h"
#include "core/run/run_rules.h"
#include "io/loop/clock.h"
#include "io/process/signals.h"
#include "runtime/rounds/run_rounds.h"
#include "runtime/workers/worker_environment.h"
#include "runtime/workers/worker_signals.h"

namespace regroup::runtime {

using namespace core::agent;

namespace {

// A coordinator says within so long what follows from a failure; else we go by what we know.
constexpr Duration kDecisionLimit = 10s;

WorkerState state_of(State state) {
  switch (state) {
    case State::Unknown:
      return WorkerState::Unknown;
    case State::Init:
      return WorkerState::Init;
    case State::Healthy:
      return WorkerState::Healthy;
    case State::Unhealthy:
      return WorkerState::Unhealthy;
    case State::Stopped:
      return WorkerState::Stopped;
    case State::Succeeded:
      return WorkerState::Succeeded;
    case State::Failed:
      return WorkerState::Failed;
  }
  return WorkerState::Unknown;
}

RunResult::Ending ending_of(Ending ending) {
  switch (ending) {
    case Ending::Succeeded:
      return RunResult::Ending::Succeeded;
    case Ending::Failed:
      return RunResult::Ending::Failed;
    case Ending::Signalled:
      return RunResult::Ending::Signalled;
    case Ending::NotNeeded:
      return RunResult::Ending::NotNeeded;
    case Ending::CouldNotJoin:
      return RunResult::Ending::CouldNotJoin;
    case Ending::CouldNotStart:
      return RunResult::Ending::CouldNotStart;
    case Ending::LeftBehind:
      return RunResult::Ending::LeftBehind;
  }
  return RunResult::Ending::Failed;
}

AgentEvent::Failed::Then then_of(TellFailure::Then then) {
  switch (then) {
    case TellFailure::Then::Restart:
      return AgentEvent::Failed::Then::Restart;
    case TellFailure::Then::Rejoin:
      return AgentEvent::Failed::Then::Rejoin;
    case TellFailure::Then::End:
      return AgentEvent::Failed::Then::End;
    case TellFailure::Then::Undecided:
      return AgentEvent::Failed::Then::Undecided;
  }
  return AgentEvent::Failed::Then::Undecided;
}

GroupEnd end_of(const WorkersResult& result) {
  if (!result.survivors.empty()) return GroupEnd::Survived;
  if (result.succeeded) return GroupEnd::Succeeded;
  return result.cause ? GroupEnd::Failed : GroupEnd::Stopped;
}

HealthFailure health_of(const ProcessFailure& failure) {
  return {.rank = failure.global_rank,
          .local_rank = failure.local_rank,
          .host = failure.host,
          .exit_code = failure.exit_code,
          .message = failure.message,
          .time_micros = failure.time_micros};
}

std::string text_of(const ProcessFailure& failure) {
  return "rank " + std::to_string(failure.global_rank) + " on " + failure.host +
         " failed: " + failure.message;
}

std::string names_of(const std::vector<int>& signals) {
  std::string names;
  for (const int number : signals) names += (names.empty() ? "" : ",") + io::signal_name(number);
  return names;
}

}  // namespace

AgentHost::AgentHost(io::Loop& loop, WorkerHost& host, AgentOptions options,
                     const MakeRounds& make_rounds)
    : loop_(loop),
      host_(host),
      options_(std::move(options)),
      machine_({.max_restarts = options_.spec.max_restarts,
                .stop_signal = options_.workers.stop_signal,
                .grace = options_.workers.grace,
                .exit_limit = options_.exit_barrier_timeout,
                // A coordinator that was started again waits as long as a silent node may before it
                // decides anything.
                .decision_limit = kDecisionLimit + options_.rules.heartbeat_limit}),
      records_(options_, [this](AgentEvent::What what) { tell(std::move(what)); }),
      deadline_(loop) {
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
      .left = [this] { play(machine_.on_left()); }};
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

void AgentHost::on_signal(const io::SignalEvent& event) {
  const bool again = machine_.signal() != 0;
  tell(AgentEvent::Signalled{.text = describe_signal(event) +
                                     (again ? ": killing the workers"
                                            : ": stopping; once more kills the workers at once")});
  result_.signal = again ? result_.signal : event.number;
  play(machine_.on_signal(event.number));
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
  if (group_) group_->on_child();
}

void AgentHost::play(const Effects& effects) {
  for (const Effect& effect : effects)
    std::visit(
        Cases{[this](const Join&) { join(); },
              [this](const Start& order) { start(order.restart_count); },
              [this](const Stop& order) { stop_group(order.signal, order.grace); },
              [this](const Kill&) { group_->kill(); },
              [this](const GiveUpJoin&) { rounds_->give_up_join(); }, [this](const Ask&) { ask(); },
              [this](const CheckIn& order) { check_in(order.succeeded); },
              [this](const Tell& told) { say(told); },
              [this](const TellFailure& told) {
                tell(AgentEvent::Failed{.failure = std::move(untold_failure_),
                                        .then = then_of(told.then),
                                        .restart = told.restart,
                                        .max_restarts = options_.spec.max_restarts});
              },
              [this](const Leave& order) {
                if (machine_.ending() == Ending::Failed && result_.cause_elsewhere.empty())
                  take_verdict();
                records_.ended(machine_.ending(), result_);
                rounds_->leave(order.close);
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
          .text = told.text, .restart = told.restart, .max_restarts = options_.spec.max_restarts});
    case Tell::What::RunFailed:
      result_.cause_elsewhere = told.text;
      return tell(AgentEvent::RunFailed{.text = told.text});
    case Tell::What::CheckedIn:
      records_.checked_in();
      return tell(AgentEvent::CheckedIn{.text = told.text});
  }
}

void AgentHost::stop_group(int signal, Duration grace) {
  tell(AgentEvent::Progress{.text = "stopping the workers", .left = grace});
  records_.stopping();
  group_->stop(signal, grace, machine_.signal() == 0 ? StopFor::Failure : StopFor::Order);
}

void AgentHost::join() {
  records_.joining(machine_.remaining_restarts());
  waiting_.clear();
  rounds_->join();
}

void AgentHost::joined(JoinedRound round) {
  round_ = std::move(round);
  records_.joined(*round_);
  ++health_.rounds;
  tell(AgentEvent::Joined{.took = round_->took_to_meet + round_->took_to_assign});
  if (!round_->info.restart_count && core::run::ask_for_a_coordinator(options_.rules) &&
      !std::exchange(warned_, true))
    host_.warn(
        "the flags about restarts and lost nodes need a coordinator, which is there where regroup "
        "hosts a c10d rendezvous: without one only --max-restarts counts, on each node by itself");
  std::optional<int> restarts;
  if (round_->info.restart_count) restarts = static_cast<int>(*round_->info.restart_count);
  play(machine_.on_joined(restarts));
}

void AgentHost::join_failed(const JoinFailed& failed) {
  records_.join_failed();
  result_.error = failed.error;
  play(machine_.on_join_failed(failed.why, failed.end));
}

void AgentHost::start(int restart_count) {
  const Instant begun = io::now();
  records_.starting();
  if (auto started = start_group(restart_count); !started) {
    records_.start_failed();
    result_.error = started.error();
    group_.reset();
    return play(machine_.on_start_failed());
  }
  machine_.on_started();
  records_.started(group_->pids());
  tell(AgentEvent::Started{.took = io::now() - begun});
  stuck_ = std::make_unique<StuckWorkers>(
      loop_, options_.stuck_limit,
      StuckWorkers::Questions{
          .pids = [this] { return group_->pids(); },
          .found = [this](int local_rank,
                          const std::string& why) { group_->end_for(local_rank, SIGKILL, why); }});
  rounds_->workers_run(restart_count);
}

Result<void> AgentHost::start_group(int restart_count) {
  const WorkerSpec& spec = options_.spec;
  const JoinedRound& round = *round_;
  WorkersSpec workers = options_.workers;
  workers.claim_orphans = true;
  workers.attempt = {
      .run_id = options_.rendezvous.run_id, .restart_count = restart_count, .workers = {}};
  workers.commands.clear();
  // Empty where there is none, for a worker must not find that of a launcher around us.
  std::vector<std::string> heartbeat_files(static_cast<std::size_t>(spec.local_world_size));
  if (heartbeats_) {
    if (auto files = heartbeats_->open(spec.local_world_size))
      heartbeat_files = std::move(*files);
    else
      host_.warn("heartbeats are not watched: " + files.error().message);
  }
  for (int rank = 0; rank < spec.local_world_size; ++rank) {
    const WorkerPlace place{.local_rank = rank,
                            .local_world_size = spec.local_world_size,
                            .rank = static_cast<int>(round.ranks.base_global_rank + rank),
                            .world_size = static_cast<int>(round.ranks.global_world_size),
                            .group_rank = static_cast<int>(round.info.rank),
                            .group_world_size = static_cast<int>(round.info.world_size),
                            .role_name = spec.role,
                            .role_rank = static_cast<int>(round.ranks.base_role_rank + rank),
                            .role_world_size = static_cast<int>(round.ranks.role_world_size),
                            .master_addr = round.info.bootstrap.address,
                            .master_port = round.info.bootstrap.port,
                            .use_agent_store = round.use_agent_store,
                            .run_id = options_.rendezvous.run_id,
                            .restart_count = restart_count,
                            .max_restarts = spec.max_restarts,
                            .signals_to_handle = names_of(options_.signals_to_handle),
                            .virtual_local_rank = spec.virtual_local_rank};
    auto environment = worker_environment(spec.environment, place);
    if (!environment) return tl::unexpected(environment.error());
    const auto index = static_cast<std::size_t>(rank);
    if (watchdog_) {
      environment->insert_or_assign("TORCHELASTIC_TIMER_FILE", watchdog_->path());
      environment->insert_or_assign(kHeartbeatFile, heartbeat_files[index]);
    }
    workers.attempt.workers.push_back({rank, place.rank, spec.role});
    workers.commands.push_back(
        {.argv = spec.command,
         .environment = std::move(*environment),
         .cpus = index < spec.cpus.size() ? spec.cpus[index] : std::vector<int>()});
  }
  // What looks like a hang here may be a wait for another node.
  std::function<void(const std::optional<core::hang::Stall>&)> stalled;
  std::function<void(const std::vector<core::hang::RankAt>&)> where;
  if (round.info.world_size > 1) {
    stalled = [this](const std::optional<core::hang::Stall>& stall) {
      std::optional<core::hang::Votes> votes;
      if (stall) votes = core::hang::votes_of(*stall);
      rounds_->say_stalled(votes);
    };
    where = [this](const std::vector<core::hang::RankAt>& ours) { rounds_->say_where(ours); };
  }
  rounds_->say_stalled({});
  reported_ = false;
  auto routes = options_.logs->routes(workers.attempt);
  if (!routes) return tl::unexpected(routes.error());
  group_ = std::make_unique<WorkerGroup>(
      loop_, host_, std::move(workers), std::move(*routes),
      GroupEvents{
          .failed =
              [this](const ProcessFailure& failure) {
                report(failure);
                records_.stopping();
                health_.last_failure = health_of(failure);
                untold_failure_ = failure;
                play(machine_.on_worker_failed(io::now()));
              },
          .waiting = [this](const std::string& text) { tell(AgentEvent::Waiting{.text = text}); },
          .stalled = stalled,
          .where = where,
          .over = [this](WorkersResult result) { group_over(std::move(result)); }});
  return group_->start();
}

void AgentHost::group_over(WorkersResult result) {
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

// Where another node's failure has ended the run, what failed here is not the cause.
void AgentHost::take_verdict() {
  result_.cause_elsewhere = machine_.verdict();
  if (result_.cause_elsewhere.empty()) return;
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
  if (succeeded && round_ && round_->info.world_size > 1)
    tell(AgentEvent::Progress{.text = "done here; waiting for the other nodes",
                              .left = options_.exit_barrier_timeout});
  rounds_->check_in(succeeded, cause);
}

void AgentHost::finish(Ending ending) {
  result_.ending = ending_of(ending);
  result_.state = state_of(machine_.state());
  result_.restarts = machine_.restart_count();
  if (watchdog_) {
    tell(AgentEvent::Noted{.text = "watchdog: stopped"});
    records_.watchdog({.event = "watchdog stopped"});
  }
  if (const std::string& note = machine_.end_note(); !note.empty())
    tell(AgentEvent::Waiting{.text = "not started again: " + note});
  tell(AgentEvent::Ended{.result = result_});
  loop_.stop();
}

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
