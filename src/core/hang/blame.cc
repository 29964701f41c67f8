#include "core/hang/blame.h"

#include <algorithm>
#include <map>
#include <string_view>

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

// Of the program: the same for two ranks whose system calls differ. Empty: not known.
std::string_view place_of(const Whereabouts& at) {
  if (at.collective) return at.words;
  constexpr std::string_view kAt = " at ";
  const std::size_t found = at.words.find(kAt);
  return found == std::string::npos ? "" : std::string_view(at.words).substr(found + kAt.size());
}

// The one rank of which this is true. Empty: it is true of none, or of several.
template <class Is>
std::optional<int> only_one(const std::vector<RankAt>& ranks, Is is) {
  if (std::count_if(ranks.begin(), ranks.end(), is) != 1) return std::nullopt;
  return std::find_if(ranks.begin(), ranks.end(), is)->rank;
}

std::optional<int> who_is_to_blame(const std::vector<RankAt>& ranks) {
  // One other rank is no majority: of two, each is where the other is not.
  constexpr std::size_t kOfAMajority = 3;
  if (ranks.empty()) return std::nullopt;
  if (ranks.size() == 1) return ranks.front().rank;
  std::vector<int> alone;
  for (const RankAt& one : ranks)
    if (one.at.alone == Alone::Certain) alone.push_back(one.rank);
  if (!alone.empty() && alone.size() < ranks.size())
    return *std::min_element(alone.begin(), alone.end());
  if (const auto one = only_one(ranks, [](const RankAt& rank) { return !rank.at.collective; }))
    return one;
  if (ranks.size() < kOfAMajority) return std::nullopt;
  if (const auto one = only_one(ranks, [](const RankAt& rank) { return !rank.at.busy; }))
    return one;
  std::map<std::string_view, std::vector<int>> places;
  for (const RankAt& one : ranks) places[place_of(one.at)].push_back(one.rank);
  if (places.size() != 2 || places.contains("")) return std::nullopt;
  for (const auto& [place, there] : places)
    if (there.size() == 1) return there.front();
  return std::nullopt;
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

Blame blame(const std::vector<RankAt>& ranks) {
  return {.rank = who_is_to_blame(ranks), .summary = where_they_are(ranks)};
}

}  // namespace regroup::core::hang
