// Any bytes in a store's file must be harmless to its readers.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "wire/store/file_log.h"

using namespace regroup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  while (const auto record = wire::parse_file_record(bytes)) {
    CHECK(record->size >= 8 && record->size <= bytes.size());
    ByteBuffer again;
    if (record->deletes)
      wire::append_file_deletion(again, record->key);
    else
      wire::append_file_record(again, record->key, record->value);
    const auto read = wire::parse_file_record(again.view());
    CHECK(read && read->key == record->key && read->value == record->value);
    for (std::size_t cut = 0; cut < again.size(); ++cut)
      CHECK(!wire::parse_file_record(again.view().substr(0, cut)));
    bytes.remove_prefix(record->size);
  }
  return 0;
}
