#include "cli/show/account.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace regroup::cli {
namespace {

using Event = AgentEvent;
using Level = Account::Level;
using Then = Event::Failed::Then;

TEST(Account, IsCalm) {
  EXPECT_EQ(account_of({.what = Event::Waiting{"1 of 2 nodes"}}, Level::Calm, ""),
            "regroup: 1 of 2 nodes");
  EXPECT_EQ(account_of({.what = Event::Joined{}}, Level::Calm, ""), "");
  EXPECT_EQ(account_of({.what = Event::Started{}}, Level::Calm, ""), "");
  EXPECT_EQ(account_of({.what = Event::CheckedIn{}}, Level::Calm, ""), "");
  EXPECT_EQ(account_of({.what = Event::MembersChanged{"1 node wants to come in"}}, Level::Calm, ""),
            "regroup: 1 node wants to come in: joining the next round");
}

TEST(Account, SaysMoreToWhoAsks) {
  EXPECT_EQ(account_of(
                {.what = Event::Joined{2500us}, .round = 3, .group_rank = 1, .group_world_size = 4},
                Level::Verbose, ""),
            "regroup: round 3: node 1 of 4, after 2.5 ms");
}

TEST(Account, TellsOfAFailureOnceOnly) {
  const ProcessFailure failure{.global_rank = 5, .host = "n1", .message = "KeyError: 1"};
  AgentEvent event{.what = Event::Failed{
                       .failure = failure, .then = Then::Restart, .restart = 1, .max_restarts = 3}};
  EXPECT_EQ(account_of(event, Level::Calm, ""),
            "regroup: rank 5 on n1 failed: KeyError: 1; restart 1 of 3");
  std::get<Event::Failed>(event.what).then = Then::End;  // The report at the end has it.
  EXPECT_EQ(account_of(event, Level::Calm, ""), "");
}

TEST(Account, PromisesNoRestartThatIsNotDecided) {
  const ProcessFailure failure{.global_rank = 5, .host = "n1", .message = "KeyError: 1"};
  const auto line = [&](Then then, int restart) {
    return account_of(
        {.what =
             Event::Failed{
                 .failure = failure, .then = then, .restart = restart, .max_restarts = 3}},
        Level::Calm, "");
  };
  EXPECT_EQ(line(Then::Undecided, 0),
            "regroup: rank 5 on n1 failed: KeyError: 1; the coordinator has not decided yet what "
            "follows");
  EXPECT_EQ(line(Then::Rejoin, 0), "regroup: rank 5 on n1 failed: KeyError: 1");
  // With --max-restarts 3/1h there may be more in all.
  EXPECT_EQ(line(Then::Restart, 4), "regroup: rank 5 on n1 failed: KeyError: 1; restart 4");
}

TEST(Account, EndsWithTheCauseWhereverItWas) {
  RunResult result;
  result.ending = RunResult::Ending::Failed;
  result.cause_elsewhere = "rank 5 on n1 failed: KeyError: 1";
  EXPECT_EQ(final_report(result, {}, "", {}),
            "regroup: the run has failed on another node: rank 5 on n1 failed: KeyError: 1\n");
  result.ending = RunResult::Ending::CouldNotJoin;
  result.error = {ErrorKind::Timeout, "nobody came"};
  EXPECT_EQ(final_report(result, {}, "", {}), "regroup: nobody came\n");
  EXPECT_EQ(account_of({.what = Event::Ended{result}}, Level::Quiet, "it"), "it");
}

TEST(Account, MayReportAsTorchrunDoes) {
  RunResult result;
  result.ending = RunResult::Ending::Failed;
  result.cause = ProcessFailure{.host = "n1", .exit_code = 3, .message = "ended with exit code 3"};
  result.workers.cause = result.cause;
  result.workers.failures = {*result.cause};
  const std::string text = final_report(result, {.report = View::Report::Torchrun}, "train.py", {});
  EXPECT_NE(text.find("\ntrain.py FAILED\n"), std::string::npos);
  EXPECT_EQ(text.find("regroup:"), std::string::npos);
}

// What comes of events: lines that were told, and "live: " for what was shown.
class Told {
 public:
  explicit Told(View view) : account_(view, "train.py", {}) {}
  Told& after(AgentEvent event) {
    event.tell = [this](const std::string& line) { lines_.push_back(line); };
    event.show = [this](const std::string& line) { lines_.push_back("live: " + line); };
    account_.tell(event);
    return *this;
  }
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

 private:
  Account account_;
  std::vector<std::string> lines_;
};

constexpr View kTerminal{.form = View::Form::Terminal};
using Lines = std::vector<std::string>;

TEST(Account, OnATerminalSaysWhatGoesWellToo) {
  Told told(kTerminal);
  told.after({.what = Event::Joined{2500us},
              .round = 3,
              .group_rank = 1,
              .group_world_size = 4,
              .local_world_size = 2,
              .world_size = 8});
  told.after({.what = Event::Started{2ms}, .local_world_size = 1});
  RunResult result;
  told.after({.what = Event::Ended{result}});
  EXPECT_EQ(told.take(),
            (Lines{"live: ", "regroup: round 3: node 1 of 4, 2 of 8 workers, met in 2.5 ms",
                   "live: ", "regroup: 1 worker up in 2.0 ms",  //
                   "live: ", "regroup: done: every worker of this node has succeeded"}));
}

TEST(Account, OnATerminalAWaitIsToldOnceAndThenIsLive) {
  Told told(kTerminal);
  told.after({.what = Event::Progress{"waiting for nodes: 1 of 2 here"}});
  EXPECT_EQ(told.take(), (Lines{"live: regroup: waiting for nodes: 1 of 2 here"}));
  told.after(
      {.what = Event::Waiting{"round 0: 1 of 2 nodes joined; missing: b; gives up in 10m00s"}});
  told.after(
      {.what = Event::Waiting{"round 0: 1 of 2 nodes joined; missing: b; gives up in 9m50s"}});
  EXPECT_EQ(told.take(),
            (Lines{"regroup: round 0: 1 of 2 nodes joined; missing: b; gives up in 10m00s"}));
  told.after({.what = Event::Waiting{"round 0: 2 of 3 nodes joined; gives up in 9m00s"}});
  EXPECT_EQ(told.take(), Lines{});  // The live line says the same.
  told.after({.what = Event::Waiting{"the store is gone; gives up in 9m40s"}});
  EXPECT_EQ(told.take(), (Lines{"regroup: the store is gone; gives up in 9m40s"}));
}

TEST(Account, WithoutATerminalNothingIsLive) {
  for (const View view : {View{}, View{.form = View::Form::Json},
                          View{.form = View::Form::Terminal, .level = Level::Quiet}}) {
    Told told(view);
    told.after({.what = Event::Progress{"waiting for nodes: 1 of 2 here"}});
    told.after({.what = Event::CheckedIn{}});
    for (const std::string& line : told.take()) EXPECT_FALSE(line.starts_with("live: ")) << line;
  }
}

TEST(Account, InColourOnlyTheCauseIsRed) {
  const ProcessFailure failure{.global_rank = 5, .host = "n1", .message = "KeyError: 1\nmore"};
  Told told({.form = View::Form::Terminal, .paint = Paint{true}});
  told.after({.what = Event::Failed{
                  .failure = failure, .then = Then::Restart, .restart = 1, .max_restarts = 3}});
  EXPECT_EQ(told.take(),
            (Lines{"live: ",
                   "\x1b[31mregroup: rank 5 on n1 failed: KeyError: 1\x1b[0m; restart 1 "
                   "of 3"}));
}

TEST(Account, InJsonEveryLineIsAnObject) {
  Told told({.form = View::Form::Json});
  RunResult result;
  told.after({.what = Event::Started{}}).after({.what = Event::Ended{result}});
  for (const std::string& line : told.take()) {
    EXPECT_TRUE(line.starts_with("{\"time\": \"2")) << line;
    EXPECT_TRUE(line.ends_with("}")) << line;
  }
  const Account account({.form = View::Form::Json}, "", {});
  EXPECT_TRUE(account.warning("w").starts_with("{\"time\": "));
  EXPECT_TRUE(account.error("e").starts_with("{\"time\": "));
}

}  // namespace
}  // namespace regroup::cli
