#include "cli/flags/node_range.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "base/text_parts.h"

namespace regroup::cli {
Result<NodeRange> parse_node_range(std::string_view text) {
  const auto colon = text.find(':');
  const auto min = python_int(text.substr(0, colon));
  const auto max = colon == std::string_view::npos ? min : python_int(text.substr(colon + 1));
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
