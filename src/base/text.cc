#include "base/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

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
  if (bytes.size() > kMost) text += fmt::format("… ({} bytes)", bytes.size());
  return text;
}

std::string in_words(Duration duration) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(duration).count();
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
}

std::string size_in_words(std::uint64_t bytes) {
  constexpr std::uint64_t kStep = 1024;
  if (bytes < kStep) return fmt::format("{} B", bytes);
  std::uint64_t unit = kStep;
  for (const char* name : {" KiB", " MiB", " GiB", " TiB"}) {
    const std::uint64_t tenths = bytes / unit * 10 + (bytes % unit * 10 + unit / 2) / unit;
    // Rounded before it is compared, or a value just below a unit would read "1024.0 MiB".
    if (tenths < kStep * 10 || name == std::string_view(" TiB"))
      return fmt::format("{}.{}{}", tenths / 10, tenths % 10, name);
    unit *= kStep;
  }
  return {};
}

std::string in_ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string ranks_in_words(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return (ranks.size() == 1 ? "rank " : "ranks ") + in_ranges(ranks);
}

}  // namespace regroup
