// One group of workers, from its start to its end. core/supervision stops them, core/hang sees that
// they hang; this machine puts the two together and decides what lies between them: which worker is
// ended for a hang, and when the stacks of all are taken before any of them is touched.
//
// A pure machine. Its host does what the effects say, in their order, and tells it what came of
// them. Ends that have come are told before anything else: a worker that ended before our signal
// ended by itself.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/instant.h"
#include "core/hang/blame.h"
#include "core/hang/hang.h"
#include "core/supervision/supervision.h"

namespace regroup::core::workers {

using supervision::CountAlive;
using supervision::KillAll;
using supervision::LetGo;
using supervision::LookAtLeft;
using supervision::SignalAll;
using supervision::SignalStayed;
using supervision::Succeeded;
using supervision::Tell;

struct Settings {
  std::vector<int> ranks = {0};  // Of the whole run, by local rank.
  int stop_signal = supervision::kSigTerm;
  Duration grace = 30s;
  Duration kill_wait = 10s;
  supervision::AwayRule away = supervision::AwayRule::Wait;
  Duration away_wait = 300s;

  // Stacks are taken before a worker is ended for what it did,
  bool takes_stacks = false;
  // and before the others are stopped for any failure.
  bool takes_stacks_for_failures = false;
  Duration stacks_limit = 5s;  // Taking them takes no longer.
  // For a worker whose timer has expired the time is up: what cannot be had this quickly is not
  // waited for, and after the second time it is ended whatever has come.
  Duration timer_stacks_limit = 400ms;
  Duration timer_patience = 500ms;

  Duration hang_timeout{};     // Zero: hangs are not looked for.
  Duration hang_grace{};       // For so long after the start nothing counts.
  bool asks_others = false;    // Other nodes are asked whether they hang, too.
  Duration others_turn = 15s;  // For so long another node may act on a hang before we do.
  Duration look_pause = 1s;    // Until the next look, where taking stacks was in its way.
};

enum class StopFor { Order, Failure };

struct SignalWorker {
  int worker = 0;
  int number = supervision::kSigTerm;
  friend bool operator==(const SignalWorker&, const SignalWorker&) = default;
};
// The first worker has failed. Nothing has been done about it yet.
struct FirstFailure {
  int worker = 0;
  friend bool operator==(const FirstFailure&, const FirstFailure&) = default;
};
// Take the stacks of all that run, and report them with on_stacks().
struct CollectStacks {
  std::string why;
  Duration limit{};  // Taking them takes no longer.
  friend bool operator==(const CollectStacks&, const CollectStacks&) = default;
};
// They are not waited for any longer.
struct GiveUpStacks {
  friend bool operator==(const GiveUpStacks&, const GiveUpStacks&) = default;
};
// It was no hang: these stacks say nothing about the next one.
struct ForgetStacks {
  friend bool operator==(const ForgetStacks&, const ForgetStacks&) = default;
};
// Look at what the workers do, and report it with on_look().
struct Look {
  friend bool operator==(const Look&, const Look&) = default;
};
// Tell the other nodes whether our workers are stalled. What all say comes by hear_hang().
struct SayStalled {
  std::optional<hang::Votes> votes;
  friend bool operator==(const SayStalled&, const SayStalled&) = default;
};
// Tell the other nodes where our ranks are. Which rank is to blame comes by hear_blame().
struct SayWhere {
  std::vector<hang::RankAt> ours;
  friend bool operator==(const SayWhere&, const SayWhere&) = default;
};
// Where the ranks of all nodes are, in words: more than our own stacks tell.
struct Explain {
  std::string summary;
  friend bool operator==(const Explain&, const Explain&) = default;
};
// No process is alive, or what is alive cannot be killed. The outcomes are final.
struct Over {
  friend bool operator==(const Over&, const Over&) = default;
};
using Effect = std::variant<SignalAll, KillAll, CountAlive, LookAtLeft, SignalStayed, Succeeded,
                            LetGo, SignalWorker, FirstFailure, CollectStacks, GiveUpStacks,
                            ForgetStacks, Look, SayStalled, SayWhere, Explain, Tell, Over>;
using Effects = std::vector<Effect>;

class Group {
 public:
  explicit Group(const Settings& settings);

  // All of them run. (If one cannot be started, its host starts none, and needs no machine.)
  void on_started(Instant now);
  Effects on_exit(int worker, const supervision::Exit& exit, Instant now);
  // SignalAll or KillAll is about to be done.
  void on_signalled(int number) { supervision_.on_signalled(number); }
  // How many processes of the group are alive. CountAlive asks for it; it may also come unasked.
  Effects on_count(int alive, Instant now);
  // What of the group is alive, as LookAtLeft asks for it.
  Effects on_left(const std::vector<supervision::Left>& left, Instant now);
  // The group is not needed any more: what may outlive it is left.
  Effects let_go(Instant now);
  // Where those are whose stacks were taken.
  Effects on_stacks(std::vector<hang::RankAt> ours, Instant now);
  // All workers, by local rank; nothing for those that have ended.
  Effects on_look(const std::vector<std::optional<hang::Sample>>& workers, Instant now);
  // next_deadline() has come.
  Effects on_time(Instant now);
  std::optional<Instant> next_deadline() const;

  Effects stop(int signal, Duration grace, StopFor reason, Instant now);
  Effects kill(Instant now);
  // This worker is to die for what it did (its timer expired): its end counts as its own failure,
  // and `why` is the message of it. Nothing happens if it has ended, or if all are being stopped.
  Effects end_for(int worker, int signal, const std::string& why, Instant now);
  // Whether the workers of all nodes are stalled, which makes a hang; and which rank is to blame.
  Effects hear_hang(bool all_say_so, Instant now);
  Effects hear_blame(const hang::Blame& blame, Instant now);

  const supervision::Supervision& supervision() const { return supervision_; }
  const supervision::WorkerOutcome& outcome(int worker) const;
  // Why we ended this worker; empty: we did not.
  const std::string& ended_for(int worker) const;
  bool runs(int worker) const;  // And may go on.
  bool stopping() const;
  // All workers have succeeded; what they left behind still runs.
  bool lingers() const { return supervision_.phase() == supervision::Phase::Lingering; }
  bool over() const { return supervision_.phase() == supervision::Phase::Over; }
  // The worker that was ended last for a hang was not named: nobody could be.
  bool named_nobody() const { return named_nobody_; }
  // In a hang: other nodes had their turn, and this one goes by what it sees.
  bool others_had_their_turn(Instant now) const { return others_until_ && now >= *others_until_; }

 private:
  struct ToEnd {
    int worker = 0;
    int signal = 0;
    std::string why;
  };
  struct HeldStop {
    int signal = 0;
    Instant since;
  };

  Effects of(const supervision::Effects& effects, Instant now);
  void take_stacks(Effects& effects, const std::string& why, Duration limit);
  void end_who_waits(Effects& effects, Instant now);
  void give_up_stacks(Effects& effects);
  bool holds_for_stacks() const;
  bool end_worker(Effects& effects, const ToEnd& one, Instant now);
  bool is_judged() const;
  void follow_hang(Effects& effects, Instant now);
  void judge_hang(Effects& effects, Instant now);
  void tell_where(Effects& effects, Instant now);
  void add_what_looks_tell();
  void blame(Effects& effects, const hang::Blame& blame, Instant now);
  void no_hang(Effects& effects);
  std::string hang_in_words(const hang::Stall& stall) const;
  std::vector<int> ranks_of(const std::vector<int>& workers) const;

  Settings settings_;
  supervision::Supervision supervision_;
  StopFor stop_for_ = StopFor::Failure;  // Until a stop is ordered.
  std::vector<std::string> ended_for_;

  // Stacks, and what waits for them.
  bool taking_stacks_ = false;
  bool has_stacks_ = false;
  std::vector<hang::RankAt> where_;
  std::string summary_;
  std::vector<ToEnd> to_end_;
  std::optional<Instant> end_by_;  // Those, if stacks have not come by then.
  std::vector<HeldStop> held_stops_;
  bool hang_waits_ = false;

  std::optional<hang::HangDetector> detector_;
  std::optional<Instant> look_at_;
  std::optional<hang::Stall> stall_;  // As of the last look.
  bool all_say_hang_ = false;
  std::optional<hang::Stall> hung_;      // Judged to be a hang.
  std::optional<Instant> others_until_;  // If no other node has acted by then, we do.
  bool named_nobody_ = false;
};

}  // namespace regroup::core::workers
