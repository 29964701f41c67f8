// A secret: what it proves and seals, and how the two sides of a session use it.
#include "runtime/session/session_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "base/byte_buffer.h"
#include "io/loop/clock.h"
#include "runtime/session/session_crypto.h"
#include "runtime/session/session_gate.h"
#include "runtime/session/session_opening.h"
#include "runtime/session/session_testing.h"

namespace regroup::runtime {
namespace {

using namespace core::coordinator;
using testing::AllOf;
using testing::HasSubstr;
using What = SessionGate::Verdict::What;

std::string hex(const Bytes32& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

// Test cases 1, 2 and 6 of RFC 4231; the key of the last is longer than a block.
TEST(SessionSecret, ProofsAreMadeByTheStandard) {
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'),
                            "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(SessionSecret, AProofDependsOnTheSecretTheSideAndBothNonces) {
  const Secret::Nonces nonces{.agent = {1}, .coordinator = {2}};
  const Secret secret("what nobody knows");
  const Bytes32 proof = secret.proof_of_agent(nonces);
  EXPECT_TRUE(are_same(proof, Secret("what nobody knows").proof_of_agent(nonces)));
  EXPECT_FALSE(are_same(proof, secret.proof_of_coordinator(nonces)));
  EXPECT_FALSE(are_same(proof, Secret("what somebody knows").proof_of_agent(nonces)));
  EXPECT_FALSE(are_same(proof, secret.proof_of_agent({.agent = {3}, .coordinator = {2}})));
  EXPECT_FALSE(are_same(proof, secret.proof_of_agent({.agent = {1}, .coordinator = {3}})));
  EXPECT_FALSE(are_same(new_nonce(), new_nonce()));
}

class SecretFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& contents, int mode = 0600) {
    std::ofstream(path_, std::ios::binary) << contents;
    EXPECT_EQ(::chmod(path_.c_str(), static_cast<mode_t>(mode)), 0);
    return path_;
  }
  static std::string why_not(const std::string& path) {
    const auto secret = Secret::read(path);
    if (secret) return "(it was read)";
    EXPECT_EQ(secret.error().kind, ErrorKind::InvalidArgument);
    EXPECT_THAT(secret.error().message, HasSubstr(path));
    return secret.error().message;
  }

  const std::filesystem::path folder_ = [] {
    std::string name = testing::TempDir() + "secretXXXXXX";
    return std::filesystem::path(::mkdtemp(name.data()));
  }();
  const std::string path_ = folder_ / "secret";
};

TEST_F(SecretFile, WhitespaceAroundItDoesNotCount) {
  const Secret::Nonces nonces;
  const auto plain = Secret::read(file("sixteen bytes  !"));
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->warning(), "");
  const auto spaced = Secret::read(file("\n \tsixteen bytes  !\r\n\n"));
  ASSERT_TRUE(spaced) << spaced.error().message;
  EXPECT_EQ(hex(plain->proof_of_agent(nonces)), hex(spaced->proof_of_agent(nonces)));
  EXPECT_EQ(hex(plain->proof_of_agent(nonces)),
            hex(Secret("sixteen bytes  !").proof_of_agent(nonces)));
}

TEST_F(SecretFile, MayHaveAnyBytesAndItsLimits) {
  EXPECT_TRUE(Secret::read(file(std::string(16, '\0'))));
  EXPECT_TRUE(Secret::read(file(std::string(4096, 's') + "\n")));
  EXPECT_THAT(why_not(file("")), HasSubstr("0 bytes"));
  EXPECT_THAT(why_not(file("  fifteen bytes !   ")), HasSubstr("15 bytes"));
  EXPECT_THAT(why_not(file(std::string(4097, 's'))), HasSubstr("too long"));
  EXPECT_THAT(why_not(file("sixteen bytes  !" + std::string(100'000, ' '))), HasSubstr("too long"));
}

TEST_F(SecretFile, IsARegularFileThatIsThere) {
  EXPECT_THAT(why_not(path_ + ".not"), HasSubstr("No such file"));
  EXPECT_THAT(why_not(folder_), HasSubstr("no regular file"));
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(why_not(pipe), HasSubstr("no regular file"));
  EXPECT_FALSE(Secret::read(""));
  const std::string link = folder_ / "link";
  std::filesystem::create_symlink(file("sixteen bytes  !"), link);
  EXPECT_TRUE(Secret::read(link));
}

TEST_F(SecretFile, OneThatOthersMayReadIsReadWithAWarning) {
  for (const int mode : {0640, 0604, 0620}) {
    const auto secret = Secret::read(file("sixteen bytes  !", mode));
    ASSERT_TRUE(secret);
    EXPECT_THAT(secret->warning(), AllOf(HasSubstr(path_), HasSubstr("chmod 600")));
  }
}

// ---- Who is let in ----

const Secret kSecret("what all of them know");
const Secret kOther("what only a stranger knows");

Bytes32 nonce_of(const SessionGate::Verdict& verdict) {
  EXPECT_EQ(verdict.what, What::Answer);
  const auto* challenge = std::get_if<Challenge>(&*verdict.answer);
  EXPECT_NE(challenge, nullptr);
  return challenge == nullptr ? Bytes32{} : challenge->nonce;
}

TEST(SessionGate, WhoProvesThatItKnowsTheSecretIsHeard) {
  SessionGate gate(&kSecret);
  const Secret::Nonces nonces{.agent = {7}, .coordinator = nonce_of(gate.judge(Prove{{7}}))};
  const auto proven = gate.judge(AgentProof{kSecret.proof_of_agent(nonces)});
  ASSERT_EQ(proven.what, What::Answer);
  EXPECT_EQ(*proven.answer,
            FromCoordinator(CoordinatorProof{kSecret.proof_of_coordinator(nonces)}));
  EXPECT_EQ(gate.judge(Hello{}).what, What::Pass);
  EXPECT_EQ(gate.judge(Ping{}).what, What::Pass);
  EXPECT_EQ(gate.judge(Prove{}).what, What::Close);
}

TEST(SessionGate, NobodyElseIsHeard) {
  for (const FromAgent& first : std::vector<FromAgent>{Hello{}, Join{}, Failed{}, Done{}, Leave{},
                                                       Ping{}, Look{}, Warn{}, AgentProof{}}) {
    SCOPED_TRACE(first.index());
    SessionGate gate(&kSecret);
    const auto verdict = gate.judge(first);
    EXPECT_EQ(verdict.what, What::Refuse);
    EXPECT_THAT(verdict.why, HasSubstr("wants a secret"));
    SessionGate asked(&kSecret);
    nonce_of(asked.judge(Prove{}));
    EXPECT_EQ(asked.judge(first).what, What::Refuse);
  }
  SessionGate twice(&kSecret);
  nonce_of(twice.judge(Prove{}));
  EXPECT_EQ(twice.judge(Prove{}).what, What::Refuse);
}

TEST(SessionGate, ASecretOfThisProcessLetsOthersLookAndDoNothingElse) {
  const Secret own = Secret::of_this_process("nobody else knows it");
  SessionGate gate(&own);
  EXPECT_EQ(gate.judge(Look{}).what, What::Pass);
  EXPECT_EQ(gate.judge(Look{}).what, What::Pass);
  const auto verdict = gate.judge(Hello{});
  EXPECT_EQ(verdict.what, What::Refuse);
  EXPECT_THAT(verdict.why, HasSubstr("for the node that hosts it alone"));
}

TEST(SessionGate, AProofOfAnotherSecretSideOrConnectionIsNone) {
  const auto answer_to = [](const auto& make_proof) {
    SessionGate gate(&kSecret);
    const Secret::Nonces nonces{.agent = {7}, .coordinator = nonce_of(gate.judge(Prove{{7}}))};
    const auto verdict = gate.judge(AgentProof{make_proof(nonces)});
    EXPECT_EQ(verdict.what, What::Refuse);
    return verdict.why;
  };
  using Nonces = Secret::Nonces;
  EXPECT_EQ(answer_to([](const Nonces& nonces) { return kOther.proof_of_agent(nonces); }),
            "the secret is not the coordinator's");
  answer_to([](const Nonces& nonces) { return kSecret.proof_of_coordinator(nonces); });
  // Heard on another connection, with the same nonce of the agent's.
  SessionGate other(&kSecret);
  const Nonces old{.agent = {7}, .coordinator = nonce_of(other.judge(Prove{{7}}))};
  answer_to([&](const Nonces& /*new*/) { return kSecret.proof_of_agent(old); });
}

TEST(SessionGate, WithoutASecretOnlyThoseWhoHaveOneAreRefused) {
  SessionGate gate;
  EXPECT_EQ(gate.judge(Hello{}).what, What::Pass);
  EXPECT_EQ(gate.judge(Look{}).what, What::Pass);
  for (const FromAgent& message : std::vector<FromAgent>{Prove{}, AgentProof{}}) {
    const auto verdict = gate.judge(message);
    EXPECT_EQ(verdict.what, What::Refuse);
    EXPECT_THAT(verdict.why, HasSubstr("has no secret"));
  }
}

// ---- Seals ----

TEST(FrameSealer, ASealIsOfOneFrameOneNumberAndOneDirection) {
  const Secret::Nonces nonces{.agent = {1}, .coordinator = {2}};
  FrameSeals ours = kSecret.seals(nonces);
  ByteBuffer out;
  out.append("before");
  const std::size_t from = out.size();
  out.append("frame");
  ours.of_agent.seal(out, from);
  ASSERT_EQ(out.size(), from + 5 + kSealBytes);
  const std::string seal(out.view().substr(from + 5));
  EXPECT_TRUE(kSecret.seals(nonces).of_agent.fits("frame", seal));
  EXPECT_FALSE(kSecret.seals(nonces).of_agent.fits("flame", seal));
  EXPECT_FALSE(kSecret.seals(nonces).of_agent.fits("frame", seal.substr(1)));
  EXPECT_FALSE(kSecret.seals(nonces).of_coordinator.fits("frame", seal));
  EXPECT_FALSE(kOther.seals(nonces).of_agent.fits("frame", seal));
  EXPECT_FALSE(kSecret.seals({.agent = {1}, .coordinator = {3}}).of_agent.fits("frame", seal));
  FrameSeals theirs = kSecret.seals(nonces);
  EXPECT_TRUE(theirs.of_agent.fits("frame", seal));
  EXPECT_FALSE(theirs.of_agent.fits("frame", seal));  // Said again.
}

// ---- What a node makes of a server ----

Result<OpenedSession> open_at(const FakeCoordinator& server) {
  auto reached = FakeCoordinator::connect(server.address());
  return open_with_secret(std::move(reached->socket), &kSecret, io::deadline_after(60s));
}

TEST(SessionOpening, AServerThatSaysAnythingButAChallengeIsNotBelieved) {
  for (const FromCoordinator& first :
       std::vector<FromCoordinator>{Welcome{}, Stop{}, Over{}, Report{}, CoordinatorProof{}}) {
    SCOPED_TRACE(first.index());
    const FakeCoordinator server;
    auto opened = std::async(std::launch::async, [&] { return open_at(server); });
    Caller caller = server.accept();
    EXPECT_TRUE(std::holds_alternative<Prove>(*caller.next()));
    caller.say(first);
    const auto result = opened.get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::Refused);
    EXPECT_EQ(result.error().message, kNotProven);
  }
}

TEST(SessionOpening, ARefusalThatDoesNotLastMayBeTriedAgain) {
  for (const bool lasting : {true, false}) {
    const FakeCoordinator server;
    auto opened = std::async(std::launch::async, [&] { return open_at(server); });
    Caller caller = server.accept();
    caller.say(Refused{.why = "no room", .lasting = lasting});
    const auto result = opened.get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, lasting ? ErrorKind::Refused : ErrorKind::Connection);
    EXPECT_EQ(result.error().message, "no room");
  }
}

}  // namespace
}  // namespace regroup::runtime
