#include "core/output/rotation.h"

namespace regroup::core::output {

RotationStep next_step(FileEnd end, std::uint64_t limit, std::string_view bytes) {
  constexpr auto kNone = std::string_view::npos;
  const std::uint64_t room = limit > end.size ? limit - end.size : 0;
  if (bytes.size() <= room) return {bytes.size(), false};
  const std::size_t last_that_fits = bytes.substr(0, room).rfind('\n');
  if (last_that_fits != kNone) return {last_that_fits + 1, true};

  // From here on the first line does not fit into this file.
  if (end.unfinished == 0) return {end.size > 0 ? 0 : static_cast<std::size_t>(room), true};
  const std::size_t line_end = bytes.find('\n');
  const std::size_t of_line = line_end == kNone ? bytes.size() : line_end + 1;
  if (end.unfinished + of_line > limit) return {static_cast<std::size_t>(room), true};
  return {of_line, line_end != kNone};
}

}  // namespace regroup::core::output
