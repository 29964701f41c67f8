// A secret that the nodes of a run and their coordinator share (--rdzv-secret-file), and how each
// side proves to the other that it has the secret. The secret itself is never sent;
// docs/protocol.md says what is.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "core/coordinator/messages.h"
#include "regroup/result.h"
#include "runtime/session/session_seal.h"

namespace regroup::runtime {

inline constexpr std::size_t kShortestSecret = 16;
inline constexpr std::size_t kLongestSecret = 4096;

class Secret {
 public:
  // One from each side, new on every connection: a proof is good for that connection only.
  struct Nonces {
    core::coordinator::Bytes32 agent = {};
    core::coordinator::Bytes32 coordinator = {};
  };

  // Reads a regular file; whitespace around the secret does not count. An error is an
  // InvalidArgument that names the file.
  static Result<Secret> read(const std::string& path);

  explicit Secret(std::string key) : key_(std::move(key)) {}

  // For a run of one node, whose coordinator is in the same process: nobody else knows it. Looking
  // at the run (regroup status) needs no proof then.
  static Secret of_this_process(std::string key);
  bool lets_others_look() const { return lets_others_look_; }

  // The two differ, so that neither side can use the other's proof as its own.
  core::coordinator::Bytes32 proof_of_agent(const Nonces& nonces) const;
  core::coordinator::Bytes32 proof_of_coordinator(const Nonces& nonces) const;

  // For the frames that follow the proofs.
  FrameSeals seals(const Nonces& nonces) const;

  // Something about the file that the user should know, though it is no error. Empty: nothing.
  const std::string& warning() const { return warning_; }

 private:
  std::string key_;
  std::string warning_;
  bool lets_others_look_ = false;
};

}  // namespace regroup::runtime
