// Countdown timers: a worker says how long a piece of its work may take at most, and the launcher
// that watches over it ends the worker if it takes longer. docs/watchdog.md has the details.
//
// In a worker of `regroup run --watchdog` (or of a torchrun with its file timer):
//
//   {
//     auto guard = regroup::expires(30s);        // Scope: this file and line.
//     all_reduce(...);                           // Longer than 30 s: we are killed.
//   }                                            // Released.
//   regroup::heartbeat(60s);                     // Or: once in every step.
//
// A program that watches over its own worker processes:
//
//   auto server = regroup::PipeTimerServer::open({.path = "/run/job/timers"});
//
// All of it may be called from any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "regroup/result.h"
#include "regroup/time.h"

namespace regroup {

// An acquire, or with a negative time a release.
struct TimerRequest {
  std::int64_t worker_id = 0;  // A number that client and server agree on; ours: the process's pid.
  std::string scope_id;
  double expiration_time = 0;  // Seconds since 1970.
  int signal = 0;              // To end the worker with; 0 or less: none.
  bool is_release() const { return expiration_time < 0; }
  friend bool operator==(const TimerRequest&, const TimerRequest&) = default;
};

// Acquires and releases timers for the process that calls. A scope has one timer: acquiring it
// again replaces it.
class TimerClient {
 public:
  virtual ~TimerClient() = default;
  virtual Result<void> acquire(const std::string& scope_id, double expiration_time) = 0;
  virtual Result<void> release(const std::string& scope_id) = 0;
};

// Where a server takes requests from.
class RequestQueue {
 public:
  virtual ~RequestQueue() = default;
  // It may grow before get() is called, but does not shrink.
  virtual std::size_t size() const = 0;
  // Up to `size` requests; waits for them, no longer than `timeout`.
  virtual std::vector<TimerRequest> get(std::size_t size, Duration timeout) = 0;
};

// ---- Within one process ----

// A queue in memory.
class LocalRequestQueue final : public RequestQueue {
 public:
  void put(TimerRequest request);
  std::size_t size() const override;
  std::vector<TimerRequest> get(std::size_t size, Duration timeout) override;

 private:
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<TimerRequest> requests_;
};

class LocalTimerClient final : public TimerClient {
 public:
  // `worker_id` empty: the pid of the process that calls.
  explicit LocalTimerClient(std::shared_ptr<LocalRequestQueue> queue,
                            std::optional<std::int64_t> worker_id = {}, int signal = 9);
  Result<void> acquire(const std::string& scope_id, double expiration_time) override;
  Result<void> release(const std::string& scope_id) override;

 private:
  std::shared_ptr<LocalRequestQueue> queue_;
  std::optional<std::int64_t> worker_id_;
  int signal_;
};

struct ExpiredWorker {
  std::int64_t worker_id = 0;
  std::vector<std::string> scopes;  // Of its expired timers, the earliest first.
  // Of the earliest of them that has one; 0: none has, and it is not to be ended.
  int signal = 0;
};

// Watches over the timers that come through a queue, on a thread of its own. Wakes up for requests
// and for deadlines, and at least every `max_interval`. What the queue or the reaper throws is
// logged, and the server goes on; so are its start, its stop, and every worker that it ends.
class TimerServer {
 public:
  // Ends a worker. True: it has ended, or there is none; all its timers are dropped. False: this is
  // tried again after `max_interval`. A reaper that throws counts as true. It is also called for a
  // worker none of whose timers has a signal.
  using Reaper = std::function<bool(const ExpiredWorker&)>;

  // Without a reaper: the worker id is a pid, which gets the signal; if there is none, it lives on,
  // and its other timers stay.
  explicit TimerServer(std::shared_ptr<RequestQueue> queue, Duration max_interval = 60s,
                       Reaper reaper = {});
  ~TimerServer();  // As stop().
  TimerServer(const TimerServer&) = delete;
  TimerServer& operator=(const TimerServer&) = delete;

  void start();
  // Waits for the thread, which may sit in get() of a queue that is not ours for `max_interval`.
  void stop();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// ---- Between processes: a named pipe, with the lines of PyTorch's file timer ----

// May be used by many processes at once, PyTorch's FileTimerClient beside it.
class PipeTimerClient final : public TimerClient {
 public:
  explicit PipeTimerClient(std::string path, int signal = 9);
  // Connection: no process reads the pipe. Timeout: it is full. InvalidArgument: the scope is so
  // long that the line would not get through in one piece (4096 bytes with its newline).
  Result<void> acquire(const std::string& scope_id, double expiration_time) override;
  Result<void> release(const std::string& scope_id) override;
  const std::string& path() const { return path_; }

 private:
  Result<void> send(const TimerRequest& request) const;
  std::string path_;
  int signal_;
};

struct PipeTimerServerOptions {
  // Made by the server, for our user alone, and removed with it. A pipe that an earlier run has
  // left there is replaced. Empty: watchdog_timer_<random> in TMPDIR.
  std::string path = {};
  // The processes whose timers count. Empty: those that descend from this one.
  std::function<bool(int pid)> belongs = {};
  // Named in log lines.
  std::string run_id = {};
  // last_progress_time() is never older than this while the server does its work.
  Duration max_interval = 10s;
  // Called with torchrun's words: "watchdog started" and "watchdog stopped", without a request;
  // "timer expired" for the timers of a process up to the one that decides, and "kill worker
  // process" for that one, once its signal was sent, with the request as it came. From the server's
  // thread, the first and the last from the thread that opens and destroys it.
  std::function<void(const std::string& name, const std::optional<TimerRequest>& request)>
      on_event = {};
  // What any of these functions throws is logged, and the server goes on.
  // Called for each process that was sent the signal of its timer; from the server's thread.
  std::function<void(int pid, int signal, const std::string& why)> on_expired = {};
  // Gets complaints about lines that cannot be read, and the like. Empty: logged on standard error.
  std::function<void(const std::string&)> on_warning = {};
};

// Ends processes whose timers expire. Never this process itself.
class PipeTimerServer {
 public:
  // It listens when this returns.
  static Result<std::unique_ptr<PipeTimerServer>> open(PipeTimerServerOptions options = {});
  virtual ~PipeTimerServer() = default;
  virtual const std::string& path() const = 0;
  // When the server was last seen at work; seconds since 1970. From any thread.
  virtual std::int64_t last_progress_time() const = 0;
};

// ---- What workers call ----

// The client that expires() uses from now on. Null: as in the beginning, a PipeTimerClient for the
// pipe that TORCHELASTIC_TIMER_FILE names.
void configure(std::shared_ptr<TimerClient> client);

// Releases its scope when it is destroyed.
class [[nodiscard]] ExpiresGuard {
 public:
  ExpiresGuard(std::shared_ptr<TimerClient> client, std::string scope);
  ~ExpiresGuard();
  ExpiresGuard(ExpiresGuard&&) noexcept = default;
  ExpiresGuard& operator=(ExpiresGuard&& other) noexcept;

  // Releases it now, and returns how that went.
  Result<void> release();
  const std::string& scope() const { return scope_; }

 private:
  std::shared_ptr<TimerClient> client_;  // Null: released.
  std::string scope_;
};

// This process has `after` until the guard is destroyed. The scope is the file and line of the
// call. If no client is configured and there is no pipe: InvalidArgument, and nothing is watched.
[[nodiscard]] Result<ExpiresGuard> expires(
    Duration after, std::source_location here = std::source_location::current());
[[nodiscard]] Result<ExpiresGuard> expires(
    Duration after, std::shared_ptr<TimerClient> client,
    std::source_location here = std::source_location::current());
// `client` null: the configured one.
[[nodiscard]] Result<ExpiresGuard> expires(Duration after, std::string scope,
                                           std::shared_ptr<TimerClient> client = nullptr);

// Tells the launcher that this worker makes progress: it is ended if it does not call again within
// `limit`. Cheap enough for every step. A worker has one heartbeat, whichever of its threads and
// processes beats. Without a watchdog it does nothing. It can fail only when the limit is new: the
// launcher could not be told, and nothing is watched yet.
Result<void> heartbeat(Duration limit);
// No beat is expected from now on, until the next one.
void heartbeat_stop();

}  // namespace regroup
