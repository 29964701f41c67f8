#include "io/loop/ready_set.h"

#include <cerrno>
#include <system_error>

#include "base/check.h"

namespace regroup::io {

ReadySet::ReadySet() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

bool ReadySet::add(int fd, std::uint32_t events, Watcher& watcher) {
  epoll_event event{events, {.ptr = &watcher}};
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void ReadySet::change(int fd, std::uint32_t events, Watcher& watcher) {
  epoll_event event{events, {.ptr = &watcher}};
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void ReadySet::remove(int fd, Watcher& watcher) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  for (int i = 0; i < batch_size_; ++i)
    if (batch_[i].data.ptr == &watcher) batch_[i].data.ptr = nullptr;
}

bool ReadySet::dispatch_within(int milliseconds) {
  batch_size_ =
      ::epoll_wait(epoll_.get(), batch_.data(), static_cast<int>(batch_.size()), milliseconds);
  CHECK(batch_size_ >= 0 || errno == EINTR);
  for (int i = 0; i < batch_size_; ++i)
    if (auto* watcher = static_cast<Watcher*>(batch_[i].data.ptr)) watcher->ready(batch_[i].events);
  const bool somebody = batch_size_ > 0;
  more_ = batch_size_ == static_cast<int>(batch_.size());
  batch_size_ = 0;
  return somebody;
}

void ReadySet::dispatch_all() {
  // The kernel puts a descriptor that was reported, and is ready again, behind all the others. So
  // every one that is ready now comes before a busy one has its second turn; those that are always
  // busy must not hold us.
  constexpr int kMostBatches = 1024;
  for (int batches = 0; batches < kMostBatches; ++batches) {
    dispatch();
    if (!more_) return;
  }
}

}  // namespace regroup::io
