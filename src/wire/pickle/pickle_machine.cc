#include "wire/pickle/pickle_machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "wire/bytes/limits.h"
#include "wire/bytes/python_text.h"
#include "wire/pickle/pickle_errors.h"

namespace regroup::wire {
namespace {

constexpr std::uint8_t kOldestProtocol = 3;
constexpr std::uint8_t kNewestProtocol = 5;

std::string hex(std::uint8_t byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

PickleReader::PickleReader(std::string_view bytes) : bytes_(bytes) {
  // A little more than a state of PyTorch's or ours takes, so that nothing is moved on the way.
  graph_.values_.reserve(bytes.size() / 6 + 16);
  graph_.members_.reserve(bytes.size() / 7 + 16);
  memo_.reserve(bytes.size() / 12 + 16);
  stack_.reserve(64);
}

Result<PickleGraph> PickleReader::run() {
  if (!begin()) return tl::unexpected(std::move(error_));
  while (!stopped_)
    if (!step()) return tl::unexpected(std::move(error_));
  return std::move(graph_);
}

bool PickleReader::begin() {
  if (bytes_.size() >= 2 && bytes_[0] == static_cast<char>(Opcode::Proto)) {
    const auto protocol = static_cast<std::uint8_t>(bytes_[1]);
    if (protocol >= kOldestProtocol && protocol <= kNewestProtocol) {
      position_ = 2;
      return true;
    }
  }
  error_ = corrupt_state("it does not begin like a pickle of protocol 3 to 5, but with " +
                         printable(bytes_.substr(0, 8)))
               .value();
  return false;
}

bool PickleReader::step() {
  opcode_at_ = position_;
  std::uint8_t opcode = 0;
  if (!number(opcode)) return false;
  return play(static_cast<Opcode>(opcode));
}

bool PickleReader::play(Opcode opcode) {
  std::uint8_t u8 = 0;
  std::uint16_t u16 = 0;
  std::uint32_t u32 = 0;
  std::int32_t i32 = 0;
  std::string_view raw;
  switch (opcode) {
    case Opcode::Frame:
      return frame();
    case Opcode::Stop:
      return stop();
    case Opcode::Mark:
      if (marks_.size() == kPickleDepth)
        return refuse(fmt::format("more than {} containers in each other", kPickleDepth));
      marks_.push_back(stack_.size());
      return true;
    case Opcode::None:
      return push(PickleKind::None);
    case Opcode::NewTrue:
      return push(PickleKind::Bool, 1);
    case Opcode::NewFalse:
      return push(PickleKind::Bool, 0);
    case Opcode::BinInt1:
      return number(u8) && push_int(u8);
    case Opcode::BinInt2:
      return number(u16) && push_int(u16);
    case Opcode::BinInt:
      return number(i32) && push_int(i32);
    case Opcode::Long1:
      return long1();
    case Opcode::ShortBinUnicode:
      return number(u8) && text(u8);
    case Opcode::BinUnicode:
      return number(u32) && text(u32);
    case Opcode::ShortBinBytes:
      return number(u8) && bytes(u8, raw) && push_bytes(PickleKind::Bytes, raw);
    case Opcode::EmptyTuple:
      return tuple(0);
    case Opcode::Tuple1:
      return tuple(1);
    case Opcode::Tuple2:
      return tuple(2);
    case Opcode::Tuple3:
      return tuple(3);
    case Opcode::EmptyDict:
      return push(PickleKind::Dict);
    case Opcode::EmptySet:
      return push(PickleKind::Set);
    case Opcode::EmptyList:
      return push(PickleKind::List);
    case Opcode::SetItem:
      return holds(3) && add_members(PickleKind::Dict, stack_.size() - 2);
    case Opcode::Append:
      return holds(2) && add_members(PickleKind::List, stack_.size() - 1);
    case Opcode::SetItems:
      return add_marked(PickleKind::Dict);
    case Opcode::AddItems:
      return add_marked(PickleKind::Set);
    case Opcode::Appends:
      return add_marked(PickleKind::List);
    case Opcode::Memoize:
      return put(memo_used_);
    case Opcode::BinPut:
      return number(u8) && put(u8);
    case Opcode::LongBinPut:
      return number(u32) && put(u32);
    case Opcode::BinGet:
      return number(u8) && get(u8);
    case Opcode::LongBinGet:
      return number(u32) && get(u32);
    case Opcode::StackGlobal:
      return stack_global();
    case Opcode::Global:
      return global();
    case Opcode::NewObj:
      return new_object();
    case Opcode::Reduce:
      return reduce();
    case Opcode::Build:
      return build();
    case Opcode::Proto:  // Only at the beginning.
      break;
  }
  return refuse_opcode();
}

bool PickleReader::stop() {
  if (!marks_.empty() || stack_.size() != 1 || top().kind != PickleKind::State)
    return refuse("its end comes where no state has been made");
  if (top().first == kNoPickleRef) return refuse("its end comes before the state has attributes");
  if (position_ != bytes_.size())
    return refuse(fmt::format("{} bytes follow its end", bytes_.size() - position_));
  graph_.root_ = stack_[0];
  stopped_ = true;
  return true;
}

bool PickleReader::frame() {
  std::uint64_t size = 0;
  if (!number(size)) return false;
  if (size > bytes_.size() - position_)
    return refuse(
        fmt::format("a frame of {} bytes, of which {} are there", size, bytes_.size() - position_));
  return true;
}

bool PickleReader::long1() {
  std::uint8_t size = 0;
  std::string_view raw;
  if (!number(size) || !bytes(size, raw)) return false;
  if (size > sizeof(std::int64_t)) return refuse("an int of more than 64 bits");
  std::array<unsigned char, sizeof(std::int64_t)> whole{};
  const bool negative = size > 0 && (raw.back() & 0x80) != 0;
  if (negative) whole.fill(0xff);
  std::memcpy(whole.data(), raw.data(), size);
  std::int64_t value = 0;
  std::memcpy(&value, whole.data(), sizeof value);
  return push_int(value);
}

bool PickleReader::text(std::size_t size) {
  std::string_view raw;
  if (!bytes(size, raw)) return false;
  if (!is_python_text(raw)) return refuse("the text " + printable(raw) + " is no UTF-8");
  return push_bytes(PickleKind::Text, raw);
}

bool PickleReader::tuple(std::uint32_t size) {
  if (!holds(size)) return false;
  const auto first = static_cast<std::uint32_t>(graph_.members_.size());
  graph_.members_.insert(graph_.members_.end(), stack_.end() - size, stack_.end());
  drop(size);
  if (!push(PickleKind::Tuple, 0, size)) return false;
  top().first = first;
  return true;
}

bool PickleReader::put(std::size_t slot) {
  if (!holds(1)) return false;
  if (slot >= kPickleValues) return refuse(fmt::format("memo slot {}", slot));
  if (slot == memo_.size()) {  // As a rule: one after the other.
    memo_.push_back(stack_.back());
    ++memo_used_;
    return true;
  }
  if (slot > memo_.size()) memo_.resize(slot + 1, kNoPickleRef);
  if (memo_[slot] == kNoPickleRef) ++memo_used_;
  memo_[slot] = stack_.back();
  return true;
}

bool PickleReader::get(std::size_t slot) {
  if (slot >= memo_.size() || memo_[slot] == kNoPickleRef)
    return refuse(fmt::format("memo slot {} is empty", slot));
  // A reference costs two bytes and four of memory, so what bounds the pickle bounds the stack.
  stack_.push_back(memo_[slot]);
  return true;
}

bool PickleReader::pop_mark(std::size_t& mark) {
  if (marks_.empty()) return refuse("a batch ends that never began");
  mark = marks_.back();
  marks_.pop_back();
  return true;
}

bool PickleReader::add_marked(PickleKind kind) {
  std::size_t mark = 0;
  return pop_mark(mark) && holds(stack_.size() - mark + 1) && add_members(kind, mark);
}

// Moves what is on the stack from there on into the container below it.
bool PickleReader::add_members(PickleKind kind, std::size_t from) {
  const std::size_t size = stack_.size() - from;
  PickleValue& container = graph_.values_[stack_[from - 1]];
  if (container.kind != kind)
    return refuse(fmt::format("members of {} for {}", to_string(kind), to_string(container.kind)));
  if (container.frozen) return refuse("members for what is already in use");
  if (kind == PickleKind::Dict && size % 2 != 0) return refuse("a key without its value");
  if (size > kPickleValues - std::min(kPickleValues, graph_.members_.size()))
    return refuse(fmt::format("more than {} members", kPickleValues));
  if (size > 0) {
    const auto run = static_cast<std::uint32_t>(graph_.runs_.size());
    graph_.runs_.push_back({static_cast<std::uint32_t>(graph_.members_.size()),
                            static_cast<std::uint32_t>(size), kNoPickleRef});
    graph_.members_.insert(graph_.members_.end(),
                           stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    (container.first == kNoPickleRef ? container.first : graph_.runs_[container.last].next) = run;
    container.last = run;
    container.size += static_cast<std::uint32_t>(size);
  }
  stack_.resize(from);
  return true;
}

bool PickleReader::line(std::string_view& taken) {
  const std::size_t end = bytes_.find('\n', position_);
  if (end == std::string_view::npos) return refuse("a name without its end");
  taken = bytes_.substr(position_, end - position_);
  position_ = end + 1;
  return true;
}

bool PickleReader::refuse(const std::string& what) {
  const auto opcode = opcode_at_ < bytes_.size()
                          ? "opcode " + hex(static_cast<std::uint8_t>(bytes_[opcode_at_]))
                          : std::string("the end");
  error_ =
      corrupt_state(fmt::format("{} ({} at byte {}{})", what, opcode, opcode_at_, near_attribute()))
          .value();
  return false;
}

bool PickleReader::refuse_end() {
  return refuse(fmt::format("it ends too early, after {} bytes", bytes_.size()));
}

bool PickleReader::refuse_growth() {
  return refuse(fmt::format("more than {} values", kPickleValues));
}

bool PickleReader::refuse_opcode() {
  error_ = corrupt_state(fmt::format("opcode {} at byte {} does not belong there{}",
                                     hex(static_cast<std::uint8_t>(bytes_[opcode_at_])), opcode_at_,
                                     near_attribute()))
               .value();
  return false;
}

// Best effort: on the stack the pieces of a value that is not ready yet look like further keys.
std::string PickleReader::near_attribute() const {
  if (marks_.empty() || marks_[0] < 2) return {};
  const auto value = [&](std::size_t at) -> const PickleValue& {
    return graph_.values_[stack_[at]];
  };
  if (value(marks_[0] - 2).kind != PickleKind::State) return {};
  const std::size_t end = marks_.size() > 1 ? marks_[1] : stack_.size();
  std::string_view found;
  for (std::size_t at = marks_[0]; at < end; at += 2)
    if (value(at).kind == PickleKind::Text) found = graph_.text(value(at));
  return found.empty() ? "" : ", near attribute " + printable(found);
}

}  // namespace regroup::wire
