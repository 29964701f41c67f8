#include "runtime/session/session_gate.h"

#include <variant>

#include "runtime/session/session_crypto.h"

namespace regroup::runtime {

using namespace core::coordinator;

SessionGate::Verdict SessionGate::judge(const FromAgent& message) {
  using What = Verdict::What;
  const auto* question = std::get_if<Prove>(&message);
  const auto* proof = std::get_if<AgentProof>(&message);
  const bool is_about_secret = question != nullptr || proof != nullptr;
  if (secret_ == nullptr) {
    if (!is_about_secret) return {};
    return {.what = What::Refuse,
            .why = "this coordinator has no secret, this node has one (--rdzv-secret-file)"};
  }
  switch (stage_) {
    case Stage::Shut:
      if (std::holds_alternative<Look>(message) && secret_->lets_others_look()) return {};
      if (question == nullptr) break;
      nonces_ = {.agent = question->nonce, .coordinator = new_nonce()};
      stage_ = Stage::Challenged;
      return {.what = What::Answer, .answer = Challenge{nonces_.coordinator}};
    case Stage::Challenged:
      if (proof == nullptr) break;
      if (!are_same(proof->proof, secret_->proof_of_agent(nonces_)))
        return {.what = What::Refuse, .why = "the secret is not the coordinator's"};
      stage_ = Stage::Open;
      seals_ = secret_->seals(nonces_);
      return {.what = What::Answer,
              .answer = CoordinatorProof{secret_->proof_of_coordinator(nonces_)}};
    case Stage::Open:
      if (!is_about_secret) return {};
      return {.what = What::Close, .why = "it has proven itself, and begins again"};
  }
  if (secret_->lets_others_look())
    return {.what = What::Refuse, .why = "this run is for the node that hosts it alone (--nnodes)"};
  return {.what = What::Refuse, .why = "this coordinator wants a secret: --rdzv-secret-file"};
}

}  // namespace regroup::runtime
