// Cuts the bytes of one stream into what the console may be given: whole lines as they come, an
// unfinished one when it is time for it. Bytes that have been given out are never given again.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/instant.h"

namespace regroup::core::output {

// How often a log tells how far a progress bar has come: often enough to see that it moves, and some
// hundred lines in an hour.
inline constexpr Duration kBarState = 5s;

struct CutRules {
  // An unfinished line is shown once no byte has come for this long, because it may be a prompt.
  // Empty: it waits for its end.
  std::optional<Duration> quiet = {};
  // An unfinished line with a carriage return in it is a progress bar. It is shown this long after
  // its first byte, even if bytes keep coming.
  std::optional<Duration> bar = {};
  // Of an unfinished line only what follows its last carriage return is held: the rest would not be
  // shown in the end (see last_segment), and a bar may run for hours.
  bool last_segment_only = false;
  // With last_segment_only: while a progress bar is being drawn, its last state is given as a line of
  // its own this often, if there is a new one. Empty: only at its end.
  std::optional<Duration> bar_state = {};
};

// What is to be shown now, in order: views that are valid until the next call of the cutter, and as
// long as the bytes that were pushed. Each but the last consists of whole lines.
class Cuts {
 public:
  void add(std::string_view text) { texts_[count_++] = text; }
  const std::string_view* begin() const { return texts_.data(); }
  const std::string_view* end() const { return texts_.data() + count_; }
  bool empty() const { return count_ == 0; }

 private:
  std::array<std::string_view, 4> texts_;
  std::size_t count_ = 0;
};

class LineCutter {
 public:
  explicit LineCutter(CutRules rules) : rules_(rules) {}

  // At most kLongestLine bytes at a time.
  Cuts push(std::string_view bytes, Instant now);

  // The text that has waited long enough.
  Cuts expire(Instant now);
  std::optional<Instant> next_deadline() const;  // Empty: nothing waits for a time.

  // No more bytes come, or not for now: an unfinished line gets its newline.
  Cuts finish();

 private:
  void hold(std::string_view rest, Instant now, Cuts& cuts);
  void give_held(Cuts& cuts);
  void give_state(Instant now, Cuts& cuts);
  void end_line();

  CutRules rules_;
  std::string held_;      // Of an unfinished line, not shown yet.
  std::string given_;     // What the views of the last call may point to.
  bool begun_ = false;    // The beginning of the unfinished line has been shown.
  bool has_bar_ = false;  // There is a carriage return in held_.
  bool drawn_ = false;    // The unfinished line is a bar whose states are given; the next
  Instant state_due_{};   // then,
  bool news_ = false;     // if held_ has one that was not given yet.
  Instant first_{};       // When the first byte of held_ came, and the last.
  Instant last_{};
};

}  // namespace regroup::core::output
