// The world's only clock, and what is going to happen when. Two events of one instant come in the
// order in which they were planned, so that a run is the same every time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/instant.h"

namespace regroup::sim {

struct Request;
struct Answer;

enum class EventKind : std::uint8_t {
  RequestArrives,   // At the store.
  AnswerArrives,    // At the node that asked.
  AnswerOverdue,    // The node gives a request up.
  Wakes,            // A node's own timer.
  AnnounceArrives,  // A node tells the store that a phase is over.
  PhaseOver,        // The store tells a node.
  Start,            // A process of the node starts.
  PartitionEnds,
  Close,  // The node is told to close the run.
  NextFault,
  FaultsStop,
  MustHaveMet,
  MustBeSteady,
  MustHaveEnded,
};

struct Event {
  Instant at;
  std::uint64_t order = 0;
  EventKind kind = EventKind::NextFault;
  std::int32_t node = -1;
  // Which of the node's processes, and which of its waits: both are over once the node goes on.
  std::int64_t process = 0;
  std::uint64_t wait = 0;
  std::shared_ptr<const Request> request = {};
  std::shared_ptr<const Answer> answer = {};
};

template <class Kind>
class Agenda {
 public:
  Instant now() const { return now_; }

  void plan(Kind event) {
    event.order = planned_++;
    put_off(std::move(event));
  }
  // Of events that are put off to one instant, the one that was planned first still comes first.
  void put_off(Kind event) {
    CHECK(event.at >= now_);
    heap_.push_back(std::move(event));
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  bool empty() const { return heap_.empty(); }

  Kind next() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Kind event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.at;
    return event;
  }

 private:
  static bool later(const Kind& a, const Kind& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  Instant now_;
  std::uint64_t planned_ = 0;
  std::vector<Kind> heap_;
};

using EventQueue = Agenda<Event>;

}  // namespace regroup::sim
