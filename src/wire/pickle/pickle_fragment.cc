#include "wire/pickle/pickle_fragment.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_writer.h"
#include "wire/pickle/rendezvous_names.h"

namespace regroup::wire {
namespace {

// Python hashes the keys of a dict and the members of a set; a list has no hash.
enum class Use { Any, Hashed };

class FragmentWriter {
 public:
  FragmentWriter(const PickleGraph& graph, std::size_t most_bytes)
      : graph_(graph), left_(most_bytes) {}

  // Empty once something is wrong; wrong() then says what.
  std::string write(PickleRef ref, std::size_t depth, Use use = Use::Any) {
    const PickleValue& value = graph_[ref];
    if (depth > kExtraDepth) return refuse("is nested too deeply, or in itself");
    PickleWriter out;
    switch (value.kind) {
      case PickleKind::None:
        out.op(Opcode::None);
        break;
      case PickleKind::Bool:
        out.boolean(value.number != 0);
        break;
      case PickleKind::Int:
        out.integer(value.number);
        break;
      case PickleKind::Text:
        if (value.size > left_) return refuse_size();
        out.text(graph_.text(value));
        break;
      case PickleKind::Bytes:
        out.bytes(graph_.text(value));
        break;
      case PickleKind::Tuple:
        return write_tuple(value, depth, use);
      case PickleKind::List:
        return use == Use::Hashed ? refuse_key() : write_list(value, depth);
      case PickleKind::Dict:
        return use == Use::Hashed ? refuse_key() : write_dict(value, depth);
      case PickleKind::Set:
        return use == Use::Hashed ? refuse_key() : write_set(value, depth);
      case PickleKind::ZeroDelta:
        write_zero_delta(out);
        break;
      case PickleKind::Utc:
        write_utc(out);
        break;
      case PickleKind::Time:
        write_class(out, kDatetimeModule, kDatetimeClass);
        out.datetime_bytes(value.number);
        if (value.aware) write_utc(out);
        out.ops(value.aware ? Opcode::Tuple2 : Opcode::Tuple1, Opcode::Reduce);
        break;
      case PickleKind::Node:
        if (!graph_.node(value).complete) return refuse("has a node without attributes");
        write_node(out, graph_.node(value));
        break;
      case PickleKind::Class:
      case PickleKind::State:
        return refuse("is or holds " + std::string(to_string(value.kind)));
    }
    return spend(out);
  }

  const std::string& wrong() const { return wrong_; }

 private:
  std::string refuse(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
    return {};
  }
  std::string refuse_key() { return refuse("has a key that cannot be hashed"); }
  std::string refuse_size() { return refuse("is too large to be kept"); }

  // The budget is spent as bytes are made, so a small pickle that names one long value many times
  // ends here and not in the machine's memory.
  std::string spend(PickleWriter& out) {
    if (out.size() > left_) return refuse_size();
    left_ -= out.size();
    return out.take();
  }

  std::string write_tuple(const PickleValue& tuple, std::size_t depth, Use use) {
    PickleWriter out;
    if (!graph_.each(tuple, [&](PickleRef member) {
          const std::string written = write(member, depth + 1, use);
          out.raw(written);
          return !written.empty();
        }))
      return {};
    constexpr Opcode kOpcodes[] = {Opcode::EmptyTuple, Opcode::Tuple1, Opcode::Tuple2,
                                   Opcode::Tuple3};
    return close(out, {kOpcodes[tuple.size]});
  }

  std::string write_list(const PickleValue& list, std::size_t depth) {
    PickleWriter out;
    out.op(Opcode::EmptyList);
    if (list.size > 0) out.op(Opcode::Mark);
    if (!graph_.each(list, [&](PickleRef member) {
          const std::string written = write(member, depth + 1);
          out.raw(written);
          return !written.empty();
        }))
      return {};
    if (list.size == 0) return close(out, {});
    return close(out, {Opcode::Appends});
  }

  // As in Python a key keeps its first place and its last value.
  std::string write_dict(const PickleValue& dict, std::size_t depth) {
    std::vector<std::pair<std::string, std::string>> entries;
    std::map<std::string, std::size_t> places;
    if (!graph_.each_entry(dict, [&](PickleRef key_ref, PickleRef value_ref) {
          std::string key = write(key_ref, depth + 1, Use::Hashed);
          std::string value = key.empty() ? key : write(value_ref, depth + 1);
          if (value.empty()) return false;
          const auto [place, is_new] = places.try_emplace(key, entries.size());
          if (is_new)
            entries.emplace_back(std::move(key), std::move(value));
          else
            entries[place->second].second = std::move(value);
          return true;
        }))
      return {};
    PickleWriter out;
    out.op(Opcode::EmptyDict);
    if (entries.empty()) return close(out, {});
    out.op(Opcode::Mark);
    for (const auto& [key, value] : entries) {
      out.raw(key);
      out.raw(value);
    }
    return close(out, {Opcode::SetItems});
  }

  std::string write_set(const PickleValue& set, std::size_t depth) {
    std::vector<std::string> members;
    if (!graph_.each(set, [&](PickleRef member) {
          members.push_back(write(member, depth + 1, Use::Hashed));
          return !members.back().empty();
        }))
      return {};
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    PickleWriter out;
    out.op(Opcode::EmptySet);
    if (members.empty()) return close(out, {});
    out.op(Opcode::Mark);
    for (const std::string& member : members) out.raw(member);
    return close(out, {Opcode::AddItems});
  }

  // The members have been counted already; this is what the container adds.
  std::string close(PickleWriter& out, std::initializer_list<Opcode> opcodes) {
    constexpr std::size_t kBrackets = 3;
    if (left_ < kBrackets) return refuse_size();
    left_ -= kBrackets;
    for (const Opcode opcode : opcodes) out.op(opcode);
    return out.take();
  }

  static void write_class(PickleWriter& out, std::string_view module, std::string_view name) {
    out.text(module);
    out.text(name);
    out.op(Opcode::StackGlobal);
  }

  static void write_zero_delta(PickleWriter& out) {
    write_class(out, kDatetimeModule, kTimedeltaClass);
    for (int i = 0; i < 3; ++i) out.integer(0);
    out.ops(Opcode::Tuple3, Opcode::Reduce);
  }

  static void write_utc(PickleWriter& out) {
    write_class(out, kDatetimeModule, kTimezoneClass);
    write_zero_delta(out);
    out.ops(Opcode::Tuple1, Opcode::Reduce);
  }

  static void write_node(PickleWriter& out, const PickledNode& node) {
    write_class(out, kTorchModule, kNodeClass);
    out.ops(Opcode::EmptyTuple, Opcode::NewObj, Opcode::EmptyDict, Opcode::Mark);
    out.text(kAddrAttribute);
    out.text(node.address);
    out.text(kPidAttribute);
    out.integer(node.pid);
    out.text(kLocalIdAttribute);
    out.integer(node.local_id);
    out.ops(Opcode::SetItems, Opcode::Build);
  }

  const PickleGraph& graph_;
  std::size_t left_;
  std::string wrong_;
};

}  // namespace

Result<std::string> write_fragment(const PickleGraph& graph, PickleRef ref,
                                   std::size_t most_bytes) {
  FragmentWriter writer(graph, most_bytes);
  std::string written = writer.write(ref, 0);
  if (written.empty()) return fail(ErrorKind::Protocol, writer.wrong());
  return written;
}

}  // namespace regroup::wire
