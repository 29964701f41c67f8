// Rounds with a coordinator that the test plays: no socket, and nothing that blocks.
#include "runtime/rounds/coordinated_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "io/loop/clock.h"
#include "io/loop/loop.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using core::agent::JoinFailure;
using core::agent::Order;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The coordinator and the connection to it, as the test plays them.
struct Played {
  SessionOptions options;
  std::vector<FromAgent> said;  // The introductions, too.
  std::function<void(const FromAgent&)> on_said = [](const FromAgent&) {};
  std::optional<Duration> flush_limit;
  bool ended = false;

  void introduce() {
    for (const FromAgent& message : options.introduction()) said.push_back(message);
  }
  template <class Message>
  std::vector<Message> all() const {
    std::vector<Message> found;
    for (const FromAgent& message : said)
      if (const auto* one = std::get_if<Message>(&message)) found.push_back(*one);
    return found;
  }
};

class PlayedSession final : public NodeSession {
 public:
  PlayedSession(io::Loop& loop, std::shared_ptr<Played> played)
      : loop_(loop), played_(std::move(played)) {
    played_->introduce();
  }
  ~PlayedSession() override { played_->ended = true; }

  void say(const FromAgent& message) override {
    played_->said.push_back(message);
    // The answer never comes from inside the call.
    loop_.post([played = played_, message] {
      if (!played->ended) played->on_said(message);
    });
  }
  void flush(Duration limit, std::function<void()> done) override {
    played_->flush_limit = limit;
    loop_.post(std::move(done));
  }

 private:
  io::Loop& loop_;
  std::shared_ptr<Played> played_;
};

const Sealed kSealed{.round = 4,
                     .rank = 1,
                     .world_size = 2,
                     .restart_count = 3,
                     .ranks = {.base_global_rank = 8, .global_world_size = 16},
                     .bootstrap = {.address = "n1", .port = 29501}};

class CoordinatedRoundsTest : public testing::Test {
 protected:
  CoordinatedRoundsTest() : loop_(std::move(*io::Loop::open())) {
    options_.parameters.interrupted = std::make_shared<std::atomic<bool>>(false);
    options_.parameters.on_status = [](const std::string&) {};
    options_.parameters.on_wait = [](const RendezvousWait&) {};
    options_.part = {.role = "trainer", .workers = 8};
    options_.settings.run_id = "r";
    options_.address = "n2";
    options_.began = io::now();
    world_.make_session = [this](SessionOptions options) {
      played_->options = std::move(options);
      return std::make_unique<PlayedSession>(*loop_, played_);
    };
    world_.offer = [] { return BootstrapStore{.address = "n2", .port = 29500}; };
    // The coordinator seals a round as soon as this node joins.
    played_->on_said = [this](const FromAgent& message) {
      if (std::holds_alternative<Join>(message)) tell_node(kSealed);
    };
  }

  RoundEvents events() {
    RoundEvents events;
    events.joined = [this](JoinedRound round) {
      joined_ = std::move(round);
      happened("joined");
    };
    events.join_failed = [this](const JoinFailed& failed) {
      failed_ = failed;
      happened("join failed");
    };
    events.ordered = [this](const Order& order) {
      order_ = order;
      happened("ordered");
    };
    events.reached = [this](const std::string& trouble) {
      trouble_ = trouble;
      happened(trouble.empty() ? "reached" : "not reached");
    };
    events.warned = [this](int signal, const std::string& node) {
      happened("warned by " + std::to_string(signal) + " on " + node);
    };
    events.hangs = [this](bool all_say_so) { happened(all_say_so ? "hangs" : "hangs no more"); };
    events.blamed = [this](const core::hang::Blame& blame) { happened(blame.summary); };
    events.waiting = [this](const std::string& line) { happened("waits: " + line); };
    events.left = [this] { happened("left"); };
    return events;
  }

  void happened(const std::string& what) {
    events_.push_back(what);
    if (then_) then_(what);
  }

  // Joins; `then` hears of every event, and the loop runs until it has said done().
  void join(std::function<void(const std::string&)> then) {
    then_ = std::move(then);
    rounds_ = std::make_unique<CoordinatedRounds>(*loop_, options_, world_, events());
    rounds_->join();
    loop_->run();
  }
  void join_run_with(const RunRules& rules) {
    played_->on_said = [this, rules](const FromAgent& message) {
      if (!std::holds_alternative<Join>(message)) return;
      tell_node(Welcome{.rules = rules});
      tell_node(kSealed);
    };
    join([this](const std::string& what) {
      if (what == "joined") done();
    });
  }
  // Joins, does this as soon as the node is in its round, and waits for nothing more.
  void in_round(const std::function<void()>& step) {
    join([&](const std::string& what) {
      if (what != "joined") return;
      events_.clear();
      loop_->post([&] {
        step();
        done();
      });
    });
  }
  // Joins, is in its round, and then does this; until it has left.
  void until_left(const std::function<void()>& step) {
    join([&](const std::string& what) {
      if (what == "joined") loop_->post(step);
      if (what == "left") done();
    });
  }
  void tell_node(const FromCoordinator& message) { played_->options.on_message(message); }
  void done() { loop_->stop(); }

  std::unique_ptr<io::Loop> loop_;
  CoordinatedRounds::Options options_;
  RoundsWorld world_;
  std::shared_ptr<Played> played_ = std::make_shared<Played>();
  std::function<void(const std::string&)> then_;
  std::vector<std::string> events_;
  std::optional<JoinedRound> joined_;
  std::optional<JoinFailed> failed_;
  std::optional<Order> order_;
  std::string trouble_;
  std::unique_ptr<CoordinatedRounds> rounds_;
};

// ---- A round begins ----

TEST_F(CoordinatedRoundsTest, KnowsTheRunsLimitOfRestarts) {
  join_run_with({.max_restarts = 1});
  EXPECT_EQ(joined_->max_restarts, 1);
}

TEST_F(CoordinatedRoundsTest, KeepsItsOwnLimitOfRestartsWhereEachNodeHasOne) {
  join_run_with({.max_restarts = 1, .per_node = true});
  EXPECT_EQ(joined_->max_restarts, std::nullopt);
}

TEST_F(CoordinatedRoundsTest, JoinsAndKnowsTheRanksOfItsWorkers) {
  join([this](const std::string&) { done(); });
  const auto hellos = played_->all<Hello>();
  ASSERT_THAT(hellos, SizeIs(1));
  EXPECT_EQ(hellos[0].run_id, "r");
  EXPECT_EQ(hellos[0].role, "trainer");
  EXPECT_EQ(hellos[0].workers, 8);
  const auto joins = played_->all<Join>();
  ASSERT_THAT(joins, SizeIs(1));
  EXPECT_EQ(joins[0].bootstrap, (Bootstrap{.address = "n2", .port = 29500}));
  EXPECT_THAT(events_, ElementsAre("joined"));
  EXPECT_EQ(joined_->info.round, 4);
  EXPECT_EQ(joined_->info.rank, 1);
  EXPECT_EQ(joined_->info.restart_count, 3);
  EXPECT_EQ(joined_->info.bootstrap.address, "n1");
  EXPECT_EQ(joined_->ranks.base_global_rank, 8);
}

TEST_F(CoordinatedRoundsTest, AJoinThatTheCoordinatorRefusesHasFailed) {
  played_->on_said = [this](const FromAgent&) {
    tell_node(Refused{.why = "n2 has failed too often", .lasting = true});
  };
  join([this](const std::string& what) {
    if (what == "join failed") done();
  });
  EXPECT_EQ(failed_->why, JoinFailure::Failed);
  EXPECT_EQ(failed_->error.message, "n2 has failed too often");
}

TEST_F(CoordinatedRoundsTest, ASpareIsNotNeededWhenTheRunHasEnded) {
  played_->on_said = [this](const FromAgent&) {
    tell_node(Progress{.text = "a spare", .spare = true});
    tell_node(Over{});
  };
  join([this](const std::string&) { done(); });
  EXPECT_EQ(failed_->why, JoinFailure::NotNeeded);
}

TEST_F(CoordinatedRoundsTest, AJoinOfARunThatHasFailedSaysWhy) {
  played_->on_said = [this](const FromAgent&) {
    tell_node(core::coordinator::Stop{.why = core::coordinator::Stop::Why::RunFailed,
                                      .text = "rank 3 failed"});
  };
  join([this](const std::string&) { done(); });
  EXPECT_EQ(failed_->why, JoinFailure::RunFailed);
  EXPECT_EQ(failed_->end.kind, Order::Kind::RunFailed);
  EXPECT_EQ(failed_->end.text, "rank 3 failed");
}

TEST_F(CoordinatedRoundsTest, AJoinIsGivenUp) {
  played_->on_said = [this](const FromAgent& message) {
    if (std::holds_alternative<Join>(message)) rounds_->give_up_join();
  };
  join([this](const std::string&) { done(); });
  EXPECT_EQ(failed_->why, JoinFailure::GivenUp);
  EXPECT_THAT(played_->all<Leave>(), ElementsAre(Leave{}));
}

TEST_F(CoordinatedRoundsTest, AJoinThatHasNotBegunIsGivenUp) {
  then_ = [this](const std::string&) { done(); };
  rounds_ = std::make_unique<CoordinatedRounds>(*loop_, options_, world_, events());
  rounds_->join();
  rounds_->give_up_join();
  loop_->run();
  EXPECT_EQ(failed_->why, JoinFailure::GivenUp);
  EXPECT_THAT(played_->all<Join>(), IsEmpty());
}

// Everything that it needs was in the seal.
TEST_F(CoordinatedRoundsTest, NeedsNoConnectionAfterTheSeal) {
  std::atomic<int> opened = 0;
  world_.open_store = [&]() -> Result<std::shared_ptr<Store>> {
    ++opened;
    return fail(ErrorKind::Connection, "the endpoint is gone");
  };
  join([this](const std::string&) { done(); });
  EXPECT_THAT(events_, ElementsAre("joined"));
  EXPECT_EQ(opened, 0);
}

// Nodes without a session exchange their ranks through the store. If that is lost just then, the
// node joins again, and the coordinator has its join timeout to come back.
TEST_F(CoordinatedRoundsTest, JoinsAgainIfTheStoreOfAMixedRoundIsLostAfterTheSeal) {
  world_.open_store = []() -> Result<std::shared_ptr<Store>> {
    return fail(ErrorKind::Connection, "the endpoint is gone");
  };
  played_->on_said = [this](const FromAgent& message) {
    if (!std::holds_alternative<Join>(message)) return;
    Sealed sealed = kSealed;
    sealed.by_session = played_->all<Join>().size() > 1;
    sealed.round += static_cast<std::int64_t>(played_->all<Join>().size());
    tell_node(sealed);
  };
  join([this](const std::string&) { done(); });
  EXPECT_THAT(events_, ElementsAre("joined"));
  EXPECT_THAT(played_->all<Join>(), SizeIs(2));
}

TEST_F(CoordinatedRoundsTest, AJoinThatTakesTooLongHasFailed) {
  options_.settings.join_timeout = 1ms;
  played_->on_said = [](const FromAgent&) {};
  join([this](const std::string& what) {
    if (what == "join failed")
      loop_->post([this] { rounds_->leave(core::agent::Ending::CouldNotJoin, false); });
    if (what == "left") done();
  });
  EXPECT_EQ(failed_->why, JoinFailure::Failed);
  EXPECT_EQ(failed_->error.kind, ErrorKind::Timeout);
  EXPECT_THAT(failed_->error.message, HasSubstr("no word from the coordinator"));
  EXPECT_THAT(played_->all<Leave>(), ElementsAre(Leave{.why = "its time to join was over"}));
}

TEST_F(CoordinatedRoundsTest, WithoutAStoreForItsWorkersNothingIsJoined) {
  world_.offer = []() -> Result<BootstrapStore> { return fail(ErrorKind::Io, "no port is free"); };
  join([this](const std::string&) { done(); });
  EXPECT_EQ(failed_->why, JoinFailure::Failed);
  EXPECT_EQ(failed_->error.message, "no port is free");
  EXPECT_THAT(played_->all<Join>(), IsEmpty());
}

// A node that --node-strikes keeps out may host the coordinator of those that go on.
TEST_F(CoordinatedRoundsTest, AHostThatIsRefusedStaysUntilTheOthersHaveEnded) {
  const auto others = std::make_shared<std::atomic<std::size_t>>(1);
  world_.sessions_here = [others] { return others->load(); };
  played_->on_said = [this](const FromAgent& message) {
    if (std::holds_alternative<Join>(message)) tell_node(Refused{.why = "n2 has failed too often"});
  };
  join([&](const std::string& what) {
    if (what.starts_with("waits: ")) *others = 0;
    if (what == "join failed") done();
  });
  ASSERT_THAT(events_, SizeIs(testing::Ge(2u)));
  EXPECT_THAT(events_[events_.size() - 2],
              testing::AllOf(HasSubstr("n2 has failed too often"),
                             HasSubstr("stays until the other nodes have ended")));
  EXPECT_EQ(failed_->error.kind, ErrorKind::Refused);
}

TEST_F(CoordinatedRoundsTest, AHostThatIsRefusedCanBeStopped) {
  world_.sessions_here = [] { return std::size_t{1}; };
  played_->on_said = [this](const FromAgent& message) {
    if (std::holds_alternative<Join>(message)) tell_node(Refused{.why = "n2 has failed too often"});
  };
  join([&](const std::string& what) {
    if (what.starts_with("waits: ")) loop_->post([this] { rounds_->give_up_join(); });
    if (what == "join failed") done();
  });
  EXPECT_EQ(failed_->error.kind, ErrorKind::Refused);
}

// ---- While it runs ----

TEST_F(CoordinatedRoundsTest, AnOrderIsToldInTheTurnInWhichItComes) {
  in_round([this] {
    tell_node(core::coordinator::Stop{.round = 4, .text = "a node wants to come in"});
    EXPECT_THAT(events_, ElementsAre("ordered"));
  });
  EXPECT_EQ(order_->kind, Order::Kind::Rejoin);
  EXPECT_EQ(order_->text, "a node wants to come in");
}

TEST_F(CoordinatedRoundsTest, AFailureIsSaidBeforeTheCallReturns) {
  in_round([this] {
    rounds_->failed({.rank = 9, .exit_code = 3, .text = "rank 9 failed"});
    const auto failed = played_->all<Failed>();
    ASSERT_THAT(failed, SizeIs(1));
    EXPECT_EQ(failed[0].round, 4);
    EXPECT_EQ(failed[0].failure.rank, 9);
    EXPECT_EQ(failed[0].failure.exit_code, 3);
    EXPECT_EQ(failed[0].failure.text, "rank 9 failed");
  });
}

TEST_F(CoordinatedRoundsTest, IntroducesItselfAgainWhenALostConnectionIsBack) {
  in_round([this] {
    rounds_->failed({.rank = 9, .text = "rank 9 failed"});
    played_->options.on_lost("reset by peer");
    EXPECT_THAT(trouble_, HasSubstr("reset by peer"));
    played_->said.clear();
    played_->introduce();
    tell_node(Welcome{.member = true});
  });
  EXPECT_THAT(events_, ElementsAre("not reached", "reached"));
  ASSERT_THAT(played_->said, SizeIs(2));
  const auto& running = std::get<Hello>(played_->said[0]).running;
  ASSERT_TRUE(running);
  EXPECT_EQ(running->place.rank, 1);
  EXPECT_EQ(std::get<Failed>(played_->said[1]).failure.text, "rank 9 failed");
}

TEST_F(CoordinatedRoundsTest, HandsOnWhatIsForTheWorkers) {
  in_round([this] {
    tell_node(Warned{.signal = 10, .node = "n1"});
    tell_node(Hangs{.round = 4, .all_say_so = true});
    tell_node(Blamed{.round = 4, .blame = {.rank = 9, .summary = "rank 9 is in read()"}});
    tell_node(Hangs{.round = 3, .all_say_so = true});  // Of a round that is over.
  });
  EXPECT_THAT(events_, ElementsAre("warned by 10 on n1", "hangs", "rank 9 is in read()"));
}

TEST_F(CoordinatedRoundsTest, SaysWhatItsWorkersSay) {
  in_round([this] {
    EXPECT_TRUE(rounds_->warn(10));
    rounds_->say_stalled(core::hang::Votes{.suspects = 2});
    rounds_->say_where({{.rank = 9, .at = {"in read()", false}}});
  });
  EXPECT_THAT(played_->all<Warn>(), ElementsAre(Warn{.signal = 10}));
  EXPECT_THAT(played_->all<Stalled>(),
              ElementsAre(Stalled{.round = 4, .votes = core::hang::Votes{.suspects = 2}}));
  ASSERT_THAT(played_->all<Where>(), SizeIs(1));
  EXPECT_EQ(played_->all<Where>()[0].round, 4);
}

// ---- The end ----

TEST_F(CoordinatedRoundsTest, ChecksInAndIsToldWhenAllHaveDoneSo) {
  in_round([this] {
    rounds_->check_in(true, "");
    EXPECT_THAT(played_->all<Done>(), ElementsAre(Done{.round = 4}));
    EXPECT_THAT(events_, IsEmpty());
    tell_node(Over{});
  });
  EXPECT_THAT(events_, ElementsAre("ordered"));
  EXPECT_EQ(order_->kind, Order::Kind::Over);
}

TEST_F(CoordinatedRoundsTest, LeavesOnceTheCoordinatorHasHeardSo) {
  until_left([this] { rounds_->leave(core::agent::Ending::Failed, false); });
  EXPECT_THAT(played_->all<Leave>(), ElementsAre(Leave{}));
  ASSERT_TRUE(played_->flush_limit);
  EXPECT_LE(*played_->flush_limit, 2s) << "A coordinator that is frozen is not waited for longer.";
  EXPECT_TRUE(played_->ended);
}

TEST_F(CoordinatedRoundsTest, ClosesTheRunAndWaitsForTheWordThatItIsClosed) {
  played_->on_said = [this](const FromAgent& message) {
    if (std::holds_alternative<Join>(message)) tell_node(kSealed);
    if (!std::holds_alternative<Leave>(message)) return;
    EXPECT_FALSE(played_->flush_limit);
    tell_node(core::coordinator::Stop{.round = 4, .why = core::coordinator::Stop::Why::Closed});
  };
  until_left([this] { rounds_->leave(core::agent::Ending::Succeeded, true); });
  EXPECT_THAT(played_->all<Leave>(), ElementsAre(Leave{.close = true}));
  EXPECT_TRUE(played_->flush_limit);
}

TEST_F(CoordinatedRoundsTest, RecordsWhatItDoes) {
  std::vector<std::string> records;
  options_.parameters.on_record = [&](const RendezvousRecord& record) {
    records.push_back(record.name.substr(record.name.rfind('.') + 1) +
                      (record.rank ? " " + std::to_string(*record.rank) : ""));
  };
  played_->on_said = [this](const FromAgent& message) {
    if (std::holds_alternative<Join>(message)) tell_node(kSealed);
    if (std::holds_alternative<Leave>(message)) tell_node(Over{});
  };
  until_left([this] { rounds_->leave(core::agent::Ending::Succeeded, true); });
  EXPECT_THAT(records, ElementsAre("next_rendezvous", "next_rendezvous 1", "_close"));
}

TEST_F(CoordinatedRoundsTest, AJoinThatFailsIsRecorded) {
  std::vector<RendezvousRecord> records;
  options_.parameters.on_record = [&](const auto& record) { records.push_back(record); };
  played_->on_said = [this](const FromAgent& message) {
    if (std::holds_alternative<Join>(message)) tell_node(Refused{.why = "not you"});
  };
  join([this](const std::string& what) {
    if (what == "join failed") done();
  });
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[1].state, RendezvousRecord::NodeState::Failed);
  EXPECT_THAT(records[1].message, HasSubstr("not you"));
}

TEST_F(CoordinatedRoundsTest, LeavesAlsoIfAFrozenCoordinatorNeverSaysThatTheRunIsClosed) {
  options_.settings.close_timeout = 1ms;
  until_left([this] { rounds_->leave(core::agent::Ending::Succeeded, true); });
  EXPECT_EQ(events_.back(), "left");
}

TEST_F(CoordinatedRoundsTest, TheHostOfTheCoordinatorDoesNotStopTheOthersWhenASignalEndsIt) {
  world_.sessions_here = [] { return std::size_t{2}; };
  until_left([this] { rounds_->leave(core::agent::Ending::Signalled, false); });
  EXPECT_THAT(played_->all<Leave>(), IsEmpty());
}

TEST_F(CoordinatedRoundsTest, TheHostOfTheCoordinatorStaysUntilTheOthersHaveHeardThatItIsOver) {
  auto others = std::make_shared<std::atomic<std::size_t>>(2);
  world_.sessions_here = [others] {
    const std::size_t left = *others;
    if (left > 0) --*others;
    return left;
  };
  until_left([this] {
    tell_node(Over{});
    rounds_->leave(core::agent::Ending::Failed, false);
  });
  EXPECT_EQ(*others, 0u);
}

}  // namespace
}  // namespace regroup::runtime
