#include "cli/run/run_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace regroup::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Pair;
using testing::UnorderedElementsAre;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

constexpr const char* kUuid =
    "[0-9a-f]+-[0-9a-f]+-4[0-9a-f][0-9a-f][0-9a-f]-[89ab][0-9a-f][0-9a-f][0-9a-f]-[0-9a-f]+";

Result<RunPlan> plan(Words words, const Variables& variables = {}) {
  words.emplace_back("s.py");
  const auto flags = parse_run_flags(words, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  if (!flags) return tl::unexpected(flags.error());
  return resolve(*flags);
}

RunPlan good_plan(const Words& words, const Variables& variables = {}) {
  auto made = plan(words, variables);
  EXPECT_TRUE(made) << made.error().message;
  return made.value_or(RunPlan{});
}

std::string message(const Words& words, const Variables& variables = {}) {
  const auto made = plan(words, variables);
  if (made) return "no error";
  EXPECT_EQ(made.error().kind, ErrorKind::InvalidArgument);
  return made.error().message;
}

TEST(RunDefaults, OneNodeMeetsItselfOnAFreePort) {
  const RunPlan one = good_plan({});
  EXPECT_EQ(one.rendezvous.backend, "c10d");
  EXPECT_EQ(one.rendezvous.endpoint, "localhost:0");
  EXPECT_EQ(one.rendezvous.run_id.size(), 36u);
  EXPECT_THAT(one.rendezvous.run_id, MatchesRegex(kUuid));
  EXPECT_EQ(one.rendezvous.min_nodes, 1);
  EXPECT_EQ(one.rendezvous.max_nodes, 1);
  EXPECT_FALSE(one.rendezvous.node_rank);
  EXPECT_THAT(one.rendezvous.config, ElementsAre(Pair("timeout", "900")));
  EXPECT_THAT(one.warnings, IsEmpty());
  EXPECT_NE(one.rendezvous.run_id, good_plan({}).rendezvous.run_id);
}

TEST(RunDefaults, WhatOneNodeDiscardsIsSaid) {
  EXPECT_THAT(good_plan({"--rdzv-id=job", "--master-addr=n1"}).warnings,
              ElementsAre(AllOf(HasSubstr("one node: --rdzv-id=job, --master-addr=n1 have no eff"),
                                HasSubstr("Pass --rdzv-endpoint or --master-port"))));
  EXPECT_THAT(good_plan({}, {{"PET_MASTER_ADDR", "n1"}}).warnings,
              ElementsAre(HasSubstr("PET_MASTER_ADDR=n1 has no effect")));
  EXPECT_THAT(good_plan({"--node-rank=1"}).warnings, ElementsAre(HasSubstr("--node-rank=1 has")));
  EXPECT_THAT(good_plan({"--rdzv-id=none", "--node-rank=0", "--master-addr=127.0.0.1",
                         "--rdzv-backend=static", "--nnodes=1"})
                  .warnings,
              IsEmpty());
}

TEST(RunDefaults, StandaloneDiscardsEverythingThatWasGiven) {
  const RunPlan alone = good_plan({"--standalone", "--rdzv-backend=static", "--rdzv-endpoint=n1:1",
                                   "--rdzv-id=job", "--master-port=7"});
  EXPECT_EQ(alone.rendezvous.backend, "c10d");
  EXPECT_EQ(alone.rendezvous.endpoint, "localhost:0");
  EXPECT_THAT(alone.rendezvous.run_id, MatchesRegex(kUuid));
  EXPECT_THAT(alone.warnings,
              ElementsAre(HasSubstr("--standalone: --rdzv-backend=static, --rdzv-endpoint=n1:1, "
                                    "--rdzv-id=job, --master-port=7 have no effect")));
  EXPECT_THAT(good_plan({"--standalone", "--rdzv-backend=c10d"}).warnings, IsEmpty());
  EXPECT_THAT(good_plan({}, {{"PET_STANDALONE", "1"}, {"PET_RDZV_ID", "x"}}).warnings,
              ElementsAre(HasSubstr("PET_STANDALONE: PET_RDZV_ID=x has no effect")));
}

TEST(RunDefaults, StandaloneWithMoreNodesIsRefusedOrSaid) {
  EXPECT_THAT(message({"--standalone", "--nnodes=2"}),
              HasSubstr("--standalone is for one node, but --nnodes is '2'"));
  const RunPlan some = good_plan({"--standalone", "--nnodes=1:4"});
  EXPECT_EQ(some.rendezvous.max_nodes, 4);
  EXPECT_THAT(some.warnings, ElementsAre(HasSubstr("no other can find this one")));
}

TEST(RunDefaults, StaticNodesMeetAtTheMaster) {
  const std::vector<std::tuple<Words, std::string>> table{
      {{"--nnodes=2"}, "127.0.0.1:29500"},
      {{"--nnodes=2", "--master-addr=n1"}, "n1:29500"},
      {{"--nnodes=2", "--master-addr=n1", "--master-port=7"}, "n1:7"},
      {{"--nnodes=2", "--master-addr=[::1]"}, "[::1]:29500"},
      {{"--nnodes=2", "--master-addr=::1"}, "[::1]:29500"},
      {{"--nnodes=2", "--master-addr=n1", "--rdzv-endpoint=n2:8"}, "n2:8"},
      {{"--master-port=7"}, "127.0.0.1:7"},
      {{"--master-port=0"}, "127.0.0.1:0"},
      {{"--rdzv-endpoint=n1:5"}, "n1:5"},
  };
  for (const auto& [words, endpoint] : table) {
    const RunPlan made = good_plan(words);
    EXPECT_EQ(made.rendezvous.backend, "static") << endpoint;
    EXPECT_EQ(made.rendezvous.endpoint, endpoint);
    EXPECT_EQ(made.rendezvous.run_id, "none");
    EXPECT_EQ(made.rendezvous.node_rank, 0);
    // That other machines cannot reach this one is said.
    EXPECT_EQ(made.warnings.size(), words == std::vector<std::string>{"--nnodes=2"} ? 1u : 0u);
  }
}

TEST(RunDefaults, TheRankOfAStaticNodeIsItsFlag) {
  const RunPlan made =
      good_plan({"--nnodes=4", "--rdzv-conf=rank=2,timeout=60"}, {{"PET_NODE_RANK", "3"}});
  EXPECT_EQ(made.rendezvous.node_rank, 3);
  EXPECT_THAT(made.rendezvous.config,
              UnorderedElementsAre(Pair("rank", "3"), Pair("timeout", "60")));
  EXPECT_THAT(message({"--nnodes=2"}, {{"PET_NODE_RANK", "2"}}),
              HasSubstr("PET_NODE_RANK is '2'; it takes 0 to 1 with --nnodes=2"));
}

TEST(RunDefaults, OtherBackendsGetWhatWasGiven) {
  const RunPlan made =
      good_plan({"--nnodes=2:8", "--rdzv-backend=c10d", "--rdzv-endpoint=n1:29400", "--rdzv-id=job",
                 "--rdzv-conf=join_timeout=5", "--local-addr=10.0.0.1", "--expect=n1,n2",
                 "--master-addr=n1", "--node-rank=0"});
  EXPECT_EQ(made.rendezvous.backend, "c10d");
  EXPECT_EQ(made.rendezvous.endpoint, "n1:29400");
  EXPECT_EQ(made.rendezvous.run_id, "job");
  EXPECT_EQ(made.rendezvous.min_nodes, 2);
  EXPECT_EQ(made.rendezvous.max_nodes, 8);
  EXPECT_EQ(made.rendezvous.local_addr, "10.0.0.1");
  EXPECT_EQ(made.rendezvous.node_rank, 0);
  EXPECT_THAT(made.rendezvous.expected_nodes, ElementsAre("n1", "n2"));
  EXPECT_THAT(made.rendezvous.config,
              UnorderedElementsAre(Pair("join_timeout", "5"), Pair("timeout", "900")));
  EXPECT_THAT(made.warnings, IsEmpty());
  EXPECT_FALSE(good_plan({"--rdzv-backend=c10d"}).rendezvous.node_rank);
}

TEST(RunDefaults, WhatOtherBackendsDoNotUseIsSaid) {
  EXPECT_THAT(good_plan({"--rdzv-backend=c10d", "--node-rank=3"}).warnings,
              ElementsAre(HasSubstr("--node-rank=3: with the c10d backend it is only a wish")));
  EXPECT_THAT(good_plan({"--rdzv-backend=c10d"}, {{"PET_MASTER_ADDR", "n1"}}).warnings,
              ElementsAre(HasSubstr("PET_MASTER_ADDR has no effect with the c10d backend")));
  EXPECT_THAT(good_plan({"--rdzv-backend=c10d", "--master-port=7"}).warnings,
              ElementsAre(HasSubstr("--master-port has no effect")));
}

TEST(RunDefaults, ARunWithoutANameGetsANumber) {
  const RunPlan made = good_plan({"--rdzv-backend=c10d", "--rdzv-id="});
  EXPECT_THAT(made.rendezvous.run_id, MatchesRegex("[1-9][0-9]+"));
  EXPECT_GT(made.rendezvous.run_id.size(), 30u);
  EXPECT_THAT(made.warnings, ElementsAre(AllOf(HasSubstr("--rdzv-id is empty"),
                                               HasSubstr(made.rendezvous.run_id))));
}

TEST(RunDefaults, NumbersAreTakenAsPythonTakesThem) {
  const RunPlan made =
      good_plan({"--nnodes= 1_0 :+20", "--max-restarts= +3", "--nproc-per-node=+0_4"});
  EXPECT_EQ(made.nproc, "4");
  EXPECT_EQ(made.rendezvous.min_nodes, 10);
  EXPECT_EQ(made.rendezvous.max_nodes, 20);
  EXPECT_EQ(made.rules.max_restarts, 3);
}

TEST(RunDefaults, HowTheScriptIsRun) {
  const std::vector<std::pair<Words, RunMode>> table{
      {Words{}, RunMode::Script},
      {{"-m"}, RunMode::Module},
      {{"--no-python"}, RunMode::Program},
      {{"--run-path"}, RunMode::RunPath},
      {{"--run-path", "-m", "--no-python"}, RunMode::RunPath},
  };
  for (const auto& [words, mode] : table) EXPECT_EQ(good_plan(words).mode, mode);
  EXPECT_THAT(message({"--no-python"}, {{"PET_MODULE", "1"}}),
              HasSubstr("--no-python and PET_MODULE exclude each other"));
}

TEST(RunDefaults, TheRestIsHandedOn) {
  const RunPlan made = good_plan(
      {"--role=trainer", "--nproc-per-node=gpu", "--numa-binding=socket", "--virtual-local-rank"});
  EXPECT_EQ(made.role, "trainer");
  EXPECT_EQ(made.nproc, "gpu");
  EXPECT_EQ(made.numa_binding, "socket");
  EXPECT_TRUE(made.virtual_local_rank);
}

TEST(RunDefaults, ARoleIsText) {
  EXPECT_EQ(good_plan({"--role=\xc3\xa9l\xc3\xa8ve"}).role, "\xc3\xa9l\xc3\xa8ve");
  EXPECT_THAT(message({"--role=r\xc3("}),
              AllOf(HasSubstr("--role is 'r\\xc3('"), HasSubstr("it takes text in UTF-8")));
  EXPECT_THAT(message({}, {{"PET_ROLE", "\xff"}}), HasSubstr("PET_ROLE is "));
}

TEST(RunDefaults, WhatCannotBeIsNamedWithItsSource) {
  for (const char* nodes : {"", "0", "-1", "2:1", "0:4", "1:2:3", "two", "2:", ":2", "1.5"}) {
    const std::string told = " is '" + std::string(nodes) + "'; it takes a number of nodes: 4, or";
    EXPECT_THAT(message({"--nnodes=" + std::string(nodes)}), HasSubstr("--nnodes" + told));
    EXPECT_THAT(message({}, {{"PET_NNODES", nodes}}), HasSubstr("PET_NNODES" + told));
  }
  const std::vector<std::tuple<Words, Variables, const char*>> table{
      {{"--max-restarts=-1"}, {}, "--max-restarts is '-1'; it takes a whole number, 0 or more"},
      {{}, {{"PET_MAX_RESTARTS", "x"}}, "PET_MAX_RESTARTS is 'x'"},
      {{"--max-restarts=3000000000"}, {}, "--max-restarts is '3000000000'"},
      {{"--monitor-interval=0"},
       {},
       "--monitor-interval is '0'; it takes a time: 90, 90s, 10m, 1.5h, 100ms; more than 0"},
      {{"--monitor-interval", "-1"}, {}, "--monitor-interval is '-1'"},
      {{"--node-rank=-1"}, {}, "--node-rank is '-1'; it takes a rank, 0 or more"},
      {{"--node-rank=x"}, {}, "--node-rank is 'x'"},
      {{"--master-port=65536"}, {}, "--master-port is '65536'; it takes a port, 0 to 65535"},
      {{}, {{"PET_MASTER_PORT", ""}}, "PET_MASTER_PORT is ''; it takes a port"},
      {{"--nnodes=2", "--master-addr="}, {}, "--master-addr is ''"},
      {{"--rdzv-conf=a"}, {}, "--rdzv-conf: the rendezvous option 'a' has no value"},
      {{}, {{"PET_RDZV_CONF", "=1"}}, "PET_RDZV_CONF: "},
      {{"--rdzv-secret-file=/none/such"},
       {},
       "--rdzv-secret-file: the secret file '/none/such' cannot"},
      {{},
       {{"PET_RDZV_SECRET_FILE", ""}},
       "PET_RDZV_SECRET_FILE: the secret file '' cannot be read"},
      {{"--nnodes=2", "--rdzv-secret-file=/none/such"}, {}, "which the static backend has not"},
      {{"--rdzv-conf=run_id=x"}, {}, "run_id has a flag of its own; pass --rdzv-id"},
      {{"--rdzv-conf=max_nodes=3"}, {}, "pass --nnodes"},
      {{}, {{"PET_TEE", "4"}}, "PET_TEE: "},
      {{"-r9"}, {}, "--redirects: "},
      {{}, {{"PET_LOCAL_RANKS_FILTER", "x"}}, "PET_LOCAL_RANKS_FILTER: "},
  };
  for (const auto& [words, variables, expected] : table)
    EXPECT_THAT(message(words, variables), HasSubstr(expected));
}

}  // namespace
}  // namespace regroup::cli
