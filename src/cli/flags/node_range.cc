#include "cli/flags/node_range.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "base/text.h"

namespace regroup::cli {
namespace {

std::optional<std::int64_t> parse_count(std::string_view digits) {
  std::int64_t count = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, count);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return count;
}

}  // namespace

Result<NodeRange> parse_node_range(std::string_view text) {
  const auto colon = text.find(':');
  const auto min = parse_count(text.substr(0, colon));
  const auto max = colon == std::string_view::npos ? min : parse_count(text.substr(colon + 1));
  if (!min || !max)
    return fail(
        ErrorKind::InvalidArgument,
        printable(text) + " is no number of nodes. Write it like 4, or 2:8 for two to eight");
  return NodeRange{.min = *min, .max = *max};
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    if (comma > begin) names.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return names;
}

}  // namespace regroup::cli
