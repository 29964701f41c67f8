// Replies: what a server writes and a client parses.
#include <fmt/core.h>

#include "wire/bytes/byte_reader.h"
#include "wire/store/store_protocol.h"

namespace regroup::wire {
namespace {

using namespace core::store;

constexpr std::uint8_t kReady = 0;
constexpr std::uint8_t kNotReady = 1;
constexpr std::uint8_t kStopWaiting = 0;
constexpr std::uint8_t kWaitCancelled = 1;

struct Writer {
  ByteBuffer& out;

  void text(std::string_view bytes) const {
    out.append_u64(bytes.size());
    out.append(bytes);
  }
  void operator()(const Pong& r) const { out.append_u32(r.nonce); }
  void operator()(const Value& r) const { text(r.bytes); }
  void operator()(const Number& r) const { out.append_i64(r.value); }
  void operator()(const Ready& r) const { out.append_u8(r.all ? kReady : kNotReady); }
  void operator()(const WaitEnded& r) const {
    out.append_u8(r.how == WaitEnd::Arrived ? kStopWaiting : kWaitCancelled);
  }
  void operator()(const Values& r) const {
    for (const std::string_view value : r.values) text(value);
  }
  void operator()(const Popped& r) const {
    out.append_i64(r.length_before);
    if (r.length_before > 0) text(r.value);
  }
  void operator()(const KeyList& r) const {
    out.append_i64(static_cast<std::int64_t>(r.keys.size()));
    for (const std::string_view key : r.keys) text(key);
  }
};

struct Shape {
  ReplyShape operator()(const Ping&) const { return ReplyShape::Pong; }
  ReplyShape operator()(const Set&) const { return ReplyShape::None; }
  ReplyShape operator()(const CompareSet&) const { return ReplyShape::Value; }
  ReplyShape operator()(const Get&) const { return ReplyShape::Value; }
  ReplyShape operator()(const Add&) const { return ReplyShape::Number; }
  ReplyShape operator()(const Check&) const { return ReplyShape::Ready; }
  ReplyShape operator()(const Wait&) const { return ReplyShape::WaitEnded; }
  ReplyShape operator()(const NumKeys&) const { return ReplyShape::Number; }
  ReplyShape operator()(const DeleteKey&) const { return ReplyShape::Number; }
  ReplyShape operator()(const Append&) const { return ReplyShape::None; }
  ReplyShape operator()(const MultiGet&) const { return ReplyShape::Values; }
  ReplyShape operator()(const MultiSet&) const { return ReplyShape::None; }
  ReplyShape operator()(const CancelWait&) const { return ReplyShape::WaitEnded; }
  ReplyShape operator()(const QueuePush&) const { return ReplyShape::None; }
  ReplyShape operator()(const QueuePop&) const { return ReplyShape::Popped; }
  ReplyShape operator()(const QueueLen&) const { return ReplyShape::Number; }
  ReplyShape operator()(const ListKeys&) const { return ReplyShape::KeyList; }
  ReplyShape operator()(const Barrier&) const { return ReplyShape::WaitEnded; }
};

}  // namespace

void append_reply(ByteBuffer& out, const Reply& reply) { std::visit(Writer{out}, reply); }

ReplyShape reply_shape(const Request& request) { return std::visit(Shape{}, request); }

ParsedReply ReplyParser::parse(ReplyShape shape, std::size_t count, std::string_view bytes,
                               Progress& progress) {
  if (bytes.size() < progress.at_least) return NeedMore{progress.at_least};
  ByteReader reader(bytes, most_bytes_);
  if (shape == ReplyShape::KeyList || shape == ReplyShape::Values) {
    if (shape == ReplyShape::KeyList) count = reader.number<std::uint64_t>();
    if (!reader.ok()) return NeedMore{progress.at_least = reader.at_least()};
    if (count > most_bytes_) return Malformed{fmt::format("a list of {} strings", count)};
    const TextList list{.start = reader.position(),
                        .count = count,
                        .even_limit = most_bytes_,
                        .odd_limit = most_bytes_,
                        .most = most_bytes_};
    if (auto unfinished = measure(list, bytes, progress))
      return std::visit([](auto& why) -> ParsedReply { return std::move(why); }, *unfinished);
  }

  const auto text = [&] { return reader.text(most_bytes_, "an answer"); };
  // One byte that is 0 or 1; any other means that the two sides are out of step.
  const auto flag = [&](const char* what) {
    const auto byte = reader.number<std::uint8_t>();
    if (reader.ok() && byte > 1) reader.refuse(fmt::format("answer to {} is {}", what, byte));
    return byte;
  };
  const auto texts = [&](std::size_t n) -> KeyViews {
    views_.clear();
    for (std::size_t i = 0; i < n && reader.ok(); ++i) views_.push_back(text());
    return views_;
  };

  const auto reply = [&]() -> Reply {
    switch (shape) {
      case ReplyShape::None:
        return Values{};
      case ReplyShape::Pong:
        return Pong{reader.number<std::uint32_t>()};
      case ReplyShape::Value:
        return Value{text()};
      case ReplyShape::Number:
        return Number{reader.number<std::int64_t>()};
      case ReplyShape::Ready:
        return Ready{flag("check") == kReady};
      case ReplyShape::WaitEnded:
        return WaitEnded{flag("wait") == kStopWaiting ? WaitEnd::Arrived : WaitEnd::Cancelled};
      case ReplyShape::Values:
        return Values{texts(count)};
      case ReplyShape::Popped: {
        const auto length = reader.number<std::int64_t>();
        if (length < 0) reader.refuse("a queue of negative length");
        if (length > 0) return Popped{length, text()};
        return Popped{};
      }
      case ReplyShape::KeyList:
        return KeyList{texts(count)};
    }
    reader.refuse("an unknown kind of answer");
    return Values{};
  }();

  if (reader.refused()) return Malformed{reader.take_reason()};
  if (!reader.ok()) return NeedMore{progress.at_least = reader.at_least()};
  progress = {};
  return Whole<Reply>{reply, reader.position()};
}

}  // namespace regroup::wire
