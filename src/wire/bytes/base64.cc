#include "wire/bytes/base64.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>

#include "base/text.h"

namespace regroup::wire {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr char kPadding = '=';
constexpr std::uint32_t kForeign = 1u << 24;  // Above every value of three bytes.

// The value of a character, already moved to its place among four: one look-up and one `or` each.
using Column = std::array<std::uint32_t, 256>;

constexpr std::array<Column, 4> make_columns() {
  std::array<Column, 4> columns{};
  for (unsigned place = 0; place < 4; ++place) {
    columns[place].fill(kForeign);
    for (std::uint32_t value = 0; value < 64; ++value)
      columns[place][static_cast<unsigned char>(kAlphabet[value])] = value << (18 - 6 * place);
  }
  return columns;
}

constexpr std::array<Column, 4> kColumns = make_columns();

std::uint32_t value_of(const char* four) {
  std::uint32_t value = 0;
  for (unsigned place = 0; place < 4; ++place)
    value |= kColumns[place][static_cast<unsigned char>(four[place])];
  return value;
}

void put(char* out, std::uint32_t three_bytes, unsigned count) {
  for (unsigned i = 0; i < count; ++i) out[i] = static_cast<char>(three_bytes >> (16 - 8 * i));
}

tl::unexpected<Error> corrupt(const std::string& what) {
  return fail(ErrorKind::Protocol, "this is no base64: " + what);
}

tl::unexpected<Error> foreign(std::string_view text, std::size_t from) {
  while (kColumns[0][static_cast<unsigned char>(text[from])] != kForeign) ++from;
  return corrupt(fmt::format("the character {} at {} does not belong there",
                             printable(text.substr(from, 1)), from));
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, kPadding);
  char* out = text.data();
  const auto byte = [&](std::size_t at) -> std::uint32_t {
    return static_cast<unsigned char>(bytes[at]);
  };
  const auto put_digits = [&](std::uint32_t value, unsigned count) {
    for (unsigned i = 0; i < count; ++i) out[i] = kAlphabet[value >> (18 - 6 * i) & 63];
    out += count;
  };
  std::size_t at = 0;
  for (; at + 3 <= bytes.size(); at += 3)
    put_digits(byte(at) << 16 | byte(at + 1) << 8 | byte(at + 2), 4);
  if (bytes.size() - at == 1) put_digits(byte(at) << 16, 2);
  if (bytes.size() - at == 2) put_digits(byte(at) << 16 | byte(at + 1) << 8, 3);
  return text;
}

Result<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    return corrupt(fmt::format("a length of {} is no multiple of 4", text.size()));
  if (text.empty()) return std::string();
  const unsigned padding = text.ends_with("==") ? 2 : text.ends_with(kPadding) ? 1 : 0;
  const std::size_t whole = text.size() - (padding > 0 ? 4 : 0);

  std::string bytes(text.size() / 4 * 3 - padding, '\0');
  char* out = bytes.data();
  for (std::size_t at = 0; at < whole; at += 4, out += 3) {
    const std::uint32_t value = value_of(text.data() + at);
    if (value >= kForeign) return foreign(text, at);
    put(out, value, 3);
  }
  if (padding > 0) {
    std::array<char, 4> last{'A', 'A', 'A', 'A'};  // 'A' is zero.
    text.copy(last.data(), 4 - padding, whole);
    const std::uint32_t value = value_of(last.data());
    if (value >= kForeign) return foreign(text, whole);
    put(out, value, 3 - padding);
    if ((value & ((1u << 8 * padding) - 1)) != 0)
      return corrupt("the last character before the padding has bits that belong to no byte");
  }
  return bytes;
}

}  // namespace regroup::wire
