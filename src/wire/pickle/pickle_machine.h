// The machine that plays a pickle's opcodes; read_pickle() in pickle_reader.h is the way in.
//
// A stack of values, a memo of values by number, and marks that say where on the stack the members
// of an open container begin. No opcode reaches below the latest mark.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "regroup/result.h"
#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_graph.h"
#include "wire/pickle/pickle_opcodes.h"

namespace regroup::wire {

class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes);
  Result<PickleGraph> run();

 private:
  // Each returns false once something is wrong; error_ then says what.
  bool step();
  bool play(Opcode opcode);

  // Opcodes that make objects (pickle_objects.cc).
  bool find_class(std::string_view module, std::string_view name);
  bool stack_global();
  bool global();
  bool new_object();
  bool reduce();
  bool reduce_datetime(const PickleValue& arguments);
  bool reduce_set(const PickleValue& arguments);
  bool build();
  bool build_node(PickledNode& node, const PickleValue& attributes);

  bool begin();
  bool stop();
  bool frame();
  bool long1();
  bool text(std::size_t size);
  bool tuple(std::uint32_t size);
  bool put(std::size_t slot);
  bool get(std::size_t slot);
  bool pop_mark(std::size_t& mark);
  bool add_members(PickleKind kind, std::size_t from);
  bool add_marked(PickleKind kind);

  // From here to holds(): what nearly every opcode does, so in the header to be inlined.
  bool bytes(std::size_t size, std::string_view& taken) {
    if (size > bytes_.size() - position_) return refuse_end();
    taken = {bytes_.data() + position_, size};
    position_ += size;
    return true;
  }
  template <class T>
  bool number(T& value) {
    std::string_view raw;
    if (!bytes(sizeof value, raw)) return false;
    std::memcpy(&value, raw.data(), sizeof value);
    return true;
  }
  bool push(PickleKind kind, std::int64_t number = 0, std::uint32_t size = 0) {
    if (graph_.values_.size() == kPickleValues) return refuse_growth();
    stack_.push_back(static_cast<PickleRef>(graph_.values_.size()));
    PickleValue& value = graph_.values_.emplace_back(kind, size);
    value.at = static_cast<std::uint32_t>(opcode_at_);
    value.number = number;
    return true;
  }
  bool push_int(std::int64_t number) { return push(PickleKind::Int, number); }
  bool push_bytes(PickleKind kind, std::string_view raw) {
    if (!push(kind, 0, static_cast<std::uint32_t>(raw.size()))) return false;
    top().data = raw.data();
    return true;
  }
  // Whether that many values are on the stack above the latest mark; if not, the pickle is refused.
  bool holds(std::size_t count) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    return stack_.size() - floor >= count || refuse("too few values on its stack");
  }

  // The line up to the next line end, for GLOBAL.
  bool line(std::string_view& taken);
  // Counted from the top, which is 0.
  PickleValue& top(std::size_t below = 0) {
    return graph_.values_[stack_[stack_.size() - 1 - below]];
  }
  void drop(std::size_t count) { stack_.resize(stack_.size() - count); }
  const PickleValue& member(const PickleValue& tuple, std::size_t index) const {
    return graph_.values_[graph_.members_[tuple.first + index]];
  }

  bool refuse(const std::string& what);  // Appends the opcode's position; false.
  bool refuse_opcode();
  bool refuse_end();
  bool refuse_growth();
  std::string near_attribute() const;

  std::string_view bytes_;
  std::size_t position_ = 0;
  std::size_t opcode_at_ = 0;
  bool stopped_ = false;
  bool has_state_ = false;
  std::vector<PickleRef> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleRef> memo_;
  std::size_t memo_used_ = 0;
  PickleGraph graph_;
  Error error_{ErrorKind::Protocol, {}};
};

}  // namespace regroup::wire
