#include "core/output/line_cutter.h"

#include <algorithm>

#include "base/check.h"
#include "core/output/arranger.h"
#include "core/output/limits.h"

namespace regroup::core::output {
namespace {

constexpr auto kNowhere = std::string_view::npos;

bool is_visible(std::string_view text) { return text.find_first_not_of(" \t\r") != kNowhere; }

}  // namespace

Cuts LineCutter::push(std::string_view bytes, Instant now) {
  CHECK(bytes.size() <= kLongestLine);
  Cuts cuts;
  if (given_.capacity() > kIdleLine) given_ = {};
  if (bytes.empty()) return cuts;

  const std::size_t line_end = held_.empty() ? kNowhere : bytes.find('\n');
  if (!held_.empty() && held_.size() + std::min(line_end, bytes.size()) > kLongestLine) {
    const std::size_t fits = kLongestLine - held_.size();
    held_ += bytes.substr(0, fits);
    held_ += '\n';
    give_held(cuts);
    end_line();
    bytes.remove_prefix(fits);
  }

  const std::size_t last_end = bytes.rfind('\n');
  if (last_end == kNowhere) {
    hold(bytes, now, cuts);
    return cuts;
  }
  std::string_view whole = bytes.substr(0, last_end + 1);
  if (!held_.empty()) {
    const std::string_view rest = whole.substr(0, line_end);
    if (drawn_ && !news_ && rest.find_first_not_of('\r') == kNowhere) {
      held_.clear();  // The end of a bar whose last state was given.
    } else {
      held_ += whole.substr(0, line_end + 1);
      give_held(cuts);
    }
    whole.remove_prefix(line_end + 1);
  }
  if (!whole.empty()) cuts.add(whole);
  end_line();
  hold(bytes.substr(last_end + 1), now, cuts);
  return cuts;
}

void LineCutter::hold(std::string_view rest, Instant now, Cuts& cuts) {
  if (rest.empty()) return;
  has_bar_ = has_bar_ || rest.find('\r') != kNowhere;
  if (has_bar_ && rules_.bar && *rules_.bar <= Duration{}) {
    if (held_.empty()) {
      cuts.add(rest);
    } else {
      held_ += rest;
      give_held(cuts);
    }
    has_bar_ = false;
    begun_ = true;
    return;
  }
  if (held_.empty()) first_ = now;
  last_ = now;
  held_ += rest;
  if (has_bar_ && rules_.last_segment_only) {
    held_.erase(0, held_.size() - last_segment(held_).size());
    has_bar_ = held_.back() == '\r';
    if (!drawn_ && rules_.bar_state) state_due_ = now + *rules_.bar_state;
    drawn_ = rules_.bar_state.has_value();
  }
  // A bar that is wiped out with spaces has no state.
  if (drawn_) news_ = is_visible(rest) ? is_visible(held_) : news_ && is_visible(held_);
}

void LineCutter::end_line() {
  begun_ = false;
  drawn_ = false;
  news_ = false;
}

// Only once in a call: the view of an earlier time would point to what is overwritten.
void LineCutter::give_held(Cuts& cuts) {
  given_.swap(held_);
  held_.clear();
  if (held_.capacity() > kIdleLine) held_ = {};
  has_bar_ = false;
  cuts.add(given_);
}

// The state stays held: more of it may come, and then all of it is given.
void LineCutter::give_state(Instant now, Cuts& cuts) {
  given_.assign(held_, 0, held_.find_last_not_of('\r') + 1);
  given_ += '\n';
  cuts.add(given_);
  news_ = false;
  state_due_ = now + *rules_.bar_state;
}

Cuts LineCutter::expire(Instant now) {
  Cuts cuts;
  const auto deadline = next_deadline();
  if (!deadline || now < *deadline) return cuts;
  if (drawn_ && news_ && state_due_ <= now) {
    give_state(now, cuts);
    return cuts;
  }
  give_held(cuts);
  begun_ = true;
  return cuts;
}

std::optional<Instant> LineCutter::next_deadline() const {
  if (held_.empty()) return {};
  std::optional<Instant> deadline;
  if (drawn_ && news_) deadline = state_due_;
  if (rules_.quiet) deadline = last_ + *rules_.quiet;
  if (rules_.bar && has_bar_) {
    const Instant at = first_ + *rules_.bar;
    deadline = deadline ? std::min(*deadline, at) : at;
  }
  return deadline;
}

Cuts LineCutter::finish() {
  Cuts cuts;
  const bool is_said = drawn_ && !news_;
  if (is_said) held_.clear();
  if (!held_.empty() || (begun_ && !is_said)) {
    held_ += '\n';
    give_held(cuts);
  }
  end_line();
  return cuts;
}

}  // namespace regroup::core::output
