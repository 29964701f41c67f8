// Whether a run without a coordinator hangs: its nodes tell each other through the round's store.
#include <fmt/core.h>

#include <cstdio>
#include <utility>

#include "core/hang/council.h"
#include "runtime/rounds/shared_rounds.h"
#include "wire/text/stack_dump.h"

namespace regroup::runtime {
namespace {

// Followed by the node's rank: "suspects spinning" while its workers are stalled, kEnded once they
// have ended well, else nothing.
constexpr const char* kStalledKey = "regroup/stalled/";
constexpr const char* kEnded = "ended";
// Followed by the node's rank: where its workers are, once the run is found to hang.
constexpr const char* kWhereKey = "regroup/where/";

std::string votes_text(const core::hang::Votes& votes) {
  return fmt::format("{} {}", votes.suspects, votes.spinning);
}

std::optional<core::hang::Votes> parse_votes(const std::string& text) {
  core::hang::Votes votes;
  char end = 0;
  if (std::sscanf(text.c_str(), "%d %d%c", &votes.suspects, &votes.spinning, &end) != 2) return {};
  return votes;
}

}  // namespace

std::string SharedRounds::key(const char* of, std::int64_t node) const {
  return fmt::format("{}{}{}", of, start_, node);
}

void SharedRounds::say_stalled(std::optional<core::hang::Votes> votes) {
  const std::lock_guard lock(mutex_);
  votes_ = votes;
  ++looks_;
  if (!votes) where_.reset();
}

void SharedRounds::tell_hang(bool hangs) {
  if (std::exchange(hangs_, hangs) != hangs) post([this, hangs] { events_.hangs(hangs); });
}

// Asks the store for nothing while this node is not stalled. `told`: what the others know of us.
void SharedRounds::exchange_stalls(std::string& told) {
  std::optional<core::hang::Votes> mine;
  std::uint64_t looks = 0;
  {
    const std::lock_guard lock(mutex_);
    mine = votes_;
    looks = looks_;
  }
  Store& store = *info_->store;
  const auto key_of = [&](std::int64_t node) { return key(kStalledKey, node); };
  const std::string text = mine ? votes_text(*mine) : "";
  if (text != told && store.set(key_of(info_->rank), text)) told = text;
  if (!mine) return tell_hang(false);
  core::hang::Votes all = *mine;
  std::set<std::int64_t> ended;
  for (std::int64_t node = 0; node < info_->world_size; ++node) {
    if (node == info_->rank) continue;
    const auto there = store.check({key_of(node)});
    if (!there || !*there) return;
    const auto said = store.get(key_of(node));
    if (said && *said == kEnded) {
      ended.insert(node);
      continue;
    }
    const auto votes = said ? parse_votes(*said) : std::nullopt;
    if (!votes) return tell_hang(false);
    all.suspects += votes->suspects;
    all.spinning += votes->spinning;
  }
  // The end of a node's workers is progress, as for core::hang::Council.
  if (std::exchange(ended_, ended) != ended) looks_then_ = looks;
  if (!ended_.empty() && looks - looks_then_ < core::hang::kLooksAfterAnEnd)
    return tell_hang(false);
  tell_hang(core::hang::is_hang(all));
}

// Workers elsewhere that wait for ours from now on hang, and we have nothing to say about that.
void SharedRounds::say_ended() {
  if (info_->world_size > 1) (void)info_->store->set(key(kStalledKey, info_->rank), kEnded);
}

void SharedRounds::say_where(std::vector<core::hang::RankAt> ours) {
  const std::lock_guard lock(mutex_);
  where_ = wire::encode_ranks(ours);
}

void SharedRounds::exchange_where() {
  std::optional<std::string> ours;
  {
    const std::lock_guard lock(mutex_);
    ours = where_;
  }
  if (!ours) return;
  Store& store = *info_->store;
  Store::Keys keys;
  keys.reserve(static_cast<std::size_t>(info_->world_size));
  for (std::int64_t node = 0; node < info_->world_size; ++node)
    if (!ended_.contains(node)) keys.push_back(key(kWhereKey, node));
  if (!store.set(key(kWhereKey, info_->rank), *ours)) return;
  if (const auto there = store.check(keys); !there || !*there) return;
  std::vector<core::hang::RankAt> all;
  for (const std::string& key : keys) {
    const auto text = store.get(key);
    if (!text) return;
    for (core::hang::RankAt& one : wire::decode_ranks(*text)) all.push_back(std::move(one));
  }
  {
    const std::lock_guard lock(mutex_);
    where_.reset();
  }
  post([this, blame = core::hang::blame(all)] { events_.blamed(blame); });
}

}  // namespace regroup::runtime
