// Puts the texts of many sources onto one console, so that each line is one source's.
//
// On a console that is no terminal (a file, a pipe) a source with a prefix is given whole lines,
// and of a line that was a progress bar only its last state is written. On a terminal unfinished
// lines are shown as well: the arranger knows whose line the cursor is in, and leaves it before
// another source writes. A progress bar is wiped out there, since its owner draws it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace regroup::core::output {

struct Source {
  std::size_t number = 0;  // Small: there is a table of them.
  bool prefixed = false;
  std::string_view prefix = {};
};

class Arranger {
 public:
  explicit Arranger(bool terminal) : terminal_(terminal) {}

  // Appends to `out` what brings the text onto the console. Returns how many lines end in it.
  std::size_t add(const Source& source, std::string_view text, std::string& out);

  // Draws a line of our own in place of the one before it (live_line.h), on a terminal and where no
  // source's line is open. The next text wipes it out. False: it cannot be shown now.
  bool show_live(std::string_view text, std::string& out);
  void hide_live(std::string& out);
  bool can_show_live() const { return terminal_ && (open_ == kNobody || open_ == kLive); }
  bool shows_live() const { return open_ == kLive; }

  // The console did not take what was made last. A line that says so will be printed in its place,
  // so no source's line is open.
  void lost() { open_ = kNobody; }

  // Other sources will have these numbers. An open line is still left before the next text.
  void forget_sources();

 private:
  static constexpr std::size_t kNobody = SIZE_MAX;
  static constexpr std::size_t kLive = SIZE_MAX - 1;      // Our own line.
  static constexpr std::size_t kSomebody = SIZE_MAX - 2;  // A source that is forgotten.
  struct Lane {
    bool inside_line = false;  // Has written the beginning of a line.
    bool has_return = false;   // ... with a carriage return in it.
    bool at_return = false;    // ... at its very end: what follows overwrites the prefix.
  };

  void leave_open_line(std::string& out);
  void add_prefixed(Lane& lane, std::string_view prefix, bool resumes, std::string_view text,
                    std::string& out) const;

  bool terminal_;
  std::size_t open_ = kNobody;  // In whose line the cursor is.
  bool open_is_bar_ = false;
  std::vector<Lane> lanes_;
};

// What of a line is seen in the end: what follows the last carriage return that is not part of the
// line's end. The line may lack its newline.
std::string_view last_segment(std::string_view line);

// Every line of `lines` that contains one of `filters`, or every one if there are no filters, its
// last segment behind the prefix. Returns how many.
std::size_t append_lines(std::string_view prefix, std::string_view lines,
                         const std::vector<std::string>& filters, std::string& out);

}  // namespace regroup::core::output
