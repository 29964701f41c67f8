#include "io/process/end_watch.h"

#include <utility>

#include "io/loop/loop.h"

namespace regroup::io {

std::unique_ptr<EndWatch> EndWatch::start(Loop& loop, int pidfd, std::function<void()> ended) {
  std::unique_ptr<EndWatch> watch(new EndWatch(loop.sockets(), pidfd, std::move(ended)));
  if (loop.sockets().add(pidfd, EPOLLIN, *watch)) return watch;
  watch->set_ = nullptr;
  return nullptr;
}

EndWatch::EndWatch(ReadySet& set, int pidfd, std::function<void()> ended)
    : set_(&set), pidfd_(pidfd), ended_(std::move(ended)) {}

EndWatch::~EndWatch() { stop(); }

void EndWatch::stop() {
  if (set_ != nullptr) std::exchange(set_, nullptr)->remove(pidfd_, *this);
}

void EndWatch::ready(std::uint32_t) {
  stop();  // The descriptor stays readable for ever.
  // The callback may well destroy the process, and this watch with it. So it runs from the stack,
  // and nothing here is touched after it.
  const auto callback = std::move(ended_);
  callback();
}

}  // namespace regroup::io
