#include "runtime/agent/agent_host.h"

#include <signal.h>

#include <utility>
#include <variant>

#include "core/run/run_rules.h"
#include "io/loop/clock.h"
#include "io/process/signals.h"
#include "runtime/workers/worker_environment.h"
#include "runtime/workers/worker_signals.h"

namespace regroup::runtime {

using namespace core::agent;

namespace {

using Kind = AgentEvent::Kind;

template <class... Ts>
struct Cases : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Cases(Ts...) -> Cases<Ts...>;

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

AgentHost::AgentHost(io::Loop& loop, WorkerHost& host, AgentOptions options)
    : loop_(loop),
      host_(host),
      options_(std::move(options)),
      machine_({.max_restarts = options_.spec.max_restarts,
                .stop_signal = options_.workers.stop_signal,
                .grace = options_.workers.grace}),
      records_(options_, [this](AgentEvent event) { tell(std::move(event)); }),
      meeting_(loop, reporting(options_.rendezvous)),
      begun_(io::now()),
      begun_micros_(io::utc_micros()) {}

// Whatever is said comes from the meeting's thread.
RendezvousParameters AgentHost::reporting(RendezvousParameters parameters) {
  parameters.agent = AgentPart{.role = options_.spec.role,
                               .workers = options_.spec.local_world_size,
                               .rules = options_.rules};
  parameters.agent->rules.max_restarts = options_.spec.max_restarts;
  parameters.on_warned = [this](int signal, const std::string& node) {
    // Nobody can be warned by what cannot be caught.
    if (signal == SIGKILL || signal == SIGSTOP) return;
    loop_.post([this, signal, node] {
      tell({.kind = Kind::Signalled,
            .text = io::signal_name(signal) + " came to " + node + ": handed on to the workers"});
      forward(signal);
    });
  };
  if (!parameters.on_status)
    parameters.on_status = [this](const std::string& line) {
      loop_.post([this, line] {
        waiting_ = line;
        tell({.kind = Kind::Waiting, .text = line});
      });
    };
  if (!parameters.on_wait)
    parameters.on_wait = [this](const RendezvousWait& wait) {
      loop_.post([this, wait] {
        tell({.kind = Kind::Progress, .text = wait.text, .took = wait.so_far, .left = wait.left});
      });
    };
  return parameters;
}

void AgentHost::begin() { play(machine_.begin()); }

void AgentHost::on_signal(const io::SignalEvent& event) {
  const bool again = machine_.signal() != 0;
  tell({.kind = Kind::Signalled,
        .text =
            describe_signal(event) +
            (again ? ": killing the workers" : ": stopping; once more kills the workers at once")});
  result_.signal = again ? result_.signal : event.number;
  play(machine_.on_signal(event.number));
}

void AgentHost::forward(int signal) {
  if (group_) group_->forward(signal);
}

void AgentHost::share(const io::SignalEvent& event) {
  const bool told = meeting_.warn(event.number);
  tell({.kind = Kind::Signalled,
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
              [this](const GiveUpJoin&) { meeting_.give_up_join(); }, [this](const Ask&) { ask(); },
              [this](const CheckIn& order) { check_in(order.succeeded); },
              [this](const GiveUpCheckIn&) { meeting_.give_up_check_in(); },
              [this](const Leave& order) {
                records_.ended(machine_.ending(), result_);
                meeting_.leave(order.close, [this] { play(machine_.on_left()); });
              },
              [this](const Finish& end) { finish(end.ending); }},
        effect);
  if (changed_) changed_();
}

void AgentHost::stop_group(int signal, Duration grace) {
  tell({.kind = Kind::Progress, .text = "stopping the workers", .left = grace});
  records_.stopping();
  group_->stop(signal, grace, machine_.signal() == 0 ? StopFor::Failure : StopFor::Order);
}

void AgentHost::join() {
  meeting_.look_away();
  records_.joining(machine_.remaining_restarts());
  waiting_.clear();
  meeting_.join([this](Result<JoinedRound> done) { joined(std::move(done)); });
}

void AgentHost::joined(Result<JoinedRound> done) {
  if (done) {
    round_ = std::move(*done);
    records_.joined(*round_);
    ++rounds_;
    tell({.kind = Kind::Joined, .took = round_->took_to_meet + round_->took_to_assign});
    if (!round_->info.restart_count && core::run::ask_for_a_coordinator(options_.rules) &&
        !std::exchange(warned_, true))
      host_.warn(
          "the flags about restarts and lost nodes need a coordinator, which is there where "
          "regroup "
          "hosts a c10d rendezvous: without one only --max-restarts counts, on each node by "
          "itself");
    std::optional<int> restarts;
    if (round_->info.restart_count) restarts = static_cast<int>(*round_->info.restart_count);
    return play(machine_.on_joined(restarts));
  }
  records_.join_failed();
  result_.error = done.error();
  const auto kind = done.error().kind;
  take_verdict();
  const bool run_failed = !result_.cause_elsewhere.empty() || meeting_.run_failed();
  play(machine_.on_join_failed(run_failed                     ? JoinFailure::RunFailed
                               : kind == ErrorKind::NotNeeded ? JoinFailure::NotNeeded
                               : kind == ErrorKind::Cancelled ? JoinFailure::GivenUp
                                                              : JoinFailure::Failed));
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
  tell({.kind = Kind::Started, .took = io::now() - begun});
  stuck_ = std::make_unique<StuckWorkers>(
      loop_, options_.stuck_limit,
      StuckWorkers::Questions{
          .pids = [this] { return group_->pids(); },
          .found = [this](int local_rank,
                          const std::string& why) { group_->sentence(local_rank, SIGKILL, why); }});
  meeting_.watch(
      {.changed =
           [this](const std::string& why) {
             if (machine_.state() != State::Healthy) return;
             tell({.kind = Kind::MembersChanged, .text = why});
             play(machine_.on_members_changed());
           },
       .failed_elsewhere =
           [this](const ToldFailure& told) {
             if (machine_.state() != State::Healthy) return;
             tell({.kind = Kind::FailedElsewhere,
                   .text = told.text,
                   .restart = told.restart_count,
                   .max_restarts = options_.spec.max_restarts});
             play(machine_.on_members_changed(told.restart_count));
           },
       .failed =
           [this](const std::string& cause) {
             result_.cause_elsewhere = cause;
             tell({.kind = Kind::RunFailed, .text = cause});
             play(machine_.on_run_failed());
           },
       .note = [this](const std::string& text) { tell({.kind = Kind::Waiting, .text = text}); },
       // With fixed ranks there is one round for all starts.
       .start =
           options_.rendezvous.backend == "static" ? std::to_string(restart_count) + "/" : ""});
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
  std::function<bool(const std::optional<core::hang::Stall>&)> stalled;
  std::function<void(const std::vector<wire::RankAt>&)> where;
  if (round.info.world_size > 1) {
    stalled = [this](const std::optional<core::hang::Stall>& stall) {
      std::optional<core::hang::Votes> votes;
      if (stall)
        votes = core::hang::Votes{.suspects = static_cast<int>(stall->suspects.size()),
                                  .spinning = static_cast<int>(stall->spinning.size())};
      meeting_.say_stalled(votes);
      return stall && meeting_.all_say_hang();
    };
    where = [this](const std::vector<wire::RankAt>& ours) {
      meeting_.say_where(ours, [this](const std::vector<wire::RankAt>& all) {
        if (group_) group_->hear_where(all);
      });
    };
  }
  meeting_.say_stalled({});
  reported_ = false;
  auto routes = options_.logs->routes(workers.attempt);
  if (!routes) return tl::unexpected(routes.error());
  group_ = std::make_unique<WorkerGroup>(
      loop_, host_, std::move(workers), std::move(*routes),
      GroupEvents{
          .failed =
              [this](const ProcessFailure& failure) {
                report(failure);
                machine_.on_worker_failed();
                records_.stopping();
                last_failure_ = health_of(failure);
                tell({.kind = Kind::Failed,
                      .restart = machine_.restart_count() + 1,
                      .max_restarts = options_.spec.max_restarts,
                      .failure = &failure});
              },
          .waiting =
              [this](const std::string& text) { tell({.kind = Kind::Waiting, .text = text}); },
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
  if (result.cause) last_failure_ = health_of(*result.cause);
  result_.failures.clear();
  for (const ProcessFailure& failure : result.failures)
    result_.failures.emplace(failure.global_rank, failure);
  result_.workers = std::move(result);
  meeting_.look_away();
  records_.group_over(end, machine_.signal() != 0);
  play(machine_.on_group_over(end));
}

// Before anything else is done about it: the other nodes should stop at the same time as we do.
void AgentHost::report(const ProcessFailure& failure) {
  reported_ = true;
  meeting_.report(
      {.rank = failure.global_rank, .exit_code = failure.exit_code, .text = text_of(failure)});
}

// Where another node's failure has ended the run, what failed here is not the cause.
void AgentHost::take_verdict() {
  result_.cause_elsewhere = meeting_.verdict();
  if (result_.cause_elsewhere.empty()) return;
  result_.cause.reset();
  result_.workers = {};
}

void AgentHost::ask() {
  if (!reported_ && result_.cause)
    report(*result_.cause);
  else if (!reported_)
    meeting_.report({.rank = round_->ranks.base_global_rank,
                     .exit_code = -1,
                     .text = "the workers of node " + std::to_string(round_->info.rank) +
                             " ended by nobody's order"});
  meeting_.await_decision([this](std::optional<int> restart_count) {
    if (!restart_count) take_verdict();
    play(machine_.on_decided(restart_count));
  });
}

void AgentHost::check_in(bool succeeded) {
  records_.checking_in();
  std::string cause = result_.cause ? text_of(*result_.cause) : "";
  if (succeeded && round_ && round_->info.world_size > 1)
    tell({.kind = Kind::Progress,
          .text = "done here; waiting for the other nodes",
          .left = options_.exit_barrier_timeout});
  meeting_.check_in(succeeded, std::move(cause), options_.exit_barrier_timeout,
                    [this](const Meeting::CheckedIn& end) {
                      records_.checked_in();
                      tell({.kind = Kind::CheckedIn, .text = end.text});
                      take_verdict();
                      play(machine_.on_checked_in(end.how, end.restart_count));
                    });
}

void AgentHost::finish(Ending ending) {
  result_.ending = ending_of(ending);
  result_.state = state_of(machine_.state());
  result_.restarts = machine_.restart_count();
  if (watchdog_) {
    tell({.kind = Kind::Noted, .text = "watchdog: stopped"});
    records_.watchdog({.event = "watchdog stopped"});
  }
  if (const std::string note = meeting_.end_note(); !note.empty())
    tell({.kind = Kind::Waiting, .text = "not started again: " + note});
  tell({.kind = Kind::Ended, .result = &result_});
  loop_.stop();
}

RunResult AgentHost::take_result() { return std::move(result_); }

void AgentHost::tell(AgentEvent event) const {
  if (changed_) changed_();
  if (!options_.on_event) return;
  event.local_world_size = options_.spec.local_world_size;
  if (round_) {
    event.world_size = round_->ranks.global_world_size;
    event.round = round_->info.round;
    event.group_rank = round_->info.rank;
    event.group_world_size = round_->info.world_size;
  }
  event.tell = [this](const std::string& line) { host_.pump().print(line); };
  event.show = [this, took = event.took, left = event.left](const std::string& line) {
    if (line.empty()) return host_.pump().hide_live();
    core::output::LiveLine live{.text = line, .since = io::now() + -took, .until = {}};
    if (left) live.until = io::deadline_after(*left);
    host_.pump().show_live(std::move(live));
  };
  options_.on_event(event);
}

}  // namespace regroup::runtime
