#include "runtime/session/session_crypto.h"

#include <sodium.h>

#include "base/check.h"

namespace regroup::runtime {

using core::coordinator::Bytes32;

namespace {

static_assert(sizeof(Bytes32) == crypto_auth_hmacsha256_BYTES);

// Has to come before any other call of the library.
void prepare_sodium() {
  static const bool is_ready = sodium_init() >= 0;
  CHECK(is_ready);
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

}  // namespace regroup::runtime
