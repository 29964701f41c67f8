// The cryptography of proofs and seals.
#pragma once

#include <string_view>

#include "core/coordinator/messages.h"

namespace regroup::runtime {

// Random bytes from the kernel: no two nonces are the same.
core::coordinator::Bytes32 new_nonce();

// Takes the same time whether they are equal or not, and wherever they differ.
bool are_same(const core::coordinator::Bytes32& a, const core::coordinator::Bytes32& b);

core::coordinator::Bytes32 hmac_sha256(std::string_view key, std::string_view text);

}  // namespace regroup::runtime
