// A hang, from the first stall to the worker that is ended for it.
#include <algorithm>
#include <utility>

#include "base/headline.h"
#include "base/text.h"
#include "core/workers/group.h"

namespace regroup::core::workers {

using supervision::kSigKill;
using supervision::Phase;

// Whether workers are being ended already: one with much memory to free may take long to die.
bool Group::is_judged() const {
  const auto& workers = supervision_.workers();
  return supervision_.phase() != Phase::Running ||
         std::any_of(workers.begin(), workers.end(),
                     [](const auto& worker) { return worker.condemned; });
}

Effects Group::on_look(const std::vector<std::optional<hang::Sample>>& workers, Instant now) {
  if (!detector_ || is_judged()) return {};
  detector_->on_look(workers, now);
  look_at_ = detector_->next_look();
  stall_ = detector_->stalled();
  Effects effects;
  if (!stall_)
    all_say_hang_ = false;  // Whatever the others say.
  else if (!settings_.asks_others)
    all_say_hang_ = hang::is_hang(hang::votes_of(*stall_));
  if (settings_.asks_others)
    effects.emplace_back(
        SayStalled{stall_ ? std::optional(hang::votes_of(*stall_)) : std::nullopt});
  follow_hang(effects, now);
  return effects;
}

Effects Group::hear_hang(bool all_say_so, Instant now) {
  all_say_hang_ = all_say_so;
  Effects effects;
  if (!is_judged() && !taking_stacks_) follow_hang(effects, now);
  return effects;
}

void Group::follow_hang(Effects& effects, Instant now) {
  if (!stall_ || !all_say_hang_) {
    no_hang(effects);
  } else if (!hung_) {
    judge_hang(effects, now);
  } else if (others_had_their_turn(now)) {
    // We see only a part of all ranks: the one that is somewhere else than the rest may be elsewhere.
    hang::Blame ours{.summary = summary_};
    for (const hang::RankAt& one : where_)
      if (one.at.alone == hang::Alone::Certain && one.rank < ours.rank.value_or(one.rank + 1))
        ours.rank = one.rank;
    blame(effects, ours, now);
  }
}

// It was no hang, or the worker to blame has ended.
void Group::no_hang(Effects& effects) {
  if (!hung_) return;
  hung_.reset();
  others_until_.reset();
  has_stacks_ = false;
  where_.clear();
  summary_.clear();
  effects.emplace_back(ForgetStacks{});
}

void Group::judge_hang(Effects& effects, Instant now) {
  hung_ = stall_;
  const std::string line = "hang: " + hang_in_words(*hung_);
  effects.emplace_back(Tell{line + (settings_.takes_stacks ? "; taking stacks" : "")});
  if (!settings_.takes_stacks || has_stacks_) return tell_where(effects, now);
  hang_waits_ = true;
  take_stacks(effects, line, settings_.stacks_limit);
}

void Group::tell_where(Effects& effects, Instant now) {
  if (!hung_) return;  // It was no hang.
  add_what_looks_tell();
  if (!settings_.asks_others) return blame(effects, hang::blame(where_), now);
  others_until_ = now + settings_.others_turn;
  effects.emplace_back(SayWhere{where_});
}

// One look shows where a worker is, many in a row whether it has been there all the time.
void Group::add_what_looks_tell() {
  const auto has = [](const std::vector<int>& workers, std::ptrdiff_t worker) {
    return std::find(workers.begin(), workers.end(), worker) != workers.end();
  };
  for (hang::RankAt& one : where_) {
    const auto found = std::find(settings_.ranks.begin(), settings_.ranks.end(), one.rank);
    const auto worker = found - settings_.ranks.begin();
    if (one.at.alone == hang::Alone::IfStill)
      one.at.alone = has(hung_->still, worker) ? hang::Alone::Certain : hang::Alone::Unknown;
    one.at.busy = has(hung_->spinning, worker);
  }
}

Effects Group::hear_blame(const hang::Blame& blamed, Instant now) {
  Effects effects;
  blame(effects, blamed, now);
  return effects;
}

void Group::blame(Effects& effects, const hang::Blame& blamed, Instant now) {
  if (!hung_ || supervision_.phase() != Phase::Running) return;
  if (has_stacks_ && settings_.asks_others && !blamed.summary.empty() &&
      blamed.summary != summary_) {
    summary_ = blamed.summary;
    effects.emplace_back(Explain{summary_});
  }
  const auto& ranks = settings_.ranks;
  const auto found =
      blamed.rank ? std::find(ranks.begin(), ranks.end(), *blamed.rank) : ranks.end();
  auto worker = static_cast<int>(found - ranks.begin());
  if (found == ranks.end()) {
    if (blamed.rank && others_until_ && !others_had_their_turn(now)) return;
    const auto& ours = hung_->suspects.empty() ? hung_->spinning : hung_->suspects;
    if (ours.empty()) return no_hang(effects);
    worker = ours.front();
  }
  const auto& suspects = hung_->suspects;
  const bool suspect = std::find(suspects.begin(), suspects.end(), worker) != suspects.end();
  named_nobody_ = found == ranks.end();
  std::string why = "hangs: it is where no other rank is, and the run stands still";
  // Any worker will do, to end all of them: none is named in what people read.
  if (named_nobody_)
    why = std::string(kHangsUnnamed) + "which rank is to blame; workers have " +
          hang::signals_in_words(hung_->quiet);
  else if (suspect)
    why = "hangs: it has " + hang::signals_in_words(hung_->quiet);
  if (!end_worker(effects, {worker, kSigKill, why}, now)) no_hang(effects);
}

std::vector<int> Group::ranks_of(const std::vector<int>& workers) const {
  std::vector<int> ranks;
  ranks.reserve(workers.size());
  for (const int worker : workers)
    ranks.push_back(settings_.ranks[static_cast<std::size_t>(worker)]);
  return ranks;
}

std::string Group::hang_in_words(const hang::Stall& stall) const {
  if (stall.suspects.empty()) return "this node's workers wait for another's";
  std::string line = ranks_in_words(ranks_of(stall.suspects)) +
                     (stall.suspects.size() == 1 ? " has " : " have ") +
                     hang::signals_in_words(stall.quiet);
  std::vector<int> others = stall.waiting;
  others.insert(others.end(), stall.spinning.begin(), stall.spinning.end());
  if (others.empty()) return line;
  return line + ", while " + ranks_in_words(ranks_of(others)) +
         (others.size() == 1 ? " waits" : " wait");
}

}  // namespace regroup::core::workers
