// What the health port answers: pages made of a snapshot of the agent, without asking it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.h"

namespace regroup::runtime {

struct HealthWorker {
  int local_rank = 0;
  int rank = 0;
  int pid = 0;
  std::string_view state;  // One of kWorkerStates.
};
inline constexpr std::string_view kWorkerStates[] = {"running", "succeeded", "failed", "stopped",
                                                     "survived"};

struct HealthRound {
  std::int64_t number = 0;
  std::int64_t group_rank = 0;
  std::int64_t group_world_size = 1;
};

struct HealthFailure {
  int rank = 0;
  int local_rank = 0;
  std::string host;
  int exit_code = 0;
  std::string message;
  std::int64_t time_micros = 0;  // Since 1970.
};

// How one node is doing, at one moment. Made on the agent's thread, read on another one.
struct HealthSnapshot {
  std::string run_id;
  std::string role;
  std::string_view state = "INIT";     // As torchrun calls it.
  std::string_view doing = "nothing";  // What is under way: "joining", "running".
  bool ready = false;                  // In a sealed round, and its workers run.
  std::optional<HealthRound> round;    // Empty: in none.
  std::int64_t rounds = 0;             // Joined so far.
  std::string waiting_for;             // In words; empty: for nothing but its workers.
  std::vector<HealthWorker> workers;   // Of the last start.
  int restarts = 0;
  int max_restarts = 0;
  std::optional<HealthFailure> last_failure;
  std::optional<std::int64_t> timers;  // Of workers, running now; empty: not known.
  Instant begun{};
  std::int64_t begun_micros = 0;  // The same, since 1970.
};

// What was found when the agent's loop was last asked to turn.
struct LoopHealth {
  Duration stuck_for{};  // How long it has been asked to turn and has not. Zero: it turns.
  Duration limit = 60s;
  bool alive() const { return stuck_for <= limit; }
};

struct Moment {
  Instant now;
  std::int64_t utc_micros = 0;  // The same, since 1970.
};

struct Page {
  int status = 200;
  std::string_view content_type;
  std::string body;
};

// The page at `path`. Empty: there is none.
std::optional<Page> health_page(std::string_view path, const HealthSnapshot& agent,
                                const LoopHealth& loop, const Moment& at);

// Whether a true answer needs the agent. The list of pages does not, nor do pages that do not
// exist.
bool asks_for_health(std::string_view path);

inline constexpr std::string_view kTextPage = "text/plain; charset=utf-8";
inline constexpr std::string_view kMetricsPage = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr std::string_view kJsonPage = "application/json";

}  // namespace regroup::runtime
