// Any bytes in the store must be harmless to a node that reads the rendezvous state.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/bytes/base64.h"
#include "wire/rendezvous/rendezvous_state.h"

using namespace regroup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string text = wire::encode_base64(bytes);
  CHECK(wire::decode_base64(text) == bytes);
  // One text for one value: what is accepted is what would be written.
  if (const auto decoded = wire::decode_base64(bytes))
    CHECK(wire::encode_base64(*decoded) == bytes);

  const auto state = wire::decode_state(bytes);
  if (!state) {
    const ErrorKind kind = state.error().kind;
    CHECK(kind == ErrorKind::Protocol || kind == ErrorKind::Unsupported);
    CHECK(!state.error().message.empty());
    return 0;
  }
  const std::string again = wire::encode_state(*state);
  const auto read = wire::decode_state(again);
  CHECK(read && *read == *state);
  CHECK(wire::encode_state(*read) == again);
  // A pickle ends with its last byte, so no prefix of one is valid. Long ones are cut in fewer
  // places: each cut costs the reading of everything before it.
  const std::size_t step = 1 + again.size() / 64;
  for (std::size_t cut = 0; cut < again.size(); cut += step)
    CHECK(!wire::decode_state(std::string_view(again).substr(0, cut)));
  return 0;
}
