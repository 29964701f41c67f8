// The host of a run's coordinator (the real one): its sessions and its clock.
// It dies, and is started again with nothing remembered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_buffer.h"
#include "core/coordinator/coordinator.h"
#include "sim/session/session_invariants.h"
#include "sim/session/session_links.h"
#include "sim/session/session_plan.h"
#include "sim/world/store.h"
#include "sim/world/trace.h"

namespace regroup::sim {

// What the host of the coordinator does not know, and the invariants ask for.
class HostSurroundings {
 public:
  virtual ~HostSurroundings() = default;
  virtual std::vector<SessionView> views() const = 0;
  virtual SessionView view(std::int32_t node) const = 0;
  virtual Duration well_for(std::int32_t node) const = 0;
  // Of the run, under its key. `writer`: the node that has swapped it in; none: the coordinator.
  virtual void state_changed(const core::rendezvous::State& before,
                             const core::rendezvous::State& after,
                             const core::rendezvous::NodeId* writer) = 0;
  virtual void phase_over(const std::string& phase) = 0;
};

class SessionHost {
 public:
  SessionHost(const SessionPlan& plan, Broken broken, Happenings& agenda, Links& links,
              SessionInvariants& invariants, const Trace& trace, HostSurroundings& world)
      : plan_(plan),
        broken_(broken),
        agenda_(agenda),
        links_(links),
        invariants_(invariants),
        trace_(trace),
        world_(world) {}

  void start();
  void die();
  bool is_up() const { return up_; }
  std::int64_t life() const { return life_; }
  // None: no node has said hello in this life.
  const core::coordinator::Coordinator* coordinator() const {
    return coordinator_ ? &*coordinator_ : nullptr;
  }

  // A node without a session asks the store. `makes_key`: its connection is new.
  Answer apply(const Request& request, bool makes_key, bool given_up,
               std::optional<Change>& change);
  // The run's; null: there is none.
  const core::rendezvous::State* state() const;

  void on_bytes(LinkId link, std::string_view bytes);  // None: the connection is lost.

  bool knows(LinkId link) const { return sessions_.contains(link) && sessions_.at(link).known; }
  std::optional<Duration> closed_for(std::int32_t node) const;
  std::int64_t told() const { return told_; }  // All but pongs, ever.

 private:
  struct Session {
    ByteBuffer in;
    std::int32_t node = 0;
    bool known = false;  // It has said hello.
    core::rendezvous::NodeId id;
  };
  void hear(LinkId link, const core::coordinator::FromAgent& message);
  void begin_run(const RunRules& rules);
  void carry_out(core::coordinator::Effects effects);
  void send(LinkId link, core::coordinator::FromCoordinator message);
  void wake_in_time();
  void show();
  void note_state();
  void check_phase(const core::coordinator::Effects& effects);
  core::rendezvous::Now now() const { return plan_.host_clock.read(agenda_.now()); }
  void tell(const std::string& text) const { trace_.line(agenda_.now(), "host", text); }

  const SessionPlan& plan_;
  const Broken broken_;
  Happenings& agenda_;
  Links& links_;
  SessionInvariants& invariants_;
  const Trace& trace_;
  HostSurroundings& world_;

  bool up_ = false;
  std::int64_t life_ = 0;
  std::optional<core::coordinator::Coordinator> coordinator_;
  std::string phase_;  // Of the run's state, when it was last looked at.
  std::map<LinkId, Session> sessions_;
  std::map<std::int32_t, Instant> closed_;
  std::optional<Instant> wake_at_;
  int spins_ = 0;  // Calls in a row that ask for another one at once.
  std::int64_t told_ = 0;

  // What nodes without a session see, and what it stands for. It is encoded when one of them looks,
  // and again only if the state has changed since; else no swap of theirs could win.
  Store store_;
  std::shared_ptr<const Value> text_;
  std::optional<core::rendezvous::State> shown_;
  std::optional<core::rendezvous::State> noted_;
};

}  // namespace regroup::sim
