#include "core/output/live_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace regroup::core::output {
namespace {

std::int64_t whole_seconds(const LiveLine& line, Instant now) {
  return std::max<std::int64_t>((now - line.since) / 1s, 0);
}

std::string seconds_text(std::int64_t seconds) {
  constexpr std::int64_t kReadable = 1000;
  return seconds < kReadable ? fmt::format("{} s", seconds) : in_words(seconds * Duration(1s));
}

// Characters, not bytes: a line that is too long would wrap, and could not be wiped out.
std::string cut(std::string_view text, std::size_t columns) {
  std::string shown;
  std::size_t characters = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) continue;
    const bool begins = (byte & 0xc0) != 0x80;
    if (begins && characters++ == columns) break;
    shown += c;
  }
  return shown;
}

}  // namespace

std::string live_text(const LiveLine& line, Instant now, std::size_t columns) {
  std::string text = line.text + ", " + seconds_text(whole_seconds(line, now));
  if (line.until) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(*line.until - now).count();
    text += "; " + seconds_text(std::max<std::int64_t>(left, 0)) + " left";
  }
  return cut(text, columns);
}

Instant next_drawing(const LiveLine& line, std::optional<Instant> drawn, Instant now) {
  if (!drawn) return std::max(line.since + kQuietAtFirst, now);
  return std::max(line.since + (whole_seconds(line, *drawn) + 1) * Duration(1s),
                  *drawn + kDrawAgain);
}

}  // namespace regroup::core::output
