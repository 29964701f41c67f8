// A rendezvous without a coordinator, played by a test.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "regroup/rendezvous.h"
#include "regroup/result.h"

namespace regroup::runtime {

// What the rendezvous says; set by the test, read by the rounds' thread.
struct Script {
  std::mutex mutex;
  Result<RendezvousInfo> round = fail(ErrorKind::Timeout, "nobody came");
  Result<RendezvousStatus> status = RendezvousStatus{};
  std::vector<std::string> asked;

  void ask(const std::string& what) {
    const std::lock_guard lock(mutex);
    asked.push_back(what);
  }
};

class PlayedRendezvous final : public RendezvousHandler {
 public:
  explicit PlayedRendezvous(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  std::string backend() const override { return "played"; }
  std::string run_id() const override { return "r"; }
  Result<RendezvousInfo> next_rendezvous() override {
    script_->ask("join");
    const std::lock_guard lock(script_->mutex);
    return script_->round;
  }
  Result<bool> is_closed() override { return false; }
  Result<std::int64_t> num_nodes_waiting() override { return 0; }
  Result<RendezvousStatus> status() override {
    const std::lock_guard lock(script_->mutex);
    return script_->status;
  }
  Result<void> set_closed() override { return {}; }
  Result<void> shutdown() override {
    script_->ask("close");
    return {};
  }
  Result<void> leave() override {
    script_->ask("leave");
    return {};
  }
  bool use_agent_store() const override { return true; }

 private:
  std::shared_ptr<Script> script_;
};

}  // namespace regroup::runtime
