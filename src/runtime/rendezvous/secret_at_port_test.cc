// What a secret does at the port of a coordinator, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_buffer.h"
#include "io/loop/clock.h"
#include "io/loop/loop.h"
#include "regroup/rendezvous.h"
#include "runtime/coordinator/coordinator_host.h"
#include "runtime/rendezvous/status_client.h"
#include "runtime/session/session_opening.h"
#include "runtime/session/session_secret.h"
#include "runtime/store/store_channel.h"
#include "runtime/store/store_host.h"
#include "wire/session/session.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::HasSubstr;

const Secret kSecret("what all of them know");
const Secret kOther("what only a stranger knows");

Instant soon() { return io::deadline_after(60s); }

Hello hello() {
  Hello message;
  message.run_id = "r";
  message.node = {.address = "a", .pid = 1, .local_id = 0};
  message.claim.name = "a";
  message.rules = {.min_nodes = 1, .max_nodes = 2, .heartbeat_limit = 1h};
  return message;
}

class SecretAtPort : public testing::Test {
 protected:
  void serve(const std::optional<Secret>& secret) {
    host_ = std::move(*StoreHost::open(
        *loop_, {.coordinator = true,
                 .secret = secret ? std::make_shared<const Secret>(*secret) : nullptr}));
    thread_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
  }

  CoordinatorCounters counters() {
    std::promise<CoordinatorCounters> answer;
    loop_->post([&] { answer.set_value(host_->coordinator()->counters()); });
    return answer.get_future().get();
  }

  Result<OpenedSession> open(const Secret* secret) {
    auto channel = StoreChannel::open("127.0.0.1", host_->port(), soon());
    EXPECT_TRUE(channel) << channel.error().message;
    auto socket = channel->into_session(soon());
    EXPECT_TRUE(socket && *socket);
    return open_with_secret(std::move(**socket), secret, soon());
  }

  // What the coordinator says until it closes, or has said `count` things. What stands behind its
  // proof is sealed.
  static std::vector<FromCoordinator> answers(OpenedSession& session, std::size_t count) {
    std::vector<FromCoordinator> heard;
    ByteBuffer in;
    while (heard.size() < count) {
      auto parsed = wire::parse_frame_from_coordinator(in.view());
      auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&parsed);
      const bool is_sealed = session.seals && session.proofs && !heard.empty();
      const std::size_t seal = is_sealed ? kSealBytes : 0;
      if (whole != nullptr && in.size() >= whole->size + seal) {
        const bool fits =
            !is_sealed || session.seals->of_coordinator.fits(in.view().substr(0, whole->size),
                                                             in.view().substr(whole->size, seal));
        EXPECT_TRUE(fits);
        in.consume(whole->size + seal);
        heard.push_back(std::move(whole->message));
        continue;
      }
      const auto got = session.socket.receive(in.prepare(4096), soon());
      if (!got) break;
      in.commit(*got);
    }
    return heard;
  }
  static void send(OpenedSession& session, const std::vector<FromAgent>& messages) {
    ByteBuffer out;
    for (const FromAgent& message : messages) {
      const std::size_t before = out.size();
      wire::append_frame(out, message);
      if (session.seals && !std::holds_alternative<AgentProof>(message))
        session.seals->of_agent.seal(out, before);
    }
    EXPECT_TRUE(session.socket.send(out.view(), soon()));
  }

  Result<StatusAnswer> status(std::optional<Secret> secret) {
    return StatusClient({.host = "127.0.0.1", .port = host_->port()}, 60s, std::move(secret))
        .ask("");
  }

  std::unique_ptr<io::Loop> loop_ = std::move(*io::Loop::open());
  std::unique_ptr<StoreHost> host_;
  std::thread thread_;
};

TEST_F(SecretAtPort, TheProofComesInFrontOfTheWelcome) {
  serve(kSecret);
  auto opened = open(&kSecret);
  ASSERT_TRUE(opened) << opened.error().message;
  send(*opened, {opened->proofs->ours, hello()});
  const auto heard = answers(*opened, 2);
  ASSERT_EQ(heard.size(), 2u);
  EXPECT_TRUE(opened->proofs->is_theirs(heard[0]));
  EXPECT_TRUE(std::holds_alternative<Welcome>(heard[1]));
  EXPECT_EQ(counters().refused, 0u);
}

TEST_F(SecretAtPort, WhoHasAnotherSecretOrNoneIsRefusedForGoodAndCounted) {
  serve(kSecret);
  const auto expect_refused = [](OpenedSession& session, const std::string& why) {
    const auto heard = answers(session, 9);
    ASSERT_EQ(heard.size(), 1u);
    const auto* refused = std::get_if<Refused>(&heard[0]);
    ASSERT_NE(refused, nullptr);
    EXPECT_TRUE(refused->lasting);
    EXPECT_THAT(refused->why, HasSubstr(why));
  };
  auto other = open(&kOther);
  ASSERT_TRUE(other) << other.error().message;
  send(*other, {other->proofs->ours, hello(), Join{1, {"a", 1}}});
  expect_refused(*other, "not the coordinator's");
  auto none = open(nullptr);
  send(*none, {hello(), Join{1, {"a", 1}}});
  expect_refused(*none, "wants a secret");
  auto looking = open(nullptr);
  send(*looking, {Look{}});
  expect_refused(*looking, "wants a secret");
  EXPECT_EQ(counters().refused, 3u);
  const auto seen = status(kSecret);
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_TRUE(seen->status.runs.empty());
}

// As somebody who has handed on the proof of another node, and then speaks for themselves.
TEST_F(SecretAtPort, WhatStandsBehindTheProofNeedsASealToo) {
  serve(kSecret);
  const auto is_closed = [](OpenedSession& session) {
    const auto heard = answers(session, 9);
    return heard.size() <= 1;  // The proof of the coordinator, and no welcome.
  };
  auto without = open(&kSecret);
  send(*without, {without->proofs->ours});
  without->seals.reset();
  send(*without, {hello(), hello()});
  EXPECT_TRUE(is_closed(*without));

  auto forged = open(&kSecret);
  forged->seals = kOther.seals({});
  send(*forged, {forged->proofs->ours, hello()});
  EXPECT_TRUE(is_closed(*forged));

  auto repeated = open(&kSecret);
  const FrameSeals first = *repeated->seals;
  send(*repeated, {repeated->proofs->ours, hello()});
  EXPECT_EQ(answers(*repeated, 2).size(), 2u);
  repeated->seals->of_agent = first.of_agent;  // As it was for the first frame.
  send(*repeated, {Ping{1}});
  ByteBuffer in;
  EXPECT_FALSE(repeated->socket.receive(in.prepare(64), soon()));
  EXPECT_EQ(counters().refused, 3u);
}

// It was closed, and its run went on with it until the heartbeat limit.
TEST_F(SecretAtPort, WhoAsksForAProofInARunIsMissedThere) {
  serve(std::nullopt);
  auto opened = open(nullptr);
  send(*opened, {hello()});
  EXPECT_EQ(answers(*opened, 1).size(), 1u);
  send(*opened, {Prove{}});
  EXPECT_TRUE(answers(*opened, 1).empty());
  const auto seen = status(std::nullopt);
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_TRUE(seen->status.runs.empty() || seen->status.runs.at(0).nodes.empty());
}

TEST_F(SecretAtPort, WhoHasASecretWantsNoCoordinatorWithoutOne) {
  serve(std::nullopt);
  const auto opened = open(&kSecret);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::Refused);
  EXPECT_THAT(opened.error().message, HasSubstr("this coordinator has no secret"));
}

TEST_F(SecretAtPort, StatusNeedsTheSecretToo) {
  serve(kSecret);
  EXPECT_THAT(status(std::nullopt).error().message, HasSubstr("wants a secret"));
  EXPECT_THAT(status(kOther).error().message, HasSubstr("not the coordinator's"));
  StatusClient client({.host = "127.0.0.1", .port = host_->port()}, 60s, kSecret);
  EXPECT_TRUE(client.ask(""));
  EXPECT_TRUE(client.ask(""));  // On the same connection, which has proven itself.
  EXPECT_EQ(counters().sessions_ever, 3u);
}

TEST_F(SecretAtPort, NodesWithoutASessionFindTheRunClosed) {
  serve(kSecret);
  auto opened = open(&kSecret);
  send(*opened, {opened->proofs->ours, hello()});
  EXPECT_EQ(answers(*opened, 2).size(), 2u);
  const RendezvousParameters torchruns{.endpoint = "127.0.0.1:" + std::to_string(host_->port()),
                                       .run_id = "r",
                                       .config = {{"is_host", "false"}}};
  const auto handler = make_rendezvous(torchruns);
  ASSERT_TRUE(handler) << handler.error().message;
  EXPECT_EQ((*handler)->next_rendezvous().error().kind, ErrorKind::Closed);
  EXPECT_FALSE(status(kSecret)->status.runs.at(0).closed);
}

}  // namespace
}  // namespace regroup::runtime
