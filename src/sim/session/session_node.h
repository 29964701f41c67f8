// One machine of a run with a coordinator: an agent that speaks with it (the real Member), and a
// group of workers, one round's at a time.
//
// Workers stop when they are told to, at once or after up to the whole grace; they fail or succeed
// by themselves while the faults last.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/coordinator/member.h"
#include "sim/session/connected_node.h"

namespace regroup::sim {

class SessionNode final : public ConnectedNode {
 public:
  SessionNode(const SessionPlan& plan, std::int32_t index, Broken broken,
              SessionSurroundings& world);

  void start() override;
  void crash() override;
  void leave(bool close);  // It says so, and ends.
  void fail_worker() override;
  void succeed();

  bool is_running() const override { return member_.has_value(); }
  bool is_spare() const { return member_ && member_->joining() && member_->is_spare(); }
  std::optional<std::int64_t> runs() const override;
  bool is_training() const { return group_ && !group_->stopping; }
  const core::coordinator::Member* member() const { return member_ ? &*member_ : nullptr; }

 private:
  struct Group {
    std::int64_t round = 0;
    bool stopping = false;
    std::int64_t number = 0;  // Tells apart the groups of one process.
  };
  std::vector<core::coordinator::FromAgent> introduction() override;
  void hear(core::coordinator::FromCoordinator message) override;
  void follow();  // Acts on what the conversation has come to.
  void join();
  void start_workers();
  void plan_fortune();
  void stop_workers();
  void end(std::string_view why, bool for_good);
  SessionView view() const;

  const Broken broken_;
  bool ended_ = false;  // For good: it was told that the run is over.
  std::optional<core::coordinator::Member> member_;
  std::optional<Group> group_;
  std::optional<std::int64_t> begun_;  // The round whose workers were started last.
  std::int64_t groups_ = 0;
};

}  // namespace regroup::sim
