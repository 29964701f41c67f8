// Asks a coordinator how the runs at its port stand. For a thread that may block.
#pragma once

#include <optional>
#include <string>

#include "base/endpoint.h"
#include "core/run/run_status.h"
#include "regroup/result.h"
#include "runtime/session/session_opening.h"

namespace regroup::runtime {

struct StatusAnswer {
  std::string json;  // As it came.
  core::run::PortStatus status;
};

// Keeps its connection for the next question. A lost one is made anew, once in each question.
class StatusClient {
 public:
  // `limit`: for one question, all in all.
  // `secret`: the coordinator's, if it has one.
  StatusClient(Endpoint where, Duration limit, std::optional<Secret> secret = {})
      : where_(std::move(where)), limit_(limit), secret_(std::move(secret)) {}

  // Empty: all runs. A run that is not known there is not in the answer. A coordinator that
  // does not listen yet is not waited for. ErrorKind::Unsupported: there is a store, but no
  // coordinator.
  Result<StatusAnswer> ask(const std::string& run_id);

 private:
  Result<void> connect(Instant deadline);
  Error unanswered(const Error& why) const;
  Result<std::string> look(const std::string& run_id, Instant deadline);

  const Endpoint where_;
  const Duration limit_;
  const std::optional<Secret> secret_;
  std::optional<OpenedSession> session_;
};

// "head:29400", "[::1]:29400".
std::string text_of(const Endpoint& where);

}  // namespace regroup::runtime
