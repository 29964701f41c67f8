// The agent's meetings with the other nodes, which may take their time, on a thread of their own.
//
// One thing at a time: a call while another is under way waits its turn. Answers are posted to the
// loop, in order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/agent/agent.h"
#include "core/hang/hang.h"
#include "core/rendezvous/assign_ranks.h"
#include "io/loop/loop.h"
#include "regroup/rendezvous.h"
#include "wire/text/stack_dump.h"

namespace regroup::runtime {

// What another node, or the coordinator, says of a round.
struct ToldFailure {
  std::string text;
  int restart_count = 0;  // Of what comes next.
};

// A round that this node is in, with the ranks of its workers.
struct JoinedRound {
  RendezvousInfo info;
  core::rendezvous::AssignedRanks ranks;
  bool use_agent_store = true;
  Duration took_to_meet{};
  Duration took_to_assign{};
};

class Meeting {
 public:
  // `interrupted` of the parameters is ours to set.
  Meeting(io::Loop& loop, RendezvousParameters parameters);
  ~Meeting();  // Gives everything up, and waits for that.
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Leaves the round we are in, joins the next, agrees on ranks.
  void join(std::function<void(Result<JoinedRound>)> done);
  void give_up_join();

  // Looks every moment whether the round still stands, until look_away(). `changed` says why to
  // join again, `failed` what another node says of the end of the run; each is called once.
  struct Watch {
    std::function<void(std::string)> changed;
    std::function<void(ToldFailure)> failed_elsewhere;  // A worker did; all join again.
    std::function<void(std::string)> failed;
    std::function<void(std::string)> note;  // The store cannot be reached, or can again.
    // Which start of the workers this is, where several share one round's store; may be empty.
    std::string start = {};
  };
  void watch(Watch watch);
  void look_away();

  // Tells the coordinator at once that a worker of ours has failed, if there is one.
  void report(const WorkerFailure& failure);
  // Hands a signal on to the workers of the other nodes. False: there is nobody to tell.
  bool warn(int signal);
  // What it makes of it: the number of the restart that follows; none: the run is over.
  void await_decision(std::function<void(std::optional<int>)> done);

  // Whether this node's workers are stalled, for the others to know; and whether the last that was
  // heard of all nodes makes a hang. Told and asked by watch().
  void say_stalled(std::optional<core::hang::Votes> votes);
  bool all_say_hang() const { return hang_; }
  // In a hang: where our ranks are; once all nodes have said so, where everybody is. By watch(),
  // too.
  void say_where(const std::vector<wire::RankAt>& ours,
                 std::function<void(std::vector<wire::RankAt>)> all);

  // Says how our part of the round ended (`cause` is for the others to read, if it failed for good)
  // and, after a success, waits for all others to have said so, `limit` long.
  struct CheckedIn {
    std::string text = {};  // Who was not waited for, and why.
    core::agent::CheckedIn how = core::agent::CheckedIn::Over;
    std::optional<int> restart_count = {};
  };
  void check_in(bool succeeded, std::string cause, Duration limit,
                std::function<void(CheckedIn)> done);
  void give_up_check_in();

  // Why the run failed for good, as another node told it; empty: none did.
  std::string verdict();
  // It has, for what happened here or elsewhere.
  bool run_failed() const { return run_failed_; }
  // Why the run is not started again, if not for want of restarts.
  std::string end_note();

  // Off the lists; `close`: the run is over for everybody. Stays a moment for others who still read
  // from a store that we host.
  void leave(bool close, std::function<void()> done);

 private:
  void run();
  void queue(std::function<void()> task);
  Result<JoinedRound> join_now();
  void watch_now(const Watch& watch);
  void watch_orders(Coordination& coordinator, const Watch& watch);
  std::optional<int> await_decision_now();
  CheckedIn check_in_now(bool succeeded, const std::string& cause, Duration limit);
  CheckedIn await_over(Coordination& coordinator, Duration limit);
  std::string pass_exit_barrier(bool succeeded, const std::string& cause, Duration limit);
  void leave_now(bool close);
  void note_end(const Coordination::Order& order);
  // True once another node has said so; it is told that we know.
  bool hear_verdict();
  void exchange_stalls(const std::string& start, std::string& told);
  void exchange_where(const std::string& start);
  void wait_for_goodbyes();
  // False once somebody asked for the end of what is under way.
  bool rest(Duration limit);
  void wake();

  io::Loop& loop_;
  RendezvousParameters parameters_;
  std::shared_ptr<std::atomic<bool>> interrupted_;

  // Of the thread.
  std::unique_ptr<RendezvousHandler> handler_;
  std::atomic<Coordination*> coordinator_ = nullptr;  // Of the handler. Read from anywhere.
  std::optional<RendezvousInfo> info_;
  bool cut_off_ = false;  // The store did not answer when we last asked.

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  // Tasks are counted as they are queued; those up to `enough_` are to end, begun or not.
  std::uint64_t queued_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t enough_ = 0;
  std::string verdict_;
  std::string end_note_;
  std::optional<core::hang::Votes> votes_;
  std::atomic<bool> hang_ = false;
  std::atomic<bool> run_failed_ = false;
  std::string where_;
  std::function<void(std::vector<wire::RankAt>)> on_where_;
  // Answers that come when we are gone are dropped.
  std::shared_ptr<bool> here_;
  std::thread thread_;
};

}  // namespace regroup::runtime
