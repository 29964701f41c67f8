// Any bytes in the timer pipe must be harmless to the launcher, and any text must survive a line.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/text/timer_line.h"

using namespace regroup;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  wire::TimerLines at_once;
  wire::TimerLineReader reader;
  reader.read(bytes, at_once);
  for (const std::string& complaint : at_once.complaints) CHECK(!complaint.empty());

  // However they are cut, the lines are the same.
  const std::size_t step = 1 + size / 16;
  for (std::size_t cut = 0; cut < size; cut += step) {
    wire::TimerLines in_parts;
    wire::TimerLineReader another;
    another.read(bytes.substr(0, cut), in_parts);
    another.read(bytes.substr(cut), in_parts);
    CHECK(in_parts.lines == at_once.lines && in_parts.complaints == at_once.complaints);
  }

  // Rubbish ends with its line.
  const wire::TimerLine after{.pid = 7, .scope = std::string(bytes), .expiration = 17, .signal = 9};
  const std::string text = wire::encode_timer_line(after);
  const std::size_t before = at_once.lines.size();
  at_once.complaints.clear();
  reader.read("\n" + text, at_once);
  if (text.size() <= wire::kLongestTimerLine) {
    CHECK(at_once.lines.size() > before && at_once.lines.back().pid == 7);
    CHECK(at_once.complaints.size() <= 1);
  }

  for (const wire::TimerLine& line : at_once.lines) {
    CHECK(line.pid > 0 && line.signal <= 64);
    const std::string again = wire::encode_timer_line(line);
    for (const char c : again.substr(0, again.size() - 1)) CHECK(c >= ' ' && c < '\x7f');
    if (again.size() > wire::kLongestTimerLine) continue;
    wire::TimerLines read;
    wire::TimerLineReader().read(again, read);
    CHECK(read.lines.size() == 1 && read.complaints.empty());
    CHECK(read.lines[0] == line || line.is_release());
    CHECK(read.lines[0].is_release() == line.is_release());
  }
  return 0;
}
