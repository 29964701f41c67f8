#include "core/hang/blame.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace regroup::core::hang {
namespace {

std::string verb(const Whereabouts& at, bool one) {
  if (at.collective) return one ? " waits " : " wait ";
  return one ? " is " : " are ";
}

std::map<std::string, std::vector<int>> lots_of(const std::vector<RankAt>& ranks, bool collective) {
  std::map<std::string, std::vector<int>> lots;
  for (const RankAt& rank : ranks)
    if (rank.at.collective == collective) lots[rank.at.words].push_back(rank.rank);
  return lots;
}

}  // namespace

std::string where_they_are(const std::vector<RankAt>& ranks) {
  std::string text;
  for (const bool collective : {true, false})
    for (const auto& [words, lot] : lots_of(ranks, collective)) {
      if (!text.empty()) text += "; ";
      text += ranks_in_words(lot) + verb({words, collective}, lot.size() == 1) + words;
    }
  return text;
}

std::vector<int> odd_ones(const std::vector<RankAt>& ranks) {
  const auto waiting = lots_of(ranks, true);
  const auto others = lots_of(ranks, false);
  auto candidates = others;
  if (others.empty()) candidates = waiting;
  if (candidates.empty() || (waiting.size() + others.size() == 1)) return {};
  const auto smaller = [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  };
  auto least = std::min_element(candidates.begin(), candidates.end(), smaller);
  const bool alone = std::count_if(candidates.begin(), candidates.end(), [&](const auto& lot) {
                       return lot.second.size() == least->second.size();
                     }) == 1;
  // Where some ranks wait for the others, any of the others may be the culprit.
  if (!alone && (waiting.empty() || others.empty())) return {};
  std::vector<int> odd;
  for (const auto& [words, lot] : candidates)
    if (lot.size() == least->second.size()) odd.insert(odd.end(), lot.begin(), lot.end());
  std::sort(odd.begin(), odd.end());
  return odd;
}

Blame blame(const std::vector<RankAt>& ranks) {
  if (ranks.empty()) return {};
  const std::vector<int> odd = odd_ones(ranks);
  const auto first = std::min_element(
      ranks.begin(), ranks.end(), [](const RankAt& a, const RankAt& b) { return a.rank < b.rank; });
  return {.rank = odd.empty() ? first->rank : odd.front(), .summary = where_they_are(ranks)};
}

}  // namespace regroup::core::hang
