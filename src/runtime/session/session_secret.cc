#include "runtime/session/session_secret.h"

#include <sodium.h>

#include "base/check.h"
#include "base/text.h"
#include "io/file/regular_file.h"

namespace regroup::runtime {
namespace {

using core::coordinator::Bytes32;

constexpr std::string_view kAgentLabel = "regroup session 1: agent";
constexpr std::string_view kCoordinatorLabel = "regroup session 1: coordinator";
constexpr std::string_view kAgentFrames = "regroup session 1: frames of the agent";
constexpr std::string_view kCoordinatorFrames = "regroup session 1: frames of the coordinator";

static_assert(sizeof(Bytes32) == crypto_auth_hmacsha256_BYTES);

// Once, before anything else of the library.
void prepare_sodium() {
  static const bool is_ready = sodium_init() >= 0;
  CHECK(is_ready);
}

std::string_view view_of(const Bytes32& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes32 proof(std::string_view key, std::string_view label, const Secret::Nonces& nonces) {
  std::string text(label);
  text += view_of(nonces.agent);
  text += view_of(nonces.coordinator);
  return hmac_sha256(key, text);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

}  // namespace

Bytes32 new_nonce() {
  prepare_sodium();
  Bytes32 nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

bool are_same(const Bytes32& a, const Bytes32& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Bytes32 hmac_sha256(std::string_view key, std::string_view text) {
  prepare_sodium();
  const auto bytes = [](std::string_view of) {
    return reinterpret_cast<const unsigned char*>(of.data());
  };
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(key), key.size());
  crypto_auth_hmacsha256_update(&state, bytes(text), text.size());
  Bytes32 made;
  crypto_auth_hmacsha256_final(&state, made.data());
  return made;
}

Result<Secret> Secret::read(const std::string& path) {
  // Whitespace around it is not counted, but is not without a limit either.
  constexpr std::size_t kMostInFile = 2 * kLongestSecret;
  const std::string name = "the secret file " + printable(path);
  const auto file = io::read_regular_file(path, kMostInFile);
  if (!file) return fail(file.error().kind, name + " " + file.error().message);
  const std::string_view key = trimmed(file->contents);
  if (key.size() < kShortestSecret)
    return fail(ErrorKind::InvalidArgument,
                name + " has " + std::to_string(key.size()) +
                    " bytes without the space around them, and " + std::to_string(kShortestSecret) +
                    " at the least are needed. For example: openssl rand -hex 32");
  if (key.size() > kLongestSecret || file->contents.size() > kMostInFile)
    return fail(ErrorKind::InvalidArgument,
                name + " is too long: " + std::to_string(kLongestSecret) + " bytes are the limit");
  Secret secret{std::string(key)};
  if ((file->mode & 077) != 0)
    secret.warning_ = name + " is open to other users of this machine; 'chmod 600' closes it";
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
