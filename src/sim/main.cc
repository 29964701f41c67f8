// regroup_sim: replays one simulated run, or hunts through many.
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "sim/node/nodes_world.h"
#include "sim/session/session_world.h"
#include "sim/world/options.h"
#include "sim/world/trace.h"
#include "sim/world/world.h"

namespace regroup::sim {
namespace {

constexpr int kGood = 0;
constexpr int kViolated = 1;
constexpr int kBadStart = 2;

int bad_start(const std::string& message) {
  std::cerr << "regroup_sim: " << message << ". See 'regroup_sim --help'.\n";
  return kBadStart;
}

void print_totals(const Totals& totals) {
  std::cout << totals.runs << " runs, " << totals.steps << " steps, "
            << std::chrono::duration_cast<std::chrono::hours>(totals.virtual_time).count()
            << " hours of virtual time\n"
            << totals.seals << " rounds sealed, " << totals.joins << " joins; " << totals.swaps_won
            << " swaps won, " << totals.swaps_lost << " lost, " << totals.late_swaps
            << " won after they were given up\n"
            << totals.lost_messages << " messages lost, " << totals.doubled_messages << " doubled; "
            << totals.crashes << " crashes, " << totals.pauses << " pauses, " << totals.partitions
            << " partitions, " << totals.leaves << " leaves, " << totals.closes << " closes\n"
            << "the slowest meeting used " << static_cast<int>(totals.nearest_to_bound * 100)
            << " % of its bound\n";
}

Report play(const Options& options, const Trace& trace) {
  if (options.whole_nodes) return NodesWorld(options, trace).run();
  return options.coordinator ? SessionWorld(options, trace).run() : World(options, trace).run();
}

void print_violation(const Options& options, const std::string& violation) {
  std::cout << "seed " << options.seed << ": " << violation << "\n"
            << "replay: " << replay_line(options) << "\n";
}

int replay(const Options& options, bool with_trace) {
  const Trace trace =
      with_trace ? Trace([](std::string_view line) { std::cout << line << "\n"; }) : Trace();
  const Report report = play(options, trace);
  if (report.violation) {
    print_violation(options, *report.violation);
    return kViolated;
  }
  std::cout << "seed " << options.seed << ": good\n";
  print_totals(report.totals);
  return kGood;
}

int hunt(Options options, SeedRange seeds) {
  using Clock = std::chrono::steady_clock;
  const bool watched = isatty(STDERR_FILENO) != 0;
  auto next_line = Clock::now() + std::chrono::seconds(2);
  Totals totals;
  for (std::uint64_t seed = seeds.first;; ++seed) {
    options.seed = seed;
    const Report report = play(options, {});
    totals.add(report.totals);
    if (report.violation) {
      if (watched) std::cerr << "\r\033[K";
      print_violation(options, *report.violation);
      print_totals(totals);
      return kViolated;
    }
    if (seed == seeds.last) break;
    if (watched && Clock::now() >= next_line) {
      std::cerr << "\r\033[K" << totals.runs << " of " << seeds.last - seeds.first + 1 << " seeds, "
                << totals.steps << " steps, all good" << std::flush;
      next_line = Clock::now() + std::chrono::seconds(2);
    }
  }
  if (watched) std::cerr << "\r\033[K";
  std::cout << "seeds " << seeds.first << ".." << seeds.last << ": all good\n";
  print_totals(totals);
  return kGood;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Plays whole runs of the rendezvous on one thread, with a clock, a network, a store and "
      "nodes "
      "of its own.\nThe seed picks the work and the faults; the same seed gives the same run.",
      "regroup_sim");
  Options options;
  std::string seeds;
  std::string faults;
  std::string broken;
  bool trace = false;
  auto* one = app.add_option("--seed", options.seed, "Replay this run");
  auto* many =
      app.add_option("--seeds", seeds, "Run all from A to B (A..B); stop at the first that fails");
  app.add_option("--nodes", options.nodes, "How many nodes (default: the seed chooses)");
  app.add_option("--steps", options.steps, "The faults stop after so many steps at the latest");
  app.add_option("--faults", faults, "none, light or heavy (default: the seed chooses)");
  app.add_option("--torchrun-nodes", options.torchrun_nodes,
                 "So many behave as torchrun's (default: the seed chooses, mostly none)");
  app.add_option("--segment", options.segment,
                 "With --coordinator: only whole groups of so many are in a round; 0: anybody");
  app.add_flag("--coordinator", options.coordinator, "Runs with a coordinator and sessions");
  app.add_flag("--whole-nodes", options.whole_nodes,
               "Runs of whole nodes: agents and workers under a coordinator");
  app.add_flag("--trace", trace, "Print the timeline; with --seed only");
  app.add_option("--broken", broken, "A world that is wrong on purpose")->group("");  // For tests.
  app.footer("Exit code: 0 all good, 1 an invariant was violated, 2 a wrong flag.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for) {
    return app.exit(asked_for);
  } catch (const CLI::ParseError& wrong) {
    return bad_start(wrong.what());
  }

  if ((one->count() > 0) == (many->count() > 0)) return bad_start("give one of --seed and --seeds");
  if (trace && many->count() > 0) return bad_start("--trace goes with --seed");
  if (!faults.empty()) {
    const auto level = parse_faults(faults);
    if (!level) return bad_start(level.error().message);
    options.faults = *level;
  }
  if (!broken.empty()) {
    const auto world = parse_broken(broken);
    if (!world) return bad_start(world.error().message);
    options.broken = *world;
  }
  if (const auto good = validate(options); !good) return bad_start(good.error().message);
  if (one->count() > 0) return replay(options, trace);
  const auto range = parse_seeds(seeds);
  return range ? hunt(options, *range) : bad_start(range.error().message);
}

}  // namespace
}  // namespace regroup::sim

int main(int argc, char** argv) {
  try {
    return regroup::sim::run(argc, argv);
  } catch (const std::exception& unexpected) {
    std::cerr << "regroup_sim: " << unexpected.what() << "\n";
    return 1;
  }
}
