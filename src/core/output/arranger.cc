#include "core/output/arranger.h"

#include <algorithm>
#include <utility>

namespace regroup::core::output {
namespace {

constexpr auto kNone = std::string_view::npos;

// The first line of `text`, with its newline if it has one; it is taken off.
std::string_view take_line(std::string_view& text) {
  const std::size_t line_end = text.find('\n');
  const std::string_view line = text.substr(0, line_end == kNone ? kNone : line_end + 1);
  text.remove_prefix(line.size());
  return line;
}

// Jumps from one to the next; std::count looks at every byte by itself.
std::size_t newlines(std::string_view text) {
  std::size_t count = 0;
  for (auto at = text.find('\n'); at != kNone; at = text.find('\n', at + 1)) ++count;
  return count;
}

bool matches(std::string_view line, const std::vector<std::string>& filters) {
  return filters.empty() || std::any_of(filters.begin(), filters.end(), [&](const auto& filter) {
           return line.find(filter) != kNone;
         });
}

}  // namespace

std::string_view last_segment(std::string_view line) {
  std::size_t end = line.size();
  if (end > 0 && line[end - 1] == '\n') --end;
  while (end > 0 && line[end - 1] == '\r') --end;
  if (end == 0) return line;
  const std::size_t last_return = line.rfind('\r', end - 1);
  return last_return == kNone ? line : line.substr(last_return + 1);
}

std::size_t append_lines(std::string_view prefix, std::string_view lines,
                         const std::vector<std::string>& filters, std::string& out) {
  const bool has_bars = lines.find('\r') != kNone;
  std::size_t count = 0;
  while (!lines.empty()) {
    std::string_view line = take_line(lines);
    if (has_bars) line = last_segment(line);
    if (!matches(line, filters)) continue;
    out += prefix;
    out += line;
    ++count;
  }
  return count;
}

void Arranger::forget_sources() {
  lanes_.clear();
  // The number of the source whose line is open belongs to another source now.
  if (open_ != kNobody && open_ != kLive) open_ = kSomebody;
}

bool Arranger::show_live(std::string_view text, std::string& out) {
  if (!can_show_live()) return false;
  out += '\r';
  out += text;
  out += "\x1b[K";
  open_ = kLive;
  open_is_bar_ = true;
  return true;
}

void Arranger::hide_live(std::string& out) {
  if (open_ == kLive) leave_open_line(out);
}

void Arranger::leave_open_line(std::string& out) {
  if (open_ == kNobody) return;
  out += terminal_ && open_is_bar_ ? "\r\x1b[K" : "\n";
  open_ = kNobody;
}

std::size_t Arranger::add(const Source& source, std::string_view text, std::string& out) {
  if (text.empty()) return 0;
  if (source.number >= lanes_.size()) lanes_.resize(source.number + 1);
  Lane& lane = lanes_[source.number];
  const bool resumes = lane.inside_line && open_ != source.number;
  if (resumes && (text[0] == '\n' || text.substr(0, 2) == "\r\n")) {
    // A source that wrote in between has ended its line already.
    text.remove_prefix(text[0] == '\n' ? 1 : 2);
    lane = {};
    if (text.empty()) return 0;
  }
  if (open_ != source.number) leave_open_line(out);

  const std::size_t last_end = text.rfind('\n');
  std::size_t lines = 0;
  if (!source.prefixed) {
    out += text;
    lines = newlines(text);
  } else if (!lane.inside_line && last_end == text.size() - 1 &&
             !(terminal_ && text.find('\r') != kNone)) {
    lines = append_lines(source.prefix, text, {}, out);
  } else {
    add_prefixed(lane, source.prefix, resumes, text, out);
    lines = newlines(text);
  }

  const std::string_view unfinished = text.substr(last_end == kNone ? 0 : last_end + 1);
  if (last_end != kNone) lane = {};
  if (unfinished.empty()) {
    open_ = kNobody;
    return lines;
  }
  lane.inside_line = true;
  lane.has_return = lane.has_return || unfinished.find('\r') != kNone;
  lane.at_return = unfinished.back() == '\r';
  open_ = source.number;
  open_is_bar_ = lane.has_return;
  return lines;
}

// Every line gets its prefix, and so does everything that is written from the first column on: text
// after a carriage return, and the rest of a line that another source interrupted.
void Arranger::add_prefixed(Lane& lane, std::string_view prefix, bool resumes,
                            std::string_view text, std::string& out) const {
  bool starts_line = !lane.inside_line;
  bool first_column = starts_line || resumes || lane.at_return;
  while (!text.empty()) {
    // A piece: visible text, or carriage returns, or a newline with those that belong to it.
    const char kind = text[0];
    const std::size_t end =
        kind == '\r' ? text.find_first_not_of('\r') : text.find_first_of("\r\n", kind == '\n');
    std::string_view piece = kind == '\n' ? text.substr(0, 1) : text.substr(0, end);
    const bool ends_line = kind == '\n' || (kind == '\r' && end != kNone && text[end] == '\n');
    if (ends_line && kind == '\r') piece = text.substr(0, end + 1);
    const bool visible = kind != '\r' && kind != '\n';
    if (first_column && (visible || (ends_line && starts_line))) out += prefix;
    out += piece;
    starts_line = ends_line;
    first_column = !visible;
    text.remove_prefix(piece.size());
  }
}

}  // namespace regroup::core::output
