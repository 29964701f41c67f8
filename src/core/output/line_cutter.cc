#include "core/output/line_cutter.h"

#include <algorithm>

#include "base/check.h"
#include "core/output/arranger.h"
#include "core/output/limits.h"

namespace regroup::core::output {

Cuts LineCutter::push(std::string_view bytes, Instant now) {
  CHECK(bytes.size() <= kLongestLine);
  Cuts cuts;
  if (given_.capacity() > kIdleLine) given_ = {};
  if (bytes.empty()) return cuts;

  const std::size_t line_end = held_.empty() ? std::string_view::npos : bytes.find('\n');
  if (!held_.empty() && held_.size() + std::min(line_end, bytes.size()) > kLongestLine) {
    const std::size_t fits = kLongestLine - held_.size();
    held_ += bytes.substr(0, fits);
    held_ += '\n';
    give_held(cuts);
    begun_ = false;
    bytes.remove_prefix(fits);
  }

  const std::size_t last_end = bytes.rfind('\n');
  if (last_end == std::string_view::npos) {
    hold(bytes, now, cuts);
    return cuts;
  }
  std::string_view whole = bytes.substr(0, last_end + 1);
  if (!held_.empty()) {
    held_ += whole.substr(0, line_end + 1);
    give_held(cuts);
    whole.remove_prefix(line_end + 1);
  }
  if (!whole.empty()) cuts.add(whole);
  begun_ = false;
  hold(bytes.substr(last_end + 1), now, cuts);
  return cuts;
}

void LineCutter::hold(std::string_view rest, Instant now, Cuts& cuts) {
  if (rest.empty()) return;
  has_bar_ = has_bar_ || rest.find('\r') != std::string_view::npos;
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
  }
}

// Only once in a call: the view of an earlier time would point to what is overwritten.
void LineCutter::give_held(Cuts& cuts) {
  given_.swap(held_);
  held_.clear();
  if (held_.capacity() > kIdleLine) held_ = {};
  has_bar_ = false;
  cuts.add(given_);
}

Cuts LineCutter::expire(Instant now) {
  Cuts cuts;
  const auto deadline = next_deadline();
  if (!deadline || now < *deadline) return cuts;
  give_held(cuts);
  begun_ = true;
  return cuts;
}

std::optional<Instant> LineCutter::next_deadline() const {
  if (held_.empty()) return {};
  std::optional<Instant> deadline;
  if (rules_.quiet) deadline = last_ + *rules_.quiet;
  if (rules_.bar && has_bar_) {
    const Instant at = first_ + *rules_.bar;
    deadline = deadline ? std::min(*deadline, at) : at;
  }
  return deadline;
}

Cuts LineCutter::finish() {
  Cuts cuts;
  if (held_.empty() && !begun_) return cuts;
  held_ += '\n';
  give_held(cuts);
  begun_ = false;
  return cuts;
}

}  // namespace regroup::core::output
