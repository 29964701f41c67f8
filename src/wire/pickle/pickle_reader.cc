#include "wire/pickle/pickle_reader.h"

#include "wire/bytes/limits.h"
#include "wire/pickle/pickle_machine.h"

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

tl::unexpected<Error> corrupt_state(std::string_view what) {
  return fail(ErrorKind::Protocol, "the rendezvous state is corrupt: " + std::string(what));
}

tl::unexpected<Error> outdated_state(std::string_view what) {
  return fail(ErrorKind::Unsupported,
              "the rendezvous state was written by a PyTorch that is too old: " +
                  std::string(what) + ". Every node needs PyTorch 2.4 or newer.");
}

Result<PickleGraph> read_pickle(std::string_view bytes) {
  if (bytes.size() > kStateBytes)
    return corrupt_state("it has " + std::to_string(bytes.size()) + " bytes; the limit is " +
                         std::to_string(kStateBytes));
  return PickleReader(bytes).run();
}

}  // namespace regroup::wire
