// A node of a run with a coordinator, as far as its connection goes: it connects, introduces
// itself, pings, notices when the coordinator is gone, and tries again. What it says and does
// besides is for SessionNode and WholeNode.
//
// A process that ended is followed by another, under the same name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_buffer.h"
#include "core/coordinator/messages.h"
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
  virtual std::int64_t life() const = 0;  // The life of the coordinator's host.
  virtual Links& links() = 0;
  // Workers do something by themselves.
  virtual bool is_stormy() const = 0;
  // The workers of this round fail on one node; those of others may follow.
  virtual void group_failed(std::int32_t node, std::int64_t round) = 0;
  virtual SessionInvariants& invariants() = 0;
  virtual const Trace& trace() const = 0;
};

class ConnectedNode {
 public:
  ConnectedNode(const SessionPlan& plan, std::int32_t index, SessionSurroundings& world);
  virtual ~ConnectedNode() = default;
  ConnectedNode(const ConnectedNode&) = delete;
  ConnectedNode& operator=(const ConnectedNode&) = delete;

  virtual void start() = 0;
  virtual void crash() = 0;  // Its workers die with it.
  virtual void fail_worker() = 0;
  virtual bool is_running() const = 0;
  virtual std::optional<std::int64_t> runs() const = 0;  // Workers are there, of this round.

  void on_connected(LinkId link);
  void on_unreachable();
  void on_bytes(LinkId link, std::string_view bytes);  // None: the connection is lost.

  std::int64_t process() const { return process_; }
  core::rendezvous::NodeId id() const;
  std::optional<LinkId> link() const { return link_; }
  const std::string& group() const { return self_.group; }

 protected:
  virtual std::vector<core::coordinator::FromAgent> introduction() = 0;
  virtual void hear(core::coordinator::FromCoordinator message) = 0;
  // The connection is lost. False: no other one is wanted.
  virtual bool wants_another(std::string_view /*why*/) { return true; }

  // For a process that starts, one that ends by itself, and one that is killed.
  void begin_connecting();
  void disconnect();
  void die();

  void say(const core::coordinator::FromAgent& message);
  std::uint64_t ping();  // Its number.
  void tell(std::string_view text) const;
  void after(Duration own, std::function<void()> act);
  Instant own_now() const { return self_.clock.read(world_.now()).instant; }
  std::int64_t link_life() const { return link_life_; }

  const SessionPlan& plan_;
  const SessionNodePlan& self_;
  const std::int32_t index_;
  SessionSurroundings& world_;
  Dice dice_;
  std::int64_t process_ = 0;

 private:
  void lose_connection(std::string_view why);
  void look_at_connection(LinkId link);

  std::optional<LinkId> link_;
  std::int64_t link_life_ = 0;  // The life of the host at its other end.
  bool connecting_ = false;
  ByteBuffer in_;
  Duration retry_{};
  Instant heard_;
  std::uint64_t pings_ = 0;
};

}  // namespace regroup::sim
