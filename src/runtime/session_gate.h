// The coordinator's side of a secret: what one session has to prove before it is heard.
//
// Without a secret everybody is heard, but for those who have one: they would not believe us.
#pragma once

#include <optional>
#include <string>

#include "core/coordinator/messages.h"
#include "runtime/session_secret.h"

namespace regroup::runtime {

class SessionGate {
 public:
  // `secret` must outlive it. Null: there is none.
  explicit SessionGate(const Secret* secret = nullptr) : secret_(secret) {}

  struct Verdict {
    enum class What {
      Pass,    // It is heard.
      Answer,  // It is told `answer`, and goes on.
      Refuse,  // It is told `why`, and that is the end.
      Doom,    // It broke the rules.
    };
    What what = What::Pass;
    std::optional<core::coordinator::FromCoordinator> answer = {};
    std::string why = {};
  };
  // For every message, in order. Nobody has a second try on one connection.
  Verdict judge(const core::coordinator::FromAgent& message);

 private:
  enum class Stage { Shut, Challenged, Open };

  const Secret* secret_;
  Stage stage_ = Stage::Shut;
  Secret::Nonces nonces_;
};

}  // namespace regroup::runtime
