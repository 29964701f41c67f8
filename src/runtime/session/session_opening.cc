#include "runtime/session/session_opening.h"

#include <variant>

#include "runtime/session/frame_reader.h"
#include "runtime/session/session_crypto.h"
#include "wire/session/session.h"

namespace regroup::runtime {

using namespace core::coordinator;

const char* const kNotProven =
    "the server there has not proven that it knows the secret (--rdzv-secret-file): it is not the "
    "coordinator of this run, or it has another secret";

void SessionProofs::append_ours(ByteBuffer& out) const { wire::append_frame(out, FromAgent{ours}); }

bool SessionProofs::is_theirs(const FromCoordinator& message) const {
  const auto* proof = std::get_if<CoordinatorProof>(&message);
  return proof != nullptr && are_same(proof->proof, theirs.proof);
}

namespace {

Result<FromCoordinator> receive_first(io::ClientSocket& socket, Instant deadline) {
  ByteBuffer in;
  FrameReader<FromCoordinator> reader;
  for (;;) {
    auto frame = reader.next(in, {.from_stranger = true});
    if (auto* whole = std::get_if<wire::WholeFrame<FromCoordinator>>(&frame)) {
      // A coordinator sends nothing more before it has our proof.
      if (!in.empty() && !std::holds_alternative<Refused>(whole->message))
        return fail(ErrorKind::Refused, kNotProven);
      return std::move(whole->message);
    }
    if (std::holds_alternative<wire::Malformed>(frame)) return fail(ErrorKind::Refused, kNotProven);
    if (std::holds_alternative<wire::SkippedFrame>(frame)) continue;
    constexpr std::size_t kRoom = 1024;
    auto got = socket.receive(in.prepare(kRoom), deadline);
    if (!got && got.error().kind == ErrorKind::Timeout)
      return fail(ErrorKind::Timeout,
                  "the coordinator does not answer when it is asked for its secret "
                  "(--rdzv-secret-file); one of an older regroup knows no secrets");
    if (!got) return tl::unexpected(got.error());
    in.commit(*got);
  }
}

}  // namespace

Result<OpenedSession> open_with_secret(io::ClientSocket socket, const Secret* secret,
                                       Instant deadline) {
  OpenedSession opened(std::move(socket));
  if (secret == nullptr) return opened;
  Secret::Nonces nonces{.agent = new_nonce(), .coordinator = {}};
  ByteBuffer out;
  wire::append_frame(out, FromAgent{Prove{nonces.agent}});
  if (auto sent = opened.socket.send(out.view(), deadline); !sent)
    return tl::unexpected(sent.error());
  const auto answer = receive_first(opened.socket, deadline);
  if (!answer) return tl::unexpected(answer.error());
  if (const auto* refused = std::get_if<Refused>(&*answer))
    return fail(refused->lasting ? ErrorKind::Refused : ErrorKind::Connection, refused->why);
  const auto* challenge = std::get_if<Challenge>(&*answer);
  if (challenge == nullptr) return fail(ErrorKind::Refused, kNotProven);
  nonces.coordinator = challenge->nonce;
  opened.proofs = SessionProofs{.ours = {secret->proof_of_agent(nonces)},
                                .theirs = {secret->proof_of_coordinator(nonces)}};
  opened.seals = secret->seals(nonces);
  return opened;
}

}  // namespace regroup::runtime
