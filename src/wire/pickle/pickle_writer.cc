#include "wire/pickle/pickle_writer.h"

#include <array>
#include <limits>

#include "base/check.h"
#include "wire/bytes/python_text.h"
#include "wire/pickle/pickle_time.h"

namespace regroup::wire {

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value <= std::numeric_limits<std::uint8_t>::max()) {
    op(Opcode::BinInt1);
    little_endian(static_cast<std::uint8_t>(value));
  } else if (value >= 0 && value <= std::numeric_limits<std::uint16_t>::max()) {
    op(Opcode::BinInt2);
    little_endian(static_cast<std::uint16_t>(value));
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    op(Opcode::BinInt);
    little_endian(static_cast<std::int32_t>(value));
  } else {
    op(Opcode::Long1);
    little_endian(static_cast<std::uint8_t>(sizeof value));
    little_endian(value);
  }
}

void PickleWriter::text(std::string_view utf8) {
  CHECK(is_python_text(utf8));  // A torchrun node would die of anything else.
  if (utf8.size() <= std::numeric_limits<std::uint8_t>::max()) {
    op(Opcode::ShortBinUnicode);
    little_endian(static_cast<std::uint8_t>(utf8.size()));
  } else {
    CHECK(utf8.size() <= std::numeric_limits<std::uint32_t>::max());
    op(Opcode::BinUnicode);
    little_endian(static_cast<std::uint32_t>(utf8.size()));
  }
  out_.append(utf8);
}

void PickleWriter::bytes(std::string_view raw) {
  CHECK(raw.size() <= std::numeric_limits<std::uint8_t>::max());
  op(Opcode::ShortBinBytes);
  little_endian(static_cast<std::uint8_t>(raw.size()));
  out_.append(raw);
}

void PickleWriter::datetime_bytes(std::int64_t micros) {
  const std::array<char, 10> raw = write_datetime(micros);
  bytes({raw.data(), raw.size()});
}

void PickleWriter::get(std::uint32_t number) {
  if (number <= std::numeric_limits<std::uint8_t>::max()) {
    op(Opcode::BinGet);
    little_endian(static_cast<std::uint8_t>(number));
  } else {
    op(Opcode::LongBinGet);
    little_endian(number);
  }
}

}  // namespace regroup::wire
