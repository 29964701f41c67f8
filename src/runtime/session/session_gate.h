// The coordinator's side of a secret: what one session has to prove before it is heard.
//
// Without a secret every session is heard, except that of a node that has one: it would not
// believe us.
#pragma once

#include <optional>
#include <string>

#include "core/coordinator/messages.h"
#include "runtime/session/session_secret.h"

namespace regroup::runtime {

class SessionGate {
 public:
  // `secret` must outlive it. Null: there is none.
  explicit SessionGate(const Secret* secret = nullptr) : secret_(secret) {}

  struct Verdict {
    enum class What {
      Pass,    // It is heard.
      Answer,  // It is told `answer`, and goes on.
      Refuse,  // It is told `why`, and closed.
      Close,   // It broke the rules, and is closed without an answer.
    };
    What what = What::Pass;
    std::optional<core::coordinator::FromCoordinator> answer = {};
    std::string why = {};
  };
  // For every message, in order. There is no second try on one connection.
  Verdict judge(const core::coordinator::FromAgent& message);
  // The answer is on its way: all that is said behind our proof is sealed.
  void answered() { is_sealed_ = stage_ == Stage::Open && seals_; }

  // Seals what is said to it; null: nothing is sealed yet.
  FrameSealer* outward() { return is_sealed_ ? &seals_->of_coordinator : nullptr; }
  // Checks what it says. Its proof is the last message without a seal.
  FrameSealer* inward() { return is_sealed_ ? &seals_->of_agent : nullptr; }

 private:
  enum class Stage { Shut, Challenged, Open };

  const Secret* secret_;
  Stage stage_ = Stage::Shut;
  Secret::Nonces nonces_;
  std::optional<FrameSeals> seals_;  // Once both have proven themselves.
  bool is_sealed_ = false;
};

}  // namespace regroup::runtime
