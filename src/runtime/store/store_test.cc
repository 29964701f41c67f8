// What every store promises, asked of each of them; then what each promises by itself.
#include "regroup/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace regroup {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

enum class Kind { Memory, File, Tcp, Prefix };

class StoreTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    switch (GetParam()) {
      case Kind::Memory:
        store = make_memory_store(30s);
        break;
      case Kind::Prefix:
        store = make_prefix_store("outer", make_prefix_store("inner", make_memory_store(30s)));
        break;
      case Kind::File:
        path = testing::TempDir() + "regroup_store_test_" + std::to_string(::getpid());
        std::filesystem::remove(path);
        store = *open_file_store({.path = path, .timeout = 30s});
        break;
      case Kind::Tcp: {
        auto started = StoreServer::start({});
        ASSERT_TRUE(started) << started.error().message;
        server = std::move(*started);
        auto connected =
            connect_tcp_store({.host = "127.0.0.1", .port = server->port(), .timeout = 30s});
        ASSERT_TRUE(connected) << connected.error().message;
        store = *connected;
        break;
      }
    }
  }
  void TearDown() override {
    store.reset();
    if (!path.empty()) std::filesystem::remove(path);
  }

  std::string path;
  std::unique_ptr<StoreServer> server;
  std::shared_ptr<Store> store;
};

std::string name_of(const testing::TestParamInfo<Kind>& kind) {
  switch (kind.param) {
    case Kind::Memory:
      return "Memory";
    case Kind::File:
      return "File";
    case Kind::Tcp:
      return "Tcp";
    case Kind::Prefix:
      return "Prefix";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Every, StoreTest,
                         testing::Values(Kind::Memory, Kind::File, Kind::Tcp, Kind::Prefix),
                         name_of);

TEST_P(StoreTest, GivesBackWhatWasSet) {
  const std::string binary("\0\xff\n", 3);
  EXPECT_TRUE(store->set("k", binary));
  EXPECT_EQ(store->get("k"), binary);
  EXPECT_TRUE(store->set("", ""));
  EXPECT_EQ(store->get(""), "");
}

TEST_P(StoreTest, CountsComparesAppendsAndDeletes) {
  EXPECT_EQ(store->add("n", 40), 40);
  EXPECT_EQ(store->add("n", 2), 42);
  EXPECT_EQ(store->get("n"), "42");
  EXPECT_EQ(store->compare_set("c", "x", "y"), "x");
  EXPECT_EQ(store->compare_set("c", "", "a"), "a");
  EXPECT_EQ(store->compare_set("c", "x", "y"), "a");
  EXPECT_EQ(store->compare_set("c", "a", "b"), "b");
  EXPECT_TRUE(store->append("c", "c"));
  EXPECT_EQ(store->get("c"), "bc");
  EXPECT_EQ(store->check({"n", "c"}), true);
  EXPECT_EQ(store->delete_key("c"), true);
  EXPECT_EQ(store->delete_key("c"), false);
  EXPECT_EQ(store->check({"n", "c"}), false);
}

TEST_P(StoreTest, HandlesManyKeysAtOnce) {
  EXPECT_TRUE(store->multi_set({{"a", "1"}, {"b", "22"}}));
  EXPECT_THAT(*store->multi_get({"b", "a"}), ElementsAre("22", "1"));
  EXPECT_THAT(*store->list_keys(), UnorderedElementsAre("a", "b"));
  EXPECT_GE(*store->num_keys(), 2);
  EXPECT_THAT(*store->multi_get({}), ElementsAre());
}

TEST_P(StoreTest, WaitsForAnotherHandleToSet) {
  auto other = store->clone();
  ASSERT_TRUE(other);
  std::thread setter([&] { EXPECT_TRUE((*other)->set("late", "v")); });
  EXPECT_EQ(store->get("late"), "v");
  setter.join();
}

TEST_P(StoreTest, GivesUpWaitingAndIsGoodAfterwards) {
  EXPECT_EQ(store->wait({"never"}, 1ms).error().kind, ErrorKind::Timeout);
  store->set_timeout(2ms);
  EXPECT_EQ(store->timeout(), 2ms);
  const auto missing = store->get("never");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::Timeout);
  EXPECT_THAT(missing.error().message, HasSubstr("never"));
  store->set_timeout(30s);
  EXPECT_TRUE(store->set("k", "v"));
  EXPECT_EQ(store->get("k"), "v");
}

TEST_P(StoreTest, MeetsAtABarrier) {
  auto other = store->clone();
  ASSERT_TRUE(other);
  std::thread second([&] { EXPECT_TRUE((*other)->barrier("b", 2)); });
  EXPECT_TRUE(store->barrier("b", 2));
  second.join();
  EXPECT_EQ(store->barrier("alone", 2, 1ms).error().kind, ErrorKind::Timeout);
}

TEST_P(StoreTest, QueuesHandOverOneAtATime) {
  if (GetParam() == Kind::File) {
    EXPECT_EQ(store->queue_push("q", "a").error().kind, ErrorKind::Unsupported);
    EXPECT_EQ(store->queue_pop("q").error().kind, ErrorKind::Unsupported);
    EXPECT_EQ(store->try_queue_pop("q").error().kind, ErrorKind::Unsupported);
    EXPECT_EQ(store->queue_len("q").error().kind, ErrorKind::Unsupported);
    return;
  }
  EXPECT_EQ(*store->try_queue_pop("q"), std::nullopt);
  EXPECT_TRUE(store->queue_push("q", "a"));
  EXPECT_TRUE(store->queue_push("q", ""));
  EXPECT_EQ(store->queue_len("q"), 2);
  EXPECT_EQ(store->queue_pop("q"), "a");
  EXPECT_EQ(*store->try_queue_pop("q"), "");
  auto other = store->clone();
  std::thread pusher([&] { EXPECT_TRUE((*other)->queue_push("q", "later")); });
  EXPECT_EQ(store->queue_pop("q"), "later");
  pusher.join();
  store->set_timeout(1ms);
  EXPECT_EQ(store->queue_pop("q").error().kind, ErrorKind::Timeout);
}

TEST_P(StoreTest, LosesNoIncrementAmongManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      auto mine = store->clone();
      ASSERT_TRUE(mine) << mine.error().message;
      for (int n = 0; n < kEach; ++n) EXPECT_TRUE((*mine)->add("n", 1));
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(store->get("n"), std::to_string(kThreads * kEach));
}

TEST(TcpStore, PassesLargeValues) {
  auto server = StoreServer::start({});
  auto store = connect_tcp_store({.host = "127.0.0.1", .port = (*server)->port()});
  const std::string large(8u << 20, 'x');
  EXPECT_TRUE((*store)->set("a", large));
  EXPECT_TRUE((*store)->set("b", large));
  EXPECT_EQ((*store)->get("a"), large);
  const auto both = (*store)->multi_get({"a", "b", "a"});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->at(2), large);
}

TEST(TcpStore, SaysWhatHappenedWhenTheServerHangsUp) {
  auto server = StoreServer::start({});
  auto store = connect_tcp_store({.host = "127.0.0.1", .port = (*server)->port()});
  EXPECT_TRUE((*store)->set("text", "abc"));
  const auto added = (*store)->add("text", 1);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().kind, ErrorKind::Connection);
  EXPECT_THAT(added.error().message, HasSubstr("add 'text' at 127.0.0.1:"));
  EXPECT_THAT((*store)->set("k", "v").error().message, HasSubstr("lost earlier"));
  auto again = (*store)->clone();
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)->get("text"), "abc");
}

TEST(TcpStore, TakesWhatComesAtTheLastMomentAndStaysGood) {
  auto server = StoreServer::start({});
  auto store = connect_tcp_store({.host = "127.0.0.1", .port = (*server)->port()});
  EXPECT_TRUE((*store)->queue_push("q", "element"));
  (*store)->set_timeout(Duration{});  // Over before it begins; but the element is there.
  const auto popped = (*store)->queue_pop("q");
  (*store)->set_timeout(30s);
  if (popped)
    EXPECT_EQ((*store)->queue_len("q"), 0);
  else
    EXPECT_EQ((*store)->queue_len("q"), 1);  // Not lost, whatever the clock said.
}

TEST(TcpStore, CanBeClonedWhileItWaits) {
  auto server = StoreServer::start({});
  auto store = *connect_tcp_store({.host = "127.0.0.1", .port = (*server)->port()});
  std::thread waiter([&] { EXPECT_EQ(store->get("k"), "v"); });
  store->set_timeout(20s);
  EXPECT_EQ(store->timeout(), 20s);
  EXPECT_TRUE((*store->clone())->set("k", "v"));  // Else the waiter would wait for ever.
  waiter.join();
}

TEST(TcpStore, SaysWhereItLookedForAServer) {
  std::uint16_t port = 0;
  {
    auto server = StoreServer::start({});
    port = (*server)->port();
  }
  const auto nobody = connect_tcp_store({.host = "127.0.0.1", .port = port, .timeout = 50ms});
  ASSERT_FALSE(nobody);
  EXPECT_THAT(nobody.error().message, HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(nobody.error().message, HasSubstr("refused"));
  EXPECT_EQ(connect_tcp_store({.host = ""}).error().kind, ErrorKind::InvalidArgument);
}

TEST(TcpStore, WaitsForAServerThatComesLate) {
  std::uint16_t port = 0;
  {
    auto server = StoreServer::start({});
    port = (*server)->port();
  }
  std::unique_ptr<StoreServer> late;
  std::thread starter([&] { late = std::move(*StoreServer::start({.port = port})); });
  const auto store = connect_tcp_store({.host = "127.0.0.1", .port = port, .timeout = 30s});
  starter.join();
  EXPECT_TRUE(store) << store.error().message;
}

TEST(TcpStore, CountsWorkersAsPyTorchDoes) {
  auto server = StoreServer::start({});
  const TcpStoreOptions worker{.host = "127.0.0.1", .port = (*server)->port(), .world_size = 2};
  TcpStoreOptions impatient = worker;
  impatient.wait_for_workers = true;
  impatient.timeout = 20ms;
  const auto alone = connect_tcp_store(impatient);
  ASSERT_FALSE(alone);
  EXPECT_THAT(alone.error().message, HasSubstr("1 of 2 workers"));
  impatient.timeout = 30s;
  EXPECT_TRUE(connect_tcp_store(impatient));
}

TEST(PrefixStore, PutsTheInnerPrefixFirst) {
  auto memory = make_memory_store();
  auto outer = make_prefix_store("outer", make_prefix_store("inner", memory));
  EXPECT_TRUE(outer->set("k", "v"));
  EXPECT_TRUE(memory->set("elsewhere", "v"));
  EXPECT_THAT(*memory->list_keys(), UnorderedElementsAre("inner/outer/k", "elsewhere"));
  EXPECT_THAT(*outer->list_keys(), ElementsAre("k"));
  EXPECT_EQ(outer->num_keys(), 2);
}

class FileStoreTest : public testing::Test {
 protected:
  ~FileStoreTest() override { std::filesystem::remove(path); }
  std::string path = testing::TempDir() + "regroup_file_store_" + std::to_string(::getpid());
};

TEST_F(FileStoreTest, RemovesTheFileWhenTheLastHasGone) {
  auto first = *open_file_store({.path = path, .world_size = 2});
  auto second = *open_file_store({.path = path, .world_size = 2});
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
  second.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(FileStoreTest, LivesOnAfterAWriterDiedInTheMiddle) {
  auto store = *open_file_store({.path = path});
  EXPECT_TRUE(store->set("a", "1"));
  std::ofstream(path, std::ios::app | std::ios::binary) << std::string("\5\0\0\0/to", 7);
  EXPECT_EQ(store->get("a"), "1");
  EXPECT_TRUE(store->set("b", "2"));  // Cuts the torn record off.
  auto fresh = *open_file_store({.path = path});
  EXPECT_THAT(*fresh->multi_get({"a", "b"}), ElementsAre("1", "2"));
}

TEST_F(FileStoreTest, NoticesThatAnotherRunHasBegunInAFileOfTheSameName) {
  auto old = *open_file_store({.path = path});
  EXPECT_TRUE(old->set("a", "of the old run"));
  std::filesystem::remove(path);
  auto fresh = *open_file_store({.path = path});
  EXPECT_TRUE(fresh->set("first", std::string(500, 'x')));
  EXPECT_TRUE(old->set("b", "1"));
  old.reset();
  EXPECT_EQ(fresh->get("first"), std::string(500, 'x'));
  EXPECT_EQ(fresh->get("b"), "1");
  EXPECT_EQ(fresh->check({"a"}), false);
}

TEST_F(FileStoreTest, SaysWhichFileItCannotUse) {
  const auto store = open_file_store({.path = "/no/such/folder/store"});
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message, HasSubstr("/no/such/folder/store"));
}

TEST(StoreServer, ForgetsEverythingAndServesOnWhenCleared) {
  auto server = std::move(*StoreServer::start({}));
  const TcpStoreOptions where{.host = "127.0.0.1", .port = server->port()};
  auto old = *connect_tcp_store(where);
  EXPECT_TRUE(old->set("k", "of the old round"));
  EXPECT_TRUE(old->queue_push("q", "element"));
  EXPECT_EQ(old->num_keys(), 1);
  std::thread waiter([waiting = *old->clone()] {
    EXPECT_EQ(waiting->get("never").error().kind, ErrorKind::Connection);
  });
  server->clear();
  waiter.join();
  EXPECT_EQ(old->num_keys().error().kind, ErrorKind::Connection);
  EXPECT_EQ(server->port(), where.port);
  auto fresh = *connect_tcp_store(where);
  EXPECT_EQ(fresh->num_keys(), 0);
  EXPECT_EQ(fresh->queue_len("q"), 0);
  EXPECT_TRUE(fresh->set("k", "of the new round"));
  EXPECT_EQ((*fresh->clone())->get("k"), "of the new round");
}

TEST(StoreServer, CanBeClearedWhileClientsComeAndWrite) {
  auto server = std::move(*StoreServer::start({}));
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] {
      for (int n = 0; n < 20; ++n) {
        auto store = connect_tcp_store({.host = "127.0.0.1", .port = server->port()});
        if (store) (*store)->add("n", 1);  // Or it is turned away, now or then.
      }
    });
  for (int n = 0; n < 20; ++n) server->clear();
  for (auto& client : clients) client.join();
  server->clear();
  auto store = *connect_tcp_store({.host = "127.0.0.1", .port = server->port()});
  EXPECT_EQ(store->num_keys(), 0);
}

TEST(StoreServer, SaysWhyItCannotStart) {
  auto server = StoreServer::start({});
  const auto second = StoreServer::start({.port = (*server)->port()});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("the port is taken"));
}

}  // namespace
}  // namespace regroup
