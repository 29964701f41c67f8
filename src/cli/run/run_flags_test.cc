#include "cli/run/run_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <tuple>

namespace regroup::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Result<RunFlags> parse(const Words& words, const Variables& variables = {}) {
  return parse_run_flags(words, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string message(const Words& words, const Variables& variables = {}) {
  const auto flags = parse(words, variables);
  if (flags) return "no error";
  EXPECT_EQ(flags.error().kind, ErrorKind::InvalidArgument);
  return flags.error().message;
}

// One row of torchrun's table: where the value goes, and what it is without any.
struct Row {
  std::string name;
  std::string standard;
  std::string (*read)(const RunFlags&);
  std::string other = "x";  // A value that is not the default.
  bool has_variable = true;
};

#define READ(member) [](const RunFlags& f) -> std::string { return f.member; }
const Row kValues[] = {
    {"nnodes", "1:1", READ(nnodes)},
    {"nproc-per-node", "1", READ(nproc_per_node)},
    {"rdzv-backend", "static", READ(rdzv_backend)},
    {"rdzv-endpoint", "", READ(rdzv_endpoint)},
    {"rdzv-id", "none", READ(rdzv_id)},
    {"rdzv-conf", "", READ(rdzv_conf)},
    {"rdzv-secret-file", "", READ(rdzv_secret_file)},
    {"max-restarts", "0", READ(max_restarts)},
    {"monitor-interval", "0.1", READ(monitor_interval), "5"},
    {"start-method", "spawn", READ(start_method), "fork"},
    {"event-log-handler", "null", READ(event_log_handler), "console"},
    {"role", "default", READ(role)},
    {"log-dir", "", READ(workers.log_dir)},
    {"redirects", "0", READ(workers.redirects)},
    {"tee", "0", READ(workers.tee)},
    {"log-line-prefix-template", "", READ(workers.prefix)},
    {"local-ranks-filter", "", READ(workers.local_ranks)},
    {"duplicate-stdout-filters", "none", READ(workers.out_filters.value_or("none"))},
    {"duplicate-stderr-filters", "none", READ(workers.err_filters.value_or("none"))},
    {"node-rank", "0", READ(node_rank)},
    {"master-addr", "127.0.0.1", READ(master_addr)},
    {"master-port", "", READ(master_port)},
    {"local-addr", "", READ(local_addr)},
    {"logs-specs", "", READ(logs_specs), "default", false},
    {"numa-binding", "", READ(numa_binding), "node", false},
    {"signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", READ(workers.handle)},
    {"shutdown-timeout", "none",
     [](const RunFlags& f) -> std::string {
       return f.workers.shutdown_seconds ? std::to_string(int(*f.workers.shutdown_seconds))
                                         : "none";
     },
     "7"},
};
#undef READ

struct FlagRow {
  std::string name;
  bool RunFlags::*flag;
};
const FlagRow kFlags[] = {{"standalone", &RunFlags::standalone},
                          {"module", &RunFlags::module},
                          {"no-python", &RunFlags::no_python},
                          {"run-path", &RunFlags::run_path},
                          {"virtual-local-rank", &RunFlags::virtual_local_rank}};

std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string variable(const std::string& option) {
  std::string name = "PET_" + underscored(option);
  for (char& c : name) c = static_cast<char>(std::toupper(c));
  return name;
}

TEST(RunFlags, EveryOptionOfTorchrunHasItsDefault) {
  const auto flags = parse({"s.py"});
  ASSERT_TRUE(flags);
  for (const Row& row : kValues) EXPECT_EQ(row.read(*flags), row.standard) << row.name;
  for (const FlagRow& row : kFlags) EXPECT_FALSE((*flags).*row.flag) << row.name;
  EXPECT_TRUE(flags->given.empty());
  EXPECT_EQ(flags->script, "s.py");
}

TEST(RunFlags, EveryOptionIsTakenInBothSpellings) {
  for (const Row& row : kValues)
    for (const std::string& name : {row.name, underscored(row.name)}) {
      const auto flags = parse({"--" + name, "a", "--" + name + "=" + row.other, "s.py"});
      ASSERT_TRUE(flags) << flags.error().message;
      EXPECT_EQ(row.read(*flags), row.other) << name;  // The last one.
      EXPECT_EQ(flags->named(row.name), "--" + row.name);
    }
  for (const FlagRow& row : kFlags)
    for (const std::string& name : {row.name, underscored(row.name)}) {
      const auto flags = parse({"--" + name, "s.py"});
      ASSERT_TRUE(flags) << flags.error().message;
      EXPECT_TRUE((*flags).*row.flag) << name;
    }
}

TEST(RunFlags, AVariableIsTheDefaultAndTheFlagWins) {
  for (const Row& row : kValues) {
    const Variables set{{variable(row.name), row.other}};
    auto flags = parse({"s.py"}, set);
    ASSERT_TRUE(flags) << flags.error().message;
    EXPECT_EQ(row.read(*flags), row.has_variable ? row.other : row.standard) << row.name;
    EXPECT_EQ(flags->named(row.name), row.has_variable ? variable(row.name) : "--" + row.name);
    const std::string typed = row.other == "x" ? "y" : row.other;
    flags = parse({"--" + row.name + "=" + typed, "s.py"}, {{variable(row.name), "z"}});
    ASSERT_TRUE(flags) << flags.error().message;
    EXPECT_EQ(row.read(*flags), typed) << row.name;
    EXPECT_EQ(flags->named(row.name), "--" + row.name);
  }
}

TEST(RunFlags, AVariableOfAFlagIsANumber) {
  for (const FlagRow& row : kFlags) {
    const auto is_on = [&](const Words& words, const char* value) {
      const auto flags = parse(words, {{variable(row.name), value}});
      EXPECT_TRUE(flags) << row.name << value;
      return flags && (*flags).*row.flag;
    };
    for (const char* on : {"1", " 2", "-1", "+1"}) EXPECT_TRUE(is_on({"s"}, on)) << on;
    for (const char* off : {"0", "00", "+0"}) EXPECT_FALSE(is_on({"s"}, off)) << off;
    EXPECT_TRUE(is_on({"--" + row.name, "s"}, "0"));
    for (const char* wrong : {"true", "", "1.0"})
      EXPECT_THAT(message({"s"}, {{variable(row.name), wrong}}),
                  AllOf(HasSubstr(variable(row.name) + " is '" + wrong + "'"),
                        HasSubstr("1 for --" + row.name + ", or 0")));
  }
}

TEST(RunFlags, AnEmptyVariableIsAnEmptyText) {
  EXPECT_EQ(parse({"s"}, {{"PET_RDZV_ID", ""}})->rdzv_id, "");
  EXPECT_EQ(parse({"s"}, {{"PET_DUPLICATE_STDOUT_FILTERS", ""}})->workers.out_filters, "");
  EXPECT_EQ(parse({"--duplicate-stderr-filters=", "s"})->workers.err_filters, "");
  EXPECT_EQ(parse({"--logs-specs=", "s"})->logs_specs, "");
  EXPECT_EQ(message({"s"}, {{"PET_SHUTDOWN_TIMEOUT", ""}}),
            "PET_SHUTDOWN_TIMEOUT is ''; it takes a time: 90, 90s, 10m, 1.5h, 100ms");
}

TEST(RunFlags, WhatCannotBeIsNamedWithItsSource) {
  const std::vector<std::tuple<Words, Variables, const char*>> table{
      {{"--start-method=bogus", "s"},
       {},
       "--start-method is 'bogus'; it takes spawn, fork or fork"},
      {{"s"}, {{"PET_START_METHOD", "bogus"}}, "PET_START_METHOD is 'bogus'; it takes spawn, fork"},
      {{"s"}, {{"PET_EVENT_LOG_HANDLER", "x"}}, "PET_EVENT_LOG_HANDLER is 'x'; it takes null"},
      {{"--numa-binding", "gpu", "s"}, {}, "node, socket, exclusive or core-complex"},
      {{"--logs-specs", "mine", "s"}, {}, "plug-ins of Python packages cannot run here"},
      {{"--shutdown-timeout=-1", "s"}, {}, "--shutdown-timeout is '-1'; it takes a time: 90,"},
      {{"--shutdown-timeout=nan", "s"}, {}, "--shutdown-timeout is 'nan'; it takes a time"},
      {{"s"}, {{"PET_SHUTDOWN_TIMEOUT", "ten"}}, "PET_SHUTDOWN_TIMEOUT is 'ten'; it takes a time"},
      {{"s"}, {{"PET_MONITOR_INTERVAL", "x"}}, "PET_MONITOR_INTERVAL is 'x'; it takes a time"},
      {{"--exit-barrier-timeout=x", "s"}, {}, "--exit-barrier-timeout is 'x'; it takes"},
      {{"--log-keep=x", "s"}, {}, "--log-keep is 'x'; it takes a whole number from 0 to 10000"},
      {{"--log-keep=", "s"}, {}, "--log-keep is ''; it takes a whole number"},
      {{"--log-max-bytes=x", "s"}, {}, "--log-max-bytes is 'x'; it takes a size such as"},
      {{"--memory-limit=", "s"}, {}, "--memory-limit is ''; it takes a size such as"},
      {{"--cgroup=x", "s"}, {}, "--cgroup is 'x'; it takes auto, off or require"},
      {{"--exit-code=x", "s"}, {}, "--exit-code is 'x'; it takes worker or torchrun"},
      {{"--print-completion=tcsh"}, {}, "there is no completion for tcsh"},
      {{"--print-completion=fish"}, {}, "--print-completion is 'fish'; it takes bash or zsh"},
      {{"--nnodes=2"}, {}, "no script to run"},
      {{"--"}, {}, "no script to run"},
      {{"--log", "s"}, {}, "ambiguous"},
  };
  for (const auto& [words, variables, expected] : table)
    EXPECT_THAT(message(words, variables), HasSubstr(expected));
}

TEST(RunFlags, WhatIsOursIsTakenToo) {
  const auto flags = parse({"-mqvn2", "--dry-run", "--exit-code=torchrun", "--expect=a,b",
                            "--exit-barrier-timeout=1.5", "--python=py", "--cgroup=off",
                            "--ranks-filter=0", "--log-max-bytes=1KB", "--log-keep=2", "s"});
  ASSERT_TRUE(flags) << flags.error().message;
  EXPECT_TRUE(flags->module && flags->quiet && flags->verbose && flags->dry_run);
  EXPECT_EQ(flags->nproc_per_node, "2");
  EXPECT_EQ(flags->exit_code, "torchrun");
  EXPECT_EQ(flags->expect, "a,b");
  EXPECT_EQ(flags->exit_barrier_timeout, 1.5);
  EXPECT_EQ(flags->python, "py");
  EXPECT_EQ(flags->workers.cgroup, "off");
  EXPECT_EQ(flags->workers.ranks, "0");
  EXPECT_EQ(flags->workers.log_max_bytes, 1024u);
  EXPECT_EQ(flags->workers.log_keep, 2);
}

TEST(RunFlags, TheInterpreterMayBeNamedByTheEnvironment) {
  EXPECT_EQ(parse({"s"}, {{"PYTHON_EXEC", "/py"}})->python, "/py");
  EXPECT_EQ(parse({"--python=mine", "s"}, {{"PYTHON_EXEC", "/py"}})->python, "mine");
  EXPECT_EQ(parse({"s"}, {{"PYTHON_EXEC", ""}})->python, "");
}

TEST(RunFlags, WhatIsBehindTheScriptIsNotLookedAt) {
  const auto flags = parse({"--nnod", "2", "s.py", "--log", "--max=4", "--help", "--", "${rank}"});
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->nnodes, "2");
  EXPECT_THAT(flags->script_arguments, ElementsAre("--log", "--max=4", "--help", "--", "${rank}"));
}

TEST(RunFlags, TheHelpNamesEveryOptionOnceAndWithDashes) {
  const auto flags = parse({"--nnodes=bad", "--help", "--nonsense"}, {{"PET_MODULE", "bad"}});
  ASSERT_TRUE(flags) << flags.error().message;
  EXPECT_THAT(flags->to_print,
              AllOf(HasSubstr("regroup run [OPTIONS] [--] SCRIPT [ARGUMENTS...]"),
                    HasSubstr("Nodes:\n"), HasSubstr("Rendezvous:\n"), HasSubstr("Workers:\n"),
                    HasSubstr("Output:\n"), HasSubstr("Stopping:\n"), HasSubstr("What is shown:\n"),
                    HasSubstr("Other:\n"), HasSubstr("-h,--help"), Not(HasSubstr("--rdzv_id"))));
  for (const Row& row : kValues) EXPECT_THAT(flags->to_print, HasSubstr("--" + row.name));
  for (const FlagRow& row : kFlags) EXPECT_THAT(flags->to_print, HasSubstr("--" + row.name));
}

TEST(RunFlags, ACompletionNeedsNoScript) {
  EXPECT_THAT(parse({"--print-completion", "bash"})->to_print, HasSubstr("complete -o"));
  EXPECT_THAT(parse({"--print-completion=zsh"})->to_print, HasSubstr("#compdef regroup"));
}

TEST(RunFlags, TheFilesOfEventsAndMetricsAreOursAndHaveNoVariable) {
  const auto flags = parse({"--event-log=e", "--rdzv-event-log=r", "--metrics_log", "m", "s.py"},
                           {{"PET_EVENT_LOG", "other"}, {"PET_METRICS_LOG", "other"}});
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->event_log, "e");
  EXPECT_EQ(flags->rdzv_event_log, "r");
  EXPECT_EQ(flags->metrics_log, "m");
  const auto without = parse({"s.py"}, {{"PET_EVENT_LOG", "other"}});
  ASSERT_TRUE(without);
  EXPECT_EQ(without->event_log, "");
  EXPECT_EQ(without->event_log_handler, "null");
}

}  // namespace
}  // namespace regroup::cli
