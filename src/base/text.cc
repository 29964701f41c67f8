#include "base/text.h"

namespace regroup {

std::string printable(std::string_view bytes) {
  constexpr std::size_t kMost = 120;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "'";
  for (const char c : bytes.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\'' && c != '\\') {
      text += c;
    } else {
      text += "\\x";
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
  }
  text += '\'';
  if (bytes.size() > kMost) text += "… (" + std::to_string(bytes.size()) + " bytes)";
  return text;
}

}  // namespace regroup
