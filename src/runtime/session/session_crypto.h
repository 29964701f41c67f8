// The few things that proofs and seals are made of.
#pragma once

#include <string_view>

#include "core/coordinator/messages.h"

namespace regroup::runtime {

// From the kernel; no two are alike.
core::coordinator::Bytes32 new_nonce();

// Takes as long whether they are alike or not, and wherever they differ.
bool are_same(const core::coordinator::Bytes32& a, const core::coordinator::Bytes32& b);

core::coordinator::Bytes32 hmac_sha256(std::string_view key, std::string_view text);

}  // namespace regroup::runtime
