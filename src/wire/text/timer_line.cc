#include "wire/text/timer_line.h"

#include <fmt/core.h>

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/json_text.h"
#include "base/text.h"
#include "base/utf8.h"
#include "wire/bytes/half_pairs.h"

namespace regroup::wire {
namespace {

namespace json = boost::json;

constexpr std::string_view kBegin = "{\"version\"";
constexpr int kHighestSignal = 64;  // Of Linux.
constexpr std::size_t kDepth = 16;

// Python writes these where JSON has no number.
std::string without_infinities(std::string_view text) {
  constexpr std::string_view kField = "\"expiration_time\": ";
  std::string whole(text);
  const std::size_t at = whole.find(kField);
  if (at == std::string::npos) return whole;
  const std::size_t value = at + kField.size();
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNames = {
      {{"Infinity", "1e308"}, {"NaN", "1e308"}, {"-Infinity", "-1"}}};
  for (const auto& [name, number] : kNames)
    if (whole.compare(value, name.size(), name) == 0) whole.replace(value, name.size(), number);
  return whole;
}

const json::value* field(const json::object& object, const char* name, std::string& why) {
  const json::value* found = object.if_contains(name);
  if (found == nullptr) why = std::string("it has no \"") + name + "\"";
  return found;
}

std::optional<TimerLine> line_of(const json::object& object, std::string& why) {
  const json::value* pid = field(object, "pid", why);
  const json::value* scope = pid != nullptr ? field(object, "scope_id", why) : nullptr;
  const json::value* time = scope != nullptr ? field(object, "expiration_time", why) : nullptr;
  const json::value* signal = time != nullptr ? field(object, "signal", why) : nullptr;
  if (signal == nullptr) return {};

  TimerLine line;
  if (!pid->is_int64() || pid->get_int64() <= 0 ||
      pid->get_int64() > std::numeric_limits<std::int32_t>::max()) {
    why = "its \"pid\" is none";
    return {};
  }
  line.pid = pid->get_int64();
  if (!scope->is_string()) {
    why = "its \"scope_id\" is no text";
    return {};
  }
  line.scope = valid_utf8({scope->get_string().data(), scope->get_string().size()});
  json::error_code error;
  line.expiration = time->to_number<double>(error);
  if (error) {
    why = "its \"expiration_time\" is no number";
    return {};
  }
  if (line.expiration >= 1e308) line.expiration = std::numeric_limits<double>::infinity();
  if (!signal->is_int64() || signal->get_int64() > kHighestSignal ||
      signal->get_int64() < std::numeric_limits<int>::min()) {
    why = "its \"signal\" is none";
    return {};
  }
  line.signal = static_cast<int>(signal->get_int64());
  line.heartbeat = object.if_contains("heartbeat") != nullptr;
  return line;
}

struct Parsed {
  std::size_t bytes = 0;  // Of the text: more may follow it. 0: it does not begin with an object.
  std::optional<TimerLine> line;
  std::string why;  // Without a line: what is wrong.
};

Parsed parse_front(std::string_view text) {
  std::array<unsigned char, 4096> room;
  std::array<unsigned char, 1024> scratch;
  json::monotonic_resource memory(room.data(), room.size());
  json::parse_options options;
  options.max_depth = kDepth;
  options.allow_invalid_utf8 = true;
  json::stream_parser parser({}, options, scratch.data(), scratch.size());
  parser.reset(&memory);
  json::error_code error;
  Parsed parsed;
  const std::size_t bytes = parser.write_some(text.data(), text.size(), error);
  if (!error && !parser.done()) parser.finish(error);
  if (error) {
    parsed.why = "it is no JSON: " + error.message();
    return parsed;
  }
  const json::value value = parser.release();
  if (!value.is_object()) {
    parsed.why = "it is no object";
    return parsed;
  }
  parsed.bytes = bytes;
  parsed.line = line_of(value.get_object(), parsed.why);
  return parsed;
}

}  // namespace

std::string encode_timer_line(const TimerLine& line) {
  std::array<char, 32> number{};
  std::string expiration = "Infinity";
  if (line.expiration < 0) {
    expiration = "-1";
  } else if (std::isfinite(line.expiration)) {
    const auto end =
        std::to_chars(number.data(), number.data() + number.size(), line.expiration).ptr;
    expiration.assign(number.data(), end);
  }
  std::string text = R"({"version": 1, "pid": )" + std::to_string(line.pid);
  text.append(R"(, "scope_id": ")").append(json_escaped(line.scope));
  text.append(R"(", "expiration_time": )").append(expiration);
  text.append(R"(, "signal": )").append(std::to_string(line.signal));
  if (line.heartbeat) text.append(R"(, "heartbeat": true)");
  return text.append("}\n");
}

void TimerLineReader::read_line(std::string_view line, TimerLines& into) {
  std::string mended;  // What is read instead, if the line cannot be read as it is.
  bool complained = false;
  const auto complain = [&](const std::string& why) {
    if (!complained) into.complaints.push_back(why + ": " + printable(line));
    complained = true;
  };
  std::string_view rest = line;
  while (rest.find_first_not_of(" \t\r") != std::string_view::npos) {
    Parsed parsed = parse_front(rest);
    if (parsed.bytes == 0 && mended.empty()) {
      mended = without_half_pairs(without_infinities(rest));
      rest = mended;
      parsed = parse_front(rest);
    }
    if (parsed.line)
      into.lines.push_back(std::move(*parsed.line));
    else
      complain(parsed.why);
    std::size_t next = parsed.bytes;
    if (next == 0) next = rest.find(kBegin, 1);
    if (next == std::string_view::npos) return;
    rest.remove_prefix(next);
  }
}

void TimerLineReader::read(std::string_view bytes, TimerLines& into) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::string_view part = bytes.substr(0, end);
    bytes.remove_prefix(whole ? end + 1 : bytes.size());
    if (skipping_) {
      skipping_ = !whole;
      continue;
    }
    if (beginning_.size() + part.size() > kLongestTimerLine) {
      // As much of it as will be shown, and the same however it was cut.
      const std::string start =
          (beginning_ + std::string(part.substr(0, kLongestTimerLine))).substr(0, 100);
      into.complaints.push_back(
          fmt::format("it is longer than {} bytes: {}", kLongestTimerLine, printable(start)));
      beginning_.clear();
      skipping_ = !whole;
      continue;
    }
    if (!whole) {
      beginning_ += part;
    } else if (beginning_.empty()) {
      read_line(part, into);
    } else {
      beginning_ += part;
      read_line(beginning_, into);
      beginning_.clear();
    }
  }
}

}  // namespace regroup::wire
