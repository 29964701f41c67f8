#include "cli/ask/status_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace regroup::cli {
namespace {

using core::run::NodeStatus;
using core::run::RunStatus;
using Place = NodeStatus::Place;
using testing::HasSubstr;
using testing::Not;

NodeStatus node(std::int64_t rank, Place place = Place::Member) {
  const bool has_rank = place == Place::Member || place == Place::Done;
  return {.name = "n" + std::to_string(rank),
          .address = "10.0.0." + std::to_string(rank),
          .place = place,
          .rank = has_rank ? std::optional(rank) : std::nullopt,
          .workers = 8};
}

RunStatus run_of(std::int64_t members) {
  RunStatus run{.run_id = "job",
                .round = 3,
                .sealed = true,
                .rules = {.min_nodes = 1, .max_nodes = 64, .max_restarts = 3},
                .restarts = 1,
                .awaited = {},
                .last_verdict = {},
                .nodes = {}};
  for (std::int64_t rank = 0; rank < members; ++rank) run.nodes.push_back(node(rank));
  return run;
}

std::string shown(RunStatus run, const StatusLayout& layout = {}) {
  return status_text({.counters = {}, .runs = {std::move(run)}}, "head:29400", layout);
}

std::size_t widest(const std::string& text) {
  std::istringstream lines(text);
  std::size_t most = 0;
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

TEST(StatusText, TellsOfARun) {
  RunStatus run = run_of(2);
  run.last_verdict = "rank 3 on n1 failed: exit code 7\nTraceback";
  run.nodes[1].connected = false;
  run.nodes[1].silent_for = 60ms;
  run.nodes.push_back(node(7, Place::Spare));
  run.nodes.push_back(node(8, Place::Waiting));
  run.nodes.push_back({.name = "t", .address = "10.0.1.1", .has_session = false});
  run.nodes.back().place = Place::Member;
  run.nodes.back().rank = 2;
  EXPECT_EQ(shown(run),
            "run 'job', round 3: runs\n"
            "  3 of 1..64 nodes, 1 waiting, 1 spare; restarts: 1 of 3\n"
            "  last verdict: rank 3 on n1 failed: exit code 7\n"
            "  rank  node  address   place    workers  connection\n"
            "  0     n0    10.0.0.0  member   8        connected\n"
            "  1     n1    10.0.0.1  member   8        lost for 1 s\n"
            "  -     n7    10.0.0.7  spare    8        connected\n"
            "  -     n8    10.0.0.8  waiting  8        connected\n"
            "  2     t     10.0.1.1  member   -        torchrun's, no session\n");
}

TEST(StatusText, TellsOfGroups) {
  RunStatus run = run_of(2);
  run.rules.segment = 2;
  run.nodes[0].group = run.nodes[1].group = "rack-7";
  run.nodes.push_back(node(7, Place::Spare));
  EXPECT_EQ(shown(run),
            "run 'job', round 3: runs\n"
            "  2 of 1..64 nodes, in groups of 2, 1 spare; restarts: 1 of 3\n"
            "  rank  node  address   group   place   workers  connection\n"
            "  0     n0    10.0.0.0  rack-7  member  8        connected\n"
            "  1     n1    10.0.0.1  rack-7  member  8        connected\n"
            "  -     n7    10.0.0.7          spare   8        connected\n");
}

TEST(StatusText, TellsWhatARunIsDoing) {
  RunStatus run = run_of(1);
  EXPECT_THAT(shown(run), HasSubstr("round 3: runs\n"));
  run.awaited = "round 3 is being stopped: n1 is gone";
  EXPECT_THAT(shown(run), HasSubstr("round 3: is being stopped\n"));
  EXPECT_THAT(shown(run), HasSubstr("  awaited: round 3 is being stopped: n1 is gone\n"));
  run.sealed = false;
  EXPECT_THAT(shown(run), HasSubstr("round 3: waits for nodes\n"));
  run.closed = true;
  EXPECT_THAT(shown(run), HasSubstr("round 3: has ended without success\n"));
  run.succeeded = true;
  EXPECT_THAT(shown(run), HasSubstr("round 3: has succeeded\n"));
}

TEST(StatusText, OfARunThatIsOverOnlyThoseAreListedWhoAreStillThere) {
  RunStatus run = run_of(2);
  run.closed = run.succeeded = true;
  run.nodes[0].has_session = false;
  EXPECT_THAT(shown(run), Not(HasSubstr("n0")));
  EXPECT_THAT(shown(run), HasSubstr("n1"));
  run.nodes[1].has_session = false;
  EXPECT_EQ(shown(run), "run 'job', round 3: has succeeded\n");
}

TEST(StatusText, OfManyNodesOnlyTheOddOnesAreListed) {
  RunStatus run = run_of(60);
  run.nodes[7].connected = false;
  run.nodes[9].silent_for = run.rules.heartbeat_limit;
  run.nodes[11].workers = 4;
  run.nodes[12].place = Place::Done;
  run.nodes[12].connected = false;  // It may go.
  run.nodes[12].silent_for = 1h;
  run.nodes.push_back(node(99, Place::Spare));
  EXPECT_EQ(shown(run),
            "run 'job', round 3: runs\n"
            "  60 of 1..64 nodes, 1 spare; restarts: 1 of 3\n"
            "  rank 11: member, 4 workers\n"
            "  ranks 0-6, 8, 10, 13-59: member, 8 workers each\n"
            "  rank 12: done, 8 workers\n"
            "  rank  node  address    place   workers  connection\n"
            "  7     n7    10.0.0.7   member  8        lost for 0 s\n"
            "  9     n9    10.0.0.9   member  8        silent for 5 s\n"
            "  -     n99   10.0.0.99  spare   8        connected\n");
  const std::string all = shown(run, {.all = true});
  EXPECT_THAT(all, HasSubstr("n42"));
  EXPECT_THAT(all, Not(HasSubstr("ranks")));
}

TEST(StatusText, ManyOddOnesAreCounted) {
  RunStatus run = run_of(1);
  for (int i = 100; i < 150; ++i) run.nodes.push_back(node(i, Place::Spare));
  const std::string text = shown(run);
  EXPECT_THAT(text, HasSubstr("n139"));
  EXPECT_THAT(text, Not(HasSubstr("n140")));
  EXPECT_THAT(text, HasSubstr("  and 10 more nodes (--all)\n"));
}

TEST(StatusText, FitsTheWindow) {
  RunStatus run = run_of(2);
  run.run_id = std::string(200, 'j');
  run.awaited = "round 3: 5 of 6..8 nodes joined; missing: " + std::string(120, 'x') + ", n7";
  run.nodes[0].name = std::string(70, 'a');
  run.nodes[1].address = "fd00:1234:5678:9abc:def0:1234:5678:9abc";
  for (const std::size_t columns : {20u, 60u, 80u, 100u}) {
    const std::string text = shown(run, {.columns = columns});
    EXPECT_LE(widest(text), columns) << text;
  }
  const std::string text = shown(run, {.columns = 80});
  EXPECT_THAT(text, HasSubstr("aaaa..  "));
  EXPECT_THAT(text, HasSubstr("connected\n"));
}

TEST(StatusText, NothingOfItIsACommandForTheTerminal) {
  RunStatus run = run_of(1);
  run.run_id = "a\x1b[2J";
  run.awaited = "b\x1b[2J\xc2\x9b!";
  run.last_verdict = "c\x1b[2J\r!";
  run.nodes[0].name = "d\x1b[2J";
  run.nodes[0].address = "e\x1b[2J";
  const std::string text = shown(run);
  EXPECT_EQ(text.find_first_of("\x1b\x9b\r"), std::string::npos) << text;
  EXPECT_THAT(text, HasSubstr("awaited: b?[2J?!\n"));
}

TEST(StatusText, ManyRunsThatHaveEndedAreCounted) {
  core::run::PortStatus status;
  EXPECT_EQ(status_text(status, "head:29400", {}), "no run has come to head:29400 yet\n");
  for (int i = 0; i < 11; ++i) {
    status.runs.push_back(run_of(0));
    status.runs.back().run_id = "job-" + std::to_string(i);
    status.runs.back().closed = true;
  }
  EXPECT_EQ(status_text(status, "head:29400", {}), "11 runs have ended (--all lists them)\n");
  EXPECT_THAT(status_text(status, "head:29400", {.all = true}), HasSubstr("'job-10'"));
  status.runs[4].closed = false;
  const std::string text = status_text(status, "head:29400", {});
  EXPECT_TRUE(text.starts_with("run 'job-4', round 3: runs\n")) << text;
  EXPECT_THAT(text, HasSubstr("\n\nrun 'job-10', round 3: has ended without success\n"));
}

TEST(StatusText, FitsTheRows) {
  const std::string text = "1\n2\n3\n4\n5\n";
  EXPECT_EQ(fit_rows(text, 0), text);
  EXPECT_EQ(fit_rows(text, 6), text);
  EXPECT_EQ(fit_rows(text, 5), "1\n2\n3\n(2 more lines)\n");
  EXPECT_EQ(fit_rows(text, 3), "1\n(4 more lines)\n");
}

}  // namespace
}  // namespace regroup::cli
