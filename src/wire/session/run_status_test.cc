#include "wire/session/run_status.h"

#include <gtest/gtest.h>

namespace regroup::wire {
namespace {

using core::run::NodeStatus;
using core::run::PortStatus;
using core::run::RunStatus;
using Place = NodeStatus::Place;

PortStatus some_status() {
  PortStatus status{.counters = {.sessions = 3,
                                 .sessions_ever = 4,
                                 .messages_in = 5,
                                 .messages_out = 6,
                                 .bytes_in = 7,
                                 .bytes_out = 0xffff'ffff'ffff'ffff,
                                 .refused = 8},
                    .runs = {}};
  RunStatus run{.run_id = "job \"1\"\n\xe2\x82\xac",
                .round = 7,
                .sealed = true,
                .closed = true,
                .succeeded = true,
                .rules = {.min_nodes = 2,
                          .max_nodes = 5,
                          .max_restarts = 3,
                          .segment = 6,
                          .heartbeat_limit = 1500ms},
                .restarts = 1,
                .awaited = "round 7: missing: n2",
                .last_verdict = "rank 3 failed\nTraceback",
                .nodes = {}};
  std::int64_t rank = 0;
  for (const Place place :
       {Place::Member, Place::Done, Place::Joined, Place::Waiting, Place::Spare, Place::Idle})
    run.nodes.push_back({.name = "n" + std::to_string(rank),
                         .address = "10.0.0.1",
                         .place = place,
                         .rank = rank < 2 ? std::optional(rank) : std::nullopt,
                         .workers = ++rank,
                         .connected = rank != 2,
                         .has_session = rank != 3,
                         .silent_for = 250ms * rank,
                         .group = rank == 1 ? "rack 1" : ""});
  status.runs.push_back(run);
  status.runs.push_back(
      {.run_id = "blank", .rules = {}, .awaited = {}, .last_verdict = {}, .nodes = {}});
  return status;
}

void expect_same(const RunStatus& a, const RunStatus& b) {
  EXPECT_EQ(a.run_id, b.run_id);
  EXPECT_EQ(a.round, b.round);
  EXPECT_EQ(a.sealed, b.sealed);
  EXPECT_EQ(a.closed, b.closed);
  EXPECT_EQ(a.succeeded, b.succeeded);
  EXPECT_EQ(a.rules, b.rules);
  EXPECT_EQ(a.restarts, b.restarts);
  EXPECT_EQ(a.awaited, b.awaited);
  EXPECT_EQ(a.last_verdict, b.last_verdict);
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const NodeStatus& one = a.nodes[i];
    const NodeStatus& other = b.nodes[i];
    EXPECT_EQ(one.name, other.name);
    EXPECT_EQ(one.address, other.address);
    EXPECT_EQ(one.place, other.place) << one.name;
    EXPECT_EQ(one.rank, other.rank);
    EXPECT_EQ(one.workers, other.workers);
    EXPECT_EQ(one.connected, other.connected);
    EXPECT_EQ(one.has_session, other.has_session);
    EXPECT_EQ(one.silent_for, other.silent_for);
    EXPECT_EQ(one.group, other.group);
  }
}

TEST(RunStatus, WhatIsWrittenIsRead) {
  const PortStatus status = some_status();
  const std::string json = encode_status(status);
  EXPECT_EQ(json.find('\n'), std::string::npos);
  const auto read = decode_status(json);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->counters, status.counters);
  ASSERT_EQ(read->runs.size(), status.runs.size());
  for (std::size_t i = 0; i < status.runs.size(); ++i) expect_same(read->runs[i], status.runs[i]);
}

TEST(RunStatus, ReadsWhatNewerAndOlderOnesSay) {
  const auto read = decode_status(
      R"({"version": 9, "runs": [{"run_id": "a", "new": [1], "round": "seven", "min_nodes": 1e99,
          "heartbeat_limit": 1e300, "nodes": [{"name": "n\ud800", "place": "elsewhere"}, 3]}, "b"]})");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->runs.size(), 1u);
  const RunStatus& run = read->runs.front();
  EXPECT_EQ(run.run_id, "a");
  EXPECT_EQ(run.round, 0);
  EXPECT_EQ(run.rules, RunRules{});
  ASSERT_EQ(run.nodes.size(), 1u);
  EXPECT_EQ(run.nodes[0].name, "n\xef\xbf\xbd");
  EXPECT_EQ(run.nodes[0].place, Place::Idle);
  EXPECT_EQ(run.nodes[0].rank, std::nullopt);
}

TEST(RunStatus, RefusesWhatIsNoStatus) {
  for (const char* text : {"", "null", "[]", "{}", R"({"runs": 3})", R"({"runs": [})", "[[[[[[[["})
    EXPECT_FALSE(decode_status(text)) << text;
  std::string whole = encode_status(some_status());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_status(whole.substr(0, size))) << size;
}

}  // namespace
}  // namespace regroup::wire
