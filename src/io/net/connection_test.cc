#include "io/net/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>

#include "io/loop/clock.h"
#include "io/net/client_socket.h"
#include "io/net/listener.h"

namespace regroup::io {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Instant soon() { return deadline_after(30s); }

// Sends back what it hears. `before_reply` lets a test change what happens then.
class Echo final : public ConnectionOwner {
 public:
  Echo(Loop& loop, std::shared_ptr<Connection> connection, bool once)
      : loop_(loop), connection_(std::move(connection)), once_(once) {
    EXPECT_TRUE(connection_->start(*this));
  }
  void bytes_came() override {
    heard += connection_->input().view();
    if (once_ && heard.size() > connection_->input().size())
      return connection_->input().consume(connection_->input().size());
    connection_->output().append(connection_->input().view());
    connection_->input().consume(connection_->input().size());
    if (once_) connection_->end_output();
    connection_->flush();
    if (connection_->output().size() > 0) {
      ++times_full;
      connection_->pause_reading();
    }
  }
  void output_drained() override {
    ++times_drained;
    connection_->resume_reading();
  }
  void closed(const std::string& reason) override {
    end = reason;
    loop_.stop();
  }

  int times_full = 0;
  int times_drained = 0;
  std::string heard;
  std::string end;

 private:
  Loop& loop_;
  std::shared_ptr<Connection> connection_;
  bool once_;  // Only the first that it hears; behind that its output ends.
};

class ConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Listener::open(loop, "127.0.0.1", 0);
    ASSERT_TRUE(opened) << opened.error().message;
    listener = std::move(*opened);
    listener->start(
        [this](std::shared_ptr<Connection> c) {
          echo = std::make_unique<Echo>(loop, std::move(c), once);
        },
        [](const std::string& trouble) { FAIL() << trouble; });
  }

  ClientSocket connect() {
    const auto address = resolve("127.0.0.1", listener->port(), soon());
    return std::move(*ClientSocket::connect(address->front(), soon()));
  }

  std::unique_ptr<Loop> own_loop = std::move(*Loop::open());
  Loop& loop = *own_loop;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Echo> echo;
  bool once = false;
};

TEST_F(ConnectionTest, CarriesBytesBothWaysUntilThePeerCloses) {
  std::thread client([this] {
    auto socket = connect();
    EXPECT_TRUE(socket.send("hello", soon()));
    std::string heard;
    std::array<char, 16> room{};
    while (heard.size() < 5) heard.append(room.data(), *socket.receive(room, soon()));
    EXPECT_EQ(heard, "hello");
  });
  loop.run();
  client.join();
  EXPECT_EQ(echo->end, "closed by the peer");
}

TEST_F(ConnectionTest, EndsItsOutputBehindTheAnswerAndReadsOn) {
  once = true;
  std::string answer;
  std::thread client([&] {
    auto socket = connect();
    EXPECT_TRUE(socket.send("hello", soon()));
    std::array<char, 64> room{};
    while (const auto got = socket.receive(room, soon())) answer.append(room.data(), *got);
    EXPECT_TRUE(socket.send(" again", soon()));
  });
  loop.run();
  client.join();
  EXPECT_EQ(answer, "hello");
  EXPECT_EQ(echo->heard, "hello again");
}

TEST_F(ConnectionTest, StopsReadingFromAPeerThatDoesNotRead) {
  const std::string lot(32u << 20, 'x');
  std::thread client([&] {
    auto socket = connect();
    // One thread pushes until it is stopped by back-pressure, this one reads only then.
    std::thread writer([&] { EXPECT_TRUE(socket.send(lot, soon())); });
    std::size_t heard = 0;
    std::vector<char> room(1u << 20);
    while (heard < lot.size()) heard += *socket.receive(room, soon());
    writer.join();
  });
  loop.run();
  client.join();
  EXPECT_EQ(echo->end, "closed by the peer");
  EXPECT_EQ(echo->times_full, echo->times_drained);
}

TEST_F(ConnectionTest, SaysWhyAPortCannotBeHad) {
  const auto taken = Listener::open(loop, "127.0.0.1", listener->port());
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message, HasSubstr("the port is taken"));
  EXPECT_THAT(taken.error().message, HasSubstr(std::to_string(listener->port())));
  const auto foreign = Listener::open(loop, "192.0.2.1", 0);
  ASSERT_FALSE(foreign);
  EXPECT_THAT(foreign.error().message, HasSubstr("no interface of this machine"));
  EXPECT_FALSE(Listener::open(loop, "no.such.host.invalid", 0));
}

TEST_F(ConnectionTest, BindsNothingButTheAddressAskedFor) {
  EXPECT_EQ(listener->addresses(),
            std::vector<std::string>{"127.0.0.1:" + std::to_string(listener->port())});
  auto other = resolve("127.0.0.2", listener->port(), soon());
  EXPECT_THAT(ClientSocket::connect(other->front(), soon()).error().message,
              HasSubstr("Connection refused"));
}

TEST_F(ConnectionTest, AClientKnowsItsOwnAddress) {
  std::thread server([this] { loop.run(); });
  {
    const auto socket = connect();
    EXPECT_THAT(socket.local_address().text(), StartsWith("127.0.0.1:"));
    EXPECT_NE(socket.local_address().port(), listener->port());
  }
  server.join();
}

TEST_F(ConnectionTest, ListensOnAllInterfacesIfAsked) {
  auto all = Listener::open(loop, "::", 0);
  ASSERT_TRUE(all);
  auto address = resolve("127.0.0.1", (*all)->port(), soon());
  EXPECT_TRUE(ClientSocket::connect(address->front(), soon()));
}

TEST_F(ConnectionTest, ALocalNameIsBoundOnAllItsAddressesWithOnePort) {
  auto local = Listener::open(loop, "localhost", 0);
  ASSERT_TRUE(local) << local.error().message;
  for (const std::string& address : (*local)->addresses())
    EXPECT_THAT(address, HasSubstr(":" + std::to_string((*local)->port())));
}

TEST(ClientSocket, GivesUpAtItsDeadline) {
  const auto opened = Loop::open();
  Loop& loop = **opened;
  auto listener = Listener::open(loop, "127.0.0.1", 0);  // Nothing accepts.
  auto address = resolve("127.0.0.1", (*listener)->port(), soon());
  auto socket = ClientSocket::connect(address->front(), soon());
  ASSERT_TRUE(socket);
  std::array<char, 1> room{};
  EXPECT_EQ(socket->receive(room, now()).error().kind, ErrorKind::Timeout);
}

TEST(Address, IsWrittenAsPeopleWriteIt) {
  EXPECT_EQ(resolve("::1", 80, soon())->front().text(), "[::1]:80");
  EXPECT_EQ(resolve("127.0.0.1", 80, soon())->front().text(), "127.0.0.1:80");
  EXPECT_EQ(join_host_port("node", 1), "node:1");
  EXPECT_EQ(join_host_port("fe80::1", 1), "[fe80::1]:1");
}

}  // namespace
}  // namespace regroup::io
