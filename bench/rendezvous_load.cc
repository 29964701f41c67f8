// So many rendezvous handlers in one process, each with connections of its own, meet at a store.
//
//   rendezvous_load HOST:PORT NODES ROUNDS RUN_ID
//
// Prints, for each round, the seconds from «everybody starts» to «everybody has its rank and knows
// where the workers' store is», one line each. Exit 1 if somebody failed or ranks are not 0..n-1.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "regroup/rendezvous.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Node {
  std::unique_ptr<regroup::RendezvousHandler> handler;
  std::int64_t rank = -1;
  std::string error;
};

bool are_ranks(std::vector<Node>& nodes) {
  std::vector<std::int64_t> ranks;
  for (const Node& node : nodes) {
    if (!node.error.empty()) {
      std::fprintf(stderr, "rendezvous_load: %s\n", node.error.c_str());
      return false;
    }
    ranks.push_back(node.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: rendezvous_load HOST:PORT NODES ROUNDS RUN_ID\n");
    return 2;
  }
  const std::int64_t count = std::atoll(argv[2]);
  const int rounds = std::atoi(argv[3]);
  std::vector<Node> nodes(static_cast<std::size_t>(count));
  for (Node& node : nodes) {
    auto handler = regroup::make_rendezvous({.backend = "c10d",
                                             .endpoint = argv[1],
                                             .run_id = argv[4],
                                             .min_nodes = count,
                                             .max_nodes = count,
                                             .config = {{"is_host", "false"}},
                                             .on_status = [](const std::string&) {}});
    if (!handler) {
      std::fprintf(stderr, "rendezvous_load: %s\n", handler.error().message.c_str());
      return 1;
    }
    node.handler = std::move(*handler);
  }

  for (int round = 0; round < rounds; ++round) {
    std::barrier start(count + 1);
    std::vector<std::thread> threads;
    for (Node& node : nodes)
      threads.emplace_back([&start, &node] {
        start.arrive_and_wait();
        const auto info = node.handler->next_rendezvous();
        node.error = info ? "" : info.error().message;
        if (info) node.rank = info->rank;
      });
    start.arrive_and_wait();
    const auto began = Clock::now();
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> took = Clock::now() - began;
    if (!are_ranks(nodes)) return 1;
    std::printf("%.4f\n", took.count());
    std::fflush(stdout);
  }
  return 0;
}
