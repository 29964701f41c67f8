// One machine of a run with a coordinator: an agent that speaks with it (the real Member), and a
// group of workers, one round's at a time.
//
// Workers stop when they are told to, at once or after up to the whole grace; they fail or succeed
// by themselves while the faults last. A process that ended is followed by another, under the same
// name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_buffer.h"
#include "core/coordinator/member.h"
#include "sim/session/session_invariants.h"
#include "sim/session/session_links.h"
#include "sim/session/session_plan.h"
#include "sim/world/trace.h"

namespace regroup::sim {

// What a node can do to the world around it.
class SessionSurroundings {
 public:
  virtual ~SessionSurroundings() = default;
  virtual Instant now() const = 0;
  virtual void later(std::int32_t node, Instant at, std::function<void()> act) = 0;
  // Ends in on_connected() or on_unreachable().
  virtual void connect(std::int32_t node) = 0;
  virtual Links& links() = 0;
  // Workers do something by themselves.
  virtual bool is_stormy() const = 0;
  // The workers of this round fail on one node; those of others may follow.
  virtual void group_failed(std::int32_t node, std::int64_t round) = 0;
  virtual SessionInvariants& invariants() = 0;
  virtual const Trace& trace() const = 0;
};

class SessionNode {
 public:
  SessionNode(const SessionPlan& plan, std::int32_t index, Broken broken,
              SessionSurroundings& world);

  void start();
  void crash();            // Its workers die with it.
  void leave(bool close);  // Says so, and ends.
  void fail_worker();
  void succeed();

  void on_connected(LinkId link);
  void on_unreachable();
  void on_bytes(LinkId link, std::string_view bytes);  // None: the connection is lost.

  bool is_running() const { return member_.has_value(); }
  bool is_spare() const { return member_ && member_->joining() && member_->is_spare(); }
  std::int64_t process() const { return process_; }
  core::rendezvous::NodeId id() const;
  std::optional<LinkId> link() const { return link_; }
  // Workers are there, of this round; and they are all well.
  std::optional<std::int64_t> runs() const;
  const std::string& group() const { return self_.group; }
  bool is_training() const { return group_ && !group_->stopping; }
  const core::coordinator::Member* member() const { return member_ ? &*member_ : nullptr; }

 private:
  struct Group {
    std::int64_t round = 0;
    bool stopping = false;
    std::int64_t number = 0;  // Tells apart the groups of one process.
  };
  void say(const core::coordinator::FromAgent& message);
  void hear(const core::coordinator::FromCoordinator& message);
  void follow();  // What the conversation has come to.
  void join();
  void start_workers();
  void plan_fortune();
  void stop_workers();
  void lose_connection(std::string_view why);
  void look_at_connection(LinkId link);
  void end(std::string_view why, bool for_good);
  void after(Duration own, std::function<void()> act);
  void tell(std::string_view text) const;
  Instant own_now() const;
  SessionView view() const;

  const SessionPlan& plan_;
  const SessionNodePlan& self_;
  const std::int32_t index_;
  const Broken broken_;
  SessionSurroundings& world_;
  Dice dice_;

  std::int64_t process_ = 0;
  bool ended_ = false;  // For good: it was told that the run is over.
  std::optional<core::coordinator::Member> member_;
  std::optional<LinkId> link_;
  bool connecting_ = false;
  ByteBuffer in_;
  Duration retry_{};
  Instant heard_;
  std::optional<Group> group_;
  std::optional<std::int64_t> begun_;  // The round whose workers were started last.
  std::int64_t groups_ = 0;
  std::uint64_t pings_ = 0;
};

}  // namespace regroup::sim
