#include "regroup/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <sstream>
#include <utility>

#include "io/loop/eventually_testing.h"
#include "io/net/reserved_port.h"
#include "regroup/rendezvous_backend.h"
#include "runtime/rendezvous/rendezvous_testing.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_state.h"

namespace regroup {
namespace {

using core::rendezvous::State;
using testing::HasSubstr;

Handler over(const std::shared_ptr<Store>& store, RendezvousParameters parameters,
             const std::string& name) {
  parameters.local_addr = name;
  auto backend = make_store_backend(*store->clone(), parameters.run_id);
  EXPECT_TRUE(backend);
  auto handler = make_dynamic_rendezvous(
      parameters, std::move(*backend), [store] { return store->clone(); }, name);
  EXPECT_TRUE(handler);
  return std::move(*handler);
}

// Waits until the shared state is as it should be.
void await_state(Store& store, const std::function<bool(const State&)>& is_so) {
  EXPECT_TRUE(io::eventually([&] {
    const auto bytes = wire::decode_base64(store.get("torch.rendezvous.run").value());
    const auto state = wire::decode_state(bytes.value());
    return state && is_so(*state);
  }));
}

TEST(DynamicRendezvous, AllSeeTheSameWorld) {
  const auto store = make_memory_store(30s);
  std::vector<Handler> handlers;
  std::vector<RendezvousHandler*> nodes;
  for (int i = 0; i < 12; ++i) {
    handlers.push_back(over(store, between(12, 12), "n" + std::to_string(i)));
    nodes.push_back(handlers.back().get());
  }
  for (std::int64_t round = 0; round < 3; ++round) {
    const auto joined = all_join(nodes);
    for (std::size_t i = 0; i < joined.size(); ++i) {
      ASSERT_TRUE(joined[i]) << joined[i].error().message;
      EXPECT_EQ(joined[i]->rank, static_cast<std::int64_t>(i));  // n2 before n10.
      EXPECT_EQ(joined[i]->world_size, 12);
      EXPECT_EQ(joined[i]->round, round);
      EXPECT_EQ(joined[i]->nodes, joined[0]->nodes);
      EXPECT_EQ(joined[i]->bootstrap, joined[0]->bootstrap);
    }
  }
}

TEST(DynamicRendezvous, RoundsShareNoKeysAndTheWorkersStoreStartsEmptyOnTheSamePort) {
  const auto store = make_memory_store(30s);
  auto only = over(store, between(1, 1), "127.0.0.1");
  auto first = only->next_rendezvous();
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->store->set("key", "old"));
  const auto workers = [](const RendezvousInfo& info) {
    return connect_tcp_store(
        {.host = info.bootstrap.address, .port = info.bootstrap.port, .timeout = 10s});
  };
  auto old_worker = workers(*first);
  ASSERT_TRUE(old_worker);
  ASSERT_TRUE((*old_worker)->set("default_pg", "stale"));
  ASSERT_TRUE((*old_worker)->num_keys());

  auto second = only->next_rendezvous();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->round, 1);
  EXPECT_EQ(second->bootstrap, first->bootstrap);
  EXPECT_EQ(second->store->check({"key"}), false);
  auto new_worker = workers(*second);
  ASSERT_TRUE(new_worker);
  EXPECT_EQ((*new_worker)->check({"default_pg"}), false);
}

TEST(DynamicRendezvous, SaysItsSettings) {
  RendezvousParameters parameters = between(1, 2);
  parameters.config["keep_alive_interval"] = "2_0";
  const auto settings = over(make_memory_store(30s), parameters, "a")->settings();
  EXPECT_EQ(settings, (RendezvousSettings{.run_id = "run",
                                          .min_nodes = 1,
                                          .max_nodes = 2,
                                          .join_timeout = 600s,
                                          .last_call_timeout = 1s,
                                          .close_timeout = 30s,
                                          .heartbeat_timeout = 5s,
                                          .keep_alive_interval = 20s,
                                          .keep_alive_max_attempt = 3}));
}

TEST(DynamicRendezvous, RecordsItsStepsAsTorchrunDoes) {
  RendezvousParameters parameters = between(1, 1);
  std::vector<RendezvousRecord> records;
  parameters.on_record = [&](const RendezvousRecord& record) { records.push_back(record); };
  const auto store = make_memory_store(30s);
  auto only = over(store, parameters, "127.0.0.1");
  ASSERT_TRUE(only->next_rendezvous());
  ASSERT_TRUE(only->shutdown());
  ASSERT_FALSE(only->next_rendezvous());
  std::vector<std::string> names;
  for (const RendezvousRecord& record : records) {
    EXPECT_EQ(record.run_id, "run");
    EXPECT_EQ(record.host, "127.0.0.1");
    EXPECT_EQ(record.pid, ::getpid());
    EXPECT_TRUE(record.local_id);
    names.push_back(record.name.substr(record.name.rfind('.') + 1));
  }
  EXPECT_THAT(names,
              testing::ElementsAre("next_rendezvous", "_add_to_participants", "_keep_alive",
                                   "_mark_rendezvous_complete", "run", "next_rendezvous",
                                   "_mark_rendezvous_closed", "run", "_close", "next_rendezvous",
                                   "_remove_from_participants", "run", "next_rendezvous"));
  EXPECT_THAT(records[5].message, HasSubstr("has joined round 0 of the rendezvous 'run' as rank 0 "
                                            "in a world of size 1."));
  EXPECT_EQ(records[5].rank, 0);
  EXPECT_EQ(records[8].state, RendezvousRecord::NodeState::Succeeded);
  EXPECT_EQ(records.back().state, RendezvousRecord::NodeState::Failed);
  EXPECT_THAT(records.back().message, testing::StartsWith("RendezvousClosedError: "));
}

TEST(DynamicRendezvous, TheLastCallGathersWhoComesInTime) {
  const auto store = make_memory_store(30s);
  auto a = over(store, between(1, 3), "a");
  auto b = over(store, between(1, 3), "b");
  const auto joined = all_join({a.get(), b.get()});
  ASSERT_TRUE(joined[0] && joined[1]);
  EXPECT_EQ(joined[0]->world_size, 2);
  EXPECT_EQ(joined[1]->rank, 1);
}

TEST(DynamicRendezvous, ANewcomerIsSeenAndGetsIn) {
  const auto store = make_memory_store(30s);
  auto a = over(store, between(1, 2), "a");
  ASSERT_TRUE(a->next_rendezvous());
  auto b = over(store, between(1, 2), "b");
  auto joining = std::async(std::launch::async, [&] { return b->next_rendezvous(); });
  EXPECT_TRUE(io::eventually([&] { return a->num_nodes_waiting().value() > 0; }));
  EXPECT_TRUE(a->status()->must_rejoin());
  auto again = a->next_rendezvous();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->world_size, 2);
  EXPECT_EQ(joining.get()->rank, 1);
}

// It was once waited for until read_timeout, without a word, and then the join failed.
TEST(DynamicRendezvous, ARank0ThatIsGoneRightAfterTheSealIsNotWaitedFor) {
  const auto store = make_memory_store(30s);
  auto b = over(store, between(1, 2), "b");
  // Rank 0 is sealed in, and gone before it has said where the workers' store is.
  RendezvousParameters parameters = between(1, 2);
  parameters.local_addr = "a";
  auto a = make_dynamic_rendezvous(
      parameters, std::move(*make_store_backend(*store->clone(), "run")),
      []() -> Result<std::shared_ptr<Store>> { return fail(ErrorKind::Io, "gone"); }, "a");
  ASSERT_TRUE(a);
  auto joining = std::async(std::launch::async, [&] { return b->next_rendezvous(); });
  EXPECT_EQ((*a)->next_rendezvous().error().kind, ErrorKind::Io);
  ASSERT_TRUE((*a)->leave());
  const auto joined = joining.get();
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_EQ(joined->world_size, 1);
}

TEST(DynamicRendezvous, WhoLeavesIsMissedAtOnce) {
  const auto store = make_memory_store(30s);
  auto a = over(store, between(2, 2), "a");
  auto b = over(store, between(2, 2), "b");
  for (const auto& one : all_join({a.get(), b.get()})) ASSERT_TRUE(one);
  EXPECT_FALSE(a->status()->must_rejoin());
  ASSERT_TRUE(b->leave());
  EXPECT_TRUE(io::eventually([&] { return !a->status()->whole; }));
  EXPECT_TRUE(a->status()->member);
  EXPECT_FALSE(b->status()->member);
}

TEST(DynamicRendezvous, ASpareTakesOver) {
  const auto store = make_memory_store(30s);
  auto a = over(store, between(1, 1), "a");
  ASSERT_TRUE(a->next_rendezvous());
  auto spare = over(store, between(1, 1), "s");
  auto waiting = std::async(std::launch::async, [&] { return spare->next_rendezvous(); });
  await_state(*store, [](const State& state) { return !state.redundancy_list.empty(); });
  EXPECT_EQ(a->num_nodes_waiting(), 0);  // A spare disturbs nobody.
  ASSERT_TRUE(a->leave());
  const auto joined = waiting.get();
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_EQ(joined->round, 1);
}

TEST(DynamicRendezvous, CloseEndsItForEverybody) {
  const auto store = make_memory_store(30s);
  auto a = over(store, between(1, 1), "a");
  ASSERT_TRUE(a->next_rendezvous());
  auto spare = over(store, between(1, 1), "s");
  auto waiting = std::async(std::launch::async, [&] { return spare->next_rendezvous(); });
  await_state(*store, [](const State& state) { return !state.redundancy_list.empty(); });
  EXPECT_EQ(a->is_closed(), false);
  ASSERT_TRUE(a->set_closed());
  ASSERT_TRUE(a->set_closed());
  EXPECT_EQ(a->is_closed(), true);
  EXPECT_EQ(waiting.get().error().kind, ErrorKind::NotNeeded);
  auto late = over(store, between(1, 1), "l");
  EXPECT_EQ(late->next_rendezvous().error().kind, ErrorKind::Closed);
  EXPECT_TRUE(a->shutdown());
}

TEST(DynamicRendezvous, TimesOutWithWhatWasMissing) {
  RendezvousParameters parameters = between(2, 2);
  parameters.config["join_timeout"] = "1";
  parameters.expected_nodes = {"a", "b"};
  auto a = over(make_memory_store(30s), parameters, "a");
  const auto joined = a->next_rendezvous();
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().kind, ErrorKind::Timeout);
  EXPECT_THAT(joined.error().message, HasSubstr("did not meet within 1 s (join_timeout)"));
  EXPECT_THAT(joined.error().message, HasSubstr("1 of 2 nodes joined; missing: b"));
}

TEST(DynamicRendezvous, AnErrorOfTheBackendLosesNobody) {
  // One swap fails, as on a full disk; what others have written must survive the next try.
  class FullOnce final : public RendezvousBackend {
   public:
    explicit FullOnce(std::unique_ptr<RendezvousBackend> inner) : inner_(std::move(inner)) {}
    std::string name() const override { return "full once"; }
    Result<std::optional<Present>> get_state() override { return inner_->get_state(); }
    Result<SetAnswer> set_state(std::string_view bytes,
                                const std::optional<std::string>& token) override {
      if (!std::exchange(failed_, true)) return fail(ErrorKind::Io, "no space left on device");
      return inner_->set_state(bytes, token);
    }

   private:
    std::unique_ptr<RendezvousBackend> inner_;
    bool failed_ = false;
  };
  const auto store = make_memory_store(30s);
  auto a = over(store, between(1, 2), "a");
  auto joining = std::async(std::launch::async, [&] { return a->next_rendezvous(); });
  await_state(*store, [](const State& state) { return state.participants.size() == 1; });
  auto b = make_dynamic_rendezvous(
      between(1, 2),
      std::make_unique<FullOnce>(std::move(*make_store_backend(*store->clone(), "run"))),
      [store] { return store->clone(); }, "b");
  EXPECT_EQ((*b)->next_rendezvous().error().kind, ErrorKind::Io);
  const auto joined = (*b)->next_rendezvous();
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_EQ(joined->world_size, 2);
  EXPECT_TRUE(joining.get());
}

TEST(DynamicRendezvous, CanBeInterrupted) {
  RendezvousParameters parameters = between(2, 2);
  const auto interrupted = std::make_shared<std::atomic<bool>>(false);
  parameters.interrupted = interrupted;
  const auto store = make_memory_store(30s);
  auto a = over(store, parameters, "a");
  auto joining = std::async(std::launch::async, [&] { return a->next_rendezvous(); });
  await_state(*store, [](const State& state) { return !state.participants.empty(); });
  *interrupted = true;
  EXPECT_EQ(joining.get().error().kind, ErrorKind::Cancelled);
  EXPECT_TRUE(a->leave());
  await_state(*store, [](const State& state) { return state.participants.empty(); });
}

TEST(DynamicRendezvous, SaysWhatItWaitsFor) {
  RendezvousParameters parameters = between(2, 4);
  parameters.config["join_timeout"] = "3";
  std::mutex mutex;
  std::vector<std::string> lines;
  parameters.on_status = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  std::vector<RendezvousWait> waits;
  parameters.on_wait = [&](const RendezvousWait& wait) { waits.push_back(wait); };
  auto a = over(make_memory_store(30s), parameters, "a");
  EXPECT_FALSE(a->next_rendezvous());
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.front(), HasSubstr("round 0: 1 of 2..4 nodes joined; gives up in "));
  ASSERT_FALSE(waits.empty());
  EXPECT_EQ(waits.front().text, "waiting for nodes: 1 of 2..4 here");
  ASSERT_TRUE(waits.front().left);
  EXPECT_LE(*waits.front().left, 3s);
}

TEST(DynamicRendezvous, CorruptStateIsAnErrorAndStaysAsItIs) {
  const auto store = make_memory_store(5s);
  const std::string hostile = wire::encode_base64("cos\nsystem\n(S'true'\ntR.");
  for (const std::string& text : {std::string("no base64!"), hostile}) {
    ASSERT_TRUE(store->set("torch.rendezvous.run", text));
    auto a = over(store, between(1, 1), "a");
    EXPECT_EQ(a->next_rendezvous().error().kind, ErrorKind::Corrupt);
    EXPECT_EQ(a->set_closed().error().kind, ErrorKind::Corrupt);
    EXPECT_EQ(store->get("torch.rendezvous.run"), text);
  }
}

TEST(DynamicRendezvous, AFileThatIsNoStoreIsLeftAlone) {
  const std::string path = testing::TempDir() + "train.py." + std::to_string(::getpid());
  { std::ofstream(path) << "import torch\nprint(torch.__version__)\n"; }
  RendezvousParameters parameters = between(1, 1);
  parameters.endpoint = path;
  parameters.config["store_type"] = "file";
  EXPECT_EQ(make_rendezvous(parameters).error().kind, ErrorKind::Corrupt);
  std::stringstream left;
  left << std::ifstream(path).rdbuf();
  EXPECT_EQ(left.str(), "import torch\nprint(torch.__version__)\n");
  std::remove(path.c_str());
}

TEST(DynamicRendezvous, OverAFile) {
  const std::string path = testing::TempDir() + "rendezvous." + std::to_string(::getpid());
  RendezvousParameters parameters = between(2, 2);
  parameters.endpoint = path;
  parameters.config["store_type"] = "FILE";
  parameters.local_addr = "127.0.0.1";
  auto a = make_rendezvous(parameters);
  auto b = make_rendezvous(parameters);
  ASSERT_TRUE(a && b);
  const auto joined = all_join({a->get(), b->get()});
  ASSERT_TRUE(joined[0] && joined[1]);
  EXPECT_EQ(joined[0]->rank + joined[1]->rank, 1);
  std::remove(path.c_str());
}

TEST(C10dRendezvous, OneHostsAndTheOthersFindIt) {
  const auto reserved = io::ReservedPort::open();
  ASSERT_TRUE(reserved);
  RendezvousParameters parameters = between(3, 3);
  parameters.endpoint = "127.0.0.1:" + std::to_string(reserved->port());
  // They are on one machine: whoever is first binds the port, the others become its clients.
  std::vector<Handler> handlers;
  std::vector<RendezvousHandler*> nodes;
  for (int i = 0; i < 3; ++i) {
    auto handler = make_rendezvous(parameters);
    ASSERT_TRUE(handler) << handler.error().message;
    handlers.push_back(std::move(*handler));
    nodes.push_back(handlers.back().get());
  }
  for (const auto& one : all_join(nodes)) {
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_EQ(one->bootstrap.address, "127.0.0.1");
  }
}

TEST(C10dRendezvous, AStoreThatCameBackEmptyIsMetAtAgain) {
  auto server = StoreServer::start({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(server);
  RendezvousParameters parameters = between(1, 1);
  parameters.endpoint = "127.0.0.1:" + std::to_string((*server)->port());
  auto a = make_rendezvous(parameters);
  ASSERT_TRUE(a);
  ASSERT_TRUE((*a)->next_rendezvous());
  (*server)->clear();  // As if it had been started again: no keys, no connections.
  // The state is remembered for a second.
  EXPECT_TRUE(io::eventually([&] {
    const auto status = (*a)->status();
    EXPECT_TRUE(status) << status.error().message;
    return !status || !status->member;
  }));
  const auto again = (*a)->next_rendezvous();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->world_size, 1);
  EXPECT_EQ(again->round, 0);
}

}  // namespace
}  // namespace regroup
