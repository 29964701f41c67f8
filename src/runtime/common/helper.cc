#include "runtime/common/helper.h"

#include <mutex>

#include "runtime/common/console_thread.h"

namespace regroup::runtime {

struct Helper::Home {
  std::mutex mutex;
  io::Loop* loop;  // Null once the helper has ended.
};

Helper::Helper(io::Loop& loop, const char* name) : name_(name), home_(std::make_shared<Home>()) {
  home_->loop = &loop;
}

Helper::~Helper() {
  const std::lock_guard lock(home_->mutex);
  home_->loop = nullptr;
}

std::function<void(std::function<void()>)> Helper::poster() const {
  return [home = home_](std::function<void()> task) {
    const std::lock_guard lock(home->mutex);
    if (home->loop == nullptr) return;
    home->loop->post([home, task = std::move(task)] {
      {
        const std::lock_guard still(home->mutex);
        if (home->loop == nullptr) return;
      }
      task();
    });
  };
}

void Helper::start(std::function<void()> work, std::function<void(const std::string&)> done) {
  const auto deliver = [post = poster(), done = std::move(done)](const std::string& trouble) {
    post([done, trouble] { done(trouble); });
  };
  auto thread = start_quiet_thread(name_, [work = std::move(work), deliver] {
    work();
    deliver("");
  });
  if (!thread) return deliver(thread.error().message);
  thread->detach();
}

}  // namespace regroup::runtime
