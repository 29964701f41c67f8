// Any bytes in a report must be harmless to the program that asked for it.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/session/run_status.h"

using namespace regroup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto status = wire::decode_status(bytes);
  if (!status) {
    CHECK(status.error().kind == ErrorKind::Corrupt && !status.error().message.empty());
    return 0;
  }
  const std::string text = wire::encode_status(*status);
  for (const char c : text) CHECK(c >= ' ' && c < '\x7f');
  const auto read = wire::decode_status(text);
  CHECK(read && wire::encode_status(*read) == text);
  return 0;
}
