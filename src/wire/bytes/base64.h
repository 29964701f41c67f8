// Base64 as the rendezvous keeps its state in a store: standard alphabet, padded, no line breaks.
#pragma once

#include <string>
#include <string_view>

#include "regroup/result.h"

namespace regroup::wire {

std::string encode_base64(std::string_view bytes);

// Accepts what encode_base64 writes and nothing else; ErrorKind::Protocol says what is wrong and
// where. Python's decoder skips foreign characters; that hides a damaged value, so we refuse them.
Result<std::string> decode_base64(std::string_view text);

}  // namespace regroup::wire
