#include "wire/pickle/pickle_graph.h"

namespace regroup::wire {

std::string_view to_string(PickleKind kind) {
  switch (kind) {
    case PickleKind::None:
      return "None";
    case PickleKind::Bool:
      return "a bool";
    case PickleKind::Int:
      return "an int";
    case PickleKind::Text:
      return "a text";
    case PickleKind::Bytes:
      return "bytes";
    case PickleKind::Tuple:
      return "a tuple";
    case PickleKind::List:
      return "a list";
    case PickleKind::Dict:
      return "a dict";
    case PickleKind::Set:
      return "a set";
    case PickleKind::Class:
      return "a class";
    case PickleKind::ZeroDelta:
      return "a timedelta";
    case PickleKind::Utc:
      return "a timezone";
    case PickleKind::Time:
      return "a datetime";
    case PickleKind::Node:
      return "a node";
    case PickleKind::State:
      return "a state";
  }
  return "";
}

}  // namespace regroup::wire
