#include "wire/session/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/rendezvous/settings.h"
#include "wire/bytes/byte_reader.h"
#include "wire/bytes/limits.h"
#include "wire/bytes/python_text.h"
#include "wire/session/session_fields.h"
#include "wire/text/stack_dump.h"

namespace regroup::wire {
namespace {

using core::coordinator::FromAgent;
using core::coordinator::FromCoordinator;
using core::coordinator::Report;

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);
constexpr std::size_t kHeadBytes = kLengthBytes + sizeof(std::uint8_t);
constexpr std::size_t kLongestReportText = kLargestReport - kHeadBytes - kLengthBytes;
// No message has more than five texts, and everything else in it is small: none can outgrow its
// frame.
static_assert(8 * kSessionTextBytes <= kLargestFrame);

struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = kMostRounds;
};

// The front of a text, without half a character at its end.
std::string_view cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  std::size_t end = limit;
  // A character has four bytes at most; a longer run of such bytes is not UTF-8 and is cut
  // anywhere.
  while (limit - end < 3 && continues(end)) --end;
  return text.substr(0, continues(end) ? limit : end);
}

class FieldWriter {
 public:
  template <class T>
  using Of = const T;

  void version(std::uint32_t version) { raw(version); }
  template <class T>
  void number(const char* /*what*/, T value) {
    raw(value);
  }
  void count(const char* /*what*/, std::int64_t value, Bounds /*bounds*/ = {}) { raw(value); }
  void duration(const char* /*what*/, Duration value) { raw<std::int64_t>(value.count()); }
  void flag(const char* /*what*/, bool value) { raw<std::uint8_t>(value ? 1 : 0); }
  void bytes32(const char* /*what*/, const core::coordinator::Bytes32& value) {
    bytes_.append(reinterpret_cast<const char*>(value.data()), value.size());
  }
  template <class Enum>
  void choice(const char* /*what*/, Enum value, Enum /*last*/) {
    raw(static_cast<std::uint8_t>(value));
  }
  void text(const char* /*what*/, std::string_view value) { text_of(value, kSessionTextBytes); }
  void shared_text(const char* /*what*/, std::string_view value, std::size_t limit) {
    text_of(value, limit);
  }
  void long_text(const char* /*what*/, std::string_view value) {
    text_of(value, kLongestReportText);
  }
  // Whole lines, as many as there is room for.
  void ranks(const char* /*what*/, const std::vector<core::hang::RankAt>& ranks) {
    std::string lines;
    for (const auto& rank : ranks) {
      const std::string line = encode_ranks({rank});
      if (lines.size() + line.size() > kSessionRanksBytes) break;
      lines += line;
    }
    text_of(lines, kSessionRanksBytes);
  }
  void numbers(const char* /*what*/, const std::vector<std::int64_t>& values) {
    const std::size_t kept = std::min(values.size(), kSessionNumbers);
    raw(static_cast<std::uint32_t>(kept));
    for (std::size_t i = 0; i < kept; ++i) raw(values[i]);
  }
  template <class T, class Fields>
  void optional(const char* what, const std::optional<T>& value, const Fields& fields) {
    flag(what, value.has_value());
    if (value) fields(*value);
  }
  template <class Fields>
  void added(const Fields& fields) {
    fields();
  }

  std::string_view bytes() const { return bytes_; }

 private:
  template <class T>
  void raw(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text_of(std::string_view value, std::size_t limit) {
    const std::string_view kept = cut(value, limit);
    raw(static_cast<std::uint32_t>(kept.size()));
    bytes_.append(kept);
  }

  std::string bytes_;
};

// Reads the fields of a frame that is completely there. The first problem is kept; every field
// after it reads as empty.
class FieldReader {
 public:
  template <class T>
  using Of = T;

  explicit FieldReader(std::string_view fields)
      : reader_(fields, std::numeric_limits<std::size_t>::max()) {}

  void version(std::uint32_t /*ours*/) {
    // A newer peer has only added to what we know.
    if (take<std::uint32_t>("the version") == 0) refuse("version 0, which does not exist");
  }
  template <class T>
  void number(const char* what, T& value) {
    value = take<T>(what);
  }
  void count(const char* what, std::int64_t& value, Bounds bounds = {}) {
    value = take<std::int64_t>(what);
    if (value < bounds.least || value > bounds.most)
      refuse(fmt::format("{} is {}; it must be {} to {}", what, value, bounds.least, bounds.most));
  }
  void duration(const char* what, Duration& value) {
    value = Duration(take<std::int64_t>(what));
    if (value < Duration::zero())
      refuse(fmt::format("{} is {} ns, below zero", what, value.count()));
    // So that sums of a few of them still fit.
    if (value > core::rendezvous::kLongest) refuse(fmt::format("{} is more than ten years", what));
  }
  void flag(const char* what, bool& value) { value = small_number(what, 1) != 0; }
  void bytes32(const char* what, core::coordinator::Bytes32& value) {
    const std::string_view there = reader_.bytes(value.size());
    if (!reader_.ok()) return refuse(fmt::format("ends inside {}", what));
    std::copy(there.begin(), there.end(), value.begin());
  }
  template <class Enum>
  void choice(const char* what, Enum& value, Enum last) {
    value = static_cast<Enum>(small_number(what, static_cast<std::uint8_t>(last)));
  }
  void text(const char* what, std::string& value) { text_of(what, value, kSessionTextBytes); }
  void shared_text(const char* what, std::string& value, std::size_t limit) {
    text_of(what, value, limit);
    if (!is_python_text(value)) refuse(fmt::format("{} is no UTF-8", what));
  }
  void long_text(const char* what, std::string& value) { text_of(what, value, kLongestReportText); }
  void ranks(const char* what, std::vector<core::hang::RankAt>& ranks) {
    std::string lines;
    text_of(what, lines, kSessionRanksBytes);
    ranks = decode_ranks(lines);
  }
  void numbers(const char* what, std::vector<std::int64_t>& values) {
    const auto count = take<std::uint32_t>(what);
    if (count > kSessionNumbers)
      refuse(fmt::format("{} are {}; the limit is {}", what, count, kSessionNumbers));
    for (std::uint32_t i = 0; i < count && reason_.empty(); ++i)
      values.push_back(take<std::int64_t>(what));
  }
  template <class T, class Fields>
  void optional(const char* what, std::optional<T>& value, const Fields& fields) {
    bool there = false;
    flag(what, there);
    if (there) fields(value.emplace());
  }
  template <class Fields>
  void added(const Fields& fields) {
    if (!reader_.at_end()) fields();
  }

  // Empty: all fields were there and valid.
  const std::string& reason() const { return reason_; }

 private:
  template <class T>
  T take(const char* what) {
    const T value = reader_.number<T>();
    if (!reader_.ok()) refuse(fmt::format("ends inside {}", what));
    return value;
  }
  std::uint8_t small_number(const char* what, std::uint8_t most) {
    const auto value = take<std::uint8_t>(what);
    if (value <= most) return value;
    refuse(fmt::format("{} is {}; it must be 0 to {}", what, value, most));
    return 0;
  }
  void text_of(const char* what, std::string& value, std::size_t limit) {
    const auto length = take<std::uint32_t>(what);
    if (length > limit)
      refuse(fmt::format("{} has {} bytes; the limit is {}", what, length, limit));
    value = reader_.bytes(length);
    if (!reader_.ok()) refuse(fmt::format("ends inside {}", what));
  }
  void refuse(std::string reason) {
    if (!reason_.empty()) return;
    reader_.refuse(reason);
    reason_ = std::move(reason);
  }

  ByteReader reader_;
  std::string reason_;
};

template <class Message>
void append(ByteBuffer& out, const Message& message) {
  FieldWriter writer;
  session::fields(writer, message);
  out.append_u32(static_cast<std::uint32_t>(sizeof(std::uint8_t) + writer.bytes().size()));
  out.append_u8(session::kKind<Message>.number);
  out.append(writer.bytes());
}

template <class Message, class Messages>
ParsedFrame<Messages> read(std::string_view frame) {
  Message message;
  FieldReader reader(frame.substr(kHeadBytes));
  session::fields(reader, message);
  if (!reader.reason().empty())
    return Malformed{fmt::format("a {} frame: {}", session::kKind<Message>.name, reader.reason())};
  return WholeFrame<Messages>{.message = std::move(message), .size = frame.size()};
}

Malformed too_long(std::size_t size, std::size_t limit) {
  return Malformed{fmt::format("a frame of {} bytes; the limit is {}", size, limit)};
}

// For one direction; kinds of the other direction are as unknown as any.
template <class... Message>
ParsedFrame<std::variant<Message...>> parse(
    std::type_identity<std::variant<Message...>> /*direction*/, std::string_view bytes) {
  using Messages = std::variant<Message...>;
  // Only a coordinator may make its peer hold more than a small frame.
  constexpr bool kMayReport = (std::is_same_v<Message, Report> || ...);
  constexpr std::size_t kLargest = kMayReport ? kLargestReport : kLargestFrame;

  // The length is judged as soon as it is there: a frame that is refused is not waited for.
  ByteReader head(bytes, kHeadBytes);
  const std::size_t size = kLengthBytes + head.number<std::uint32_t>();
  if (!head.ok()) return NeedMore{head.at_least()};
  if (size > kLargest) return too_long(size, kLargest);
  if (size < kHeadBytes) return Malformed{"a frame without a kind"};
  const auto kind = head.number<std::uint8_t>();
  if (!head.ok()) return NeedMore{size > kLargestFrame ? kHeadBytes : size};
  if (size > kLargestFrame && kind != session::kKind<Report>.number)
    return too_long(size, kLargestFrame);
  if (bytes.size() < size) return NeedMore{size};

  ParsedFrame<Messages> parsed = SkippedFrame{size};
  const std::string_view frame = bytes.substr(0, size);
  const auto read_if = [&]<class M>(std::type_identity<M>) {
    if (kind != session::kKind<M>.number) return false;
    parsed = read<M, Messages>(frame);
    return true;
  };
  (void)(read_if(std::type_identity<Message>{}) || ...);
  return parsed;
}

}  // namespace

void append_frame(ByteBuffer& out, const FromAgent& message) {
  std::visit([&](const auto& m) { append(out, m); }, message);
}

void append_frame(ByteBuffer& out, const FromCoordinator& message) {
  std::visit([&](const auto& m) { append(out, m); }, message);
}

ParsedFrame<FromAgent> parse_frame_from_agent(std::string_view bytes) {
  return parse(std::type_identity<FromAgent>{}, bytes);
}

ParsedFrame<FromCoordinator> parse_frame_from_coordinator(std::string_view bytes) {
  return parse(std::type_identity<FromCoordinator>{}, bytes);
}

}  // namespace regroup::wire
