// The file of a FileStore: an append-only log of records, without a header.
//
//   record = u32 key length, key, u32 value length, value      (little-endian)
//
// The last record of a key wins. A key that begins with '-' deletes the rest of its name.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/byte_buffer.h"

namespace regroup::wire {

struct FileRecord {
  std::string_view key;  // As stored: user keys with their '/', internal keys without.
  std::string_view value;
  bool deletes = false;
  std::size_t size = 0;  // In the file.
};

// Empty if the bytes end inside a record: its writer died, or its disk was full.
std::optional<FileRecord> parse_file_record(std::string_view bytes);

void append_file_record(ByteBuffer& out, std::string_view key, std::string_view value);
void append_file_deletion(ByteBuffer& out, std::string_view key);

// Whether these bytes, at the beginning of a file and without a whole record, may be a record that
// its writer did not finish; a text or program that was named by mistake is not.
bool may_begin_file(std::string_view bytes);

}  // namespace regroup::wire
