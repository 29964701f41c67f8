// The rounds of a node whose run has no coordinator: the nodes share a state in a store, or have
// fixed ranks. Every request to the store may take a while, so a thread of its own makes them, one
// after the other, and posts the results to the loop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "io/loop/loop.h"
#include "regroup/rendezvous.h"
#include "runtime/rounds/rounds.h"

namespace regroup::runtime {

class SharedRounds final : public Rounds {
 public:
  struct Options {
    std::string role = "default";
    std::int64_t workers = 1;
    bool one_round = false;       // All restarts of the workers belong to one round.
    Duration look_again = 500ms;  // How often to check whether the round is still whole.
  };
  // `interrupted`: the same that the handler checks.
  SharedRounds(io::Loop& loop, std::unique_ptr<RendezvousHandler> handler,
               std::shared_ptr<std::atomic<bool>> interrupted, Options options, RoundEvents events);
  // Gives up whatever is under way, and waits until the thread has ended.
  ~SharedRounds() override;

  void join() override;
  void give_up_join() override;
  void workers_run(int restart_count) override;
  void workers_ended() override { give_up(); }
  void failed(const WorkerFailure& /*failure*/) override {}  // The others are told by check_in().
  bool warn(int /*signal*/) override { return false; }
  void say_stalled(std::optional<core::hang::Votes> votes) override;
  void say_where(std::vector<core::hang::RankAt> ours) override;
  void check_in(bool succeeded, const std::string& cause) override;
  void leave(core::agent::Ending ending, bool close) override;

 private:
  void run();
  void queue(std::function<void()> task);
  // Every task that has been queued until now has to end, whether it has begun or not.
  void give_up();
  // False: the task that runs was given up.
  bool rest(Duration limit);
  void post(std::function<void()> event);

  // On the thread.
  // `took_to_meet`: of nodes that have met, but could not agree on ranks.
  Result<JoinedRound> join_now(std::optional<Duration>& took_to_meet);
  void watch();
  void leave_now(bool close);
  // The same, in shared_rounds_hang.cc.
  void exchange_stalls(std::string& told);
  void exchange_where();
  void say_ended();
  void tell_hang(bool hangs);
  std::string key(const char* of, std::int64_t node) const;

  io::Loop& loop_;
  const Options options_;
  const RoundEvents events_;
  const std::shared_ptr<std::atomic<bool>> interrupted_;
  const std::unique_ptr<RendezvousHandler> handler_;

  // Used by the thread alone.
  std::optional<RendezvousInfo> info_;
  bool cut_off_ = false;          // The store did not answer the last request.
  std::string verdict_;           // Why the run failed for good, as another node told it.
  std::string start_;             // The prefix of this start's keys, where a round has several.
  std::set<std::int64_t> ended_;  // The nodes that say that their workers have ended well,
  std::uint64_t looks_then_ = 0;  // and what looks_ was when the last of them said so.
  bool hangs_ = false;            // What was told last.

  std::mutex mutex_;  // Guards all members down to where_.
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  // Tasks are numbered in the order in which they are queued. All up to `enough_` are given up.
  std::uint64_t queued_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t enough_ = 0;
  std::optional<core::hang::Votes> votes_;
  std::uint64_t looks_ = 0;           // How often our workers have been looked at.
  std::optional<std::string> where_;  // Where our ranks are, until this is known of all nodes.

  // Events that are posted before our end and come after it are dropped. Used by the loop alone.
  std::shared_ptr<bool> here_;
  std::thread thread_;
};

}  // namespace regroup::runtime
