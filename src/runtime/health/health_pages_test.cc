#include "runtime/health/health_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace regroup::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr Moment kNow{Instant{100s}, 1'700'000'000'000'000};  // 2023-11-14 22:13:20 UTC.

HealthSnapshot running() {
  HealthSnapshot agent;
  agent.run_id = "job";
  agent.role = "trainer";
  agent.state = "HEALTHY";
  agent.doing = "running";
  agent.ready = true;
  agent.round = {.number = 3, .group_rank = 1, .group_world_size = 4};
  agent.rounds = 4;
  agent.workers = {{.local_rank = 0, .rank = 2, .pid = 17, .state = "running"},
                   {.local_rank = 1, .rank = 3, .pid = 18, .state = "succeeded"}};
  agent.restarts = 1;
  agent.max_restarts = 3;
  agent.begun = Instant{88s};
  agent.begun_micros = kNow.utc_micros - 12'000'000;
  return agent;
}

HealthSnapshot joining() {
  HealthSnapshot agent;
  agent.doing = "joining";
  agent.waiting_for = "round 0: 1 of 2 nodes joined";
  return agent;
}

Page page(std::string_view path, const HealthSnapshot& agent, const LoopHealth& loop = {}) {
  const auto made = health_page(path, agent, loop, kNow);
  EXPECT_TRUE(made) << path;
  return made ? *made : Page{};
}

TEST(HealthPages, LivesWhileTheLoopTurns) {
  EXPECT_EQ(page("/healthz", joining()).status, 200);
  EXPECT_EQ(page("/healthz", running()).body, "alive: the agent's loop turns\n");
}

TEST(HealthPages, LivesUpToTheLimitAndSaysHowLongItHasBeenQuiet) {
  const auto late = page("/healthz", running(), {.stuck_for = 60s, .limit = 60s});
  EXPECT_EQ(late.status, 200);
  EXPECT_THAT(late.body, HasSubstr("not turned since 2023-11-14 22:12:20 UTC, which is 1m00s ago"));
}

TEST(HealthPages, IsStuckBeyondTheLimit) {
  const LoopHealth stuck{.stuck_for = 61s, .limit = 60s};
  EXPECT_EQ(page("/healthz", running(), stuck).status, 503);
  EXPECT_EQ(page("/healthz", running(), stuck).body,
            "stuck: the agent's loop has not turned since 2023-11-14 22:12:19 UTC, which is 1m01s "
            "ago; the limit is 1m00s\n");
  EXPECT_EQ(page("/readyz", running(), stuck).status, 503);
  EXPECT_THAT(page("/status", running(), stuck).body,
              AllOf(HasSubstr("\"alive\": false"), HasSubstr("\"ready\": false"),
                    HasSubstr("\"stuck_s\": 61.000")));
  EXPECT_THAT(page("/metrics", running(), stuck).body,
              AllOf(HasSubstr("\nregroup_up 0\n"), HasSubstr("\nregroup_ready 0\n"),
                    HasSubstr("\nregroup_last_progress_seconds 61.000\n")));
}

TEST(HealthPages, IsReadyInARoundWhoseWorkersRun) {
  EXPECT_EQ(page("/readyz", running()).status, 200);
  EXPECT_EQ(page("/readyz", running()).body, "ready: round 3, node 1 of 4, 2 workers\n");
}

TEST(HealthPages, SaysWhyItIsNotReady) {
  EXPECT_EQ(page("/readyz", joining()).status, 503);
  EXPECT_EQ(page("/readyz", joining()).body, "not ready: joining: round 0: 1 of 2 nodes joined\n");
}

TEST(HealthPages, TellsEverythingAsJson) {
  auto agent = running();
  agent.last_failure = {.rank = 2,
                        .local_rank = 0,
                        .host = "node-1",
                        .exit_code = -9,
                        .message = "killed\nby \"SIGKILL\"",
                        .time_micros = 1'500'000};
  agent.timers = 5;
  const auto status = page("/status", agent);
  EXPECT_EQ(status.content_type, "application/json");
  EXPECT_EQ(status.body,
            "{\"state\": \"HEALTHY\", \"doing\": \"running\", \"alive\": true, \"ready\": true, "
            "\"run_id\": \"job\", \"role\": \"trainer\", \"round\": 3, \"group_rank\": 1, "
            "\"group_world_size\": 4, \"waiting_for\": null, \"workers\": ["
            "{\"local_rank\": 0, \"rank\": 2, \"pid\": 17, \"state\": \"running\"}, "
            "{\"local_rank\": 1, \"rank\": 3, \"pid\": 18, \"state\": \"succeeded\"}], "
            "\"restarts\": 1, \"max_restarts\": 3, \"last_failure\": {\"rank\": 2, "
            "\"local_rank\": 0, \"host\": \"node-1\", \"exit_code\": -9, "
            "\"message\": \"killed\\nby \\\"SIGKILL\\\"\", \"time\": 1.5}, \"timers\": 5, "
            "\"uptime_s\": 12.000, \"stuck_s\": 0.000}\n");
}

TEST(HealthPages, HasNoRoundWhileJoining) {
  EXPECT_THAT(page("/status", joining()).body,
              AllOf(HasSubstr("\"round\": null"), HasSubstr("\"last_failure\": null"),
                    HasSubstr("\"waiting_for\": \"round 0: 1 of 2 nodes joined\""),
                    Not(HasSubstr("timers"))));
  EXPECT_THAT(page("/metrics", joining()).body,
              AllOf(Not(HasSubstr("regroup_round ")), Not(HasSubstr("regroup_timers"))));
}

TEST(HealthPages, CountsWorkersByState) {
  EXPECT_THAT(page("/metrics", running()).body,
              AllOf(HasSubstr("\nregroup_workers{state=\"running\"} 1\n"),
                    HasSubstr("\nregroup_workers{state=\"succeeded\"} 1\n"),
                    HasSubstr("\nregroup_workers{state=\"failed\"} 0\n"),
                    HasSubstr("\nregroup_restarts_total 1\n"), HasSubstr("\nregroup_round 3\n"),
                    HasSubstr("\nregroup_state{state=\"HEALTHY\"} 1\n")));
}

TEST(HealthPages, KeepsStrangeNamesInsideTheirQuotes) {
  auto agent = running();
  agent.run_id = "a\"b\\c\nd\xff";
  EXPECT_THAT(
      page("/metrics", agent).body,
      HasSubstr("regroup_info{run_id=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\",role=\"trainer\"} 1\n"));
}

TEST(HealthPages, EveryMetricHasItsHelpAndTypeOnce) {
  auto agent = running();
  agent.timers = 0;
  const auto metrics = page("/metrics", agent);
  EXPECT_EQ(metrics.content_type, "text/plain; version=0.0.4; charset=utf-8");
  std::set<std::string> helped;
  std::set<std::string> typed;
  std::istringstream lines(metrics.body);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find_first_of(" {"));
    std::istringstream words(line);
    std::string hash;
    std::string kind;
    std::string of;
    words >> hash >> kind >> of;
    if (hash == "#" && kind == "HELP") {
      EXPECT_TRUE(helped.insert(of).second) << line;
    } else if (hash == "#") {
      EXPECT_EQ(kind, "TYPE");
      EXPECT_TRUE(typed.insert(of).second) << line;
    } else {
      EXPECT_TRUE(helped.contains(name) && typed.contains(name)) << line;
      EXPECT_THAT(name, StartsWith("regroup_"));
    }
  }
  EXPECT_EQ(helped, typed);
}

TEST(HealthPages, ListsItself) {
  const auto index = page("/", {});
  for (const char* path : {"/healthz", "/readyz", "/status", "/metrics"}) {
    EXPECT_THAT(index.body, HasSubstr(path));
    EXPECT_TRUE(asks_for_health(path));
  }
  EXPECT_FALSE(asks_for_health("/"));
  EXPECT_FALSE(asks_for_health("/other"));
  EXPECT_FALSE(health_page("/other", {}, {}, kNow));
}

}  // namespace
}  // namespace regroup::runtime
