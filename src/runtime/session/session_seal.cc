#include "runtime/session/session_seal.h"

#include <algorithm>
#include <string>

#include "runtime/session/session_crypto.h"

namespace regroup::runtime {

using core::coordinator::Bytes32;

Bytes32 FrameSealer::next(std::string_view frame) {
  const std::string_view key(reinterpret_cast<const char*>(key_.data()), key_.size());
  std::string text;
  text.reserve(sizeof number_ + frame.size());
  text.append(reinterpret_cast<const char*>(&number_), sizeof number_);
  text.append(frame);
  ++number_;
  return hmac_sha256(key, text);
}

void FrameSealer::seal(ByteBuffer& out, std::size_t from) {
  const Bytes32 whole = next(out.view().substr(from));
  out.append({reinterpret_cast<const char*>(whole.data()), kSealBytes});
}

bool FrameSealer::fits(std::string_view frame, std::string_view seal) {
  if (seal.size() != kSealBytes) return false;
  const Bytes32 whole = next(frame);
  Bytes32 ours{};
  Bytes32 theirs{};
  std::copy_n(whole.begin(), kSealBytes, ours.begin());
  std::copy(seal.begin(), seal.end(), theirs.begin());
  return are_same(ours, theirs);
}

}  // namespace regroup::runtime
