// Any bytes from a server must be harmless to a client. The first byte of an input chooses what the
// client expects, the second how many values it has asked for.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/store/store_protocol.h"

using namespace regroup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr int kShapes = static_cast<int>(wire::ReplyShape::KeyList) + 1;
  const auto shape = static_cast<wire::ReplyShape>(data[0] % kShapes);
  const std::size_t count = data[1];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);

  wire::ReplyParser parser(4096);
  wire::Progress fresh;
  const auto parsed = parser.parse(shape, count, bytes, fresh);
  if (const auto* more = std::get_if<wire::NeedMore>(&parsed)) CHECK(more->at_least > bytes.size());
  const auto* whole = std::get_if<wire::Whole<core::store::Reply>>(&parsed);
  if (whole == nullptr) return 0;

  CHECK(whole->size <= bytes.size());
  ByteBuffer again;
  if (shape != wire::ReplyShape::None) wire::append_reply(again, whole->message);
  CHECK(again.view() == bytes.substr(0, whole->size));
  wire::ReplyParser other(4096);
  wire::Progress progress;
  for (std::size_t cut = 0; cut < whole->size; ++cut) {
    const auto part = other.parse(shape, count, bytes.substr(0, cut), progress);
    CHECK(std::holds_alternative<wire::NeedMore>(part));
    CHECK(std::get<wire::NeedMore>(part).at_least <= whole->size);
  }
  return 0;
}
