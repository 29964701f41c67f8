#include "core/supervision/leftovers.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace regroup::core::supervision {
namespace {

// Helpers of a Python worker see that it is gone, and end within this: nobody needs to hear of them.
constexpr Duration kSettle = 200ms;
// How often people hear what is waited for: after a minute, then after two, four and so on.
constexpr Duration kTellPause = 60s;
constexpr std::size_t kMostNames = 5;

}  // namespace

std::string names_of(const std::vector<Left>& left) {
  std::string names;
  for (std::size_t i = 0; i < std::min(left.size(), kMostNames); ++i)
    names += fmt::format("{}{} (pid {})", i == 0 ? "" : ", ", printable(left[i].name), left[i].pid);
  if (left.size() > kMostNames) names += fmt::format(" and {} more", left.size() - kMostNames);
  return names;
}

Leftovers::Leftovers(const Settings& settings, Instant now)
    : settings_(settings), settled_(now + kSettle) {}

Leftovers::Verdict Leftovers::on_left(const std::vector<Left>& left, Instant now) {
  Verdict verdict;
  next_look_.reset();
  if (left.empty()) {
    verdict.next = Verdict::Next::StopAll;
    return verdict;
  }
  if (now < settled_) {
    next_look_ = settled_;
    return verdict;
  }
  std::vector<Left> stayed;
  std::vector<Left> away;
  std::partition_copy(left.begin(), left.end(), std::back_inserter(away),
                      std::back_inserter(stayed), [](const Left& one) { return one.is_away; });
  if (settings_.rule == AwayRule::End) {
    verdict.next = Verdict::Next::StopAll;
    verdict.tell = fmt::format("the workers have succeeded; ending what they left running: {}{}",
                               names_of(left), away.empty() ? "" : " (--children)");
    return verdict;
  }
  if (!stayed.empty()) end_stayed(verdict, stayed, now);
  if (away.empty() || verdict.next != Verdict::Next::LookAgain) return verdict;
  verdict.has_succeeded = !std::exchange(has_told_success_, true);
  if (settings_.rule == AwayRule::Wait) {
    wait_for(verdict, away, now);
  } else if (may_go_ && stayed.empty()) {
    verdict.next = Verdict::Next::LetGo;
    verdict.tell = fmt::format("left running (--children=leave): {}", names_of(away));
  }
  return verdict;
}

void Leftovers::end_stayed(Verdict& verdict, const std::vector<Left>& stayed, Instant now) {
  if (!stayed_limit_) {
    stayed_limit_ = now + settings_.grace;
    verdict.signal_stayed = settings_.grace > Duration{} ? settings_.stop_signal : kSigKill;
    verdict.tell = fmt::format("the workers have succeeded; ending what they left running: {}",
                               names_of(stayed));
  } else if (now >= *stayed_limit_ + settings_.kill_wait) {
    verdict.next = Verdict::Next::KillAll;
  } else if (now >= *stayed_limit_) {
    verdict.signal_stayed = kSigKill;
  } else {
    next_look_ = *stayed_limit_;
  }
}

void Leftovers::wait_for(Verdict& verdict, const std::vector<Left>& away, Instant now) {
  if (!wait_until_) {
    wait_until_ = now + settings_.wait;
    tell_pause_ = kTellPause;
    tell_again_ = now + tell_pause_;
    verdict.tell += fmt::format(
        "{}waiting {} at most for {}, in a session of its own (--children=wait:TIME waits longer, "
        "end does not wait, leave leaves it running)",
        verdict.tell.empty() ? "the workers have succeeded; " : "; ", in_words(settings_.wait),
        names_of(away));
  } else if (now >= *wait_until_) {
    verdict.next = Verdict::Next::StopAll;
    verdict.tell = fmt::format("ending {}, which did not end within {} (--children)",
                               names_of(away), in_words(settings_.wait));
    return;
  } else if (now >= tell_again_) {
    tell_pause_ = tell_pause_ * 2;
    tell_again_ = now + tell_pause_;
    verdict.tell = fmt::format("still waiting for {}, {} more at most (--children)", names_of(away),
                               in_words(*wait_until_ - now));
  }
  const Instant next = std::min(*wait_until_, tell_again_);
  if (!next_look_ || next < *next_look_) next_look_ = next;
}

}  // namespace regroup::core::supervision
