// One machine of the simulated world: its clocks, and the agent process that runs on it now and
// then.
//
// The agent does what the real one does: leave the old round, join the next, then look at the state
// every second and send heartbeats, until a node waits or the round is no longer whole. A process
// that died is followed by another one with a new process id and the same name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/rendezvous/executor.h"
#include "sim/world/plan.h"
#include "sim/world/surroundings.h"
#include "sim/world/torchrun_executor.h"

namespace regroup::sim {

class Node {
 public:
  // `settings`: what this node believes the run's settings to be.
  Node(const Plan& plan, std::int32_t index, const core::rendezvous::Settings& settings,
       Surroundings& world);

  // From outside, at any moment.
  void start();
  void crash();                    // It tells no other node.
  void leave(Duration come_back);  // As soon as no request is under way.
  void close();                    // As soon as no request is under way; it ends the run for all.
  void fail_workers();             // It joins again. Only while it trains, and asks nothing.
  void set_wall_clock(Duration by) { clock_.set_wall_clock(by); }

  // What it waits for has come. The caller asks waits_for() first.
  void on_answer(const Request& request, const Answer& answer);
  void on_overdue();
  void on_wake();

  bool waits_for(std::int64_t process, std::uint64_t wait) const {
    return running() && process == process_ && wait == wait_ && waiting_ != Waiting::Nothing;
  }
  bool waits_for_answer(std::int64_t process, std::uint64_t wait) const {
    return waits_for(process, wait) && waiting_ == Waiting::Answer;
  }
  bool rests_in(const std::string& phase) const {
    return waiting_ == Waiting::Rest && !phase_.empty() && phase_ == phase;
  }
  bool running() const { return doing_ != Doing::Nothing && doing_ != Doing::Ended; }
  bool ended() const { return doing_ == Doing::Ended; }  // The run is over for it, for good.
  bool joining() const { return doing_ == Doing::Exit || doing_ == Doing::Join; }
  bool torchrun() const { return plan_.torchrun; }
  const core::rendezvous::NodeId& id() const { return id_; }
  std::int64_t process() const { return process_; }
  std::uint64_t wait() const { return wait_; }

 private:
  enum class Doing { Nothing, MakingKey, Exit, Join, Training, Look, Beat, Leave, Close, Ended };
  enum class Waiting { Nothing, Answer, Rest, Timer };
  enum class Wish { None, Leave, Close };
  using Hand = std::variant<core::rendezvous::Executor, TorchrunExecutor>;

  core::rendezvous::Now clock() const { return clock_.read(world_.now()); }
  std::size_t seat() const { return static_cast<std::size_t>(index_); }
  void say(std::string_view text) const;

  void make_key();
  void rendezvous();
  void begin(Doing doing, core::rendezvous::Operation operation, Duration limit);
  void note_if_spare();
  void carry_out(core::rendezvous::Step step);
  void ask(Ask what, std::string expected, std::string desired);
  void rest(const core::rendezvous::Rest& rest);
  void sleep_until(Instant own);
  void tick();
  bool follow_wish();

  void on_done(core::rendezvous::Outcome outcome);
  void on_joined();
  void on_seen();
  void report_condemned();
  void on_failed(core::rendezvous::Outcome outcome);
  bool should_meet_again(std::string& why);
  void stop(std::optional<Duration> start_again);
  void end(std::string_view why);

  const NodePlan plan_;
  const core::rendezvous::Settings settings_;
  const Duration restart_delay_;
  const double tries_again_;
  const std::int32_t index_;
  Surroundings& world_;
  NodeClock clock_;
  Dice dice_;

  std::optional<Hand> hand_;
  core::rendezvous::NodeId id_;
  Doing doing_ = Doing::Nothing;
  Waiting waiting_ = Waiting::Nothing;
  std::int64_t process_ = 0;
  std::uint64_t wait_ = 0;
  std::string phase_;
  Answer last_seen_;
  Wish wish_ = Wish::None;
  Duration come_back_{};

  Instant join_counts_from_;  // This and the rest on the node's own clock.
  Instant next_look_;
  Instant next_beat_;
  std::optional<Instant>
      workers_fail_;  // When those of a torchrun node fail whose peers have gone.
  Instant busy_since_;
  std::int64_t busy_requests_ = 0;
};

}  // namespace regroup::sim
