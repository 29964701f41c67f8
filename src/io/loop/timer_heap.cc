#include "io/loop/timer_heap.h"

namespace regroup::io {
namespace {

bool earlier(const TimerHeap::Entry& a, const TimerHeap::Entry& b) {
  return a.at != b.at ? a.at < b.at : a.order < b.order;
}

}  // namespace

void TimerHeap::set(Entry& entry, Instant at) {
  entry.at = at;
  entry.order = ++orders_;
  if (entry.place == Entry::kNowhere) {
    heap_.push_back(&entry);
    entry.place = heap_.size() - 1;
  }
  sift_up(entry);
  sift_down(entry);
}

void TimerHeap::remove(Entry& entry) {
  if (entry.place == Entry::kNowhere) return;
  Entry& last = *heap_.back();
  heap_.pop_back();
  if (&last != &entry) {
    put(entry.place, last);
    sift_up(last);
    sift_down(last);
  }
  entry.place = Entry::kNowhere;
}

void TimerHeap::put(std::size_t place, Entry& entry) {
  heap_[place] = &entry;
  entry.place = place;
}

void TimerHeap::sift_up(Entry& entry) {
  while (entry.place > 0) {
    const std::size_t above = (entry.place - 1) / 2;
    if (!earlier(entry, *heap_[above])) return;
    const std::size_t place = entry.place;
    put(place, *heap_[above]);
    put(above, entry);
  }
}

void TimerHeap::sift_down(Entry& entry) {
  while (true) {
    std::size_t below = 2 * entry.place + 1;
    if (below >= heap_.size()) return;
    if (below + 1 < heap_.size() && earlier(*heap_[below + 1], *heap_[below])) ++below;
    if (!earlier(*heap_[below], entry)) return;
    const std::size_t place = entry.place;
    put(place, *heap_[below]);
    put(below, entry);
  }
}

}  // namespace regroup::io
