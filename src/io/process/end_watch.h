// Reports the end of one process, by its pidfd. For this room alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "io/loop/ready_set.h"

namespace regroup::io {

class Loop;

// The descriptor and the loop outlive it. On the loop's thread.
class EndWatch final : public Watcher {
 public:
  // `ended` is called once, at once if the process has ended already. It may destroy the watch.
  // Null: no descriptors or memory left.
  static std::unique_ptr<EndWatch> start(Loop& loop, int pidfd, std::function<void()> ended);
  ~EndWatch() override;
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

 private:
  EndWatch(ReadySet& set, int pidfd, std::function<void()> ended);
  void ready(std::uint32_t events) override;
  void stop();

  ReadySet* set_;  // Null: it does not watch any more.
  int pidfd_;
  std::function<void()> ended_;
};

}  // namespace regroup::io
