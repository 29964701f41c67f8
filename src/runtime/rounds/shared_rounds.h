// The rounds of a node whose run has no coordinator: the nodes share a state in a store, or have
// fixed ranks. Whatever the store is asked may take its time, so all of it happens on a thread of
// its own, one thing at a time; what comes of it is posted to the loop.
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
    bool one_round = false;       // All starts of the workers are in it.
    Duration look_again = 500ms;  // Whether the round still stands.
  };
  // `interrupted`: the one that the handler looks at.
  SharedRounds(io::Loop& loop, std::unique_ptr<RendezvousHandler> handler,
               std::shared_ptr<std::atomic<bool>> interrupted, Options options, RoundEvents events);
  ~SharedRounds() override;  // Gives everything up, and waits for that.

  void join() override;
  void give_up_join() override;
  void workers_run(int restart_count) override;
  void workers_ended() override { give_up(); }
  void failed(const WorkerFailure& /*failure*/) override {}  // It is told at the end.
  bool warn(int /*signal*/) override { return false; }
  void say_stalled(std::optional<core::hang::Votes> votes) override;
  void say_where(std::vector<core::hang::RankAt> ours) override;
  void check_in(bool succeeded, const std::string& cause) override;
  void leave(bool close) override;

 private:
  void run();
  void queue(std::function<void()> task);
  // Whatever has been queued until now is to end, begun or not.
  void give_up();
  // False once somebody has asked for the end of what is under way.
  bool rest(Duration limit);
  void post(std::function<void()> event);

  // Of the thread.
  Result<JoinedRound> join_now();
  void watch();
  void exchange_stalls(std::string& told);
  void exchange_where();
  void say_ended();
  void tell_hang(bool hangs);
  std::string key(const char* of, std::int64_t node) const;
  void leave_now(bool close);

  io::Loop& loop_;
  const Options options_;
  const RoundEvents events_;
  const std::shared_ptr<std::atomic<bool>> interrupted_;
  const std::unique_ptr<RendezvousHandler> handler_;

  // Of the thread.
  std::optional<RendezvousInfo> info_;
  bool cut_off_ = false;          // The store did not answer when we last asked.
  std::string verdict_;           // Why the run failed for good, as another node told it.
  std::string start_;             // The prefix of this start's keys, where a round has several.
  std::set<std::int64_t> ended_;  // Nodes whose workers have ended well, as the others know it,
  std::uint64_t looks_then_ = 0;  // and the number of our looks when we learned it.

  std::mutex mutex_;  // Around what follows.
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  // Tasks are counted as they are queued; those up to `enough_` are to end.
  std::uint64_t queued_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t enough_ = 0;
  std::optional<core::hang::Votes> votes_;
  std::uint64_t looks_ = 0;  // At our workers; while they are not stalled it does not matter.
  std::optional<std::string> where_;  // Of our ranks, until everybody's is known.

  bool hangs_ = false;  // As it was told last. Of the thread.
  // Events that come when we are gone are dropped. Of the loop.
  std::shared_ptr<bool> here_;
  std::thread thread_;
};

}  // namespace regroup::runtime
