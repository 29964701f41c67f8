// The opcodes that make objects. Everything that Python would look up or call is decided here.
#include <fmt/core.h>

#include <array>
#include <utility>

#include "base/text.h"
#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_errors.h"
#include "wire/pickle/pickle_machine.h"
#include "wire/pickle/pickle_time.h"
#include "wire/pickle/rendezvous_names.h"

namespace regroup::wire {
namespace {

struct KnownClass {
  std::string_view module;
  std::string_view name;
  PickleClass what;
};

// These, and no others.
constexpr std::array<KnownClass, 6> kClasses{{
    {kTorchModule, kNodeClass, PickleClass::Node},
    {kTorchModule, kStateClass, PickleClass::State},
    {kDatetimeModule, kDatetimeClass, PickleClass::Datetime},
    {kDatetimeModule, kTimezoneClass, PickleClass::Timezone},
    {kDatetimeModule, kTimedeltaClass, PickleClass::Timedelta},
    {"builtins", "set", PickleClass::Set},
}};

std::string name_of(const PickleValue& object) {
  for (const KnownClass& known : kClasses)
    if (object.kind == PickleKind::Class && object.number == static_cast<std::int64_t>(known.what))
      return std::string(known.name);
  return std::string(to_string(object.kind));
}

}  // namespace

bool PickleReader::find_class(std::string_view module, std::string_view name) {
  for (const KnownClass& known : kClasses)
    if (name == known.name && module == known.module)
      return push(PickleKind::Class, static_cast<std::int64_t>(known.what));
  return refuse(
      fmt::format("it asks for {} of the Python module {}", printable(name), printable(module)));
}

bool PickleReader::stack_global() {
  if (!holds(2)) return false;
  if (top(0).kind != PickleKind::Text || top(1).kind != PickleKind::Text)
    return refuse("the name of a class is no text");
  const std::string_view name = graph_.text(top(0));
  const std::string_view module = graph_.text(top(1));
  drop(2);
  return find_class(module, name);
}

bool PickleReader::global() {
  std::string_view module;
  std::string_view name;
  return line(module) && line(name) && find_class(module, name);
}

bool PickleReader::new_object() {
  if (!holds(2)) return false;
  const PickleValue made = top(1);
  const PickleValue& arguments = top(0);
  if (arguments.kind != PickleKind::Tuple || arguments.size != 0)
    return refuse("an object of " + name_of(made) + " is made with arguments");
  drop(2);
  if (made.kind == PickleKind::Class) {
    if (made.number == static_cast<std::int64_t>(PickleClass::Node)) {
      graph_.nodes_.emplace_back();
      return push(PickleKind::Node, static_cast<std::int64_t>(graph_.nodes_.size() - 1));
    }
    if (made.number == static_cast<std::int64_t>(PickleClass::State)) {
      if (std::exchange(has_state_, true)) return refuse("it holds a second state");
      return push(PickleKind::State);
    }
  }
  return refuse("an object is made of " + name_of(made));
}

bool PickleReader::reduce() {
  if (!holds(2)) return false;
  const PickleValue called = top(1);
  const PickleValue arguments = top(0);
  if (called.kind != PickleKind::Class || arguments.kind != PickleKind::Tuple)
    return refuse(fmt::format("it calls {} with {}", name_of(called), to_string(arguments.kind)));
  drop(2);
  switch (static_cast<PickleClass>(called.number)) {
    case PickleClass::Datetime:
      return reduce_datetime(arguments);
    case PickleClass::Timezone:
      if (arguments.size != 1 || member(arguments, 0).kind != PickleKind::ZeroDelta)
        return refuse("a timezone is not plain UTC");
      return push(PickleKind::Utc);
    case PickleClass::Timedelta: {
      bool zero = arguments.size == 3;
      for (std::size_t i = 0; zero && i < 3; ++i)
        zero = member(arguments, i).kind == PickleKind::Int && member(arguments, i).number == 0;
      if (!zero) return refuse("a timedelta is not 0, and times must be UTC");
      return push(PickleKind::ZeroDelta);
    }
    case PickleClass::Set:
      return reduce_set(arguments);
    case PickleClass::Node:
    case PickleClass::State:
      break;
  }
  return refuse("it calls " + name_of(called));
}

bool PickleReader::reduce_datetime(const PickleValue& arguments) {
  const bool aware = arguments.size == 2 && member(arguments, 1).kind == PickleKind::Utc;
  if (arguments.size != 1 && !aware)
    return refuse("a datetime is made of more than ten bytes and UTC");
  const PickleValue& raw = member(arguments, 0);
  if (raw.kind != PickleKind::Bytes)
    return refuse("a datetime is made of " + std::string(to_string(raw.kind)));
  const auto micros = parse_datetime(graph_.text(raw));
  if (!micros) return refuse("a datetime of " + printable(graph_.text(raw)) + " is no moment");
  if (!push(PickleKind::Time, *micros)) return false;
  top().aware = aware;
  return true;
}

// How protocol 3 writes a set. The list lends its members instead of copying them, or a small
// pickle could ask for many copies of one long list.
bool PickleReader::reduce_set(const PickleValue& arguments) {
  if (arguments.size != 1 || member(arguments, 0).kind != PickleKind::List)
    return refuse("a set is made of something else than a list");
  PickleValue& list = graph_.values_[graph_.members_[arguments.first]];
  list.frozen = true;
  const std::uint32_t first = list.first;
  if (!push(PickleKind::Set, 0, list.size)) return false;
  top().first = first;
  top().frozen = true;
  return true;
}

bool PickleReader::build() {
  if (!holds(2)) return false;
  PickleValue& attributes = top(0);
  if (attributes.kind != PickleKind::Dict)
    return refuse("attributes are given as " + std::string(to_string(attributes.kind)));
  attributes.frozen = true;
  PickleValue& object = top(1);
  if (object.kind == PickleKind::State) {
    if (object.first != kNoPickleRef) return refuse("the state gets attributes twice");
    object.first = stack_.back();
  } else if (object.kind == PickleKind::Node) {
    if (!build_node(graph_.nodes_[static_cast<std::size_t>(object.number)], attributes))
      return false;
  } else {
    return refuse("attributes are given to " + name_of(object));
  }
  drop(1);
  return true;
}

bool PickleReader::build_node(PickledNode& node, const PickleValue& attributes) {
  if (node.complete) return refuse("a node gets attributes twice");
  if (attributes.size > 2 * kNodeAttributes)
    return refuse(fmt::format("a node with more than {} attributes", kNodeAttributes));
  bool has_fqdn = false;
  const PickleValue* address = nullptr;
  const PickleValue* pid = nullptr;
  const PickleValue* local_id = nullptr;
  const bool named = graph_.each_entry(attributes, [&](PickleRef key_ref, PickleRef value_ref) {
    const PickleValue& key = graph_[key_ref];
    const PickleValue& value = graph_[value_ref];
    if (key.kind != PickleKind::Text) return false;
    const std::string_view name = graph_.text(key);
    if (name == kAddrAttribute)
      address = &value;
    else if (name == kPidAttribute)
      pid = &value;
    else if (name == kLocalIdAttribute)
      local_id = &value;
    else if (name == kRegroupAttribute)
      node.regroup = value.kind == PickleKind::Text ? graph_.text(value) : std::string_view();
    else if (name == kFqdnAttribute)
      has_fqdn = true;
    return true;
  });
  if (!named) return refuse("an attribute of a node has a name that is no text");
  if (!address && has_fqdn) {
    error_ = outdated_state(
                 fmt::format("at byte {} a node has 'fqdn' in place of 'addr', as in PyTorch 1.13",
                             opcode_at_))
                 .value();
    return false;
  }
  const auto is = [&](const PickleValue* value, PickleKind kind, std::string_view name) {
    if (value && value->kind == kind) return true;
    return refuse(
        fmt::format("attribute {} of a node {}", printable(name),
                    value ? fmt::format("is {} and not {}", to_string(value->kind), to_string(kind))
                          : "is missing"));
  };
  if (!is(address, PickleKind::Text, kAddrAttribute) || !is(pid, PickleKind::Int, kPidAttribute) ||
      !is(local_id, PickleKind::Int, kLocalIdAttribute))
    return false;
  if (address->size > kAddressBytes)
    return refuse(
        fmt::format("a node's address of {} bytes; the limit is {}", address->size, kAddressBytes));
  node.address = graph_.text(*address);
  node.pid = pid->number;
  node.local_id = local_id->number;
  node.complete = true;
  return true;
}

}  // namespace regroup::wire
