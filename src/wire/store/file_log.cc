#include "wire/store/file_log.h"

#include <cstdint>

#include "base/check.h"
#include "wire/bytes/byte_reader.h"

namespace regroup::wire {
namespace {

constexpr char kDeletion = '-';

void append_text(ByteBuffer& out, std::string_view prefix, std::string_view text) {
  const std::size_t length = prefix.size() + text.size();
  CHECK(length <= UINT32_MAX);
  out.append_u32(static_cast<std::uint32_t>(length));
  out.append(prefix);
  out.append(text);
}

}  // namespace

std::optional<FileRecord> parse_file_record(std::string_view bytes) {
  ByteReader reader(bytes, SIZE_MAX);
  const std::string_view key = reader.bytes(reader.number<std::uint32_t>());
  const std::string_view value = reader.bytes(reader.number<std::uint32_t>());
  if (!reader.ok()) return std::nullopt;
  if (key.starts_with(kDeletion)) return FileRecord{key.substr(1), {}, true, reader.position()};
  return FileRecord{key, value, false, reader.position()};
}

bool may_begin_file(std::string_view bytes) {
  // Four letters, read as a length, would be much longer.
  constexpr std::uint32_t kLongestKey = 1 << 24;
  ByteReader reader(bytes, SIZE_MAX);
  const auto key_length = reader.number<std::uint32_t>();
  return !reader.ok() || key_length <= kLongestKey;
}

void append_file_record(ByteBuffer& out, std::string_view key, std::string_view value) {
  append_text(out, {}, key);
  append_text(out, {}, value);
}

void append_file_deletion(ByteBuffer& out, std::string_view key) {
  append_text(out, {&kDeletion, 1}, key);
  append_text(out, {}, {});
}

}  // namespace regroup::wire
