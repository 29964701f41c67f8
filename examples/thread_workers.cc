// A backend of one's own: the workers of this agent are threads of this program instead of
// processes. The agent does the rest: ranks, environment, restarts, the other nodes.
//
//   build/release/examples/thread_workers [WORKERS]
//
// Rank 0 fails on its first try; the restart does better.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "regroup/agent.h"

namespace {

using Environment = std::map<std::string, std::string>;

// What a worker does. It looks at `stop` often enough: nothing can end a thread from outside.
int work(const Environment& environment, const std::atomic<bool>& stop) {
  const int rank = std::stoi(environment.at("RANK"));
  const bool is_first_try = environment.at("TORCHELASTIC_RESTART_COUNT") == "0";
  for (int step = 0; step < 10; ++step) {
    if (stop) return 1;
    if (is_first_try && rank == 0 && step == 5) return 7;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::printf("rank %d of %s is done\n", rank, environment.at("WORLD_SIZE").c_str());
  return 0;
}

class Threads final : public regroup::WorkerBackend {
 public:
  ~Threads() override {
    kill_all();
    join();
  }

  regroup::Result<void> start(const regroup::GroupToStart& group, Ended ended) override {
    join();  // Those of the last group have told of their ends.
    stop_ = false;
    for (std::size_t rank = 0; rank < group.commands.size(); ++rank) {
      ++alive_;
      threads_.emplace_back([this, rank, ended, environment = group.commands[rank].environment] {
        const int code = work(environment, stop_);
        --alive_;  // First: when all ends are told, none is alive.
        ended(static_cast<int>(rank), {.code = code});
      });
    }
    return {};
  }
  void signal(int, int number) override { signal_all(number); }
  void signal_all(int number) override {
    if (number == SIGTERM || number == SIGINT || number == SIGKILL) stop_ = true;
  }
  void kill_all() override { stop_ = true; }
  int count_alive() override { return alive_; }
  void explain(regroup::ProcessFailure& failure) override {
    if (failure.exit_code == 7) failure.message = "the loss is not a number";
  }
  void shut_down() override { join(); }

 private:
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  std::vector<std::thread> threads_;
  std::atomic<int> alive_ = 0;
  std::atomic<bool> stop_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  regroup::AgentOptions options;
  options.spec = {.local_world_size = argc > 1 ? std::atoi(argv[1]) : 2, .max_restarts = 2};
  options.rendezvous = {.backend = "c10d", .endpoint = "localhost:0", .run_id = "threads"};
  options.backend = std::make_shared<Threads>();
  options.signals_to_handle = {SIGTERM, SIGINT};
  options.on_event = [](const regroup::AgentEvent& event) {
    if (const auto* failed = std::get_if<regroup::AgentEvent::Failed>(&event.what))
      event.tell("rank " + std::to_string(failed->failure.global_rank) +
                 " failed: " + failed->failure.message);
  };
  auto agent = regroup::Agent::create(std::move(options));
  if (!agent) {
    std::fprintf(stderr, "thread_workers: %s\n", agent.error().message.c_str());
    return 2;
  }
  const regroup::RunResult result = (*agent)->run();
  std::printf("%s after %d restarts\n", result.failed() ? "failed" : "done", result.restarts);
  return result.failed() ? 1 : 0;
}
