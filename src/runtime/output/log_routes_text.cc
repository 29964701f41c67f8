// What users write about streams, ranks and filters.
#include <optional>
#include <string>

#include "base/text.h"
#include "base/text_parts.h"
#include "regroup/logs.h"
#include "runtime/common/limits.h"

namespace regroup {
namespace {

constexpr auto kNone = std::string_view::npos;

std::optional<int> number(std::string_view text) {
  const auto value = to_number<int>(text);
  return is_all_digits(text) && value <= runtime::kHighestRank ? value : std::nullopt;
}

std::optional<Streams> streams(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') return {};
  return static_cast<Streams>(text[0] - '0');
}

tl::unexpected<Error> not_understood(std::string_view piece, std::string_view text,
                                     const char* what_is) {
  std::string message = "cannot understand " + printable(piece);
  if (piece != text) message += " in " + printable(text);
  return fail(ErrorKind::InvalidArgument, message + ": " + what_is);
}

}  // namespace

Streams StreamsByRank::of(int local_rank) const {
  if (by_rank.empty()) return everybody;
  const auto found = by_rank.find(local_rank);
  return found == by_rank.end() ? Streams::None : found->second;
}

Result<StreamsByRank> parse_streams(std::string_view text) {
  if (const auto everybody = streams(text)) return StreamsByRank{.everybody = *everybody};
  StreamsByRank parsed;
  std::string_view rest = text;
  for (bool more = true; more;) {
    more = rest.find(',') != kNone;
    const std::string_view piece = take_until(rest, ',');
    const std::size_t colon = piece.find(':');
    const auto rank = number(piece.substr(0, colon));
    const auto value = colon == kNone ? std::nullopt : streams(piece.substr(colon + 1));
    if (!rank || !value)
      return not_understood(piece, text,
                            "write 0 (none), 1 (stdout), 2 (stderr) or 3 (both), for all workers "
                            "as in '3', or by local rank as in '0:1,12:3'");
    parsed.by_rank[*rank] = *value;
  }
  return parsed;
}

Result<std::set<int>> parse_ranks(std::string_view text) {
  std::set<int> ranks;
  if (trimmed(text, " ").empty()) return ranks;
  std::string_view rest = text;
  for (bool more = true; more;) {
    more = rest.find(',') != kNone;
    const std::string_view piece = trimmed(take_until(rest, ','), " ");
    const std::size_t dash = piece.find('-');
    const auto first = number(trimmed(piece.substr(0, dash), " "));
    const auto last = dash == kNone ? first : number(trimmed(piece.substr(dash + 1), " "));
    if (!first || !last || *first > *last)
      return not_understood(piece, text, "write ranks and ranges of ranks, as in '0,8-15'");
    for (int rank = *first; rank <= *last; ++rank) ranks.insert(ranks.end(), rank);
  }
  return ranks;
}

std::vector<std::string> parse_filters(std::string_view text) {
  std::vector<std::string> filters(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == ',' && i + 1 < text.size() && text[i + 1] == ',';
    if (text[i] == ',' && !escaped) {
      filters.emplace_back();
      continue;
    }
    filters.back() += text[i];
    if (escaped) ++i;
  }
  return filters;
}

}  // namespace regroup
