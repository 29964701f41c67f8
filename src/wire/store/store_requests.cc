// Requests: what a server parses and a client writes.
#include <fmt/core.h>

#include <algorithm>

#include "wire/bytes/byte_reader.h"
#include "wire/store/store_opcodes.h"
#include "wire/store/store_protocol.h"

namespace regroup::wire {
namespace {

using namespace core::store;

// Requests that hold a counted list: of keys, or of keys and values. 0 for the others.
std::size_t texts_per_item(Opcode opcode) {
  switch (opcode) {
    case Opcode::Check:
    case Opcode::Wait:
    case Opcode::MultiGet:
      return 1;
    case Opcode::MultiSet:
      return 2;
    default:  // This includes bytes that are no opcode at all.
      return 0;
  }
}

// A stranger is told from an old client by its first bytes, so that the log can name it.
std::string describe_stranger(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  for (const std::string_view word : {"GET ", "POST ", "HEAD ", "PUT ", "OPTIONS ", "PRI * HTTP"})
    if (bytes.starts_with(word.substr(0, std::min(word.size(), bytes.size()))))
      return "looks like HTTP, not a store client";
  if (first == 0x16) return "looks like TLS, not a store client";
  constexpr unsigned char kLastOldOpcode = 11;
  if (first <= kLastOldOpcode)
    return "looks like a store client of PyTorch 2.1 or older; this store serves PyTorch 2.2 and "
           "newer";
  return fmt::format("not a store client: its first byte is {}", first);
}

void append_text(ByteBuffer& out, std::string_view text) {
  out.append_u64(text.size());
  out.append(text);
}

void append_keys(ByteBuffer& out, KeyViews keys) {
  out.append_u64(keys.size());
  for (const std::string_view key : keys) append_text(out, key);
}

void append_opcode(ByteBuffer& out, Opcode opcode) {
  out.append_u8(static_cast<std::uint8_t>(opcode));
}

struct Write {
  ByteBuffer& out;

  void operator()(const Ping& r) const {
    append_opcode(out, Opcode::Ping);
    out.append_u32(r.nonce);
  }
  void operator()(const Set& r) const { entry(Opcode::Set, r.key, r.value); }
  void operator()(const CompareSet& r) const {
    entry(Opcode::CompareSet, r.key, r.expected);
    append_text(out, r.desired);
  }
  void operator()(const Get& r) const { key(Opcode::Get, r.key); }
  void operator()(const Add& r) const {
    key(Opcode::Add, r.key);
    out.append_i64(r.delta);
  }
  void operator()(const Check& r) const { keys(Opcode::Check, r.keys); }
  void operator()(const Wait& r) const { keys(Opcode::Wait, r.keys); }
  void operator()(const NumKeys&) const { append_opcode(out, Opcode::NumKeys); }
  void operator()(const DeleteKey& r) const { key(Opcode::DeleteKey, r.key); }
  void operator()(const Append& r) const { entry(Opcode::Append, r.key, r.value); }
  void operator()(const MultiGet& r) const { keys(Opcode::MultiGet, r.keys); }
  void operator()(const MultiSet& r) const {
    append_opcode(out, Opcode::MultiSet);
    out.append_u64(r.entries.size());
    for (const Entry& e : r.entries) {
      append_text(out, e.key);
      append_text(out, e.value);
    }
  }
  void operator()(const CancelWait&) const { append_opcode(out, Opcode::CancelWait); }
  void operator()(const QueuePush& r) const { entry(Opcode::QueuePush, r.key, r.value); }
  void operator()(const QueuePop& r) const { key(Opcode::QueuePop, r.key); }
  void operator()(const QueueLen& r) const { key(Opcode::QueueLen, r.key); }
  void operator()(const ListKeys&) const { append_opcode(out, Opcode::ListKeys); }
  void operator()(const Barrier& r) const {
    key(Opcode::Barrier, r.key);
    out.append_i64(r.world_size);
  }

 private:
  void key(Opcode opcode, std::string_view key) const {
    append_opcode(out, opcode);
    append_text(out, key);
  }
  void entry(Opcode opcode, std::string_view k, std::string_view value) const {
    key(opcode, k);
    append_text(out, value);
  }
  void keys(Opcode opcode, KeyViews list) const {
    append_opcode(out, opcode);
    append_keys(out, list);
  }
};

}  // namespace

ParsedGreeting parse_greeting(std::string_view bytes) {
  const std::size_t known = std::min(bytes.size(), kGreeting.size());
  if (bytes.substr(0, known) != kGreeting.substr(0, known))
    return Malformed{describe_stranger(bytes)};
  if (known < kGreeting.size()) return NeedMore{known + 1};  // Each byte may give a stranger away.
  return Whole<Greeting>{{}, kGreeting.size()};
}

ParsedRequest RequestParser::parse(std::string_view bytes, Progress& progress) {
  if (bytes.empty()) return NeedMore{1};
  if (bytes.size() < progress.at_least) return NeedMore{progress.at_least};
  ByteReader reader(bytes, limits_.request_bytes);
  const auto opcode = static_cast<Opcode>(reader.number<std::uint8_t>());
  std::uint64_t count = 0;
  if (const std::size_t per_item = texts_per_item(opcode); per_item != 0) {
    count = reader.number<std::uint64_t>();
    if (count > limits_.keys_per_request)
      return Malformed{
          fmt::format("{} keys in one request; the limit is {}", count, limits_.keys_per_request)};
    if (!reader.ok()) return NeedMore{progress.at_least = reader.at_least()};
    const TextList list{.start = reader.position(),
                        .count = count * per_item,
                        .even_limit = limits_.key_bytes,
                        .odd_limit = per_item == 1 ? limits_.key_bytes : limits_.value_bytes,
                        .most = limits_.request_bytes};
    if (auto unfinished = measure(list, bytes, progress))
      return std::visit([](auto& why) -> ParsedRequest { return std::move(why); }, *unfinished);
  }

  const auto key = [&] { return reader.text(limits_.key_bytes, "a key"); };
  const auto value = [&] { return reader.text(limits_.value_bytes, "a value"); };
  const auto keys = [&]() -> KeyViews {
    keys_.clear();
    for (std::size_t i = 0; i < count; ++i) keys_.push_back(key());
    return keys_;
  };
  const auto entries = [&]() -> std::span<const Entry> {
    entries_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view k = key();
      entries_.push_back({k, value()});
    }
    return entries_;
  };

  // Braced initialisers are evaluated from left to right: the order of fields is that of the wire.
  const auto request = [&]() -> Request {
    switch (opcode) {
      case Opcode::Validate:
        reader.refuse("a second greeting");
        return Ping{};
      case Opcode::Set:
        return Set{key(), value()};
      case Opcode::CompareSet:
        return CompareSet{key(), value(), value()};
      case Opcode::Get:
        return Get{key()};
      case Opcode::Add:
        return Add{key(), reader.number<std::int64_t>()};
      case Opcode::Check:
        return Check{keys()};
      case Opcode::Wait:
        return Wait{keys(), {}};
      case Opcode::NumKeys:
        return NumKeys{};
      case Opcode::DeleteKey:
        return DeleteKey{key()};
      case Opcode::Append:
        return Append{key(), value()};
      case Opcode::MultiGet:
        return MultiGet{keys()};
      case Opcode::MultiSet:
        return MultiSet{entries()};
      case Opcode::CancelWait:
        return CancelWait{};
      case Opcode::Ping:
        return Ping{reader.number<std::uint32_t>()};
      case Opcode::QueuePush:
        return QueuePush{key(), value()};
      case Opcode::QueuePop:
        return QueuePop{key()};
      case Opcode::QueueLen:
        return QueueLen{key()};
      case Opcode::ListKeys:
        return ListKeys{};
      case Opcode::Barrier:
        return Barrier{key(), reader.number<std::int64_t>(), {}};
    }
    reader.refuse(fmt::format("an unknown opcode, {}", static_cast<int>(opcode)));
    return Ping{};
  }();

  if (reader.refused()) return Malformed{reader.take_reason()};
  if (!reader.ok()) return NeedMore{progress.at_least = reader.at_least()};
  progress = {};
  return Whole<Request>{request, reader.position()};
}

void append_greeting(ByteBuffer& out) { out.append(kGreeting); }

void append_request(ByteBuffer& out, const Request& request) { std::visit(Write{out}, request); }

}  // namespace regroup::wire
