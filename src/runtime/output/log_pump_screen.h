// One console of the pump: puts the texts of a turn together, and hands them over as one.
// Lives on the pump's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/output/arranger.h"
#include "io/file/pseudo_terminal.h"
#include "runtime/common/console.h"
#include "runtime/common/limits.h"

namespace regroup::runtime {

class Screen {
 public:
  Screen(int fd, bool terminal, std::unique_ptr<ConsoleWriter> writer)
      : fd_(fd), terminal_(terminal), arranger_(terminal), writer_(std::move(writer)) {}

  bool is_terminal() const { return terminal_; }
  ConsoleWriter& writer() { return *writer_; }

  void show(const core::output::Source& source, std::string_view text) {
    lines_ += arranger_.add(source, text, pending_);
    if (pending_.size() >= kConsoleText) hand_over();
  }
  void hand_over() {
    if (pending_.empty()) return;
    if (!writer_->put(pending_, lines_)) arranger_.lost();
    lines_ = 0;
  }

  // The live line: only on a terminal, and when no source's line is open.
  bool can_show_live() const { return arranger_.can_show_live(); }
  bool shows_live() const { return arranger_.shows_live(); }
  void show_live(std::string_view text) { arranger_.show_live(text, pending_); }
  void hide_live() { arranger_.hide_live(pending_); }
  // One less than there are: in the last column, a cursor may already be on the next line.
  std::size_t live_columns() const {
    const int columns = io::window_columns(fd_);
    return columns > 1 ? static_cast<std::size_t>(columns) - 1 : kUsualColumns;
  }

  void forget_sources() { arranger_.forget_sources(); }

 private:
  static constexpr std::size_t kUsualColumns = 79;

  int fd_;
  bool terminal_;
  core::output::Arranger arranger_;
  std::unique_ptr<ConsoleWriter> writer_;
  std::string pending_;      // Of this turn,
  std::uint64_t lines_ = 0;  // with so many lines.
};

}  // namespace regroup::runtime
