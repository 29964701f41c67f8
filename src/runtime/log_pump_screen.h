// One console of the pump: puts the texts of a turn together, and hands them over as one.
// Lives on the pump's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/output/arranger.h"
#include "runtime/console.h"
#include "runtime/limits.h"

namespace regroup::runtime {

class Screen {
 public:
  Screen(bool terminal, std::unique_ptr<ConsoleWriter> writer)
      : terminal_(terminal), arranger_(terminal), writer_(std::move(writer)) {}

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
  void forget_sources() { arranger_.forget_sources(); }

 private:
  bool terminal_;
  core::output::Arranger arranger_;
  std::unique_ptr<ConsoleWriter> writer_;
  std::string pending_;      // Of this turn,
  std::uint64_t lines_ = 0;  // with so many lines.
};

}  // namespace regroup::runtime
