#include "runtime/health/health_pages.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "base/json_text.h"
#include "base/seconds.h"
#include "base/text.h"
#include "base/utf8.h"

namespace regroup::runtime {
namespace {

constexpr std::string_view kIndex =
    "/healthz   200 while the agent's loop turns, else 503\n"
    "/readyz    200 while this node is in a sealed round and its workers run, else 503\n"
    "/status    how this node is doing, as JSON\n"
    "/metrics   the same as metrics of Prometheus\n";
constexpr std::array<std::string_view, 4> kPages{"/healthz", "/readyz", "/status", "/metrics"};
// These are torchrun's names.
constexpr std::array<std::string_view, 7> kStates{"UNKNOWN", "INIT",      "HEALTHY", "UNHEALTHY",
                                                  "STOPPED", "SUCCEEDED", "FAILED"};

std::string rounded(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3f", seconds);
  return text;
}

std::string utc_text(std::int64_t micros) {
  using namespace std::chrono;
  const sys_time<microseconds> at{microseconds(micros)};
  const auto day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss time(floor<seconds>(at - day));
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u %02d:%02d:%02d UTC",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()));
  return text;
}

std::string since_when(const LoopHealth& loop, const Moment& at) {
  const std::int64_t since =
      at.utc_micros - std::chrono::duration_cast<std::chrono::microseconds>(loop.stuck_for).count();
  return fmt::format("the agent's loop has not turned since {}, which is {} ago; the limit is {}",
                     utc_text(since), in_words(loop.stuck_for), in_words(loop.limit));
}

Page live_page(const LoopHealth& loop, const Moment& at) {
  if (!loop.alive()) return {503, kTextPage, "stuck: " + since_when(loop, at) + "\n"};
  if (loop.stuck_for > Duration{}) return {200, kTextPage, "alive: " + since_when(loop, at) + "\n"};
  return {200, kTextPage, "alive: the agent's loop turns\n"};
}

std::string round_text(const HealthRound& round) {
  return fmt::format("round {}, node {} of {}", round.number, round.group_rank,
                     round.group_world_size);
}

bool is_ready(const HealthSnapshot& agent, const LoopHealth& loop) {
  return agent.ready && loop.alive();
}

Page ready_page(const HealthSnapshot& agent, const LoopHealth& loop, const Moment& at) {
  if (is_ready(agent, loop))
    return {200, kTextPage,
            fmt::format("ready: {}{}\n", agent.round ? round_text(*agent.round) + ", " : "",
                        count_of(agent.workers.size(), "worker"))};
  if (!loop.alive()) return {503, kTextPage, "not ready: " + since_when(loop, at) + "\n"};
  return {503, kTextPage,
          fmt::format("not ready: {}{}\n", agent.doing,
                      agent.waiting_for.empty() ? "" : ": " + agent.waiting_for)};
}

std::string json_of(const HealthWorker& worker) {
  return JsonObject()
      .add("local_rank", worker.local_rank)
      .add("rank", worker.rank)
      .add("pid", worker.pid)
      .add("state", worker.state)
      .text();
}

std::string json_of(const HealthFailure& failure) {
  return JsonObject()
      .add("rank", failure.rank)
      .add("local_rank", failure.local_rank)
      .add("host", failure.host)
      .add("exit_code", failure.exit_code)
      .add("message", failure.message)
      .add("time", static_cast<double>(failure.time_micros) / 1e6)
      .text();
}

Page status_page(const HealthSnapshot& agent, const LoopHealth& loop, const Moment& at) {
  JsonObject json;
  json.add("state", agent.state)
      .add("doing", agent.doing)
      .add("alive", loop.alive())
      .add("ready", is_ready(agent, loop))
      .add("run_id", agent.run_id)
      .add("role", agent.role);
  if (agent.round) {
    json.add("round", agent.round->number)
        .add("group_rank", agent.round->group_rank)
        .add("group_world_size", agent.round->group_world_size);
  } else {
    json.null("round").null("group_rank").null("group_world_size");
  }
  if (agent.waiting_for.empty())
    json.null("waiting_for");
  else
    json.add("waiting_for", agent.waiting_for);
  std::string workers;
  for (const HealthWorker& worker : agent.workers)
    workers += (workers.empty() ? "" : ", ") + json_of(worker);
  json.raw("workers", "[" + workers + "]")
      .add("restarts", agent.restarts)
      .add("max_restarts", agent.max_restarts)
      .raw("last_failure", agent.last_failure ? json_of(*agent.last_failure) : "null");
  if (agent.timers) json.add("timers", *agent.timers);
  json.raw("uptime_s", rounded(in_seconds(at.now - agent.begun)))
      .raw("stuck_s", rounded(in_seconds(loop.stuck_for)));
  return {200, kJsonPage, json.text() + "\n"};
}

// The text format of Prometheus, version 0.0.4.
class Metrics {
 public:
  // Begins a metric; its samples follow.
  Metrics& metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name_, help, type);
    return *this;
  }
  Metrics& sample(const std::string& value, const std::string& labels = "") {
    text_ += fmt::format("{}{} {}\n", name_, labels.empty() ? "" : "{" + labels + "}", value);
    return *this;
  }
  Metrics& sample(std::int64_t value, const std::string& labels = "") {
    return sample(std::to_string(value), labels);
  }
  static std::string label(const std::string& name, std::string_view value) {
    std::string text = name + "=\"";
    for (const char c : valid_utf8(value)) {
      if (c == '\n') {
        text += "\\n";
        continue;
      }
      if (c == '\\' || c == '"') text += '\\';
      text += c;
    }
    return text + "\"";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

Page metrics_page(const HealthSnapshot& agent, const LoopHealth& loop) {
  Metrics metrics;
  metrics.metric("regroup_up", "gauge", "Whether the agent's loop turns within the limit.")
      .sample(loop.alive() ? 1 : 0);
  metrics.metric("regroup_ready", "gauge", "Whether the workers of a sealed round run.")
      .sample(is_ready(agent, loop) ? 1 : 0);
  metrics.metric("regroup_info", "gauge", "Which run this node is part of; always 1.")
      .sample(1, Metrics::label("run_id", agent.run_id) + "," + Metrics::label("role", agent.role));
  metrics.metric("regroup_state", "gauge", "1 for the state that the agent is in.");
  for (const std::string_view state : kStates)
    metrics.sample(state == agent.state ? 1 : 0, Metrics::label("state", state));
  if (agent.round) {
    metrics.metric("regroup_round", "gauge", "Number of the round that this node is in.")
        .sample(agent.round->number);
    metrics.metric("regroup_group_rank", "gauge", "Rank of this node in its round.")
        .sample(agent.round->group_rank);
    metrics.metric("regroup_group_world_size", "gauge", "Nodes in the round.")
        .sample(agent.round->group_world_size);
  }
  metrics.metric("regroup_rounds_total", "counter", "Rounds that this node has joined.")
      .sample(agent.rounds);
  metrics.metric("regroup_restarts_total", "counter", "Restarts after a failure on this node.")
      .sample(agent.restarts);
  metrics.metric("regroup_max_restarts", "gauge", "How many of them there may be.")
      .sample(agent.max_restarts);
  metrics.metric("regroup_workers", "gauge", "Workers of the last start, by state.");
  for (const std::string_view state : kWorkerStates)
    metrics.sample(std::count_if(agent.workers.begin(), agent.workers.end(),
                                 [&](const auto& worker) { return worker.state == state; }),
                   Metrics::label("state", state));
  if (agent.timers)
    metrics.metric("regroup_timers", "gauge", "Timers of workers that run now.")
        .sample(*agent.timers);
  metrics
      .metric("regroup_last_progress_seconds", "gauge",
              "How long the agent's loop has been asked to turn and has not; 0 while it turns.")
      .sample(rounded(in_seconds(loop.stuck_for)));
  metrics
      .metric("regroup_start_time_seconds", "gauge", "When the agent began, in seconds since 1970.")
      .sample(rounded(static_cast<double>(agent.begun_micros) / 1e6));
  return {200, kMetricsPage, metrics.take()};
}

}  // namespace

bool asks_for_health(std::string_view path) {
  return std::find(kPages.begin(), kPages.end(), path) != kPages.end();
}

std::optional<Page> health_page(std::string_view path, const HealthSnapshot& agent,
                                const LoopHealth& loop, const Moment& at) {
  if (path == "/") return Page{200, kTextPage, std::string(kIndex)};
  if (path == "/healthz") return live_page(loop, at);
  if (path == "/readyz") return ready_page(agent, loop, at);
  if (path == "/status") return status_page(agent, loop, at);
  if (path == "/metrics") return metrics_page(agent, loop);
  return std::nullopt;
}

}  // namespace regroup::runtime
