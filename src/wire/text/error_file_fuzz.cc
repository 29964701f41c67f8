// Any bytes in an error file must be harmless to the launcher, and any text must survive the file.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/text/error_file.h"

using namespace regroup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto stays_the_same = [](const wire::ErrorFile& file) {
    const std::string text = wire::encode_error_file(file);
    CHECK(text.size() <= wire::kErrorFileBytes);
    for (const char c : text) CHECK(c >= ' ' && c < '\x7f');
    const auto read = wire::decode_error_file(text);
    CHECK(read && read->structured);
    CHECK(read->timestamp == file.timestamp && read->error_code == file.error_code);
    CHECK(wire::encode_error_file(*read) == text);
    // It ends with its last byte, so no prefix of it is valid.
    const std::size_t step = 1 + text.size() / 16;
    for (std::size_t cut = 0; cut < text.size(); cut += step)
      CHECK(!wire::decode_error_file(std::string_view(text).substr(0, cut)));
    return *read;
  };

  if (auto file = wire::decode_error_file(bytes)) {
    if (!file->message.empty()) {
      const wire::ErrorFile again = stays_the_same(*file);
      file->structured = true;
      if (file->message.size() * 6 < wire::kErrorMessageBytes &&
          file->call_stack.size() * 6 < wire::kCallStackBytes)
        CHECK(again == *file);
    }
  } else {
    CHECK(file.error().kind == ErrorKind::Corrupt && !file.error().message.empty());
  }

  stays_the_same({.message = "E", .call_stack = std::string(bytes), .timestamp = 7});
  if (!bytes.empty()) stays_the_same({.message = std::string(bytes), .error_code = -9});
  return 0;
}
