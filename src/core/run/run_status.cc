#include "core/run/run_status.h"

namespace regroup::core::run {

std::string_view word_of(NodeStatus::Place place) {
  switch (place) {
    case NodeStatus::Place::Idle:
      return "idle";
    case NodeStatus::Place::Member:
      return "member";
    case NodeStatus::Place::Done:
      return "done";
    case NodeStatus::Place::Joined:
      return "joined";
    case NodeStatus::Place::Waiting:
      return "waiting";
    case NodeStatus::Place::Spare:
      return "spare";
  }
  return "";
}

}  // namespace regroup::core::run
