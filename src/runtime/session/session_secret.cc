#include "runtime/session/session_secret.h"

#include <fmt/core.h>

#include <string_view>

#include "base/text.h"
#include "base/text_parts.h"
#include "io/file/regular_file.h"
#include "runtime/session/session_crypto.h"

namespace regroup::runtime {
namespace {

using core::coordinator::Bytes32;

constexpr std::string_view kAgentLabel = "regroup session 1: agent";
constexpr std::string_view kCoordinatorLabel = "regroup session 1: coordinator";
constexpr std::string_view kAgentFrames = "regroup session 1: frames of the agent";
constexpr std::string_view kCoordinatorFrames = "regroup session 1: frames of the coordinator";

std::string_view view_of(const Bytes32& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes32 proof(std::string_view key, std::string_view label, const Secret::Nonces& nonces) {
  std::string text(label);
  text += view_of(nonces.agent);
  text += view_of(nonces.coordinator);
  return hmac_sha256(key, text);
}

}  // namespace

Result<Secret> Secret::read(const std::string& path) {
  // Whitespace around the secret does not count towards its length, but the file has a limit, too.
  constexpr std::size_t kMostInFile = 2 * kLongestSecret;
  const std::string name = "the secret file " + printable(path);
  const auto file = io::read_regular_file(path, kMostInFile);
  if (!file) return fail(file.error().kind, fmt::format("{} {}", name, file.error().message));
  const std::string_view key = trimmed(file->contents);
  if (key.size() < kShortestSecret)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("{} has {} bytes without the space around them, and {} at the least "
                            "are needed. For example: openssl rand -hex 32",
                            name, key.size(), kShortestSecret));
  if (key.size() > kLongestSecret || file->contents.size() > kMostInFile)
    return fail(ErrorKind::InvalidArgument,
                fmt::format("{} is too long: {} bytes are the limit", name, kLongestSecret));
  Secret secret{std::string(key)};
  if ((file->mode & 077) != 0)
    secret.warning_ = name + " is open to other users of this machine; 'chmod 600' closes it";
  return secret;
}

Secret Secret::of_this_process(std::string key) {
  Secret secret(std::move(key));
  secret.lets_others_look_ = true;
  return secret;
}

Bytes32 Secret::proof_of_agent(const Nonces& nonces) const {
  return proof(key_, kAgentLabel, nonces);
}

Bytes32 Secret::proof_of_coordinator(const Nonces& nonces) const {
  return proof(key_, kCoordinatorLabel, nonces);
}

FrameSeals Secret::seals(const Nonces& nonces) const {
  return {.of_agent = FrameSealer(proof(key_, kAgentFrames, nonces)),
          .of_coordinator = FrameSealer(proof(key_, kCoordinatorFrames, nonces))};
}

}  // namespace regroup::runtime
