#include "runtime/rendezvous/rendezvous_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "io/loop/clock.h"
#include "io/net/client_socket.h"
#include "io/net/connection.h"
#include "io/net/interfaces.h"
#include "io/net/listener.h"
#include "io/net/reserved_port.h"

namespace regroup::runtime {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A port that nobody listens on, and that nobody gets by chance.
class RendezvousStoreTest : public testing::Test {
 protected:
  RendezvousStoreOptions at(const std::string& host) const {
    return {.endpoint = {host, reserved.port()}, .connect_timeout = 60s};
  }
  std::string where(const std::string& host) const {
    return host + ":" + std::to_string(reserved.port());
  }
  bool somebody_listens(const std::string& host) const {
    const auto address = io::literal_address(host, reserved.port());
    return io::ClientSocket::connect(*address, io::deadline_after(30s)).has_value();
  }

  const io::ReservedPort reserved = std::move(*io::ReservedPort::open());
};

// Takes connections and answers each with the same words; with none, never.
class Stranger {
 public:
  Stranger(std::uint16_t port, std::string words) : words_(std::move(words)) {
    listener_ = std::move(*io::Listener::open(*loop_, "127.0.0.1", port));
    listener_->start(
        [this](std::shared_ptr<io::Connection> connection) {
          connection->start(owner_);
          connection->output().append(words_);
          connection->flush();
          connections_.push_back(std::move(connection));
        },
        [](const std::string&) {});
    thread_ = std::thread([this] { loop_->run(); });
  }
  ~Stranger() {
    loop_->stop();
    thread_.join();
    for (const auto& connection : connections_) connection->close();
  }

 private:
  class Deaf final : public io::ConnectionOwner {
    void bytes_came() override {}
    void output_drained() override {}
    void closed(const std::string&) override {}
  };

  const std::string words_;
  Deaf owner_;
  std::unique_ptr<io::Loop> loop_ = std::move(*io::Loop::open());
  std::unique_ptr<io::Listener> listener_;
  std::vector<std::shared_ptr<io::Connection>> connections_;
  std::thread thread_;
};

TEST(RendezvousStore, OfOneMachineHostsItselfOnAnyFreePort) {
  auto met = open_rendezvous_store({.endpoint = {"localhost", 0}, .read_timeout = 7s});
  ASSERT_TRUE(met) << met.error().message;
  ASSERT_NE(met->server, nullptr);
  EXPECT_NE(met->reached.port, 0);
  EXPECT_EQ(met->reached, (Endpoint{"localhost", met->server->port()}));
  EXPECT_THAT(met->announced, AnyOf("127.0.0.1", "::1"));
  EXPECT_EQ(met->store->timeout(), 7s);
  EXPECT_TRUE(met->store->set("k", "v"));
  EXPECT_EQ((*met->store->clone())->get("k"), "v");
}

TEST_F(RendezvousStoreTest, HasOneHostHoweverManyNodesOfAMachineStartAtOnce) {
  for (const char* host : {"localhost", "127.0.0.1"}) {
    constexpr std::size_t kNodes = 8;
    std::vector<Result<RendezvousStore>> met(kNodes);
    std::vector<std::thread> nodes;
    nodes.reserve(kNodes);
    for (auto& mine : met)
      nodes.emplace_back([&] {
        mine = open_rendezvous_store(at(host));
        ASSERT_TRUE(mine) << mine.error().message;
        EXPECT_TRUE(mine->store->add("nodes", 1));
      });
    for (auto& node : nodes) node.join();
    std::size_t hosts = 0;
    for (auto& one : met) {
      ASSERT_TRUE(one) << one.error().message;
      EXPECT_EQ(one->reached, at(host).endpoint);
      EXPECT_EQ(one->store->get("nodes"), std::to_string(kNodes));
      if (one->server != nullptr) ++hosts;
    }
    EXPECT_EQ(hosts, 1u);
  }
}

TEST_F(RendezvousStoreTest, IsBoundOnTheAddressOfTheEndpointAndNoOther) {
  const auto met = open_rendezvous_store(at("127.0.0.2"));
  ASSERT_TRUE(met) << met.error().message;
  ASSERT_NE(met->server, nullptr);
  EXPECT_TRUE(somebody_listens("127.0.0.2"));
  EXPECT_FALSE(somebody_listens("127.0.0.1"));
  EXPECT_EQ(met->announced, "127.0.0.2");
}

TEST_F(RendezvousStoreTest, OfAMachinesOwnNameIsBoundOnAllInterfaces) {
  const auto met = open_rendezvous_store(at(io::host_name()));
  ASSERT_TRUE(met) << met.error().message;
  ASSERT_NE(met->server, nullptr);
  EXPECT_TRUE(somebody_listens("127.0.0.1"));
  EXPECT_TRUE(somebody_listens("127.0.0.2"));
  EXPECT_EQ(met->reached, at(io::host_name()).endpoint);
  // Never loopback, whatever the name means on this machine.
  const auto announced = io::literal_address(met->announced);
  if (announced)
    EXPECT_FALSE(io::is_loopback(*announced));
  else
    EXPECT_EQ(met->announced, io::host_name());
}

TEST_F(RendezvousStoreTest, IsHostedOnEveryAddressOfThisMachine) {
  const auto local = io::local_addresses();
  ASSERT_TRUE(local) << local.error().message;
  for (const io::Address& address : *local) {
    if (io::is_link_local(address)) continue;  // May still be looking for duplicates of itself.
    const auto met = open_rendezvous_store(at(io::host_text(address)));
    ASSERT_TRUE(met) << met.error().message;
    EXPECT_NE(met->server, nullptr);
    EXPECT_EQ(met->announced, io::host_text(address));
  }
}

TEST_F(RendezvousStoreTest, AnnouncesWhatItIsToldTo) {
  auto options = at("localhost");
  options.local_addr = "node-7.cluster";
  EXPECT_EQ(open_rendezvous_store(options)->announced, "node-7.cluster");
}

TEST_F(RendezvousStoreTest, AnnouncesNoWildcard) {
  auto options = at("0.0.0.0");
  options.is_host = true;
  const auto met = open_rendezvous_store(options);
  ASSERT_TRUE(met) << met.error().message;
  EXPECT_TRUE(io::literal_address(met->announced)) << met->announced;
  EXPECT_NE(met->announced, "0.0.0.0");
}

TEST_F(RendezvousStoreTest, AHostByOrderNeedsNoNameService) {
  auto options = at("no.such.host.invalid");
  options.is_host = true;
  const auto met = open_rendezvous_store(options);
  ASSERT_TRUE(met) << met.error().message;
  EXPECT_NE(met->server, nullptr);
  EXPECT_EQ(met->announced, "no.such.host.invalid");
  EXPECT_TRUE((*met->store->clone())->set("k", "v"));
}

TEST_F(RendezvousStoreTest, AHostByOrderFailsWhereThePortIsTaken) {
  const auto first = open_rendezvous_store(at("127.0.0.1"));
  auto options = at("127.0.0.1");
  options.is_host = true;
  const auto second = open_rendezvous_store(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Io);
  EXPECT_THAT(second.error().message, HasSubstr("the port is taken"));
}

TEST_F(RendezvousStoreTest, AClientByOrderWaitsForTheHost) {
  Result<RendezvousStore> host = fail(ErrorKind::Io, "not yet");
  auto options = at("127.0.0.1");
  options.is_host = false;
  options.first_status = Duration{};
  options.on_status = [&](const std::string&) {
    if (!host) host = open_rendezvous_store(at("127.0.0.1"));
  };
  const auto met = open_rendezvous_store(options);
  ASSERT_TRUE(host) << host.error().message;
  ASSERT_TRUE(met) << met.error().message;
  EXPECT_NE(host->server, nullptr);
  EXPECT_EQ(met->server, nullptr);
  EXPECT_EQ(met->announced, "127.0.0.1");
}

TEST_F(RendezvousStoreTest, TakesOverAsHostWhenTheOneThatWasFasterHasGone) {
  auto stuck = std::make_unique<Stranger>(reserved.port(), "");
  auto options = at("127.0.0.1");
  options.first_status = Duration{};
  options.on_status = [&](const std::string&) { stuck.reset(); };
  const auto met = open_rendezvous_store(options);
  ASSERT_TRUE(met) << met.error().message;
  EXPECT_NE(met->server, nullptr);
}

TEST_F(RendezvousStoreTest, SaysForWhatItWaitsAndOnceWhatToDo) {
  std::vector<std::string> lines;
  std::atomic<bool> cancelled = false;
  auto options = at("127.0.0.1");
  options.is_host = false;
  options.first_status = options.status_interval = Duration{};
  options.cancelled = &cancelled;
  options.on_status = [&](const std::string& line) {
    lines.push_back(line);
    if (lines.size() == 3) cancelled = true;
  };
  const auto met = open_rendezvous_store(options);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::Cancelled);
  EXPECT_THAT(met.error().message, HasSubstr(where("127.0.0.1")));
  ASSERT_GE(lines.size(), 3u);
  EXPECT_THAT(lines[0], StartsWith("waiting for the store at " + where("127.0.0.1") + ": "));
  EXPECT_THAT(lines[0], HasSubstr("Connection refused; gives up in "));
  EXPECT_THAT(lines[0], HasSubstr("(join_timeout). "));
  EXPECT_THAT(lines[0], HasSubstr("(is_host=false)"));
  EXPECT_THAT(lines[0], HasSubstr("pass is_host=true in --rdzv-conf"));
  EXPECT_THAT(lines[1], HasSubstr("gives up in "));
  EXPECT_THAT(lines[1], Not(HasSubstr("--rdzv-conf")));
}

TEST_F(RendezvousStoreTest, CanBeToldToStopWhileNobodyAnswers) {
  const Stranger silent(reserved.port(), "");
  std::atomic<bool> cancelled = false;
  std::vector<std::string> lines;
  auto options = at("127.0.0.1");
  options.first_status = Duration{};
  options.cancelled = &cancelled;
  options.on_status = [&](const std::string& line) {
    lines.push_back(line);
    cancelled = true;
  };
  EXPECT_EQ(open_rendezvous_store(options).error().kind, ErrorKind::Cancelled);
  EXPECT_THAT(lines, ElementsAre(HasSubstr("the port is taken")));
}

TEST_F(RendezvousStoreTest, GivesUpAtOnceWhereSomethingElseListens) {
  const Stranger web(reserved.port(), "HTTP/1.0 400 Bad Request\r\n\r\n");
  const auto met = open_rendezvous_store(at("127.0.0.1"));
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::Protocol);
  EXPECT_THAT(met.error().message, HasSubstr("is no store"));
  EXPECT_THAT(met.error().message, HasSubstr("use another port"));
}

TEST_F(RendezvousStoreTest, SaysAtTheEndWhatWasTriedAndWhatToDo) {
  auto options = at("127.0.0.1");
  options.is_host = false;
  options.connect_timeout = 1ms;
  const auto met = open_rendezvous_store(options);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::Timeout);
  EXPECT_THAT(met.error().message, HasSubstr("no store at " + where("127.0.0.1")));
  EXPECT_THAT(met.error().message, HasSubstr("is_host=true"));
  EXPECT_FALSE(somebody_listens("127.0.0.1"));
}

TEST_F(RendezvousStoreTest, KeepsTryingANameThatDoesNotResolve) {
  auto options = at("no.such.host.invalid");
  options.connect_timeout = 200ms;
  const auto met = open_rendezvous_store(options);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::Timeout);
  EXPECT_THAT(met.error().message, HasSubstr("cannot resolve 'no.such.host.invalid'"));
  EXPECT_THAT(met.error().message, HasSubstr("no.such.host.invalid has no address"));
}

TEST(RendezvousStore, RefusesWhatCannotBe) {
  const auto kind = [](const RendezvousStoreOptions& options) {
    return open_rendezvous_store(options).error().kind;
  };
  EXPECT_EQ(kind({.endpoint = {"", 1}}), ErrorKind::InvalidArgument);
  EXPECT_EQ(kind({.endpoint = {"localhost", 1}, .connect_timeout = {}}),
            ErrorKind::InvalidArgument);
  const auto nowhere = open_rendezvous_store({.endpoint = {"127.0.0.1", 0}, .is_host = false});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, ErrorKind::InvalidArgument);
  EXPECT_THAT(nowhere.error().message, HasSubstr("port 0"));
}

TEST_F(RendezvousStoreTest, IsReachedAgainAfterTheConnectionWasLost) {
  auto host = open_rendezvous_store(at("127.0.0.1"));
  auto client = open_rendezvous_store(at("127.0.0.1"));
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_TRUE(client->store->set("k", "v"));
  EXPECT_EQ(client->store->num_keys(), 1);
  host->server->clear();
  EXPECT_EQ(client->store->num_keys().error().kind, ErrorKind::Connection);
  auto again = reopen_rendezvous_store(client->reached, at("127.0.0.1"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)->num_keys(), 0);
  EXPECT_EQ((*again)->timeout(), 60s);
}

TEST_F(RendezvousStoreTest, IsNotHostedByWhoOnlyComesBack) {
  auto options = at("127.0.0.1");
  options.connect_timeout = 1ms;
  options.is_host = true;
  const auto again = reopen_rendezvous_store(options.endpoint, options);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::Timeout);
  EXPECT_THAT(again.error().message, HasSubstr("still up"));
  EXPECT_FALSE(somebody_listens("127.0.0.1"));
}

}  // namespace
}  // namespace regroup::runtime
