#include "runtime/output/log_pump_file.h"

#include <fmt/core.h>

namespace regroup::runtime {

void PumpFile::append(std::string_view bytes) {
  if (unmarked_ > 0 && !mark_loss()) {
    lost_ += bytes.size();
    unmarked_ += bytes.size();
    return;
  }
  while (!bytes.empty()) {
    core::output::RotationStep step{bytes.size(), false};
    if (limits_.max_bytes > 0 && file_.is_regular())
      step = core::output::next_step(end_, limits_.max_bytes, bytes);
    if (!write(bytes.substr(0, step.write))) {
      // write() has counted its part of this step.
      const std::uint64_t others = bytes.size() - step.write;
      lost_ += others;
      unmarked_ += others;
      return;
    }
    bytes.remove_prefix(step.write);
    if (!step.rotate || bytes.empty()) continue;
    const auto rotated = file_.rotate(limits_.keep);
    if (!rotated) warn_once(rotated.error().message + ". It goes on growing.");
    end_ = {};
  }
}

bool PumpFile::write(std::string_view bytes) {
  const io::Put put = file_.write(bytes);
  const std::string_view written = bytes.substr(0, put.bytes);
  end_.size += written.size();
  const std::size_t line_end = written.rfind('\n');
  end_.unfinished = line_end == std::string_view::npos ? end_.unfinished + written.size()
                                                       : written.size() - line_end - 1;
  if (put.error == 0) return true;
  lost_ += bytes.size() - put.bytes;
  unmarked_ += bytes.size() - put.bytes;
  error_ = put.error;
  warn_once(
      fmt::format("cannot write to '{}': {}. The worker goes on, and what it writes is lost to "
                  "this file until there is room.",
                  file_.path(), io::error_in_words(error_)));
  return false;
}

bool PumpFile::mark_loss() {
  const std::string mark =
      fmt::format("{}[regroup: {} bytes were lost here: {}]\n", end_.unfinished > 0 ? "\n" : "",
                  unmarked_, io::error_in_words(error_));
  const io::Put put = file_.write(mark);
  end_.size += put.bytes;
  if (put.error != 0) {
    if (put.bytes > 0) end_.unfinished = put.bytes;
    return false;
  }
  end_.unfinished = 0;
  unmarked_ = 0;
  return true;
}

void PumpFile::warn_once(const std::string& message) {
  if (!warned_ && warn_) warn_(message);
  warned_ = true;
}

}  // namespace regroup::runtime
